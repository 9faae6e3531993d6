"""What the scheduler process does at intervals."""

from __future__ import annotations

import subprocess
import sys
from threading import Event

import pytest

from fate_flow.server.periodic.ticks import Interval, Tick


def test_an_interval_passes_again_and_again() -> None:
    now = [100.0]
    interval = Interval(3.0, lambda: now[0])
    found = []
    for now[0] in (100.0, 102.9, 103.0, 103.1, 106.0, 108.9, 109.5, 112.0, 112.5):
        found.append((now[0], interval.has_passed(), round(interval.seconds_left(), 1)))
    assert found == [
        (100.0, False, 3.0), (102.9, False, 0.1), (103.0, True, 3.0), (103.1, False, 2.9), (106.0, True, 3.0),
        (108.9, False, 0.1), (109.5, True, 2.5), (112.0, True, 3.0), (112.5, False, 2.5),
    ]  # fmt: skip


def test_of_many_intervals_that_were_missed_one_counts() -> None:
    """The process stood still: it does not catch up on hours of polls."""
    now = [100.0]
    interval = Interval(3.0, lambda: now[0])
    now[0] += 3_600
    assert interval.has_passed()
    assert not interval.has_passed()
    assert interval.seconds_left() == 3.0


def test_a_tick_goes_on_after_an_error_and_closes_what_its_thread_has_opened(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[int] = []
    was_called_again, is_closed = Event(), Event()

    def act() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("no disk")
        was_called_again.set()

    tick = Tick("disk watch", 0.001, act, is_closed.set)
    tick.start()
    assert was_called_again.wait(60)
    tick.stop()
    assert is_closed.wait(60)
    assert "a step of the disk watch failed: no disk" in caplog.text


def test_the_scheduler_needs_no_library_that_measures_time() -> None:
    """One took 65 modules of each process of a server."""
    code = "import sys; import fate_flow.server.scheduling; sys.exit('multiprocessing' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
