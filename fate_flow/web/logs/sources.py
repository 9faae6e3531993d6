"""Where the lines of a log come from, in pieces by byte offset, and searching in them. No log is read as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeGuard

from fate_flow.api.http.services import Ask
from fate_flow.api.v1.outputs.worker_output import Printed, piece_of
from fate_flow.api.v1.party.log_lines import log_name
from fate_flow.core.model.errors import PeerUnreachable
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.wire.v1.paths import TASK_LOG
from fate_flow.core.wire.v1.queries import TaskLogQuery

PIECE = 64 * 1024
"""Bytes of a log on a page, and of each piece that its script asks for."""
_CHUNK = 1024 * 1024
MOST_HITS = 200
LEVELS = ("ERROR", "WARNING", "INFO", "DEBUG")
"""The logs of a component, of all its workers and attempts."""
_LONGEST_LINE = 400


@dataclass(frozen=True)
class Piece:
    text: str
    next: int                    # the offset behind it
    total: int                   # bytes of the log now
    is_over: bool                # nothing comes any more


class LogSource(Protocol):
    """One log. `most_searched`: the bytes that one search reads. `path`: its file, if it is on this machine."""

    most_searched: int

    @property
    def path(self) -> Path | None: ...

    def piece(self, offset: int, size: int) -> Piece:
        """Return a piece from an offset on. Raises FlowError."""


class WorkerLog:
    """What a worker of this party has printed."""

    most_searched = 32 * _CHUNK

    def __init__(self, found: Printed) -> None:
        self.path, self._is_over = found.path, found.worker.status is WorkerStatus.EXITED

    def piece(self, offset: int, size: int) -> Piece:
        return Piece(*piece_of(self.path, size, offset), self._is_over)


class ComponentLog:
    """A log of one level of a component here."""

    most_searched = 32 * _CHUNK

    def __init__(self, logs: Path, key: TaskKey, level: str, *, is_over: bool) -> None:
        folder = logs / key.job_id / key.party.role / key.party.party_id / key.name
        self.path, self._is_over = folder / log_name(level), is_over

    def piece(self, offset: int, size: int) -> Piece:
        return Piece(*piece_of(self.path, size, offset), self._is_over)


class PartnerLog:
    """What a worker of another party has printed, if that party shares it. Nothing that it answers is trusted."""

    most_searched = 4 * _CHUNK
    path = None

    def __init__(self, ask: Ask, query: TaskLogQuery) -> None:
        self._ask, self._query = ask, query

    def piece(self, offset: int, size: int) -> Piece:
        query = TaskLogQuery(
            self._query.job_id, self._query.component, self._query.party, self._query.stream, size, offset,
            self._query.worker, self._query.attempt, self._query.version,
        )  # fmt: skip
        answer = self._ask(query.party, TASK_LOG, query.as_body())
        if not answer.is_ok:
            raise PeerUnreachable(answer.retmsg or f"{query.party} does not say why")
        data = answer.data if isinstance(answer.data, Mapping) else {}
        text, behind, total = data.get("text"), data.get("next_offset"), data.get("bytes")
        if not isinstance(text, str) or not _is_offset(behind) or not _is_offset(total):
            raise PeerUnreachable(f"{query.party} does not answer as this release expects: its release is older")
        return Piece(text, behind, total, data.get("status") == WorkerStatus.EXITED.value)


def _is_offset(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60


def end_of(source: LogSource) -> int:
    """Return the offset of the last piece."""
    return max(0, source.piece(0, 1).total - PIECE)


def all_bytes(source: LogSource) -> Iterator[bytes]:
    """Yield the log, as long as it is now."""
    offset, end = 0, source.piece(0, 1).total
    while offset < end:
        piece = source.piece(offset, min(_CHUNK, end - offset))
        if piece.next <= offset:
            return
        yield piece.text.encode()
        offset = piece.next


# ---------------------------------------------------------------------- searching


@dataclass(frozen=True)
class Hit:
    offset: int                  # of the line
    line: str


@dataclass(frozen=True)
class Hits:
    hits: tuple[Hit, ...]        # the first `MOST_HITS`
    count: int                   # of all lines with the text, as far as was searched
    searched: int                # bytes, from the begin of the log or from where the search went on
    next: int                    # from where another search goes on; 0: this was all


def search(source: LogSource, text: str, start: int) -> Hits:
    """Return the lines that have a text, whatever the case of its letters, from an offset on."""
    wanted, found, count = text.lower(), list[Hit](), 0
    offset, line_at, rest, total = start, start, "", start + 1
    while offset < total and offset - start < source.most_searched:
        piece = source.piece(offset, min(_CHUNK, source.most_searched))
        total = piece.total
        if piece.next <= offset:
            break
        offset = piece.next
        chunk = rest + piece.text
        whole, separator, rest = chunk.rpartition("\n")
        if offset >= total or len(rest) > _CHUNK:
            whole, separator, rest = chunk, "", ""
        if wanted in whole.lower():
            at = line_at
            for line in whole.split("\n"):
                if wanted in line.lower():
                    count += 1
                    if len(found) < MOST_HITS:
                        found.append(Hit(at, _shortened(line)))
                at += len(line.encode()) + 1
        line_at += len(whole.encode()) + len(separator)
    return Hits(tuple(found), count, offset - start, line_at if offset < total else 0)


def _shortened(line: str) -> str:
    line = line.rstrip("\r")
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
