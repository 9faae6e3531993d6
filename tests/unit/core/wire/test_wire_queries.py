"""Batches, heartbeats and queries between parties: the bytes that are sent, and that they are read as they were meant.

The texts are those that released servers send and understand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.chunks import Chunk, read_chunk
from fate_flow.core.wire.v1.envelope import (
    Asked,
    batch_of,
    document_of,
    read_answer,
    read_batch,
    read_batch_answers,
    to_json,
)
from fate_flow.core.wire.v1.extensions import offered_in
from fate_flow.core.wire.v1.heartbeat import HeartbeatReply, WayBack, heartbeat_of, read_heartbeat, read_heartbeat_reply
from fate_flow.core.wire.v1.paths import deliver_path, endpoint_of, output_table_path, read_command
from fate_flow.core.wire.v1.queries import (
    MOST_BYTES,
    STREAMS,
    TaskLogQuery,
    clock_in,
    effective_in,
    history_data,
    history_query,
    hold_in,
    intake_data,
    intake_query,
    is_preview,
    moves_in,
    output_table_data,
    preview_data,
    read_history_query,
    read_task_log,
    read_validate,
    validate_body,
    wants_call_back,
    way_back_in,
)
from tests.kit.values import HOST, JOB_ID

pytestmark = pytest.mark.long

EXTENSIONS = '{"batch":1,"lease":1,"incarnation":1,"exchange":1,"stopping":1,"room":1,"document":1,"disclosure":1}'
START = Command(CommandKind.START, JOB_ID, HOST, 2, body={"turn": 7})
PATH = f"/party/{JOB_ID}/host/10000/start"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (batch_of([Asked(PATH, START)]), f'{{"commands":[{{"endpoint":"{PATH}","body":{{"turn":7,"run":2}}}}]}}'),
        (heartbeat_of([(JOB_ID, 2)]), f'{{"jobs":[["{JOB_ID}",2]]}}'),
        (heartbeat_of([], "head", "1" * 32), f'{{"jobs":[],"checkpoint":"head","question":"{"1" * 32}"}}'),
        (HeartbeatReply({}).as_data(), f'{{"ended":{{}},"extensions":{EXTENSIONS}}}'),
        (
            HeartbeatReply({JOB_ID: "done"}, WayBack(1.5, "refused"), ({"role": "host"},)).as_data(),
            f'{{"ended":{{"{JOB_ID}":"done"}},"way_back":{{"seconds":1.5,"error":"refused"}},'
            f'"reports":[{{"role":"host"}}],"extensions":{EXTENSIONS}}}',
        ),
        (intake_query(call_back=False), "{}"),
        (intake_query(call_back=True), '{"call_back":true}'),
        (intake_data(None, "", 7), f'{{"hold":null,"way_back":null,"extensions":{EXTENSIONS},"clock":7}}'),
        (
            intake_data({"by": "ann"}, "no", 7),
            f'{{"hold":{{"by":"ann"}},"way_back":{{"seconds":0.0,"error":"no"}},"extensions":{EXTENSIONS},"clock":7}}',
        ),
        (validate_body({"dsl": {}}, HOST), '{"dsl":{},"role":"host","party_id":"10000"}'),
        (preview_data(), '{"previewed":true}'),
        (preview_data([{"key": "timeout"}]), '{"previewed":true,"effective":[{"key":"timeout"}]}'),
        (
            output_table_data([("t", "demo", "train")]),
            '[{"table_name":"t","table_namespace":"demo","data_name":"train"}]',
        ),
        (
            TaskLogQuery(JOB_ID, "a", HOST).as_body(),
            f'{{"job_id":"{JOB_ID}","component_name":"a","role":"host","party_id":"10000"}}',
        ),
        (
            TaskLogQuery(JOB_ID, "a", HOST, "stderr", 9, 8, 7, 6, 5).as_body(),
            f'{{"job_id":"{JOB_ID}","component_name":"a","stream":"stderr","worker":7,"attempt":6,"task_version":5,'
            '"bytes":9,"offset":8,"role":"host","party_id":"10000"}',
        ),
        (Chunk("t", 3, is_last=True).as_query(), '{"topic":"t","seq":3,"last":1}'),
        (
            Chunk("t", 3, is_last=True, document="native:ab").as_query(),
            '{"topic":"t","seq":3,"last":1,"document":"native:ab"}',
        ),
        (history_query(JOB_ID), f'{{"job_id":"{JOB_ID}"}}'),
        (history_data([{"time": 1}]), '{"moves":[{"time":1}]}'),
        (document_of(Answer()), '{"retcode":0,"retmsg":"success"}'),
        (document_of(Answer(103, "no", [])), '{"retcode":103,"retmsg":"no","data":[]}'),
    ],
)  # fmt: skip
def test_the_bytes_on_the_wire(body: object, text: str) -> None:
    assert to_json(body) == text


def test_the_path_of_a_chunk() -> None:
    found = deliver_path(JOB_ID, f"{JOB_ID}_a", 1, "ab" * 16, Party("guest", "9999"), HOST)
    assert found == f"/exchange/deliver/{JOB_ID}/{JOB_ID}_a/1/{'ab' * 16}/guest/9999/host/10000"


def test_the_path_of_output_tables() -> None:
    assert output_table_path(JOB_ID, "a", HOST) == f"/tracker/{JOB_ID}/a/host/10000/output/table"


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=20)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda one: st.lists(one, max_size=3) | st.dictionaries(TEXT, one, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(TEXT, JSON_VALUES, max_size=3)     # what is not read on the way shows the same with few keys
PARTIES = st.builds(Party, st.sampled_from(["guest", "host", "arbiter"]), st.integers(1, 10**9).map(str))
BODIES = st.dictionaries(TEXT.filter(lambda key: key not in ("run", "task_version")), JSON_VALUES, max_size=3)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
_OF_JOBS = [one for one in CommandKind if one not in (CommandKind.REPORT, CommandKind.CAPACITY)]


@st.composite
def commands(draw: st.DrawFn) -> Command:
    kind = draw(st.sampled_from(_OF_JOBS))
    is_task = kind.value.startswith("task ")
    name, version = (draw(NAMES), draw(st.integers(0, 2**31 - 1))) if is_task else ("", 0)
    has_status = kind.value.endswith(("status", "stop"))
    argument = draw(st.sampled_from(["waiting", "failed", "success"])) if has_status else ""
    body = {} if kind in (CommandKind.STANDING, CommandKind.LOOK_AGAIN) else draw(BODIES)
    return Command(kind, JOB_ID, draw(PARTIES), draw(st.integers(0, 99)), name, version, argument, body)


def sent(value: Any) -> Any:
    """Return the JSON value that the other server gets."""
    return json.loads(to_json(value))


@given(st.lists(commands(), max_size=3))
def test_commands_are_read_as_they_were_sent(batch: list[Command]) -> None:
    found = read_batch(sent(batch_of([Asked(endpoint_of(one), one) for one in batch])))
    for one, read in zip(batch, found, strict=True):
        assert isinstance(read, Asked)
        assert read.endpoint == endpoint_of(one)
        has_no_body = one.kind in (CommandKind.STANDING, CommandKind.LOOK_AGAIN)
        with_run = {} if has_no_body else {**one.body, "run": one.run}
        assert read.command == Command(
            one.kind, one.job_id, one.to, one.run, one.task, one.version, one.argument, with_run
        )
        assert read.command == read_command(endpoint_of(one), {**one.body, "run": one.run})


@given(st.builds(Answer, st.integers(0, 200), TEXT, JSON_VALUES))
def test_answers_are_read_as_they_were_sent(answer: Answer) -> None:
    assert read_answer(sent(document_of(answer))) == answer
    assert read_batch_answers({"data": [document_of(answer)]}, 1) == [document_of(answer)]


@pytest.mark.parametrize("data", [None, {}, [], [{}, {}], [1], "x"])
def test_the_answer_to_a_batch_has_one_envelope_for_each_command(data: Any) -> None:
    with pytest.raises(ValueError, match="the answer to a batch of 1 is"):
        read_batch_answers({"data": data}, 1)


@pytest.mark.parametrize("listed", [None, {}, "x", [{}] * 1_001])
def test_a_batch_without_a_list_is_refused(listed: Any) -> None:
    with pytest.raises(BadRequest, match="commands: must be a list of up to 1000 commands"):
        read_batch({"commands": listed})


def test_a_bad_command_of_a_batch_gets_an_answer_in_its_place() -> None:
    found = read_batch({"commands": [1, {"endpoint": 7}, {"endpoint": "/nowhere"}, {"endpoint": PATH, "body": {}}]})
    needed = Answer(101, "commands: each needs an endpoint and a body")
    assert found[:3] == [needed, needed, Answer(101, "no such path: '/v1/nowhere'")]
    assert found[3] == Asked(PATH, read_command(PATH, {}))


@given(st.lists(st.tuples(st.integers(10**13, 10**24).map(str), st.integers(0, 99))))
def test_a_heartbeat_is_read_as_it_was_sent(jobs: list[tuple[str, int]]) -> None:
    assert read_heartbeat(sent(heartbeat_of(jobs))) == jobs


@pytest.mark.parametrize("body", [{}, {"jobs": {}}, {"jobs": "x"}])
def test_a_heartbeat_without_a_list_of_jobs_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match=r"jobs: must be a list of \[job id, run\]"):
        read_heartbeat(body)


@given(
    st.dictionaries(TEXT, TEXT),
    st.none() | st.builds(WayBack, st.floats(0, 1e8), TEXT),
    st.lists(OBJECTS, max_size=3).map(tuple),
)
def test_the_answer_to_a_heartbeat_is_read_as_it_was_sent(
    ended: dict[str, str], way_back: WayBack | None, reports: tuple[dict[str, Any], ...]
) -> None:
    reply = HeartbeatReply(ended, way_back, reports if way_back is not None else ())
    assert read_heartbeat_reply(sent(reply.as_data())) == reply


@given(st.booleans(), st.none() | OBJECTS, TEXT)
def test_intake_is_read_as_it_was_sent(call_back: bool, hold: dict[str, Any] | None, problem: str) -> None:
    assert wants_call_back(sent(intake_query(call_back=call_back))) == call_back
    answer = Answer(data=sent(intake_data(hold, problem, 1_700_000_000_000)))
    assert hold_in(answer) == hold
    assert clock_in(answer) == 1_700_000_000_000
    assert offered_in(answer.data) == tuple(sorted(json.loads(EXTENSIONS)))
    assert way_back_in(answer) == (WayBack(0.0, problem) if problem else None)


@pytest.mark.parametrize(("data", "clock", "offers"), [
    (None, None, ()), ("text", None, ()), ({"clock": True, "extensions": 7}, None, ()),
    ({"clock": -1, "extensions": ["batch"]}, None, ()), ({"clock": 1 << 53}, None, ()),
    ({"clock": 5, "extensions": {"b": 1, "a": 1, "a b": 1, "A": 1, "x" * 41: 1}}, 5, ("a", "b")),
    ({"clock": "5", "extensions": {f"e{number:03d}": 1 for number in range(100)}}, None,
     tuple(f"e{number:03d}" for number in range(50))),
])  # fmt: skip
def test_what_a_party_says_of_itself_is_checked(data: object, clock: int | None, offers: tuple[str, ...]) -> None:
    assert (clock_in(Answer(data=data)), offered_in(data)) == (clock, offers)


@given(PARTIES, st.none() | st.lists(OBJECTS, max_size=3))
def test_validate_is_read_as_it_was_sent(party: Party, effective: list[dict[str, Any]] | None) -> None:
    body = sent(validate_body({"job_id": JOB_ID, "dsl": {}}, party))
    assert read_validate(body) == Command(CommandKind.CREATE, JOB_ID, party, body=body)
    answer = Answer(data=sent(preview_data(effective)))
    assert is_preview(answer)
    assert effective_in(answer.data) == (effective or [])


@pytest.mark.parametrize(
    ("wrong", "text"),
    [({"role": "owner"}, "role: 'owner'"), ({"party_id": None}, "party_id: null"), ({"job_id": 7}, "job_id: 7")],
)
def test_validate_of_no_seat_is_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        read_validate({**validate_body({"job_id": JOB_ID}, HOST), **wrong})


@given(st.lists(OBJECTS, max_size=3))
def test_a_history_is_read_as_it_was_sent(moves: list[dict[str, Any]]) -> None:
    assert read_history_query(sent(history_query(JOB_ID))) == JOB_ID
    assert moves_in(Answer(data=sent(history_data(moves)))) == moves


NUMBERS = st.none() | st.integers(0, 2**31)


@given(
    st.builds(
        TaskLogQuery, st.just(JOB_ID), NAMES, PARTIES, st.sampled_from(STREAMS), st.integers(1, MOST_BYTES), NUMBERS,
        NUMBERS, NUMBERS, NUMBERS,
    )
)  # fmt: skip
def test_a_query_for_the_output_of_a_worker_is_read_as_it_was_sent(query: TaskLogQuery) -> None:
    body = sent(query.as_body())
    assert read_task_log(body) == query
    assert read_task_log({key: str(value) for key, value in body.items()}) == query, "a client may send text"


def test_a_client_need_not_name_the_seat() -> None:
    assert read_task_log({"job_id": JOB_ID, "component_name": "a"}, HOST) == TaskLogQuery(JOB_ID, "a", HOST)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"stream": "log"}, "stream: 'log' is neither stdout nor stderr"),
        ({"bytes": 0}, f"bytes: 0 is not a whole number from 1 to {MOST_BYTES}"),
        ({"worker": -1}, "worker: -1 is not a whole number from 0 to 2147483648"),
        ({"attempt": 1.5}, "attempt: 1.5 is not"), ({"offset": True}, "offset: true is not"),
        ({"task_version": "x"}, "task_version: 'x' is not"), ({"component_name": "/"}, "component_name: '/'"),
        ({"role": None}, "role: null"),
    ],
)  # fmt: skip
def test_a_query_for_no_output_is_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(BadRequest, match=text):
        read_task_log({**TaskLogQuery(JOB_ID, "a", HOST).as_body(), **wrong})


DOCUMENTS = st.just("") | st.from_regex(r"[a-z][a-z0-9_]{0,31}:[0-9a-f]{64}", fullmatch=True)


@given(st.builds(Chunk, st.text(min_size=1, max_size=256), st.integers(0, 10**18 - 1), st.booleans(), DOCUMENTS))
def test_the_query_of_a_chunk_is_read_as_it_was_sent(chunk: Chunk) -> None:
    assert read_chunk({key: str(value) for key, value in chunk.as_query().items()}) == chunk


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"topic": ""}, "topic: 0 characters, 1 to 256 are allowed"), ({"topic": "x" * 257}, "topic: 257 characters"),
        ({"seq": "-1"}, "seq: '-1' is not a whole number"), ({"last": "2"}, "last: '2' is not 0 or 1"),
        ({"document": "native:ab"}, "document: 'native:ab' is not a format, a colon and 64 lower case hex digits"),
    ],
)  # fmt: skip
def test_the_query_of_no_chunk_is_refused(wrong: dict[str, str], text: str) -> None:
    query = {"topic": "t", "seq": "0", "last": "1"}
    with pytest.raises(BadRequest, match=text):
        read_chunk({**query, **wrong})
    for key in query:
        with pytest.raises(BadRequest, match=f"{key}: is missing"):
            read_chunk({name: value for name, value in query.items() if name != key})


@pytest.mark.parametrize("answer", [Answer(), Answer(103, "no", {"moves": []}), Answer(data=[]), Answer(data={})])
def test_an_answer_without_what_was_asked_has_nothing(answer: Answer) -> None:
    assert (moves_in(answer), hold_in(answer), way_back_in(answer), is_preview(answer)) == (None, None, None, False)
