"""The spool counts right wherever one operation is interrupted by another: before each system call, none by timing."""

from __future__ import annotations

import errno
import fcntl
import itertools
import linecache
import shutil
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from fate_flow.relay.channel_files import make_channel_file
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_result import Refusal
from fate_flow.relay.spool_session import Session

pytestmark = pytest.mark.long

HERE = Session("20260101120000", "20260101120000_psi_0", 0, "a1b2c3d4", "host", "10000")
GUEST = ("guest", "9999")
REAL_FLOCK = fcntl.flock


class Interleaver:
    """Runs one operation and, before one of its system calls, another one until that is done or waits for a lock."""

    def __init__(self, first: Callable[[], object], second: Callable[[], object], call: int) -> None:
        self._first, self._call = first, call
        self._paused = threading.Event()
        self._errors: list[Exception] = []
        self._second = threading.Thread(target=self._run, args=(second,))

    def run(self) -> bool:
        """False when the first operation has fewer calls than that."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            self._first()
        finally:
            sys.settrace(before)
        if self._second.ident is not None:
            self._second.join()
        assert self._errors == []
        return self._second.ident is not None

    def flock(self, fd: int, operation: int) -> None:
        try:
            REAL_FLOCK(fd, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            if threading.current_thread() is self._second:
                self._paused.set()
            REAL_FLOCK(fd, operation)

    def _run(self, second: Callable[[], object]) -> None:
        try:
            second()
        except Exception as error:  # noqa: BLE001
            self._errors.append(error)
        finally:
            self._paused.set()

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        code = frame.f_code
        if "/fate_flow/relay/" not in code.co_filename and code.co_name != "makedirs":
            return None
        if event == "line" and "os." in linecache.getline(frame.f_code.co_filename, frame.f_lineno):
            self._call -= 1
            if self._call == 0:
                self._second.start()
                assert self._paused.wait(90)
        return self._trace


def a_spool(root: Path) -> Spool:
    return Spool(root, SpoolLimits(), lambda: None)


def total(root: Path) -> int:
    return int.from_bytes((root / "total").read_bytes(), "little")


def push(spool: Spool, seq: int, topic: str = "t") -> object:
    return spool.put(HERE, topic, GUEST, seq, True, b"x" * 5000)


def close(spool: Spool) -> object:
    return spool.close(HERE)


def purge(spool: Spool) -> object:
    return spool.purge(HERE.job_id)


OPERATIONS: dict[str, Callable[[Spool], object]] = {
    "first push of a topic": lambda spool: push(spool, 0, "new"),
    "next push of a topic": lambda spool: push(spool, 2),
    "pop that confirms": lambda spool: spool.get(HERE, "t", GUEST, 1),
    "release": lambda spool: spool.release(HERE, "t", GUEST),
    "start of a process": lambda spool: a_spool(Path(spool._root)),
    "close": close,
    "purge": purge,
}
ENDS = ("close", "purge")
SEES_ALL = ("start of a process", *ENDS)     # the others exclude each other by the lock of the channel
PAIRS = [*((first, second) for first in OPERATIONS for second in SEES_ALL),
         *((first, second) for first in SEES_ALL for second in ("first push of a topic", "pop that confirms"))]


@pytest.mark.long
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_operations_leave_an_exact_count(
    first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for call in itertools.count(1):
        root = tmp_path / str(call)
        spool, other = a_spool(root), a_spool(root)
        spool.open(HERE, (GUEST,), "token")
        assert not isinstance(push(spool, 0), Refusal)
        assert not isinstance(push(spool, 1), Refusal)
        both = Interleaver(partial(OPERATIONS[first], spool), partial(OPERATIONS[second], other), call)
        monkeypatch.setattr(fcntl, "flock", both.flock)
        reached = both.run()
        monkeypatch.setattr(fcntl, "flock", REAL_FLOCK)
        if not reached:
            break
        counted = total(root)
        if first in ENDS or second in ENDS:
            assert counted == 0, f"before call {call}"
            assert not list(root.glob("sessions/*/*/*.[0-9]*"))
        a_spool(root)
        assert counted == total(root), f"before call {call}"
        shutil.rmtree(root)
    assert call > 10


def test_a_channel_without_a_chunk_is_closed_without_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a push leaves it that was killed after it made the file: a full disk takes nothing more."""
    spool = a_spool(tmp_path)
    spool.open(HERE, (GUEST,), "token")
    make_channel_file(spool._channel_path(HERE, "/".join((*GUEST, "t"))))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("fate_flow.relay.channel_files.os.pwrite", full)
    close(spool)
    assert not [path for path in tmp_path.glob("sessions/*/*/*") if len(path.name) == 40]


@pytest.mark.parametrize(("first", "second"), [("open", "purge"), ("close", "purge"), ("purge", "open")])
def test_a_purge_may_come_anywhere_into_an_open_and_a_close(
    first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_it(spool: Spool) -> None:
        assert spool.open(HERE, (GUEST,), "token")

    operations = {"open": open_it, "close": close, "purge": purge}
    for call in itertools.count(1):
        spool, other = (a_spool(tmp_path / str(call)) for _ in range(2))
        if first == "purge":
            spool.open(HERE, (GUEST,), "token")
        both = Interleaver(partial(operations[first], spool), partial(operations[second], other), call)
        monkeypatch.setattr(fcntl, "flock", both.flock)
        reached = both.run()
        monkeypatch.setattr(fcntl, "flock", REAL_FLOCK)
        if not reached:
            break
    assert call > 10
