"""Lists of parties in a DAG: `[{role, party_id: [id, ...]}, ...]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fate_flow.core.model.grammar import check_party_id, check_role
from fate_flow.core.model.spec import Party
from fate_flow.jobspec.text.blocks import seats_of
from fate_flow.jobspec.text.document import Node

FIRST = ("guest", "host", "arbiter", "local")
"""Roles in the order in which one of a party's seats becomes that of the initiator."""


def read_parties(node: Node) -> tuple[Party, ...]:
    """Return the parties of a list, each once; add a problem for what is none."""
    found: dict[Party, None] = {}
    for one in node.elements():
        if not one.is_object():
            continue
        one.nothing_but(("role", "party_id"))
        role = one.at("role").checked(check_role)
        for party in one.at("party_id").elements() if one.at("party_id").needed() else ():
            party_id = party.checked(check_party_id)
            if role is not None and party_id is not None:
                found[Party(role, party_id)] = None
    return tuple(found)


def read_some(node: Node, known: Iterable[Party]) -> tuple[Party, ...]:
    """Return the parties of a list, which have to be parties of the job."""
    every = tuple(known)
    found = read_parties(node)
    for party in found:
        if party not in every:
            node.wrong(f"{party} is no party of the job, which are: {', '.join(map(str, every))}")
    return tuple(party for party in found if party in every)


def parties_in(value: object) -> Iterator[Party]:
    """Yield the parties of a list that may be wrong; what is no party is left out."""
    for one in value if isinstance(value, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("role"), str):
            yield from seats_of(one["role"], one.get("party_id"))


def as_list(parties: Iterable[Party]) -> list[dict[str, Any]]:
    """Return parties as a DAG lists them."""
    found: dict[str, list[str]] = {}
    for party in parties:
        found.setdefault(party.role, []).append(party.party_id)
    return [{"role": role, "party_id": ids} for role, ids in found.items()]
