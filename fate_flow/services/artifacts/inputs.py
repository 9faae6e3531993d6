"""What a task reads: outputs of earlier tasks, and what its parameters name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fate_flow.core.access.permission import Reads, Thing
from fate_flow.core.model.artifact import Artifact
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.modules import ModuleInfo, output_names
from fate_flow.core.model.spec import Input, JobSpec, Party, Source, TaskSpec
from fate_flow.services.artifacts.kinds import Kinds
from fate_flow.store.contract.transaction import Transaction


@dataclass(frozen=True)
class TaskInputs:
    """What a worker gets: the artifacts by the keys of their inputs, and its parameters."""

    artifacts: tuple[Artifact, ...]
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Upstream:
    """What earlier tasks of a job have made at this party: published in rows, or as their workers have reported it."""

    kinds: Kinds
    tx: Transaction
    spec: JobSpec
    modules: Mapping[str, ModuleInfo]
    reported: Callable[[str], tuple[Artifact, ...]]      # by the task's newest worker here; given the name of the task

    def inputs_of(self, key: TaskKey, is_own: bool) -> TaskInputs | str:
        """Return the inputs of a party task that starts, or text about what is missing. `is_own`: of this party's
        job."""
        task, found = self.spec.tasks[key.name], []
        for one, source, artifacts in self._sources(key, task):
            if not artifacts or not all(artifact.uri for artifact in artifacts):
                nouns = dict.fromkeys(kind.noun for kind in self.kinds.values() if kind.port == one.kind)
                place = f"{source.producer}.{source.alias}"
                return f"input {one.kind}.{one.key}: {place} has no {' or '.join(nouns)} at {key.party}"
            found += [replace(artifact, key=one.key) for artifact in artifacts]
        if problem := why_unreadable(self.kinds, self.tx, task, key.party, is_own):
            return problem
        parameters = task.parameters.get(key.party, {})
        for kind in self.kinds.values():
            parameters = kind.parameters(self.tx, task, key.party, parameters)
        return TaskInputs(tuple(found), parameters)

    def _sources(self, key: TaskKey, task: TaskSpec) -> Iterator[tuple[Input, Source, tuple[Artifact, ...]]]:
        yield from sources_of(self.kinds, self.tx, key, task)
        kept = {name: kind for name, kind in self.kinds.items() if kind.stays_with_worker}
        for one in task.inputs:
            names = [name for name, kind in kept.items() if kind.port == one.kind]
            for source in one.sources if names and one.is_read_at(key.party) else ():
                yield one, source, tuple(each for each in self._reported(source, one.kind) if each.kind in names)

    def _reported(self, source: Source, section: str) -> Iterator[Artifact]:
        producer = self.spec.tasks[source.producer]
        names = output_names(self.modules.get(producer.module), producer.outputs, section, producer.stage)
        for one in self.reported(source.producer):
            if names.get(one.key) == source.alias:
                yield one


def sources_of(
    kinds: Kinds, tx: Transaction, key: TaskKey, task: TaskSpec
) -> Iterator[tuple[Input, Source, tuple[Artifact, ...]]]:
    """Yield each source of the inputs that this party reads with its published artifacts; with none if nothing was
    published.

    Inputs without rows are left out: models and caches."""
    for one in task.inputs:
        readable = [kind for kind in kinds.values() if kind.port == one.kind and not kind.stays_with_worker]
        for source in one.sources if readable and one.is_read_at(key.party) else ():
            found = (kind.published(tx, key.job_id, source.producer, key.party, source.alias) for kind in readable)
            yield one, source, next(filter(None, found), ())


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
