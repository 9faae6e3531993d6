"""What a party says of the record of another one, as it is read."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.job import Answer
from fate_flow.core.record.commitment import number_of
from fate_flow.core.wire.v1.witnessing import AS_BEFORE, OF_AN_AUDIT, AskedHeld, Held, asked_held, held_in

NUMBER = number_of(bytes(32))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (Held(("note",), (NUMBER,)).as_data(), Held(("note",), (NUMBER,))),
        ({"checkpoints": []}, Held(())),
        ({"checkpoints": ["a", 1, None], "acknowledged": "no list"}, Held(("a",))),
        ({"checkpoints": ["a"] * 1_001, "acknowledged": [NUMBER] * 1_001}, Held(("a",) * 1_000, (NUMBER,) * 1_000)),
        (Held((), (NUMBER,), ("answer",)).as_data(), Held((), (NUMBER,), ("answer",))),
        ({"checkpoints": [], "acknowledged": ["7", NUMBER], "answers": ["a", "b"]}, Held((), (NUMBER,), ("b",))),
        ({"acknowledged": [NUMBER]}, None),
        ([], None),
    ],
)
def test_what_is_held_is_read(data: Any, found: Held | None) -> None:
    assert held_in(Answer(0, data=data)) == found
    assert held_in(Answer(100, data=data)) is None


@pytest.mark.parametrize(
    "number", ["9" * 70_000, "\ud800" * 32, NUMBER.upper(), NUMBER + "\n", NUMBER[1:], "\u0663" * 32, "", 7, None]
)
def test_what_has_not_the_form_of_a_number_is_left_out(number: Any) -> None:
    assert held_in(Answer(0, data={"checkpoints": [], "acknowledged": [number, NUMBER]})) == Held((), (NUMBER,))


def test_answers_of_which_it_is_not_clear_to_what_are_not_compared() -> None:
    assert list(Held((), (NUMBER,), ("a", "b")).messages()) == [(NUMBER, "")]


@pytest.mark.parametrize("asked", [AS_BEFORE, OF_AN_AUDIT, AskedHeld(""), AskedHeld(NUMBER, NUMBER)])
def test_the_question_before_a_signature_is_read(asked: AskedHeld) -> None:
    assert asked_held(asked.as_body()) == asked


@pytest.mark.parametrize("after", [NUMBER.upper(), "9" * 70_000, 7, True, [NUMBER]])
def test_a_question_after_no_message_is_refused(after: Any) -> None:
    with pytest.raises(BadRequest, match="`after` is not the number of a message"):
        asked_held({"after": after})


@pytest.mark.parametrize("question", [NUMBER.upper(), NUMBER + ",", 7, None, [NUMBER]])
def test_what_is_no_id_of_a_question_is_refused(question: Any) -> None:
    with pytest.raises(BadRequest, match="`question` is not the id of a question"):
        asked_held({"question": question})
