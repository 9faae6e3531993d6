"""A job begins again: at its initiator, at the other parties, and at the routes that ask for it."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.errors import NOT_EFFECTIVE, Conflict, JobNotFound
from fate_flow.core.model.job import ANY_RUN, Answer, Command, Job, Seat, WorkerEnd
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus, WorkerStatus
from fate_flow.core.wire.v1.job_answers import STILL_ENDS
from fate_flow.records.operator_log.events import Event
from fate_flow.services.scheduling.events import WorkerChanged
from fate_flow.store.memory.store import MemoryTransaction
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import Process, after, chosen, job_of, seat, submit
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import DOCUMENT, JOIN, RUN, a_host, command, create, task_command
from tests.kit.services.reruns import FRESH, LAST, TASKS, begun_again, canceled, end_task, of_one_party
from tests.kit.services.sights import RUNS, STOPPED, made
from tests.kit.values import GUEST, HOST, JOB_ID, a_job

# ---------------------------------------------------------------------- at another party

FAILED_END = command(K.STATUS, argument="failed", reason="task_failed", message="it broke")


def again(run: int = 1, **body: Any) -> Command:
    return command(K.STATUS, argument="waiting", run=run, **{"tasks": TASKS, "last": LAST, **body})


def test_a_party_takes_row_and_new_versions_at_once_and_a_repeated_command_changes_nothing() -> None:
    host = a_host(*RUN, FAILED_END)
    assert host.handle(again()).is_ok
    row, task = host.job(), host.task(version=1)
    assert (row.status, row.run, row.reason, row.message, row.end_time) == (JobStatus.WAITING, 1, None, "", 0)
    assert (task.status, task.party_status, task.incarnation, task.auto_retries, task.runs_here) == (
        TaskStatus.WAITING, TaskStatus.WAITING, FRESH, 2, True,
    )  # fmt: skip
    assert task.module == "Work"
    seen = host.snapshot()
    assert host.handle(again()).is_ok
    assert host.snapshot() == seen


def test_it_reserves_and_starts_in_the_new_run_and_takes_no_command_of_the_last() -> None:
    host = a_host(*RUN, FAILED_END, again())
    for kind in (K.APPLY, K.START):
        assert host.handle(command(kind, turn=2)).retcode == NOT_EFFECTIVE
        assert host.handle(command(kind, run=1, turn=2)).is_ok
    assert host.job().status is JobStatus.RUNNING
    assert host.handle(FAILED_END).retcode == NOT_EFFECTIVE
    assert host.free_cores() == 6


def test_a_party_that_has_never_heard_of_the_end_ends_first() -> None:
    host = a_host(*RUN)
    assert host.handle(again()).is_ok
    assert (host.job().status, host.job().run, host.free_cores()) == (JobStatus.WAITING, 1, 8)
    assert host.task(version=0).status is TaskStatus.CANCELED


def test_a_party_that_drains_says_so_until_its_worker_has_gone() -> None:
    host = a_host(*RUN, task_command(K.TASK_START))
    host.engine.sights[worker_of(host)] = RUNS
    host.watch()
    for _ in range(2):
        answer = host.handle(again())
        assert (answer.retcode, answer.data) == (NOT_EFFECTIVE, {STILL_ENDS: True})
        assert (host.job().status, host.job().run, host.job().reason) == (JobStatus.STOPPING, 0, Reason.TASK_FAILED)
    host.engine.sights[worker_of(host)] = STOPPED
    host.watch()
    assert host.job().status is JobStatus.FAILED
    assert host.handle(again()).is_ok
    assert host.job().run == 1


def test_a_worker_that_the_end_did_not_wait_for_is_waited_for() -> None:
    host = a_host(*RUN, task_command(K.TASK_START))
    with host.store.transaction() as tx:
        task = tx.task(host.task().key)
        tx.move_party_task(task, TaskStatus.CANCELED, 5, Reason.STOPPED)
    host.handle(FAILED_END)
    assert host.job().status is JobStatus.FAILED
    assert host.handle(again()).data == {STILL_ENDS: True}
    with host.store.transaction() as tx:
        tx.move_worker(tx.worker(worker_of(host)), WorkerStatus.EXITED, 6, end=WorkerEnd(Reason.DONE, "", str(HOST)))
    assert host.handle(again()).is_ok


def test_a_row_that_another_process_has_just_moved_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    host = a_host(*RUN, FAILED_END)
    seen = host.snapshot()
    with monkeypatch.context() as patch:
        patch.setattr(MemoryTransaction, "begin_again", lambda *_, **__: False)
        answer = host.handle(again())
    assert (answer.retcode, answer.data, host.snapshot()) == (NOT_EFFECTIVE, {STILL_ENDS: True}, seen)


def test_the_end_of_a_run_that_the_party_has_never_heard_of_is_its_end_too() -> None:
    host = a_host(*RUN, FAILED_END)
    answer = host.handle(command(K.STATUS, argument="canceled", run=1, reason="stopped_by_user"))
    assert (answer.is_ok, answer.data["ended_as"]) == (True, "canceled")
    assert (host.job().status, host.job().run) == (JobStatus.CANCELED, 1)


def test_no_other_command_of_a_later_run_is_taken() -> None:
    host = a_host(*RUN, FAILED_END)
    seen = host.snapshot()
    for kind in (K.CHECK, K.APPLY, K.START, K.STOP, K.RETURN):
        assert host.handle(command(kind, run=1, argument="canceled")).retcode == NOT_EFFECTIVE
    assert host.snapshot() == seen


def test_a_job_that_is_not_known_any_more_is_refused() -> None:
    answer = a_host().handle(again())
    assert (answer.retcode, answer.retmsg) == (103, f"job {JOB_ID} is not known on host 10000")


@pytest.mark.parametrize(
    ("tasks", "text"),
    [
        ({"x": TASKS["a"]}, "tasks.x: is not a component"), ({"a": 7}, "tasks.a: is not a component"),
        ({"a": {**TASKS["a"], "version": -1}}, "tasks.a.version"),
        ({"a": {**TASKS["a"], "incarnation": "../x"}}, "tasks.a.incarnation"),
        ({"a": {**TASKS["a"], "auto_retries": "two"}}, "tasks.a.auto_retries"),
    ],
)  # fmt: skip
def test_new_versions_that_are_none_are_refused_and_change_nothing(tasks: dict[str, Any], text: str) -> None:
    host = a_host(*RUN, FAILED_END)
    seen = host.snapshot()
    answer = host.handle(again(tasks=tasks))
    assert (answer.retcode, answer.retmsg.startswith(text)) == (101, True)
    assert host.snapshot() == seen


def test_a_rerun_of_plain_v1_comes_task_by_task_and_then_as_a_status() -> None:
    described = create()
    plain = Command(
        K.CREATE, JOB_ID, HOST, ANY_RUN, body={k: v for k, v in described.body.items() if k != "extensions"}
    )
    host = a_host(plain, command(K.STATUS, argument="waiting", run=ANY_RUN))
    host.handle(command(K.STATUS, argument="failed", run=ANY_RUN))
    task = Command(K.TASK_CREATE, JOB_ID, HOST, ANY_RUN, "a", 1)
    for _ in range(2):
        assert host.handle(task).is_ok
        assert host.handle(command(K.STATUS, argument="waiting", run=ANY_RUN)).is_ok
        assert (host.job().status, host.job().run) == (JobStatus.WAITING, 1)
    assert host.task(version=1).status is TaskStatus.WAITING


# ---------------------------------------------------------------------- at the initiator


def host_seat(process: Process) -> tuple[SeatStatus, int]:
    found: Seat = seat(process, "10000")
    return found.status, found.run


def test_it_waits_until_the_other_party_knows_and_then_has_its_reservation_round() -> None:
    process = begun_again(canceled())
    row = job_of(process)
    assert (row.status, row.run, row.reason, row.cancel_requested) == (JobStatus.WAITING, 1, None, False)
    assert row.wait_reason == "not every party knows yet that it begins again: host 10000"
    assert host_seat(process) == (SeatStatus.JOINING, 1)
    assert process.sent() == ["status canceled", "status waiting"]
    process.answer(K.STATUS)                    # that of the last run
    assert host_seat(process) == (SeatStatus.JOINING, 1)
    process.answer(K.STATUS)
    assert (host_seat(process)[1], job_of(process).wait_reason) == (1, "")
    assert process.sent() == ["dependence/check", "resource/apply"]
    for kind in (K.CHECK, K.APPLY, K.START):
        process.answer(kind)
    assert job_of(process).status is JobStatus.RUNNING
    assert process.transport.posted[0].version == 1


def test_a_party_that_still_drains_is_asked_again_a_little_later() -> None:
    process = begun_again(canceled())
    process.answer(K.STATUS)
    sent = process.transport.posted[0]
    for _ in range(2):
        process.answer(K.STATUS, Answer(NOT_EFFECTIVE, "still ends its run 0", {STILL_ENDS: True}))
        assert process.sent() == []
        assert host_seat(process) == (SeatStatus.JOINING, 1)
        assert process.scheduler.seconds_to_alarm() is not None
        after(process, process.server.context.rules.retry_wait / 1000)
        assert process.scheduler.fire_alarms()
        assert [(one.id, one.body) for one in process.transport.posted] == [(sent.id, sent.body)]
    process.answer(K.STATUS)
    assert process.sent() == ["dependence/check", "resource/apply"]


def test_a_party_that_does_not_know_the_job_any_more_ends_it_by_its_name() -> None:
    process = begun_again(canceled())
    process.answer(K.STATUS)
    process.answer(K.STATUS, Answer(103, "job x is not known on host 10000"))
    row = job_of(process)
    assert (row.status, row.run, row.reason) == (JobStatus.FAILED, 1, Reason.PARTY_REFUSED)
    assert (row.message, row.caused_by) == ("host 10000: job x is not known on host 10000", "host 10000")
    process.scheduler.poll()
    assert (job_of(process).run, process.sent()) == (1, [])
    begun_again(process)                        # it may know it again
    assert (host_seat(process), process.sent()) == ((SeatStatus.JOINING, 2), ["status waiting"])


def test_a_stop_while_a_party_still_drains_tells_it_the_end_of_the_new_run() -> None:
    process = begun_again(canceled())
    process.answer(K.STATUS)
    Harness(process.server).use_cases.jobs.stop(JOB_ID)
    process.scheduler.poll()
    row = job_of(process)
    assert (row.status, row.run, row.rerun_signal) == (JobStatus.CANCELED, 1, False)
    assert process.sent() == ["status waiting", "status canceled"]
    process.answer(K.STATUS)
    assert host_seat(process) == (SeatStatus.LEAVING, 1)
    process.answer(K.STATUS, Answer(NOT_EFFECTIVE, "still ends its run 0", {STILL_ENDS: True}))
    assert host_seat(process) == (SeatStatus.LEAVING, 1)
    after(process, 5)
    process.answer(K.STATUS)
    assert host_seat(process) == (SeatStatus.LEFT, 1)


def test_what_succeeded_is_kept_and_read_by_what_runs_anew() -> None:
    process = of_one_party({"a": made("t"), "b": STOPPED})
    assert job_of(process).status is JobStatus.FAILED
    begun_again(process)
    assert job_of(process).status is JobStatus.RUNNING
    assert process.server.task("b", GUEST, 1).tries.errors == 0
    order = process.server.engine.launched[-1]
    assert (order.worker.task.name, order.worker.task.version) == ("b", 1)
    assert [one.metadata["name"] for one in order.inputs] == ["t"]
    end_task(process, "b", made("u"), 1)
    assert (job_of(process).status, job_of(process).run) == (JobStatus.SUCCESS, 1)
    kept = process.server.record.seen(Event.RERUN_TASK_PASSED)
    assert [(one["task_id"], one["task_version"]) for one in kept] == [(f"{JOB_ID}_a", 0)]


def test_a_success_begins_again_from_a_component_or_by_force_only() -> None:
    process = of_one_party({"a": made("t"), "b": made("u")})
    harness = Harness(process.server)
    with pytest.raises(Conflict, match="no task to rerun, all 2 have succeeded; --force or --component-name"):
        harness.use_cases.jobs.rerun(JOB_ID, {})
    harness.use_cases.jobs.rerun(JOB_ID, {"component_name": "b"})
    process.scheduler.poll()
    assert process.server.engine.launched[-1].worker.task.version == 1
    end_task(process, "b", made("v"), 1)
    harness.use_cases.jobs.rerun(JOB_ID, {"component_name": "pipeline", "force": True})
    process.scheduler.poll()
    assert process.server.engine.launched[-1].worker.task.name == "a"
    assert process.server.task("b", GUEST, 2).status is TaskStatus.WAITING


@pytest.mark.parametrize("resumes", [False, True])
def test_the_history_names_the_client_that_had_a_job_run_again(resumes: bool) -> None:
    process = canceled()
    jobs = Harness(process.server).use_cases.jobs
    if resumes:
        jobs.resume(JOB_ID, "anna")
    else:
        jobs.rerun(JOB_ID, {}, "anna")
    with process.server.store.reading() as tx:
        named = [(one.party, one.message) for one in tx.history(JOB_ID) if "anna" in one.message]
    assert named == [(GUEST, "resumed by anna" if resumes else "rerun requested by anna")]


def test_resume_is_for_a_canceled_job_only() -> None:
    process = canceled()
    Harness(process.server).use_cases.jobs.resume(JOB_ID)
    assert job_of(process).run == 1
    with pytest.raises(Conflict, match="is waiting: only a job that is canceled can be resumed"):
        Harness(process.server).use_cases.jobs.resume(JOB_ID)
    failed = of_one_party({"a": STOPPED})
    with pytest.raises(Conflict, match="is failed: only a job that is canceled can be resumed"):
        Harness(failed.server).use_cases.jobs.resume(JOB_ID)


def test_a_job_that_is_not_over_an_unknown_one_and_one_of_another_initiator() -> None:
    process = chosen(HandServer("9999"))
    submit(process, document=DOCUMENT)
    with pytest.raises(Conflict, match=f"job {JOB_ID} is waiting: only a job that is over can be rerun"):
        Harness(process.server).use_cases.jobs.rerun(JOB_ID, {})
    with pytest.raises(JobNotFound, match=r"^can not found job$"):
        Harness().use_cases.jobs.rerun(JOB_ID, {})
    host = Harness(a_host(*JOIN))
    with pytest.raises(Conflict, match=f"this server is party 10000; rerun job {JOB_ID} at party 9999, its initiator"):
        host.use_cases.jobs.rerun(JOB_ID, {})


def test_a_submit_that_was_never_accepted_is_not_rerun() -> None:
    harness = Harness()
    with harness.server.store.transaction() as tx:
        row = a_job(JobStatus.READY)
        tx.add_job(row, DOCUMENT)
        tx.request_stop(row.key, Reason.STOPPED_BY_USER, "", 5, True, "me")
    with harness.server.unit() as unit:
        harness.use_cases.jobs._initiator.advance(unit, JOB_ID)
    assert harness.server.job(GUEST).status is JobStatus.CANCELED
    with pytest.raises(Conflict, match=f"job {JOB_ID} was never accepted by every party"):
        harness.use_cases.jobs.rerun(JOB_ID, {"force": True})


def test_a_worker_of_the_last_run_that_still_ends_here_is_waited_for() -> None:
    process = of_one_party({"a": made("t")})
    worker = process.server.task("b", GUEST).worker_id
    process.server.engine.sights[worker] = RUNS
    process.scheduler.step([WorkerChanged(worker)])
    Harness(process.server).use_cases.jobs.stop(JOB_ID)
    process.scheduler.poll()
    after(process, process.server.context.rules.drain / 1000 + 1)
    assert job_of(process).status is JobStatus.CANCELED
    with pytest.raises(Conflict, match="its last workers still end; rerun it in a moment"):
        Harness(process.server).use_cases.jobs.rerun(JOB_ID, {})
    process.server.engine.sights[worker] = STOPPED
    process.scheduler.step([WorkerChanged(worker)])
    Harness(process.server).use_cases.jobs.rerun(JOB_ID, {})
    assert job_of(process).run == 1


def test_all_seats_at_the_initiators_server_begin_again_at_once() -> None:
    local = Party("local", "0")
    process = of_one_party({}, job({"guest": ["9999"], "local": ["0"]}))
    Harness(process.server).use_cases.jobs.stop(JOB_ID)
    process.scheduler.poll()
    for party in (GUEST, local):
        worker = process.server.task("work_0", party).worker_id
        process.server.engine.sights[worker] = STOPPED
        process.scheduler.step([WorkerChanged(worker)])
    assert job_of(process).status is JobStatus.CANCELED
    begun_again(process)
    for party in (GUEST, local):
        row, task = process.server.job(party), process.server.task("work_0", party, 1)
        assert (row.status, row.run, task.module, task.runs_here) == (JobStatus.RUNNING, 1, "Work", True)


# ---------------------------------------------------------------------- at the routes


@pytest.mark.parametrize(
    ("caller", "body", "retcode"),
    [("10000", {}, 0), ("9999", {}, 0), ("10001", {}, 108), ("10000", {"component_name": "x"}, 101)],
)
def test_a_party_of_the_job_may_ask_its_initiator_for_it(caller: str, body: dict[str, Any], retcode: int) -> None:
    process = canceled()
    asked = Command(K.ASK_RERUN, JOB_ID, GUEST, ANY_RUN, body=body)
    [answer] = Harness(process.server).use_cases.commands.carry_out([asked], caller)
    assert (answer.retcode, job_of(process).run) == (retcode, int(retcode == 0))


def test_of_an_unknown_job_and_of_one_that_runs_a_party_hears_so() -> None:
    asked = Command(K.ASK_RERUN, JOB_ID, GUEST, ANY_RUN)
    assert Harness().use_cases.commands.carry_out([asked], "10000")[0].retcode == 102
    waiting = Harness().with_job(JobStatus.RUNNING)
    assert waiting.use_cases.commands.carry_out([asked], "10000")[0].retcode == 100


def test_a_request_to_stop_the_last_run_does_not_stop_this_one() -> None:
    process = begun_again(canceled())
    for run, reason in ((0, None), (1, Reason.STOPPED_BY_USER)):
        late = Command(K.ASK_STOP, JOB_ID, HOST, run, argument="canceled")
        assert Harness(process.server).use_cases.commands.carry_out([late], "10000")[0].retcode == 0
        row: Job = job_of(process)
        assert row.reason is reason
