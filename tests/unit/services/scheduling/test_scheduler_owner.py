"""Which process of a server schedules, and how the next one takes over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.job import JobKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus
from fate_flow.services.scheduling.events import (
    JobChanged,
    OutboxFilled,
    PartySilent,
    QueueChanged,
)
from fate_flow.services.upkeep.maintenance import sweep_exchange
from tests.kit.services.hand_scheduler import RULES, Process, chosen, job_of, submit
from tests.kit.services.hand_server import HandServer
from tests.kit.values import GUEST, JOB_ID


@pytest.mark.parametrize("is_over", [True, False])
def test_a_process_that_stands_by_sweeps_the_spool_of_its_own_home(is_over: bool) -> None:
    first = chosen()
    submit(first, accept=False)
    if is_over:
        with first.server.unit() as unit:
            first.scheduler._initiator.request_stop(unit, JOB_ID, Reason.STOPPED_BY_USER, "enough", True, "me")
        first.scheduler.poll()
    second, purged = Process(first.server, "other-1", "other-"), []
    assert not second.scheduler.is_chosen()

    class Spool:
        def sweep(self, is_job_over: Callable[[str], bool]) -> None:
            purged.extend(job_id for job_id in (JOB_ID, "20200101000000000000") if is_job_over(job_id))

    context = replace(second.scheduler.context, exchange=cast(Any, Spool()))
    context.read(lambda tx: sweep_exchange(context, tx))
    assert purged == ([JOB_ID] if is_over else []) + ["20200101000000000000"]


def test_the_first_process_schedules() -> None:
    process = Process(HandServer())
    assert process.scheduler.is_chosen()
    with process.server.store.reading() as tx:
        assert tx.scheduler()[0] == "home-1"


def test_a_process_of_another_home_waits_until_the_owner_has_stood_still() -> None:
    server = HandServer("9999", rules=RULES)
    first, second = chosen(server), Process(server, "other-1", "other-")
    for _ in range(3):
        assert not second.scheduler.is_chosen()
        second.seconds += 9
        first.scheduler.poll()              # a sign of life
    assert not second.scheduler.is_chosen()
    second.seconds += 10
    assert second.scheduler.is_chosen()


def test_a_process_of_the_same_home_takes_over_at_once_since_the_home_is_locked() -> None:
    server = HandServer("9999", rules=RULES)
    chosen(server)
    assert Process(server, "home-2").scheduler.is_chosen()


def test_after_a_clean_stop_the_next_one_need_not_wait() -> None:
    server = HandServer("9999", rules=RULES)
    first, second = chosen(server), Process(server, "other-1", "other-")
    assert not second.scheduler.is_chosen()
    first.scheduler.release_scheduler_lease()
    assert second.scheduler.is_chosen()


def test_resigning_takes_nothing_from_a_process_that_has_taken_over() -> None:
    server = HandServer("9999", rules=RULES)
    first = chosen(server)
    second = chosen(server, owner="home-2")
    first.scheduler.release_scheduler_lease()
    with server.store.reading() as tx:
        assert tx.scheduler()[0] == "home-2"
    second.scheduler.poll()
    assert second.scheduler.is_chosen()


@pytest.mark.parametrize(
    "act",
    [
        lambda one: one.scheduler.step([JobChanged(JOB_ID), QueueChanged()]),
        lambda one: one.scheduler.step([PartySilent("10000", 99.0)]),
        lambda one: one.scheduler.poll(),
        lambda one: one.scheduler.step([OutboxFilled()]),
    ],
)
def test_a_replaced_scheduler_that_wakes_up_writes_nothing_and_sends_nothing(act: Any) -> None:
    server = HandServer("9999", rules=RULES)
    first = chosen(server)
    submit(first)
    first.transport.take()
    chosen(server, owner="home-2")
    before = server.snapshot()
    act(first)
    assert server.snapshot() == before
    assert first.transport.posted == []
    assert first.scheduler.seconds_to_alarm() is None
    assert server.engine.launched == []


def test_whoever_takes_over_goes_on_where_the_other_stopped() -> None:
    server = HandServer("9999", rules=RULES)
    first = chosen(server)
    submit(first)
    first.scheduler.poll()
    assert first.sent() == ["dependence/check", "resource/apply"]
    second = chosen(server, owner="home-2")
    assert (second.sent(), job_of(second).ready_owner) == (["dependence/check", "resource/apply"], "home-2")
    for kind in (K.CHECK, K.APPLY, K.START):
        second.answer(kind)
    assert job_of(second).status is JobStatus.RUNNING
    assert job_of(second).ready_owner == ""


def test_a_stale_owner_cannot_end_the_reservation_round_of_the_new_one() -> None:
    server = HandServer("9999", rules=RULES)
    first = chosen(server)
    submit(first)
    first.scheduler.poll()
    chosen(server, owner="home-2")
    with server.store.transaction() as tx:
        assert not tx.end_round(JobKey(JOB_ID, GUEST), "home-1", "", "", 0, 0, 0, None)
