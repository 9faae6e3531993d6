"""How a job ends at a party, and with it its tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.artifact import file_at
from fate_flow.core.model.errors import NOT_EFFECTIVE
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.records.operator_log.events import Event
from fate_flow.services.participant.ends import end_job_here
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import (
    JOIN,
    RUN,
    START_A,
    a_host,
    command,
    create,
    task_command,
)
from tests.kit.services.sights import FAILED, RUNS, STOPPED, made
from tests.kit.values import FRESH_ID, JOB_ID


@pytest.mark.parametrize("argument", ["running", "waiting", "ready", "stopping", "nonsense", "", "Success"])
@pytest.mark.parametrize("kind", [K.STOP, K.STATUS])
def test_a_status_that_ends_no_job_changes_nothing(kind: K, argument: str) -> None:
    host = a_host(*RUN)
    seen = host.snapshot()
    retcodes = {(K.STATUS, "waiting"): 0, (K.STATUS, "running"): NOT_EFFECTIVE, (K.STATUS, "ready"): NOT_EFFECTIVE}
    assert host.handle(command(kind, argument=argument)).retcode == retcodes.get((kind, argument), 101)
    assert host.snapshot() == seen


def test_a_stop_ends_the_row_at_once_when_nothing_runs() -> None:
    host = a_host(*RUN)
    answer = host.handle(command(K.STOP, argument="canceled", reason="stopped_by_user", message="enough"))
    assert [report["party_status"] for report in answer.data["tasks"]] == ["canceled", "canceled"]
    found = host.job()
    assert (found.status, found.reason, found.message) == (JobStatus.CANCELED, Reason.STOPPED_BY_USER, "enough")
    assert (found.holds, host.free_cores()) == (False, 8)
    assert "purge" in host.exchange.names()


def test_the_end_removes_a_file_that_a_client_sent_for_a_task_that_reads_it() -> None:
    document = job({"guest": ["9999"], "host": ["10000"]}, {"a": [], "b": []})
    document.dsl["components"]["a"]["module"] = "Upload"
    given = {"a": {"file": "/uploads/a"}, "b": {"file": "/data/b"}}
    document.runtime_conf["component_parameters"]["role"] = {"host": {"0": given}}
    host = a_host(create(document=document), *RUN[1:])
    host.handle(command(K.STOP, argument="canceled", reason="stopped_by_user"))
    removed = [one[1] for one in host.files.calls if one[0] == "remove_artifact"]
    assert removed == [file_at(""), file_at("/uploads/a")]      # at the guest, the task has no file


def test_a_stop_ends_the_row_with_its_last_worker() -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = RUNS
    host.watch()
    answer = host.handle(command(K.STOP, argument="timeout", reason="job_timeout"))
    assert [report["party_status"] for report in answer.data["tasks"]] == ["stopping", "canceled"]
    found = host.job()
    assert (found.status, found.target, found.holds) == (JobStatus.STOPPING, JobStatus.TIMEOUT, True)
    host.engine.sights[worker_of(host)] = STOPPED
    host.watch()
    assert (host.job().status, host.job().reason, host.free_cores()) == (JobStatus.TIMEOUT, Reason.JOB_TIMEOUT, 8)


def test_the_end_that_is_told_while_workers_still_end_comes_true_when_they_have_gone() -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = RUNS
    host.watch()
    host.handle(command(K.STOP, argument="failed", reason="task_failed"))
    assert host.handle(command(K.STATUS, argument="failed", reason="task_failed")).is_ok
    assert host.job().status is JobStatus.STOPPING
    host.engine.sights[worker_of(host)] = STOPPED
    host.watch()
    assert (host.job().status, host.free_cores()) == (JobStatus.FAILED, 8)


@pytest.mark.parametrize(
    ("argument", "said", "reason"),
    [
        ("success", "done", Reason.DONE), ("success", None, Reason.DONE),
        ("failed", "party_unreachable", Reason.PARTY_UNREACHABLE), ("failed", None, Reason.TASK_FAILED),
        ("failed", "stopped_by_user", Reason.TASK_FAILED),      # not what a failure follows from
        ("failed", "worker_error", Reason.TASK_FAILED),         # what only a party says of its share
        ("failed", "nonsense", Reason.TASK_FAILED), ("failed", ["x"], Reason.TASK_FAILED),
        ("canceled", "stopped_by_user", Reason.STOPPED_BY_USER), ("canceled", None, Reason.STOPPED),
        ("timeout", "no_capacity", Reason.NO_CAPACITY), ("timeout", None, Reason.JOB_TIMEOUT),
    ],
)  # fmt: skip
def test_the_reason_of_an_end_is_the_initiators_or_what_the_status_stands_for(
    argument: str, said: Any, reason: Reason
) -> None:
    host = a_host(*RUN, command(K.STATUS, argument=argument, reason=said, message="m"))
    found = host.job()
    assert (found.status.value, found.reason, found.message) == (argument, reason, "m")
    assert host.free_cores() == 8


def test_a_job_that_had_ended_here_keeps_its_end_and_says_which() -> None:
    host = a_host(*RUN)
    with host.unit() as unit:
        end_job_here(unit, host.job(), Reason.INITIATOR_LOST, "party 9999 was silent")
    answer = host.handle(command(K.STATUS, argument="success"))
    assert (answer.retcode, answer.data["ended_as"]) == (0, "failed")
    assert (host.job().status, host.job().reason) == (JobStatus.FAILED, Reason.INITIATOR_LOST)


def task_moves(host: HandServer) -> list[tuple[str, str, str, str, str]]:
    """Of `a` over all its parties, as the history of this party has it."""
    with host.unit() as unit:
        return [
            (one.old, one.new, one.reason, one.message, one.caused_by)
            for one in unit.tx.history(JOB_ID) if one.level is HistoryLevel.TASK and one.task == "a" and one.old
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("why", "described"),
    [
        (
            {"reason": "worker_error", "message": "no data", "caused_by": "host 10001"},
            ("worker_error", "no data", "host 10001"),
        ),
        ({"reason": "worker_error"}, ("worker_error", "", "guest 9999")),
        *[
            (none_that_fits, ("worker_error", "", "guest 9999"))
            for none_that_fits in (
                {},                                                    # as a plain v1 initiator
                {"reason": "done", "message": "m"},                    # no failure follows from it
                {"reason": ["x"], "message": "m"}, {"reason": "nonsense"},
            )
        ],
    ],
)  # fmt: skip
def test_how_a_task_ended_over_all_its_parties_is_in_its_row_and_the_history_with_the_party_at_fault(
    why: dict[str, Any], described: tuple[str, str, str]
) -> None:
    host = a_host(*RUN, START_A)
    assert host.handle(task_command(K.TASK_STATUS, "a", argument="failed", **why)).is_ok
    assert task_moves(host) == [("waiting", "running", "", "", ""), ("running", "failed", *described)]
    row = host.task()
    assert (row.federated_reason.value, row.federated_message, row.federated_caused_by) == described
    assert row.federated_end_time > 0


@pytest.mark.parametrize(("described", "taken"), [(3, 3), (0, 0), (256, None), ("3", None), (None, None)])
def test_the_exit_code_of_the_failed_worker_is_told_to_every_party(described: object, taken: int | None) -> None:
    host = a_host(*RUN, START_A)
    why = {"reason": "worker_killed", "exit_code": described}
    assert host.handle(task_command(K.TASK_STATUS, "a", argument="failed", **why)).is_ok
    assert host.task().federated_exit_code == taken


def begun(host: HandServer) -> list[tuple[str, int, str, str, str]]:
    """Each version of a task, as the history of this party has its beginning."""
    with host.unit() as unit:
        return [
            (one.task, one.version, one.reason, one.message, one.caused_by)
            for one in unit.tx.history(JOB_ID) if one.level is HistoryLevel.TASK and not one.old
        ]  # fmt: skip


def test_the_history_of_a_party_has_the_beginning_of_each_version_with_the_party_at_fault() -> None:
    why = {"reason": "worker_error", "message": "no data", "caused_by": "host 10001"}
    again = task_command(K.TASK_CREATE, "a", version=1, **{"incarnation": FRESH_ID, **why})
    host = a_host(*RUN, again, again)
    first = [(name, 0, "", "", "guest 9999") for name in ("a", "b")]
    assert begun(host) == [*first, ("a", 1, "worker_error", "no data", "host 10001")]


@pytest.mark.parametrize("why", [{}, {"reason": "x", "message": ["x"], "caused_by": "nobody"}])
def test_a_version_that_nobody_gives_a_reason_for_is_the_initiators_doing(why: dict[str, Any]) -> None:
    again = task_command(K.TASK_CREATE, "a", version=1, **{"incarnation": FRESH_ID, **why})
    assert begun(a_host(*RUN, again))[-1] == ("a", 1, "", "", "guest 9999")


def test_a_party_with_two_seats_writes_the_beginning_of_a_version_once() -> None:
    seats = {"guest": ["9999"], "host": ["10000"], "arbiter": ["10000"]}
    host = HandServer("10000")
    for role in ("host", "arbiter"):
        asked = create(document=job(seats), incarnations={})
        assert host.handle(replace(asked, to=Party(role, "10000"))).is_ok
    assert [one[:2] for one in begun(host)] == [("work_0", 0)]


def test_what_the_end_of_its_job_cuts_off_says_so_in_the_history() -> None:
    end = command(K.STATUS, argument="canceled", reason="stopped_by_user", message="enough", caused_by="host 10001")
    assert task_moves(a_host(*RUN, end)) == [("waiting", "canceled", "stopped_by_user", "enough", "host 10001")]


def test_a_federated_status_that_is_told_here_is_on_record() -> None:
    host = a_host(*RUN)
    host.handle(task_command(K.TASK_STATUS, "a", argument="running"))
    described = [fields["info"] for fields in host.record.seen(Event.TASK_STATUS_WRITTEN)]
    assert described == [{"status": "running"}]


def test_a_job_that_was_never_accepted_cannot_succeed() -> None:
    host = a_host(*JOIN[:1])
    assert host.handle(command(K.STATUS, argument="success")).retcode == NOT_EFFECTIVE
    assert host.job().status is JobStatus.READY


def test_a_refused_submit_leaves_nothing() -> None:
    host = a_host(*JOIN[:1], command(K.STATUS, argument="failed", tag="submit_failed"))
    assert host.job_or_none() is None
    assert host.files.calls[-1] == ("remove_job", JOB_ID)


@pytest.mark.parametrize(
    ("described", "argument", "statuses"),
    [
        ([], "success", ("canceled", "canceled")),
        ([("a", "success"), ("b", "failed")], "failed", ("success", "failed")),
        ([("a", "running")], "failed", ("canceled", "canceled")),
    ],
)
def test_with_the_job_every_task_ends_as_the_initiator_said_or_canceled(
    described: list[tuple[str, str]], argument: str, statuses: tuple[str, str]
) -> None:
    host = a_host(*RUN)
    for name, status in described:
        host.handle(task_command(K.TASK_STATUS, name, argument=status))
    host.handle(command(K.STATUS, argument=argument))
    assert tuple(host.task(name).status.value for name in "ab") == statuses


@pytest.mark.parametrize(
    ("observation", "argument", "status"), [(made("t"), "success", "success"), (FAILED, "failed", "failed")]
)
def test_a_task_whose_end_was_never_told_ends_as_this_party_saw_it(
    observation: Any, argument: str, status: str
) -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = observation
    host.watch()
    host.handle(command(K.STATUS, argument=argument))
    assert host.task().status.value == status
