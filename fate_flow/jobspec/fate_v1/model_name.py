"""The name of a job's model, which FATE's servers require for every job, with or without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def model_id_of(roles: Mapping[str, Sequence[int]]) -> str:
    """Return FATE's name of the model of these parties, such as `guest-9001#host-9002_9004#model`."""
    seats = (f"{role}-{'_'.join(map(str, sorted(map(int, ids))))}" for role, ids in sorted(roles.items()))
    return "#".join((*seats, "model"))


def with_model(conf: Mapping[str, Any], roles: Mapping[str, Sequence[int]], job_id: str) -> dict[str, Any]:
    """Return a completed runtime conf with the model of this job, which FATE's initiators write over any other; a job
    that predicts has a model already."""
    parameters = conf["job_parameters"]
    if parameters["common"].get("job_type") == "predict":
        return dict(conf)
    common = {**parameters["common"], "model_id": model_id_of(roles), "model_version": job_id}
    return {**conf, "job_parameters": {**parameters, "common": common}}
