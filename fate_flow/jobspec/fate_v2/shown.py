"""The DAG that clients of FATE 2 see of a job: of a submitted DAG, and of a job in FATE v1's form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fate_flow.core.model.spec import OWN_RESOURCES, Party
from fate_flow.jobspec.fate_v1.layers import meant_by
from fate_flow.jobspec.fate_v1.stored_inputs import KEY as STORED_INPUTS
from fate_flow.jobspec.fate_v1.stored_inputs import OUTPUT as OTHER_OUTPUT
from fate_flow.jobspec.fate_v1.stored_inputs import TABLE
from fate_flow.jobspec.fate_v2.inputs import DATA_WAREHOUSE, MODEL_WAREHOUSE, OUTPUT
from fate_flow.jobspec.fate_v2.parties import FIRST, as_list
from fate_flow.jobspec.fate_v2.providers import DEVICE
from fate_flow.jobspec.text.blocks import object_at, objects_in, seats_of

SCHEMA_VERSION = "2.2.0"
_CONF = (
    "auto_retries", "computing_partitions", "cores", "extra", "inheritance", "initiator_party_id", "model_id",
    "model_version", "model_warehouse", "priority", "scheduler_party_id", "sync_type", "task",
)  # fmt: skip
_CONF_OF_TASK: Mapping[str, Any] = {"engine_run": None, "launcher_name": "default", "provider": None, "timeout": None}
_TASK = ("component_ref", "conf", "dependent_tasks", "inputs", "outputs", "parameters", "parties", "stage")
_DEFAULTS = {
    "auto_retries": "auto_retries", "computing_partitions": "computing_partitions", "cores": "task_cores",
    "model_id": "model_id", "model_version": "model_version",
}  # fmt: skip
"""Keys of `dag.conf`, by which the server has completed the DAG, with FATE v1's names of them."""


def shown_dag(body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a submitted `dag_schema` as FATE 2 shows it, with the server's values, and null for what is not set."""
    dag = object_at(body, "dag")
    conf = {key: value for key, value in object_at(dag, "conf").items() if value is not None}
    known = {key: defaults[name] for key, name in _DEFAULTS.items() if name in defaults}
    return {
        "dag": {
            "conf": {**dict.fromkeys(_CONF), "sync_type": "callback", **known, **conf,
                     "task": {**_CONF_OF_TASK, **object_at(conf, "task")}},
            "parties": dag.get("parties"),
            "party_tasks": dag.get("party_tasks"),
            "stage": dag.get("stage"),
            "tasks": {name: {**dict.fromkeys(_TASK), **task} for name, task in objects_in(dag, "tasks")},
        },
        "kind": "fate",
        "schema_version": body.get("schema_version", SCHEMA_VERSION),
    }  # fmt: skip


# ---------------------------------------------------------------------- jobs of another format


def dag_of_fate_v1(dsl: Mapping[str, Any], conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return the DAG of a job from its documents in FATE v1's form, as FATE 2 shows it."""
    common = object_at(conf, "job_parameters", "common")
    roles = object_at(conf, "role")
    parties = [party for role, ids in roles.items() for party in seats_of(role, ids)]
    initiator = str(object_at(conf, "initiator").get("party_id"))
    of_job = {
        "initiator_party_id": initiator, "scheduler_party_id": initiator, "priority": common.get("priority"),
        "task": {"timeout": common.get("task_timeout") or None},
    }  # fmt: skip
    body = {
        "schema_version": SCHEMA_VERSION,
        "dag": {
            "parties": as_list(sorted(parties, key=_order)),
            "conf": of_job,
            "tasks": {
                name: _task(name, component, conf, parties) for name, component in objects_in(dsl, "components")
            },
            "party_tasks": _party_tasks(conf, parties) or None,
        },
    }  # fmt: skip
    return shown_dag(body, common)


def _order(party: Party) -> int:
    return FIRST.index(party.role) if party.role in FIRST else len(FIRST)


def _task(name: str, component: Mapping[str, Any], conf: Mapping[str, Any], parties: list[Party]) -> dict[str, Any]:
    said = object_at(conf, "job_parameters", "common", "task_conf", name)
    found = {section: dict(_inputs(component, section)) for section in ("data", "model")}
    for key, channel in _stored_of(name, conf, parties):
        found["data"].setdefault(key, {}).setdefault(DATA_WAREHOUSE, []).append(channel)
    inputs = {section: one for section, one in found.items() if one}
    producers = [
        one["producer_task"] for section in inputs.values() for put in section.values() for one in put.get(OUTPUT, ())
    ]  # fmt: skip
    module, provider = str(component.get("module")), component.get("provider")
    prefix, _, ref = module.rpartition(".")
    task_conf: dict[str, Any] = {"timeout": said["timeout"]} if said.get("timeout") else {}
    if own := {key: said[key] for key in OWN_RESOURCES if said.get(key) is not None}:
        task_conf["engine_run"] = own
    if prefix or isinstance(provider, str):
        name_of, _, version = str(provider or prefix).partition("@")
        task_conf["provider"] = f"{name_of}:{version}@{DEVICE}" if version else name_of
    return {
        "component_ref": ref,
        "conf": task_conf or None,
        "dependent_tasks": list(dict.fromkeys([*producers, *(said.get("after") or ())])) or None,
        "inputs": inputs or None,
        "parameters": _without_stored(object_at(conf, "component_parameters", "common", name)),
        "stage": said.get("stage", "default"),
    }


def _inputs(component: Mapping[str, Any], section: str) -> Iterator[tuple[str, Any]]:
    """Yield the inputs of a section; FATE v1 has models as a list without keys."""
    given = object_at(component, "input").get(section)
    for key, sources in given.items() if isinstance(given, Mapping) else ((section, given),):
        every = sources if isinstance(sources, list) else []
        made = [
            {"producer_task": producer, "output_artifact_key": output}
            for one in every if isinstance(one, str) for producer, _, output in (one.partition("."),)
        ]  # fmt: skip
        stored = [
            {
                "model_id": model.get("id"), "model_version": str(model.get("version")),
                "producer_task": model.get("task"), "output_artifact_key": model.get("output"),
            }
            for one in every if (model := object_at(one, "model"))
        ]  # fmt: skip
        if made or stored:
            yield key, {OUTPUT: made} if made else {MODEL_WAREHOUSE: stored}


def _without_stored(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in parameters.items() if key != STORED_INPUTS}


def _stored_of(name: str, conf: Mapping[str, Any], parties: list[Party]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a task reads that is there already, by the key of the input, with the party that alone reads it."""
    common = object_at(conf, "component_parameters", "common", name, STORED_INPUTS)
    own = [(object_at(block, name, STORED_INPUTS), as_list([party])) for party, block in _own_blocks(conf, parties)]
    for inputs, readers in ((common, None), *own):
        for key, given in inputs.items():
            for one in given if isinstance(given, list) else [given]:
                table, output = object_at(one, TABLE), object_at(one, OTHER_OUTPUT)
                names = {"producer_task": output.get("task"), "output_artifact_key": output.get("output")}
                channel = {**table} if table else {"job_id": output.get("job_id"), **names}
                yield key, channel if readers is None else {**channel, "parties": readers}


def _own_blocks(conf: Mapping[str, Any], parties: list[Party]) -> Iterator[tuple[Party, Mapping[str, Any]]]:
    """Yield the blocks of parameters of components that some parties have, for each of them."""
    for role, below in objects_in(conf, "component_parameters", "role"):
        seats = [party for party in parties if party.role == role]
        for selector, block in objects_in(below):
            for index in sorted(meant_by(selector, len(seats))):
                yield seats[index], block


def _party_tasks(conf: Mapping[str, Any], parties: list[Party]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for party, block in _own_blocks(conf, parties):
        name_of = f"{party.role}_{party.party_id}"
        tasks = found.setdefault(name_of, {"parties": as_list([party]), "tasks": {}})["tasks"]
        for name, parameters in objects_in(block):
            known = object_at(tasks, name, "parameters")
            tasks[name] = {"parameters": {**known, **_without_stored(parameters)}}
    return found
