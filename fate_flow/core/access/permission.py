"""What a party lets the jobs of another one use here: components, and tables that their readers hand on.

Two switches of the configuration, as FATE has them. What this party's own jobs use is nobody's business but its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_table_piece, shown
from fate_flow.core.model.spec import JobSpec, Party

ALL = "*"
MOST_TABLES = 1_000         # of one request: each is a row, and stands in the log
_MOST_NAMED = 100           # of what is ignored


class Kind(Enum):
    COMPONENT = "component"
    DATASET = "dataset"


@dataclass(frozen=True)
class Thing:
    """A component, by the name of its module, or a table; `ALL` of the kind."""

    kind: Kind
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"component {self.name}" if self.kind is Kind.COMPONENT else f"table {self.namespace}/{self.name}"


EVERYTHING = {Kind.COMPONENT: Thing(Kind.COMPONENT, ALL), Kind.DATASET: Thing(Kind.DATASET, ALL, ALL)}


@dataclass(frozen=True)
class PermissionRule:
    """What is looked at before a job of another party is taken."""

    components: bool = False
    datasets: bool = False

    @property
    def is_on(self) -> bool:
        return self.components or self.datasets

    def concerns(self, thing: Thing) -> bool:
        return self.components if thing.kind is Kind.COMPONENT else self.datasets


def missing(
    rule: PermissionRule, spec: JobSpec, party: Party, granted: Collection[Thing], of_task: str = ""
) -> list[Thing]:
    """What the job, or one of its tasks, needs at this seat and its initiator was not granted, each once, in the order
    of the job."""
    needed = [thing for thing in _needed(spec, party, of_task) if rule.concerns(thing)]
    missing_things = (thing for thing in needed if thing not in granted and EVERYTHING[thing.kind] not in granted)
    return list(dict.fromkeys(missing_things))


def _needed(spec: JobSpec, party: Party, of_task: str) -> Iterator[Thing]:
    for task in spec.tasks_of(party):
        if party not in task.passed_at and of_task in ("", task.name):
            yield Thing(Kind.COMPONENT, task.module)
            if (table := task.table_at(party)) is not None:
                namespace, name = table
                yield Thing(Kind.DATASET, name, namespace)
            if (output := task.output_at(party)) is not None:
                yield Thing(Kind.DATASET, f"{output.task}.{output.data_name}", f"output_{output.job_id}")


# ------------------------------------------------------------------ as clients write it


def read_things(
    body: Mapping[str, Any], modules: Collection[str], prefix: str = ""
) -> tuple[list[Thing], list[str]]:
    """What `component` ("a,b" or "*") and `dataset` ({namespace, name}, a list of such, or "*") of a body name, and in
    words which components are not known here: scripts name those of FATE. The prefix stands before both keys.

    Raises BadRequest for what is not well formed, and for a body that names nothing, or nothing that is known."""
    component, dataset = f"{prefix}component", f"{prefix}dataset"
    names = _names_of_components(component, body.get(component))
    known = {ALL: EVERYTHING[Kind.COMPONENT]}
    known |= {_without_case(module): Thing(Kind.COMPONENT, module) for module in modules}
    found = [known[_without_case(name)] for name in names if _without_case(name) in known]
    found += _datasets(dataset, body.get(dataset))
    unknown = list(dict.fromkeys(name for name in names if _without_case(name) not in known))
    if unknown and not found:
        raise BadRequest(f"{component}: {shown(unknown[0])} is not one of {ALL}, {', '.join(sorted(modules))}")
    if not found:
        raise BadRequest(f"required argument are missing: {component} or {dataset}; it names nothing")
    return list(dict.fromkeys(found)), list(_ignored(component, unknown))


def _ignored(key: str, names: list[str]) -> Iterator[str]:
    for name in names[:_MOST_NAMED]:
        yield f"{key}: {shown(name)} is no component of this server; it is ignored"
    if more := names[_MOST_NAMED:]:
        yield f"{key}: ... and {len(more)} more"


def _names_of_components(key: str, value: object) -> list[str]:
    names = value.split(",") if isinstance(value, str) else [] if value is None else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadRequest(f'{key}: {shown(value)} is not "*" or names with commas between them')
    return [name.strip() for name in names]


def _without_case(name: str) -> str:
    """A component has two spellings: SecureSum in a DSL, secure_sum in FATE's registry."""
    return name.replace("_", "").lower()


def _datasets(key: str, value: object) -> Iterator[Thing]:
    if value == ALL:
        yield EVERYTHING[Kind.DATASET]
    elif value is not None:
        several = value if isinstance(value, list) else [value]
        if len(several) > MOST_TABLES:
            raise BadRequest(f"{key}: has {len(several)} tables; {MOST_TABLES} is the most at once")
        for one in several:
            if one == ALL:
                yield EVERYTHING[Kind.DATASET]
                continue
            if not isinstance(one, Mapping):
                raise BadRequest(f'{key}: {shown(one)} is not "*" or an object with namespace and name')
            namespace = check_table_piece(one.get("namespace"), f"{key}.namespace")
            yield Thing(Kind.DATASET, check_table_piece(one.get("name"), f"{key}.name"), namespace)


def as_written(things: Collection[Thing]) -> dict[str, list[Any]]:
    """The same as clients read it."""
    return {
        "component": [one.name for one in sorted(things, key=_by_name) if one.kind is Kind.COMPONENT],
        "dataset": [
            ALL if one == EVERYTHING[Kind.DATASET] else {"namespace": one.namespace, "name": one.name}
            for one in sorted(things, key=_by_name) if one.kind is Kind.DATASET
        ],
    }


def _by_name(thing: Thing) -> tuple[str, str]:
    return thing.namespace, thing.name
