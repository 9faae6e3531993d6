"""What a party does when an initiator asks: each command, twice, late, wrong, and when we stumble."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.errors import NOT_EFFECTIVE, StorageFailed
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import ANY_RUN, Command, JobKey
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.wire.v1.job_answers import STILL_ENDS
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.services.context.ports import Rules
from fate_flow.store.memory.store import MemoryTransaction
from fate_flow.store.values import Document
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import (
    DOCUMENT,
    HOLD,
    JOIN,
    RUN,
    START_A,
    a_host,
    command,
    create,
    task_command,
)
from tests.kit.services.sights import FAILED, RUNS, STOPPED
from tests.kit.values import HOST, JOB_ID, NOW, a_job

# ---------------------------------------------------------------------- everything twice


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        ((), create()),
        (JOIN[:1], command(K.STATUS, argument="waiting")),
        (JOIN, command(K.CHECK, turn=1)),
        (HOLD, command(K.RETURN, turn=1)),
        (HOLD, command(K.START)), (HOLD, command(K.START, turn=1)),
        (RUN, command(K.UPDATE, progress=40)),
        (RUN, START_A),
        ((*RUN, START_A), task_command(K.TASK_STOP, argument="canceled")),
        ((*RUN, START_A), command(K.STOP, argument="canceled", reason="stopped_by_user", message="m")),
        (RUN, command(K.STATUS, argument="success", reason="done")),
        (RUN, command(K.STATUS, argument="failed", reason="task_failed", message="m")),
        (JOIN[:1], command(K.STATUS, argument="failed", tag="submit_failed")),
        (RUN, task_command(K.TASK_STATUS, argument="running")),
        (RUN, task_command(K.TASK_CREATE, version=1, incarnation="c1" * 16, auto_retries=2)),
        (RUN, task_command(K.TASK_COLLECT)),
        (RUN, command(K.CLEAN)),
        (RUN, command(K.FIND_REUSABLE)),
    ],
)
def test_a_command_that_comes_twice_is_answered_the_same_and_changes_nothing_more(
    before: tuple[Command, ...], asked: Command
) -> None:
    host = a_host(*before)
    first = host.handle(asked)
    seen, launched = host.snapshot(), len(host.engine.launched)
    assert first.is_ok
    assert host.handle(asked) == first
    assert host.snapshot() == seen
    assert len(host.engine.launched) == launched


def test_a_job_that_rests_holds_nothing_and_waits() -> None:
    idle = a_host().free_cores()
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = FAILED
    host.watch()
    round_number = host.job().claim.round_number
    answer = host.handle(command(K.STATUS, argument="waiting", turn=round_number))
    assert (answer.retcode, answer.data) == (0, {"remaining_cores": idle})
    assert (host.job().status, host.job().holds, host.job().run) == (JobStatus.WAITING, False, 0)
    seen = host.snapshot()
    assert host.handle(command(K.STATUS, argument="waiting", turn=round_number)).is_ok
    assert host.snapshot() == seen


@pytest.mark.parametrize("asked", [{}, {"turn": 0}, {"turn": 2}])
def test_a_word_to_wait_that_is_of_another_reservation_round_or_none_changes_nothing(asked: dict[str, int]) -> None:
    host = a_host(*JOIN, command(K.APPLY, turn=1), command(K.START, turn=1))
    seen = host.snapshot()
    assert host.handle(command(K.STATUS, argument="waiting", **asked)).is_ok
    assert host.snapshot() == seen


def test_what_still_runs_is_waited_for_before_it_rests() -> None:
    host = a_host(*RUN, START_A)
    answer = host.handle(command(K.STATUS, argument="waiting", turn=host.job().claim.round_number))
    assert (answer.retcode, answer.data) == (NOT_EFFECTIVE, {STILL_ENDS: True})
    assert (host.job().status, host.job().holds) == (JobStatus.RUNNING, True)


@pytest.mark.parametrize(
    "end", [command(K.STATUS, argument="failed", reason="task_failed"), command(K.STOP, argument="canceled")]
)
def test_a_job_that_ends_does_not_rest(end: Command) -> None:
    host = a_host(*RUN, START_A, end)
    seen = host.snapshot()
    answer = host.handle(command(K.STATUS, argument="waiting", turn=0))
    assert answer.retcode == 103
    assert host.job().status.value in answer.retmsg
    assert host.snapshot() == seen


@pytest.mark.parametrize("round_number", [{"turn": 1}, {}])
def test_an_apply_that_comes_twice_answers_the_same_and_begins_its_lease_anew(round_number: dict[str, int]) -> None:
    host = a_host(*JOIN)
    first = host.handle(command(K.APPLY, **round_number))
    seen = host.snapshot()
    assert host.handle(command(K.APPLY, **round_number)) == first
    renewed = replace(host.job(), claim=replace(host.job().claim, renewals=0))
    assert (host.job().claim.renewals, {**host.snapshot(), "jobs": (renewed,)}) == (1, seen)


@pytest.mark.parametrize(("described", "grace"), [({}, 10.0), ({"deadline_seconds": 60.0}, 10.0), (
    {"deadline_seconds": 3}, 3.0), ({"deadline_seconds": 0}, 0.0)])  # fmt: skip
def test_the_deadline_of_a_stop_is_a_duration_and_the_party_caps_it(described: dict[str, float], grace: float) -> None:
    host = a_host(*RUN, START_A, rules=Rules(stop_grace_seconds=10.0))
    assert host.handle(command(K.STOP, argument="canceled", **described)).is_ok
    assert host.engine.graces == [grace]


def asking(**parameters: Any) -> Document:
    """A job with these job parameters beside the usual ones."""
    conf = DOCUMENT.runtime_conf
    common = {**conf["job_parameters"]["common"], **parameters}
    return replace(DOCUMENT, runtime_conf={**conf, "job_parameters": {"common": common}})


@pytest.mark.parametrize(
    ("asked", "deadline", "grace"),
    [(30, 90, 30.0), (30, 5, 5.0), (3, 60, 3.0), (0, 60, 0.0), (500, 900, 120.0)],
)
def test_the_job_says_how_long_its_workers_may_take_and_the_party_caps_it(
    asked: float, deadline: float, grace: float
) -> None:
    rules = Rules(stop_grace_seconds=10.0, longest_stop_seconds=120.0)
    host = a_host(create(document=asking(stop_duration=asked)), *RUN[1:], START_A, rules=rules)
    assert host.handle(command(K.STOP, argument="canceled", deadline_seconds=deadline)).is_ok
    assert host.engine.graces == [grace]


def test_a_task_runs_no_longer_than_the_party_allows() -> None:
    ceilings = Ceilings(task_timeout=60)
    for asked, seconds in ((0, 60), (30, 30), (90, 60)):
        host = a_host(create(document=asking(task_timeout=asked)), *RUN[1:], START_A, ceilings=ceilings)
        assert [order.timeout_seconds for order in host.engine.launched] == [seconds]


def test_a_party_that_gives_less_than_was_asked_says_so_when_it_accepts() -> None:
    host = HandServer("10000", ceilings=Ceilings(task_timeout=60), rules=Rules(longest_stop_seconds=120.0))
    answer = host.handle(create(document=asking(task_timeout=90, stop_duration=500)))
    assert answer.data["effective"] == [
        {"component_name": name, "key": key, "asked": asked, "value": value, "source": source}
        for name in ("a", "b")
        for key, asked, value, source in (
            ("timeout", 90, 60, "ceilings.task_timeout"), ("stop_duration", 500, 120.0, "limits.longest_stop"))
    ]
    assert "effective" not in HandServer("10000").handle(create(document=asking(stop_duration=60))).data


def test_a_party_that_does_not_agree_refuses_and_keeps_nothing() -> None:
    host = HandServer("10000", ceilings=Ceilings(max_attempts=2, job_timeout=600))
    answer = host.handle(create(document=asking(auto_retries=3, timeout=900)))
    common = "job_runtime_conf.job_parameters.common"
    assert (answer.retcode, answer.retmsg) == (103, (
        f"{common}.timeout: 900 is more than host 10000 allows (ceilings.job_timeout); "
        f"{common}.auto_retries: 3 is more than host 10000 allows (ceilings.max_attempts)"
    ))  # fmt: skip
    assert host.job_or_none() is None
    assert host.handle(create(document=asking(auto_retries=1, timeout=600))).is_ok


def test_of_very_many_refusals_the_first_are_told() -> None:
    graph = {f"t{number}": [] for number in range(30)}
    document = job({"guest": ["9999"], "host": ["10000"]}, graph)
    conf = document.runtime_conf
    own = {name: {"retry": {"max_attempts": 9}} for name in graph}
    common = {"task_cores": 1, "task_conf": own}
    document = replace(document, runtime_conf={**conf, "job_parameters": {"common": common}})
    answer = HandServer("10000", ceilings=Ceilings(max_attempts=2)).handle(create(document=document, incarnations={}))
    assert answer.retmsg.count("9 is more than host 10000 allows") == 10
    assert answer.retmsg.endswith("; and 20 more")


@pytest.mark.parametrize(
    ("described", "cause"),
    [({"caused_by": "host 10001"}, "host 10001"), ({}, "guest 9999"), ({"caused_by": "nobody"}, "guest 9999")],
)
def test_a_share_that_is_stopped_says_whose_doing_it_is(described: dict[str, Any], cause: str) -> None:
    for end in (
        command(K.STOP, argument="canceled", **described),
        task_command(K.TASK_STOP, argument="canceled", **described),
    ):
        host = a_host(*RUN, START_A, end)
        assert (host.task().reason, host.task().caused_by) == (Reason.STOPPED, cause)
        host.engine.sights[worker_of(host)] = STOPPED
        host.watch()
        assert (host.task().party_status, host.task().caused_by) == (TaskStatus.CANCELED, cause)


@pytest.mark.parametrize(("described", "cause"), [({"caused_by": "host 10001"}, "host 10001"), ({}, "guest 9999")])
@pytest.mark.parametrize("kind", [K.STOP, K.STATUS])
def test_a_job_that_is_ended_here_says_whose_doing_it_is(
    kind: K, described: dict[str, Any], cause: str
) -> None:
    end = command(kind, argument="canceled", **described)
    idle, busy = a_host(*RUN, end), a_host(*RUN, START_A, end)
    assert (idle.job().status, idle.job().caused_by) == (JobStatus.CANCELED, cause)
    assert (busy.job().status, busy.job().caused_by) == (JobStatus.STOPPING, cause)
    busy.engine.sights[worker_of(busy)] = STOPPED
    busy.watch()
    assert (busy.job().status, busy.job().caused_by) == (JobStatus.CANCELED, cause)
    with busy.unit() as unit:
        ends = [one for one in unit.tx.history(JOB_ID) if one.level is HistoryLevel.JOB and one.reason]
    assert [(one.new, one.caused_by) for one in ends] == [("stopping", cause), ("canceled", cause)]


@pytest.mark.parametrize("kind", [K.STOP, K.STATUS])
def test_a_job_that_is_ended_here_has_the_exit_code_of_the_failed_worker(kind: K) -> None:
    end = command(kind, argument="failed", exit_code=3)
    idle, busy = a_host(*RUN, end), a_host(*RUN, START_A, end)
    assert (idle.job().exit_code, busy.job().exit_code) == (3, 3)
    busy.engine.sights[worker_of(busy)] = STOPPED
    busy.watch()
    assert (busy.job().status, busy.job().exit_code) == (JobStatus.FAILED, 3)
    with busy.unit() as unit:
        ends = [one.exit_status for one in unit.tx.history(JOB_ID) if one.level is HistoryLevel.JOB and one.reason]
    assert ends == ["exit code 3"] * 2
    assert a_host(*RUN, command(kind, argument="failed", exit_code="3")).job().exit_code is None


def test_a_share_that_ends_by_itself_is_its_own_doing() -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = FAILED
    host.watch()
    assert (host.task().reason, host.task().caused_by) == (Reason.WORKER_ERROR, "host 10000")


def test_a_stop_at_once_comes_through_to_what_is_stopping_already() -> None:
    host = a_host(*RUN, START_A, rules=Rules(stop_grace_seconds=10.0))
    for seconds in (60, 60, 0):
        assert host.handle(command(K.STOP, argument="canceled", deadline_seconds=seconds)).is_ok
    assert host.engine.graces == [10.0, 0]


@pytest.mark.parametrize("described", [True, -1, "3", float("nan"), 1e12])
def test_a_deadline_that_is_no_duration_is_refused(described: object) -> None:
    host = a_host(*RUN, START_A)
    answer = host.handle(command(K.STOP, argument="canceled", deadline_seconds=described))
    assert (answer.retcode, host.engine.stopped) == (101, [])
    assert answer.retmsg.startswith("deadline_seconds: ")


def test_all_commands_of_a_job_repeated_in_their_order_end_where_they_ended() -> None:
    commands = (*RUN, START_A, command(K.STOP, argument="canceled", reason="stopped_by_user"))
    host = a_host(*commands)
    seen = host.snapshot()
    for one in commands:
        host.handle(one)
    assert host.snapshot() == seen


# ---------------------------------------------------------------------- what is not here, or not now


@pytest.mark.parametrize(
    ("asked", "retcode"),
    [
        (command(K.STATUS, argument="failed", tag="submit_failed"), 0),
        (command(K.STATUS, argument="success"), 0),
        (command(K.STATUS, argument="waiting"), 103),
        (command(K.CHECK), 103), (command(K.APPLY), 103), (command(K.START), 103), (command(K.UPDATE), 103),
        (command(K.RETURN), 0), (command(K.STOP, argument="canceled"), 0),
        (START_A, 102), (task_command(K.TASK_STOP, argument="canceled"), 102), (task_command(K.TASK_COLLECT), 102),
    ],
)  # fmt: skip
def test_of_a_job_that_is_not_here_what_ends_it_is_done_and_all_else_is_refused(asked: Command, retcode: int) -> None:
    assert a_host().handle(asked).retcode == retcode


@pytest.mark.parametrize("run", [0, 1, 2])
def test_a_command_of_another_run_changes_nothing(run: int) -> None:
    host = a_host()
    with host.store.transaction() as tx:
        tx.add_job(a_job(JobStatus.WAITING, HOST, run=1), DOCUMENT)
    answer = host.handle(command(K.APPLY, run=run, turn=1))
    assert answer.retcode == (0 if run == 1 else NOT_EFFECTIVE)


@pytest.mark.parametrize(
    ("before", "asked", "retcode"),
    [
        (JOIN[:1], command(K.APPLY, turn=1), 103),       # not accepted everywhere yet
        (JOIN, command(K.START), 103),                   # holds nothing
        (HOLD, command(K.START, turn=0), 103),           # late: of a reservation round that was given up
        (HOLD, command(K.START, turn=2), 103),
        (HOLD, command(K.START, turn="x"), 101),
        (RUN, command(K.RETURN, turn=1), NOT_EFFECTIVE), # its end returns it
        ((*JOIN, command(K.STATUS, argument="canceled")), command(K.CHECK), 103),
        ((*JOIN, command(K.STATUS, argument="canceled")), command(K.APPLY), 103),
        ((*JOIN, command(K.STATUS, argument="canceled")), command(K.START), 103),
        ((*RUN, START_A, command(K.STOP, argument="canceled")), command(K.APPLY, turn=2), 103),   # it drains
        (JOIN, START_A, 103),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_status_is_refused_and_changes_nothing(
    before: tuple[Command, ...], asked: Command, retcode: int
) -> None:
    host = a_host(*before)
    seen = host.snapshot()
    assert host.handle(asked).retcode == retcode
    assert host.snapshot() == seen


def plain_v1_create() -> Command:
    """`create` as a plain v1 initiator sends it."""
    body = {key: value for key, value in create().body.items() if key not in ("extensions", "incarnations")}
    return Command(K.CREATE, JOB_ID, HOST, ANY_RUN, body=body)


@pytest.mark.parametrize("asked", [command(K.ALIGN), command(K.UPDATE), task_command(K.TASK_COLLECT)])
@pytest.mark.parametrize(("is_plain_v1", "heartbeats"), [(True, {"9999": 1}), (False, {})])
def test_whatever_a_plain_v1_initiator_says_is_a_sign_of_life(
    asked: Command, is_plain_v1: bool, heartbeats: dict[str, int]
) -> None:
    host = a_host(plain_v1_create() if is_plain_v1 else create())
    host.handle(asked)
    with host.store.reading() as tx:
        assert tx.heartbeats() == heartbeats


def test_other_parties_of_a_job_may_ask_whether_it_is_here_and_nobody_else() -> None:
    host = a_host(plain_v1_create())
    assert [host.handle(command(K.ALIGN), caller).retcode for caller in ("10000", "10001")] == [0, 108]
    with host.store.reading() as tx:
        assert tx.heartbeats() == {}


def test_what_is_stopping_still_runs_for_a_plain_v1_initiator() -> None:
    plain = (plain_v1_create(), *RUN[1:], task_command(K.TASK_START, user_id="u"))
    host = a_host(*plain)
    host.engine.sights[worker_of(host)] = RUNS
    host.watch()
    host.handle(command(K.STOP, argument="canceled"))
    assert host.task().party_status is TaskStatus.STOPPING
    collected = host.handle(task_command(K.TASK_COLLECT, x=1)).data
    reported = [one.body for one in host.outbox() if one.kind is K.REPORT and one.task == "a"]
    assert {body["party_status"] for body in (collected, *reported)} == {"running"}


@pytest.mark.parametrize(
    ("progress", "stored"), [(40, 40), (-5, 0), (400, 100), ("40", 0), (None, 0), (True, 1)]
)
def test_update_writes_progress_and_nothing_else(progress: Any, stored: int) -> None:
    host = a_host(*RUN)
    host.handle(command(K.UPDATE, progress=progress, status="success", is_initiator=True, cores=99))
    found = host.job()
    assert (found.progress, found.status, found.is_initiator) == (stored, JobStatus.RUNNING, False)


# ---------------------------------------------------------------------- when something is wrong with us


def test_one_command_that_we_stumble_over_is_answered_and_undone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host = a_host(*HOLD)

    def stumble(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("fate_flow.services.participant.ends.clean_up", stumble)
    seen = host.snapshot()
    answer = host.handle(command(K.STATUS, argument="canceled"))
    text, _, incident = answer.retmsg.rpartition(" ")
    assert (answer.retcode, text) == (100, "unexpected error at host 10000; its log has the reason: error")
    assert f"failed: error {incident}\n" in caplog.text
    assert host.snapshot() == seen


def test_a_database_that_refuses_is_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    host = a_host(*HOLD)

    def refuse(*_: object) -> None:
        raise StorageFailed("disk full")

    monkeypatch.setattr("fate_flow.services.participant.ends.clean_up", refuse)
    with pytest.raises(StorageFailed):
        host.handle(command(K.STATUS, argument="canceled"))
    assert host.job().holds


def test_a_hold_that_another_process_took_back_in_between_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """On MySQL two processes may read the row before one of them locks it."""
    host = a_host(*HOLD)
    move = MemoryTransaction.move_job

    def too_late(tx: Any, *arguments: Any) -> bool:
        tx.give_back(JobKey(JOB_ID, HOST), None, NOW)
        return move(tx, *arguments)

    monkeypatch.setattr(MemoryTransaction, "move_job", too_late)
    answer = host.handle(command(K.START))
    assert (answer.retcode, "holds nothing any more" in answer.retmsg) == (103, True)
    assert host.job().status is JobStatus.WAITING
