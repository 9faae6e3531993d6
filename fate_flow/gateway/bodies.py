"""Bodies of requests and answers: kept until they are complete, within the share of their party, at a least rate."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import IO

from fate_flow.core.text.os_errors import os_error_text
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.refusals import Refused

_PIECE = 64 * 1024


class Body:
    """A body that arrives in pieces: in memory while it is small, then in a file without a name. Raises Refused if that
    cannot be written."""

    def __init__(self, memory_bytes: int, folder: Path) -> None:
        self.size = 0
        self._memory_bytes = memory_bytes
        self._folder = folder
        self._file: IO[bytes] = BytesIO()
        self._is_in_memory = True

    def add(self, data: bytes) -> None:
        self.size += len(data)
        try:
            if self._is_in_memory and self.size > self._memory_bytes:
                self._move()
            self._file.write(data)
        except OSError as error:
            raise Refused(503, f"the server cannot keep the body: {os_error_text(error)}") from error

    def complete(self) -> None:
        """Write what is still buffered: nothing is added any more."""
        try:
            self._file.flush()
        except OSError as error:
            raise Refused(503, f"the server cannot keep the body: {os_error_text(error)}") from error

    def pieces(self) -> Iterator[bytes]:
        """Yield the whole body, once it is complete."""
        self._file.seek(0)
        while piece := self._file.read(_PIECE):
            yield piece

    def close(self) -> None:
        self._file.close()

    def _move(self) -> None:
        file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  # `close` closes it
        self._file.seek(0)
        file.write(self._file.read())
        self._file, self._is_in_memory = file, False


class Pace:
    """The moment until which the next piece has to come or go: after a grace, a body needs a least rate on average.

    `clock` returns seconds that only grow."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._start = clock() + limits.grace_seconds
        self._rate = limits.bytes_per_second

    def deadline(self, done_bytes: int) -> float:
        return self._start + done_bytes / self._rate
