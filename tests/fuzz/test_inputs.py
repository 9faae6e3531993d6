"""The inputs of a seed are always the same, and among them is every route and every way."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fate_flow.core.model.job import CommandKind
from fate_flow.core.wire.v1.paths import read_command
from tests.fuzz.inputs import Input, Operation, Signed, Way, draw
from tests.fuzz.lines import Answer
from tests.fuzz.party_routes import COMMANDS, QUESTIONS, good_request
from tests.fuzz.run import NAMED, Outcome, note

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"job_id": {"type": "string"}}}
OPERATIONS = [Operation("post", "/v1/job/query", SCHEMA), Operation("get", "/v1/x/{name}", SCHEMA)]


def signed(method: str, target: str, body: bytes) -> dict[str, str]:
    return {"SIGNATURE": f"{method}{target}{len(body)}"}


def drawn(seed: int, count: int) -> list[Input]:
    return [draw(seed, number, OPERATIONS) for number in range(count)]


def sent(one: Input) -> list[bytes]:
    return one.pieces(signed)


def test_the_same_seed_draws_the_same_inputs() -> None:
    assert list(map(sent, drawn(7, 300))) == list(map(sent, drawn(7, 300)))
    assert list(map(sent, drawn(7, 300))) != list(map(sent, drawn(8, 300)))


def test_every_way_and_every_signature_is_among_them() -> None:
    found = drawn(7, 1500)
    assert {one.way for one in found} == set(Way)
    assert {one.request.signed for one in found if one.request} == set(Signed)
    assert {one.request.signed for one in found if one.request and one.way is Way.PROXIED} == set(Signed)
    assert {one.request.is_chunked for one in found if one.request} == {True, False}


def test_each_way_with_routes_has_inputs_that_are_held_with_a_part_of_their_bytes() -> None:
    held = [one for one in drawn(7, 3000) if one.is_held]
    assert {one.way for one in held} == {Way.HOLDER, Way.TLS, Way.CLIENT, Way.PLAIN, Way.PROXIED}
    assert not any(one.is_clean for one in held)
    parts = [one.hold_at or 0.0 for one in held]
    assert (min(parts), max(parts)) == (0.0, 1.0)
    assert any(0 < part < 1 for part in parts)


def test_a_party_says_its_own_name() -> None:
    for way, caller in ((Way.PEER, b"10000"), (Way.HOLDER, b"10006"), (Way.PLAIN, b"10004"), (Way.PROXIED, b"10008")):
        found = [one.request for one in drawn(7, 1000) if one.way is way and one.kind in ("routes", "held")]
        assert found
        assert {dict(request.fields)[b"SRC-PARTY-ID"] for request in found if request} == {caller}


def test_a_clean_input_is_one_request_with_its_length() -> None:
    [clean, *_] = [one for one in drawn(7, 300) if one.is_clean and one.request and not one.request.is_chunked]
    head, _, body = b"".join(sent(clean)).partition(b"\r\n\r\n")
    assert b"Content-Length: %d" % len(body) in head


def test_every_command_and_question_between_parties_is_sent() -> None:
    kinds = {read_command(path, {}).kind for path in COMMANDS if not path.startswith("/party") or "report" not in path}
    assert kinds == set(CommandKind)
    random = Random(7)
    asked = {good_request(random)[0] for _ in range(3000)}
    assert {*COMMANDS, *QUESTIONS, "/party/batch"} <= asked


@pytest.mark.parametrize("status", [500, 502, 599])
def test_an_answer_that_no_page_names_is_a_violation(status: int) -> None:
    outcome = Outcome(7, 1, 1)
    [one, *_] = [found for found in drawn(7, 100) if found.is_clean]
    for named in (200, 404, *NAMED):
        note(outcome, one, Answer((named,), b'{"retcode": 0}'))
    assert outcome.violations == []
    note(outcome, one, Answer((200, status)))
    [violation] = outcome.violations
    assert f"input {one.number} " in violation
    assert f"status {status}" in violation


def test_no_answer_and_no_end_is_a_violation() -> None:
    outcome = Outcome(7, 1, 1)
    [one, *_] = drawn(7, 1)
    note(outcome, one, Answer(()))
    assert outcome.violations == []
    note(outcome, one, Answer((), is_late=True))
    assert len(outcome.violations) == 1
