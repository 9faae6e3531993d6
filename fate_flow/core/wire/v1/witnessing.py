"""What parties say to each other as witnesses, beside the text of C2SP tlog-witness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fate_flow.core.model.job import Answer

SIZE_TYPE = "text/x.tlog.size"       # of the answer to a checkpoint that continues another one than the newest
_MOST_NOTES = 1_000


def held_data(notes: Sequence[str]) -> dict[str, Any]:
    """Return the data of the answer to `held`: the newest checkpoint of each of the asker's logs."""
    return {"checkpoints": list(notes)}


def held_in(answer: Answer) -> tuple[str, ...] | None:
    """Return the notes in the answer to `held`, unchecked; None if it has none."""
    listed = answer.data.get("checkpoints") if answer.is_ok and isinstance(answer.data, Mapping) else None
    return tuple(one for one in listed[:_MOST_NOTES] if isinstance(one, str)) if isinstance(listed, list) else None
