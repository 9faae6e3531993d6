"""The output of a worker: from pipes into its files, up to the limit of its party.

The first bytes of each stream are kept and the rest is dropped. A line marks where that begins, and one at the end says
how much was dropped. The worker neither waits nor notices: its output is always read.
"""

from __future__ import annotations

import os
import select
import threading
from contextlib import suppress
from pathlib import Path

_PIECE = 64 * 1024
_LAST_OUTPUT_SECONDS = 5.0


class CapturedOutput:
    """The two streams of one worker; its runner reads them in a separate thread."""

    def __init__(self, stdout: Path, stderr: Path, max_bytes: int, setting: str) -> None:
        """Keep `max_bytes` of each stream; `setting` is the configuration key of this limit.

        Raises OSError if a file cannot be opened."""
        self._streams: dict[int, _Stream] = {}
        self.writers: tuple[int, ...] = ()           # the descriptors that the worker writes to, stdout first
        for path in (stdout, stderr):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            reader, writer = os.pipe()
            self._streams[reader] = _Stream(file, max_bytes, setting)
            self.writers += (writer,)
        # A daemon, so that the runner can end although another process still holds a pipe of the worker.
        self._thread = threading.Thread(target=self._take_all, daemon=True)

    def begin(self) -> None:
        """Start reading. The runner calls this once the worker has the other ends."""
        for writer in self.writers:
            os.close(writer)
        self._thread.start()

    def finish(self) -> None:
        """Read the last output. The runner calls this when no process of the worker is left."""
        self._thread.join(_LAST_OUTPUT_SECONDS)

    def _take_all(self) -> None:
        poll = select.poll()
        for reader in self._streams:
            poll.register(reader, select.POLLIN)
        while self._streams:
            for reader, _ in poll.poll():
                data = os.read(reader, _PIECE)
                if data:
                    self._streams[reader].take(data)
                else:
                    poll.unregister(reader)
                    self._streams.pop(reader).close()
                    os.close(reader)


class _Stream:
    def __init__(self, file: int, max_bytes: int, setting: str) -> None:
        self._file = file
        self._setting = setting
        self._max_bytes = self._left = max_bytes
        self._dropped = 0

    def take(self, data: bytes) -> None:
        kept = self._write(data[: self._left])
        self._left -= kept
        if kept < len(data) and not self._dropped:
            self._say(f"\n[fate_flow] what follows is dropped: {self._setting} is {self._max_bytes}\n")
        self._dropped += len(data) - kept

    def close(self) -> None:
        if self._dropped:
            self._say(f"[fate_flow] {self._dropped} bytes were dropped\n")
        os.close(self._file)

    def _say(self, text: str) -> None:
        self._write(text.encode())

    def _write(self, data: bytes) -> int:
        """Write and return how many bytes the disk has taken."""
        written = 0
        with suppress(OSError):
            while written < len(data):
                written += os.write(self._file, data[written:])
        return written
