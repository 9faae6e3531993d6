"""Where the lines of a log come from, in pieces by byte offset, and searching in them. No log is read as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import BinaryIO, Protocol

from fate_flow.api.http.services import Ask
from fate_flow.api.v1.outputs.worker_output import Printed, bytes_of, opened, piece_of
from fate_flow.api.v1.party.log_lines import log_name
from fate_flow.core.model.errors import OperationFailed, PeerUnreachable
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.wire.v1.paths import TASK_LOG
from fate_flow.core.wire.v1.queries import INCOMPLETE, TaskLogQuery, read_log_piece

PIECE = 64 * 1024
"""Bytes of a log on a page, and of each piece that its script asks for."""
_CHUNK = 1024 * 1024
SEARCH_SECONDS, DOWNLOAD_SECONDS = 10.0, 300.0
"""Of one request, for the log of another party: after it, no further piece is asked for."""
MOST_HITS = 200
LEVELS = ("ERROR", "WARNING", "INFO", "DEBUG")
"""The logs of a component, of all its workers and attempts."""
_LONGEST_LINE = 400
_LINE = re.compile(rb"^\[[A-Z]+\] \[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]", re.MULTILINE)


@dataclass(frozen=True)
class Piece:
    text: str
    next: int                    # the offset behind it
    total: int                   # bytes of the log now
    is_over: bool                # nothing comes any more


@dataclass(frozen=True)
class RawPiece:
    """The bytes of a piece from its offset on. `next`, `total`: as of `Piece`."""

    content: bytes
    next: int
    total: int


class LogSource(Protocol):
    """One log. `most_searched`: the bytes that one search reads. `path`: its file, if it is here. `may_go_on`:
    whether there is time for another piece; false: the next request has to go on. Raises FlowError."""

    most_searched: int

    @property
    def path(self) -> Path | None: ...

    @property
    def may_go_on(self) -> bool: ...

    def piece(self, offset: int, size: int) -> Piece: ...

    def raw(self, offset: int, size: int) -> RawPiece: ...

    def download(self) -> Download: ...


class Download:
    """The bytes of a log as it is at its beginning. `size`: their number; None: not known. Who does not get all of them
    gets an error: an answer that just ends looks complete."""

    def __init__(self, pieces: Iterator[bytes], size: int | None, close: Callable[[], None]) -> None:
        self.size, self.close, self._pieces = size, close, pieces

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces


class _FileLog:
    """A log in a file of this machine. A missing one is empty, as is what a program has put in its place."""

    most_searched = 32 * _CHUNK
    may_go_on = True

    def __init__(self, path: Path, *, is_over: bool) -> None:
        self.path, self._is_over = path, is_over

    def piece(self, offset: int, size: int) -> Piece:
        return Piece(*piece_of(self.path, size, offset), self._is_over)

    def raw(self, offset: int, size: int) -> RawPiece:
        content, total = bytes_of(self.path, size, offset)
        return RawPiece(content, offset + len(content), total)

    def download(self) -> Download:
        file = opened(self.path)
        if file is None:
            return Download(iter(()), 0, lambda: None)
        size = file.seek(0, 2)
        file.seek(0)
        return Download(self._pieces(file, size), size, file.close)

    def _pieces(self, file: BinaryIO, size: int) -> Iterator[bytes]:
        left = size
        while left:
            content = file.read(min(_CHUNK, left))
            if not content:
                raise OperationFailed(f"{self.path.name}: has {size - left} bytes only; it had {size}")
            left -= len(content)
            yield content


class WorkerLog(_FileLog):
    """What a worker of this party has printed."""

    def __init__(self, found: Printed) -> None:
        super().__init__(found.path, is_over=found.worker.status is WorkerStatus.EXITED)


class ComponentLog(_FileLog):
    """A log of one level of a component here."""

    def __init__(self, logs: Path, key: TaskKey, level: str, *, is_over: bool) -> None:
        folder = logs / key.job_id / key.party.role / key.party.party_id / key.name
        super().__init__(folder / log_name(level), is_over=is_over)


class PartnerLog:
    """What a worker of another party has printed, if that party shares it. Nothing that it answers is trusted: each
    piece has as much as it can have, so the number of questions follows from the size, and all of them have a time."""

    most_searched = 4 * _CHUNK
    path = None

    def __init__(self, ask: Ask, query: TaskLogQuery, clock: Callable[[], float] = monotonic) -> None:
        """`clock`: in seconds."""
        self._ask, self._query, self._clock = ask, query, clock
        self._begun = clock()

    @property
    def may_go_on(self) -> bool:
        return self._clock() < self._begun + SEARCH_SECONDS

    def piece(self, offset: int, size: int) -> Piece:
        query = TaskLogQuery(
            self._query.job_id, self._query.component, self._query.party, self._query.stream, size, offset,
            self._query.worker, self._query.attempt, self._query.version,
        )  # fmt: skip
        answer = self._ask(query.party, TASK_LOG, query.as_body())
        if not answer.is_ok:
            raise PeerUnreachable(answer.retmsg or f"{query.party} does not say why")
        found = read_log_piece(answer.data, query)
        return Piece(found.text, found.next, found.total, found.has_exited)

    def raw(self, offset: int, size: int) -> RawPiece:
        """Return the bytes that the text stands for. It has one U+FFFD for one or more bytes that are not UTF-8; then
        places inside of the piece are not exact."""
        found = self.piece(offset, size)
        content = found.text.encode()
        if offset + len(content) != found.next:
            content = found.text.replace("\ufffd", "?").encode()
        return RawPiece(content, max(offset, found.next), found.total)

    def download(self) -> Download:
        end = self.piece(0, 1).total                # raises what is wrong before the answer has begun
        return Download(self._pieces(end), None, lambda: None)

    def _pieces(self, end: int) -> Iterator[bytes]:
        offset = 0
        while offset < end:
            if self._clock() >= self._begun + DOWNLOAD_SECONDS:
                raise PeerUnreachable(f"{self._query.party} sends its log too slowly: {offset} of {end} bytes")
            piece = self.piece(offset, _CHUNK)
            if piece.next <= offset and end - offset > INCOMPLETE:
                raise PeerUnreachable(f"{self._query.party} has {piece.total} bytes of its log only; it had {end}")
            yield piece.text.encode()
            if piece.next <= offset:                # the log ends inside of a character
                return
            offset = piece.next


def begin_of(source: LogSource, since: int) -> int:
    """Return the offset of the first line of a component's log that says this time (ms since 1970) or a later one; its
    end if there is none. Its workers append their lines as they come, so halving finds it."""
    moment = datetime.fromtimestamp(since / 1000).astimezone()       # lines have the time of the machine's zone
    wanted = f"{moment:%Y-%m-%d %H:%M:%S},{since % 1000:03}".encode()
    low, high = 0, source.raw(0, 1).total
    found = high
    while low < high:
        middle = (low + high) // 2
        line = _LINE.search(source.raw(middle, PIECE).content)
        if line is None or line[1] >= wanted:
            high = middle
            found = middle + line.start() if line is not None else found
        else:
            low = middle + line.start() + 1
    return found


def end_of(source: LogSource) -> int:
    """Return the offset of the last piece."""
    return max(0, source.piece(0, 1).total - PIECE)


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
    offset, rest, total, goes_on = start, b"", start + 1, True
    while goes_on:
        piece = source.raw(offset, min(_CHUNK, source.most_searched))
        total = piece.total
        if piece.next <= offset:
            break
        at, chunk, offset = offset - len(rest), rest + piece.content, piece.next
        goes_on = offset < total and offset - start < source.most_searched and source.may_go_on
        whole, _, rest = chunk.rpartition(b"\n")
        if offset >= total or len(rest) > _CHUNK or not (whole or goes_on):
            whole, rest = chunk, b""
        if wanted in _text(whole).lower():
            for line in whole.split(b"\n"):
                readable = _text(line)
                if wanted in readable.lower():
                    count += 1
                    if len(found) < MOST_HITS:
                        found.append(Hit(at, _shortened(readable)))
                at += len(line) + 1
    return Hits(tuple(found), count, offset - start, offset - len(rest) if offset < total else 0)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _shortened(line: str) -> str:
    line = line.rstrip("\r")
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
