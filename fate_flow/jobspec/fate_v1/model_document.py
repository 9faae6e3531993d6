"""Read which stored models a job reads, and the name of the models that it makes.

An input of kind model is an output of another task, or `{"model": {"id", "version", "task", "output"}}`: what a task of
an earlier job has made, in the store of each party. `job_parameters.common.model` names what this job makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.grammar import (
    check_component_name,
    check_model_id,
    check_model_version,
    check_output_name,
)
from fate_flow.core.model.spec import ModelReference
from fate_flow.jobspec.text.document import Node

MODEL = "model"
_KEYS = ("id", "version", "task", "output")


def read_reference(node: Node) -> ModelReference | None:
    """Return the stored model that an object names; None, with problems, if it names none."""
    node.nothing_but((MODEL,))
    given = node.at(MODEL)
    if not given.needed() or not given.is_object():
        return None
    given.nothing_but(_KEYS)
    model_id, version = given.at("id").checked(check_model_id), given.at("version").checked(check_model_version)
    task, output = given.at("task").checked(check_component_name), given.at("output").checked(check_output_name)
    if model_id is None or version is None or task is None or output is None:
        return None
    return ModelReference(model_id, version, task, output)


def reference_document(model: ModelReference) -> dict[str, Any]:
    """Return the object that names a stored model."""
    return {MODEL: {"id": model.model_id, "version": model.version, "task": model.task, "output": model.output}}


def read_model_name(node: Node) -> Mapping[str, Any] | None:
    """Return id and version of the models that a job makes; None, with problems, if they are wrong."""
    if not node.is_object():
        return None
    node.nothing_but(("id", "version"))
    model_id = node.at("id").checked(check_model_id)
    version = node.at("version").checked(check_model_version) if node.at("version").is_given else 0
    return None if model_id is None or version is None else {"id": model_id, "version": version}
