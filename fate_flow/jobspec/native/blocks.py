"""The blocks of a native job file: what it has below `at`, for the job and for each task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.spec import Party
from fate_flow.jobspec.text.blocks import Block, Parts, Path, divided, is_switch, object_at, objects_in, seats_of


def blocks(document: JobDocument) -> Iterator[Block]:
    """Yield the blocks of a file, which may be wrong: what is no block is left out.

    Public are whether a task runs, and how many workers it has."""
    file = document.body
    roles = object_at(file, "parties")
    for where, block in objects_in(file, "at"):
        yield Block(("at", where), _meant(where, roles), {}, dict(block))
    for name, task in objects_in(file, "tasks"):
        for where, block in objects_in(task, "at"):
            path: Path = ("tasks", name, "at", where)
            yield Block(path, _meant(where, roles), *_divided(block))


def _meant(where: str, roles: Mapping[str, Any]) -> frozenset[Party]:
    role, _, party_id = where.partition(" ")
    return frozenset(seat for seat in seats_of(role, roles.get(role)) if party_id in ("", seat.party_id))


def _divided(block: Mapping[str, Any]) -> Parts:
    public, private = divided(block, is_switch(("run",)))
    counts, hidden = divided(object_at(block, "parameters"), is_switch(()))
    if counts:
        public["parameters"] = counts
        del private["parameters"]
        private |= {"parameters": hidden} if hidden else {}
    return public, private
