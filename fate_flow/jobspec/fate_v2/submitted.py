"""Complete a DAG when a server takes it: what FATE 2's own server fills in, so that every party reads the same job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.modules import ModuleInfo
from fate_flow.jobspec.fate_v2.parties import parties_in
from fate_flow.jobspec.fate_v2.providers import default_provider, find_component, own_component, own_provider
from fate_flow.jobspec.text.blocks import object_at, objects_in

_OF_NOBODY = "0"        # the party id of jobs that one server runs for itself, in the role local


def as_submitted(body: Mapping[str, Any], party_id: str, modules: Mapping[str, ModuleInfo]) -> Mapping[str, Any]:
    """Return the `dag_schema` with this party as initiator and scheduler, and with providers.

    A body of another form is returned as far as it can be; its reader reports what is wrong."""
    dag = body.get("dag")
    if not isinstance(dag, Mapping) or not isinstance(dag.get("conf"), (Mapping, type(None))):
        return body
    ids = {party.party_id for party in parties_in(dag.get("parties"))}
    own = _OF_NOBODY if party_id not in ids and _OF_NOBODY in ids else party_id
    conf = {**object_at(dag, "conf"), "initiator_party_id": own}
    if conf.get("scheduler_party_id") in (None, party_id):
        conf["scheduler_party_id"] = own
    found = {**dag, "conf": conf}
    if conf.get("task") is None or isinstance(conf["task"], Mapping):
        _fill_providers(found, modules)
    return {**body, "dag": found}


def _fill_providers(dag: dict[str, Any], modules: Mapping[str, ModuleInfo]) -> None:
    """Set the provider of the job, and of tasks whose component only this package has."""
    task = dict(object_at(dag, "conf", "task"))
    if task.get("provider") is not None:
        return
    usual, own = default_provider(modules), own_provider(modules)
    provider = usual or own
    if provider is None:
        return
    dag["conf"]["task"] = {**task, "provider": str(provider)}
    if usual is None or own is None or not isinstance(dag.get("tasks"), Mapping):
        return
    tasks = dict(dag["tasks"])
    for name, one in objects_in(dag, "tasks"):
        ref, of_task = one.get("component_ref"), object_at(one, "conf")
        if not isinstance(ref, str) or of_task.get("provider") is not None:
            continue
        if not find_component(modules, usual, ref)[0] and own_component(modules, ref):
            tasks[name] = {**one, "conf": {**of_task, "provider": str(own)}}
    dag["tasks"] = tasks
