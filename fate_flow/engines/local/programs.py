"""Which programs and files of this machine jobs may use: allowed by path, or by content.

This is checked twice: when a job is submitted, and by the worker itself just before it becomes the program. A link
counts as its target. The check decides which programs may start; it is not a sandbox: an allowed program can read, run
or load anything.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fate_flow.components.base.regular_file import open_regular
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.program import InputFile, ProgramRules, ProgramSpec

log = logging.getLogger(__name__)

DIGEST = "sha256:"
_PIECE = 1024 * 1024
_MOST_KNOWN = 1_000
_LONGEST_SECRET = 64 * 1024


class NotAllowed(Exception):
    """This party does not run a program or give a file; the text names the key of its configuration.

    `detail` is only for the party itself: targets of links, digests, and what else it allows."""

    def __init__(self, text: str, detail: str = "") -> None:
        super().__init__(text + detail)
        self._text = text

    def orders(self, initiator: str, own: str) -> str:
        """Return the text for the initiator; another party gets no more than the job itself says."""
        return str(self) if initiator in (own, "0") else self._text


@dataclass(frozen=True)
class ConfiguredProgramPolicy:
    """The rules of this party, applied to the files of this machine."""

    policy: ProgramRules
    own: str = ""                        # the id of this party
    _digests: Digests = field(default_factory=lambda: Digests(), compare=False)

    @property
    def reads_programs(self) -> bool:
        """Whether a check may have to read programs or files, which takes long for large ones."""
        by_content = any(one.startswith(DIGEST) for one in self.policy.allow)
        return self.policy.enabled and (by_content or bool(self.policy.files_root))

    def objection(self, command: ProgramSpec, initiator: str, granted: Collection[str] | None = None) -> str:
        """Return why this party does not run the program for this initiator, with the configuration key; empty if it
        does. `granted`: the digests of the programs that were granted to it; None: it has no such limit."""
        if not self.policy.enabled:
            return "commands.enabled is false in its service_conf.yaml: this party runs no programs of others"
        try:
            for one in command.files:
                if one.path:
                    check_file(one, source_of(one, self.policy.files_root), self._digests.of)
            for name in command.secrets:
                read_secret(name, self.policy, initiator, self.own)
            self._check_program(command, granted)
        except NotAllowed as refusal:
            log.info("a program of party %s is not run: %s", initiator, refusal)
            return refusal.orders(initiator, self.own)
        return ""

    def _check_program(self, command: ProgramSpec, granted: Collection[str] | None) -> None:
        file = command.program_file
        if file is None:
            program = find_program(command.argv[0])
            check_allowed(program, command.argv[0], self.policy.allow, self._digests.of)
            check_granted(command.argv[0], partial(self._digests.of, os.path.realpath(program)), granted)
            check_runnable(program, command.argv[0])         # last, so that a job cannot test which files exist
        elif (sent := file.sent) is not None:
            digest = hashlib.sha256(sent).hexdigest()
            check_content(file.name, digest, self.policy.allow)
            check_granted(file.name, lambda: digest, granted)
        else:
            source = source_of(file, self.policy.files_root)
            check_allowed(source, file.path, self.policy.allow, self._digests.of)
            check_granted(file.path, partial(self._digests.of, str(source)), granted)


class Digests:
    """A cache of digests of files; a changed file is read again. The worker does not use it, but reads the file."""

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
    """Return the file of a program name; a file given by path need not exist. Raises NotAllowed."""
    if name.startswith("/"):
        return Path(name)
    found = shutil.which(name)
    if found is None:
        raise NotAllowed(f"command: there is no program {shown(name)} in the PATH of this party's server")
    return Path(found)


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file, or text that says why it cannot be read.

    Jobs of others choose the path, so devices and pipes are not read: they may never end."""
    try:
        with open_regular(path) as file:
            found = hashlib.sha256()
            while piece := file.read(_PIECE):
                found.update(piece)
            return found.hexdigest()
    except OSError as error:
        return f"(not readable: {error.strerror})"


def check_allowed(program: Path, name: str, allow: Collection[str], digest: Callable[[str], str] = digest_of) -> None:
    """Check that the file or its content is on the list; `name` is its name in the job. Raises NotAllowed."""
    real = os.path.realpath(program)
    if real in {os.path.realpath(one) for one in allow if not one.startswith(DIGEST)}:
        return
    if any(one.startswith(DIGEST) for one in allow) and f"{DIGEST}{digest(real)}" in allow:
        return
    # The text does not contain the file's sha256: a job can name any file, and could guess the content of a short one.
    raise NotAllowed(
        f"commands.allow names neither {name} nor its sha256",
        f"; it is {real}; allowed is {_listed(allow)}" if real != name else f"; allowed is {_listed(allow)}",
    )


def check_granted(name: str, digest: Callable[[], str], granted: Collection[str] | None) -> None:
    """Check that an allowed program was granted to the initiator by its content; `name` is its name in the job.

    Raises NotAllowed."""
    if granted is not None and f"{DIGEST}{digest()}" not in granted:
        raise NotAllowed(f"command: {name} was not granted to the initiator (fate_flow grants, there)")


def check_runnable(program: Path, name: str) -> None:
    """Check that an allowed program can be executed; `name` is its name in the job. Raises NotAllowed."""
    problem = _why_not_a_file(program) or _why_not_run(program)
    if problem:
        raise NotAllowed(f"command: {name} {problem} at this party, which allows it: an executable file is needed")


def unusable(policy: ProgramRules) -> list[str]:
    """Return one sentence for each program that is allowed by its path but cannot be executed.

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
    """Check a program that was sent with the job; it can only be allowed by its content. Raises NotAllowed."""
    if f"{DIGEST}{sha256}" not in allow:
        raise NotAllowed(
            f"commands.allow does not name {DIGEST}{sha256}, which is what {name} holds",
            f"; allowed is {_listed(allow)}",
        )


def source_of(file: InputFile, root: str) -> Path:
    """Return the path of a file that the job names at this party; it need not exist. Raises NotAllowed."""
    if not root:
        raise NotAllowed(f"files: {file.name}: commands.files_root is not set: no file of this party may be named")
    top = os.path.realpath(root)
    found = os.path.realpath(os.path.join(top, file.path))
    if os.path.commonpath([top, found]) != top:
        raise NotAllowed(f"files: {file.name}: {shown(file.path)} leads out of commands.files_root")
    return Path(found)


def check_file(file: InputFile, source: Path, digest: Callable[[str], str]) -> None:
    """Check that a file exists, can be read, and has the sha256 that the job gives, if it does. Raises NotAllowed."""
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
    """Return the text of a secret.

    Raises NotAllowed, also if its file is readable for other users, or not valid as an environment variable."""
    secret, key = policy.secrets.get(name), f"commands.secrets.{name}"
    if secret is None or initiator not in (*secret.initiators, own, "0"):
        # The same text for both cases, so that a job cannot test which secrets exist for others.
        raise NotAllowed(f"secrets: {key} is not there for jobs of party {initiator}")
    try:
        with open_regular(secret.file) as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise NotAllowed(f"secrets: {key}: is not a file of mode 0600 at this party: others might read it")
            content = file.read(_LONGEST_SECRET + 1).removesuffix(b"\n")
    except OSError as error:
        raise NotAllowed(f"secrets: {key}: its file cannot be read at this party: {error.strerror}") from error
    if len(content) > _LONGEST_SECRET or b"\0" in content:
        raise NotAllowed(f"secrets: {key}: is not a text of at most {_LONGEST_SECRET} bytes without NUL at this party")
    return os.fsdecode(content)


def _listed(allow: Collection[str]) -> str:
    return ", ".join(allow) or "nothing"
