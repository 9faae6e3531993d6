"""A party task of several workers: all of them are ordered, one bad end ends the others, and who is replaced is."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus, WorkerStatus
from fate_flow.core.planning.gang import GATHERED
from fate_flow.core.planning.replicas import COLLECTOR, KEPT_ATTEMPTS
from fate_flow.services.context.ports import Observation
from fate_flow.services.workers.watch import WorkerWatch
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import command, create, task_command
from tests.kit.services.replicas import START, ProgramPolicy, a_server, replicas, see
from tests.kit.services.sights import FAILED, PLACE, RUNS, STOPPED, SUCCEEDED, made
from tests.kit.values import HOST, JOB_ID

KILLED = Observation("exited", PLACE, "exited", None, 9)


def document(**parameters: Any) -> Any:
    return job({"guest": ["9999"], "host": ["10000"]}, {"a": []}, cores=2, commands={"a": parameters})


def a_host(**parameters: Any) -> HandServer:
    """A host where the workers of task a have been ordered."""
    host, described = a_server(), {"turn": 1}
    for one in (
        create(document=document(**parameters)), command(CommandKind.STATUS, argument="waiting"),
        command(CommandKind.CHECK, **described), command(CommandKind.APPLY, **described), command(CommandKind.START),
        START,
    ):  # fmt: skip
        answer = host.handle(one)
        assert answer.is_ok, (one, answer)
    return host


def share(host: HandServer) -> tuple[TaskStatus, Reason | None]:
    task = host.task()
    return task.party_status, task.reason


def test_each_worker_has_its_order_and_all_speak_with_one_token() -> None:
    host = a_host(replicas=3, size=2)
    orders = host.engine.launched
    assert [(one.worker.slot, one.worker.rank) for one in orders] == [(0, 0), (1, 1), (2, None)]
    assert {one.speaks_as for one in orders} == {host.task().worker_id} == {replicas(host)[0].worker_id}
    assert [one.program.env["FATE_FLOW_WORKER_SLOT"] for one in orders if one.program] == ["0", "1", "2"]
    opened = {call[1:] for call in host.exchange.calls if call[0] == "open"}
    assert len(opened) == 1


def test_the_share_has_succeeded_when_every_rank_has() -> None:
    host = a_host(replicas=2)
    see(host, RUNS, None)
    assert share(host) == (TaskStatus.RUNNING, None)
    see(host, SUCCEEDED, RUNS)
    assert share(host) == (TaskStatus.RUNNING, None)
    see(host, None, SUCCEEDED)
    assert share(host) == (TaskStatus.SUCCESS, Reason.DONE)
    assert {(one.status, one.reason) for one in replicas(host)} == {(WorkerStatus.EXITED, Reason.DONE)}


def test_what_they_leave_is_collected_by_one_more_and_known_when_the_task_has_succeeded_everywhere() -> None:
    host = a_host(replicas=2, outputs=[{"name": "data", "path": "x.csv", "kind": "table"}])
    see(host, RUNS, RUNS)
    see(host, SUCCEEDED, SUCCEEDED)
    assert share(host) == (TaskStatus.RUNNING, None)
    order = host.engine.launched[-1]
    assert (order.worker.slot, order.worker.rank, order.program) == (COLLECTOR, None, None)
    assert order.collects == tuple(one for one in replicas(host) if one.slot >= 0)
    see(host, made("t"), slots=(COLLECTOR,))
    assert share(host) == (TaskStatus.SUCCESS, Reason.DONE)
    for seen in ([], ["t"]):
        with host.store.reading() as tx:
            assert [one.name for one in tx.outputs(JOB_ID, "a", HOST)] == seen
        host.handle(task_command(CommandKind.TASK_STATUS, argument="success"))


def test_what_cannot_be_collected_fails_the_share() -> None:
    host = a_host(outputs=[{"name": "data", "path": "x.csv", "kind": "table"}])
    see(host, SUCCEEDED)
    see(host, FAILED, slots=(COLLECTOR,))
    assert (share(host), host.task().message) == ((TaskStatus.FAILED, Reason.WORKER_ERROR), "it went wrong")


def test_a_stop_ends_what_collects() -> None:
    host = a_host(outputs=[{"name": "data", "path": "x.csv", "kind": "table"}])
    see(host, SUCCEEDED)
    host.handle(task_command(CommandKind.TASK_STOP))
    assert host.engine.stopped == [replicas(host)[0].worker_id]
    see(host, STOPPED, slots=(COLLECTOR,))
    assert share(host) == (TaskStatus.CANCELED, Reason.STOPPED)


def test_spare_ones_are_sent_home_when_every_rank_has_succeeded() -> None:
    host = a_host(replicas=3, size=2)
    see(host, RUNS, RUNS, RUNS)
    see(host, SUCCEEDED, SUCCEEDED)
    assert host.engine.stopped == [replicas(host)[2].worker_id]
    assert share(host) == (TaskStatus.RUNNING, None)
    see(host, None, None, STOPPED)
    assert share(host) == (TaskStatus.SUCCESS, Reason.DONE)


@pytest.mark.parametrize(
    ("end", "reason", "text"),
    [(FAILED, Reason.WORKER_ERROR, "rank 1: it went wrong"), (KILLED, Reason.WORKER_KILLED, "rank 1: the process")],
)
def test_one_bad_end_ends_the_others_and_then_the_share_with_its_reason(
    end: Observation, reason: Reason, text: str
) -> None:
    host = a_host(replicas=3)
    see(host, RUNS, RUNS, RUNS)
    see(host, None, end)
    assert share(host) == (TaskStatus.STOPPING, reason)
    assert host.engine.stopped == [replicas(host)[0].worker_id, replicas(host)[2].worker_id]
    see(host, STOPPED, None, STOPPED)
    assert share(host) == (TaskStatus.FAILED, reason)
    assert host.task().message.startswith(text)
    assert [one.reason for one in replicas(host)] == [Reason.STOPPED, reason, Reason.STOPPED]
    own = host.task().message.removeprefix("rank 1: ")
    assert [one.message for one in replicas(host)] == [host.task().message, own, host.task().message]
    assert {one.caused_by for one in replicas(host)} == {"host 10000"}
    with host.store.reading() as tx:
        ends = [one for one in tx.history(JOB_ID) if one.level is HistoryLevel.WORKER and one.new == "exited"]
    assert [(one.message, one.caused_by) for one in ends] == [
        (f"worker 1 (rank 1), process 0: {own}", "host 10000"), (host.task().message, "host 10000"),
        (f"worker 2 (rank 2), process 0: {host.task().message}", "host 10000"),
    ]  # fmt: skip


def test_two_that_die_at_once_break_the_share_once() -> None:
    host = a_host(replicas=2)
    see(host, RUNS, RUNS)
    see(host, FAILED, KILLED)
    assert share(host) == (TaskStatus.FAILED, Reason.WORKER_ERROR)


def test_a_stop_ends_all_workers_and_the_share_with_the_last_of_them() -> None:
    host = a_host(replicas=2)
    see(host, RUNS, RUNS)
    host.handle(task_command(CommandKind.TASK_STOP))
    assert host.engine.stopped == [one.worker_id for one in replicas(host)]
    see(host, STOPPED)
    assert share(host)[0] is TaskStatus.STOPPING
    see(host, None, STOPPED)
    assert share(host) == (TaskStatus.CANCELED, Reason.STOPPED)
    assert [(one.reason, one.caused_by) for one in replicas(host)] == [(Reason.STOPPED, "guest 9999")] * 2


def test_a_worker_says_whose_request_stopped_it() -> None:
    host = a_host()
    see(host, RUNS)
    host.handle(command(CommandKind.STOP, argument="canceled", reason="stopped_by_user", caused_by="host 10001"))
    see(host, STOPPED)
    [worker] = replicas(host)
    assert (worker.reason, worker.message, worker.caused_by) == (Reason.STOPPED, "stopped_by_user", "host 10001")


def test_who_fails_is_replaced_as_often_as_it_may() -> None:
    host = a_host(replicas=2, max_failed_workers=1)
    see(host, RUNS, RUNS)
    see(host, None, FAILED)
    assert share(host) == (TaskStatus.RUNNING, None)
    [first, failed, second] = replicas(host)
    assert (second.slot, second.rank, second.attempt) == (failed.slot, failed.rank, 1)
    see(host, FAILED, slots=(1,))
    assert share(host) == (TaskStatus.STOPPING, Reason.WORKER_ERROR)
    assert host.engine.stopped == [first.worker_id]
    see(host, STOPPED)
    assert host.task().message == "rank 1: it went wrong (2 workers failed, max_failed_workers is 1)"


def test_what_old_attempts_of_a_slot_have_left_goes_and_the_newest_stay() -> None:
    host = a_host(replicas=2, max_failed_workers=30)
    host.steady = 5_000
    see(host, RUNS, RUNS)
    for _ in range(KEPT_ATTEMPTS + 2):
        host.steady += 5_000
        see(host, FAILED, slots=(1,))
    others = {worker.attempt: worker.worker_id for worker in replicas(host) if worker.slot == 1}
    assert max(others) == KEPT_ATTEMPTS + 2
    assert set(host.engine.forgotten) == {others[0], others[1], others[2]}
    assert share(host) == (TaskStatus.RUNNING, None)


def test_one_that_lived_for_a_moment_is_begun_again_by_the_poll() -> None:
    host = a_host(max_failed_workers=1)
    host.steady = 500
    see(host, FAILED)
    assert len(host.engine.launched) == 1
    host.steady = 500 + host.context.rules.poll_interval
    with host.unit() as unit:
        WorkerWatch().observe_all(unit)
    assert host.engine.launched[-1].worker.attempt == 1


def test_the_workers_of_a_service_begin_again() -> None:
    host = a_host(restart_completed_workers=True)
    host.steady = 5_000
    see(host, SUCCEEDED)
    assert share(host) == (TaskStatus.RUNNING, None)
    assert [order.worker.attempt for order in host.engine.launched] == [0, 1]


def test_a_spare_has_the_rank_of_the_failed_worker_in_the_next_version() -> None:
    host = a_host(replicas=3, size=2)
    see(host, RUNS, RUNS, RUNS)
    see(host, KILLED)
    see(host, None, STOPPED, STOPPED)
    again = {"incarnation": "c" * 32, "auto_retries": 0}
    assert host.handle(task_command(CommandKind.TASK_CREATE, version=1, **again)).is_ok
    assert host.handle(task_command(CommandKind.TASK_START, version=1, **again)).is_ok
    assert [(one.slot, one.rank) for one in replicas(host, 1)] == [(0, None), (1, 1), (2, 0)]


def test_a_program_that_this_party_does_not_run_is_refused_before_anything_is_written() -> None:
    host = a_server(ProgramPolicy("commands.enabled is false"))
    answer = host.handle(create(document=document()))
    assert not answer.is_ok
    assert answer.retmsg == "a (Command) is not run at host 10000: commands.enabled is false"
    assert host.job_or_none() is None


def test_ranks_that_a_cluster_places_begin_when_the_last_of_them_has_arrived() -> None:
    host = a_host(replicas=2)
    assert [(order.gathers, order.gang_size) for order in host.engine.launched] == [(True, 2), (True, 2)]
    arrived, waits = Observation("created", is_placed=True, has_arrived=True), "waits in Slurm for 1 node: Resources"
    see(host, arrived, Observation("created", is_placed=True, waits=waits))
    assert host.task().waits == waits
    see(host, None, arrived)
    host.watch()
    assert host.task().waits == GATHERED
    host.handle(task_command(CommandKind.TASK_START, gathered=True))
    assert host.engine.released == [one.worker_id for one in replicas(host)]


@pytest.mark.parametrize("parameters", [
    {"replicas": 2, "max_failed_workers": 1}, {"replicas": 2, "min_replicas": 1, "max_failed_workers": 1},
])  # fmt: skip
def test_ranks_that_are_replaced_one_by_one_do_not_wait_for_each_other(parameters: dict[str, int]) -> None:
    host = a_host(**parameters)
    assert {(order.gathers, order.gang_size) for order in host.engine.launched} == {(False, 1)}


def test_the_workers_of_a_start_come_together_and_others_alone() -> None:
    kept = [{"name": "data", "path": "x.csv", "kind": "table"}]
    host = a_host(replicas=2, max_failed_workers=1, outputs=kept)
    see(host, RUNS, RUNS)
    host.steady = 5_000
    see(host, None, FAILED)
    see(host, SUCCEEDED, SUCCEEDED)
    assert [(one.worker.slot, one.worker.attempt, one.batch_size) for one in host.engine.launched] == [
        (0, 0, 2), (1, 0, 2), (1, 1, 1), (COLLECTOR, 0, 1)
    ]  # fmt: skip
