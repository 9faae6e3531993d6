"""Deploying a model, and making the documents of a job that predicts with it, as FATE v1 does.

A deployment is known to the party that made it alone: the initiator of the job that has trained the model. The job that
predicts names each model by its own id and version, so the other parties need no deployment, only their parts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fate_flow.core.model.artifact import DATA, MODEL, keys_of
from fate_flow.core.model.errors import BadRequest, NotFound, OperationFailed
from fate_flow.core.model.grammar import MAX_VERSION, shown
from fate_flow.core.model.modules import DescribesArtifacts, ModuleInfo
from fate_flow.core.model.spec import JobSpec, ModelReference
from fate_flow.core.model.status import JobStatus
from fate_flow.jobspec.fate_v1.model_document import reference_document
from fate_flow.jobspec.fate_v1.model_name import model_id_of
from fate_flow.jobspec.fate_v1.predict_dsl import predict_dsl
from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import Deployment, StoredModel

PREDICT = "predict"
_OF_MODEL = "pipeline"


def fate_id_of(model: StoredModel) -> str:
    """Return what FATE v1 calls the model id; its model version is our model id, that of the job."""
    return model_id_of(model.roles)


def found_models(tx: Transaction, model_id: str, version: str) -> tuple[tuple[StoredModel, ...], Deployment | None]:
    """Return the parts of one version of a model here, and the deployment that was named, if one was.

    `version`: the name of a deployment, a number, or, as in FATE v1, the id of the job, which means its newest version;
    then `model_id` is FATE's. Raises NotFound."""
    deployment = tx.deployment(version) if version else None
    if deployment is not None:
        found = tx.models_of_version(deployment.model_id, deployment.version)
    elif model_id and version.isdecimal() and tx.newest_version(model_id) is not None:
        found = tx.models_of_version(model_id, int(version)) if int(version) <= MAX_VERSION else ()
    else:
        newest = tx.newest_version(version or model_id)
        found = () if newest is None else tx.models_of_version(version or model_id, newest)
    found = tuple(one for one in found if model_id in ("", one.reference.model_id, fate_id_of(one)))
    if not found:
        named = f"model_version {shown(version)}" + (f" of model_id {shown(model_id)}" if model_id else "")
        raise NotFound(f"no model: {named} is not in the store of this party (flow model list)")
    return found, deployment


def deploy(
    unit: UnitOfWork, name: str, model_id: str, version: str, tasks: Collection[str],
    given_dsl: Mapping[str, Any] | None,
) -> tuple[Deployment, StoredModel]:
    """Store a selection of the tasks of a model under a name, and return it with one of its parts.

    `tasks`: by default all but those with `need_deploy: false`; `given_dsl`: the DSL of the prediction instead.
    Raises NotFound; BadRequest; OperationFailed if this party did not initiate the job, or has it no more."""
    found, _ = found_models(unit.tx, model_id, version)
    part = found[0]
    if part.initiator != unit.context.party_id:
        raise OperationFailed(f"model_version: party {part.initiator} has trained the model; it is deployed there")
    job, document = unit.tx.job_here(part.job_id), unit.tx.document(part.job_id)
    if job is None or document is None:
        raise OperationFailed(
            f"job {part.job_id}, which has made the model, was removed here: name the model in a job file "
            "(input_model: {model: {id: ..., version: ..., task: ..., output: ...}})"
        )
    if job.status is not JobStatus.SUCCESS:
        raise OperationFailed(f"job {part.job_id} is {job.status.value}: only models of a successful job are deployed")
    spec = unit.spec(part.job_id)
    named = document.dsl if spec is None else _with_named_outputs(document.dsl, spec, unit.context.modules)
    dsl = given_dsl if given_dsl is not None else predict_dsl(named, tasks)
    _check_parts(unit, part, dsl)
    said = {
        "dsl": dsl, "component_parameters": document.runtime_conf.get("component_parameters") or {},
        "role": document.runtime_conf.get("role") or {},
    }  # fmt: skip
    deployment = Deployment(name, part.reference.model_id, part.reference.version, said, unit.now)
    unit.tx.save_deployment(deployment)
    return deployment, part


def _with_named_outputs(
    dsl: Mapping[str, Any], spec: JobSpec, modules: Mapping[str, ModuleInfo]
) -> dict[str, Any]:
    """Return the DSL with a name for each output that has the component's own key: keys differ from stage to stage.

    Outputs of data get names of no stage, which stand for the same output in a prediction, in the component's order.
    Models keep their keys, by which they are stored."""
    names: dict[str, dict[str, str]] = {}
    components = {name: dict(one) for name, one in dsl["components"].items()}
    for name, task in spec.tasks.items():
        module = modules.get(task.module)
        if not isinstance(module, DescribesArtifacts) or module.takes_other_keys:
            continue
        declared = {one.kind for one in task.outputs}
        outputs = dict(components[name].get("output") or {})
        if DATA not in declared and (keys := keys_of(module.outputs, DATA, task.stage)):
            names[name] = {key: f"output_{place}" for place, key in enumerate(keys)}
            outputs[DATA] = list(names[name].values())
        if MODEL not in declared and (keys := keys_of(module.outputs, MODEL, task.stage)):
            outputs[MODEL] = keys
        components[name]["output"] = outputs
    for one in components.values():
        inputs = dict(one.get("input") or {})
        if isinstance(inputs.get(DATA), Mapping):
            inputs[DATA] = {key: [_renamed(text, names) for text in given] for key, given in inputs[DATA].items()}
            one["input"] = inputs
    return {"components": components}


def _renamed(source: object, names: Mapping[str, Mapping[str, str]]) -> object:
    task, _, alias = source.partition(".") if isinstance(source, str) else ("", "", "")
    return f"{task}.{names[task][alias]}" if alias in names.get(task, {}) else source


def _check_parts(unit: UnitOfWork, part: StoredModel, dsl: Mapping[str, Any]) -> None:
    """Check that the DSL names models of this version that were made, at whatever party. Raises BadRequest.

    This party knows its own parts alone, so only a task of which it has some is checked."""
    of = part.reference
    mine = [one.reference for one in unit.tx.models_of_version(of.model_id, of.version)]
    for task, output in models_in(dsl):
        made = [one.output for one in mine if one.task == task]
        if made and output not in made:
            raise BadRequest(f"dsl: {_OF_MODEL}.{task}.{output} was not made; {task} has made {', '.join(made)}")


def models_in(dsl: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return task and output of each stored model that the DSL of a deployment reads."""
    components = dsl.get("components")
    found = []
    for one in components.values() if isinstance(components, Mapping) else ():
        inputs = one.get("input") if isinstance(one, Mapping) else None
        given = inputs.get("model") if isinstance(inputs, Mapping) else None
        for texts in given.values() if isinstance(given, Mapping) else [given or []]:
            found += [parts for text in texts if (parts := _parts_of(text)) is not None]
    return found


def _parts_of(text: object) -> tuple[str, str] | None:
    """Return task and output of `pipeline.<task>.<output>`; None for any other value."""
    parts = text.split(".") if isinstance(text, str) else []
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == _OF_MODEL else None


def is_prediction(conf: Mapping[str, Any]) -> bool:
    """Return whether a runtime conf is that of a job that predicts."""
    return _common(conf).get("job_type") == PREDICT


def _common(conf: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = conf.get("job_parameters")
    common = parameters.get("common") if isinstance(parameters, Mapping) else None
    return common if isinstance(common, Mapping) else {}


def prediction(context: Context, conf: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and runtime conf of a job that predicts with a deployed model.

    The DSL is that of the deployment, whatever the client has sent, as in FATE. Parameters of the training count unless
    the conf gives others. Raises BadRequest."""
    common = _common(conf)
    model_id, version = str(common.get("model_id") or ""), str(common.get("model_version") or "")
    place = "job_runtime_conf.job_parameters.common"
    if not version:
        raise BadRequest(f"{place}.model_version: is missing; flow model deploy returns that of a deployed model")
    deployment = context.read(lambda tx: tx.deployment(version))
    if deployment is None:
        raise BadRequest(
            f"{place}.model_version: {shown(version)} is not a deployed model here; "
            f"flow model deploy --model-id {model_id or 'ID'} --model-version {version} deploys it"
        )
    dsl = _with_references(deployment)
    return dsl, _conf_of(conf, deployment, dsl, context.modules)


def _with_references(deployment: Deployment) -> dict[str, Any]:
    """Return the DSL with each stored model by its id and version instead of `pipeline`."""

    def named(text: object) -> object:
        parts = _parts_of(text)
        if parts is None:
            return text
        return reference_document(ModelReference(deployment.model_id, deployment.version, *parts))

    components = {}
    for name, one in deployment.document["dsl"]["components"].items():
        inputs = dict(one.get("input") or {})
        given = inputs.get("model")
        if isinstance(given, Mapping):
            inputs["model"] = {key: [named(text) for text in texts] for key, texts in given.items()}
        elif given:
            inputs["model"] = [named(text) for text in given]
        components[name] = {**one, "input": inputs}
    return {"components": components}


def _conf_of(
    conf: Mapping[str, Any], deployment: Deployment, dsl: Mapping[str, Any], modules: Mapping[str, ModuleInfo]
) -> dict[str, Any]:
    names = dsl["components"].keys()
    trained = _only(deployment.document["component_parameters"], names)
    parameters = conf.get("job_parameters") or {}
    common = dict(_common(conf))
    task_conf = {name: dict(one) for name, one in (common.get("task_conf") or {}).items() if isinstance(one, Mapping)}
    for name, one in dsl["components"].items():
        module = modules.get(str(one.get("module")))
        if isinstance(module, DescribesArtifacts) and PREDICT in module.stages:
            task_conf.setdefault(name, {}).setdefault("stage", PREDICT)
    if task_conf:
        common["task_conf"] = task_conf
    return {
        **conf, "job_parameters": {**parameters, "common": common},
        "component_parameters": _merged(trained, conf.get("component_parameters") or {}),
    }  # fmt: skip


def _only(parameters: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the component parameters of these components, for all parties and by role."""
    found: dict[str, Any] = {}
    if common := _of_these(parameters.get("common"), names):
        found["common"] = common
    for role, by_place in (parameters.get("role") or {}).items():
        kept = {place: _of_these(block, names) for place, block in (by_place or {}).items()}
        if any(kept.values()):
            found.setdefault("role", {})[role] = {place: block for place, block in kept.items() if block}
    return found


def _of_these(block: Mapping[str, Any] | None, names: Collection[str]) -> dict[str, Any]:
    return {name: one for name, one in (block or {}).items() if name in names}


def _merged(below: Any, above: Any) -> Any:
    """Return two JSON values as one: objects key by key, any other value of `above` wins."""
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    return {**below, **{key: _merged(below[key], one) if key in below else one for key, one in above.items()}}


def predict_conf(deployment: Deployment, fate_id: str) -> dict[str, Any]:
    """Return a runtime conf for a job that predicts with a deployed model, with names of tables to be filled in."""
    roles = deployment.document.get("role") or {}
    readers = [
        name for name, one in deployment.document["dsl"]["components"].items()
        if not (one.get("input") or {}) and (one.get("output") or {}).get("data")
    ]  # fmt: skip
    first = next(iter(roles), "guest")
    filled = {
        role: {
            str(place): {
                name: {"table": {"name": f"name_to_be_filled_{place}", "namespace": f"namespace_to_be_filled_{place}"}}
                for name in readers
            }
            for place in range(len(ids))
        }
        for role, ids in roles.items() if role != "arbiter" and readers
    }  # fmt: skip
    return {
        "dsl_version": 2, "initiator": {"role": first, "party_id": (roles.get(first) or [None])[0]}, "role": roles,
        "job_parameters": {
            "common": {"job_type": PREDICT, "model_id": fate_id, "model_version": deployment.name},
        },
        "component_parameters": {"role": filled} if filled else {},
    }  # fmt: skip
