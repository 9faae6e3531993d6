"""Stored models that a job file names without the number of a version: by a deployment, or as the newest ones.

The server that takes the file writes id and version in their place, so that all parties read the same models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fate_flow.jobspec.fate_v1.model_document import MODEL
from fate_flow.jobspec.text.blocks import object_at, objects_in
from fate_flow.jobspec.text.document import Findings, Node

LATEST, DEPLOYED, DEPLOYMENT = "latest", "deployed", "deployment"
CHOICES = (LATEST, DEPLOYED)
"""What stands in the place of the number of a version."""

Steps = tuple[str | int, ...]
"""The keys, and places in lists, that lead to a value of the file."""


def unchosen_models(file: Any) -> dict[Steps, Node]:
    """Return the objects with `task` and `output` whose version has to be chosen. What has another form is left to the
    reader of the file."""
    top = Node(file, "", Findings(strict=True))
    found: dict[Steps, Node] = {}
    for name, _ in objects_in(file, "tasks"):
        inputs = top.at("tasks").at(name).at("inputs")
        for key, given in object_at(inputs.value).items():
            below: Steps = ("tasks", name, "inputs", key)
            if key == MODEL and isinstance(given, Mapping):        # the section: by the component's key of the input
                for inner in given:
                    found.update(_of_input(inputs.at(key).at(inner), (*below, inner)))
            else:
                found.update(_of_input(inputs.at(key), below))
    return found


def _of_input(given: Node, steps: Steps) -> Iterator[tuple[Steps, Node]]:
    is_list = isinstance(given.value, list)
    several = [(one, (*steps, place)) for place, one in enumerate(given.elements())] if is_list else [(given, steps)]
    for one, at in several:
        named = one.at(MODEL)
        if isinstance(named.value, Mapping) and (DEPLOYMENT in named.value or named.value.get("version") in CHOICES):
            yield (*at, MODEL), named


def with_values(file: Any, values: Mapping[Steps, Any]) -> Any:
    """Return the file with other values at these places."""
    for steps, value in values.items():
        file = _with_value(file, steps, value)
    return file


def _with_value(whole: Any, steps: Steps, value: Any) -> Any:
    if not steps:
        return value
    first, changed = steps[0], _with_value(whole[steps[0]], steps[1:], value)
    if isinstance(whole, list):
        return [changed if place == first else one for place, one in enumerate(whole)]
    return {**whole, first: changed}
