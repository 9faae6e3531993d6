"""Reports and the data of answers between parties: the bytes that are sent, and that they are read as they were meant.

The texts are those that released servers send and understand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.model.job import Report, Task, TaskKey
from fate_flow.core.model.reasons import Author, Reason, job_status_for, may_say, task_status_for
from fate_flow.core.model.status import TASK_END, JobStatus, TaskStatus
from fate_flow.core.wire.v1.endings import PLAIN_V1_REASONS, JobEnd
from fate_flow.core.wire.v1.envelope import to_json, values_in
from fate_flow.core.wire.v1.extensions import offers_extensions, speaks_plain_v1, understands_batches
from fate_flow.core.wire.v1.initiator_bodies import Standing, is_unknown, read_standing, unknown_data
from fate_flow.core.wire.v1.job_answers import (
    approval_in,
    approved_data,
    awaits_approval,
    awaits_data,
    ended_as_in,
    ended_data,
    free_cores_in,
    granted_data,
    is_never,
    is_rejected,
    joined_data,
    lease_in,
    left_data,
    missing_data,
    missing_in,
    no_capacity_data,
    not_run_in,
    refused_cores_in,
    rejected_data,
    still_ends,
    still_ends_data,
    why_in,
)
from fate_flow.core.wire.v1.queries import effective_in
from fate_flow.core.wire.v1.reports import read_report, report_of, reports_data, reports_in
from tests.kit.values import GUEST, HOST, INCARNATION, JOB_ID, OTHER

KEY = TaskKey(JOB_ID, "a", 1, HOST)
RUNNING = Task(KEY, TaskStatus.RUNNING, TaskStatus.STOPPING, runs_here=True, incarnation=INCARNATION, start_time=5)
FAILED = Task(
    KEY, TaskStatus.RUNNING, TaskStatus.FAILED, runs_here=True, incarnation=INCARNATION, reason=Reason.WORKER_ERROR,
    message="m", exit_code=3, caused_by="host 10000", start_time=5, end_time=9,
)  # fmt: skip
SHARE = (
    f'{{"job_id":"{JOB_ID}","component_name":"a","task_id":"{JOB_ID}_a","task_version":1,"role":"host",'
    '"party_id":"10000","status":"running",'
)
EXTENSIONS = '{"batch":1,"lease":1,"incarnation":1,"exchange":1,"stopping":1,"room":1,"document":1,"disclosure":1}'


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            report_of(RUNNING),
            f'{SHARE}"party_status":"stopping","incarnation":"{INCARNATION}","reason":null,"message":"",'
            '"error_report":"","exit_code":null,"caused_by":null,"start_time":5,"end_time":null,"elapsed":null}',
        ),
        (
            report_of(RUNNING, is_plain_v1=True),
            f'{SHARE}"party_status":"running","incarnation":"{INCARNATION}","reason":null,"message":"",'
            '"error_report":"","exit_code":null,"caused_by":null,"start_time":5,"end_time":null,"elapsed":null}',
        ),
        (
            report_of(FAILED, failed_workers=2),
            f'{SHARE}"party_status":"failed","incarnation":"{INCARNATION}","reason":"worker_error","message":"m",'
            '"error_report":"m","exit_code":3,"caused_by":"host 10000","start_time":5,"end_time":9,"elapsed":4,'
            '"failed_workers":2}',
        ),
        (reports_data([]), '{"tasks":[]}'),
        (
            joined_data({"a": True, "b": False}, 2, [{"key": "timeout"}], awaits_approval=True),
            f'{{"components":{{"a":{{"need_run":true}},"b":{{"need_run":false}}}},"extensions":{EXTENSIONS},"cores":2,'
            '"awaits":"approval","effective":[{"key":"timeout"}]}',
        ),
        (
            joined_data({}, 2, [], awaits_approval=False),
            f'{{"components":{{}},"extensions":{EXTENSIONS},"cores":2}}',
        ),
        (awaits_data(awaits_approval=True), '{"awaits":"approval"}'),
        (approved_data("approved by ann"), '{"approved":"approved by ann"}'),
        (rejected_data(), '{"is_rejected":true}'),
        (granted_data(2, 100, 6, 30.0), '{"cores":2,"memory":100,"remaining_cores":6,"lease_seconds":30.0}'),
        (no_capacity_data("has none"), '{"why":"has none"}'),
        (no_capacity_data("has 0 of 2", 0), '{"why":"has 0 of 2","free_cores":0}'),
        (no_capacity_data("has 0 of 2", 0, never=True), '{"why":"has 0 of 2","free_cores":0,"never":true}'),
        (left_data(4), '{"remaining_cores":4}'),
        (ended_data(left_data(4), "failed"), '{"remaining_cores":4,"ended_as":"failed"}'),
        (ended_data(None, "failed"), '{"ended_as":"failed"}'),
        (missing_data(["a"]), '{"lacks":["a"]}'),
        (still_ends_data(), '{"still_ends":true}'),
        (unknown_data(), '{"is_unknown":true}'),
        (Standing(1, JobStatus.WAITING).as_data(), '{"run":1,"status":"waiting"}'),
        (
            Standing(1, JobStatus.FAILED, JobEnd(Reason.TASK_FAILED, "m", "host 10000", 3)).as_data(),
            '{"run":1,"status":"failed","reason":"task_failed","message":"m","caused_by":"host 10000","exit_code":3}',
        ),
    ],
)  # fmt: skip
def test_the_bytes_on_the_wire(data: object, text: str) -> None:
    assert to_json(data) == text


def sent(data: Any) -> Any:
    """Return the data that the other server gets."""
    return json.loads(to_json(data))


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=20)
COUNTS = st.integers(0, 2**31 - 1)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)
CAUSES = st.sampled_from([str(one) for one in (GUEST, HOST, OTHER)])
TIMES = st.integers(0, 2**47 - 1)


@given(
    st.sampled_from([*TaskStatus]), st.sampled_from([None, *Reason]), TEXT, CAUSES, st.none() | st.integers(0, 255),
    TIMES, TIMES, st.integers(0, 1_000_000),
)  # fmt: skip
def test_a_report_is_read_as_it_was_sent(
    status: TaskStatus, reason: Reason | None, message: str, cause: str, code: int | None, start: int, end: int,
    failed: int,
) -> None:  # fmt: skip
    if status in TASK_END:
        reason = reason if reason is not None and task_status_for(reason) is status else PLAIN_V1_REASONS[status]
    elif status is not TaskStatus.STOPPING:
        reason = None
    task = Task(
        KEY, TaskStatus.RUNNING, status, runs_here=True, incarnation=INCARNATION, reason=reason, message=message,
        exit_code=code, caused_by=cause, start_time=start, end_time=end,
    )  # fmt: skip
    body = sent(report_of(task, failed_workers=failed))
    assert read_report(body) == Report(
        KEY, INCARNATION, status, reason, message, start, end, code, cause, failed_workers=failed
    )
    assert reports_in(sent(reports_data([body, body]))) == (body, body)


@pytest.mark.parametrize("odd", [4 * 10**18, 2**47, 10**400, -1, True, "9", None])
def test_a_time_that_no_calendar_has_is_none(odd: object) -> None:
    """It would be in the row of the share, and no page that shows it could be made."""
    said = read_report({**report_of(FAILED), "start_time": odd, "end_time": odd})
    assert said is not None
    assert (said.start_time, said.end_time) == (0, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"job_id": "1"}, {"component_name": "../x"}, {"task_version": -1}, {"role": "owner"}, {"party_id": "x"},
        {"party_status": "nonsense"}, {"party_status": None}, {"incarnation": "../x"},
    ],
)  # fmt: skip
def test_a_malformed_report_is_none(wrong: dict[str, Any]) -> None:
    assert read_report({**report_of(FAILED), **wrong}) is None


@pytest.mark.parametrize("data", [{}, {"tasks": None}, {"tasks": {"a": 1}}, {"tasks": [1, "x", None]}])
def test_an_answer_without_reports_has_none(data: dict[str, Any]) -> None:
    assert reports_in(data) == ()


@given(st.dictionaries(NAMES, st.booleans()), COUNTS, st.lists(st.dictionaries(TEXT, TEXT), max_size=2), st.booleans())
def test_the_answer_to_a_create_is_read_as_it_was_sent(
    components: dict[str, bool], cores: int, effective: list[dict[str, str]], awaits: bool
) -> None:
    data = sent(joined_data(components, cores, effective, awaits_approval=awaits))
    assert not_run_in(data) == {name for name, runs in components.items() if not runs}
    assert effective_in(data) == effective
    assert awaits_approval(data) == awaits
    assert offers_extensions(data)
    assert understands_batches(data)
    assert not speaks_plain_v1(data)


@given(COUNTS, COUNTS, COUNTS, st.integers(3, 10**9), TEXT, st.booleans())
def test_the_answer_to_an_apply_is_read_as_it_was_sent(
    cores: int, memory: int, free: int, lease: int, why: str, never: bool
) -> None:
    granted = sent(granted_data(cores, memory, free, lease / 1000))
    assert (free_cores_in(granted), abs(lease_in(granted) - lease) <= 1) == (free, True)
    refused = sent(no_capacity_data(why, free, never=never))
    assert (why_in(refused), free_cores_in(refused), refused_cores_in(refused)) == (why, free, free)
    assert is_never(refused) == never
    assert refused_cores_in(granted) is None


@given(TEXT, COUNTS, st.sampled_from(JobStatus), st.lists(NAMES))
def test_other_answers_are_read_as_they_were_sent(text: str, free: int, end: JobStatus, names: list[str]) -> None:
    assert approval_in(sent(approved_data(text))) == text
    ended = sent(ended_data(left_data(free), end.value))
    assert (ended_as_in(ended), free_cores_in(ended)) == (end.value, free)
    assert missing_in(sent(missing_data(names))) == tuple(names)
    assert is_rejected(sent(rejected_data()))
    assert still_ends(sent(still_ends_data()))
    assert is_unknown(sent(unknown_data()))
    assert awaits_approval(sent(awaits_data(awaits_approval=True)))


@pytest.mark.parametrize("value", [None, True, -1, "4", [1], {"a": 1}, 2**70, float("inf")])
def test_an_answer_with_other_values_states_nothing(value: object) -> None:
    """A plain v1 server answers without data, and one with a fault may answer anything."""
    keys = ("why", "free_cores", "remaining_cores", "lease_seconds", "approved", "ended_as", "lacks", "awaits", "never")
    data = dict.fromkeys([*keys, "components", "extensions", "effective", "is_rejected", "still_ends"], value)
    text = value if isinstance(value, str) else ""
    assert (why_in(data), approval_in(data), ended_as_in(data)) == (text, text, text)
    assert (free_cores_in(data), lease_in(data)) == (None, 0)
    assert not_run_in(data) == frozenset()
    assert effective_in(data) == []
    assert not awaits_approval(data)
    assert free_cores_in(None) is None
    assert not still_ends([])


_ENDS = [one for one in Reason if may_say(Author.INITIATOR, one) and one is not Reason.NOT_NEEDED]


@given(COUNTS, st.sampled_from(_ENDS), TEXT, CAUSES, st.none() | st.integers(0, 255))
def test_the_standing_of_a_job_is_read_as_it_was_sent(
    run: int, reason: Reason, message: str, cause: str, code: int | None
) -> None:
    open_one = Standing(run, JobStatus.RUNNING)
    assert read_standing(sent(open_one.as_data())) == open_one
    ended = Standing(run, job_status_for(reason), JobEnd(reason, message, cause, code))
    assert read_standing(sent(ended.as_data())) == ended


@pytest.mark.parametrize(
    ("data", "found"),
    [({}, None), ({"run": "1", "status": "failed"}, None), ({"run": 1, "status": "nonsense"}, Standing(1, None)),
     ({"run": 1, "status": "failed"}, Standing(1, JobStatus.FAILED, JobEnd(Reason.TASK_FAILED)))],
)  # fmt: skip
def test_of_another_standing_what_makes_sense_is_taken(data: dict[str, Any], found: Standing | None) -> None:
    assert read_standing(data) == found


# ---------------------------------------------------------------------- how many values a text has


def in_values(text: bytes) -> int:
    """The values of a text with so many that each of them is looked at."""
    return values_in(b"," * 20_000 + text) - 20_000


@pytest.mark.parametrize(("text", "values"), [
    (b'[1, {"a": 2}]', 3), (b'"a, [b], {c}", 1', 1), (rb'"a\\"," , "b"', 1), (rb'"a\", b", 1', 1),
    (b'"never ended, [', 0), (b'"ends with ' + b"\\", 0), (b"", 0),
])  # fmt: skip
def test_separators_in_strings_are_no_values(text: bytes, values: int) -> None:
    assert in_values(text) == values


def test_a_string_without_an_end_is_read_once() -> None:
    """Each quote in it was the beginning of another search to its end: 90 KB took minutes."""
    assert in_values(b'"' + rb'\"' * 1_000_000 + b",,") == 0
