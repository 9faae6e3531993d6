"""The inputs of a task of a DAG: channels, from outputs of other tasks or from stores, by section and key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fate_flow.core.model.artifact import DATA, MODEL
from fate_flow.core.model.grammar import check_model_id, shown
from fate_flow.core.model.spec import ModelReference, Party
from fate_flow.jobspec.fate_v1.model_document import reference_document
from fate_flow.jobspec.fate_v2.parties import read_some
from fate_flow.jobspec.text.document import Node

OUTPUT = "task_output_artifact"
DATA_WAREHOUSE, MODEL_WAREHOUSE = "data_warehouse", "model_warehouse"
_WAREHOUSES = {DATA: DATA_WAREHOUSE, MODEL: MODEL_WAREHOUSE}
_TABLE, _OF_JOB = ("namespace", "name"), ("job_id", "producer_task", "output_artifact_key")
_DATA = (*_TABLE, *_OF_JOB, "dataset_id", "parties")
_CHANNEL = ("producer_task", "output_artifact_key", "output_artifact_type_alias", "parties")
_STORED = ("model_id", "model_version", "producer_task", "output_artifact_key", "parties")


@dataclass(frozen=True)
class Channel:
    """An output of another task, and the parties that read it; None: those where the producer runs, or all parties of
    the task for a stored model."""

    producer: str
    output: str
    parties: tuple[Party, ...] | None
    stored: tuple[str, int] | None = None       # id and version of the model in the store whose output it is

    @property
    def in_dsl(self) -> Any:
        """Its form in a DSL of FATE v1."""
        if self.stored is None:
            return f"{self.producer}.{self.output}"
        return reference_document(ModelReference(*self.stored, self.producer, self.output))


@dataclass(frozen=True)
class StoredChannel:
    """A table of the parties that read it, or an output of another job there, as `stored_inputs` has it; None: all
    parties of the task."""

    value: dict[str, dict[str, str]]
    parties: tuple[Party, ...] | None


@dataclass(frozen=True)
class Channels:
    """What a task reads by one key, in order."""

    section: str
    key: str
    node: Node
    every: tuple[Channel, ...] = ()
    stored: tuple[StoredChannel, ...] = ()


@dataclass(frozen=True)
class Inputs:
    """The reader of inputs, for a job of these parties. `models`: the node that names the stored models of channels
    that name none."""

    parties: tuple[Party, ...]
    models: Node

    def of(self, inputs: Node) -> Iterator[Channels]:
        """Yield the inputs of a task; add a problem for what is wrong."""
        inputs.only((DATA, MODEL))
        for section in (DATA, MODEL):
            for key, one in inputs.at(section).members().items():
                if one.is_given and one.is_object():
                    yield from self._input(section, key, one)

    def _input(self, section: str, key: str, node: Node) -> Iterator[Channels]:
        warehouse = _WAREHOUSES[section]
        kinds = (OUTPUT, warehouse)
        node.nothing_but(kinds)
        given = [kind for kind in kinds if node.at(kind).is_given]
        if len(given) != 1:
            node.wrong(f"has {' and '.join(given) or 'neither'}; an input has {OUTPUT} or {warehouse}")
        elif section == DATA and given == [warehouse]:
            inside = node.at(warehouse)
            there = [self._data(one) for one in _several(inside)]
            yield Channels(section, key, inside, stored=tuple(one for one in there if one is not None))
        else:
            inside = node.at(given[0])
            nodes = _several(inside)
            found = [self._stored(one) if given == [warehouse] else self._channel(one, _CHANNEL) for one in nodes]
            yield Channels(section, key, inside, tuple(one for one in found if one is not None))

    def _data(self, node: Node) -> StoredChannel | None:
        if not node.is_object():
            return None
        node.nothing_but(_DATA)
        if node.at("dataset_id").value is not None:
            node.at("dataset_id").wrong("is not offered; name the table by namespace and name")
        given = tuple(key for key in (*_TABLE, *_OF_JOB) if node.at(key).is_given)
        if given not in (_TABLE, _OF_JOB):
            node.wrong(f"has {', '.join(given) or 'no name'}; it has {' and '.join(_TABLE)}, or {', '.join(_OF_JOB)}")
            return None
        names = {key: node.at(key).value for key in given}
        if given == _TABLE:
            value = {"table": names}
        else:
            value = {"output": {"job_id": names["job_id"], "task": names["producer_task"],
                                "output": names["output_artifact_key"]}}  # fmt: skip
        parties = node.at("parties")
        return StoredChannel(value, read_some(parties, self.parties) if parties.is_given else None)

    def _stored(self, node: Node) -> Channel | None:
        channel = self._channel(node, _STORED)
        named = node if node.at("model_id").is_given else self.models
        if channel is None:
            return None
        if not named.is_given:
            node.at("model_id").wrong("is missing, also in dag.conf.model_warehouse")
            return None
        model_id, version = named.at("model_id").checked(check_model_id), named.at("model_version")
        number = version.whole(0, "the version of a model, a whole number of 0 or more") if version.is_given else 0
        return None if model_id is None or number is None else replace(channel, stored=(model_id, number))

    def _channel(self, node: Node, known: tuple[str, ...]) -> Channel | None:
        if not node.is_object():
            return None
        node.nothing_but(known)
        names = [node.at(key) for key in ("producer_task", "output_artifact_key")]
        if not all(one.needed() for one in names):
            return None
        for one in names:
            if not isinstance(one.value, str):
                one.wrong(f"{shown(one.value)} is not text")
                return None
        parties = node.at("parties")
        readers = read_some(parties, self.parties) if parties.is_given else None
        return Channel(names[0].value, names[1].value, readers)


def _several(node: Node) -> list[Node]:
    return list(node.elements()) if isinstance(node.value, list) else [node]
