"""Participants of a job ask each other which document it has, and end it where it is another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.access.bound_document import BoundDocument, document_name
from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.wire.v1.comparison import comparison_body, comparison_data, no_seat_data
from fate_flow.records.operator_log.events import Event
from fate_flow.services.participant.comparison import is_to_compare_again, take_comparison
from fate_flow.services.scheduling.events import Answered
from tests.kit.job_documents import job
from tests.kit.services.hand_initiator import accepted
from tests.kit.services.hand_scheduler import chosen
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import ENDED, HOLD, RUN, START_A, a_host, command, create
from tests.kit.values import GUEST, HOST, JOB_ID

K = CommandKind
OTHER, ARBITER = Party("host", "10001"), Party("arbiter", "10000")
OF_THREE = job({"guest": ["9999"], "host": ["10000", "10001"]}, {"a": [], "b": ["a"]}, cores=2)
ANOTHER = document_name("fate_v1", "ab" * 32)
CREATE = create(document=OF_THREE)
WAITS = (CREATE, *HOLD[1:])
RUNS = (CREATE, *RUN[1:])
IS_OVER = (CREATE, *ENDED[1:])


def asked_by(host: HandServer) -> list[Command]:
    return [one for one in host.outbox() if one.kind is K.COMPARE]


def own_name(host: HandServer) -> str:
    with host.store.reading() as tx:
        return document_name("fate_v1", tx.binding(JOB_ID).digest)


def ask(host: HandServer, name: str, revision: int = 0, caller: Party = OTHER, **question: Any) -> Answer:
    body = comparison_body(caller, BoundDocument(name, revision, True))
    return host.handle(Command(K.COMPARE, JOB_ID, HOST, 0, body={**body, **question}), OTHER.party_id)


def hear(host: HandServer, answer: Answer) -> None:
    question = next(iter(asked_by(host)))
    with host.unit() as unit:
        take_comparison(unit, question, answer)
        host.settle(unit)


def is_ended(host: HandServer) -> bool:
    """Whether the job has ended here because of another document, and its initiator was asked to end it."""
    found, asked = host.job(), [one for one in host.outbox() if one.kind is K.ASK_STOP]
    if found.reason is None:
        assert (asked, host.record.seen(Event.SERVER_WARNING)) == ([], [])
        return False
    assert (found.status, found.reason, found.caused_by) == (JobStatus.FAILED, Reason.OTHER_DOCUMENT, "guest 9999")
    assert (found.holds, host.free_cores(), host.task().status) == (False, 8, TaskStatus.CANCELED)
    [stop] = asked
    assert (stop.to, stop.argument, stop.body) == (
        GUEST, "failed", {"reason": "other_document", "message": found.message})
    [warning] = host.record.seen(Event.SERVER_WARNING)
    assert warning["text"] == f"job {JOB_ID} of party 9999: {found.message}"
    return True


def not_compared(host: HandServer) -> list[object]:
    return [one["text"] for one in host.record.seen(Event.JOB_NOTE)]


# ---------------------------------------------------------------------- who asks whom


def test_a_participant_asks_each_other_one_when_the_job_begins_there() -> None:
    host = a_host(*WAITS)
    assert asked_by(host) == []
    host.handle(RUN[-1])
    [asked] = asked_by(host)
    says = BoundDocument(own_name(host), 0, True)
    assert (asked.to, asked.run, asked.body) == (OTHER, 0, comparison_body(HOST, says))
    host.handle(RUN[-1])
    assert len(asked_by(host)) == 1, "the start came again"


def test_in_a_job_of_two_parties_nobody_asks() -> None:
    assert asked_by(a_host(*RUN)) == []


def test_the_coordinator_asks_nobody_and_ends_nothing() -> None:
    guest = accepted()
    assert [one for one in guest.outbox() if one.kind is K.COMPARE] == []
    body = comparison_body(HOST, BoundDocument(ANOTHER, 0, True))
    answer = guest.handle(Command(K.COMPARE, JOB_ID, GUEST, 0, body=body), HOST.party_id)
    assert answer.is_ok
    assert guest.status is JobStatus.WAITING


def test_a_party_with_two_seats_asks_once() -> None:
    roles = {"guest": ["9999"], "host": ["10000", "10001"], "arbiter": ["10000"]}
    document = job(roles, {"a": [], "b": ["a"]})
    joined = (create(document=document), create(ARBITER, document), *RUN[1:])
    host = a_host(*joined)
    for one in RUN[1:]:
        assert host.handle(replace(one, to=ARBITER)).is_ok
    assert len(asked_by(host)) == 1


def test_a_party_without_a_route_is_not_asked_and_the_log_says_so() -> None:
    host = a_host(*WAITS)
    host.context = replace(host.context, routes=frozenset({"9999"}))
    host.handle(RUN[-1])
    assert asked_by(host) == []
    assert not_compared(host) == [
        f"the document of job {JOB_ID} was not compared with that of host 10001: party 10001 has no route here"]


def test_a_coordinator_that_speaks_plain_v1_keeps_nobody_from_comparing() -> None:
    plain = command(K.CREATE, dsl=OF_THREE.dsl, runtime_conf=OF_THREE.runtime_conf)
    host = a_host(plain)
    for one in (K.STATUS, K.APPLY, K.START):
        assert host.handle(command(one, argument="waiting" if one is K.STATUS else "")).is_ok
    assert [one.to for one in asked_by(host)] == [OTHER]


# ---------------------------------------------------------------------- who is asked


@pytest.mark.parametrize("commands", [WAITS, RUNS, (*RUNS, START_A)], ids=["waits", "runs", "has a worker"])
def test_a_question_with_another_document_ends_the_job(commands: tuple[Command, ...]) -> None:
    host = a_host(*commands)
    answer = ask(host, ANOTHER)
    assert answer.data["document"] == own_name(host)
    if commands[-1] is START_A:
        assert host.job().status is JobStatus.STOPPING
        assert host.job().target is JobStatus.FAILED
    else:
        assert is_ended(host)
    short = own_name(host).partition(":")[2][:12]
    assert host.job().message == (
        "the coordinator gave the two parties different documents: host 10001 runs abababababab, "
        f"host 10000 runs {short}")


def test_a_question_with_the_same_document_ends_nothing() -> None:
    host = a_host(*RUNS)
    answer = ask(host, own_name(host))
    assert answer == Answer(data=comparison_data(BoundDocument(own_name(host), 0, True)))
    assert not is_ended(host)


def test_a_question_of_an_earlier_revision_came_late() -> None:
    body = {"dsl": OF_THREE.dsl, "runtime_conf": OF_THREE.runtime_conf, "revision": 3}
    host = a_host(replace(CREATE, body={**CREATE.body, **body}), *RUN[1:])
    assert ask(host, ANOTHER, 2).is_ok
    assert not is_ended(host)
    assert ask(host, ANOTHER, 4).is_ok
    assert is_ended(host)


def test_an_ended_job_stays_as_it_is_and_the_log_has_a_warning() -> None:
    host = a_host(*IS_OVER)
    assert ask(host, ANOTHER).is_ok
    assert host.job().reason is Reason.TASK_FAILED
    assert [one.kind for one in host.outbox() if one.kind is K.ASK_STOP] == []
    assert len(host.record.seen(Event.SERVER_WARNING)) == 1


@pytest.mark.parametrize(("question", "retcode"), [
    ({"party_id": "9999"}, 108), ({"role": "x"}, 101), ({"revision": -1}, 101), ({"revision": None}, 101),
    ({"document": 3}, 101), ({"document": "fate_v1:AB"}, 101),
])  # fmt: skip
def test_a_wrong_question_changes_nothing(question: dict[str, Any], retcode: int) -> None:
    host = a_host(*RUNS)
    assert ask(host, ANOTHER, **question).retcode == retcode
    assert not is_ended(host)


def test_a_party_that_is_not_in_the_job_learns_no_digest() -> None:
    host = a_host(*RUN)
    assert ask(host, ANOTHER) == Answer(108, f"party 10001 has no seat in job {JOB_ID}", no_seat_data())
    assert not is_ended(host)
    assert ask(a_host(), ANOTHER).data == {"is_unknown": True}


def test_the_seat_in_the_question_may_be_that_of_another_document() -> None:
    """The coordinator may give this party another role there; the documents differ then, too."""
    host = a_host(*RUNS)
    body = comparison_body(OTHER, BoundDocument(ANOTHER, 0, True))
    assert host.handle(Command(K.COMPARE, JOB_ID, Party("guest", "10000"), 0, body=body), OTHER.party_id).is_ok
    assert is_ended(host)


# ---------------------------------------------------------------------- the answers


def answered(name: str, revision: int = 0, *, is_running: bool = True) -> Answer:
    return Answer(data=comparison_data(BoundDocument(name, revision, is_running)))


@pytest.mark.parametrize(("answer", "ends"), [
    (answered(ANOTHER), True),
    (answered(ANOTHER, is_running=False), True),
    (answered(ANOTHER, 1), True),
    (answered(ANOTHER, 1, is_running=False), False),
    (Answer(108, "party 10000 has no seat", no_seat_data()), True),
    (Answer(103, "unknown", {"is_unknown": True}), False),
    (Answer(UNREACHABLE, "no connection"), False),
    (Answer(404, "HTTP status 404"), False),
    (Answer(), False),
    (Answer(data={"document": ANOTHER, "revision": "x"}), False),
    (answered(""), False),
], ids=["another", "not yet", "both run", "changed later", "no seat", "unknown", "silence", "of FATE", "nothing",
        "malformed", "not compared"])  # fmt: skip
def test_what_follows_from_an_answer(answer: Answer, ends: bool) -> None:
    host = a_host(*RUNS)
    hear(host, answer)
    assert is_ended(host) == ends
    if ends:
        assert all(seat in host.job().message for seat in ("host 10000", "host 10001"))


@pytest.mark.parametrize(("commands", "answer", "is_again"), [
    (RUNS, answered(ANOTHER, 1, is_running=False), True),
    (RUNS, answered(ANOTHER, 1), False),
    (RUNS, answered(ANOTHER, is_running=False), False),
    (RUNS, Answer(UNREACHABLE, "refused"), False),
    (IS_OVER, answered(ANOTHER, 1, is_running=False), False),
], ids=["a later revision", "it runs", "the same revision", "no answer", "it is over here"])  # fmt: skip
def test_a_party_that_may_yet_begin_with_a_later_revision_is_asked_again(
    commands: tuple[Command, ...], answer: Answer, is_again: bool
) -> None:
    """It may not reach this one, so this one has to find out what it begins with."""
    host = a_host(*commands)
    with host.unit() as unit:
        assert is_to_compare_again(unit, next(iter(asked_by(host))), answer) is is_again


def test_it_is_asked_until_it_has_begun() -> None:
    host = a_host(*RUNS)
    process, [question] = chosen(host), asked_by(host)
    process.scheduler.step([Answered(question, answered(ANOTHER, 1, is_running=False))])
    assert asked_by(host) == [question]
    assert process.scheduler.seconds_to_alarm() is not None
    assert not is_ended(host)
    process.scheduler.step([Answered(question, answered(ANOTHER, 1))])
    assert is_ended(host)
    assert asked_by(host) == []


def test_the_log_says_whether_the_documents_were_compared() -> None:
    host = a_host(*RUNS)
    hear(host, answered(own_name(host)))
    hear(host, Answer(UNREACHABLE, "no connection"))
    assert not is_ended(host)
    assert not_compared(host) == [
        f"the document of job {JOB_ID} was compared with that of host 10001",
        f"the document of job {JOB_ID} was not compared with that of host 10001: it did not say: 104 no connection",
    ]


def test_an_answer_to_a_question_of_an_earlier_revision_counts_for_nothing() -> None:
    host = a_host(*RUNS)
    question = asked_by(host)[0]
    with host.unit() as unit:
        bound = unit.binding(JOB_ID)
        assert bound is not None
        assert unit.rebind(bound, bound.digest, 1)
        take_comparison(unit, question, answered(ANOTHER, 0))
    assert not is_ended(host)
