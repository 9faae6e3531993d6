"""The supervisor's look at its scheduler: what counts as standing still."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.server.scheduling import ALIVE_SECONDS
from fate_flow.server.watchdog import Watchdog

PID = 4711


class Watched:
    """A scheduler's sign of life, and a clock that goes from look to look."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.dog = Watchdog(file)
        self.now = 0.0
        self.signs = 0

    def sign(self) -> None:
        self.signs += 1
        self.file.write_text(str(self.signs))

    def looks(self, count: int, pid: int = PID, seconds: float = ALIVE_SECONDS) -> list[bool]:
        found = []
        for _ in range(count):
            self.now += seconds
            found.append(self.dog.stands_still(pid, self.now))
        return found


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "alive")


@pytest.mark.parametrize("has_file", [True, False])
def test_the_fifth_look_that_sees_the_same_is_too_many(watched: Watched, has_file: bool) -> None:
    if has_file:
        watched.sign()
    assert watched.looks(6) == [False, False, False, False, True, True]


def test_a_sign_of_life_begins_it_anew(watched: Watched) -> None:
    watched.sign()
    assert watched.looks(4) == [False] * 4
    watched.sign()
    assert watched.looks(5) == [False, False, False, False, True]


def test_another_process_has_its_own_time(watched: Watched) -> None:
    watched.sign()
    assert watched.looks(5)[-1]
    assert watched.looks(4, PID + 1) == [False] * 4


def test_looks_that_come_too_soon_do_not_count(watched: Watched) -> None:
    watched.sign()
    assert not any(watched.looks(39, seconds=ALIVE_SECONDS / 10))


def test_a_server_that_was_stopped_as_a_whole_does_not_kill_its_scheduler(watched: Watched) -> None:
    watched.sign()
    assert watched.looks(2) == [False, False]
    assert watched.looks(1, seconds=3600) == [False]       # one look, however long it took to come
    watched.sign()
    assert watched.looks(1) == [False]
