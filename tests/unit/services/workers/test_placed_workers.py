"""Workers that a cluster has and that have no place to run yet: what is said of them, and what follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.job import CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus, WorkerStatus
from fate_flow.core.planning.gang import BEGINS, GATHERED
from fate_flow.core.wire.v1.reports import read_report, report_of
from fate_flow.services.context.ports import Observation, Rules
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import INCARNATIONS, RUN, a_host, task_command
from tests.kit.services.sights import RUNS
from tests.kit.values import HOST, a_task

WAITS = "waits in Slurm for 2 nodes: Resources"
PLACED = Observation("created", is_placed=True, waits=WAITS)


def with_placed(observation: Observation = PLACED) -> HandServer:
    host = a_host(*RUN, task_command(CommandKind.TASK_START), rules=Rules(launch=1_000))
    host.engine.sights[worker_of(host)] = observation
    host.watch()
    return host


def reported(host: HandServer) -> list[str]:
    return [one.body["waits"] for one in host.outbox() if one.kind is CommandKind.REPORT and "waits" in one.body]


def test_the_initiator_hears_once_what_a_share_waits_for() -> None:
    host = with_placed()
    for _ in range(3):
        host.watch()
    assert host.task().waits == WAITS
    assert reported(host) == [WAITS]
    assert host.task().party_status is TaskStatus.WAITING


def test_it_hears_again_when_the_reason_changes() -> None:
    host = with_placed()
    since = host.task().waits_since
    host.engine.sights[worker_of(host)] = replace(PLACED, waits="waits in Slurm behind other jobs: Priority")
    host.now += 5_000
    host.watch()
    assert reported(host)[-1] == "waits in Slurm behind other jobs: Priority"
    assert host.task().waits_since == since


def test_the_time_for_a_launch_does_not_count_for_it() -> None:
    host = with_placed()
    host.now += 3_600_000
    host.watch()
    with host.store.reading() as tx:
        assert tx.worker(worker_of(host)).status is WorkerStatus.CREATED


def test_it_runs_when_it_has_a_place() -> None:
    host = with_placed()
    host.engine.sights[worker_of(host)] = RUNS
    host.watch()
    assert host.task().party_status is TaskStatus.RUNNING
    assert not host.task().waits_for_a_place


@pytest.mark.parametrize(("cause", "reason"), [
    ("not_placed", Reason.NOT_PLACED), ("preempted", Reason.PREEMPTED), ("node_lost", Reason.NODE_LOST),
    ("out_of_memory", Reason.OUT_OF_MEMORY), ("timeout", Reason.TASK_TIMEOUT), ("lost", Reason.WORKER_KILLED),
])  # fmt: skip
def test_an_end_that_the_cluster_has_caused_has_a_reason_of_its_own(cause: str, reason: Reason) -> None:
    host = with_placed()
    host.engine.sights[worker_of(host)] = Observation("exited", cause=cause, message="Slurm says so")
    host.watch()
    assert host.task().reason is reason
    assert host.task().message == ("ran longer than the task may" if cause == "timeout" else "Slurm says so")


def test_a_report_says_what_a_share_waits_for_until_it_has_begun() -> None:
    waiting = a_task(party=HOST, waits=WAITS)
    found = read_report(report_of(waiting))
    assert found is not None
    assert found.waits == WAITS
    assert "waits" not in report_of(a_task(party=HOST, party_status=TaskStatus.RUNNING, waits=WAITS))
    long = read_report({**report_of(waiting), "waits": "x" * 10_000})
    assert long is not None
    assert len(long.waits) == 500


# a gang


ARRIVED = replace(PLACED, waits="", has_arrived=True)
GATHER = task_command(CommandKind.TASK_START, gathered=True, incarnation=INCARNATIONS["a"])


def test_a_share_whose_worker_has_arrived_waits_for_the_others_until_the_coordinator_lets_it_begin() -> None:
    host = with_placed()
    host.engine.sights[worker_of(host)] = ARRIVED
    host.steady = began = host.task().waits_since + 5_000
    for _ in range(2):
        host.watch()
    assert reported(host) == [WAITS, GATHERED]
    assert host.task().waits_since == began, "this wait counts anew"
    assert host.engine.released == []
    answer = host.handle(GATHER)
    assert (answer.is_ok, answer.data["waits"]) == (True, BEGINS)
    assert host.engine.released == [worker_of(host)]


def test_a_release_that_was_lost_comes_again() -> None:
    host = with_placed(ARRIVED)
    host.handle(GATHER)
    host.engine.released.clear()
    host.watch()
    assert host.engine.released == [worker_of(host)]
    assert host.task().waits == BEGINS
    host.engine.sights[worker_of(host)] = RUNS
    host.watch()
    assert host.task().party_status is TaskStatus.RUNNING


def test_a_share_that_has_not_gathered_does_not_begin_whatever_it_is_told() -> None:
    host = with_placed()
    assert host.handle(GATHER).data["waits"] == WAITS
    assert host.engine.released == []
    host.engine.sights[worker_of(host)] = ARRIVED
    host.watch()
    assert host.task().waits == GATHERED


def test_another_attempt_is_not_let_begin() -> None:
    host = with_placed(ARRIVED)
    host.handle(task_command(CommandKind.TASK_START, gathered=True, incarnation="f" * 32))
    assert host.engine.released == []
