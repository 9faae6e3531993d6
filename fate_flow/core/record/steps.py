"""What is recorded about a job as the steps of a sequence diagram: messages between parties, all else at this party."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fate_flow.core.record.sentences import command_of, sentence_of
from fate_flow.core.record.shown import ShownEntry


@dataclass(frozen=True)
class Step:
    """A message from one party to another, or a note at a party."""

    entry: ShownEntry
    source: str          # the id of a party
    target: str          # the same as `source`: a note
    text: str
    is_answer: bool = False

    @property
    def is_note(self) -> bool:
        return self.source == self.target


def steps_of(entries: Iterable[ShownEntry], own: str) -> Iterator[Step]:
    """Yield a step for each entry. `own`: the id of the party whose record it is."""
    for one in entries:
        said, other, party = one.said, one.other, one.of or own
        match one.kind:
            case "sent":
                yield Step(one, party, other, command_of(said))
            case "answered":
                yield Step(one, other, party, str(said.get("retcode")), is_answer=True)
            case "received":
                yield Step(one, other, party, f"{command_of(said)} ({said.get('retcode')})")
            case _:
                yield Step(one, party, party, sentence_of(one))


def parties_of(steps: Iterable[Step], own: str) -> tuple[str, ...]:
    """Return the parties of the steps, this one first, the others as they come."""
    return tuple(dict.fromkeys([own, *(name for one in steps for name in (one.source, one.target))]))
