"""Permissions: which components and tables of this party the jobs of another party may use.

Two switches of the configuration turn the checks on, as in FATE. This party's own jobs are not checked.
`services/workers/allowed.py` looks up what was granted, when a job comes and when one of its workers starts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_table_piece, shown
from fate_flow.core.model.spec import JobSpec, Party, TaskSpec

ALL = "*"
MOST_TABLES = 1_000         # in one request: each table is a row in the database and a line in the log
_MOST_NAMED = 100           # unknown components that an answer names


class Kind(Enum):
    COMPONENT = "component"
    DATASET = "dataset"
    STREAM = "stream"


INCOMING, OUTGOING = "in", "out"
"""The directions of streams: workers of other parties reach a worker here, and a worker here reaches theirs."""
_DIRECTIONS = {INCOMING: "incoming", OUTGOING: "outgoing"}


@dataclass(frozen=True)
class Thing:
    """A component, named by its module, a table, or the streams of a component in one direction, which is their
    namespace. The name `ALL` means everything of the kind; of streams, all in this direction."""

    kind: Kind
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        if self.kind is Kind.STREAM:
            whose = "all components" if self.name == ALL else f"component {self.name}"
            return f"{_DIRECTIONS[self.namespace]} streams of {whose}"
        return f"component {self.name}" if self.kind is Kind.COMPONENT else f"table {self.namespace}/{self.name}"

    @property
    def all_alike(self) -> Thing:
        """The thing that stands for this one and all others of its kind."""
        return Thing(Kind.STREAM, ALL, self.namespace) if self.kind is Kind.STREAM else EVERYTHING[self.kind]


Reads = Callable[[TaskSpec, Party], Iterable[Thing]]
"""Returns what a task reads at a party by its parameters, as it has to be granted (services/artifacts/inputs.py)."""

EVERYTHING = {Kind.COMPONENT: Thing(Kind.COMPONENT, ALL), Kind.DATASET: Thing(Kind.DATASET, ALL, ALL)}


@dataclass(frozen=True)
class PermissionRule:
    """What a party checks before it accepts a job of another party."""

    components: bool = False
    datasets: bool = False
    is_default: bool = False             # because the server is connected with other machines, and no switch is set

    @property
    def is_on(self) -> bool:
        return self.components or self.datasets

    def concerns(self, thing: Thing) -> bool:
        return self.datasets if thing.kind is Kind.DATASET else self.components


def missing(
    rule: PermissionRule, spec: JobSpec, party: Party, granted: Collection[Thing], reads: Reads, of_task: str = ""
) -> list[Thing]:
    """Return what the job, or only its task `of_task`, needs at this seat without a grant to its initiator.

    Each thing appears once, in the order of the job."""
    needed = [thing for thing in _needed(spec, party, reads, of_task) if rule.concerns(thing)]
    missing_things = (thing for thing in needed if thing not in granted and thing.all_alike not in granted)
    return list(dict.fromkeys(missing_things))


def _needed(spec: JobSpec, party: Party, reads: Reads, of_task: str) -> Iterator[Thing]:
    for task in spec.tasks_of(party):
        if party not in task.passed_at and of_task in ("", task.name):
            yield Thing(Kind.COMPONENT, task.module)
            if any(port.callers_of(party) for port in task.ports):
                yield Thing(Kind.STREAM, task.module, INCOMING)
            if any(port.called_by(party) for port in task.ports):
                yield Thing(Kind.STREAM, task.module, OUTGOING)
            yield from reads(task, party)


# ------------------------------------------------------------------ the form in requests and answers


def read_things(
    body: Mapping[str, Any], modules: Collection[str], prefix: str = ""
) -> tuple[list[Thing], list[str]]:
    """Read the components and tables that a body names, and return them with one text for each unknown component.

    `component` is "a,b" or "*"; `dataset` is {namespace, name}, a list of such objects, or "*". `prefix` stands before
    both keys. Unknown components are ignored, because scripts also name components that only FATE has.

    Raises BadRequest if a value is malformed, or if the body names nothing, or only unknown components."""
    component, dataset = f"{prefix}component", f"{prefix}dataset"
    names = _names_of_components(component, body.get(component))
    known = {ALL: EVERYTHING[Kind.COMPONENT]}
    known |= {without_case(module): Thing(Kind.COMPONENT, module) for module in modules}
    found = [known[without_case(name)] for name in names if without_case(name) in known]
    found += _datasets(dataset, body.get(dataset))
    unknown = list(dict.fromkeys(name for name in names if without_case(name) not in known))
    if unknown and not found:
        raise BadRequest(f"{component}: {shown(unknown[0])} is not one of {ALL}, {', '.join(sorted(modules))}")
    if not found:
        raise BadRequest(f"required argument are missing: {component} or {dataset}; the body names nothing")
    return list(dict.fromkeys(found)), list(_ignored(component, unknown))


def _ignored(key: str, names: list[str]) -> Iterator[str]:
    for name in names[:_MOST_NAMED]:
        yield f"{key}: {shown(name)} is not a component of this server; it is ignored"
    if more := names[_MOST_NAMED:]:
        yield f"{key}: ... and {len(more)} more"


def _names_of_components(key: str, value: object) -> list[str]:
    names = value.split(",") if isinstance(value, str) else [] if value is None else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadRequest(f'{key}: {shown(value)} is not "*" or names separated by commas')
    return [name.strip() for name in names]


def without_case(name: str) -> str:
    """Return one form for both spellings of a component: SecureSum in a DSL, secure_sum in FATE's registry."""
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
    """Return the things in the form of an answer to clients, in the order of namespace and name."""
    return {
        "component": [one.name for one in sorted(things, key=_by_name) if one.kind is Kind.COMPONENT],
        "dataset": [
            ALL if one == EVERYTHING[Kind.DATASET] else {"namespace": one.namespace, "name": one.name}
            for one in sorted(things, key=_by_name) if one.kind is Kind.DATASET
        ],
    }


def _by_name(thing: Thing) -> tuple[str, str]:
    return thing.namespace, thing.name
