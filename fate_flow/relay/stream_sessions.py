"""The streams that attempts of tasks may have here now: one file for each attempt, in one folder.

Whoever launches a worker writes the file, and whoever ends the attempt removes it. The process of the gateway follows
the folder, also after it was killed. A wake-up tells it to look now; if nobody hears it, it looks soon by itself.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_flow.core.model.spec import Party
from fate_flow.core.streams.addresses import Address, Connects, Listens, StreamEnds
from fate_flow.core.streams.counts import PortCount
from fate_flow.relay.spool_session import Session

_SUFFIX, _COUNTS = ".json", ".counts"
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

    def close(self, session: Session) -> tuple[PortCount, ...]:
        """Remove the session, so that the gateway ends its streams; return what they have carried. Raises OSError."""
        path = self._path(session)
        with suppress(FileNotFoundError):
            path.unlink()
            self._tell()
        found = self.counts(path.name)
        path.with_suffix(_COUNTS).unlink(missing_ok=True)
        return found

    def counts(self, name: str) -> tuple[PortCount, ...]:
        """Return what the streams of a session have carried; `name` is that of its file. Raises OSError."""
        try:
            counts = json.loads((self._folder / name).with_suffix(_COUNTS).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return ()
        return tuple(PortCount(**{**one, "other": Party(**one["other"])}) for one in counts)

    def count(self, name: str, counts: Collection[PortCount]) -> None:
        """Store what the streams of a session have carried, also while its file is being removed. Raises OSError."""
        path = (self._folder / name).with_suffix(_COUNTS)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(json.dumps([{**vars(one), "other": vars(one.other)} for one in counts]), encoding="utf-8")
        os.replace(draft, path)

    def purge(self, job_id: str) -> None:
        """Remove all sessions of a job. Raises OSError."""
        for session in self.sessions():
            if session.job_id == job_id:
                self.close(session)
        for left in self._folder.glob(f"{job_id}+*{_COUNTS}"):         # of a gateway that answered too late
            left.unlink(missing_ok=True)

    def sessions(self) -> Iterator[Session]:
        for name in self._names():
            with suppress(FileNotFoundError):
                yield self._read(self._folder / name).session

    def jobs(self) -> set[str]:
        return {one.job_id for one in self.sessions()}

    def read(self, session: Session) -> StreamSession | None:
        """Return the session if it is open. Raises OSError."""
        try:
            return self._read(self._path(session))
        except FileNotFoundError:
            return None

    def changes(self, known: dict[str, StreamSession]) -> dict[str, StreamSession]:
        """Return the sessions that are open now, by file; what is in `known` is not read again. Raises OSError."""
        found = {}
        for name in self._names():
            with suppress(FileNotFoundError):
                found[name] = known.get(name) or self._read(self._folder / name)
        return found

    def _names(self) -> list[str]:
        with suppress(FileNotFoundError):
            return sorted(one for one in os.listdir(self._folder) if one.endswith(_SUFFIX) and not one.startswith("."))
        return []

    def _path(self, one: Session) -> Path:
        key = (one.job_id, one.task_id, str(one.version), one.incarnation, one.role, one.party_id)
        return self._folder / ("+".join(key) + _SUFFIX)

    def _read(self, path: Path) -> StreamSession:
        return _from_json(json.loads(path.read_text(encoding="utf-8")))

    def _tell(self) -> None:
        """Let the gateway look at the folder now. Without an answer it looks by itself."""
        folder = os.open(self._socket_at.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(_LOOK_SECONDS)
                sock.connect(f"/proc/self/fd/{folder}/{self._socket_at.name}")    # a path of a socket has 107 bytes
                sock.recv(len(LOOKED))
        finally:
            os.close(folder)


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
