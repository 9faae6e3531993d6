"""Workers that come when a party has capacity and go when somebody waits for it: what the party orders, stops and
says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.components.providers.command import COMMAND_PROVIDER
from fate_flow.core.model.job import Answer, Claim, CommandKind, EngineState, Hold, JobKey, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.resources import LOCAL, EngineSize
from fate_flow.core.model.status import JobStatus, TaskStatus, WorkerStatus
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Engines, Observation, PartyEngine, Rules
from fate_flow.services.use_cases.admin import Operator
from fate_flow.services.workers.elastic import begin_elastic, tend_elastic
from fate_flow.services.workers.watch import WorkerWatch
from tests.kit.job_documents import job
from tests.kit.modules import Module
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import DOCUMENT, command, create, task_command
from tests.kit.services.sights import FAILED, RUNS, STOPPED, SUCCEEDED
from tests.kit.values import HOST, JOB_ID, NOW, a_job

OTHER_JOB = "202601010000000000077"


class Open:
    def objection(self, *_: object) -> str:
        return ""


def a_host(cores: int = 8, most: float = 1.0, share: float = 1.0, **parameters: Any) -> HandServer:
    """A host of so many cores where task a runs: two workers share two cores, up to five may come."""
    host = HandServer("10000", cores=cores, rules=Rules())
    host.steady = 100_000
    engines = Engines({LOCAL: PartyEngine(host.engine, EngineSize(1, 8, 0, most))})
    modules = {"Command": Module(COMMAND_PROVIDER)}
    quotas = Quotas("10000", PartyQuota(cores_share=share))
    for name, value in (("modules", modules), ("program_policy", Open()), ("engines", engines), ("quotas", quotas)):
        object.__setattr__(host.context, name, value)
    said = {"replicas": 5, "min_replicas": 2, "max_failed_workers": 1} | parameters
    document = job({"guest": ["9999"], "host": ["10000"]}, {"a": []}, cores=2, commands={"a": said})
    described = {"turn": 1}
    for one in (
        create(document=document), command(CommandKind.STATUS, argument="waiting"),
        command(CommandKind.CHECK, **described), command(CommandKind.APPLY, **described), command(CommandKind.START),
        task_command(CommandKind.TASK_START),
    ):  # fmt: skip
        answer = host.handle(one)
        assert answer.is_ok, (one, answer)
    return host


def replicas(host: HandServer) -> list[Worker]:
    with host.store.reading() as tx:
        return sorted(tx.workers_of(JOB_ID), key=lambda one: (one.slot, one.attempt))


def elastic(host: HandServer) -> list[int]:
    """The slots of those that have not exited."""
    return [one.slot for one in replicas(host) if one.is_elastic and one.status is not WorkerStatus.EXITED]


def see(host: HandServer, slot: int, *sights: Observation) -> None:
    for observation in sights:
        worker = [one for one in replicas(host) if one.slot == slot][-1]
        host.engine.sights[worker.worker_id] = observation
        with host.unit() as unit:
            WorkerWatch().observe(unit, worker.worker_id)


def tend(host: HandServer) -> None:
    with host.unit() as unit:
        tend_elastic(unit)


def ask(host: HandServer, cores: int, memory: int = 0) -> Answer:
    """Another job asks for so much."""
    key = JobKey(OTHER_JOB, HOST)
    with host.store.transaction() as tx:
        if tx.job(key) is None:
            tx.add_job(replace(a_job(JobStatus.WAITING, HOST, asked=Claim(cores, memory)), key=key), DOCUMENT)
    return host.handle(replace(command(CommandKind.APPLY, turn=1), job_id=OTHER_JOB))


def stopped(host: HandServer) -> list[int]:
    by_id = {one.worker_id: one.slot for one in replicas(host)}
    return [by_id[one] for one in host.engine.stopped]


def test_they_begin_with_the_share_as_far_as_there_is_capacity() -> None:
    host = a_host(cores=4)
    assert [(one.slot, one.rank, one.is_elastic, one.cores) for one in replicas(host)] == [
        (0, 0, False, 0), (1, 1, False, 0), (2, None, True, 1), (3, None, True, 1),
    ]  # fmt: skip
    assert host.free_cores() == 0
    orders = {one.worker.slot: one.program.env for one in host.engine.launched if one.program}
    assert [orders[slot].get("FATE_FLOW_ELASTIC_CORES") for slot in range(4)] == [None, None, "1", "1"]
    assert {one.speaks_as for one in host.engine.launched} == {host.task().worker_id}
    tend(host)
    assert elastic(host) == [2, 3]
    with host.store.transaction() as tx:
        tx.register_engine(EngineState("local", 8, 0, 0, 0), {}, NOW)
    tend(host)
    assert (elastic(host), host.free_cores()) == ([2, 3, 4], 3)


def test_they_stay_within_the_share_of_their_party_and_go_for_another_job_of_it() -> None:
    host = a_host(share=0.375)
    assert (elastic(host), host.free_cores()) == ([2], 5)
    answer = ask(host, 1)
    assert answer.data["quota"] == "cores_share"
    assert answer.data["why"].endswith("elastic workers are giving theirs back")
    assert stopped(host) == [2]
    see(host, 2, RUNS, STOPPED)
    tend(host)
    assert elastic(host) == [], "a job of the same party waits"
    assert ask(host, 1).is_ok


def test_one_that_is_beyond_the_share_since_another_process_reserved_is_not_added() -> None:
    host = a_host(share=0.25)
    assert elastic(host) == []
    object.__setattr__(host.context, "quotas", Quotas("10000", PartyQuota(cores_share=0.375)))
    held = iter((2, 4))
    with host.unit() as unit:
        unit.tx.cores_of_jobs_by = lambda _: next(held)      # type: ignore[method-assign, assignment, attr-defined]
        begin_elastic(unit, host.task().key)
    assert (elastic(host), host.free_cores()) == ([], 6)


def test_a_job_that_lacks_capacity_has_as_many_go_as_it_needs_and_starts_when_they_have_gone() -> None:
    host = a_host(cores=5)
    answer = ask(host, 2)
    assert answer.data["why"] == "has 0 of 5 cores free, 2 asked; elastic workers are giving theirs back"
    assert stopped(host) == [4, 3]
    described = [(one.reason, one.message, one.caused_by) for one in replicas(host) if one.is_stopping]
    assert described == [(Reason.CORES_LENT, "its 1 core is needed", "host 10000")] * 2
    text = f"elastic worker 4 of task {JOB_ID}_a 0 on host 10000 goes: its 1 core is needed"
    assert host.record.seen(Event.JOB_NOTE)[0]["text"] == text
    assert "giving theirs back" in ask(host, 2).data["why"]
    assert stopped(host) == [4, 3], "asked again, nobody else goes"
    for slot, free in ((3, 1), (4, 2)):
        see(host, slot, RUNS, STOPPED)
        assert host.free_cores() == free
    tend(host)
    assert elastic(host) == [2], "somebody waits"
    assert ask(host, 2).is_ok
    ended = [(one.status, one.reason, one.exit_status) for one in replicas(host) if one.slot in (3, 4)]
    assert ended == [(WorkerStatus.EXITED, Reason.CORES_LENT, "signal 15")] * 2
    assert (host.task().party_status, host.task().reason) == (TaskStatus.RUNNING, None)
    tend(host)
    assert elastic(host) == [2], "there is no capacity"


def test_they_come_again_in_their_slots_when_there_is_capacity_once_more() -> None:
    host = a_host(cores=5)
    ask(host, 3)
    for slot in (2, 3, 4):
        see(host, slot, STOPPED)
    assert ask(host, 3).is_ok
    with host.store.transaction() as tx:
        tx.give_back(JobKey(OTHER_JOB, HOST), None, NOW)
        tx.forget_pending(JobKey(OTHER_JOB, HOST))
    launched = len(host.engine.launched)
    tend(host)
    assert [(one.slot, one.attempt) for one in replicas(host)[2:]] == [(2, 0), (2, 1), (3, 0), (3, 1), (4, 0), (4, 1)]
    assert (elastic(host), host.free_cores()) == ([2, 3, 4], 0)
    assert len(host.engine.launched) == launched, "who lived for a moment only is begun again by the next poll"


def test_who_could_not_start_with_all_they_hold_has_none_go() -> None:
    host = a_host(cores=4)
    assert ask(host, 3).data["why"] == "has 0 of 4 cores free, 3 asked"
    assert stopped(host) == []
    tend(host)
    assert elastic(host) == [2, 3]


def test_a_party_that_has_less_than_is_in_use_has_them_go() -> None:
    host = a_host(cores=5)
    with host.store.transaction() as tx:
        tx.register_engine(EngineState("local", 3, 0, 0, 0), {}, NOW)
    tend(host)
    tend(host)
    assert (host.free_cores(), stopped(host)) == (-2, [4, 3])


def test_no_job_has_more_than_one_job_may() -> None:
    assert elastic(a_host(most=0.5)) == [2, 3]


def test_nothing_new_begins_at_a_party_that_is_on_hold() -> None:
    host = a_host(cores=3)
    see(host, 2, FAILED)
    with host.store.transaction() as tx:
        tx.hold_intake(Hold("m", "somebody"))
    tend(host)
    assert (elastic(host), host.free_cores()) == ([], 1)
    with host.store.transaction() as tx:
        tx.release_intake()
    tend(host)
    assert elastic(host) == [2]


@pytest.mark.parametrize(
    ("parameters", "end", "again"),
    [
        ({}, SUCCEEDED, []),
        ({}, FAILED, [2]),
        ({"max_failed_workers": 0, "restart_completed_workers": True}, SUCCEEDED, [2]),
        ({"max_failed_workers": 0, "size": 1}, FAILED, []),
        ({"max_failed_workers": 0, "size": 1}, SUCCEEDED, []),
    ],
)
def test_one_that_ends_by_itself(parameters: dict[str, Any], end: Observation, again: list[int]) -> None:
    host = a_host(cores=3, **parameters)
    assert elastic(host) == [2]
    see(host, 2, RUNS, end)
    assert (host.free_cores(), host.task().party_status) == (1, TaskStatus.RUNNING)
    tend(host)
    assert elastic(host) == again or elastic(host) == [3], "else another slot has the capacity"
    assert [one for one in elastic(host) if one == 2] == again


def test_an_elastic_worker_that_fails_too_often_breaks_the_share_as_the_others_do() -> None:
    host = a_host(cores=3)
    see(host, 2, RUNS, FAILED)
    tend(host)
    see(host, 2, RUNS, FAILED)
    task = host.task()
    assert (task.party_status, task.reason) == (TaskStatus.STOPPING, Reason.WORKER_ERROR)
    assert task.message.startswith("elastic worker 2: it went wrong")


def test_when_all_ranks_are_done_they_are_sent_home_and_hold_nothing_any_more() -> None:
    host = a_host(cores=5)
    for slot in (0, 1):
        see(host, slot, RUNS, SUCCEEDED)
    assert sorted(stopped(host)) == [2, 3, 4]
    tend(host)
    for slot in (2, 3, 4):
        see(host, slot, STOPPED)
    assert (host.task().party_status, host.free_cores()) == (TaskStatus.SUCCESS, 3)


def test_a_stop_of_the_job_ends_them_and_everything_comes_back() -> None:
    host = a_host(cores=5)
    host.handle(command(CommandKind.STOP, argument="canceled", reason="stopped_by_user", message=""))
    for slot in range(5):
        see(host, slot, STOPPED)
    assert host.free_cores() == 3, "the claim goes with the job, which nobody has looked at here"
    tend(host)
    assert elastic(host) == []


def test_a_task_that_begins_again_begins_without_them() -> None:
    host = a_host(cores=5, max_failed_workers=0, size=2)
    see(host, 0, RUNS, FAILED)
    for slot in (1, 2, 3, 4):
        see(host, slot, STOPPED)
    assert host.free_cores() == 3
    assert ask(host, 3).is_ok
    host.handle(task_command(CommandKind.TASK_CREATE, version=1, incarnation="c1" * 16, auto_retries=0))
    host.handle(task_command(CommandKind.TASK_START, version=1, incarnation="c1" * 16))
    assert [(one.slot, one.rank) for one in replicas(host) if one.task.version == 1] == [(1, 1), (2, 0)]


def test_the_operator_sees_what_they_hold() -> None:
    found = Operator(a_host(cores=4).context).held()
    assert ([one.claim.cores for one in found.jobs], [one.cores for one in found.elastic]) == ([2], [1, 1])
