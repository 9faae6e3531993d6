"""Somebody sets the clock on the wall by an hour, forward or back: nothing is decided otherwise for it."""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest

from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.server.scheduling import Ticks
from fate_flow.services.context.stopwatch import AwakeClock
from fate_flow.services.scheduling.events import WorkerChanged
from fate_flow.services.scheduling.scheduler import Scheduler
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import (
    MINUTE_RULES,
    Process,
    after,
    chosen,
    holding,
    job_of,
    local,
    release,
    restarted,
    submit,
)
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.sights import FAILED, RUNS, STOPPED
from tests.kit.values import GUEST, JOB_ID, NOW

HOUR = 3_600_000

step = pytest.mark.parametrize("step", [HOUR, -HOUR, 0], ids=["forward", "back", "none"])


def process() -> Process:
    return chosen(HandServer("9999", cores=4, rules=MINUTE_RULES))


def running(one: Process, **conf: Any) -> None:
    document = job({"guest": ["9999"]}, retries=1)
    document.runtime_conf["job_parameters"]["common"].update(conf)  # type: ignore[index]  # a document of the test
    submit(one, document=document, accept=False)
    one.scheduler.poll()
    assert job_of(one).status is JobStatus.RUNNING


def see(one: Process, observation: Any) -> None:
    worker = worker_of(one.server, "work_0", GUEST)
    one.server.engine.sights[worker] = observation
    one.scheduler.step([WorkerChanged(worker)])


@step
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_refused_job_is_asked_for_again_after_its_pause_and_not_before(step: int, is_restarted: bool) -> None:
    one = process()
    holding(one, 4)
    submit(one, document=local(), accept=False)
    one.scheduler.poll()
    release(one)
    one.server.now += step
    one = restarted(one) if is_restarted else one
    after(one, 1.9)
    assert job_of(one).status is JobStatus.WAITING
    after(one, 0.2)
    assert job_of(one).status is JobStatus.RUNNING


@step
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_task_is_tried_again_after_its_pause_and_not_before(step: int, is_restarted: bool) -> None:
    one = process()
    running(one, auto_retry_delay=5)
    see(one, FAILED)
    one.server.now += step
    one = restarted(one) if is_restarted else one
    after(one, 4.9)
    assert one.server.task("work_0", GUEST, 1).status is TaskStatus.WAITING
    after(one, 0.2)
    assert one.server.task("work_0", GUEST, 1).status is TaskStatus.RUNNING


@step
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_drain_lasts_as_long_as_it_may(step: int, is_restarted: bool) -> None:
    one = process()
    running(one)
    see(one, RUNS)
    with one.server.unit() as unit:
        one.scheduler._initiator.request_stop(unit, JOB_ID, Reason.STOPPED_BY_USER, "enough", True, "me")
    one.scheduler.poll()
    one.server.now += step
    one = restarted(one) if is_restarted else one
    after(one, 59.9)
    assert job_of(one).status is JobStatus.STOPPING
    after(one, 0.2)
    assert (job_of(one).status, job_of(one).unconfirmed) == (JobStatus.CANCELED, ("guest 9999",))


def test_a_server_that_slept_reads_what_waits_before_a_drain_is_over() -> None:
    one = process()
    clock = AwakeClock(lambda: one.seconds)
    one.scheduler = Scheduler(one.server.context, one.transport, "home-2", "home-", clock)
    assert one.scheduler.is_chosen()
    running(one)
    see(one, RUNS)
    with one.server.unit() as unit:
        one.scheduler._initiator.request_stop(unit, JOB_ID, Reason.STOPPED_BY_USER, "enough", True, "me")
    one.scheduler.poll()
    clock.expect(5.0)
    after(one, 100.0)
    assert job_of(one).status is JobStatus.STOPPING, "nobody has waited these 100 s"
    see(one, STOPPED)
    assert (job_of(one).status, job_of(one).unconfirmed) == (JobStatus.CANCELED, ())


@step
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_job_may_run_as_long_as_it_may_and_time_in_which_nobody_watched_does_not_count(
    step: int, is_restarted: bool
) -> None:
    one = process()
    running(one, timeout=100)
    see(one, RUNS)
    after(one, 60)
    one.server.now += step
    one = restarted(one) if is_restarted else one
    after(one, 40)
    assert job_of(one).reason is None
    after(one, 1.1)
    assert job_of(one).reason is Reason.JOB_TIMEOUT


@step
def test_a_job_may_wait_as_long_as_it_may(step: int) -> None:
    one = process()
    holding(one, 4)
    submit(one, document=local(), accept=False)
    one.server.now += step
    after(one, 299)
    assert job_of(one).status is JobStatus.WAITING
    after(one, 1.1)
    assert (job_of(one).status, job_of(one).reason) == (JobStatus.TIMEOUT, Reason.NO_CAPACITY)


@step
def test_a_worker_has_its_time_to_come_up(step: int) -> None:
    one = process()
    running(one)
    one.server.now += step
    after(one, 1.9)
    assert len(one.server.engine.launched) == 1
    after(one, 57.0)
    assert one.server.task("work_0", GUEST).party_status is TaskStatus.WAITING
    after(one, 1.2)
    assert one.server.task("work_0", GUEST).reason is Reason.LAUNCH_FAILED


@step
def test_a_stop_of_an_hour_between_two_lives_ends_nothing(step: int) -> None:
    """What was running when the server went down is as old when it comes up: it is not overdue for that."""
    one = process()
    running(one, timeout=100)
    see(one, RUNS)
    one.server.now += HOUR + step
    again = restarted(one)
    again.scheduler.poll()
    assert job_of(again).reason is None


def test_jobs_queue_in_the_order_of_their_submits_whatever_the_clock_does() -> None:
    one = process()
    holding(one, 4)
    names = [f"2026010112000000{number:04d}" for number in (5, 3, 9, 1)]
    for name, at in zip(names, (0, -HOUR, HOUR, -HOUR), strict=True):
        one.server.now = NOW + at
        submit(one, name, local(4), accept=False)
    with one.server.store.reading() as tx:
        assert [found.job_id for found in tx.waiting_jobs()] == names


@step
def test_who_schedules_is_not_decided_by_the_clock(step: int) -> None:
    first = process()
    second = Process(first.server, "other-1", "other-")
    assert not second.scheduler.is_chosen()
    first.server.now += step
    assert not second.scheduler.is_chosen()
    second.seconds += MINUTE_RULES.scheduler_silence / 1000
    assert second.scheduler.is_chosen()


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_the_polls_go_on_when_the_clock_is_set(step: float) -> None:
    wall, polled = [1_000.0], Event()
    ticks = Ticks(lambda: wall[0], lambda: 5.0)
    ticks.every(3_600, polled.set)
    ticks.start()
    try:
        ticks.keep_going()
        assert not polled.is_set()
        wall[0] += step
        ticks.keep_going()
        assert polled.wait(90)
    finally:
        ticks.stop()
