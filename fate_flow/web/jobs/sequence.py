"""What is recorded about a job as a drawing: a line for each party, an arrow for each message, a dot for all else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fate_flow.core.record.shown import ShownEntry
from fate_flow.core.record.steps import Step, parties_of, steps_of

BETWEEN, MARGIN, NOTES, ROW, HEAD = 300, 80, 660, 28, 52
"""Of the drawing: between two parties, on the left, on the right for notes, the height of a step, above the first."""
_LETTERS, _LETTERS_OF_NOTE = 44, 90          # of the text of one step; the table has the whole text
_SHAFT = 8                                   # of an arrow, which ends before the line of its party


@dataclass(frozen=True)
class DrawnStep:
    """One step: an arrow from `x` to `end`, or a dot at `x`. The text stands at `text_x`, and is in the middle there
    unless it is a note."""

    step: Step
    text: str                    # cut; the table has all of it
    x: int
    end: int
    text_x: int
    y: int

    @property
    def tip(self) -> str:
        """The head of the arrow, as a path."""
        back = -_SHAFT if self.end > self.x else _SHAFT
        return f"M{self.end} {self.y}l{back} -4v8z"


@dataclass(frozen=True)
class SequenceDrawing:
    parties: tuple[tuple[str, int], ...]         # the id of each, and where its line is
    steps: tuple[DrawnStep, ...]
    width: int
    height: int


def sequence_of(entries: Iterable[ShownEntry], own: str) -> SequenceDrawing:
    """Return the drawing of these entries. `own`: the party whose record it is."""
    steps = tuple(steps_of(entries, own))
    parties = parties_of(steps, own)
    places = {name: MARGIN + number * BETWEEN for number, name in enumerate(parties)}
    drawn = tuple(_drawn(one, places, HEAD + number * ROW) for number, one in enumerate(steps))
    width = MARGIN + max((len(parties) - 1) * BETWEEN + MARGIN, NOTES)
    return SequenceDrawing(tuple(places.items()), drawn, width, HEAD + len(steps) * ROW)


def _drawn(one: Step, places: dict[str, int], y: int) -> DrawnStep:
    begin, end = places[one.source], places[one.target]
    if one.is_note:
        return DrawnStep(one, _short(one.text, _LETTERS_OF_NOTE), begin, begin, begin + 10, y)
    text = f"answer {one.text}" if one.is_answer else one.text
    return DrawnStep(one, _short(text, _LETTERS), begin, end, (begin + end) // 2, y)


def _short(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
