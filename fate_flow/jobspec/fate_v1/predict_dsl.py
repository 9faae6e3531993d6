"""Derive the DSL of a prediction from the DSL of a training and the deployed components.

A deployed component keeps its module and its outputs of data and caches. It does not make a model, but takes the model
of the training (`pipeline.<component>.<alias>`). It has the same data inputs as in the training, renamed for a
prediction: training data becomes test data, data that was only for validation is left out. If an input came from a
component that is not deployed, it is replaced by the inputs of that component. The Readers at the beginning of the data
are deployed with the components that need them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.spec import Input, Source
from fate_flow.jobspec.fate_v1.dsl import Component, read_components
from fate_flow.jobspec.text.document import Findings, Node, size_of

_AS_IT_IS = "data"
_TO_PREDICT = "test_data"
_OF_TRAINING = (_TO_PREDICT, "train_data", "validate_data", "eval_data")
"""Data inputs of a training, in order of preference: the first one that is there becomes that of the prediction."""
_OF_OTHERS = ("model", "isometric_model")


def predict_dsl(train_dsl: object, names: Iterable[str] = ()) -> dict[str, Any]:
    """Return the DSL with these components and the readers that they need; without names, with all components except
    those with `need_deploy: false`.

    Any module is accepted: the prediction runs on a server that has it. Raise BadRequest for the first problem,
    BadDocument if it is in the DSL."""
    findings = Findings(strict=False)
    dsl = Node(train_dsl, "train_dsl", findings)
    found = read_components(dsl, dict.fromkeys(_modules(train_dsl))) if size_of(dsl) is not None else ()
    if findings.problems:
        raise findings.problems[0]
    train = {one.name: one for one in found}
    wanted = list(dict.fromkeys(names)) or [one.name for one in found if one.node.at("need_deploy").value is not False]
    if not wanted:
        raise BadRequest("cpn_str: names no component, and all components of train_dsl have need_deploy false")
    unknown = [name for name in wanted if name not in train]
    if unknown:
        raise BadRequest(f"cpn_str: {shown(unknown[0])} is not one of the components: {', '.join(sorted(train))}")
    deployment = _Deployment(train, frozenset(wanted) | _readers_of(train, wanted))
    return {"components": {one.name: deployment.component(one) for one in found if one.name in deployment.names}}


def _modules(dsl: object) -> frozenset[str]:
    """Return all names of modules in the DSL."""
    components = dsl.get("components") if isinstance(dsl, Mapping) else None
    described = components.values() if isinstance(components, Mapping) else ()
    modules = (one.get("module") for one in described if isinstance(one, Mapping))
    return frozenset(one for one in modules if isinstance(one, str) and one)


@dataclass(frozen=True)
class _Deployment:
    train: Mapping[str, Component]
    names: frozenset[str]

    def component(self, one: Component) -> dict[str, Any]:
        inputs = {"data": self._data(one), "model": _models(one), "cache": self._caches(one)}
        outputs = {kind: [put.alias for put in one.outputs if put.kind == kind] for kind in ("data", "cache")}
        provider = one.node.at("provider").value
        described = {"module": one.module, "provider": provider, "input": _filled(inputs), "output": _filled(outputs)}
        return _filled(described)

    def _data(self, one: Component) -> dict[str, list[str]]:
        found = {key: _upstream(self.train, put, self.names) for key, put in _data_inputs(one).items()}
        return {key: [_text(source) for source in sources] for key, sources in found.items()}

    def _caches(self, one: Component) -> list[str]:
        return [
            _text(source) for put in one.inputs if put.kind == "cache" for source in put.sources
            if source.producer in self.names
        ]  # fmt: skip


def _readers_of(train: Mapping[str, Component], names: Iterable[str]) -> frozenset[str]:
    """Return the components without data inputs that these components need for a prediction."""
    named = frozenset(names)
    return frozenset(
        source.producer for name in named for put in _data_inputs(train[name]).values()
        for source in _upstream(train, put, named)
    )  # fmt: skip


def _upstream(train: Mapping[str, Component], put: Input, names: frozenset[str]) -> list[Source]:
    """Return the sources of a data input if only these components are deployed: from one of them, or from a reader."""
    found, seen, pending = dict[Source, None](), set[Source](), list(reversed(put.sources))
    while pending:
        source = pending.pop()
        if source in seen:
            continue
        seen.add(source)
        before = [each for data in _data_inputs(train[source.producer]).values() for each in data.sources]
        if source.producer in names or not before:
            found[source] = None
        else:
            pending += reversed(before)
    return list(found)


def _data_inputs(one: Component) -> dict[str, Input]:
    """Return the data inputs of a component in a prediction, by their names there."""
    given = {put.key: put for put in one.inputs if put.kind == "data"}
    found = {key: put for key, put in given.items() if key not in _OF_TRAINING}
    first = next((given[key] for key in _OF_TRAINING if key in given), None)
    return found if first is None or _AS_IT_IS in found else {**found, _TO_PREDICT: first}


def _models(one: Component) -> list[str]:
    """Return the models of a component: its own, else those that it took from others in the training."""
    own = [Source(one.name, put.alias) for put in one.outputs if put.kind == "model"]
    taken = [source for kind in _OF_OTHERS for put in one.inputs if put.kind == kind for source in put.sources]
    return [f"pipeline.{_text(source)}" for source in own or taken]


def _text(source: Source) -> str:
    return f"{source.producer}.{source.alias}"


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}
