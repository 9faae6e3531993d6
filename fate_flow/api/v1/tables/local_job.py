"""The document of a job that clients start by asking for a table: one component of the local party."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.components.providers.description import ComponentInfo
from fate_flow.store.values import Document


def local_job(
    component: ComponentInfo, parameters: Mapping[str, Any], job_parameters: Mapping[str, Any] | None = None
) -> Document:
    """Return the job of one local component (client-api-v1, section 4.6)."""
    name = f"{component.name}_0"
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "local", "party_id": 0},
        "role": {"local": [0]},
        "job_parameters": {"common": {"federated_mode": "SINGLE", **(job_parameters or {})}},
        "component_parameters": {"role": {"local": {"0": {name: dict(parameters)}}}},
    }
    return Document({"components": {name: {"module": component.module}}}, conf, {}, federated_mode="SINGLE")
