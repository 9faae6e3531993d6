"""Other parameters for a job: at its initiator, at the other parties, and with the rerun that takes them up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.approval import Approval, ApprovalRule
from fate_flow.core.model.errors import (
    NOT_EFFECTIVE,
    NOT_READY,
    BadRequest,
    Conflict,
    JobNotFound,
    OperationFailed,
    Refused,
)
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import ANY_RUN, Answer, Command, JobKey
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.wire.v1.job_answers import STILL_ENDS
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.jobspec.parameters import Change
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import PLAIN_V1, Process, chosen, job_of, seat, submit
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.parameter_updates import MORE_CORES, PARTS, described
from tests.kit.services.party_commands import DOCUMENT, ENDED, HOLD, JOIN, RUN, a_host, command, create
from tests.kit.services.reruns import LAST, TASKS, begun_again, canceled, end_task, of_one_party
from tests.kit.services.sights import FAILED, made
from tests.kit.values import GUEST, HOST, JOB_ID

# ---------------------------------------------------------------------- at another party


@pytest.mark.parametrize("before", [ENDED, JOIN])
def test_a_party_takes_them_for_a_job_that_is_over_or_waits_and_a_repeated_command_changes_nothing(before: Any) -> None:
    host = a_host(*before)
    status, files = host.job().status, len(host.files.names())
    assert host.handle(described()).is_ok
    row = host.job()
    assert (row.status, row.revision, row.asked.cores, row.timeout_seconds) == (status, 1, 3, 50)
    with host.unit() as unit:
        spec = unit.spec(JOB_ID)
        last = [one for one in unit.tx.history(JOB_ID) if one.level is HistoryLevel.JOB][-1]
    assert spec is not None
    assert spec.tasks["a"].parameters[HOST] == {"x": 1}
    assert (last.old, last.new, last.message) == (status.value, status.value,
                                                  "its parameters were changed (revision 1: a)")
    assert host.files.names()[files:] == ["write_confs"]
    seen = host.snapshot()
    assert host.handle(described()).is_ok
    other = host.handle(described(component_parameters={"common": {"a": {"x": 2}}}))
    assert (other.retcode, "another document here as revision 1" in other.retmsg) == (103, True)
    assert host.snapshot() == seen


def test_without_a_revision_it_is_the_next_one_as_plain_v1_sends_it() -> None:
    plain = {key: value for key, value in create().body.items() if key != "extensions"}
    host = a_host(Command(K.CREATE, JOB_ID, HOST, ANY_RUN, body=plain), *JOIN[1:])
    for number in (1, 2):
        assert host.handle(described(None, ANY_RUN, component_parameters={"common": {"a": {"x": number}}})).is_ok
        assert host.job().revision == number


@pytest.mark.parametrize("before", [JOIN[:1], HOLD, RUN])
def test_a_job_that_is_under_way_here_takes_them_later(before: Any) -> None:
    host = a_host(*before)
    seen = host.snapshot()
    answer = host.handle(described())
    assert (answer.retcode, answer.data, host.snapshot()) == (NOT_EFFECTIVE, {STILL_ENDS: True}, seen)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"job_parameters": None}, "job_parameters: null is not an object"),
        ({"component_parameters": []}, "component_parameters: a list is not an object"),
        ({"revision": -1}, "revision"),
        ({"job_parameters": {"common": {"task_cores": 0}}}, "job_parameters.common.task_cores"),
        ({"job_parameters": {"common": {"task_cores": 99}}}, "asks for 99 cores"),
        ({"job_parameters": {"common": {"task_cores": 5}}}, "5 is more than host 10000 allows"),
    ],
)  # fmt: skip
def test_what_a_party_does_not_agree_to_changes_nothing(parts: dict[str, Any], text: str) -> None:
    host = a_host(*ENDED, ceilings=Ceilings(task_cores=4) if "5 is" in text else Ceilings())
    seen = host.snapshot()
    answer = host.handle(described(**parts))
    assert answer.retcode in (101, 103)
    assert text in answer.retmsg
    assert host.snapshot() == seen


def test_nobody_but_its_initiator_changes_a_job() -> None:
    host = a_host(*ENDED)
    assert host.handle(described(), "10001").retcode == 108
    assert host.handle(replace(described(), job_id="2026010112000000000099")).retcode == 103


def test_who_has_approved_the_job_is_asked_anew() -> None:
    host = a_host(*JOIN, approval=ApprovalRule(required=True))
    Harness(host).use_cases.approvals.approve(JOB_ID, "", "somebody")
    assert host.handle(command(K.CHECK, turn=1)).is_ok
    assert host.handle(described()).is_ok
    assert host.job().consent.approval is Approval.PENDING
    assert host.handle(command(K.CHECK, turn=1)).retcode == NOT_READY


def test_there_is_no_reservation_round_at_a_party_that_lacks_a_revision() -> None:
    host = a_host(*JOIN)
    answer = host.handle(command(K.CHECK, turn=1, revision=1))
    assert (answer.retcode, "revision 0, and not yet those of 1" in answer.retmsg) == (NOT_READY, True)
    assert host.handle(described()).is_ok
    assert host.handle(command(K.CHECK, turn=1, revision=1)).is_ok


def test_a_rerun_brings_them_to_a_party_that_has_missed_the_message() -> None:
    host = a_host(*ENDED)
    parameters = {**PARTS, "revision": 2}
    again = command(K.STATUS, argument="waiting", run=1, tasks=TASKS, last=LAST, parameters=parameters)
    for _ in range(2):
        assert host.handle(again).is_ok
        assert (host.job().run, host.job().revision, host.job().asked.cores) == (1, 2, 3)
    assert host.handle(described(1)).is_ok                      # the message, late
    assert host.job().revision == 2
    assert host.handle(described(3)).is_ok                      # of a run that is over, and the newest all the same
    assert (host.job().run, host.job().revision) == (1, 3)


def test_a_party_that_does_not_agree_to_them_takes_no_part_in_the_rerun() -> None:
    host = a_host(*ENDED)
    seen = host.snapshot()
    parameters = {**PARTS, "job_parameters": {"common": {"task_cores": 99}}, "revision": 1}
    again = command(K.STATUS, argument="waiting", run=1, tasks=TASKS, last=LAST, parameters=parameters)
    answer = host.handle(again)
    assert (answer.retcode, "asks for 99 cores" in answer.retmsg) == (103, True)
    assert host.snapshot() == seen


def test_a_job_that_is_sent_once_more_comes_with_its_revision() -> None:
    host = HandServer("10000")
    assert host.handle(create(revision=3)).is_ok
    assert host.handle(command(K.STATUS, argument="waiting")).is_ok
    assert host.handle(command(K.CHECK, turn=1, revision=3)).is_ok


# ---------------------------------------------------------------------- at the initiator


CHANGE = Change(MORE_CORES, {"common": {"a": {"x": 1}}})


def change(process: Process, what: Change = CHANGE) -> Any:
    use_cases = Harness(process.server).use_cases
    revised = use_cases.jobs.change_parameters(JOB_ID, what, use_cases.jobs.preview_change(JOB_ID, what).base)
    process.scheduler.poll()
    return revised


def test_the_history_names_the_client_that_changed_parameters() -> None:
    process = canceled()
    process.answer(K.STATUS)
    jobs = Harness(process.server).use_cases.jobs
    jobs.change_parameters(JOB_ID, CHANGE, jobs.preview_change(JOB_ID, CHANGE).base, "anna")
    with process.server.store.reading() as tx:
        assert [one.message for one in tx.history(JOB_ID) if "anna" in one.message] == ["parameters changed by anna"]


def test_it_is_changed_here_told_to_all_and_sent_with_the_rerun() -> None:
    process = canceled()
    process.answer(K.STATUS)
    revised = change(process)
    assert revised.components == ("a",)
    row = job_of(process)
    assert (row.status, row.revision, row.changed, row.asked.cores) == (JobStatus.CANCELED, 1, ("a",), 3)
    assert seat(process, "10000").asked_cores == 3
    [sent] = process.transport.posted
    assert (sent.kind, sent.run, sent.body["revision"], sent.body["components"]) == (K.PARAMETERS, 0, 1, ["a"])
    assert sent.body["component_parameters"] == {"common": {"a": {"x": 1}}}
    begun_again(process)
    again = process.transport.posted[-1]
    assert again.body["parameters"] == {**sent.body, "components": ["a"]}
    assert (job_of(process).run, job_of(process).changed) == (1, ())


def test_a_change_to_what_it_is_already_is_none() -> None:
    process = canceled()
    change(process)
    process.transport.take()
    assert change(process).is_change is False
    assert (job_of(process).revision, process.sent()) == (1, [])


def test_the_message_that_a_party_cannot_take_yet_is_told_again() -> None:
    process = canceled()
    process.answer(K.STATUS)
    change(process)
    [sent] = process.transport.posted
    process.answer(K.PARAMETERS, Answer(NOT_EFFECTIVE, "still ends", {STILL_ENDS: True}))
    process.scheduler.poll()
    assert [one.id for one in process.transport.posted] == [sent.id]


def test_what_succeeded_runs_again_when_its_parameters_are_others_and_what_needs_it_too() -> None:
    process = of_one_party({"a": made("t"), "b": made("u")})
    assert job_of(process).status is JobStatus.SUCCESS
    change(process, Change({}, {"common": {"b": {"x": 1}}}))
    begun_again(process)
    orders = process.server.engine.launched
    assert [(one.worker.task.name, one.worker.task.version) for one in orders[2:]] == [("b", 1)]
    assert orders[-1].parameters == {"x": 1}
    end_task(process, "b", FAILED, 1)
    begun_again(process)                        # the change is taken up once
    assert [(one.worker.task.name, one.worker.task.version) for one in orders[3:]] == [("b", 2)]


def test_with_more_cores_alone_what_succeeded_is_kept_and_the_rerun_reserves_them() -> None:
    process = of_one_party({"a": made("t"), "b": FAILED})
    change(process, Change({"common": {"task_cores": 5}}, {}))
    begun_again(process)
    assert process.server.engine.launched[-1].worker.task.name == "b"
    assert process.server.engine.launched[-1].task_cores == 5
    assert job_of(process).claim.cores == 5


def waiting(joins: Answer | None = None) -> Process:
    """A job that the host has no capacity for."""
    process = chosen(HandServer("9999"))
    submit(process, document=DOCUMENT, accept=False)
    process.answer(K.CREATE, joins or Answer(data={"extensions": {}}))
    process.answer(K.STATUS)
    for kind in (K.CHECK, K.APPLY) if joins is None else (K.CHECK,):
        process.answer(kind, Answer(NOT_READY, "on hold"))
    process.transport.take()
    assert job_of(process).status is JobStatus.WAITING
    return process


def test_a_job_that_waits_is_changed_and_has_its_reservation_round_with_the_revision() -> None:
    process = waiting()
    change(process)
    [sent] = process.transport.posted
    assert (job_of(process).revision, job_of(process).changed, sent.kind) == (1, (), K.PARAMETERS)
    process.answer(K.PARAMETERS)
    process.server.steady = 40_000
    process.seconds += 40
    process.scheduler.poll()
    [check] = process.transport.posted
    assert (check.kind, check.body["revision"]) == (K.CHECK, 1)


def test_a_job_that_waits_between_two_attempts_is_changed() -> None:
    document = job({"guest": ["9999"]}, {"a": [], "b": ["a"]}, cores=2, retries=1, retry_delay=60)
    process = of_one_party({"a": FAILED}, document)
    assert job_of(process).pauses
    change(process)
    row = job_of(process)
    assert (row.status, row.revision, row.pauses, row.asked.cores) == (JobStatus.WAITING, 1, True, 3)


def test_a_party_that_refuses_the_parameters_of_a_job_that_waits_ends_it() -> None:
    process = waiting()
    change(process)
    process.answer(K.PARAMETERS, Answer(103, "asks for too much"))
    process.scheduler.poll()
    row = job_of(process)
    assert (row.status, row.reason, row.message) == (
        JobStatus.FAILED, Reason.PARTY_REFUSED, "host 10000: asks for too much")


def test_the_refusal_of_a_party_whose_job_is_over_is_heard_with_the_rerun() -> None:
    process = canceled()
    process.answer(K.STATUS)
    change(process)
    process.answer(K.PARAMETERS, Answer(103, "asks for too much"))
    assert job_of(process).status is JobStatus.CANCELED
    begun_again(process)
    process.answer(K.STATUS, Answer(103, "asks for too much"))
    assert (job_of(process).reason, job_of(process).message) == (
        Reason.PARTY_REFUSED, "host 10000: asks for too much")


def test_a_plain_v1_party_is_told_before_the_rerun_and_can_refuse() -> None:
    process = chosen(HandServer("9999"))
    submit(process, document=DOCUMENT, accept=False)
    process.answer(K.CREATE, PLAIN_V1)
    Harness(process.server).use_cases.jobs.stop(JOB_ID)
    process.scheduler.poll()
    for kind in (K.STATUS, K.CHECK, K.STOP, K.TASK_STATUS, K.TASK_STATUS, K.STATUS):
        process.answer(kind)
    assert job_of(process).is_final
    change(process)
    process.answer(K.PARAMETERS)
    process.transport.take()
    begun_again(process)
    assert process.sent() == ["parameter/update", "task create", "task create", "status waiting"]
    process.answer(K.PARAMETERS, Answer(100, "no such thing"))
    assert (job_of(process).reason, job_of(process).message) == (Reason.PARTY_REFUSED, "host 10000: no such thing")


def running() -> HandServer:
    return of_one_party({}).server


def asking() -> HandServer:
    """Its job is in the middle of its turn."""
    process = chosen(HandServer("9999"))
    submit(process, document=DOCUMENT)
    return process.server


def reserved_early() -> HandServer:
    """Another party has reserved as it accepted the job, and the queue has not looked at it yet."""
    server = waiting().server
    with server.unit() as unit:
        [host] = [seat for seat in unit.tx.seats(JOB_ID) if seat.party != GUEST]
        assert unit.tx.move_seat(host, SeatStatus.HELD, "")
    return server


def rejoining() -> HandServer:
    """Its host has not heard that it begins again."""
    return begun_again(canceled()).server


def stopping() -> HandServer:
    """It is to end, and nobody has acted on that yet."""
    server = waiting().server
    with server.unit() as unit:
        unit.tx.request_stop(JobKey(JOB_ID, GUEST), Reason.STOPPED_BY_USER, "enough", unit.now, True, "guest 9999")
    return server


def keeping_a() -> HandServer:
    """Its job waits to run b again."""
    process = of_one_party({"a": made("t"), "b": FAILED}, job({"guest": ["9999"]}, {"a": [], "b": ["a"]}, cores=2))
    Harness(process.server).use_cases.queue.hold_intake("not now", "somebody")
    begun_again(process)
    assert job_of(process).status is JobStatus.WAITING
    return process.server


def strict_itself() -> HandServer:
    server = canceled().server
    server.context = replace(server.context, ceilings=Ceilings(task_cores=4))
    return server


NO_OBJECT = Change({}, {"common": {"a": 7}})
FIVE_CORES = Change({"common": {"task_cores": 5}}, {})


@pytest.mark.parametrize(
    ("server_of", "what", "base", "kind", "text"),
    [
        (running, CHANGE, 0, OperationFailed, "is running: the parameters of a job that waits or is over can be"),
        (asking, CHANGE, 0, OperationFailed, "asks for its cores just now"),
        (reserved_early, CHANGE, 0, OperationFailed, "asks for its cores just now"),
        (rejoining, CHANGE, 0, OperationFailed, "waits again, and not all of its parties have confirmed that yet"),
        (stopping, CHANGE, 0, OperationFailed, "is being stopped: flow job rerun begins it again"),
        (lambda: HandServer("9999"), CHANGE, 0, JobNotFound, "can not found job"),
        (lambda: a_host(*ENDED), CHANGE, 0, Conflict, f"change job {JOB_ID} at party 9999, its initiator"),
        (keeping_a, CHANGE, 0, OperationFailed, "component_parameters: a has succeeded, and this run"),
        (lambda: waiting(PLAIN_V1).server, CHANGE, 0, OperationFailed, "host 10000 speaks plain FATE v1"),
        (lambda: canceled().server, NO_OBJECT, 0, BadRequest, "component_parameters.common.a: 7 is not an object"),
        (lambda: canceled().server, CHANGE, 7, OperationFailed, "its parameters were changed meanwhile"),
        (strict_itself, FIVE_CORES, 0, Refused, "5 is more than 4"),
    ],
)  # fmt: skip
def test_what_cannot_be_changed_now_is_refused_and_stays(
    server_of: Callable[[], HandServer], what: Change, base: int, kind: type[Exception], text: str
) -> None:
    server = server_of()
    before, harness = server.snapshot(), Harness(server)
    with pytest.raises(kind) as caught:
        harness.use_cases.jobs.change_parameters(JOB_ID, what, base)
    assert text in str(caught.value)
    assert server.snapshot() == before


def test_a_refused_change_leaves_the_document_that_was_parsed() -> None:
    server = canceled().server
    with server.unit() as unit:
        with suppress(OperationFailed), unit.part():
            row = unit.tx.job(JobKey(JOB_ID, GUEST))
            unit.tx.revise(row, replace(row, revision=1), unit.tx.document(JOB_ID))
            assert unit.rebind(unit.binding(JOB_ID), "f" * 64, 1)
            raise OperationFailed("no")
        assert (unit.spec(JOB_ID) is not None, unit.binding(JOB_ID).revision) == (True, 0)


def test_a_seat_that_has_left_hears_of_it_too() -> None:
    process = canceled()
    process.answer(K.STATUS)
    assert seat(process, "10000").status is SeatStatus.LEFT
    change(process)
    process.answer(K.PARAMETERS)
    assert (process.sent(), seat(process, "10000").status) == ([], SeatStatus.LEFT)
