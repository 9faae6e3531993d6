"""What a party says of the record of another one, as it is read."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.job import Answer
from fate_flow.core.record.commitment import number_of
from fate_flow.core.wire.v1.witnessing import Held, held_in

NUMBER = number_of(bytes(32))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (Held(("note",), (NUMBER,)).as_data(), Held(("note",), (NUMBER,))),
        ({"checkpoints": []}, Held(())),
        ({"checkpoints": ["a", 1, None], "acknowledged": "no list"}, Held(("a",))),
        ({"checkpoints": ["a"] * 1_001, "acknowledged": [NUMBER] * 101}, Held(("a",) * 1_000, (NUMBER,) * 100)),
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
