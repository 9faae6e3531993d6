"""Tasks that run the user's own program: their parameters, and which programs a party allows.

`problems` checks the parameters of one party and returns texts that name the key, the value and what would be right.
`read_program` makes values of parameters without problems. Each party decides by itself whether it runs the program
(`ProgramRules`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fate_flow.core.model.grammar import shown

SHELL = "/bin/sh"

MOST_REPLICAS = 256
MOST_INTERRUPTED = 10
"""How many workers of one party task are replaced after an interruption; interruptions use up no other limit."""

RESERVED = ("FATE_FLOW_", "YT_", "VC_", "VK_")
"""Prefixes of the environment variables that the server sets for a worker."""

_LOADS_CODE = re.compile(
    r"LD_.*|DYLD_.*|GCONV_PATH|LOCPATH|OPENSSL_(CONF|MODULES|ENGINES)|SSLKEYLOGFILE|PATH|IFS|ENV|SHELLOPTS|BASHOPTS"
    r"|BASH_.*|ZDOTDIR|PROMPT_COMMAND|PS4|EDITOR|VISUAL|PAGER|BROWSER|LESSOPEN|LESSCLOSE|MPLBACKEND|MPLCONFIGDIR"
    r"|PYTHON(PATH|HOME|STARTUP|INSPECT|USERBASE|WARNINGS|BREAKPOINT|EXECUTABLE|PLATLIBDIR|PYCACHEPREFIX)|IPYTHONDIR"
    r"|JUPYTER_(PATH|CONFIG.*)|PERL.*|RUBY(LIB|OPT.*)|GEM_(HOME|PATH)|BUNDLE_.*|NODE_(PATH|OPTIONS|REPL_.*)"
    r"|(_JAVA|JDK_JAVA|JAVA_TOOL)_OPTIONS|(MAVEN|SBT)_OPTS|CLASSPATH|JAVA_HOME"
    r"|(HADOOP|SPARK)_(CONF_DIR|HOME|.*CLASSPATH|.*OPTS)|R_(PROFILE.*|ENVIRON.*|LIBS.*|HOME|DEFAULT_PACKAGES)"
    r"|JULIA_(LOAD_PATH|DEPOT_PATH|PROJECT|BINDIR)|LUA_.*|PHPRC|PHP_INI_SCAN_DIR|TCLLIBPATH|TCL_LIBRARY|TK_LIBRARY"
    r"|GUILE_LOAD.*|ERL_(LIBS|FLAGS|.*FLAGS)|CAML_LD_LIBRARY_PATH|DOTNET_(STARTUP_HOOKS|ADDITIONAL_DEPS|SHARED_STORE)"
    r"|(CORECLR|COR)_PROFILER.*|GIT_.*|SSH_ASKPASS|MAKEFLAGS|MAKEFILES|GCC_EXEC_PREFIX|COMPILER_PATH|LIBRARY_PATH"
    r"|GIO_.*|GTK_(MODULES|PATH|EXE_PREFIX|IM_MODULE_FILE)|QT_.*PATH|QML.*PATH|MAGICK_.*PATH|KRB5_CONFIG|SASL_PATH"
    r"|LDAPCONF|LDAPRC|ODBC(SYSINI|INI|INSTINI)|AWS_(CONFIG_FILE|SHARED_CREDENTIALS_FILE|PROFILE)|OCL_ICD_.*"
)
"""Variables of common languages and libraries that can make an allowed program run code that is not allowed."""

MOST_SENT = 1024 * 1024      # bytes of all files that are sent with the job to one party
SENT = "./"
"""The prefix by which a command names a program that is one of its `files`."""

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
WORK_FOLDERS = "work"
"""The input with which the collector of the outputs gets the working folders of its party's ranks, in their order."""

_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_VOLUME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,49}")
SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")
_OUTPUT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,29}")      # the rule for names of outputs in a DSL
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_ARGUMENTS, _MOST_NAMES, _LONGEST, _LONGEST_PATH = 1_000, 200, 100_000, 1_000


@dataclass(frozen=True)
class Secret:
    """A text that a party gives to programs. Other parties know only its name."""

    file: str
    initiators: tuple[str, ...] = ()     # parties whose jobs get it; this party's own jobs always do


BUBBLEWRAP = "bubblewrap"               # of commands.sandbox: the one that is on the PATH


@dataclass(frozen=True)
class ProgramRules:
    """Which programs jobs may run at a party, and with what: the section `commands` of its configuration."""

    enabled: bool = False
    allow: tuple[str, ...] = ()          # absolute paths of programs, and sha256:<digest> of their content
    share_logs: bool = False             # whether a job's initiator may read the output of its workers here
    files_root: str = ""                 # the folder below which a job may name files; empty: none
    volumes: Mapping[str, str] = field(default_factory=dict)     # folders that a job may use, by name
    output_max_bytes: int = 16 * 1024 * 1024      # kept of stdout and of stderr of a worker; 0: all of it
    secrets: Mapping[str, Secret] = field(default_factory=dict)  # by name
    user: str = ""                       # as whom programs run; empty: as the server's user
    sandbox: str = ""                    # the path of bubblewrap, which runs programs; empty: they have no sandbox
    as_root: bool = False                # whether they may run as the server's user if that is root
    home: str = ""                       # of the server that runs them, which a sandbox hides; no key of the section


@dataclass(frozen=True)
class InputFile:
    """A file in the working folder, either sent with the job or taken from the party's disk."""

    name: str
    path: str = ""                       # below `files_root` of the party; empty: the file was sent
    content: str = ""
    is_base64: bool = False
    sha256: str = ""                     # empty: any content

    @property
    def sent(self) -> bytes | None:
        """The content that was sent; None for a file on the party's disk."""
        if self.path:
            return None
        return base64.b64decode(self.content) if self.is_base64 else self.content.encode()


@dataclass(frozen=True)
class OutputFile:
    """A file in the working folder that is kept when the task has succeeded at all parties."""

    name: str
    path: str
    is_table: bool = False               # a CSV file that becomes a table
    rank: int = 0                        # of the worker that writes it, inside its party


@dataclass(frozen=True)
class ProgramSpec:
    """What one party runs for a task."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1                    # workers of this party
    size: int = 1                        # workers with a rank; the others are spare or elastic
    elastic: int = 0                     # workers without rank that the reservation does not cover
    is_gang: bool = True                 # one bad end of a worker breaks the party task
    max_failed: int = 0                  # failed workers that are replaced; not in a gang
    restarts_completed: bool = False     # a service: workers that ended well start again
    files: tuple[InputFile, ...] = ()
    volumes: tuple[str, ...] = ()
    outputs: tuple[OutputFile, ...] = ()
    core_dumps: bool = False
    secrets: tuple[str, ...] = ()        # names of the party's secrets that it gets
    fails_on_restart: bool = False       # the task fails rather than start a worker again

    @property
    def min_replicas(self) -> int:
        """The number of workers that the reservation covers."""
        return self.replicas - self.elastic

    @property
    def program_file(self) -> InputFile | None:
        """The file with the program, if the program is one of the task's files; else None."""
        name = self.argv[0].removeprefix(SENT) if self.argv[0].startswith(SENT) else ""
        return next((one for one in self.files if one.name == name), None)


def read_program(parameters: Mapping[str, Any]) -> ProgramSpec:
    """Return the program that the parameters describe. They must have no `problems`."""
    command = parameters["command"]
    replicas = parameters.get("replicas") or 1
    max_failed, restarts = parameters.get("max_failed_workers") or 0, bool(parameters.get("restart_completed_workers"))
    return ProgramSpec(
        argv=(SHELL, "-c", command) if isinstance(command, str) else tuple(command),
        env=dict(parameters.get("env") or {}),
        replicas=replicas,
        size=_size(parameters),
        elastic=replicas - _fewest(parameters),
        is_gang=not max_failed and not restarts,
        max_failed=max_failed,
        restarts_completed=restarts,
        files=tuple(
            InputFile(
                one["name"], one.get("path") or "", one.get("content") or "", one.get("encoding") == "base64",
                one.get("sha256") or "",
            )
            for one in parameters.get("files") or ()
        ),
        volumes=tuple(parameters.get("volumes") or ()),
        outputs=tuple(
            OutputFile(one["name"], one["path"], one.get("kind") == "table", one.get("rank") or 0)
            for one in parameters.get("outputs") or ()
        ),
        core_dumps=bool(parameters.get("core_dumps")),
        secrets=tuple(parameters.get("secrets") or ()),
        fails_on_restart=bool(parameters.get("fail_on_worker_restart")),
    )  # fmt: skip


COUNTS = ("replicas", "min_replicas", "size", "max_failed_workers", "restart_completed_workers")
"""The parameters that decide how many workers a party has. The workers of all other parties need them for their ranks,
so they are never withheld."""


def problems_of_counts(parameters: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the numbers of workers of a party whose other parameters are not known here."""
    return [f"{key}: {problem}" for key in COUNTS for problem in _CHECKS[key](parameters.get(key))]


def counted_program(parameters: Mapping[str, Any]) -> ProgramSpec:
    """Return the program of a party as far as its numbers of workers say. They must have no `problems_of_counts`."""
    replicas = parameters.get("replicas") or 1
    return ProgramSpec((), replicas=replicas, size=_size(parameters), elastic=replicas - _fewest(parameters))


def _fewest(parameters: Mapping[str, Any]) -> int:
    """Return the number of workers that are not elastic."""
    return int(parameters.get("min_replicas") or parameters.get("replicas") or 1)


def _size(parameters: Mapping[str, Any]) -> int:
    """Return the number of workers with a rank. If workers are replaced one by one: all that are not elastic."""
    if any(parameters.get(key) for key in _BY_ITSELF):
        return _fewest(parameters)
    return int(parameters.get("size") or parameters.get("replicas") or 1)


def secret_variables(name: str) -> tuple[str, ...]:
    """Return the environment variables of this secret: ours, and the one of YTsaurus."""
    return f"FATE_FLOW_SECRET_{name}", f"YT_SECURE_VAULT_{name}"


def volume_variable(name: str) -> str:
    """Return the environment variable with the folder of this volume."""
    return f"FATE_FLOW_VOLUME_{name.upper().replace('-', '_')}"


def problems(parameters: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the parameters of a party; empty if `read_program` accepts them."""
    found = [f"{key}: {problem}" for key, check in _CHECKS.items() for problem in check(parameters.get(key))]
    return found or list(_exclusions(parameters))


def _exclusions(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of options that contradict each other."""
    replicas, size = parameters.get("replicas") or 1, _size(parameters)
    if size > replicas:
        yield f"size: {size} ranks are more than the {replicas} workers of replicas"
    else:
        yield from _too_few(_fewest(parameters), size, replicas)
    program, files = parameters["command"], parameters.get("files") or ()
    name = "" if isinstance(program, str) else program[0]
    if name.startswith(SENT) and name.removeprefix(SENT) not in {one["name"] for one in files}:
        yield f"command: {shown(name)} is not one of files"
    for one in parameters.get("outputs") or ():
        if (one.get("rank") or 0) >= size:
            yield f"outputs: {one['name']}: there is no rank {one['rank']}; it has 0 to {size - 1}"
    for key, (others, why) in _EXCLUDES.items():
        other = next((one for one in others if parameters.get(one)), None)
        if parameters.get(key) and other:
            yield f"{key}: excludes {other}; {why}"


def _too_few(fewest: int, size: int, replicas: int) -> Iterator[str]:
    if fewest > replicas:
        yield f"min_replicas: {fewest} are more than the {replicas} workers of replicas"
    elif fewest < size:
        yield (
            f"min_replicas: {fewest} are fewer than the {size} ranks of a gang, which needs them all; say "
            f"size: {fewest} as well, so that the others have no rank, or {' or '.join(_BY_ITSELF)}, with which there "
            "is no gang"
        )


_BY_ITSELF = ("restart_completed_workers", "max_failed_workers")
_EXCLUDES: Mapping[str, tuple[Collection[str], str]] = {
    "fail_on_worker_restart": (("size", "min_replicas", *_BY_ITSELF), "no worker is to begin again"),
    "size": (_BY_ITSELF, "a gang begins again as a whole"),
    "secrets": (("core_dumps",), "a core file would hold them"),
}
"""By option, the options that it excludes, and why."""


def _command(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if not value.strip() or "\0" in value or len(value) > _LONGEST:
            yield f"{shown(value)} is not a line for {SHELL} of at most {_LONGEST} characters"
        return
    if not isinstance(value, list) or not 1 <= len(value) <= _MOST_ARGUMENTS:
        yield f"{shown(value)} is neither a line for {SHELL} nor a list of arguments, the program first"
        return
    wrong = [word for word in value if not isinstance(word, str) or "\0" in word]
    if wrong or sum(map(len, value)) > _LONGEST:
        what = shown(wrong[0]) if wrong else f"more than {_LONGEST} characters"
        yield f"{what} is not an argument of a command: texts without NUL, at most {_LONGEST} characters in all"
    elif not _is_program(value[0]):
        yield f"{shown(value[0])} is not a program: an absolute path, a name in PATH, or {SENT}<one of files>"


def _is_program(name: str) -> bool:
    if name.startswith("/"):
        return not name.endswith("/")
    if name.startswith(SENT):
        return bool(_FILE_NAME.fullmatch(name.removeprefix(SENT)))
    return bool(name) and "/" not in name and name not in (".", "..")


def _env(value: object) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, Mapping) or len(value) > _MOST_NAMES:
        yield f"{shown(value)} is not an object of at most {_MOST_NAMES} names and their texts"
        return
    for name, text in value.items():
        if not isinstance(name, str) or not _ENV_NAME.fullmatch(name):
            yield f"{shown(name)} is not a name of letters, digits and _, no digit first"
        elif name.startswith(RESERVED):
            yield f"{name}: names that begin with {', '.join(RESERVED)} are set by the server"
        elif _LOADS_CODE.fullmatch(name):
            yield f"{name}: could make an allowed program load other code; set it in a script that is allowed"
        elif not isinstance(text, str) or "\0" in text or len(text) > _LONGEST:
            yield f"{name}: {shown(text)} is not text of at most {_LONGEST} characters"


def _files(value: object) -> Iterator[str]:
    yield from _entries(value, "name", _FILE_NAME, ("name", "content", "encoding", "path", "sha256"), _file)
    sizes = [len(one["content"]) for one in value if _is_sent(one)] if isinstance(value, list) else []
    if sum(sizes) > MOST_SENT:
        yield f"{sum(sizes)} characters of content are more than the {MOST_SENT} that may be sent with a job"


def _is_sent(entry: object) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("content"), str)


def _file(entry: Mapping[str, Any]) -> Iterator[str]:
    content, path, digest = entry.get("content"), entry.get("path"), entry.get("sha256")
    if (content is None) == (path is None):
        yield "needs either content or path"
    elif path is not None and not _is_below(path):
        yield f"path: {shown(path)} is not the path of a file below commands.files_root of the party, without .."
    elif entry.get("encoding") not in (None, "text", "base64"):
        yield f"encoding: {shown(entry['encoding'])} is neither text nor base64"
    elif digest is not None and not (isinstance(digest, str) and _DIGEST.fullmatch(digest)):
        yield f"sha256: {shown(digest)} is not 64 hex digits"
    elif content is not None:
        yield from _content(content, entry.get("encoding") == "base64", digest)


def _content(content: object, is_base64: bool, digest: str | None) -> Iterator[str]:
    try:
        if not isinstance(content, str):
            yield f"content: {shown(content)} is not text"
            return
        data = base64.b64decode(content, validate=True) if is_base64 else content.encode()
    except (binascii.Error, ValueError):
        yield "content: is not base64"
        return
    found = hashlib.sha256(data).hexdigest()
    if digest not in (None, found):
        yield f"sha256: {digest} is not that of content, which is {found}"


def _volumes(value: object) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, list) or len(value) > _MOST_NAMES:
        yield f"{shown(value)} is not a list of at most {_MOST_NAMES} names"
        return
    wrong = [one for one in value if not isinstance(one, str) or not _VOLUME.fullmatch(one)]
    if wrong:
        yield f"{shown(wrong[0])} is not a name of letters, digits, _ and -, a letter first"
    elif len({volume_variable(one) for one in value}) < len(value):
        yield "two names mean the same variable"


def _secrets(value: object) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, list) or len(value) > _MOST_NAMES:
        yield f"{shown(value)} is not a list of at most {_MOST_NAMES} names"
        return
    wrong = [one for one in value if not isinstance(one, str) or not SECRET_NAME.fullmatch(one)]
    if wrong:
        yield f"{shown(wrong[0])} is not a name of 1 to 50 letters, digits and _, no digit first"


def _outputs(value: object) -> Iterator[str]:
    yield from _entries(value, "name", _OUTPUT, ("name", "path", "kind", "rank"), _output)


def _output(entry: Mapping[str, Any]) -> Iterator[str]:
    rank = entry.get("rank")
    if not _is_below(entry.get("path")):
        yield f"path: {shown(entry.get('path'))} is not the path of a file below the working folder, without .."
    elif entry.get("kind") not in (None, "file", "table"):
        yield f"kind: {shown(entry['kind'])} is neither file nor table"
    elif rank is not None and (isinstance(rank, bool) or not isinstance(rank, int) or rank < 0):
        yield f"rank: {shown(rank)} is not a rank from 0"


def _entries(
    value: object, key: str, pattern: re.Pattern[str], known: Collection[str],
    check: Callable[[Mapping[str, Any]], Iterator[str]],
) -> Iterator[str]:  # fmt: skip
    """Yield the problems of a list of objects with unique names, and those that `check` finds in each object."""
    if value is None:
        return
    if not isinstance(value, list) or len(value) > _MOST_NAMES or not all(isinstance(one, Mapping) for one in value):
        yield f"{shown(value)} is not a list of at most {_MOST_NAMES} objects"
        return
    seen: set[str] = set()
    for one in value:
        name = one.get(key)
        if not isinstance(name, str) or not pattern.fullmatch(name):
            yield f"{key}: {shown(name)} is not a name of letters, digits, _ and -"
        elif name in seen:
            yield f"{key}: {name} is there twice"
        elif unknown := sorted(map(str, one.keys() - set(known))):
            yield f"{name}: {shown(unknown[0])} is not one of {', '.join(known)}"
        else:
            seen.add(name)
            yield from (f"{name}: {problem}" for problem in check(one))


def _is_below(path: object) -> bool:
    """Return whether the text of a path stays below its base folder (links are not followed)."""
    if not isinstance(path, str) or not 0 < len(path) <= _LONGEST_PATH or not path.isprintable():
        return False
    return all(piece not in ("", ".", "..") for piece in path.split("/"))


def _whole(minimum: int, maximum: int) -> Callable[[object], Iterator[str]]:
    def check(value: object) -> Iterator[str]:
        is_whole = isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum
        if value is not None and not is_whole:
            yield f"{shown(value)} is not a whole number from {minimum} to {maximum}"

    return check


def _flag(value: object) -> Iterator[str]:
    if value is not None and not isinstance(value, bool):
        yield f"{shown(value)} is neither true nor false"


_CHECKS: Mapping[str, Callable[[object], Iterator[str]]] = {
    "command": _command,
    "env": _env,
    "replicas": _whole(1, MOST_REPLICAS),
    "min_replicas": _whole(1, MOST_REPLICAS),
    "size": _whole(1, MOST_REPLICAS),
    "max_failed_workers": _whole(0, 1_000),
    "fail_on_worker_restart": _flag,
    "restart_completed_workers": _flag,
    "files": _files,
    "volumes": _volumes,
    "secrets": _secrets,
    "outputs": _outputs,
    "core_dumps": _flag,
}

PARAMETERS: Mapping[str, str] = {
    "command": f"a list of arguments, the program first, or a line for {SHELL}",
    "env": "environment variables: an object of names and texts",
    "replicas": f"the number of workers, from 1 to {MOST_REPLICAS}",
    "min_replicas": "the workers that the reservation covers; the others are elastic: they run on free capacity",
    "size": "the number of workers with a rank; the others are spare",
    "max_failed_workers": "how many failed workers are replaced before the share of the party fails",
    "fail_on_worker_restart": "true: if a worker ends badly, the task fails without a retry",
    "restart_completed_workers": "true: a worker that ends well starts again",
    "files": "a list of {name, content | path, encoding, sha256}: read-only files in the working folder",
    "volumes": "names of folders that the party offers; any other name is an empty folder, removed with the worker",
    "secrets": "names of secret texts of the party (commands.secrets); the text is in FATE_FLOW_SECRET_<name>",
    "outputs": "a list of {name, path, kind: file | table, rank}: files to keep when the task has succeeded everywhere",
    "core_dumps": "true: keep the core file of a program that crashes",
}
"""The parameters of a `Command` task, with a description for users."""
