"""The folder of a staged worker at the server: claimed, followed and filled over HTTP, with the files of every worker.

Every call may come twice, and the server may be killed within each: what counts appears by one link or one rename, the
claim as `claimed`, the end as `exit.json`, which comes last.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fate_flow.core.model.grammar import shown
from fate_flow.engines.local.worker import (
    ARRIVED,
    CLAIMED,
    EXIT,
    GO,
    RESULT,
    RUNNER,
    SECOND,
    Exit,
    Started,
    Stop,
    claim,
    never_start,
    read_json,
    write_atomically,
)
from fate_flow.engines.staged.documents import INCOMING, REDEEMED, STATE, Staged, back_home
from fate_flow.engines.staged.places import MOST_FILES, StagedFile, digest_of

log = logging.getLogger(__name__)

GROWN = "grown.json"             # how much of each growing file was taken
_MOST_GROWN = 1 << 30            # bytes of one growing file
_USED_TWICE = (
    "its claim token was used twice, by processes that can both print into the output of its job: nobody knows which "
    "of the two is the worker, and nothing of either is taken"
)


class Refusal(Exception):
    """A request that this worker may not make now; `status` is that of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Incoming:
    """How many files and bytes a worker has sent that are not in their places yet. The folder is looked at once, since
    a worker may send tens of thousands of files."""

    def __init__(self, folder: Path) -> None:
        self.lock = threading.Lock()
        self.files = self.bytes = 0
        with suppress(FileNotFoundError), os.scandir(folder / INCOMING) as entries:
            for one in entries:
                self.files += 1
                self.bytes += one.stat().st_size


@dataclass(frozen=True)
class StagedFolder:
    """One worker. `runner` is the name that the agent on the other host has made for itself."""

    folder: Path
    home: Path
    most_bytes: int              # of all files that the worker sends
    known: Incoming | None = None        # None: it is counted now

    # ------------------------------------------------------------------ the claim

    def claim(self, runner: str) -> None:
        """Claim the worker for this agent; again for the same one. Raises Refusal if somebody else has claimed it."""
        if Stop.read(self.folder) is not None:
            never_start(self.folder, Exit(None, None, "stopped"))
        if not self._is_first(CLAIMED, runner):
            self._note_second(runner)
            self.check(runner)

    def redeem(self, runner: str) -> None:
        """Note that this agent gets the token of the worker for its claim token; again for the same one.

        Raises Refusal if another one has got it: then the worker ends."""
        if self._is_first(REDEEMED, runner) or self._runner_in(REDEEMED) == runner:
            return
        log.error("%s: %s", self.folder, _USED_TWICE)
        claim(self.folder)                   # if nobody has, nobody shall
        if not (self.folder / EXIT).exists():
            write_atomically(self.folder / EXIT, Exit(None, None, "not_started", _USED_TWICE).to_json())
        raise Refusal(409, _USED_TWICE)

    def _is_first(self, name: str, runner: str) -> bool:
        """Make a file with the name of this agent, unless it is there."""
        draft = self.folder / f".{name}.{os.getpid()}.{threading.get_ident()}"
        draft.write_text(json.dumps({"pid": 0, "started": 0, "runner": runner}))
        try:
            os.link(draft, self.folder / name)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _runner_in(self, name: str) -> object:
        return (read_json(self.folder / name) or {}).get("runner")

    def _note_second(self, runner: str) -> None:
        """A controller with an old state may start a job again, on another node, and knows only the end of this one."""
        if self._runner_in(CLAIMED) not in (None, runner) and not (self.folder / EXIT).exists():
            write_atomically(self.folder / SECOND, "", is_durable=False)

    def check(self, runner: str) -> None:
        """Raise Refusal if this agent has not claimed the worker, or it has ended."""
        self.check_claim(runner)
        if (self.folder / EXIT).exists():
            raise Refusal(410, "the worker has ended for the server: nothing more of it is taken")

    def check_claim(self, runner: str) -> None:
        """Raise Refusal if this agent has not claimed the worker; its end, once written, may be sent again."""
        if self._runner_in(CLAIMED) != runner:
            raise Refusal(409, "another runner has claimed this worker, or the server has given it up: it must not run")

    def refuse(self, why: str) -> None:
        """Note that the worker never starts, unless somebody has claimed it."""
        never_start(self.folder, Exit(None, None, "not_started", why))

    # ------------------------------------------------------------------ while it runs

    def started(self, started: Started) -> None:
        write_atomically(self.folder / RUNNER, started.to_json())

    def arrived(self) -> bool:
        """Note that the worker waits for the others of its gang; return whether this is new."""
        is_new = not (self.folder / ARRIVED).exists()
        if is_new:
            write_atomically(self.folder / ARRIVED, "", is_durable=False)
        return is_new

    @property
    def may_go(self) -> bool:
        """Return whether all of its gang have begun."""
        return (self.folder / GO).exists()

    def stop_request(self) -> float | None:
        """Return the grace in seconds if the worker is to end."""
        found = Stop.read(self.folder)
        return found.grace_seconds if found is not None else None

    def grow(self, path: Path, at: str, offset: int, data: bytes) -> int:
        """Append to a file that other workers may write, too; return how much of this worker's was taken.

        What was taken is noted first: after a crash in between, a piece of a log is missing, and none is there twice.
        """
        known = self.known or Incoming(self.folder)
        with known.lock:                 # the agent may have sent the piece again, while the first request still runs
            grown = read_json(self.folder / GROWN) or {}
            taken = int(grown.get(at, 0))
            if offset != taken or not data:
                return taken
            if (self.folder / EXIT).exists() or taken + len(data) > _MOST_GROWN:
                return taken + len(data)                    # dropped
            write_atomically(self.folder / GROWN, json.dumps({**grown, at: taken + len(data)}), is_durable=False)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(data)
            return taken + len(data)

    # ------------------------------------------------------------------ what it made

    def take(self, at: str, offset: int, data: bytes) -> int:
        """Take a piece of a file; return how many bytes of it are here now: the agent goes on there."""
        path, known = self._incoming(at), self.known or Incoming(self.folder)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with known.lock:
            self._count_file(known, path)
            with path.open("ab") as file:
                here = file.tell()
                if offset != here:
                    return here
                if known.bytes + len(data) > self.most_bytes:
                    text = f"the worker sends more than {self.most_bytes} bytes (limits.staged_output_max_bytes)"
                    raise Refusal(413, text)
                file.write(data)
                known.bytes += len(data)
                return here + len(data)

    def _count_file(self, known: Incoming, path: Path) -> None:
        """Count a file that is made now. Raises Refusal, also for empty ones: each takes a place in the file system."""
        if path.exists():
            return
        if known.files >= MOST_FILES:
            raise Refusal(413, f"the worker sends more than {MOST_FILES} files")
        known.files += 1

    def verify(self, file: StagedFile) -> None:
        """Check a file that was sent completely. Raises Refusal; then the agent sends it again."""
        if (self.folder / EXIT).exists() or self._verified(file).exists() or self._is_placed(file):
            return
        path, known = self._incoming(file.at), self.known or Incoming(self.folder)
        found = path.stat().st_size if path.exists() else 0
        if found == file.size and (not found or digest_of(path) == file.sha256):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with known.lock:
                self._count_file(known, path)
                path.touch()
                path.rename(self._verified(file))
            return
        with known.lock:
            if path.exists():
                known.files -= 1
                known.bytes -= path.stat().st_size
                path.unlink()
        raise Refusal(422, f"{shown(file.at)} has arrived with other bytes than were sent: it is sent again")

    def finish(self, end: Exit, files: Sequence[StagedFile], root: str, staged: Staged) -> None:
        """Put the verified files in their places, and then write the end. Raises Refusal."""
        if (self.folder / EXIT).exists():
            return
        for file in files:
            self._check_place(file.at, staged)
        for file in files:
            if self.home / file.at == self.folder / RESULT:
                self._put_result(file, root)
            else:
                self._put(file)
        if not (self.folder / EXIT).exists():            # another end may have come meanwhile
            write_atomically(self.folder / EXIT, end.to_json())
        with suppress(OSError):
            for path in (self.folder / INCOMING).iterdir():
                path.unlink()
            (self.folder / INCOMING).rmdir()

    def _check_place(self, at: str, staged: Staged) -> None:
        own = self.folder.relative_to(self.home).as_posix()
        name = at.removeprefix(f"{own}/")
        is_state = name.split("/")[0] in STATE or name.startswith(".") or at in staged.documents
        is_own = name != at and not is_state
        if not is_own and not any(one.fullmatch(at) for one in staged.returns):
            raise Refusal(403, f"{shown(at)} is no place where this worker may leave a file")

    def _put_result(self, file: StagedFile, root: str) -> None:
        """Write the result file with the places of this server; what was sent stays until the end is written."""
        sent = read_json(self._verified(file))
        if sent is None:
            raise Refusal(409, f"{shown(file.at)} was not sent and verified, or is not a complete JSON object")
        write_atomically(self.folder / RESULT, json.dumps(back_home(sent, self.home, root)))

    def _put(self, file: StagedFile) -> None:
        target, verified = self.home / file.at, self._verified(file)
        if not verified.exists():
            if self._is_placed(file):
                return
            raise Refusal(409, f"{shown(file.at)} was not sent and verified")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not Path(os.path.realpath(target.parent)).is_relative_to(os.path.realpath(self.home)):
            raise Refusal(403, f"{shown(file.at)} leads out of the home of the server")
        verified.chmod(file.mode)
        if target.is_relative_to(self.folder):
            os.replace(verified, target)
            return
        try:
            os.link(verified, target)                   # a table never changes
        except FileExistsError:
            if not self._is_placed(file):
                raise Refusal(409, f"{shown(file.at)} exists, with another content") from None
        verified.unlink()

    def _is_placed(self, file: StagedFile) -> bool:
        path = self.home / file.at
        with suppress(OSError):
            return path.is_file() and path.stat().st_size == file.size and digest_of(path) == file.sha256
        return False

    def _incoming(self, at: str) -> Path:
        return self.folder / INCOMING / sha256(at.encode()).hexdigest()

    def _verified(self, file: StagedFile) -> Path:
        name = sha256(f"{file.at}\n{file.size}\n{file.sha256}".encode()).hexdigest()
        return self.folder / INCOMING / f"{name}.verified"

