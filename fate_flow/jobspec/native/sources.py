"""Sources of an input that only some parties read: `{from: <task>.<output>, parties: [host]}`, or a stored model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.jobspec.fate_v1.model_document import MODEL
from fate_flow.jobspec.fate_v1.seats_document import PARTIES
from fate_flow.jobspec.text.document import Node

FROM = "from"


def read_by_some(sources: list[Node]) -> tuple[list[Any], list[list[str]]] | None:
    """Return the sources as FATE's documents name them, with the places that read each; None if all parties read all.

    Add a problem for a source without places beside one with some, and for places without a source."""
    if all(_is_for_all(one) for one in sources):
        return None
    values, readers = [], []
    for one in sources:
        if _is_for_all(one):
            one.wrong("is for all parties; another source of this input names those that read it: name them here, too")
            continue
        kinds = [key for key in (FROM, MODEL) if one.at(key).is_given]
        if len(kinds) != 1:
            one.wrong(f"names {' and '.join(kinds) or 'no source'}; write one of {FROM} and {MODEL}")
        elif one.at(PARTIES).needed():
            values.append(one.value[FROM] if FROM in kinds else {MODEL: one.value[MODEL]})
            readers.append(list(one.value[PARTIES]))
    return values, readers


def _is_for_all(source: Node) -> bool:
    return not isinstance(source.value, Mapping) or source.value.keys().isdisjoint((FROM, PARTIES))
