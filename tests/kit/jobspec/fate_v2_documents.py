"""A DAG of FATE 2 as its client sends it, and components of a provider `fate`, described as FATE describes them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fate_flow.components.providers.described import FORMAT, description_file
from fate_flow.components.providers.table import ProviderTable, provider_table
from fate_flow.core.model.modules import ProviderPlace

VERSION = "2.2.0"
GUEST = {"role": "guest", "party_id": ["9999"]}
HOST = {"role": "host", "party_id": ["10000"]}
ARBITER = {"role": "arbiter", "party_id": ["10001"]}
BOTH = [GUEST, HOST]


def _artifact(kind: str, stages: tuple[str, ...], *roles: str, optional: bool = False, multi: bool = False) -> Any:
    return {"types": [kind], "optional": optional, "stages": list(stages), "roles": list(roles), "is_multi": multi}


def _component(
    name: str, roles: tuple[str, ...], parameters: tuple[str, ...] = (), **artifacts: Mapping[str, Any]
) -> dict[str, Any]:
    def of(which: str) -> dict[str, Any]:
        return {section: dict(artifacts.get(f"{which}_{section}", {})) for section in ("data", "model")}

    text = {"type": "str", "default": None, "optional": True, "description": "", "type_meta": {}}
    described = dict.fromkeys(parameters, text)
    return {
        "name": name, "description": name, "provider": "fate", "version": VERSION, "roles": list(roles),
        "parameters": described, "input_artifacts": of("input"), "output_artifacts": {**of("output"), "metric": {}},
    }  # fmt: skip


_ANY, _TRAIN, _PREDICT, _DEFAULT = ("guest", "host"), ("train",), ("predict",), ("default",)
COMPONENTS = {
    "reader": _component(
        "reader", _ANY, ("namespace", "name"),
        output_data={"output_data": _artifact("dataframe", _DEFAULT, *_ANY)},
    ),
    "psi": _component(
        "psi", _ANY, ("protocol",),
        input_data={"input_data": _artifact("dataframe", _DEFAULT, *_ANY)},
        output_data={"output_data": _artifact("dataframe", _DEFAULT, *_ANY)},
    ),
    "coordinated_lr": _component(
        "coordinated_lr", (*_ANY, "arbiter"), ("epochs", "tol"),
        input_data={
            "train_data": _artifact("dataframe", _TRAIN, *_ANY),
            "validate_data": _artifact("dataframe", _TRAIN, *_ANY, optional=True),
            "test_data": _artifact("dataframe", _PREDICT, *_ANY),
        },
        input_model={"input_model": _artifact("json_model", _PREDICT, *_ANY)},
        output_data={
            "train_output_data": _artifact("dataframe", _TRAIN, "guest"),
            "test_output_data": _artifact("dataframe", _PREDICT, "guest"),
        },
        output_model={"output_model": _artifact("json_model", _TRAIN, *_ANY)},
    ),
    "evaluation": _component(
        "evaluation", (*_ANY, "arbiter"), ("default_eval_setting", "metrics"),
        input_data={"input_datas": _artifact("dataframe", _DEFAULT, *_ANY, multi=True)},
    ),
}  # fmt: skip


def fate_table(folder: Path) -> ProviderTable:
    """The table of a party that has these components; `folder` is for the file with the descriptions."""
    place = ProviderPlace("fate", VERSION, "/fate/bin/python", "fate.components")
    path = description_file(folder, place)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"format": FORMAT, "components": COMPONENTS}))
    return provider_table("9999", {"fate": place}, folder)


def output(producer: str, key: str = "output_data", *parties: Mapping[str, Any]) -> dict[str, Any]:
    """A channel, as the client writes it."""
    found: dict[str, Any] = {"producer_task": producer, "output_artifact_key": key}
    return {**found, "parties": list(parties)} if parties else found


def channels(*every: Mapping[str, Any]) -> dict[str, Any]:
    one = every[0] if len(every) == 1 else list(every)
    return {"task_output_artifact": copy.deepcopy(one)}


def a_training() -> dict[str, Any]:
    """The `dag_schema` of a training job, as recorded, with the initiator that the server fills in."""
    return copy.deepcopy({"schema_version": VERSION, "dag": {
        "parties": [GUEST, HOST, ARBITER],
        "stage": "train",
        "conf": {"initiator_party_id": "9999", "task": {"provider": "fate:2.2.0@local"}},
        "tasks": {
            "reader_0": {"component_ref": "reader", "parameters": {}, "stage": "default", "parties": BOTH},
            "psi_0": {
                "component_ref": "psi", "dependent_tasks": ["reader_0"], "parameters": {}, "stage": "default",
                "parties": BOTH, "inputs": {"data": {"input_data": channels(output("reader_0", "output_data", *BOTH))}},
            },
            "lr_0": {
                "component_ref": "coordinated_lr", "dependent_tasks": ["psi_0"],
                "parameters": {"epochs": "10", "tol": None},
                "inputs": {"data": {"train_data": channels(output("psi_0", "output_data", *BOTH))}, "model": {}},
            },
            "evaluation_0": {
                "component_ref": "evaluation", "dependent_tasks": ["lr_0"], "stage": "default", "parties": [GUEST],
                "parameters": {"default_eval_setting": "binary", "metrics": None},
                "inputs": {"data": {"input_datas": {
                    "task_output_artifact": [output("lr_0", "train_output_data", GUEST)],
                }}},
            },
        },
        "party_tasks": {
            "guest_9999": {"parties": [GUEST], "tasks": {
                "reader_0": {"parameters": {"namespace": "experiment", "name": "breast_hetero_guest"}},
            }},
            "host_10000": {"parties": [HOST], "tasks": {
                "reader_0": {"parameters": {"namespace": "experiment", "name": "breast_hetero_host"}},
            }},
        },
    }})  # fmt: skip
