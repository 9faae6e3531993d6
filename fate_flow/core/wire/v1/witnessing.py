"""What parties say to each other as witnesses, beside the text of C2SP tlog-witness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.job import Answer
from fate_flow.core.record.commitment import is_number

SIZE_TYPE = "text/x.tlog.size"       # of the answer to a checkpoint that continues another one than the newest
_MOST_NOTES, _MOST_NUMBERS = 1_000, 100


@dataclass(frozen=True)
class Held:
    """What a party says that it has of the log of the asker with it."""

    notes: Sequence[str]                 # the newest checkpoint of each epoch, which it has cosigned
    acknowledged: Sequence[str] = ()     # numbers of its last messages that the asker has acknowledged

    def as_data(self) -> dict[str, Any]:
        return {"checkpoints": list(self.notes), "acknowledged": list(self.acknowledged)}


def held_in(answer: Answer) -> Held | None:
    """Return what an answer to `held` says; None if it says nothing. Nobody has checked the notes yet. What has not
    the form of a number is left out: numbers go into an entry, whose size has a limit."""
    data = answer.data if answer.is_ok and isinstance(answer.data, Mapping) else {}
    notes, numbers = _texts(data.get("checkpoints")), _texts(data.get("acknowledged"))
    known = tuple(one for one in numbers or () if is_number(one))
    return None if notes is None else Held(notes[:_MOST_NOTES], known[:_MOST_NUMBERS])


def _texts(value: object) -> tuple[str, ...] | None:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else None
