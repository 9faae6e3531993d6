"""A process that schedules, and one that stands by, with all that they consist of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from fate_flow.relay.spool_session import Session
from fate_flow.relay.wakeup import Wakeup
from fate_flow.server.runtime import Wakeups, open_spool, prepare_home
from fate_flow.server.scheduling import SchedulerLoop
from fate_flow.server.tracing.process_spans import ProcessSpans
from fate_flow.services.context.stopwatch import SLACK_SECONDS
from fate_flow.settings.servers import LONGEST_POLL
from fate_flow.settings.settings import Settings
from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.opening import open_database

JOB_ID = "20200101000000000000"
OVER = Session(JOB_ID, f"{JOB_ID}_a", 0, "a1b2c3d4", "host", "10000")


LONGEST_FAIL_OVER = 12.0
"""Seconds, as docs/guides/high-availability.md says."""
LONGEST_WHEN_LATE = 15.0
"""Not yet, as the same page says of a machine that is busy."""

Begin = Callable[[], SchedulerLoop]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings("9999", tmp_path / "home", log_dir=tmp_path / "home" / "logs")
    prepare_home(found)
    database = open_database(found.database_url, found.home)
    upgrade(database)
    database.close()
    return found


@pytest.fixture
def begin(settings: Settings) -> Iterator[Begin]:
    """Makes the loop of the process."""
    loops: list[SchedulerLoop] = []

    def make() -> SchedulerLoop:
        wakeups = Wakeups(Wakeup(), Wakeup(), Wakeup())
        loops.append(SchedulerLoop(settings, wakeups, "http://127.0.0.1:1", "home-1", ProcessSpans(settings)))
        return loops[-1]

    yield make
    for loop in loops:
        loop._senders.close()
        loop._effect_runner.finish()
        loop._record.close()


def test_a_process_that_stands_by_drops_what_is_left_in_the_spool_of_its_own_home(
    settings: Settings, begin: Begin
) -> None:
    """Who schedules has another home, and does not see it."""
    loop = begin()
    with loop._scheduler.context.store.transaction() as tx:
        assert tx.scheduler() == ("", 0)
        assert tx.take_scheduler_lease("", 0, "another-home-1")
    spool = open_spool(settings, Wakeup())
    assert spool.open(OVER, (("guest", "9999"),), "its token")
    loop._round()
    assert not loop._scheduler.is_in_charge
    assert spool.session_of("its token") is None


def test_time_for_which_a_process_stood_still_is_no_time_in_which_others_were_silent(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped while it waits for events, as by the sleep of its machine."""
    stood_still = [0.0]
    seconds = time.monotonic
    clock = SimpleNamespace(
        monotonic=lambda: seconds() + stood_still[0], sleep=time.sleep, thread_time=time.thread_time
    )  # fmt: skip
    monkeypatch.setattr("fate_flow.server.scheduling.time", clock)
    loop = begin()

    def steady() -> int:
        loop._is_poll_due = True
        loop._round()
        assert loop._scheduler.is_in_charge
        return loop._scheduler.context.read(lambda tx: tx.steady())

    before = steady()
    wait = loop._wakeup.wait

    def sleep(patience: float) -> object:
        stood_still[0] = 10_000.0
        return wait(patience)

    monkeypatch.setattr(loop._wakeup, "wait", sleep)
    assert steady() - before < 1_000_000


@pytest.mark.parametrize("late", [0.0, SLACK_SECONDS])
@pytest.mark.parametrize("since_look", [0.01, 0.5, 0.99])
def test_another_server_of_the_party_schedules_in_time_after_a_death_at_the_worst_moment(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, since_look: float, late: float
) -> None:
    """Whoever schedules shows a sign each `LONGEST_POLL`, and dies right after one. `since_look`: how long before that
    the other one has looked; `late`: by how much each of its looks is late, at most what a process may be that counts
    as awake."""
    seconds = [100.0]
    clock = SimpleNamespace(monotonic=lambda: seconds[0], sleep=time.sleep)
    monkeypatch.setattr("fate_flow.server.scheduling.time", clock)
    loop = begin()
    store = loop._scheduler.context.store
    signs = [100.0 + number * LONGEST_POLL + since_look for number in range(1, 20)]
    death = signs[-1]

    def wait(patience: float) -> list[bytes]:
        seconds[0] += patience + (late if patience else 0.0)
        while signs and signs[0] <= seconds[0]:
            signs.pop(0)
            with store.transaction() as tx:
                assert tx.renew_scheduler_lease("another-home-1", 1)
        return []

    with store.transaction() as tx:
        assert tx.take_scheduler_lease("", 0, "another-home-1")
    monkeypatch.setattr(loop._wakeup, "wait", wait)
    while not loop._scheduler.is_in_charge:
        loop._round()
    assert death < seconds[0] <= death + (LONGEST_WHEN_LATE if late else LONGEST_FAIL_OVER)


def test_after_a_poll_that_took_long_one_is_left_out_but_the_process_stays_in_charge(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = begin()
    assert loop._scheduler.is_chosen()
    worked = iter((0.0, 0.2, 1.0, 1.01))
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=time.sleep, thread_time=lambda: next(worked))
    monkeypatch.setattr("fate_flow.server.scheduling.time", clock)
    polls, signs, poll = list[int](), list[int](), loop._scheduler.poll
    monkeypatch.setattr(loop._scheduler, "poll", lambda: (polls.append(len(signs)), poll()))
    for _ in range(3):
        loop._poll_due()
        loop._work()
        signs.append(loop._scheduler.context.read(lambda tx: tx.scheduler()[1]))
    assert polls == [0, 2]
    assert signs == sorted(set(signs))
