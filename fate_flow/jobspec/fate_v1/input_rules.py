"""Check the inputs in a DSL: required inputs are given, and every party that reads one can have it.

Modules that describe all their inputs and outputs are checked by the role of each party and the stage of the task.
Others take more keys than they describe, as FATE v1 does: of these, only required tables and missing ones are checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from fate_flow.core.model.artifact import DATA, MODEL, TABLE, ArtifactInfo, ArtifactInfos, keys_of
from fate_flow.core.model.modules import DescribesArtifacts, ModuleInfo, ReadsAndMakesTables, output_names
from fate_flow.core.model.spec import Input, Party, Source, Stored, TaskSpec
from fate_flow.jobspec.fate_v1.dsl import Component
from fate_flow.jobspec.text.document import Node

_MOST_NAMED = 5
_NOBODY: frozenset[Party] = frozenset()


def inputs_read(
    inputs: tuple[Input, ...], module: ModuleInfo, parties: tuple[Party, ...], stage: str
) -> tuple[Input, ...]:
    """Return the inputs of a task with the parties that read each of them, by the description of its module.

    A list of models, as FATE v1 has it, becomes the module's only input for models in this stage, if it has one."""
    if not isinstance(module, DescribesArtifacts):
        return tuple(replace(one, parties=_NOBODY) if one.kind == MODEL else one for one in inputs)
    models = keys_of(module.inputs, MODEL, stage)
    found = []
    for one in inputs:
        if one.kind == one.key == MODEL and len(models) == 1:
            one = replace(one, key=models[0])
        info = module.inputs.get(one.key)
        if info is not None and not (module.takes_other_keys and one.kind == DATA):
            counted = (party for party in parties if info.counts(party.role, stage) and one.is_read_at(party))
            one = replace(one, parties=frozenset(counted))
        elif one.kind == MODEL:
            one = replace(one, parties=_NOBODY)
        found.append(one)
    return tuple(found)


StoredInputs = Mapping[Party, Mapping[str, tuple[Stored, ...]]]


def stored_read(stored: StoredInputs, module: ModuleInfo, stage: str) -> StoredInputs:
    """Return what parties read from their stores, without inputs that only others of them have in this stage."""
    infos = module.inputs if isinstance(module, DescribesArtifacts) else {}
    elsewhere = {
        key for key, info in infos.items() if any(info.counts(one.role, stage) for one in stored if key in stored[one])
    }
    found = {
        party: {
            key: several for key, several in inputs.items()
            if key not in elsewhere or infos[key].counts(party.role, stage)
        }
        for party, inputs in stored.items()
    }  # fmt: skip
    return {party: inputs for party, inputs in found.items() if inputs}


@dataclass(frozen=True)
class InputRules:
    modules: Mapping[str, ModuleInfo]
    tasks: Mapping[str, TaskSpec]
    withheld: Collection[Party] = ()

    def check(self, components: Iterable[Component]) -> None:
        """Add a problem for each input that cannot exist when its task begins."""
        for one in components:
            task, module = self.tasks[one.name], self.modules[one.module]
            running = [party for party in task.parties if party not in task.passed_at]
            if not running or not _has_stage(module, task):      # the problem of the stage is already reported
                continue
            self._check_stored(one, task, module, running)
            if isinstance(module, DescribesArtifacts) and not module.takes_other_keys:
                wrong = {put for put in task.inputs if self._is_wrong_key(put, one, task, module, running)}
                self._check_missing(one, task, module, running)
                _check_outputs(one, task, module)
                self._check_sources(one, replace(task, inputs=tuple(put for put in task.inputs if put not in wrong)))
            elif isinstance(module, ReadsAndMakesTables):
                self._check_needed(one, task, module, running)
                self._check_sources(one, task)

    # ------------------------------------------------------------------ keys

    def _check_stored(
        self, component: Component, task: TaskSpec, module: ModuleInfo, running: list[Party]
    ) -> None:
        """Add a problem for each input that a party would read from its store, and that the module does not take so."""
        infos = module.inputs if isinstance(module, DescribesArtifacts) else {}
        data, problems = component.node.at("input").at(DATA), dict[tuple[str, str], None]()
        for party in running:
            for key, several in task.stored.get(party, {}).items():
                if problem := self._why_not_stored(key, several, infos, task, party):
                    problems[key, problem] = None
        for key, problem in problems:
            data.at(key).wrong(problem)

    def _why_not_stored(
        self, key: str, several: tuple[Stored, ...], infos: ArtifactInfos, task: TaskSpec, party: Party
    ) -> str:
        info, known = infos.get(key), keys_of(infos, DATA, task.stage)
        if info is None or info.section != DATA:
            return f"{task.module} has no such data input; in stage {task.stage} it has: {', '.join(known) or 'none'}"
        if not info.counts(party.role, task.stage):
            return f"{task.module} reads it {_where(info, task.stage)}"
        if TABLE not in info.kinds:
            return f"{several[0]} is a table; {task.module} reads {' or '.join(info.kinds)}"
        if len(several) > 1 and not info.is_multi:
            return f"names {len(several)} tables; {task.module} takes one"
        if any(one.key == key and one.is_read_at(party) for one in task.inputs if one.kind == DATA):
            return f"is given twice at {party}: as an output of this job, and as a table that is there already"
        return ""

    def _without(self, task: TaskSpec, key: str, needing: Iterable[Party]) -> list[Party]:
        """Return the parties that do not read this input from their store, as far as that is known here."""
        return [one for one in needing if one not in self.withheld and key not in task.stored.get(one, {})]

    def _check_needed(
        self, component: Component, task: TaskSpec, module: ReadsAndMakesTables, running: list[Party]
    ) -> None:
        data = component.node.at("input").at("data")
        given = {one.key for one in component.inputs if one.kind == DATA}
        for key in module.needed_inputs:
            read = {party: _count_at(party, task, key) for party in running}
            if (most := max(read.values(), default=0)) > 1:
                data.at(key).wrong(f"names {most} tables; {component.module} takes one")
            elif key in given and (without := self._without(task, key, (one for one in read if not read[one]))):
                data.at(key).wrong(f"is missing at {_named(without)}; {component.module} needs a table there")
            elif key not in given and not data.at(key).is_given and self._without(task, key, running):
                # otherwise its problem is already reported
                data.at(key).wrong(f"is missing; {component.module} needs a table, such as reader_0.data")

    def _is_wrong_key(
        self, one: Input, component: Component, task: TaskSpec, module: DescribesArtifacts, running: list[Party]
    ) -> bool:
        """Return whether the module does not take this input here; its problem is added then."""
        node, info = _node_of(component, one), module.inputs.get(one.key)
        if info is None:
            _refuse_key(node, component, one, module, task.stage)
        elif info.section != one.kind:
            node.wrong(f"{component.module} takes it as {info.section}, not as {one.kind}")
        elif not any(info.counts(party.role, task.stage) for party in running):
            node.wrong(f"{component.module} reads it {_where(info, task.stage)}")
        elif (count := len(one.sources) + len(one.models)) > 1 and not info.is_multi:
            node.wrong(f"names {count} outputs; {component.module} takes one")
        else:
            return False
        return True

    def _check_missing(
        self, component: Component, task: TaskSpec, module: DescribesArtifacts, running: list[Party]
    ) -> None:
        for key, info in module.inputs.items():
            given = [one for one in task.inputs if one.key == key]
            needing = [
                party for party in running
                if info.counts(party.role, task.stage) and not any(one.is_read_at(party) for one in given)
            ]  # fmt: skip
            node = component.node.at("input").at(info.section)
            is_reported = node.at(key).is_given or (info.section == MODEL and isinstance(node.value, list))
            without = self._without(task, key, needing)
            if without and not info.is_optional and (given or not is_reported):
                node.at(key).wrong(
                    f"is missing; {component.module} needs it in stage {task.stage} at {_named(without)}: "
                    f"an output of kind {' or '.join(info.kinds)}{self._such_as(component, info)}"
                )

    def _such_as(self, component: Component, info: ArtifactInfo) -> str:
        """Return text with an output of an earlier task that would do; empty if there is none."""
        for name, task in self.tasks.items():
            if name == component.name:
                break
            for output, made in self._outputs_of(task, info.section).items():
                if set(made.kinds) & set(info.kinds):
                    return f", such as {name}.{output}"
        return ""

    # ------------------------------------------------------------------ sources

    def _check_sources(self, component: Component, task: TaskSpec) -> None:
        module = self.modules[task.module]
        inputs = module.inputs if isinstance(module, DescribesArtifacts) else {}
        for one in task.inputs:
            node = _node_of(component, one)
            for source in one.sources if one.kind in (DATA, MODEL) else ():
                if problem := self._why_not(source, one, inputs.get(one.key), task):
                    node.wrong(problem)

    def _why_not(self, source: Source, one: Input, info: ArtifactInfo | None, task: TaskSpec) -> str:
        """Return why the task cannot read this output; empty if it can."""
        producer = self.tasks.get(source.producer)
        if producer is None or not _has_stage(self.modules[producer.module], producer):   # it has one itself
            return ""
        name = f"{source.producer}.{source.alias}"
        made = self._outputs_of(producer, one.kind).get(source.alias)
        if made is None and (problem := self._of_another_stage(producer, source.alias)):
            return problem
        if made is not None and info is not None:
            if not set(made.kinds) & set(info.kinds):
                return f"{name} is of kind {' or '.join(made.kinds)}; {task.module} reads {' or '.join(info.kinds)}"
            if made.is_multi and not info.is_multi:
                return f"{name} has several artifacts; {task.module} takes one"
        without = [
            party for party in task.parties
            if one.is_read_at(party) and not self._can_have(producer, one.kind, made, party, task)
        ]  # fmt: skip
        if not without:
            return ""
        what = "table" if one.kind == DATA and not self._is_described(producer) else source.alias
        return f"{source.producer} makes no {what} at {_named(without)}, where {task.name} would read it"

    def _outputs_of(self, task: TaskSpec, section: str) -> dict[str, ArtifactInfo]:
        """Return the described outputs of a task in its stage, by their names in the document."""
        module = self.modules[task.module]
        if not isinstance(module, DescribesArtifacts):
            return {}
        names = output_names(module, task.outputs, section, task.stage)
        return {name: module.outputs[key] for key, name in names.items()}

    def _is_described(self, task: TaskSpec) -> bool:
        module = self.modules[task.module]
        return isinstance(module, DescribesArtifacts) and not module.takes_other_keys

    def _of_another_stage(self, producer: TaskSpec, alias: str) -> str:
        module = self.modules[producer.module]
        if not isinstance(module, DescribesArtifacts) or not self._is_described(producer):
            return ""
        info = module.outputs.get(alias)
        made = [key for key, one in module.outputs.items() if one.is_of_stage(producer.stage)]
        what = f"no {alias}" if info is None else f"{alias} {_where(info, producer.stage)}"
        return f"{producer.module} makes {what}; the outputs of {producer.name} are: {', '.join(made) or 'none'}"

    def _can_have(
        self, producer: TaskSpec, kind: str, made: ArtifactInfo | None, party: Party, reader: TaskSpec
    ) -> bool:
        """Return whether the party will have the output, or does not need it."""
        if party in reader.passed_at:
            return True
        if party not in producer.parties or party in producer.passed_at:
            return False
        if made is not None and not made.counts(party.role, producer.stage):
            return False
        if kind != DATA or party in self.withheld:
            # The parameters of the party say whether there is a table. The initiator knows and has checked them.
            return True
        module = self.modules[producer.module]
        given = producer.parameters.get(party, {})
        return not isinstance(module, ReadsAndMakesTables) or module.makes_table(given, party.role)


def _count_at(party: Party, task: TaskSpec, key: str) -> int:
    """Return how many outputs of tasks a party reads for a data input."""
    return sum(len(one.sources) for one in task.inputs if one.kind == DATA and one.key == key and one.is_read_at(party))


def _has_stage(module: ModuleInfo, task: TaskSpec) -> bool:
    return not isinstance(module, DescribesArtifacts) or not module.stages or task.stage in module.stages


def _node_of(component: Component, one: Input) -> Node:
    """Return the place of an input in the document; models may stand there as a list, without keys."""
    node = component.node.at("input").at(one.kind)
    return node if isinstance(node.value, list) else node.at(one.key)


def _refuse_key(node: Node, component: Component, one: Input, module: DescribesArtifacts, stage: str) -> None:
    known = keys_of(module.inputs, one.kind, stage)
    hint = node.nearest(one.key, known) or f"; in stage {stage} it has: {', '.join(known) or 'none'}"
    if one.key == one.kind and isinstance(node.value, list) and known:
        node.wrong(f"{component.module} has several inputs of this kind, give them by key: {', '.join(known)}")
    else:
        node.wrong(f"{component.module} has no such {one.kind} input{hint}")


def _check_outputs(component: Component, task: TaskSpec, module: DescribesArtifacts) -> None:
    """Add a problem for each declared output beyond those that the module makes."""
    for kind in dict.fromkeys(one.kind for one in task.outputs):
        keys = keys_of(module.outputs, kind, task.stage)
        declared = component.node.at("output").at(kind).elements()
        for one in () if {each.value for each in declared} <= module.outputs.keys() else declared[len(keys):]:
            one.wrong(f"{component.module} makes {len(keys)} {kind} outputs in stage {task.stage}: "
                      f"{', '.join(keys) or 'none'}")


def _where(info: ArtifactInfo, stage: str) -> str:
    """Return text that says where an input or an output exists, of one that does not exist in this stage or here."""
    if info.stages and stage not in info.stages:
        return f"in stage {' and '.join(sorted(info.stages))}, not in stage {stage}"
    return f"at role {' and '.join(sorted(info.roles))} only"


def _named(parties: Iterable[Party]) -> str:
    every = list(parties)
    return ", ".join(map(str, every[:_MOST_NAMED])) + (", ..." if every[_MOST_NAMED:] else "")

