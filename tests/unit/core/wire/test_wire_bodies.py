"""Bodies of commands between parties: the bytes that are sent, and that they are read as they were meant.

The texts are those that released servers send and understand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.model.document import JobDocument, fate_v1_document
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.job import Command, CommandKind, JobKey, TaskKey
from fate_flow.core.model.reasons import Author, Reason, job_status_for, may_say, task_status_for
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, TASK_END, JobStatus
from fate_flow.core.wire.v1.endings import JobEnd, TaskEnd, job_end_in, read_job_end, read_task_end
from fate_flow.core.wire.v1.envelope import to_json
from fate_flow.core.wire.v1.initiator_bodies import (
    WHOLE_PIPELINE,
    RerunRequest,
    StopRequest,
    capacity_body,
    read_capacity,
    read_rerun,
    read_stop_request,
    seat_in,
)
from fate_flow.core.wire.v1.job_answers import PlaceState, places_data, places_in, short_at_in
from fate_flow.core.wire.v1.job_bodies import (
    Create,
    End,
    LastRun,
    NewTask,
    NextRun,
    Parameters,
    Return,
    RoundBody,
    Stop,
    adds_tasks,
    align_body,
    incarnations_in,
    parameters_in,
    progress_body,
    progress_in,
    read_create,
    read_end,
    read_kept,
    read_last_run,
    read_new_tasks,
    read_parameters,
    read_return,
    read_round,
    read_stop,
)
from fate_flow.core.wire.v1.queries import wants_call_back
from fate_flow.core.wire.v1.task_bodies import (
    TaskCreate,
    TaskRow,
    TaskStop,
    incarnation_in,
    is_other_incarnation,
    of_incarnation,
    read_task_create,
    read_task_stop,
    start_body,
    without_in,
)
from tests.kit.values import GUEST, HOST, INCARNATION, JOB_ID, OTHER

SEAT = JobKey(JOB_ID, HOST)
KEY = TaskKey(JOB_ID, "a", 0, HOST)
EXTENSIONS = '{"batch":1,"lease":1,"incarnation":1,"exchange":1,"stopping":1,"room":1,"document":1,"disclosure":1}'
PARTIES = (GUEST, HOST, OTHER)
KNOWN = ("fate_v1", "other")


def create_body(document: JobDocument, dsl: dict[str, Any], conf: dict[str, Any]) -> dict[str, Any]:
    return Create(document, "n", "d", {"a": INCARNATION}).as_body(JOB_ID, GUEST, {"guest": [9999]}, dsl, conf)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            create_body(fate_v1_document({"a": 1}, {"b": 2}), {"a": 1}, {"b": 2}),
            f'{{"job_id":"{JOB_ID}","name":"n","description":"d","dsl":{{"a":1}},"runtime_conf":{{"b":2}},'
            '"train_runtime_conf":{},"roles":{"guest":[9999]},"initiator_role":"guest","initiator_party_id":"9999",'
            f'"extensions":{EXTENSIONS},"incarnations":{{"a":"{INCARNATION}"}},"call_back":true}}',
        ),
        (
            create_body(JobDocument("other", {"tasks": 1}, {"task_cores": 2}), {"a": 1}, {"b": 2}),
            f'{{"job_id":"{JOB_ID}","name":"n","description":"d","dsl":{{"a":1}},"runtime_conf":{{"b":2}},'
            '"train_runtime_conf":{},"roles":{"guest":[9999]},"initiator_role":"guest","initiator_party_id":"9999",'
            f'"extensions":{EXTENSIONS},"incarnations":{{"a":"{INCARNATION}"}},"call_back":true,'
            '"document":{"format":"other","body":{"tasks":1},"defaults":{"task_cores":2}}}',
        ),
        (RoundBody(2, 4_000).as_body(), '{"turn":2,"order":4000}'),
        (RoundBody(2, 0, 1).as_body(), '{"turn":2,"order":0,"revision":1}'),
        (RoundBody(2).as_body(), '{"turn":2}'),
        (RoundBody(2, is_applied_for=True).as_body(), '{"turn":2,"is_applied_for":true}'),
        (Return(1, still_wants=False).as_body(), '{"turn":1,"still_wants":false}'),
        (End(JobEnd(Reason.DONE)).as_body(), '{"reason":"done","message":""}'),
        (
            End(JobEnd(Reason.TASK_FAILED, "m", "host 10000", 3), missing=("host 10001",)).as_body(),
            '{"reason":"task_failed","message":"m","caused_by":"host 10000","exit_code":3,"missing":["host 10001"]}',
        ),
        (
            End(JobEnd(Reason.PARTY_REFUSED, "m"), is_submit_failed=True).as_body(),
            '{"reason":"party_refused","message":"m","tag":"submit_failed"}',
        ),
        (JobEnd(None, "m").as_body(), '{"reason":null,"message":"m","caused_by":""}'),
        (
            Stop(JobEnd(Reason.JOB_TIMEOUT, "m", "guest 9999", 1), 60.0).as_body(),
            '{"reason":"job_timeout","message":"m","deadline_seconds":60.0,"caused_by":"guest 9999","exit_code":1}',
        ),
        (Stop(JobEnd(Reason.STOPPED)).as_body(), '{"reason":"stopped","message":"","deadline_seconds":null}'),
        (
            NextRun(
                {"a": NewTask(1, INCARNATION, 2)}, {"b": 0},
                LastRun(JobStatus.FAILED, JobEnd(Reason.TASK_FAILED, "m", "host 10000", 1)), {"revision": 1},
            ).as_body(),
            f'{{"tasks":{{"a":{{"version":1,"incarnation":"{INCARNATION}","auto_retries":2}}}},"kept":{{"b":0}},'
            '"last":{"status":"failed","reason":"task_failed","message":"m","caused_by":"host 10000","exit_code":1},'
            '"parameters":{"revision":1}}',
        ),
        (NextRun({}, {}).as_body(), '{"tasks":{},"kept":{}}'),
        (Parameters({"x": {}}, ("a",), 1).as_body(), '{"x":{},"components":["a"],"revision":1}'),
        (progress_body(40), '{"progress":40}'),
        (align_body(SEAT), f'{{"job_id":"{JOB_ID}","role":"host","party_id":"10000"}}'),
        (
            TaskCreate(INCARNATION, 1, Reason.WORKER_ERROR, "m", "host 10000").as_body(),
            f'{{"incarnation":"{INCARNATION}","auto_retries":1,"reason":"worker_error","message":"m",'
            '"caused_by":"host 10000"}',
        ),
        (
            TaskCreate(INCARNATION).as_body(),
            f'{{"incarnation":"{INCARNATION}","auto_retries":0,"message":"","caused_by":""}}',
        ),
        (
            TaskCreate(INCARNATION, 1).as_plain_v1(TaskRow(KEY, 1, GUEST, "MULTIPLE", "PUSH")),
            f'{{"incarnation":"{INCARNATION}","auto_retries":1,"job_id":"{JOB_ID}","component_name":"a",'
            f'"task_id":"{JOB_ID}_a","task_version":1,"role":"host","party_id":"10000","initiator_role":"guest",'
            '"initiator_party_id":"9999","federated_mode":"MULTIPLE","federated_status_collect_type":"PUSH",'
            '"status":"waiting","party_status":"waiting","run_on_this_party":true,"auto_retry_delay":0}',
        ),
        (of_incarnation("ab", start_body([OTHER, HOST])), '{"incarnation":"ab","without":["host 10000","host 10001"]}'),
        (of_incarnation("ab", start_body([])), '{"incarnation":"ab"}'),
        (
            of_incarnation("ab", TaskEnd(Reason.WORKER_ERROR, "m", "host 10000", 1).as_body()),
            '{"incarnation":"ab","reason":"worker_error","message":"m","caused_by":"host 10000","exit_code":1}',
        ),
        (TaskStop("host 10000", begins_again=True).as_body(), '{"caused_by":"host 10000","begins_again":true}'),
        (TaskStop(is_passed_over=True).as_body(), '{"reason":"party_missing"}'),
        (TaskStop().as_body(), "{}"),
        (StopRequest(now=True).as_body(), '{"now":true}'),
        (StopRequest().as_body(), "{}"),
        (StopRequest(reason=Reason.PARTY_REVOKED, message="m").as_body(), '{"reason":"party_revoked","message":"m"}'),
        (capacity_body(HOST, 4), '{"role":"host","party_id":"10000","free_cores":4}'),
    (capacity_body(HOST, 4, {"a1": PlaceState(2, 4)}),
     '{"role":"host","party_id":"10000","free_cores":4,"places":{"a1":{"asked":2,"free":4}}}'),
    ],
)  # fmt: skip
def test_the_bytes_on_the_wire(body: object, text: str) -> None:
    assert to_json(body) == text


def sent(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that the other server gets."""
    return json.loads(to_json(body))


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=20)
COUNTS = st.integers(0, 2**31 - 1)
CONF = st.dictionaries(TEXT, st.none() | TEXT | st.integers(), max_size=3)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)
INCARNATIONS = st.from_regex(r"[0-9a-f]{8,64}", fullmatch=True)
CAUSES = st.sampled_from(["", *map(str, PARTIES)])
CODES = st.none() | st.integers(0, 255)
JOB_ENDS = st.builds(
    JobEnd, st.sampled_from([one for one in Reason if may_say(Author.INITIATOR, one) and one is not Reason.NOT_NEEDED]),
    TEXT, CAUSES, CODES,
)  # fmt: skip
TASK_ENDS = st.builds(
    TaskEnd, st.sampled_from([one for one in Reason if task_status_for(one) in TASK_END]), TEXT, CAUSES, CODES
)


def status_of(end: JobEnd) -> JobStatus:
    assert end.reason is not None
    return job_status_for(end.reason)


@given(CONF, CONF, TEXT, TEXT, st.dictionaries(NAMES, INCARNATIONS, max_size=3), COUNTS)
def test_a_create_is_read_as_it_was_sent(
    dsl: dict[str, Any], conf: dict[str, Any], name: str, description: str, known: dict[str, str], revision: int
) -> None:
    create = Create(fate_v1_document(dsl, conf), name, description, known, revision)
    body = sent(create.as_body(JOB_ID, GUEST, {}, dsl, conf))
    found = read_create(body, KNOWN)
    assert found == create
    assert incarnations_in(found, list(known)) == known
    assert wants_call_back(body)


@given(CONF, CONF, CONF)
def test_a_document_of_a_known_format_is_all_that_is_read(
    body: dict[str, Any], defaults: dict[str, Any], other: dict[str, Any]
) -> None:
    document = JobDocument("other", body, defaults)
    assert read_create(sent(create_body(document, other, other)), KNOWN).document == document
    assert read_create({"document": asdict(document)}, KNOWN).document == document      # nothing else is looked at


def test_a_party_that_does_not_know_the_format_reads_the_documents_of_fate() -> None:
    body = create_body(JobDocument("other", {"x": 1}), {"a": 1}, {"b": 2})
    assert read_create(body, ("fate_v1",)).document == fate_v1_document({"a": 1}, {"b": 2})
    with pytest.raises(BadRequest, match="dsl: is missing"):
        read_create({"document": body["document"]}, ("fate_v1",))


@pytest.mark.parametrize(("given", "problem"), [
    ([], "document: is not an object with a format"), ({"format": 7}, "document: is not an object with a format"),
    ({"format": "fate_v1", "body": {}, "defaults": {}}, "document.format: a document of fate_v1 is sent as dsl and"),
    ({"format": "other", "body": [], "defaults": {}}, "document.body: is missing or is not an object"),
    ({"format": "other", "body": {}}, "document.defaults: is missing or is not an object"),
])  # fmt: skip
def test_a_wrong_document_is_refused_whatever_is_beside_it(given: object, problem: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(problem)):
        read_create({"dsl": {}, "runtime_conf": {}, "document": given}, KNOWN)


@pytest.mark.parametrize("key", ["dsl", "runtime_conf"])
@pytest.mark.parametrize("value", [None, [], "x", 7])
def test_a_create_without_a_document_is_refused(key: str, value: object) -> None:
    with pytest.raises(BadRequest, match=f"{key}: is missing or is not an object"):
        read_create({"dsl": {}, "runtime_conf": {}, key: value}, KNOWN)


def test_a_create_of_plain_v1_has_neither_extensions_nor_incarnations() -> None:
    found = read_create({"dsl": {}, "runtime_conf": {}, "incarnations": ["x"]}, KNOWN)
    assert found == Create(fate_v1_document({}, {}), is_plain_v1=True)


@pytest.mark.parametrize("given_id", ["../../x", 7, "AB" * 16])
def test_an_incarnation_of_another_form_is_refused(given_id: object) -> None:
    create = read_create({"dsl": {}, "runtime_conf": {}, "incarnations": {"a": given_id}}, KNOWN)
    assert incarnations_in(create, ["b"]) == {}
    with pytest.raises(BadRequest, match=r"incarnations\.a: "):
        incarnations_in(create, ["a"])


@given(COUNTS, st.none() | st.integers(-(2**62), 2**62), COUNTS, st.booleans())
def test_a_round_is_read_as_it_was_sent(number: int, order: int | None, revision: int, is_applied_for: bool) -> None:
    body = RoundBody(number, order, revision, is_applied_for)
    assert read_round(sent(body.as_body())) == body


def test_plain_v1_names_no_round() -> None:
    assert read_round({}) == RoundBody()
    assert read_return({}) == Return()


@given(COUNTS, st.none() | st.booleans())
def test_a_return_is_read_as_it_was_sent(number: int, still_wants: bool | None) -> None:
    body = Return(number, still_wants)
    assert read_return(sent(body.as_body())) == body


@given(JOB_ENDS, st.booleans(), st.sets(st.sampled_from(PARTIES)))
def test_an_end_is_read_as_it_was_sent(end: JobEnd, is_submit_failed: bool, missing: set[Party]) -> None:
    body = End(end, is_submit_failed, tuple(str(one) for one in sorted(missing)))
    assert read_end(sent(body.as_body()), status_of(end), PARTIES) == body
    assert read_job_end(sent(end.as_body()), status_of(end)) == end


@given(JOB_ENDS, st.none() | st.floats(0, 1e8))
def test_a_stop_is_read_as_it_was_sent(end: JobEnd, deadline: float | None) -> None:
    body = Stop(end, deadline)
    assert read_stop(sent(body.as_body()), status_of(end)) == body


@pytest.mark.parametrize("status", sorted(JOB_END, key=str))
@pytest.mark.parametrize("reason", [None, "nonsense", ["x"], "worker_error", "not_needed"])
def test_an_end_without_a_fitting_reason_has_that_of_its_status(status: JobStatus, reason: object) -> None:
    strange = {"message": 7, "caused_by": "nobody", "exit_code": 256, "missing": "host", "tag": "job_end"}
    found = read_end({"reason": reason, **strange}, status, PARTIES)
    assert status_of(found.end) is status
    assert found == End(JobEnd(found.end.reason))


@given(
    st.dictionaries(NAMES, st.builds(NewTask, COUNTS, INCARNATIONS, COUNTS), max_size=3),
    st.none() | st.dictionaries(NAMES, COUNTS, max_size=3),
    st.none() | JOB_ENDS,
    st.none() | CONF,
)
def test_a_next_run_is_read_as_it_was_sent(
    tasks: dict[str, NewTask], kept: dict[str, int] | None, end: JobEnd | None, parameters: dict[str, Any] | None
) -> None:
    last = None if end is None else LastRun(status_of(end), end)
    body = sent(NextRun(tasks, kept, last, parameters).as_body())
    assert read_new_tasks(body, SEAT, [*tasks]) == tasks
    assert adds_tasks(body) == bool(tasks)
    assert read_kept(body, [*(kept or {}), "z" * 20]) == (kept or {})
    assert parameters_in(body) == parameters
    canceled = LastRun(JobStatus.CANCELED, JobEnd(Reason.STOPPED))
    assert read_last_run(body) == (canceled if last is None else last)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"tasks": {"a": 7}}, f"tasks.a: is not a component of job {JOB_ID} on host 10000"),
        ({"tasks": {"x": {}}}, f"tasks.x: is not a component of job {JOB_ID} on host 10000"),
        ({"tasks": {"a": {"version": -1}}}, "tasks.a.version: -1 is not a whole number"),
        ({"tasks": {"a": {"version": 1, "incarnation": "../x"}}}, "tasks.a.incarnation: '../x' is not an incarnation"),
        ({"tasks": {"a": {"version": 1, "incarnation": INCARNATION}}}, "tasks.a.auto_retries: null is not a whole"),
        ({"kept": {"a": "x"}}, "kept.a: 'x' is not a whole number"),
        ({"last": {"status": "waiting"}}, "last.status: 'waiting' is not one of canceled, failed, success, timeout"),
        ({"turn": [1]}, "turn: a list is not a whole number"),
        ({"turn": 2**31}, f"turn: {2**31} is not a whole number"),
        ({"order": 1.5}, "order: 1.5 is not a whole number from -4611686018427387904 to 4611686018427387904"),
        ({"order": True}, "order: true is not a whole number"),
        ({"revision": -1}, "revision: -1 is not a whole number"),
        ({"deadline_seconds": "3"}, r"deadline_seconds: '3' is not a number of seconds from 0 to 1e\+09"),
        ({"deadline_seconds": float("nan")}, "deadline_seconds: nan is not a number"),
        ({"incarnation": 5}, "incarnation: 5 is not an incarnation"),
        ({"auto_retries": -1}, "auto_retries: -1 is not a whole number"),
        ({"job_parameters": None}, "job_parameters: null is not an object"),
    ],
)
def test_a_malformed_body_is_refused_with_the_field(body: dict[str, Any], text: str) -> None:
    def read_all() -> None:
        read_new_tasks(body, SEAT, ["a"])
        read_kept(body, ["a"])
        read_last_run(body)
        read_round(body)
        read_return(body)
        read_stop(body, JobStatus.FAILED)
        read_task_create(body)
        read_parameters({"job_parameters": {}, "component_parameters": {}, **body})

    with pytest.raises(BadRequest, match=text):
        read_all()


@given(CONF, CONF, st.lists(NAMES, max_size=3), st.none() | COUNTS)
def test_parameters_are_read_as_they_were_sent(
    of_job: dict[str, Any], of_components: dict[str, Any], names: list[str], revision: int | None
) -> None:
    body = Parameters({"job_parameters": of_job, "component_parameters": of_components}, tuple(names), revision)
    assert read_parameters(sent(body.as_body())) == body


@given(st.integers(0, 100))
def test_progress_is_read_as_it_was_sent(percent: int) -> None:
    assert progress_in(sent(progress_body(percent))) == percent


@pytest.mark.parametrize(("progress", "found"), [(400, 100), (-5, 0), ("40", None), (None, None)])
def test_progress_out_of_range_is_taken_to_its_limit(progress: object, found: int | None) -> None:
    assert progress_in({"progress": progress}) == found


@pytest.mark.parametrize("text", ["", "Success", "ready", "nonsense"])
def test_a_status_that_is_no_end_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match=f"stop_status: '{text}' is not one of canceled, failed, success, timeout"):
        job_end_in(text, "stop_status")


@given(st.builds(TaskCreate, INCARNATIONS, COUNTS, st.none() | st.sampled_from(Reason), TEXT, CAUSES))
def test_a_new_version_is_read_as_it_was_sent(create: TaskCreate) -> None:
    assert read_task_create(sent(create.as_body())) == create
    found = read_task_create(sent(create.as_plain_v1(TaskRow(KEY, 1, GUEST, "MULTIPLE", "PUSH"))))
    assert found == TaskCreate(create.incarnation, create.auto_retries)


@given(st.sets(st.sampled_from(PARTIES)), INCARNATIONS)
def test_a_start_is_read_as_it_was_sent(without: set[Party], incarnation: str) -> None:
    body = sent(of_incarnation(incarnation, start_body(without)))
    assert without_in(body, PARTIES) == tuple(str(one) for one in sorted(without))
    assert not is_other_incarnation(body, incarnation)
    assert incarnation_in(body) == incarnation
    assert is_other_incarnation(body, "another")
    assert not is_other_incarnation({}, "another")


@given(TASK_ENDS)
def test_the_end_of_a_task_is_read_as_it_was_sent(end: TaskEnd) -> None:
    assert read_task_end(sent(end.as_body()), task_status_for(end.reason)) == end
    assert end.as_plain_v1() == {}


def test_the_end_of_a_task_without_a_fitting_reason_has_that_of_its_status() -> None:
    body = {"reason": "done", "message": "m", "caused_by": "host 10000", "exit_code": 1}
    assert read_task_end(body, task_status_for(Reason.WORKER_ERROR)) == TaskEnd(Reason.WORKER_ERROR)


@given(st.builds(TaskStop, CAUSES, st.booleans(), st.booleans()))
def test_the_stop_of_a_task_is_read_as_it_was_sent(stop: TaskStop) -> None:
    assert read_task_stop(sent(stop.as_body())) == stop


@given(st.booleans(), st.sampled_from([(None, ""), (Reason.PARTY_REVOKED, "contract 7 has ended")]), COUNTS)
def test_what_a_party_sends_to_the_initiator_is_read_as_it_was_sent(
    now: bool, why: tuple[Reason | None, str], cores: int
) -> None:
    asked = StopRequest(now, *why)
    assert read_stop_request(sent(asked.as_body()), "canceled") == asked
    body = sent(capacity_body(HOST, cores))
    assert read_capacity(body) == cores
    assert seat_in(Command(CommandKind.CAPACITY, JOB_ID, GUEST, body=body)) == HOST
    assert seat_in(Command(CommandKind.ASK_STOP, JOB_ID, GUEST, body=body)) == GUEST


@pytest.mark.parametrize(
    ("said", "status"),
    [("party_revoked", "failed"), ("stopped_by_policy", "canceled"), ("unheard_of", "canceled"), (["x"], "canceled")],
)
def test_a_stop_that_gives_a_reason_which_it_may_not_give_gives_none(said: object, status: str) -> None:
    assert read_stop_request({"reason": said, "message": "m", "now": True}, status) == StopRequest(now=True)


@pytest.mark.parametrize("cores", [None, "4", -1, True, 2**31])
def test_a_capacity_notice_without_a_count_is_refused(cores: object) -> None:
    with pytest.raises(BadRequest, match=r"free_cores: .* is not a number of cores"):
        read_capacity({"free_cores": cores})


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({}, RerunRequest()), ({"component_name": "pipeline", "force": False}, RerunRequest()),
        ({"component_name": None}, RerunRequest()),
        ({"component_name": "a", "force": True}, RerunRequest("a", force=True)),
        ({"force": True}, RerunRequest(force=True)),
    ],
)  # fmt: skip
def test_what_a_client_or_a_party_wants_of_a_rerun(body: dict[str, Any], wanted: RerunRequest) -> None:
    assert read_rerun(body) == wanted


@pytest.mark.parametrize(
    ("body", "text"), [({"force": "yes"}, "force: 'yes' is neither"), ({"component_name": 7}, "component_name: 7")]
)
def test_a_request_for_a_rerun_that_is_none(body: dict[str, Any], text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        read_rerun(body)


@given(st.builds(RerunRequest, st.just("") | NAMES.filter(lambda name: name != WHOLE_PIPELINE), st.booleans()))
def test_a_request_for_a_rerun_is_read_as_it_was_sent(request: RerunRequest) -> None:
    assert read_rerun(sent(request.as_body(JOB_ID))) == request


@pytest.mark.parametrize("places", [
    None, [], "a1", {"a1": 4}, {"a1": {"asked": 2}}, {"a1": {"asked": True, "free": 1}},
    {"a1": {"asked": -1, "free": 1}},
    {"": {"asked": 1, "free": 1}}, {"a b": {"asked": 1, "free": 1}}, {"a" * 21: {"asked": 1, "free": 1}},
    {f"a{number}": {"asked": 1, "free": 1} for number in range(101)},
])  # fmt: skip
def test_engines_of_another_party_that_do_not_fit_are_left_out(places: Any) -> None:
    assert places_in({"places": places}) == {}


def test_engines_of_another_party_have_tags() -> None:
    stated = {"a1": PlaceState(2, 4), "b2": PlaceState(0, 0)}
    data = places_data(stated, "b2")
    assert (places_in(data), short_at_in(data)) == (stated, "b2")
    assert (places_data({}), short_at_in({"short_at": 7}), short_at_in(None)) == ({}, "", "")
