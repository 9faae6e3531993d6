"""The registry of open sessions, with their peers and tokens.

It is on disk, shared by the processes of one server. Each process caches what it has read, and compares the file's
stamp before it uses the cache. Disk errors are raised to the caller.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from fate_flow.relay.spool_folders import CLOSED, SESSION, Stamp, read_json, stamp_of, write_json
from fate_flow.relay.spool_result import Problem, Refusal, gone
from fate_flow.relay.spool_session import PartyKey, Session

_CACHED = 1024            # sessions and tokens remembered by one process
_K = TypeVar("_K")
_V = TypeVar("_V")


class SessionRegistry:
    """The sessions below one folder."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._entries: dict[Session, tuple[Stamp, _SpoolEntry]] = {}
        self._tokens: dict[str, Session] = {}

    def folder(self, session: Session) -> str:
        """Return the folder of the session's files."""
        return (f"{self._root}/sessions/{session.job_id}/{session.task_id}.{session.version}"
                f".{session.incarnation}.{session.role}.{session.party_id}")

    def open(self, session: Session, peers: tuple[PartyKey, ...], token: str, document: str = "") -> bool:
        """Store the session while the caller holds the lock of its folder; False if it has been closed already."""
        wanted = _SpoolEntry(frozenset(peers), _digest(token), document)
        known = self._entry(session)
        if known is not None and (known.closed or known == wanted):
            return not known.closed
        # The token first, so that it exists for every open session.
        write_json(self._token_path(wanted.token), vars(session))
        write_json(os.path.join(self.folder(session), SESSION), wanted.to_json())
        if known is not None and known.token != wanted.token:
            with suppress(FileNotFoundError):
                os.unlink(self._token_path(known.token))
        return True

    def forget_token(self, folder: str) -> None:
        """Remove the token of the session in this folder, which a purge has moved away."""
        for name in (SESSION, CLOSED):
            with suppress(FileNotFoundError):
                document = read_json(os.path.join(folder, name))[1]
                os.unlink(self._token_path(_SpoolEntry.from_json(document).token))

    def session_of(self, token: str) -> Session | Refusal | None:
        """Return the session that the token opens; a refusal if it has ended; None if the token is unknown."""
        digest = _digest(token)
        session = self._tokens.get(digest) or self._read_token(digest)
        entry = self._entry(session) if session else None
        if session is None or entry is None:
            return None
        if entry.closed:
            return gone(session)
        return session if entry.token == digest else None

    def objection(self, session: Session, peer: PartyKey) -> Refusal | None:
        """Return why this session may not exchange messages with that party; None if it may."""
        entry = self._entry(session)
        if entry is None:
            return Refusal(Problem.NOT_STARTED, f"session {session}: has not started here")
        if entry.closed:
            return gone(session)
        if peer not in entry.peers:
            return Refusal(Problem.STRANGER, f"{peer[0]} {peer[1]}: no such party in session {session}")
        return None

    def document_of(self, session: Session) -> str:
        """Return the name of the document that the session was opened with; empty if it has none, or is not open."""
        entry = self._entry(session)
        return entry.document if entry is not None else ""

    def _entry(self, session: Session) -> _SpoolEntry | None:
        """Return the content of the session's file; it is read again only if the file has changed."""
        path = os.path.join(self.folder(session), SESSION)
        cached = self._entries.get(session)
        try:
            if cached and cached[0] == stamp_of(os.stat(path)):
                return cached[1]
            # The stamp is that of the file that is read, because the file may have been replaced since the check.
            stamp, document = read_json(path)
        except FileNotFoundError:
            return self._ended(session)
        entry = _SpoolEntry.from_json(document)
        _remember(self._entries, session, (stamp, entry))
        return entry

    def _ended(self, session: Session) -> _SpoolEntry | None:
        self._entries.pop(session, None)
        is_closed = os.path.exists(os.path.join(self.folder(session), CLOSED))
        return _SpoolEntry(frozenset(), "", "", closed=True) if is_closed else None

    def _read_token(self, digest: str) -> Session | None:
        try:
            session = Session(**read_json(self._token_path(digest))[1])
        except FileNotFoundError:
            return None
        _remember(self._tokens, digest, session)
        return session

    def _token_path(self, digest: str) -> str:
        return f"{self._root}/tokens/{digest}"


@dataclass(frozen=True)
class _SpoolEntry:
    """The content of a session's file."""

    peers: frozenset[PartyKey]
    token: str
    document: str
    closed: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"peers": sorted(self.peers), "token": self.token, "document": self.document}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> _SpoolEntry:
        peers = frozenset((role, party_id) for role, party_id in document["peers"])
        return cls(peers, document["token"], document.get("document", ""))      # none in the file of an older release


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _remember(cache: dict[_K, _V], key: _K, value: _V) -> None:
    """Keep the value; a full cache starts over."""
    if len(cache) >= _CACHED:
        cache.clear()
    cache[key] = value
