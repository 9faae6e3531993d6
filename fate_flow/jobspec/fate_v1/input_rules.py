"""Check the inputs in a DSL: required inputs are given, and every party that reads one can have it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fate_flow.core.model.modules import ModuleInfo, ReadsAndMakesTables
from fate_flow.core.model.spec import Party, Source, TaskSpec
from fate_flow.jobspec.fate_v1.dsl import Component

_MOST_NAMED = 5


@dataclass(frozen=True)
class InputRules:
    modules: Mapping[str, ModuleInfo]
    tasks: Mapping[str, TaskSpec]
    withheld: Collection[Party] = ()

    def check(self, components: Iterable[Component]) -> None:
        """Add a problem for each input that cannot exist when its task begins."""
        for one in components:
            task, module = self.tasks[one.name], self.modules[one.module]
            is_run = any(party not in task.passed_at for party in task.parties)
            if is_run and isinstance(module, ReadsAndMakesTables):
                self._check_needed(one, module)
                self._check_sources(one, task)

    def _check_needed(self, component: Component, module: ReadsAndMakesTables) -> None:
        data = component.node.at("input").at("data")
        given = {one.key: one.sources for one in component.inputs if one.kind == "data"}
        for key in module.needed_inputs:
            if key in given and len(given[key]) > 1:
                data.at(key).wrong(f"names {len(given[key])} tables; {component.module} takes one")
            elif key not in given and not data.at(key).is_given:     # else its problem is already reported
                data.at(key).wrong(f"is missing; {component.module} needs a table, such as reader_0.data")

    def _check_sources(self, component: Component, task: TaskSpec) -> None:
        for one in task.inputs:
            node = component.node.at("input").at(one.kind).at(one.key)
            for source in one.sources if one.kind == "data" else ():
                without = [party for party in task.parties if not self._can_have(source, party, task)]
                if without:
                    named = ", ".join(map(str, without[:_MOST_NAMED])) + (", ..." if without[_MOST_NAMED:] else "")
                    node.wrong(f"{source.producer} makes no table at {named}, where {task.name} would read it")

    def _can_have(self, source: Source, party: Party, reader: TaskSpec) -> bool:
        """Return whether the party will have the input there, or does not need it."""
        producer = self.tasks.get(source.producer)
        if producer is None or party in reader.passed_at:      # the problem of the producer is already reported
            return True
        if party not in producer.parties or party in producer.passed_at:
            return False
        if party in self.withheld:      # its parameters say whether there is a table, and the initiator has checked it
            return True
        module = self.modules[producer.module]
        given = producer.parameters.get(party, {})
        return not isinstance(module, ReadsAndMakesTables) or module.makes_table(given, party.role)
