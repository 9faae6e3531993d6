"""What parties say to each other about their logs, beside the text of C2SP tlog-witness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_whole
from fate_flow.core.model.job import Answer
from fate_flow.core.record.commitment import is_number

SIZE_TYPE = "text/x.tlog.size"       # of the answer to a checkpoint that continues another one than the newest
QUESTION = "RECORD-QUESTION"
"""The header of a checkpoint with the id of the last question of its party that was answered (`AskedHeld`)."""

ASKED_SINCE = 412
"""The HTTP status of the answer to a checkpoint whose party has asked again since: it may have been sent before a
backup was restored there."""

MOST_NUMBERS = 1_000                 # of messages that an answer names
_MOST_NOTES, _MOST_EPOCHS = 1_000, 1_000
_MOST_INDEX = 2**53 - 1


@dataclass(frozen=True)
class AskedHeld:
    """What a party asks before it signs. `after`: the number of the newest message of the other party that it has
    signed; empty: it has signed none. None: it does not say so, as an earlier release. `question`: a random id, which
    the checkpoints name that follow from the answer; empty: from an earlier release. `is_audit`: an operator asks, who
    compares, and no checkpoint follows."""

    after: str | None = None
    question: str = ""
    is_audit: bool = False

    def as_body(self) -> dict[str, Any]:
        return {
            **({} if self.after is None else {"after": self.after}),
            **({"question": self.question} if self.question else {}),
            **({"audit": True} if self.is_audit else {}),
        }


AS_BEFORE = AskedHeld()
OF_AN_AUDIT = AskedHeld(is_audit=True)


def asked_held(body: Mapping[str, Any]) -> AskedHeld:
    """Raise BadRequest."""
    after, question = body.get("after"), body.get("question", "")
    if after is not None and after != "" and not is_number(after):
        raise BadRequest("`after` is not the number of a message: 32 digits of 0-9a-f, or nothing")
    if question != "" and not is_number(question):
        raise BadRequest("`question` is not the id of a question: 32 digits of 0-9a-f, or nothing")
    return AskedHeld(after, question, body.get("audit") is True)


@dataclass(frozen=True)
class Held:
    """What a party says that it has of the log of the asker with it."""

    notes: Sequence[str]                 # the newest checkpoint of each epoch, which it has cosigned
    acknowledged: Sequence[str] = ()     # numbers of its messages that the asker has acknowledged, the newest first
    answers: Sequence[str] = ()          # the commitment to the answer of each; none from an earlier release

    def messages(self) -> Iterator[tuple[str, str]]:
        """Yield the number of each acknowledged message and the commitment to its answer, which may be empty."""
        answers = self.answers if len(self.answers) == len(self.acknowledged) else [""] * len(self.acknowledged)
        yield from zip(self.acknowledged, answers, strict=True)

    def as_data(self) -> dict[str, Any]:
        return {
            "checkpoints": list(self.notes), "acknowledged": list(self.acknowledged), "answers": list(self.answers),
        }  # fmt: skip


def held_in(answer: Answer) -> Held | None:
    """Return what an answer to `held` says; None if it says nothing. Nobody has checked the notes yet. What has not
    the form of a number is left out: numbers go into an entry, whose size has a limit."""
    data = answer.data if answer.is_ok and isinstance(answer.data, Mapping) else {}
    notes, numbers = _texts(data.get("checkpoints")), _texts(data.get("acknowledged")) or ()
    said = Held((), numbers, _texts(data.get("answers")) or ())
    known = [one for one in said.messages() if is_number(one[0])][:MOST_NUMBERS]
    answers = tuple(answer for _, answer in known) if said.answers else ()
    return None if notes is None else Held(notes[:_MOST_NOTES], tuple(number for number, _ in known), answers)


@dataclass(frozen=True)
class AskedPart:
    """Which part is asked for: entries of an epoch from an index on. Epoch 0: the oldest one that is signed."""

    epoch: int = 0
    first: int = 0

    def as_body(self) -> dict[str, int]:
        return {"epoch": self.epoch, "first": self.first}


@dataclass(frozen=True)
class LogPart:
    """A part of the log that a party keeps with the asker. `epochs`: those that are signed, the oldest first; none:
    nothing is signed."""

    epochs: Sequence[int]
    epoch: int = 0
    note: str = ""                       # the newest checkpoint of this epoch
    entries: Sequence[str] = ()          # their texts, from the index that was asked for

    def as_data(self) -> dict[str, Any]:
        return {"epochs": list(self.epochs), "epoch": self.epoch, "note": self.note, "entries": list(self.entries)}


def asked_part(body: Mapping[str, Any]) -> AskedPart:
    """Raise BadRequest."""
    return AskedPart(*(check_whole(body.get(key, 0), key, 0, _MOST_INDEX) for key in ("epoch", "first")))


def part_in(answer: Answer) -> LogPart | None:
    """Return the part in an answer; None if it has none. Nobody has checked its signature yet."""
    data = answer.data if answer.is_ok and isinstance(answer.data, Mapping) else {}
    epochs, entries, note = data.get("epochs"), _texts(data.get("entries")), data.get("note")
    if not isinstance(epochs, list) or len(epochs) > _MOST_EPOCHS or entries is None or not isinstance(note, str):
        return None
    try:
        numbers = [check_whole(one, "epochs", 1, _MOST_INDEX) for one in epochs]
        epoch = check_whole(data.get("epoch"), "epoch", 0, _MOST_INDEX)
    except BadRequest:
        return None
    if any(after <= before for before, after in pairwise(numbers)):
        return None
    return LogPart(numbers, epoch, note, entries)


def _texts(value: object) -> tuple[str, ...] | None:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else None
