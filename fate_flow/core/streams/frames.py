"""What two gateways say to each other on the connection of one stream, after its upgrade.

A frame has a head of five bytes, its kind and the length of what follows, and at most `LONGEST` bytes. `DATA` is
passed on in the pieces in which it comes, so no frame has to fit into memory before it counts.

A gateway has at most `WINDOW` bytes on the way that the worker at the other end has not taken yet: `CREDIT` returns
what it took. So the connection itself is always read, and signs of life pass, however long a worker takes no data.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

LONGEST = 256 * 1024
WINDOW = 2 * 1024 * 1024
MOST_UNREAD = WINDOW + 2 * LONGEST
"""A sender may read once more from its worker than it has credit for."""

_HEAD = struct.Struct("!BI")
_CREDIT = struct.Struct("!I")
_LONGEST_TEXT = 1000              # bytes


class Kind(IntEnum):
    DATA = 1
    CREDIT = 2          # so many more bytes may be sent
    END = 3             # no more data follows in this direction
    ALIVE = 4           # says nothing: no device in between forgets the connection
    ERROR = 5           # why the stream ends in both directions, as a sentence


class BadFrame(ValueError):
    """What the other gateway sends is not a stream."""


@dataclass(frozen=True)
class Frame:
    """One frame; of a `DATA` frame, perhaps only a piece."""

    kind: Kind
    content: bytes | memoryview = b""

    @property
    def credit(self) -> int:
        return int(_CREDIT.unpack(self.content)[0])

    @property
    def text(self) -> str:
        return bytes(self.content).decode("utf-8", "replace")


def data_head(length: int) -> bytes:
    """Return what precedes so many bytes of data, which are at most `LONGEST`."""
    return _HEAD.pack(Kind.DATA, length)


def credit_frame(count: int) -> bytes:
    return _HEAD.pack(Kind.CREDIT, _CREDIT.size) + _CREDIT.pack(count)


def error_frame(text: str) -> bytes:
    content = text.encode()[:_LONGEST_TEXT]
    return _HEAD.pack(Kind.ERROR, len(content)) + content


END = _HEAD.pack(Kind.END, 0)
ALIVE = _HEAD.pack(Kind.ALIVE, 0)

_SIZES = {
    Kind.DATA: (1, LONGEST), Kind.CREDIT: (_CREDIT.size, _CREDIT.size), Kind.END: (0, 0), Kind.ALIVE: (0, 0),
    Kind.ERROR: (0, _LONGEST_TEXT),
}  # fmt: skip
"""The least and the most bytes of each kind."""


class FrameReader:
    """Reads the frames of one direction, however they are cut."""

    def __init__(self) -> None:
        self._head = b""              # the beginning of a head
        self._kind = Kind.ALIVE
        self._left = 0                # bytes of the present frame that have not come
        self._content = b""           # what came of a frame that is not DATA

    def read(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that these bytes complete, and the data in them. Raises BadFrame."""
        view = memoryview(data)
        while view:
            if not self._left:
                view, frame = self._begin(view)
                if frame is not None:
                    yield frame
                continue
            piece, view = view[: self._left], view[self._left :]
            self._left -= len(piece)
            if self._kind is Kind.DATA:
                yield Frame(Kind.DATA, piece)
                continue
            self._content += piece
            if not self._left:
                content, self._content = self._content, b""
                yield Frame(self._kind, content)

    def _begin(self, view: memoryview) -> tuple[memoryview, Frame | None]:
        """Take a head, or a part of it; return the rest, and the frame if it is complete."""
        lacking = _HEAD.size - len(self._head)
        self._head += view[:lacking]
        if len(self._head) < _HEAD.size:
            return view[lacking:], None
        number, self._left = _HEAD.unpack(self._head)
        self._head = b""
        try:
            self._kind = Kind(number)
        except ValueError as error:
            raise BadFrame(f"the other server sent a frame of the unknown kind {number}") from error
        least, most = _SIZES[self._kind]
        if not least <= self._left <= most:
            raise BadFrame(f"the other server sent a {self._kind.name} frame of {self._left} bytes")
        return view[lacking:], None if self._left else Frame(self._kind)
