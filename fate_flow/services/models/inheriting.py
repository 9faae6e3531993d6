"""Jobs that inherit tasks of another job (`dag.conf.inheritance` of FATE 2): what the submitting party looks up, and
the models that belong to both jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.job import Job
from fate_flow.core.model.spec import JobSpec, ModelReference
from fate_flow.core.model.status import TaskStatus
from fate_flow.jobspec.fate_v2.inheritance import asked_for, with_models
from fate_flow.services.context.documents import spec_in_row
from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import StoredModel


class InheritanceFailed(OperationFailed):
    """A job cannot inherit what its document names."""


def with_inheritance(context: Context, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a submitted `dag_schema` with the name of the models of the job that it inherits from.

    Raises InheritanceFailed if this party knows no such job, or if one of the tasks has not succeeded."""
    asked = asked_for(body)
    if asked is None:
        return body
    return with_models(body, *context.read(lambda tx: _models_of(context, tx, *asked)))


def _models_of(context: Context, tx: Transaction, job_id: str, names: tuple[str, ...]) -> tuple[str, int]:
    document, place = tx.document(job_id), "dag.conf.inheritance"
    if document is None:
        raise InheritanceFailed(f"{place}.job_id: party {context.party_id} has no job {shown(job_id)}")
    statuses = {task.key.name: task.status for task in tx.tasks(job_id)}
    for name in names:
        status = statuses.get(name)
        if status is not TaskStatus.SUCCESS:
            found = "it has no such task" if status is None else f"that task is {status.value} there"
            raise InheritanceFailed(
                f"{place}.task_list: {shown(name)} cannot be inherited from job {job_id}: {found}; "
                "a task that has succeeded can"
            )
    spec = spec_in_row(context, document)
    name_of_models = spec.model_id or job_id
    made = (one.reference for one in tx.models_of_job(job_id))
    versions = (one.version for one in made if one.model_id == name_of_models)
    return name_of_models, max(versions, default=spec.model_version)


def inherited_models(unit: UnitOfWork, spec: JobSpec, job: Job) -> Iterator[tuple[ModelReference, StoredModel]]:
    """Yield this party's models of the tasks that a job has inherited, each with its name as a model of this job.

    A job that another party has initiated gets those alone in whose making all its parties took part."""
    inherited = spec.inherited
    if inherited is None:
        return
    readers = {one.party_id for one in spec.parties}
    is_own = spec.initiator.party_id == unit.context.party_id
    for model in unit.tx.models_of_version(inherited.model_id, inherited.version):
        made = model.reference
        is_meant = model.party == job.party and made.task in inherited.tasks
        if is_meant and (is_own or readers <= model.party_ids):
            name = ModelReference(spec.model_id or job.job_id, spec.model_version + job.run, made.task, made.output)
            yield name, replace(model, job_id=job.job_id, initiator=spec.initiator.party_id)
