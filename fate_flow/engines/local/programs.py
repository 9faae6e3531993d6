"""Which programs and files of this machine the jobs of a federation may use: by where a name leads, or by content.

Asked twice, when a job is submitted and by the worker itself just before it becomes the program. A link counts as what
it leads to. This says who may begin, it is no sandbox: what an allowed program reads, runs or loads is its own matter.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from fate_flow.core.model.grammar import shown
from fate_flow.core.model.program import InputFile, ProgramRules, ProgramSpec

log = logging.getLogger(__name__)

DIGEST = "sha256:"
_PIECE = 1024 * 1024
_MOST_KNOWN = 1_000
_LONGEST_SECRET = 64 * 1024


class NotAllowed(Exception):
    """This party does not run or give it; the text names the key of its configuration.

    `detail` is for the party itself: paths behind links, digests, and what else it allows."""

    def __init__(self, text: str, detail: str = "") -> None:
        super().__init__(text + detail)
        self._text = text

    def orders(self, initiator: str, own: str) -> str:
        """What the initiator of the job hears: of another party no more than it has written itself."""
        return str(self) if initiator in (own, "0") else self._text


@dataclass(frozen=True)
class ConfiguredProgramPolicy:
    """The policy of this party, applied to the files of this machine."""

    policy: ProgramRules
    own: str = ""                        # the id of this party
    _digests: Digests = field(default_factory=lambda: Digests(), compare=False)

    @property
    def reads_programs(self) -> bool:
        """Whether it may have to know what is in a program or file, which takes as long as that is large."""
        by_content = any(one.startswith(DIGEST) for one in self.policy.allow)
        return self.policy.enabled and (by_content or bool(self.policy.files_root))

    def objection(self, command: ProgramSpec, initiator: str) -> str:
        """Why this party does not run it for that one, naming the key of its configuration; empty when it does."""
        if not self.policy.enabled:
            return "commands.enabled is false in its service_conf.yaml: this party runs no programs of others"
        try:
            for one in command.files:
                if one.path:
                    check_file(one, source_of(one, self.policy.files_root), self._digests.of)
            for name in command.secrets:
                read_secret(name, self.policy, initiator, self.own)
            self._check_program(command)
        except NotAllowed as refusal:
            log.info("a program of party %s is not run: %s", initiator, refusal)
            return refusal.orders(initiator, self.own)
        return ""

    def _check_program(self, command: ProgramSpec) -> None:
        file = command.program_file
        if file is None:
            program = find_program(command.argv[0])
            check_allowed(program, command.argv[0], self.policy.allow, self._digests.of)
            check_runnable(program, command.argv[0])         # last: whether another file is there is nobody's business
        elif (sent := file.sent) is not None:
            check_content(file.name, hashlib.sha256(sent).hexdigest(), self.policy.allow)
        else:
            source = source_of(file, self.policy.files_root)
            check_allowed(source, file.path, self.policy.allow, self._digests.of)


class Digests:
    """What is in files, read again when one has been written. The worker does not rely on it: it reads for itself."""

    def __init__(self) -> None:
        self._known: dict[tuple[str | int, ...], str] = {}

    def of(self, path: str) -> str:
        try:
            now = os.stat(path)
        except OSError:
            return digest_of(path)
        key = (path, now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
        if key not in self._known:
            found = digest_of(path)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return self._known[key]


def find_program(name: str) -> Path:
    """The file that a name leads to, which need not be there when it is a path. Raises NotAllowed."""
    if name.startswith("/"):
        return Path(name)
    found = shutil.which(name)
    if found is None:
        raise NotAllowed(f"command: there is no program {shown(name)} in the PATH of this party's server")
    return Path(found)


def digest_of(path: str) -> str:
    """The SHA-256 of what is in a file, or why that is not known. Others name it: a device or a pipe may never end."""
    if problem := _why_not_a_file(Path(path)):
        return f"(not readable: it {problem})"
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            found = hashlib.sha256()
            while piece := file.read(_PIECE):
                found.update(piece)
            return found.hexdigest()
    except OSError as error:
        return f"(not readable: {error.strerror})"


def check_allowed(program: Path, name: str, allow: Collection[str], digest: Callable[[str], str] = digest_of) -> None:
    """Raises NotAllowed unless the file, which the job calls so, or what is in it, is on the list."""
    real = os.path.realpath(program)
    if real in {os.path.realpath(one) for one in allow if not one.startswith(DIGEST)}:
        return
    if any(one.startswith(DIGEST) for one in allow) and f"{DIGEST}{digest(real)}" in allow:
        return
    # Not what its sha256 is: others name any file here, and what is in a short one could be found by that.
    raise NotAllowed(
        f"commands.allow names neither {name} nor its sha256",
        f"; it is {real}; allowed is {_listed(allow)}" if real != name else f"; allowed is {_listed(allow)}",
    )


def check_runnable(program: Path, name: str) -> None:
    """Raises NotAllowed for a program that may begin here, and cannot; `name`: as the job calls it."""
    problem = _why_not_a_file(program) or _why_not_run(program)
    if problem:
        raise NotAllowed(f"command: {name} {problem} at this party, which allows it: an executable file is needed")


def unusable(policy: ProgramRules) -> list[str]:
    """What is wrong with the programs that jobs may begin by their paths, one sentence each.

    A file below `files_root` is copied for its worker, and need not be executable itself."""
    found = []
    for one in policy.allow if policy.enabled else ():
        if not one.startswith(DIGEST):
            is_copied = bool(policy.files_root) and Path(os.path.realpath(one)).is_relative_to(
                os.path.realpath(policy.files_root)
            )
            problem = _why_not_a_file(Path(one)) or ("" if is_copied else _why_not_run(Path(one)))
            found += [f"commands.allow: {one} {problem}: a job that names it is refused"] if problem else []
    return found


def _why_not_a_file(program: Path) -> str:
    try:
        is_file = stat.S_ISREG(program.stat().st_mode)
    except OSError as error:
        return f"cannot be found ({error.strerror})"
    return "" if is_file else "is not a file"


def _why_not_run(program: Path) -> str:
    return "" if os.access(program, os.X_OK) else "is not executable for this server's user"


def check_content(name: str, sha256: str, allow: Collection[str]) -> None:
    """Of a program that was sent with the job: only what is in it can be allowed. Raises NotAllowed."""
    if f"{DIGEST}{sha256}" not in allow:
        raise NotAllowed(
            f"commands.allow does not name {DIGEST}{sha256}, which is what {name} holds",
            f"; allowed is {_listed(allow)}",
        )


def source_of(file: InputFile, root: str) -> Path:
    """Where a file lies that the job names at this party, which need not be there. Raises NotAllowed."""
    if not root:
        raise NotAllowed(f"files: {file.name}: commands.files_root is not set: no file of this party may be named")
    top = os.path.realpath(root)
    found = os.path.realpath(os.path.join(top, file.path))
    if os.path.commonpath([top, found]) != top:
        raise NotAllowed(f"files: {file.name}: {shown(file.path)} leads out of commands.files_root")
    return Path(found)


def check_file(file: InputFile, source: Path, digest: Callable[[str], str]) -> None:
    """Raises NotAllowed unless what the job names is a file that can be read, and what the job says is in it."""
    place = f"files: {file.name}: {file.path} below commands.files_root"
    try:
        mode = source.stat().st_mode
    except OSError as error:
        raise NotAllowed(f"{place}: {error.strerror}: it has to be there before the job is submitted") from error
    if not stat.S_ISREG(mode) or not os.access(source, os.R_OK):
        raise NotAllowed(f"{place}: is not a file that this party's server can read")
    if file.sha256:
        found = digest(str(source))
        if found != file.sha256:
            raise NotAllowed(
                f"files: {file.name}: sha256 of {file.path} is not {file.sha256} at this party", f"; it is {found}"
            )


def read_secret(name: str, policy: ProgramRules, initiator: str, own: str) -> str:
    """The text of a secret. Raises NotAllowed, also for one that others can read or that is no text of a variable."""
    secret, key = policy.secrets.get(name), f"commands.secrets.{name}"
    if secret is None or initiator not in (*secret.initiators, own, "0"):
        # One word for both: which names there are for others is nobody's business.
        raise NotAllowed(f"secrets: {key} is not there for jobs of party {initiator}")
    try:
        with open(secret.file, "rb", opener=_without_waiting) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
                raise NotAllowed(f"secrets: {key}: is not a file of mode 0600 at this party: others might read it")
            content = file.read(_LONGEST_SECRET + 1).removesuffix(b"\n")
    except OSError as error:
        raise NotAllowed(f"secrets: {key}: its file cannot be read at this party: {error.strerror}") from error
    if len(content) > _LONGEST_SECRET or b"\0" in content:
        raise NotAllowed(f"secrets: {key}: is not a text of at most {_LONGEST_SECRET} bytes without NUL at this party")
    return os.fsdecode(content)


def _without_waiting(path: str, flags: int) -> int:
    """Of a pipe that nobody writes, too."""
    return os.open(path, flags | os.O_NONBLOCK)


def _listed(allow: Collection[str]) -> str:
    return ", ".join(allow) or "nothing"
