"""Looking up the stored models that a task reads at this party."""

from __future__ import annotations

from fate_flow.core.access.authority import PARTY_0
from fate_flow.core.model.artifact import MODEL, Artifact
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.modules import DescribesArtifacts
from fate_flow.core.model.spec import Input, JobSpec, ModelReference, Party, TaskSpec
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.models.storing import READ, note_model
from fate_flow.store.values import StoredModel


def stored_input(unit: UnitOfWork, spec: JobSpec, key: TaskKey, reference: ModelReference) -> Artifact | str:
    """Return a stored model as the artifact that a worker reads, or text that says why it cannot; note its digest in
    the history of the job."""
    found = _readable(unit, spec, spec.tasks[key.name], key.party, reference)
    if isinstance(found, str):
        return found
    note_model(unit, key, READ, found)
    return unit.context.models.artifact(found)


def why_models_are_missing(unit: UnitOfWork, spec: JobSpec, party: Party) -> str:
    """Return text about the first stored model that a task would read at this party and cannot; empty if there is
    none."""
    for task in spec.tasks_of(party):
        for one in task.inputs if party not in task.passed_at else ():
            for reference in one.models if one.is_read_at(party) else ():
                found = _readable(unit, spec, task, party, reference)
                why = found if isinstance(found, str) else _why_not_taken(unit, task, one, found)
                if why:
                    return why
    return ""


def _readable(
    unit: UnitOfWork, spec: JobSpec, task: TaskSpec, party: Party, reference: ModelReference
) -> StoredModel | str:
    model = unit.tx.model(reference, party)
    initiator = spec.initiator.party_id
    if initiator not in (unit.context.party_id, PARTY_0):
        # The other party learns only of models in whose making all these parties took part.
        readers = {initiator, *(one.party_id for one in task.parties)}
        if model is None or not readers <= model.party_ids:
            return (
                f"{party} has no part of {reference} for this job: it has none, or a party of {task.name} did not take "
                "part in making it (flow model list, there)"
            )
    if model is None:
        return f"{party} has no part of {reference} in its store (flow model list, there)"
    if not unit.context.models.has(model):
        return f"{party}: the file of {reference} is missing or has another size (flow model import, there)"
    return model


def _why_not_taken(unit: UnitOfWork, task: TaskSpec, one: Input, model: StoredModel) -> str:
    module = unit.context.modules.get(task.module)
    info = module.inputs.get(one.key) if isinstance(module, DescribesArtifacts) else None
    if info is None or info.section != MODEL or model.kind in info.kinds:
        return ""
    return f"{model.party}: {model.reference} is of kind {model.kind}; {task.module} reads {' or '.join(info.kinds)}"


def why_id_is_taken(unit: UnitOfWork, spec: JobSpec, job_id: str) -> str:
    """Return text if this store has models of another job with the id of a new one; empty if it has none."""
    maker = (job_id, spec.initiator.party_id, frozenset(spec.parties))
    if all(one.maker == maker for one in unit.tx.models_of_job(job_id)):
        return ""
    return (
        f"job {job_id} is here already: party {unit.context.party_id} has models of another job with this id; "
        "submit it again: that takes a new id"
    )


def why_name_is_taken(unit: UnitOfWork, spec: JobSpec, party: Party, job_id: str) -> str:
    """Return text if this job may not give its models their name here; empty if it may.

    Another job has stored this version or a later one; or the name is another initiator's, whose newest version would
    be of this job from then on."""
    if not spec.model_id:
        return ""
    initiator, own = spec.initiator.party_id, {unit.context.party_id, PARTY_0}
    if initiator not in own and unit.tx.initiators_of_model(spec.model_id) - {initiator}:
        return (
            f"{party} has models under the name {spec.model_id} of jobs that party {initiator} has not initiated: "
            f"{spec.paths.of('job_runtime_conf.job_parameters.common.model.id')}: give them another name"
        )
    taken, newest = unit.tx.newest_of_others(spec.model_id, party, job_id), unit.tx.newest_version(spec.model_id)
    if taken is None or newest is None or taken < spec.model_version:
        return ""
    place = spec.paths.of("job_runtime_conf.job_parameters.common.model.version")
    return (
        f"{party} has version {taken} of model {spec.model_id}, made by another job: "
        f"{place}: {newest + 1} is free, or remove it there (flow model delete)"
    )
