"""What a task reads: outputs of earlier tasks, and what its parameters name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fate_flow.core.access.permission import Reads, Thing
from fate_flow.core.model.artifact import Artifact
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Input, Party, Source, TaskSpec
from fate_flow.services.artifacts.kinds import Kinds
from fate_flow.store.contract.transaction import Transaction


@dataclass(frozen=True)
class TaskInputs:
    """What a worker gets: the artifacts by the keys of their inputs, and its parameters."""

    artifacts: tuple[Artifact, ...]
    parameters: Mapping[str, Any]


def inputs_of(kinds: Kinds, tx: Transaction, key: TaskKey, task: TaskSpec, is_own: bool) -> TaskInputs | str:
    """Return the inputs of a party task that starts, or text about what is missing. `is_own`: of this party's job."""
    found = []
    for one, source, artifact in sources_of(kinds, tx, key, task):
        if artifact is None or not artifact.uri:
            nouns = " or ".join(kind.noun for kind in kinds.values() if kind.port == one.kind)
            return f"input {one.kind}.{one.key}: {source.producer}.{source.alias} has no {nouns} at {key.party}"
        found.append(replace(artifact, key=one.key))
    if problem := why_unreadable(kinds, tx, task, key.party, is_own):
        return problem
    parameters = task.parameters.get(key.party, {})
    for kind in kinds.values():
        parameters = kind.parameters(tx, task, key.party, parameters)
    return TaskInputs(tuple(found), parameters)


def sources_of(
    kinds: Kinds, tx: Transaction, key: TaskKey, task: TaskSpec
) -> Iterator[tuple[Input, Source, Artifact | None]]:
    """Yield each source of the inputs with its artifact at this party; None if nothing was published.

    Inputs that no kind serves are left out: models and caches."""
    for one in task.inputs:
        readable = [kind for kind in kinds.values() if kind.port == one.kind]
        for source in one.sources if readable else ():
            found = (kind.published(tx, key.job_id, source.producer, key.party, source.alias) for kind in readable)
            yield one, source, next((artifact for artifact in found if artifact is not None), None)


def why_unreadable(
    kinds: Kinds, tx: Transaction, task: TaskSpec, party: Party, is_own: bool, may_come: bool = False
) -> str:
    """Return why the task cannot read what its parameters name; empty if it can (see `ArtifactKind.why_unreadable`)."""
    problems = (kind.why_unreadable(tx, task, party, is_own, may_come) for kind in kinds.values())
    return next(filter(None, problems), "")


def named_things(kinds: Kinds) -> Reads:
    """Return the function that yields what a task reads by its parameters, as it has to be granted."""
    return partial(_named_things, kinds)


def _named_things(kinds: Kinds, task: TaskSpec, party: Party) -> Iterator[Thing]:
    for kind in kinds.values():
        yield from kind.grants(task, party)
