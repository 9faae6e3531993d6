"""Read the DSL: its components, their inputs and outputs, and their order."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from fate_flow.core.model.artifact import MODEL
from fate_flow.core.model.dag import topological_order
from fate_flow.core.model.errors import BadDocument
from fate_flow.core.model.grammar import check_component_name, check_output_name, shown
from fate_flow.core.model.modules import DescribesArtifacts, ModuleInfo, find_module
from fate_flow.core.model.spec import DeclaredOutput, Input, Source
from fate_flow.jobspec.fate_v1.model_document import read_reference
from fate_flow.jobspec.text.document import Node

MAX_COMPONENTS = 1000


@dataclass(frozen=True)
class Component:
    """A component of the DSL."""

    node: Node
    name: str
    module: str
    outputs: tuple[DeclaredOutput, ...]
    inputs: tuple[Input, ...] = ()


_Described = Mapping[str, Component | None]
"""All names in the DSL; None for a name that is not a valid component."""

_PRODUCED_AS = {"data": "data", "model": "model", "isometric_model": "model", "cache": "cache"}
"""The kind of output that each kind of input takes."""
_DATA_KEYS = frozenset({"data", "train_data", "validate_data", "test_data", "eval_data"})
_OUTPUT_KINDS = ("data", "model", "cache")
_USUAL_PROVIDER = "fate"
"""The genuine pipeline names this provider for components by default, so it needs no warning."""


def component_names(node: Node) -> frozenset[str]:
    """Return the names of all components in the document, valid or not."""
    return frozenset(node.value) if isinstance(node.value, Mapping) else frozenset()


def read_components(dsl: Node, modules: Mapping[str, ModuleInfo | None]) -> tuple[Component, ...]:
    """Return the valid components, each after those whose outputs it takes.

    A module without a description (None) may have any inputs and outputs."""
    node = dsl.at("components")
    dsl.only({"components"})
    if not dsl.needed() or not dsl.is_object() or not node.needed():
        return ()
    described = node.members()
    if not 1 <= len(described) <= MAX_COMPONENTS:
        node.wrong(f"has {len(described)} components; 1 to {MAX_COMPONENTS} make a job")
        return ()
    packages = frozenset(one.provider.package for one in modules.values() if one is not None)
    found = {name: _read_component(node, name, inside, modules, packages) for name, inside in described.items()}
    reading = _Inputs(found, modules)
    complete = [replace(one, inputs=reading.of(one)) for one in found.values() if one is not None]
    return _in_order([one for one in complete if one.module], node)


def _read_component(
    parent: Node, name: str, node: Node, modules: Collection[str], packages: Collection[str]
) -> Component | None:
    """Return the component without its inputs, with module "" if that is wrong; None if it cannot be read."""
    if parent._replace(value=name).checked(check_component_name) is None:
        return None
    if name == "pipeline":
        node.wrong("the name is reserved for the whole job; choose another one")
        return None
    if not node.needed() or not node.is_object():
        return None
    # need_deploy is for models; a FATE server adds CodePath
    node.only({"module", "input", "output", "provider", "need_deploy", "CodePath"})
    note_provider(node.at("provider"), packages)
    outputs = _read_outputs(node.at("output"))
    provider = node.at("provider").value
    module = _read_module(node.at("module"), provider if isinstance(provider, str) else "", modules)
    return Component(node, name, module, outputs)


def _read_module(node: Node, provider: str, modules: Collection[str]) -> str:
    """Return the name of a known module, else ""."""
    if not node.needed():
        return ""
    found, why_not = find_module(modules, provider, node.value) if isinstance(node.value, str) else ("", "")
    if why_not:
        node.wrong(why_not)
        return ""
    if found:
        return found
    node.wrong(
        f"{shown(node.value)} is not known here; known: {', '.join(sorted(modules))}; the algorithms of FATE 1 do not "
        "run here, those of FATE 2.2 do, with a provider (docs/reference/fate-components.md)"
    )
    return ""


def _read_outputs(node: Node) -> tuple[DeclaredOutput, ...]:
    node.only(_OUTPUT_KINDS)
    found: list[DeclaredOutput] = []
    for kind in _OUTPUT_KINDS:
        for one in node.at(kind).elements():
            alias = one.checked(check_output_name)
            if alias is not None and DeclaredOutput(kind, alias) in found:
                one.wrong(f"{shown(alias)} is there twice")
            elif alias is not None:
                found.append(DeclaredOutput(kind, alias))
    return tuple(found)


@dataclass(frozen=True)
class _Inputs:
    """Reads the inputs of components, given all components of the DSL."""

    components: _Described
    modules: Mapping[str, ModuleInfo | None]

    def of(self, component: Component) -> tuple[Input, ...]:
        node, module = component.node.at("input"), self.modules.get(component.module)
        node.only(_PRODUCED_AS)
        found = [
            Input("data", key, self._sources(inside, "data"))
            for key, inside in node.at("data").members().items()
            if _is_data_key(key, inside, module)
        ]
        for kind in _PRODUCED_AS:
            if kind != "data":
                found += self._without_data(node.at(kind), kind)
        return tuple(one for one in found if one.sources or one.models)

    def _without_data(self, node: Node, kind: str) -> list[Input]:
        """Return the inputs of another kind: FATE's list, or models by the component's keys for them."""
        if kind != "model" or not isinstance(node.value, Mapping):
            return [self._input(kind, kind, node)]
        return [
            self._input(kind, key, inside)
            for key, inside in node.members().items()
            if inside._replace(value=key).checked(check_output_name) is not None
        ]

    def _input(self, kind: str, key: str, node: Node) -> Input:
        """Return an input with sources and stored models; a stored model is an object, not text."""
        stored = [read_reference(one) for one in node.elements() if _is_stored(one, kind)]
        return Input(kind, key, self._sources(node, kind), models=tuple(one for one in stored if one is not None))

    def _sources(self, node: Node, kind: str) -> tuple[Source, ...]:
        found = [self._source(one, kind) for one in node.elements() if not _is_stored(one, kind)]
        return tuple(one for one in found if one is not None)

    def _source(self, node: Node, kind: str) -> Source | None:
        parts = node.value.split(".") if isinstance(node.value, str) else []
        if kind == "model" and len(parts) == 3 and parts[0] == "pipeline":
            node.wrong(
                f"{shown(node.value)} is a stored model without its id: submit a job of job_type predict with "
                'model_id and model_version, or name {"model": {"id": ..., "version": ..., "task": ..., "output": ...}}'
            )
            return None
        if len(parts) != 2:
            node.wrong(f"{shown(node.value)} is not <component>.<output>")
            return None
        source = Source(*parts)
        problem = self._problem(source, _PRODUCED_AS[kind])
        if problem:
            node.wrong(f"{shown(node.value)}: {problem}")
            return None
        return source

    def _problem(self, source: Source, kind: str) -> str:
        if source.producer not in self.components:
            return f"there is no component {shown(source.producer)}"
        producer = self.components[source.producer]
        if producer is None:       # its problem is already reported
            return ""
        made = output_aliases(producer, self.modules.get(producer.module), kind)
        if source.alias in made:
            return ""
        return f"the {kind} outputs of {source.producer} are: {', '.join(made) or 'none'}"


def output_aliases(component: Component, module: ModuleInfo | None, kind: str) -> list[str]:
    """Return the names of a component's outputs: those that the DSL declares, else the keys that its module has."""
    names = [one.alias for one in component.outputs if one.kind == kind]
    if not isinstance(module, DescribesArtifacts) or module.takes_other_keys:
        return names
    keys = [key for key, one in module.outputs.items() if one.section == kind]
    return keys if set(names) <= set(keys) else names


def _is_stored(node: Node, kind: str) -> bool:
    return kind == MODEL and isinstance(node.value, Mapping)


def _is_data_key(key: str, node: Node, module: ModuleInfo | None) -> bool:
    is_described = isinstance(module, DescribesArtifacts) and not module.takes_other_keys
    if not is_described and key not in _DATA_KEYS:
        node.doubtful(f"is not one of {', '.join(sorted(_DATA_KEYS))}", "it is used nevertheless, as in FATE")
    return node._replace(value=key).checked(check_output_name) is not None


def _in_order(components: list[Component], node: Node) -> tuple[Component, ...]:
    by_name = {one.name: one for one in components}
    upstream = {
        one.name: frozenset(source.producer for put in one.inputs for source in put.sources) & by_name.keys()
        for one in components
    }
    try:
        return tuple(by_name[name] for name in topological_order(upstream))
    except BadDocument as problem:
        node.wrong(problem.problem)
        return tuple(components)


def note_provider(node: Node, packages: Collection[str]) -> None:
    """Report that the choice of a provider has no effect."""
    name = node.value.partition("@")[0] if isinstance(node.value, str) else None
    if node.is_given and name not in packages and name != _USUAL_PROVIDER:
        node.without_effect(f"{shown(node.value)} is not offered, {' or '.join(sorted(packages))} is used")
