"""A party's own share of a task: launching its worker, following it, how it ended, and the report about it."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.model.job import CommandKind, Report, TaskKey
from fate_flow.core.model.reasons import Reason, task_status_for
from fate_flow.core.model.status import TASK_END, TaskStatus, WorkerStatus
from fate_flow.core.wire.v1.reports import read_report, report_of
from fate_flow.services.context.ports import Observation, Rules
from fate_flow.services.workers.watch import WorkerWatch
from fate_flow.store.values import TableMeta
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import RUN, a_host, command, create, task_command
from tests.kit.services.sights import FAILED, PLACE, RUNS, STOPPED, made, with_outputs
from tests.kit.values import GUEST, HOST, INCARNATION, JOB_ID, NOW, a_task

START_A = task_command(CommandKind.TASK_START)
REPORTED = task_command(CommandKind.TASK_STATUS, argument="success")


def with_worker(**server: Any) -> HandServer:
    """A host where the worker of task a was ordered."""
    return a_host(*RUN, START_A, **server)


def see(host: HandServer, observation: Observation) -> None:
    host.engine.sights[worker_of(host)] = observation
    host.watch()


def reports(host: HandServer) -> list[tuple[str, str | None]]:
    return [
        (one.body["party_status"], one.body["reason"]) for one in host.outbox() if one.kind is CommandKind.REPORT
    ]


def worker_status(host: HandServer) -> WorkerStatus:
    with host.store.reading() as tx:
        return tx.worker(worker_of(host)).status


# ---------------------------------------------------------------------- how it ended


def exited(**fields: Any) -> Observation:
    return Observation("exited", **{"cause": "exited", **fields})


@pytest.mark.parametrize(("cause", "exit_code"), [("exited", 3), ("timeout", None), ("server_lost", None)])
def test_an_exit_code_that_our_own_signal_made_counts_for_nothing(cause: str, exit_code: int | None) -> None:
    host = with_worker()
    see(host, exited(cause=cause, exit_code=3, place=PLACE))
    assert host.task().exit_code == exit_code
    [described] = [one.body["exit_code"] for one in host.outbox() if one.body.get("end_time")]
    assert described == exit_code


# ---------------------------------------------------------------------- following


def test_a_worker_that_runs_is_reported() -> None:
    host = with_worker()
    see(host, RUNS)
    assert (host.task().party_status, worker_status(host)) == (TaskStatus.RUNNING, WorkerStatus.RUNNING)
    assert reports(host) == [("running", None)]
    host.watch()
    assert reports(host) == [("running", None)]


def test_a_worker_that_was_over_before_it_was_seen_ran_and_succeeded() -> None:
    host = with_worker()
    see(host, made("t"))
    assert reports(host) == [("running", None), ("success", "done")]
    task = host.task()
    assert (task.party_status, task.start_time, task.end_time) == (TaskStatus.SUCCESS, NOW, NOW)
    assert worker_status(host) is WorkerStatus.EXITED
    assert "close" in host.exchange.names()


def test_what_a_worker_made_is_known_under_the_names_of_the_dsl() -> None:
    host = with_worker()
    table, metrics = made("t").made.artifacts
    see(host, with_outputs(table, replace(table, key="other"), metrics, rows=3))
    host.handle(REPORTED)
    with host.store.reading() as tx:
        assert [one.data_name for one in tx.outputs(JOB_ID, "a", HOST)] == ["data", "other"]
        assert tx.table("out", "t").count == 3
        assert [one.name for one in tx.metrics(JOB_ID, "a", HOST)] == ["work"]
        assert tx.summary(JOB_ID, "a", HOST) == {"rows": 3}


def test_a_task_that_hands_on_a_table_leaves_its_record_alone() -> None:
    host = with_worker()
    uploaded = TableMeta("out", "t", "standalone:///out/t", 5, {}, origin="upload", job_id="x")
    with host.store.transaction() as tx:
        tx.save_table(uploaded, 1)
    see(host, made("t"))
    host.handle(REPORTED)
    with host.store.reading() as tx:
        assert tx.table("out", "t").origin == "upload"


@pytest.mark.parametrize(
    ("observation", "status", "reason"),
    [
        (FAILED, TaskStatus.FAILED, Reason.WORKER_ERROR),
        (Observation("lost"), TaskStatus.FAILED, Reason.WORKER_KILLED),
        (exited(cause="timeout", place=PLACE), TaskStatus.TIMEOUT, Reason.TASK_TIMEOUT),
        (exited(cause="not_started"), TaskStatus.FAILED, Reason.LAUNCH_FAILED),
    ],
)  # fmt: skip
def test_a_worker_that_broke_makes_nothing(observation: Observation, status: TaskStatus, reason: Reason) -> None:
    host = with_worker()
    see(host, replace(observation, made=made("t").made))
    assert (host.task().party_status, host.task().reason) == (status, reason)
    assert reports(host)[-1] == (status.value, reason.value)
    with host.store.reading() as tx:
        assert tx.outputs(JOB_ID, "a", HOST) == ()


def test_a_worker_of_a_task_that_is_over_counts_no_more() -> None:
    host = with_worker()
    see(host, RUNS)
    with host.unit() as unit:
        task = host.task()
        unit.tx.move_party_task(task, TaskStatus.CANCELED, NOW, Reason.STOPPED, "")
    seen = host.task()
    see(host, made("t"))
    assert (host.task(), worker_status(host)) == (seen, WorkerStatus.EXITED)
    with host.store.reading() as tx:
        assert tx.outputs(JOB_ID, "a", HOST) == ()


def test_a_launch_that_was_lost_is_ordered_again_after_a_poll() -> None:
    host = with_worker(rules=Rules(poll_interval=2_000))
    host.watch()
    assert len(host.engine.launched) == 1
    host.steady = 2_000
    host.watch()
    first, second = host.engine.launched
    assert first == second


def test_no_process_in_time_is_a_failed_launch_and_it_must_not_begin_any_more() -> None:
    host = with_worker(rules=Rules(launch=60_000))
    host.steady = 60_001
    host.watch()
    task = host.task()
    assert (task.party_status, task.reason) == (TaskStatus.FAILED, Reason.LAUNCH_FAILED)
    assert task.message == "no process started within 60 s"
    assert host.engine.stopped == [worker_of(host)]


def test_a_worker_whose_folder_cannot_be_written_says_why_it_never_came_up(monkeypatch: pytest.MonkeyPatch) -> None:
    host = with_worker(rules=Rules(poll_interval=2_000, launch=60_000))

    def full(_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(host.engine, "launch", full)
    host.steady = 2_000
    with pytest.raises(OSError, match="No space"):
        host.watch()                 # the effect fails, after the commit; a server logs it and goes on
    host.steady = 60_001
    host.watch()
    assert host.task().message == "no process started within 60 s: the disk is full; make room there"


def test_a_launch_that_works_in_the_end_leaves_no_complaint() -> None:
    host = with_worker(rules=Rules(poll_interval=2_000, launch=60_000))
    host.context.launch_problems[worker_of(host)] = "the disk was full"
    host.steady = 2_000
    host.watch()
    host.steady = 60_001
    host.watch()
    assert host.task().message == "no process started within 60 s"


def test_a_stop_is_repeated_until_the_worker_has_gone() -> None:
    host = with_worker()
    see(host, RUNS)
    host.handle(task_command(CommandKind.TASK_STOP, argument="canceled"))
    host.watch()
    assert host.engine.stopped == [worker_of(host)] * 2
    see(host, STOPPED)
    assert (host.task().party_status, host.task().reason) == (TaskStatus.CANCELED, Reason.STOPPED)
    assert reports(host)[-2:] == [("stopping", "stopped"), ("canceled", "stopped")]


def test_a_worker_that_is_stopped_before_it_began_ends_as_the_stop_says() -> None:
    host = with_worker(rules=Rules(launch=60_000))
    host.handle(command(CommandKind.STOP, argument="canceled", reason="stopped_by_user"))
    assert host.task().party_status is TaskStatus.STOPPING
    host.steady = 60_001
    host.watch()
    assert (host.task().party_status, host.task().reason) == (TaskStatus.CANCELED, Reason.STOPPED_BY_USER)


def test_one_worker_that_cannot_be_looked_at_does_not_hide_the_others(caplog: pytest.LogCaptureFixture) -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = made("table_of_a")
    host.watch()
    host.handle(task_command(CommandKind.TASK_START, "b"))
    first, second = worker_of(host, "a"), worker_of(host, "b")
    with host.store.transaction() as tx:
        # the first is to be looked at again
        worker = tx.worker(first)
        host.store._rows.workers.put(first, replace(worker, status=WorkerStatus.RUNNING))
    host.engine.sights = {second: RUNS}

    class ShareFailed(dict[str, Observation]):
        def get(self, key: str, default: Any = None) -> Any:
            if key == first:
                raise RuntimeError("a folder that cannot be read")
            return super().get(key, default)

    host.engine.sights = ShareFailed(host.engine.sights)
    with host.unit() as unit:
        unit.is_careful = True
        WorkerWatch().observe_all(unit)
    assert host.task("b").party_status is TaskStatus.RUNNING
    assert "a folder that cannot be read" in caplog.text


def test_an_upload_remembers_where_its_table_came_from() -> None:
    host = with_worker()
    task = host.task()
    with host.store.transaction():
        host.store._rows.tasks.put(task.key, replace(task, module="Upload"))
    see(host, made("t"))
    host.handle(REPORTED)
    with host.store.reading() as tx:
        assert tx.table("out", "t").origin == "upload"


OUTPUTS = f"output_{JOB_ID}"


def outputs(host: HandServer) -> list[str]:
    with host.store.reading() as tx:
        return [one.name for one in tx.outputs(JOB_ID, "a", HOST)]


def test_what_one_party_has_made_is_known_when_the_task_has_succeeded_at_all() -> None:
    host = with_worker()
    see(host, made("t", OUTPUTS))
    assert outputs(host) == []
    for _ in range(2):
        host.handle(REPORTED)
    with host.store.reading() as tx:
        assert (outputs(host), len(tx.metrics(JOB_ID, "a", HOST))) == (["t"], 1)


@pytest.mark.parametrize(("namespace", "dropped"), [(OUTPUTS, ["t"]), ("out", [])])
def test_what_one_party_has_made_goes_when_another_one_fails(namespace: str, dropped: list[str]) -> None:
    host = with_worker()
    see(host, made("t", namespace))       # in another namespace it is a table that was only handed on
    host.handle(task_command(CommandKind.TASK_STATUS, argument="failed"))
    assert [call[1].metadata["name"] for call in host.files.calls if call[0] == "remove_artifact"] == dropped
    assert outputs(host) == []


def test_what_a_task_reads_is_known_when_it_begins_before_the_word_that_it_was_made_everywhere() -> None:
    host = with_worker()
    see(host, made("t", OUTPUTS))
    assert host.handle(task_command(CommandKind.TASK_START, "b")).is_ok
    assert (outputs(host), host.task().status) == (["t"], TaskStatus.SUCCESS)
    assert [one.metadata["name"] for one in host.engine.launched[-1].inputs] == ["t"]


@pytest.mark.parametrize("is_stopped", [False, True])
def test_what_a_run_made_that_ended_before_it_was_told_is_known_to_the_next_one(is_stopped: bool) -> None:
    host = with_worker()
    see(host, made("t", OUTPUTS))
    if is_stopped:
        host.handle(command(CommandKind.STOP, argument="failed"))
    host.handle(command(CommandKind.STATUS, argument="failed"))
    assert (outputs(host), host.task().status) == ([], TaskStatus.CANCELED)
    assert [call for call in host.files.calls if call[0] == "remove_artifact"] == []
    again = {"b": {"version": 1, "incarnation": "d" * 32, "auto_retries": 0}}
    assert host.handle(command(CommandKind.STATUS, argument="waiting", run=1, tasks=again)).is_ok
    for kind in (CommandKind.CHECK, CommandKind.APPLY, CommandKind.START):
        assert host.handle(command(kind, run=1, turn=2)).is_ok
    start = replace(task_command(CommandKind.TASK_START, "b", version=1, incarnation="d" * 32), run=1)
    assert host.handle(start).is_ok
    assert [one.metadata["name"] for one in host.engine.launched[-1].inputs] == ["t"]


# ---------------------------------------------------------------------- reports


KEY = TaskKey(JOB_ID, "a", 2, HOST)
BODY = {
    "job_id": JOB_ID, "component_name": "a", "task_id": f"{JOB_ID}_a", "task_version": 2, "role": "host",
    "party_id": "10000", "party_status": "failed", "incarnation": INCARNATION, "reason": "worker_killed",
    "message": "m", "start_time": 5, "end_time": 9,
}  # fmt: skip
READ = Report(KEY, INCARNATION, TaskStatus.FAILED, Reason.WORKER_KILLED, "m", 5, 9, caused_by="host 10000")


@pytest.mark.parametrize(
    ("changes", "report"),
    [
        ({}, READ),
        ({"component_name": None}, READ),                                   # from the task id
        ({"party_id": 10000}, READ),                                        # a number, as old servers send it
        ({"task_version": "2"}, READ),
        ({"incarnation": None}, replace(READ, incarnation="")),             # a plain v1 peer
        ({"message": None, "error_report": "e"}, replace(READ, message="e")),
        ({"message": 7, "error_report": None}, replace(READ, message="")),
        ({"message": "x" * 9_000}, replace(READ, message="x" * 4_000)),
        ({"message": "a\ud800\0"}, replace(READ, message="a??")),
        ({"start_time": None, "end_time": None}, replace(READ, start_time=0, end_time=0)),
        ({"start_time": "5", "end_time": 2**80}, replace(READ, start_time=0, end_time=0)),
        ({"start_time": True, "end_time": -1}, replace(READ, start_time=0, end_time=0)),
        ({"reason": None}, replace(READ, reason=Reason.WORKER_ERROR)),      # what the status stands for
        ({"reason": "nonsense"}, replace(READ, reason=Reason.WORKER_ERROR)),
        ({"reason": "done"}, replace(READ, reason=Reason.WORKER_ERROR)),    # a failure does not follow from it
        ({"reason": ["x"]}, replace(READ, reason=Reason.WORKER_ERROR)),
        ({"party_status": "running"}, replace(READ, status=TaskStatus.RUNNING, reason=None, caused_by="")),
        (
            {"party_status": "waiting", "reason": None},
            replace(READ, status=TaskStatus.WAITING, reason=None, caused_by=""),
        ),
        ({"caused_by": "guest 9999"}, replace(READ, caused_by="guest 9999")),
        ({"caused_by": "owner 9999"}, READ), ({"caused_by": "host ../x"}, READ), ({"caused_by": 7}, READ),
        (
            {"party_status": "stopping", "reason": "stopped_by_user"},
            replace(READ, status=TaskStatus.STOPPING, reason=Reason.STOPPED_BY_USER),
        ),
        ({"party_status": "success", "reason": None}, replace(READ, status=TaskStatus.SUCCESS, reason=Reason.DONE)),
        ({"party_status": "pass", "reason": None}, replace(READ, status=TaskStatus.PASS, reason=Reason.NOT_NEEDED)),
        (
            {"party_status": "canceled", "reason": None},
            replace(READ, status=TaskStatus.CANCELED, reason=Reason.STOPPED),
        ),
        (
            {"party_status": "timeout", "reason": None},
            replace(READ, status=TaskStatus.TIMEOUT, reason=Reason.TASK_TIMEOUT),
        ),
    ],
)  # fmt: skip
def test_a_report_is_read(changes: dict[str, Any], report: Report) -> None:
    assert read_report({**BODY, **changes}) == report


@pytest.mark.parametrize(
    "changes",
    [
        {"job_id": None}, {"job_id": "../etc"}, {"job_id": 5}, {"component_name": "../x"}, {"role": "owner"},
        {"component_name": None, "task_id": None}, {"component_name": None, "task_id": "20260101120000_a/../b"},
        {"party_id": "x"}, {"party_id": None}, {"task_version": -1}, {"task_version": float("inf")},
        {"task_version": None}, {"task_version": True}, {"task_version": 2**40}, {"party_status": None},
        {"party_status": "done"}, {"party_status": ["success"]}, {"incarnation": "../.."}, {"incarnation": 7},
    ],
)  # fmt: skip
def test_what_is_no_report_is_none(changes: dict[str, Any]) -> None:
    assert read_report({**BODY, **changes}) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from([*BODY, "error_report"]), JSON))
def test_garbage_never_raises(changes: dict[str, Any]) -> None:
    for body in (changes, {**BODY, **changes}):
        report = read_report(body)
        if report is not None and report.status in TASK_END:
            assert report.reason is not None
            assert task_status_for(report.reason) is report.status


@pytest.mark.parametrize("status", TaskStatus)
def test_what_a_party_reports_is_what_the_initiator_reads(status: TaskStatus) -> None:
    reason = next((one for one in Reason if task_status_for(one) is status), None)
    cause = "guest 9999" if reason else ""
    task = a_task(
        "a", HOST, status, reason=reason, message="m", start_time=5, end_time=9 if reason else 0, caused_by=cause
    )
    said = report_of(task)
    end = 9 if reason else 0
    assert read_report(said) == Report(task.key, INCARNATION, status, reason, "m", 5, end, caused_by=cause)
    assert said["elapsed"] == (4 if reason else None)


def test_the_own_server_is_told_by_looking_at_the_job() -> None:
    guest = HandServer("9999")
    for one in (create(GUEST), *RUN[1:], START_A):
        assert guest.handle(replace(one, to=GUEST)).is_ok
    with guest.unit() as unit:
        guest.engine.sights[worker_of(guest, party=GUEST)] = RUNS
        WorkerWatch().observe(unit, worker_of(guest, party=GUEST))
        assert list(unit.pending.dirty) == [JOB_ID]
    assert guest.outbox() == []
