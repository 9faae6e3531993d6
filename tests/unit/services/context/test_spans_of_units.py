"""The spans of what is stored about a job: one for each move and each step, in the trace of the job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.metrics.spans import SpanId, span_of_job, span_of_worker
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus
from fate_flow.services.context.tracing import within
from fate_flow.services.scheduling.events import QueueChanged
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import RULES, chosen, running, submit
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import RUN, START_A, a_host, create
from tests.kit.services.sights import made
from tests.kit.services.two_seats import ARBITER, ROLES
from tests.kit.traces.kept import KeptSpans
from tests.kit.values import HOST, JOB_ID

TRACE, OTHER_TRACE = "4b" * 16, "5c" * 16
OF_COMMAND = SpanId(TRACE, "0a" * 8)


def traced(server: HandServer) -> KeptSpans:
    object.__setattr__(server.context, "spans", found := KeptSpans())
    return found


def test_the_seat_of_a_job_is_the_child_of_the_command_that_made_it_and_the_parent_of_what_follows() -> None:
    host = HandServer("10000")
    spans = traced(host)
    with within(OF_COMMAND):
        assert host.handle(replace(create(), trace=TRACE)).is_ok
    others = spans.found[1:]
    for one in (*RUN[1:], START_A):
        assert host.handle(one).is_ok

    seat = spans.named("job ready")
    assert (seat.id, seat.parent, seat.links) == (SpanId(TRACE, span_of_job(JOB_ID, "10000")), OF_COMMAND.span, ())
    assert seat.attributes == {
        "fate_flow.job.id": JOB_ID, "fate_flow.party.role": "host", "fate_flow.party.id": "10000"
    }  # fmt: skip
    later = spans.found[1 + len(others):]
    assert ({one.parent for one in others}, {one.parent for one in later}) == ({OF_COMMAND.span}, {seat.id.span})
    assert {one.id.trace for one in spans.found} == {TRACE}
    assert len({one.id.span for one in spans.found}) == len(spans.found)
    assert {"job waiting", "job running", "worker started"} <= {one.name for one in later}


def test_of_two_seats_of_a_party_which_come_one_by_one_the_first_has_the_known_id() -> None:
    host = HandServer("10000")
    spans = traced(host)
    for seat in (HOST, ARBITER):
        assert host.handle(replace(create(seat, job(ROLES, {"a": []})), trace=TRACE)).is_ok
    first, second = (one for one in spans.found if one.name == "job ready")
    assert [one.attributes["fate_flow.party.role"] for one in (first, second)] == ["host", "arbiter"]
    assert (first.id.span, second.parent) == (span_of_job(JOB_ID, "10000"), first.id.span)
    assert len({one.id.span for one in spans.found}) == len(spans.found)


def test_a_worker_has_the_span_that_its_environment_names_and_its_end_leads_back_there() -> None:
    host = a_host(replace(RUN[0], trace=TRACE), *RUN[1:])
    spans = traced(host)
    assert host.handle(START_A).is_ok
    with host.store.reading() as tx:
        [worker] = tx.unfinished_workers()
    begun = spans.named("worker started")
    assert begun.id.span == span_of_worker(worker.worker_id) == worker.worker_id[:16]
    assert begun.attributes.items() >= {"fate_flow.task.name": "a", "fate_flow.task.version": 0}.items()
    host.engine.sights[worker.worker_id] = made("t")
    host.watch()
    end = spans.named("worker ended")
    assert (end.links, end.parent) == ((begun.id,), begun.parent)
    assert end.attributes["fate_flow.reason"] == Reason.DONE.value


def test_a_request_of_another_trace_is_linked() -> None:
    host = a_host(replace(RUN[0], trace=TRACE), *RUN[1:])
    spans, of_stop = traced(host), SpanId(OTHER_TRACE, "0b" * 8)
    with within(of_stop), host.unit() as unit:
        unit.moves(HistoryLevel.JOB, JOB_ID, JobStatus.RUNNING, JobStatus.STOPPING, party=HOST, reason=Reason.STOPPED)
    [span] = spans.found
    assert (span.id.trace, span.parent, span.links) == (TRACE, span_of_job(JOB_ID, "10000"), (of_stop,))
    assert span.attributes["fate_flow.reason"] == Reason.STOPPED.value


def test_each_command_of_a_request_has_what_was_done_for_it() -> None:
    host = HandServer("10000")
    spans, others = traced(host), (SpanId(TRACE, "0c" * 8), SpanId("", "0d" * 8), SpanId(TRACE, "0e" * 8))
    made, joined = replace(create(), trace=TRACE), RUN[1]
    commands = Harness(host).use_cases.commands
    with within(*others):
        answers = commands.carry_out([made, replace(joined, job_id="20990101000000000001"), joined], "9999")
    assert [one.is_ok for one in answers] == [True, False, True]
    assert (spans.named("job ready").parent, spans.named("job waiting").parent) == (others[0].span, others[2].span)


def test_the_rounds_of_a_reservation_have_spans_and_what_comes_of_them() -> None:
    process = chosen(HandServer("9999", rules=RULES))
    spans = traced(process.server)
    running(process)
    names = [one.name for one in spans.found if one.name.startswith("reservation")]
    assert names == ["reservation round begun", "reservation round: reserved"]
    assert {"seat applying", "seat held", "job running"} <= {one.name for one in spans.found}


def test_a_round_that_finds_no_cores_says_so() -> None:
    process = chosen(HandServer("9999", rules=RULES))
    submit(process)
    spans = traced(process.server)
    process.scheduler.step([QueueChanged()])
    process.answer(K.CHECK)
    process.answer(K.APPLY, Answer(103, "failed", {"why": "has 1 of 8 cores free, 2 asked", "free_cores": 1}))
    assert spans.named("reservation round: not reserved").id.trace


def test_what_is_undone_has_no_span() -> None:
    host = a_host(*RUN)
    spans = traced(host)

    def fails() -> None:
        with host.unit() as unit:
            unit.moves(HistoryLevel.JOB, JOB_ID, JobStatus.RUNNING, JobStatus.STOPPING, party=HOST)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fails()
    assert spans.found == []


def test_texts_and_models_are_in_no_span() -> None:
    host = a_host(*RUN)
    spans = traced(host)
    with host.unit() as unit:
        unit.moves(HistoryLevel.MODEL, JOB_ID, None, JobStatus.SUCCESS, party=HOST, message="a digest")
        unit.moves(HistoryLevel.JOB, JOB_ID, JobStatus.RUNNING, JobStatus.RUNNING, party=HOST, message="parameters")
        unit.moves(HistoryLevel.JOB, JOB_ID, JobStatus.RUNNING, JobStatus.STOPPING, party=HOST, message="table x.y")
    [span] = spans.found
    assert "table" not in repr(span)


def test_a_span_lasts_from_the_begin_of_its_transaction_to_its_commit() -> None:
    host = a_host(*RUN[:1])
    spans = traced(host)
    assert host.handle(RUN[1]).is_ok
    span = spans.named("job waiting")
    assert span.begun == host.now * 1_000_000 <= span.ended
