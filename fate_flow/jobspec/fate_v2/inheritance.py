"""`dag.conf.inheritance`: tasks of the DAG that do not run, since another job has made their outputs.

What other tasks read of them is read from the store: data by job, task and output, models by id and version. The server
that takes the DAG adds `model_id` and `model_version` of that job's models, so that all parties mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fate_flow.core.model.artifact import MODEL
from fate_flow.core.model.grammar import check_job_id, check_model_id
from fate_flow.core.model.spec import InheritedModels, Party
from fate_flow.jobspec.fate_v2.inputs import Channel, Channels, StoredChannel
from fate_flow.jobspec.text.blocks import object_at
from fate_flow.jobspec.text.document import Node

INHERITANCE = "inheritance"


@dataclass(frozen=True)
class Inheritance:
    """The other job, and the models of the tasks that are taken from it."""

    job_id: str
    models: InheritedModels

    def as_stored(self, channels: Channels, seats_of: Callable[[str], tuple[Party, ...]]) -> Channels:
        """Return what a task reads by one key, with the outputs of inherited tasks as things in the store.

        `seats_of`: the parties of a task. Add a problem if one input reads data of both inherited and other tasks."""
        every = tuple(self._with_readers(one, seats_of) for one in channels.every)
        if not any(map(self._has_made, every)):
            return channels
        if channels.section == MODEL:
            return replace(channels, every=tuple(
                replace(one, stored=(self.models.model_id, self.models.version)) if self._has_made(one) else one
                for one in every
            ))  # fmt: skip
        if others := sorted({one.producer for one in every if not self._has_made(one)}):
            theirs = sorted(self.models.tasks & {one.producer for one in every})
            channels.node.wrong(
                f"reads {', '.join(theirs)}, which {'are' if theirs[1:] else 'is'} inherited, and {', '.join(others)}, "
                "which is not: an input of data reads one kind of task alone"
            )
        return replace(channels, every=(), stored=tuple(map(self._in_store, every)))

    def _has_made(self, channel: Channel) -> bool:
        return channel.stored is None and channel.producer in self.models.tasks

    def _with_readers(self, channel: Channel, seats_of: Callable[[str], tuple[Party, ...]]) -> Channel:
        """Name the readers of an output of an inherited task, by default the parties of that task."""
        if not self._has_made(channel):
            return channel
        return replace(channel, parties=seats_of(channel.producer) if channel.parties is None else channel.parties)

    def _in_store(self, channel: Channel) -> StoredChannel:
        output = {"job_id": self.job_id, "task": channel.producer, "output": channel.output}
        return StoredChannel({"output": output}, channel.parties)


def read_inheritance(node: Node, tasks: Collection[str]) -> Inheritance | None:
    """Return what a job of these tasks inherits; None if it inherits nothing, or if there is a problem."""
    if not node.value or not node.is_object():
        return None
    node.only(("job_id", "task_list", "model_id", "model_version"))
    if not node.at("job_id").needed() or not node.at("task_list").needed():
        return None
    names = []
    for one in node.at("task_list").elements():
        if isinstance(one.value, str) and one.value in tasks:
            names.append(one.value)
        else:
            one.unknown(str(one.value), tasks)
    if set(names) >= set(tasks):
        node.at("task_list").wrong("names all tasks of the DAG: nothing is left to run")
    job_id = node.at("job_id").checked(check_job_id)
    model_id, version = node.at("model_id"), node.at("model_version")
    name = model_id.checked(check_model_id) if model_id.is_given else job_id
    number = version.whole(0, "the version of a model, a whole number of 0 or more") if version.is_given else 0
    if job_id is None or name is None or number is None:
        return None
    return Inheritance(job_id, InheritedModels(name, number, frozenset(names))) if names else None


def asked_for(body: Mapping[str, Any]) -> tuple[str, tuple[str, ...]] | None:
    """Return the job that a `dag_schema` inherits from, and the names of the tasks; None if it inherits nothing, or if
    this has a wrong form, which its reader reports."""
    asked = object_at(body, "dag", "conf", INHERITANCE)
    job_id, names = asked.get("job_id"), asked.get("task_list")
    if not isinstance(job_id, str) or not isinstance(names, list) or not names:
        return None
    return (job_id, tuple(names)) if all(isinstance(one, str) for one in names) else None


def with_models(body: Mapping[str, Any], model_id: str, version: int) -> Mapping[str, Any]:
    """Return a `dag_schema` that names the models of the job which it inherits from."""
    dag = body["dag"]
    asked = {**dag["conf"][INHERITANCE], "model_id": model_id, "model_version": str(version)}
    return {**body, "dag": {**dag, "conf": {**dag["conf"], INHERITANCE: asked}}}
