"""What a task reads: outputs of earlier tasks, and what its parameters name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fate_flow.core.access.permission import Reads, Thing
from fate_flow.core.model.artifact import Artifact
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.modules import DescribesArtifacts, ModuleInfo, output_names
from fate_flow.core.model.spec import Input, JobSpec, ModelReference, Party, Source, TaskSpec
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
    why_unknown: Callable[[str], str]                    # why this party cannot know that; empty if it can
    stored: Callable[[ModelReference], Artifact | str]   # in the store of models, or text that says why it is not

    def inputs_of(self, key: TaskKey, is_own: bool) -> TaskInputs | str:
        """Return the inputs of a party task that starts, or text about what is missing. `is_own`: of this party's
        job."""
        task, found = self.spec.tasks[key.name], []
        for one, source, artifacts in self._sources(key, task):
            if not artifacts or not all(artifact.uri for artifact in artifacts):
                nouns = dict.fromkeys(kind.noun for kind in self.kinds.values() if kind.port == one.kind)
                missing = f"{source.producer}.{source.alias} has no {' or '.join(nouns)} at {key.party}"
                return f"input {one.kind}.{one.key}: {self.why_unknown(source.producer) or missing}"
            found += [replace(artifact, key=one.key) for artifact in artifacts]
        for one in task.inputs:
            for reference in one.models if one.is_read_at(key.party) else ():
                model = self.stored(reference)
                if isinstance(model, str):
                    return f"input {one.kind}.{one.key}: {model}"
                found.append(replace(model, key=one.key))
        if problem := why_unreadable(self.kinds, self.tx, task, key.party, is_own):
            return problem
        found += self._stored(key, task)
        parameters = task.parameters.get(key.party, {})
        for kind in self.kinds.values():
            parameters = kind.parameters(self.tx, task, key.party, parameters)
        return TaskInputs(tuple(found), parameters)

    def _stored(self, key: TaskKey, task: TaskSpec) -> Iterator[Artifact]:
        """Yield what the inputs read from the store of this party; that it is there was checked."""
        for name, several in task.stored.get(key.party, {}).items():
            for one in several:
                found = (kind.stored(self.tx, one, key.party) for kind in self.kinds.values())
                yield from (replace(artifact, key=name) for artifact in found if artifact is not None)

    def _sources(self, key: TaskKey, task: TaskSpec) -> Iterator[tuple[Input, Source, tuple[Artifact, ...]]]:
        for one, source in _read_by(self.kinds, task, key.party):
            kept = tuple(self._reported(one, source)) if self._prefers_kept(task, one) else ()
            published = kept or _published(self.kinds, self.tx, key, one, source)
            yield one, source, published or tuple(self._reported(one, source))

    def _prefers_kept(self, task: TaskSpec, one: Input) -> bool:
        """Return whether the input takes, before others, a kind that stays with its worker: a data frame of which there
        is a table, too."""
        module = self.modules.get(task.module)
        info = module.inputs.get(one.key) if isinstance(module, DescribesArtifacts) else None
        return info is not None and len(info.kinds) > 1 and self._stays(info.kinds[0])

    def _stays(self, name: str) -> bool:
        return name in self.kinds and self.kinds[name].stays_with_worker

    def _reported(self, one: Input, source: Source) -> Iterator[Artifact]:
        """Yield what the source is, of kinds that stay with their worker."""
        names = {name for name, kind in self.kinds.items() if kind.port == one.kind and kind.stays_with_worker}
        producer = self.spec.tasks[source.producer]
        outputs = output_names(self.modules.get(producer.module), producer.outputs, one.kind, producer.stage)
        for artifact in self.reported(source.producer) if names else ():
            if artifact.kind in names and outputs.get(artifact.key) == source.alias:
                yield artifact


def sources_of(
    kinds: Kinds, tx: Transaction, key: TaskKey, task: TaskSpec
) -> Iterator[tuple[Input, Source, tuple[Artifact, ...]]]:
    """Yield each source of the inputs that this party reads with its published artifacts; there are none if nothing was
    published, or if its kind is not."""
    for one, source in _read_by(kinds, task, key.party):
        yield one, source, _published(kinds, tx, key, one, source)


def _read_by(kinds: Kinds, task: TaskSpec, party: Party) -> Iterator[tuple[Input, Source]]:
    """Yield the sources that this party reads. Inputs that no kind serves are left out: caches."""
    ports = {kind.port for kind in kinds.values()}
    for one in task.inputs:
        if one.kind in ports and one.is_read_at(party):
            yield from ((one, source) for source in one.sources)


def _published(kinds: Kinds, tx: Transaction, key: TaskKey, one: Input, source: Source) -> tuple[Artifact, ...]:
    found = (
        kind.published(tx, key.job_id, source.producer, key.party, source.alias)
        for kind in kinds.values() if kind.port == one.kind
    )  # fmt: skip
    return next(filter(None, found), ())


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
