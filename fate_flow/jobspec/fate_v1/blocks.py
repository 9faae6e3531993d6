"""The blocks of FATE's documents: what a runtime conf has below `role` in its parts with layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.spec import Party
from fate_flow.jobspec.fate_v1.job_parameters import OF_THE_JOB
from fate_flow.jobspec.fate_v1.layers import meant_by
from fate_flow.jobspec.text.blocks import (
    Block,
    Parts,
    divided,
    divided_inside,
    is_switch,
    object_at,
    objects_in,
    seats_of,
)

_CONF = "runtime_conf"


def blocks(document: JobDocument) -> Iterator[Block]:
    """Yield the blocks of a document, which may be wrong: what is no block is left out.

    Public are FATE's job parameters that apply to the whole job, wherever they stand, whether a component runs, and how
    many workers it has."""
    roles = object_at(document.body, _CONF, "role")
    for part, divide in _PARTS.items():
        for role, below in objects_in(document.body, _CONF, part, "role"):
            seats = seats_of(role, roles.get(role))
            for selector, block in objects_in(below):
                public, private = divide(block)
                yield Block((_CONF, part, "role", role, selector), _meant(selector, seats), public, private)


def _meant(selector: str, seats: tuple[Party, ...]) -> frozenset[Party]:
    return frozenset(seats[index] for index in meant_by(selector, len(seats)))


_PARTS: Mapping[str, Callable[[Mapping[str, Any]], Parts]] = {
    "job_parameters": lambda block: divided(block, lambda key, _: key in OF_THE_JOB),
    "component_parameters": lambda block: divided_inside(block, is_switch(("need_run",))),
    "provider": lambda block: ({}, dict(block)),
}
