"""`parties` and `input_parties` of a component: where it runs, and which party reads which of its sources.

They are in `job_parameters.common.task_conf.<component>`. `parties` is a list of roles (`host`) and parties
(`host 10000`), by default all with a role of the component. `input_parties` has such a list for each source of an
input, by the input's section and key: `{"data.input_data": [["guest"], ["host"]]}`; by default all parties of the task
read all sources. A DAG of FATE 2 says both in its own words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from fate_flow.core.model.grammar import shown
from fate_flow.core.model.spec import Input, JobParameters, Party
from fate_flow.jobspec.text.document import Node

PARTIES, INPUT_PARTIES = "parties", "input_parties"
_WHAT = "a list of roles and parties, such as host and host 10000"


def read_parties(node: Node) -> list[str] | None:
    """Return the list, of which only the form is checked; None, with a problem, for anything else."""
    if not node.value or not _is_list_of_text(node.value):
        node.wrong(f"{shown(node.value)} is not {_WHAT}")
        return None
    found: list[str] = node.value
    return found


def read_input_parties(node: Node) -> Mapping[str, Any] | None:
    """Return the lists, of which only the form is checked; None, with a problem, for anything else."""
    if not node.is_object():
        return None
    lists = [(key, one.elements()) for key, one in node.members().items()]
    wrong = [one for _, every in lists for one in every if not _is_list_of_text(one.value)]
    for one in wrong:
        one.wrong(f"{shown(one.value)} is not {_WHAT}")
    return None if wrong else {key: [one.value for one in every] for key, every in lists}


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def parties_of(
    parameters: JobParameters, name: str, fitting: tuple[Party, ...], task_conf: Node
) -> tuple[Party, ...]:
    """Return those of the fitting parties where a component runs; `parameters` are the initiator's.

    Add a problem for a place that is none of them."""
    given = _of_task(parameters, name).get(PARTIES)
    if given is None:
        return fitting
    node = task_conf.at(name).at(PARTIES)
    named = set(_named(given, node, fitting))
    return tuple(party for party in fitting if party in named)


def read_by_parties(
    inputs: tuple[Input, ...], parameters: JobParameters, name: str, parties: tuple[Party, ...], task_conf: Node
) -> tuple[Input, ...]:
    """Return the inputs of a component, each with the parties that read it: one for each source, where they differ.

    Add a problem for a number of lists that is not that of the sources, and for a place that is no party of the
    task."""
    given = _of_task(parameters, name).get(INPUT_PARTIES) or {}
    node, found = task_conf.at(name).at(INPUT_PARTIES), []
    for one in inputs:
        lists = given.get(f"{one.kind}.{one.key}")
        of_input, count = node.at(f"{one.kind}.{one.key}"), len(one.sources) + len(one.models)
        if lists is None:
            found.append(one)
        elif len(lists) != count:
            of_input.wrong(f"has {len(lists)} lists for {count} sources")
            found.append(one)
        else:
            readers = [frozenset(_named(each, of_input, parties)) for each in lists]
            found += _divided(one, readers)
    return tuple(found)


def _divided(one: Input, readers: list[frozenset[Party]]) -> Iterator[Input]:
    if len(set(readers)) == 1:
        yield replace(one, parties=readers[0])
        return
    sources, models = readers[:len(one.sources)], readers[len(one.sources):]
    for source, parties in zip(one.sources, sources, strict=True):
        yield replace(one, sources=(source,), models=(), parties=parties)
    for model, parties in zip(one.models, models, strict=True):
        yield replace(one, sources=(), models=(model,), parties=parties)


def _of_task(parameters: JobParameters, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = parameters.extra.get("task_conf", {}).get(name, {})
    return found


def _named(places: Collection[str], node: Node, parties: Collection[Party]) -> Iterator[Party]:
    for place in places:
        role, _, party_id = place.partition(" ")
        fitting = [one for one in parties if one.role == role and party_id in ("", one.party_id)]
        if not fitting:
            node.wrong(f"{shown(place)} is no party that the component can have: {', '.join(map(str, parties))}")
        yield from fitting
