"""Both parties of a message commit to the same bytes, by whichever way it came."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.envelope import Asked, batch_of, body_of, document_of, read_answer, read_batch
from fate_flow.core.wire.v1.paths import endpoint_of, read_command
from fate_flow.core.wire.v1.plain_v1 import body_for_unknown
from fate_flow.core.wire.v1.recorded import answer_content, request_content
from tests.kit.values import HOST, JOB_ID

SALT = "5a" * 32
WITH_TASK = {
    CommandKind.TASK_CREATE, CommandKind.TASK_START, CommandKind.TASK_STATUS, CommandKind.TASK_STOP,
    CommandKind.TASK_COLLECT, CommandKind.REPORT,
}  # fmt: skip
WITH_ARGUMENT = {
    CommandKind.STATUS, CommandKind.STOP, CommandKind.TASK_STATUS, CommandKind.TASK_STOP, CommandKind.ASK_STOP,
}  # fmt: skip
WITHOUT_BODY = {CommandKind.STANDING, CommandKind.LOOK_AGAIN}
BODY: dict[str, Any] = {
    "role": "host", "party_id": "10000", "runtime_conf": {"job_parameters": {"common": {"a": 1.5}}},
    "\u00e4": [None, "\u20ac"], "big": 2**60,
}  # fmt: skip
WITHOUT_PATH = {CommandKind.CLEAN}       # which the coordinator sends about tasks alone
KINDS = [kind for kind in CommandKind if kind not in WITHOUT_PATH]


def a_command(kind: CommandKind) -> Command:
    task = ("reader_0", 3) if kind in WITH_TASK else ("", 0)
    body = {} if kind in WITHOUT_BODY else BODY
    argument = "running" if kind in WITH_ARGUMENT else ""
    return Command(kind, JOB_ID, HOST, 2, *task, argument=argument, body=body, salt=SALT)


def as_received(body: dict[str, Any]) -> Any:
    return json.loads(json.dumps(body))


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_is_committed_to_as_it_was_sent(kind: CommandKind) -> None:
    sent = a_command(kind)
    alone = read_command(endpoint_of(sent), as_received(body_of(sent)))
    as_plain = read_command(endpoint_of(sent), as_received(body_for_unknown(sent)))
    (batched,) = read_batch(as_received(batch_of([Asked(endpoint_of(sent), sent)])))
    assert isinstance(batched, Asked)

    for received in (alone, as_plain, batched.command):
        assert received.kind is kind
        assert received.salt == SALT
        assert "record_salt" not in received.body
        assert request_content(received) == request_content(sent)


@pytest.mark.parametrize("kind", KINDS)
def test_another_run_or_body_is_another_content(kind: CommandKind) -> None:
    sent = a_command(kind)

    assert request_content(replace(sent, run=3)) != request_content(sent)
    if kind not in WITHOUT_BODY:
        assert request_content(replace(sent, body={**BODY, "x": 1})) != request_content(sent)


@pytest.mark.parametrize("salt", ["", "5a", "5A" * 32, 7, None, ["5a" * 32], "5a" * 33])
def test_a_salt_of_another_form_is_none(salt: object) -> None:
    found = read_command(f"/party/{JOB_ID}/host/10000/start", {"record_salt": salt})

    assert (found.salt, found.body) == ("", {})


@pytest.mark.parametrize(
    "answer",
    [
        Answer(), Answer(100, "\ud800 no" + "x" * 2_000), Answer(0, "success", {"b": (1, 2.5), "a": None}),
        Answer(10, "no\0", is_recorded=True),
    ],
)  # fmt: skip
def test_an_answer_is_committed_to_as_it_is_understood(answer: Answer) -> None:
    read = read_answer(as_received(document_of(answer)))

    assert answer_content(read) == answer_content(answer)
    assert read.is_recorded == answer.is_recorded


def test_without_a_record_a_message_is_as_it_always_was() -> None:
    assert body_of(replace(a_command(CommandKind.START), salt="")) == {**BODY, "run": 2}
    assert document_of(Answer()) == {"retcode": 0, "retmsg": "success"}


def test_a_seat_of_another_party_is_another_content() -> None:
    sent = a_command(CommandKind.START)

    assert request_content(replace(sent, to=Party("host", "10001"))) != request_content(sent)
