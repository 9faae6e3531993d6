"""A party with two engines: whatever concerns a reservation or a worker goes to the engine that its row names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.components.providers.command import COMMAND_PROVIDER
from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.job import Answer, Claim, CommandKind, JobKey, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, TaskStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Engines
from fate_flow.services.use_cases.admin import Operator
from fate_flow.services.workers.elastic import tend_elastic
from fate_flow.services.workers.watch import WorkerWatch
from tests.kit.job_documents import job
from tests.kit.modules import Module
from tests.kit.services.hand_initiator import Initiator, report, running
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import DOCUMENT, HOLD, JOIN, RUN, a_host, command, create, task_command
from tests.kit.services.replicas import ProgramPolicy, replicas
from tests.kit.services.sights import FAILED, RUNS, STOPPED, SUCCEEDED, made
from tests.kit.values import GUEST, HOST, JOB_ID, NOW, a_job

START_A = task_command(CommandKind.TASK_START)
STOP = command(CommandKind.STOP, argument="canceled")
APPLY = command(CommandKind.APPLY, turn=1)
ABSENT = (
    "engine slurm is not in the configuration of this server: put its section section of slurm back until its jobs "
    "have ended"
)


def a_party(*commands: Any, **cores: int) -> HandServer:
    """A host with the engines `slurm`, the default, and `local`."""
    return a_host(*commands, engines=cores or {"slurm": 8, "local": 4})


def free(host: HandServer) -> dict[str, int]:
    return {name: host.free_cores(name) for name in host.engines}


def worker_in(host: HandServer) -> Worker:
    with host.store.reading() as tx:
        found = tx.worker(worker_of(host))
    assert found is not None
    return found


# ---------------------------------------------------------------------- reservations


def test_a_job_reserves_on_the_default_engine_and_gives_back_to_the_one_that_has_reserved() -> None:
    host = a_party(*HOLD)
    assert (host.job().claim.engine, free(host)) == ("slurm", {"slurm": 6, "local": 4})
    host.configure("local", "slurm")
    assert host.handle(command(CommandKind.RETURN, turn=1)).is_ok
    assert free(host) == {"slurm": 8, "local": 4}
    assert host.handle(APPLY).data["remaining_cores"] == 2
    assert (host.job().claim.engine, free(host)) == ("local", {"slurm": 8, "local": 2})


def test_an_apply_that_is_repeated_is_answered_for_the_engine_that_has_reserved() -> None:
    host = a_party(*HOLD)
    host.configure("local", "slurm")
    assert host.handle(APPLY).data["remaining_cores"] == 6
    assert free(host) == {"slurm": 6, "local": 4}


def test_cores_of_another_engine_are_no_capacity() -> None:
    host = a_party(*JOIN, slurm=2, local=8)
    other = JobKey("202601010000000000077", HOST)
    with host.store.transaction() as tx:
        tx.add_job(replace(a_job(JobStatus.WAITING, HOST), key=other), DOCUMENT)
        assert tx.reserve(other, "slurm", 1, 0, "t", 1, 1)
    assert host.handle(APPLY).data["why"].startswith("has 1 of 2 cores free, 2 asked")
    assert free(host) == {"slurm": 1, "local": 8}


def test_a_reservation_of_an_engine_that_was_taken_out_comes_back_to_its_row() -> None:
    host = a_party(*HOLD)
    host.configure("local")
    assert host.handle(command(CommandKind.RETURN, turn=1)).is_ok
    assert free(host) == {"slurm": 8, "local": 4}


def test_the_operator_sees_each_engine_and_also_one_that_was_taken_out_while_a_job_holds_something() -> None:
    host = a_party(*HOLD)
    for names, shown in ((("slurm", "local"), ["slurm", "local"]), (("local",), ["local", "slurm"])):
        host.configure(*names)
        assert [one.name for one in Operator(host.context).held().engines] == shown
    assert Operator(host.context).release(JobKey(JOB_ID, HOST), "why not", stops=False).cores == 2
    assert [one.name for one in Operator(host.context).held().engines] == ["local"]
    assert free(host) == {"slurm": 8, "local": 4}


# ---------------------------------------------------------------------- workers


def test_the_workers_of_a_job_run_where_it_has_reserved_whatever_the_default_is_by_then() -> None:
    host = a_party(*RUN)
    host.configure("local", "slurm")
    host.handle(START_A)
    slurm, local = host.engines["slurm"], host.engines["local"]
    [order] = slurm.launched
    assert (order.worker, local.launched) == (worker_in(host), [])
    assert (order.worker.engine, order.worker.handle.partition(":")[0]) == ("slurm", "slurm")


def test_only_their_engine_is_asked_how_they_are() -> None:
    host = a_party(*RUN, START_A)
    host.engines["local"].sights[worker_of(host)] = FAILED
    host.engines["slurm"].sights[worker_of(host)] = RUNS
    with host.unit() as unit:
        WorkerWatch().observe_all(unit)
    assert (host.task().party_status, worker_in(host).status) == (TaskStatus.RUNNING, WorkerStatus.RUNNING)
    host.engines["slurm"].sights[worker_of(host)] = SUCCEEDED
    host.watch()
    assert host.task().party_status is TaskStatus.SUCCESS


def test_only_their_engine_is_told_to_stop_them() -> None:
    host = a_party(*RUN, START_A)
    host.engines["slurm"].sights[worker_of(host)] = RUNS
    host.watch()
    host.handle(STOP)
    assert (host.engines["slurm"].stopped, host.engines["local"].stopped) == ([worker_of(host)], [])
    host.engines["slurm"].sights[worker_of(host)] = STOPPED
    host.watch()
    assert free(host) == {"slurm": 8, "local": 4}


@pytest.mark.parametrize("name", ["slurm", "local"])
def test_a_worker_that_no_row_names_may_live_on_any_engine(name: str) -> None:
    host = a_party()
    assert not host.context.engines.has_living_worker(JOB_ID)
    host.engines[name].alive.add(JOB_ID)
    assert host.context.engines.has_living_worker(JOB_ID)


def test_a_party_without_an_engine_does_not_begin() -> None:
    with pytest.raises(ValueError, match="a party needs an engine"):
        Engines({})


# ---------------------------------------------------------------------- an engine that was taken out


def test_its_workers_count_as_lost_and_what_their_job_held_comes_back() -> None:
    host = a_party(*RUN, START_A)
    host.engines["slurm"].sights[worker_of(host)] = RUNS
    host.watch()
    host.configure("local")
    host.watch()
    task = host.task()
    assert (task.party_status, task.reason, task.message) == (TaskStatus.FAILED, Reason.WORKER_KILLED, ABSENT)
    assert worker_in(host).status is WorkerStatus.EXITED
    assert host.handle(command(CommandKind.STATUS, argument="failed", reason="task_failed")).is_ok
    assert (host.job().status, free(host)) == (JobStatus.FAILED, {"slurm": 8, "local": 4})


def test_a_worker_that_had_not_begun_never_starts() -> None:
    host = a_party(*RUN, START_A)
    host.configure("local")
    with host.unit() as unit:
        WorkerWatch().observe_all(unit)
    assert (host.task().reason, host.task().message) == (Reason.LAUNCH_FAILED, ABSENT)


def test_nothing_starts_on_it_and_nothing_starts_elsewhere_instead() -> None:
    host = a_party(*RUN)
    host.configure("local")
    assert host.handle(START_A).is_ok
    task = host.task()
    assert (task.party_status, task.reason, task.message) == (TaskStatus.FAILED, Reason.LAUNCH_FAILED, ABSENT)
    assert [engine.launched for engine in host.engines.values()] == [[], []]
    assert host.snapshot()["workers"] == (), "its handle would name nothing once the engine is back"


def test_the_message_is_that_of_a_server_that_does_not_have_it_whoever_asks() -> None:
    host = a_party(*RUN, START_A)
    created = worker_in(host)
    host.configure("local")
    absent, why = host.context.engines.of(created), ABSENT.replace("put its section section of slurm back", "add it")
    for status, state, cause in ((WorkerStatus.CREATED, "exited", "not_started"), (WorkerStatus.RUNNING, "lost", "")):
        seen = absent.observe(replace(created, status=status))
        assert (seen.state, seen.cause, seen.message) == (state, cause, why)
    with pytest.raises(LookupError, match="does not have its engine"):
        absent.handle_for(created.task, "w")


TASK_SUCCESS = task_command(CommandKind.TASK_STATUS, argument="success")
UNKNOWN = f"the outputs of a are not known: {ABSENT}"


def with_outputs_of_a() -> HandServer:
    """A host whose share of task a has succeeded on an engine that was then taken out."""
    host = a_party(*RUN, START_A)
    host.engines["slurm"].sights[worker_of(host)] = made("t")
    host.watch()
    assert host.task().party_status is TaskStatus.SUCCESS
    host.configure("local")
    return host


def outputs_of(host: HandServer) -> int:
    with host.store.reading() as tx:
        return len(tx.outputs(JOB_ID, "a", HOST))


def test_what_was_made_there_waits_until_the_engine_is_back() -> None:
    host = with_outputs_of_a()
    answer = host.handle(TASK_SUCCESS)
    assert (answer.retcode, answer.retmsg) == (103, UNKNOWN)
    assert (host.task().status, outputs_of(host)) == (TaskStatus.RUNNING, 0)
    assert not host.handle(command(CommandKind.STATUS, argument="success", reason="done")).is_ok
    assert host.job().status is JobStatus.RUNNING
    host.configure("local", "slurm")
    assert host.handle(TASK_SUCCESS).is_ok
    assert (host.task().status, outputs_of(host)) == (TaskStatus.SUCCESS, 1)


def test_what_reads_it_on_another_engine_fails_instead_of_going_without() -> None:
    host = with_outputs_of_a()
    with host.store.transaction() as tx:
        assert tx.give_back(host.job().key, None, NOW)
        assert tx.reserve(host.job().key, "local", 2, 0, "t", 1, 1)
    assert host.handle(task_command(CommandKind.TASK_START, "b")).is_ok
    task = host.task("b")
    assert (task.party_status, task.reason, task.message) == (TaskStatus.FAILED, Reason.LAUNCH_FAILED, UNKNOWN)
    assert [engine.launched[1:] for engine in host.engines.values()] == [[], []]


def test_a_job_that_ends_badly_or_stops_does_not_wait_for_it() -> None:
    host = with_outputs_of_a()
    assert host.handle(STOP).is_ok
    assert host.handle(command(CommandKind.STATUS, argument="canceled", reason="stopped_by_user")).is_ok
    assert (host.job().status, host.task().status) == (JobStatus.CANCELED, TaskStatus.CANCELED)
    host = with_outputs_of_a()
    assert host.handle(task_command(CommandKind.TASK_STATUS, argument="failed")).is_ok
    assert (host.task().status, host.files.names()) == (TaskStatus.FAILED, ["write_confs"])


def test_a_job_that_stops_goes_without_it_and_the_log_says_so() -> None:
    host = with_outputs_of_a()
    with host.store.transaction() as tx:
        stopping = MoveJob(JobStatus.STOPPING, Reason.STOPPED, target=JobStatus.CANCELED)
        assert tx.move_job(host.job(), stopping, NOW)
    assert host.handle(TASK_SUCCESS).is_ok
    texts = [one["text"] for one in host.record.seen(Event.JOB_WARNING)]
    assert f"job {JOB_ID} ends without them: {UNKNOWN}" in texts
    assert (host.task().status, outputs_of(host)) == (TaskStatus.SUCCESS, 0)


def test_it_comes_back_with_its_workers() -> None:
    host = a_party(*RUN, START_A)
    host.configure("local", "slurm")
    host.engines["slurm"].sights[worker_of(host)] = RUNS
    host.watch()
    assert host.task().party_status is TaskStatus.RUNNING


def the_initiator_without_its_engine() -> Initiator:
    """Its own share has succeeded, and its engine was then taken out."""
    guest = running(engines={"slurm": 8, "local": 4})
    guest.engines["slurm"].sights[worker_of(guest, "work_0", GUEST)] = made("t")
    guest.watch("work_0", GUEST)
    guest.configure("local")
    return guest


def test_the_initiator_does_not_go_on_with_the_job_until_the_engine_is_back() -> None:
    guest = the_initiator_without_its_engine()
    with pytest.raises(OperationFailed, match=UNKNOWN.replace("of a ", "of work_0 ")):
        report(guest, TaskStatus.SUCCESS)
    assert guest.task("work_0", GUEST).status is TaskStatus.RUNNING
    guest.configure("local", "slurm")
    assert report(guest, TaskStatus.SUCCESS)
    assert guest.task("work_0", GUEST).status is TaskStatus.SUCCESS


def test_the_initiator_can_stop_a_job_that_waits_for_an_engine() -> None:
    guest = the_initiator_without_its_engine()
    with guest.unit() as unit:
        guest.side.request_stop(unit, JOB_ID, Reason.STOPPED_BY_USER, "", True, "me")
        guest.settle(unit)
    report(guest, TaskStatus.SUCCESS)
    guest.answer(CommandKind.STOP, Answer(data={"status": "canceled"}))
    assert guest.status is JobStatus.CANCELED


# ---------------------------------------------------------------------- elastic workers


def an_elastic_party(slurm: int, local: int) -> HandServer:
    """A task whose two workers share two cores of `slurm`; up to three more may come."""
    host = HandServer("10000", engines={"slurm": slurm, "local": local})
    host.steady = 100_000
    for name, value in (("modules", {"Command": Module(COMMAND_PROVIDER)}), ("program_policy", ProgramPolicy())):
        object.__setattr__(host.context, name, value)
    said = {"replicas": 5, "min_replicas": 2, "max_failed_workers": 1}
    document = job({"guest": ["9999"], "host": ["10000"]}, {"a": []}, cores=2, commands={"a": said})
    for one in (create(document=document), *RUN[1:], START_A):
        answer = host.handle(one)
        assert answer.is_ok, (one, answer)
    return host


def elastic(host: HandServer) -> list[str]:
    """The engines of those that have not exited."""
    return [one.engine for one in replicas(host) if one.is_elastic and one.status is not WorkerStatus.EXITED]


def test_elastic_workers_take_from_the_engine_of_their_share() -> None:
    host = an_elastic_party(slurm=4, local=8)
    assert (elastic(host), free(host)) == (["slurm", "slurm"], {"slurm": 0, "local": 8})
    host.configure("local", "slurm")
    with host.unit() as unit:
        tend_elastic(unit)
    assert (elastic(host), free(host)) == (["slurm", "slurm"], {"slurm": 0, "local": 8})


def test_only_those_on_the_engine_that_a_job_asks_for_go() -> None:
    host = an_elastic_party(slurm=5, local=1)
    host.configure("local", "slurm")
    other = JobKey("202601010000000000077", HOST)
    with host.store.transaction() as tx:
        tx.add_job(replace(a_job(JobStatus.WAITING, HOST, asked=Claim(1, 0)), key=other), DOCUMENT)
        assert tx.reserve(other, "local", 1, 0, "t", 1, 1)
        third = replace(other, job_id="202601010000000000078")
        tx.add_job(replace(a_job(JobStatus.WAITING, HOST, asked=Claim(1, 0)), key=third), DOCUMENT)
    assert "giving theirs back" not in host.handle(replace(APPLY, job_id=third.job_id)).data["why"]
    assert host.engines["slurm"].stopped == []
    host.configure("slurm", "local")
    assert "giving theirs back" in host.handle(replace(APPLY, job_id=third.job_id)).data["why"]
    assert len(host.engines["slurm"].stopped) == 1


def test_the_cores_of_elastic_workers_come_back_when_their_engine_was_taken_out() -> None:
    host = an_elastic_party(slurm=5, local=1)
    assert free(host) == {"slurm": 0, "local": 1}
    host.configure("local")
    for _ in range(2):
        with host.unit() as unit:
            WorkerWatch().observe_all(unit)
            tend_elastic(unit)
    assert (elastic(host), free(host)) == ([], {"slurm": 3, "local": 1})
    assert (host.task().party_status, host.task().reason) == (TaskStatus.FAILED, Reason.LAUNCH_FAILED)
    assert ABSENT in host.task().message
    assert not any(one.attempt for one in replicas(host)), "nobody is replaced on an engine that is gone"
