"""`ports` of a component: streams between its workers. The workers of some parties listen, those of others connect.

They are in `job_parameters.common.task_conf.<component>`, as `{name: {listen: [...], connect: [...]}}`; both lists have
roles (`host`) and parties (`host 10000`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_port_name, shown
from fate_flow.core.model.spec import JobParameters, Party, Port
from fate_flow.jobspec.text.document import Node

LISTEN, CONNECT = "listen", "connect"


def read_ports(node: Node) -> Mapping[str, Any] | None:
    """Return the ports, of which only the form is checked; None, with a problem, for anything else."""
    if not node.is_object():
        return None
    for name, one in node.members().items():
        try:
            check_port_name(name, "the name of a port")
        except BadRequest as error:
            one.wrong(error.message)
        if one.is_object():
            one.only((LISTEN, CONNECT), ())
            for key in (LISTEN, CONNECT):
                _check_places(one.at(key))
    return node.value  # type: ignore[no-any-return]  # is_object has looked at it


def _check_places(node: Node) -> None:
    if not isinstance(node.value, list) or not node.value or not all(isinstance(one, str) for one in node.value):
        node.wrong(f"{shown(node.value)} is not a list of roles and parties, such as host and host 10000")


def ports_of(parameters: JobParameters, name: str, running: Collection[Party], task_conf: Node) -> tuple[Port, ...]:
    """Return the ports of a component with the parties where it runs; `parameters` are the initiator's.

    Add a problem for a place that is none of these parties, for two seats of one party, and for a port without a
    pair."""
    given: Mapping[str, Any] = parameters.extra.get("task_conf", {}).get(name, {}).get("ports") or {}
    found = []
    for port_name, lists in given.items():
        node = task_conf.at(name).at("ports").at(port_name)
        port = Port(
            port_name, *(
                tuple(dict.fromkeys(_parties(lists.get(key) or (), node.at(key), running))) for key in (LISTEN, CONNECT)
            ),
        )  # fmt: skip
        _check_pairs(port, node)
        found.append(port)
    return tuple(found)


def _parties(places: Collection[str], node: Node, running: Collection[Party]) -> Iterator[Party]:
    for place in places:
        role, _, party_id = place.partition(" ")
        fitting = [one for one in running if one.role == role and party_id in ("", one.party_id)]
        if not fitting:
            known = ", ".join(map(str, running))
            node.wrong(f"{shown(place)} is neither a role nor a party where the task runs: {known}")
        yield from fitting


def _check_pairs(port: Port, node: Node) -> None:
    pairs = [(one, other) for one in port.connects for other in port.called_by(one)]
    if not pairs and port.listens and port.connects:
        node.wrong("connects no two parties: a worker is not connected with its own party")
    for one, other in pairs:
        if one.party_id == other.party_id:
            node.wrong(f"connects {one} with {other}, two seats of one party, which needs no stream for that")
            return
