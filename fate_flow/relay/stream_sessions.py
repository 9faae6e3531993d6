"""The streams that attempts of tasks may have here now: one file for each attempt, in one folder.

Whoever launches a worker writes the file, and whoever ends the attempt removes it. The process of the gateway follows
the folder, also after it was killed. A wake-up tells it to look now; if nobody hears it, it looks soon by itself.

What streams have carried is in files beside that: one that the gateway writes while the attempt lasts and at its end,
and one for each stream that ended later.

Nothing is forced to the disk: after a power cut a file may be empty, and the workers of its attempt have ended with the
machine. So a file that cannot be read counts as one that is not there.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.spec import Party
from fate_flow.core.streams.addresses import Address, Connects, Listens, StreamEnds
from fate_flow.core.streams.counts import PortCount, by_port
from fate_flow.relay.spool_session import Session
from fate_flow.relay.stream_calls import LOOK, ask_gateway

LOG = logging.getLogger(__name__)

_UNREADABLE = (ValueError, TypeError, LookupError, BadRequest)         # what is no JSON, or JSON of something else
_SUFFIX, _COUNTS, _WHY = ".json", ".counts", ".why"
_PARTS = 6                             # of a session in the name of its file
_LOOK_SECONDS = 5.0
LOOKED = b"looked\n"
"""What the gateway answers to a wake-up when all that is in the folder is open."""


@dataclass(frozen=True)
class StreamSession:
    """One attempt of a task at this party, and the ends of its streams here. `document`: the name of its document."""

    session: Session
    document: str
    ends: StreamEnds

    def listener(self, name: str, caller: Party) -> Address | None:
        """Return where a worker listens for those of this party; None if none does."""
        return next((one.address for one in self.ends.listens if one.name == name and caller in one.callers), None)


class StreamSessions:
    """The files in `folder`; `socket_at`: where the gateway hears that there is something new."""

    def __init__(self, folder: Path, socket_at: Path) -> None:
        self._folder = folder
        self._socket_at = socket_at

    def open(self, one: StreamSession) -> None:
        """Store the session, and wait until its listeners are open, if a gateway runs. Raises OSError."""
        path = self._path(one.session)
        if not path.exists():
            draft = path.with_name(f".{path.name}.{os.getpid()}")
            draft.write_text(json.dumps(_as_json(one)), encoding="utf-8")
            os.replace(draft, path)
        self._tell()

    def close(self, session: Session) -> None:
        """Remove the session, so that the gateway ends its streams and counts them. Raises OSError."""
        path = self._path(session)
        self._remove(path)
        path.with_suffix(_WHY).unlink(missing_ok=True)

    @contextmanager
    def collected(self, session: Session) -> Iterator[tuple[PortCount, ...]]:
        """Yield what has been counted and was not stored before, by port and other party; forget it if the block ends
        well. What another process collects just now is left to that. Raises OSError."""
        stem = self._path(session).name.removesuffix(_SUFFIX)
        self._set_aside(stem)
        files = [self._folder / name for name in self._names(_COUNTS) if name.startswith(f"{stem}+")]
        with ExitStack() as claims:
            files = [file for file in files if _claim(file, claims)]
            yield by_port(count for file in files for count in _counts_in(file))
            for file in files:
                file.unlink()

    def _remove(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            path.unlink()
            self._tell()

    def _set_aside(self, stem: str) -> None:
        """Give the file of the gateway a name at which it is not written again."""
        with suppress(FileNotFoundError):
            os.rename(self._folder / f"{stem}{_COUNTS}", self._folder / f"{stem}+{secrets.token_hex(8)}{_COUNTS}")

    def uncollected(self) -> tuple[Session, ...]:
        """Return the sessions that were removed before all of their streams were counted: a worker's last bytes arrive
        after its attempt, and a gateway may answer too late. `collected` has their counts. Raises OSError."""
        stems = {"+".join(name.removesuffix(_COUNTS).split("+")[:_PARTS]) for name in self._names(_COUNTS)}
        over = sorted(stems - {name.removesuffix(_SUFFIX) for name in self._names(_SUFFIX)}) if stems else []
        return tuple(_session_of(stem) for stem in over)

    def end(self, session: Session, why: str) -> None:
        """Let the gateway end the streams of a session for this reason, before its attempt is over; there are no more.
        Raises OSError."""
        path = self._path(session)
        if path.exists():
            path.with_suffix(_WHY).write_text(why, encoding="utf-8")
            path.unlink(missing_ok=True)
            self._tell()

    def why_ended(self, name: str) -> str:
        """Return why a session was ended before its attempt; empty if it was not. `name` is that of its file. Raises
        OSError."""
        try:
            return (self._folder / name).with_suffix(_WHY).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def counts(self, name: str) -> tuple[PortCount, ...]:
        """Return what the streams of a session have carried; `name` is that of its file. Raises OSError."""
        return _counts_in((self._folder / name).with_suffix(_COUNTS))

    def count(self, name: str, counts: Collection[PortCount]) -> None:
        """Store what the streams of a session have carried, also while its file is being removed. Raises OSError."""
        self._write_counts((self._folder / name).with_suffix(_COUNTS), counts)

    def count_late(self, name: str, count: PortCount) -> None:
        """Store what one stream has carried that ended after its attempt. Raises OSError."""
        stem = name.removesuffix(_SUFFIX)
        self._write_counts(self._folder / f"{stem}+{secrets.token_hex(8)}{_COUNTS}", [count])

    def _write_counts(self, path: Path, counts: Collection[PortCount]) -> None:
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(json.dumps([{**vars(one), "other": vars(one.other)} for one in counts]), encoding="utf-8")
        os.replace(draft, path)

    def purge(self, job_id: str) -> None:
        """Remove all sessions of a job; what was counted stays for `collected`. Raises OSError."""
        for name in self._names(_SUFFIX):
            if _job_of(name) == job_id:
                self._remove(self._folder / name)
        for left in (*self._folder.glob(f"{job_id}+*{_WHY}"), *self._folder.glob(f".{job_id}+*{_SUFFIX}.*")):
            left.unlink(missing_ok=True)

    def sessions(self) -> Iterator[Session]:
        for name in self._names(_SUFFIX):
            if (found := self._read(self._folder / name)) is not None:
                yield found.session

    def jobs(self) -> set[str]:
        return {_job_of(name) for name in self._names(_SUFFIX)}

    def read(self, session: Session) -> StreamSession | None:
        """Return the session if it is open. Raises OSError."""
        return self._read(self._path(session))

    def changes(self, known: dict[str, StreamSession]) -> dict[str, StreamSession]:
        """Return the sessions that are open now, by file; what is in `known` is not read again. Raises OSError."""
        found = {}
        for name in self._names(_SUFFIX):
            if (one := known.get(name) or self._read(self._folder / name)) is not None:
                found[name] = one
        return found

    def _names(self, suffix: str) -> list[str]:
        with suppress(FileNotFoundError):
            return sorted(one for one in os.listdir(self._folder) if one.endswith(suffix) and not one.startswith("."))
        return []

    def _path(self, one: Session) -> Path:
        key = (one.job_id, one.task_id, str(one.version), one.incarnation, one.role, one.party_id)
        return self._folder / ("+".join(key) + _SUFFIX)

    def _read(self, path: Path) -> StreamSession | None:
        """Return the session in a file; None if it is not there, or cannot be read, and then it is removed. Raises
        OSError."""
        try:
            return _from_json(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except _UNREADABLE:
            path.unlink(missing_ok=True)
            LOG.warning("the file %s says nothing of streams, and was removed: a power cut may have emptied it", path)
            return None

    def _tell(self) -> None:
        """Let the gateway look at the folder now. Without an answer it looks by itself."""
        with suppress(OSError):
            ask_gateway(self._socket_at, LOOK, _LOOK_SECONDS)


def _job_of(name: str) -> str:
    return name.partition("+")[0]


def _session_of(stem: str) -> Session:
    job_id, task_id, version, incarnation, role, party_id = stem.split("+")
    return Session(job_id, task_id, int(version), incarnation, role, party_id)


def _claim(path: Path, claims: ExitStack) -> bool:
    """Lock a file until `claims` end; return whether it is still there, and no other process has locked it. The kernel
    unlocks it when its process ends. Raises OSError."""
    try:
        file = claims.enter_context(path.open("rb"))
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError):
        return False
    return os.fstat(file.fileno()).st_nlink > 0


def _counts_in(path: Path) -> tuple[PortCount, ...]:
    """Return the counts of a file, as far as they are known here: another release may count more, or less."""
    try:
        return tuple(map(_count_of, json.loads(path.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        return ()
    except _UNREADABLE as error:
        LOG.warning("the file %s says nothing of what streams have carried: %r", path, error)
        return ()


def _count_of(said: Any) -> PortCount:
    return PortCount(
        str(said["name"]), Party(str(said["other"]["role"]), str(said["other"]["party_id"])), int(said["streams"]),
        int(said["sent"]), int(said["received"]), float(said["seconds"]), _each(said.get("sent_each", ())),
        _each(said.get("received_each", ())),
    )  # fmt: skip


def _each(said: Any) -> tuple[tuple[int, str], ...]:
    """A count of an older release has no digests."""
    return tuple((int(size), str(digest)) for size, digest in said)


def _as_json(one: StreamSession) -> dict[str, Any]:
    return {
        "session": vars(one.session),
        "document": one.document,
        "listens": [
            {"name": end.name, "address": vars(end.address), "callers": [vars(party) for party in end.callers]}
            for end in one.ends.listens
        ],
        "connects": [
            {"name": end.name, "address": vars(end.address), "to": vars(end.to)} for end in one.ends.connects
        ],
    }  # fmt: skip


def _from_json(value: dict[str, Any]) -> StreamSession:
    return StreamSession(
        Session(**value["session"]),
        value["document"],
        StreamEnds(
            tuple(
                Listens(end["name"], Address(**end["address"]), tuple(Party(**party) for party in end["callers"]))
                for end in value["listens"]
            ),
            tuple(Connects(end["name"], Address(**end["address"]), Party(**end["to"])) for end in value["connects"]),
        ),
    )
