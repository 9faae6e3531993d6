"""The file of grants: its JSON Schema, and the grants that it says (docs/reference/grants.md)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import Any

from fate_flow.core.access.limits import Grants, PartyLimits, TableLimits
from fate_flow.core.access.permission import ALL, EVERYTHING, INCOMING, OUTGOING, Kind, Thing, without_case
from fate_flow.core.model.grammar import check_table_piece, shown
from fate_flow.jobspec.text.document import Findings, Node, nearest, size_of
from fate_flow.jobspec.text.json_schema import Schema, a_list, a_text, a_whole, an_object, by_pattern
from fate_flow.jobspec.text.shape import Shape

VERSION = 1
MOST_USES = 1_000_000

_TABLE = {
    "description": "A table; * means all tables.",
    "type": ["object", "string"],
    "pattern": r"^\*$",
    "patternErrorMessage": f'is neither "{ALL}" nor an object with namespace and name',
    "properties": {
        "namespace": a_text("The namespace of the table.", minLength=1),
        "name": a_text("The name of the table.", minLength=1),
        "columns": a_list(
            a_text("A column.", minLength=1), "The columns that tasks may read, besides the ids; by default all.",
            uniqueItems=True,
        ),
        "uses_a_day": a_whole(
            "How many tasks may read the table in any 24 hours; a retry counts again.", 1, maximum=MOST_USES
        ),
    },
    "required": ["namespace", "name"],
    "additionalProperties": False,
}  # fmt: skip

_STREAMS = a_list(
    a_text(f"A component, such as Command; {ALL} means all.", minLength=1),
    "Components. in: workers of other parties reach a worker here; out: a worker here reaches workers of theirs.",
    uniqueItems=True,
)  # fmt: skip

GRANTS: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "fate_flow grants",
    **an_object(
        "What jobs of other parties may use here: fate_flow grants apply -f grants.yaml -c conf/service_conf.yaml",
        ("version", "parties"),
        version={"description": "The version of this format.", "enum": [VERSION]},
        parties=by_pattern(
            "^[1-9][0-9]{0,9}$", "the id of another party", {"$ref": "#/$defs/party"},
            "By party id. A party gets exactly what is here; {} revokes all. Parties that are not here keep theirs.",
        ),
    ),
    "$defs": {
        "party": an_object(
            "What jobs of one party may use.", (),
            components=a_list(
                a_text(f"A component, such as Reader; {ALL} means all.", minLength=1), "Components.", uniqueItems=True
            ),
            tables=a_list(_TABLE, "Tables of this party."),
            streams=an_object(
                "Components whose workers may have streams with those of other parties.", (),
                **{"in": _STREAMS, "out": _STREAMS},
            ),
            cores=a_whole("How many cores its jobs may hold here at once; by default, as many as there are.", 0),
            gpus=a_whole("How many GPUs its jobs may hold here at once; by default, as many as there are.", 0),
            least_intersection=a_whole(
                "How many ids an intersection must have, or rows a sum, for anything of it to leave this party; by "
                "default any.", 1,
            ),
            programs=a_list(
                a_text("The SHA-256 of a program.", "^sha256:[0-9a-f]{64}$", "sha256: and 64 hex digits"),
                "The programs that the component Command may run for it, which commands.allow has to allow, too; by "
                "default all that commands.allow does.", uniqueItems=True,
            ),
            approval={
                "description": "Whether each of its jobs needs approval; by default, as the configuration says.",
                "type": "boolean",
            },
        ),
    },
}  # fmt: skip

_SHAPE = Shape(GRANTS)


def schema_text() -> str:
    """Return the published text: `docs/grants.schema.json`, `fate_flow grants schema`."""
    return json.dumps(GRANTS, indent=2) + "\n"


def read_grants(document: object, modules: Collection[str], own: str) -> tuple[dict[str, Grants], tuple[str, ...]]:
    """Return the grants by party id, and a text with its path for each problem; with a problem there are no grants.

    `own`: the id of this party, which needs no grants."""
    findings = Findings(strict=True)
    file = Node(document, "", findings)
    if size_of(file) is not None:
        _SHAPE.check(file)
    grants: dict[str, Grants] = {}
    if not findings.problems:
        reader = _Reader({without_case(name): name for name in modules})
        for party_id, node in file.at("parties").members().items():
            if party_id == own:
                node.wrong("is this party itself, whose jobs need no grants")
            grants[party_id] = reader.party(node)
    problems = tuple(one.message for one in findings.problems)
    return ({}, problems) if problems else (grants, ())


class _Reader:
    """The reader of what the schema cannot express."""

    def __init__(self, components: Mapping[str, str]) -> None:
        self._components = components

    def party(self, node: Node) -> Grants:
        things = [thing for one in node.at("components").elements() if (thing := self._component(one)) is not None]
        limits: dict[Thing, TableLimits] = {}
        for one in node.at("tables").elements():
            table = self._table(one)
            if table is None:
                continue
            if table in things:
                one.wrong(f"{table} is there twice")
            things.append(table)
            if (found := _limits_of(one)) != TableLimits():
                limits[table] = found
        things += [thing for one in (INCOMING, OUTGOING) for thing in self._streams(node.at("streams").at(one), one)]
        values: Mapping[str, Any] = node.value
        given = {one.name: values.get(one.name) for one in fields(PartyLimits)}
        if given["programs"] is not None:
            given["programs"] = frozenset(given["programs"])
        of_party = PartyLimits(**given)
        return Grants(frozenset(things), limits, of_party)

    def _component(self, node: Node) -> Thing | None:
        if node.value == ALL:
            return EVERYTHING[Kind.COMPONENT]
        name = self._components.get(without_case(node.value))
        if name is None:
            known = tuple(self._components.values())
            hint = nearest(node.value, known) or f"; known here: {', '.join(sorted(known))}"
            node.wrong(f"{shown(node.value)} is not a component of this server{hint}")
            return None
        return Thing(Kind.COMPONENT, name)

    def _streams(self, node: Node, direction: str) -> Iterator[Thing]:
        for one in node.elements():
            component = self._component(one)
            if component is not None:
                yield Thing(Kind.STREAM, component.name, direction)

    def _table(self, node: Node) -> Thing | None:
        if node.value == ALL:
            return EVERYTHING[Kind.DATASET]
        namespace, name = (node.at(key).checked(check_table_piece) for key in ("namespace", "name"))
        return Thing(Kind.DATASET, name, namespace) if name is not None and namespace is not None else None


def _limits_of(node: Node) -> TableLimits:
    given = node.value if isinstance(node.value, Mapping) else {}
    columns = given.get("columns")
    return TableLimits(None if columns is None else frozenset(columns), given.get("uses_a_day"))
