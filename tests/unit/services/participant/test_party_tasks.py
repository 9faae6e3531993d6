"""Tasks at a party: how they start, report and stop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.errors import NOT_EFFECTIVE
from fate_flow.core.model.job import Command
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus
from fate_flow.services.participant.rows import plain_v1_incarnation
from tests.kit.services.hand_server import worker_of
from tests.kit.services.party_commands import (
    DOCUMENT,
    INCARNATIONS,
    RUN,
    START_A,
    a_host,
    command,
    create,
    task_command,
)
from tests.kit.services.sights import RUNS, made
from tests.kit.values import GUEST, HOST, JOB_ID


def test_starting_a_task_orders_one_worker_and_opens_its_exchange() -> None:
    host = a_host(*RUN)
    answer = host.handle(START_A)
    [order] = host.engine.launched
    assert (order.worker.worker_id, order.incarnation) == (host.task().worker_id, INCARNATIONS["a"])
    assert order.parties == (("guest", "9999"), ("host", "10000"))
    assert order.task_cores == 2
    assert host.exchange.calls[-1][0] == "open"
    assert answer.data["party_status"] == "waiting"
    assert host.task().status is TaskStatus.RUNNING
    assert host.task().party_status is TaskStatus.WAITING


def test_a_task_that_is_told_not_to_run_is_passed_over() -> None:
    parameters = {"role": {"host": {"0": {"a": {"need_run": False}}}}}
    document = replace(DOCUMENT, runtime_conf={**DOCUMENT.runtime_conf, "component_parameters": parameters})
    host = a_host(create(document=document), *RUN[1:])
    answer = host.handle(START_A)
    assert (answer.data["party_status"], answer.data["reason"]) == ("pass", "not_needed")
    assert host.engine.launched == []


def test_an_input_that_is_missing_fails_the_launch_and_the_initiator_is_told() -> None:
    host = a_host(*RUN)
    host.handle(task_command(K.TASK_START, "b"))
    assert host.engine.launched == []
    task = host.task("b")
    assert (task.party_status, task.reason) == (TaskStatus.FAILED, Reason.LAUNCH_FAILED)
    assert task.message == "input data.data: a.data has no table at host 10000"
    [report] = host.outbox()
    assert (report.kind, report.to, report.body["party_status"]) == (K.REPORT, GUEST, "failed")


def test_the_output_of_one_task_is_the_input_of_the_next() -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = made("table_of_a")
    host.watch()
    host.handle(task_command(K.TASK_START, "b"))
    order = host.engine.launched[-1]
    assert [(one.key, one.metadata["name"]) for one in order.inputs] == [("data", "table_of_a")]


@pytest.mark.parametrize(
    "asked",
    [
        task_command(K.TASK_START, incarnation="ff" * 16),
        task_command(K.TASK_STOP, argument="canceled", incarnation="ff" * 16),
        task_command(K.TASK_STATUS, argument="success", incarnation="ff" * 16),
        task_command(K.TASK_START, incarnation=["x"]),
    ],
)
def test_a_command_of_another_incarnation_changes_nothing(asked: Command) -> None:
    host = a_host(*RUN)
    seen = host.snapshot()
    assert host.handle(asked).retcode == NOT_EFFECTIVE
    assert host.snapshot() == seen


@pytest.mark.parametrize(
    "asked",
    [
        task_command(K.TASK_START, version=7), task_command(K.TASK_STOP, "x", argument="canceled"),
        task_command(K.TASK_STATUS, version=7, argument="success"),
    ],
)  # fmt: skip
def test_a_task_that_is_not_here_is_said_to_be_so(asked: Command) -> None:
    answer = a_host(*RUN).handle(asked)
    assert (answer.retcode, answer.retmsg.startswith("no found task")) == (102, True)


def test_collect_of_a_task_that_is_not_here() -> None:
    assert a_host(*RUN).handle(task_command(K.TASK_COLLECT, version=7)).retcode == 103


@pytest.mark.parametrize(
    ("argument", "status", "retcode"),
    [
        ("running", TaskStatus.RUNNING, 0), ("success", TaskStatus.SUCCESS, 0), ("stopping", TaskStatus.STOPPING, 0),
        ("waiting", TaskStatus.WAITING, 0), ("nonsense", TaskStatus.WAITING, 101),
    ],
)  # fmt: skip
def test_the_federated_status_is_the_initiators_to_say(argument: str, status: TaskStatus, retcode: int) -> None:
    host = a_host(*RUN)
    assert host.handle(task_command(K.TASK_STATUS, argument=argument)).retcode == retcode
    assert (host.task().status, host.task().party_status) == (status, TaskStatus.WAITING)


def test_the_federated_end_of_a_task_stays() -> None:
    host = a_host(*RUN, task_command(K.TASK_STATUS, argument="failed"))
    assert host.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    assert host.task().status is TaskStatus.FAILED


@pytest.mark.parametrize(
    ("body", "retcode"),
    [
        ({"incarnation": "c1" * 16, "auto_retries": 2}, 0), ({}, 0), ({"incarnation": "../x"}, 101),
        ({"auto_retries": -1}, 101), ({"auto_retries": 2**80}, 101), ({"incarnation": 5}, 101),
    ],
)  # fmt: skip
def test_a_new_version_of_a_task(body: dict[str, Any], retcode: int) -> None:
    host = a_host(*RUN)
    asked = Command(K.TASK_CREATE, JOB_ID, HOST, 0, "a", 1, body=body)
    assert host.handle(asked).retcode == retcode
    if retcode == 0:
        task = host.task(version=1)
        assert (task.incarnation, task.auto_retries) == (
        body.get("incarnation") or plain_v1_incarnation(JOB_ID, task.key.name, 1), body.get("auto_retries", 0))


def test_a_job_that_is_over_here_gets_no_new_version() -> None:
    """The end of the job has overtaken the last retry of a task."""
    host = a_host(*RUN, command(K.STATUS, argument="failed", reason="task_failed"))
    assert host.handle(Command(K.TASK_CREATE, JOB_ID, HOST, 0, "a", 1)).retcode == NOT_EFFECTIVE
    with host.store.reading() as tx:
        assert {task.key.version for task in tx.tasks(JOB_ID)} == {0}


def test_a_component_that_the_job_does_not_have_gets_no_version() -> None:
    assert a_host(*RUN).handle(Command(K.TASK_CREATE, JOB_ID, HOST, 0, "zzz", 1)).retcode == 100


def test_stopping_a_task_without_a_worker_ends_it_at_once() -> None:
    host = a_host(*RUN)
    answer = host.handle(task_command(K.TASK_STOP, argument="canceled"))
    assert (answer.data["party_status"], answer.data["reason"]) == ("canceled", "stopped")
    assert [call[0] for call in host.exchange.calls[-2:]] == ["close", "collected"]


@pytest.mark.parametrize(
    ("said", "known"), [({"begins_again": True}, "restart_task"), ({"begins_again": 1}, ""), ({}, "")]
)
@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_stop_may_say_that_the_task_begins_again(said: dict[str, Any], known: str, is_stopping: bool) -> None:
    host = a_host(*RUN, START_A)
    if is_stopping:
        host.handle(task_command(K.TASK_STOP, argument="canceled"))
    for _ in range(2):
        answer = host.handle(task_command(K.TASK_STOP, argument="canceled", **said))
        assert answer.data["party_status"] == "stopping"
    assert host.task().policy == known


def test_stopping_a_task_with_a_worker_ends_it_when_the_worker_has_gone() -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = RUNS
    host.watch()
    answer = host.handle(task_command(K.TASK_STOP, argument="canceled"))
    assert answer.data["party_status"] == "stopping"
    assert host.engine.stopped == [worker_of(host)]
    host.engine.sights[worker_of(host)] = made("table")      # it was done just then: the stop was first
    host.watch()
    assert (host.task().party_status, host.task().reason) == (TaskStatus.CANCELED, Reason.STOPPED)
    with host.store.reading() as tx:
        assert tx.outputs(JOB_ID, "a", HOST) == ()
