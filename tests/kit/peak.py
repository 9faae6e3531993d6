"""The most memory that a process has had: the kernel knows it for as long as the process is there. Linux only."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

_LOOK_SECONDS = 0.002


def peak(pid: int) -> int:
    """The most that a process has had resident; 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)


def begin_anew(pid: int) -> None:
    """What the process has resident now is its peak."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


class PeakMeter:
    """Looks at a process until it has gone: what it had resident at most goes with it."""

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self._pid = pid
        self._over = Event()
        self._thread = Thread(target=self._look)

    def __enter__(self) -> PeakMeter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            self.bytes = max(self.bytes, peak(self._pid))
            if self._over.wait(_LOOK_SECONDS):
                return
