"""Storing the models of this party's shares, when their task has succeeded at all parties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from fate_flow.core.model.artifact import MODEL, Artifact
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import Job, JobKey, Task, TaskKey
from fate_flow.core.model.modules import output_names
from fate_flow.core.model.spec import JobSpec, ModelReference, Party
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.models.inheriting import inherited_models
from fate_flow.store.values import StoredModel

STORED, READ, CHOSEN = "stored", "read", "chosen"
_MOST_NAMED = 5                # one message between parties is 1,000 characters long


def store_models(unit: UnitOfWork, task: Task, artifacts: Iterable[Artifact]) -> None:
    """Store the models that a share has made and packed.

    Row and file are made in one transaction, the row first: it keeps others from the file. Raises StorageFailed if the
    disk refuses the file."""
    spec, job = unit.spec(task.key.job_id), unit.tx.job(JobKey(task.key.job_id, task.key.party))
    made = [one for one in artifacts if one.sha256]
    if spec is None or job is None or not made:
        return
    for output, artifact in _named(unit, spec, task, made):
        model = StoredModel(
            _reference(spec, job, task.key.name, output), task.key.party, artifact.kind, artifact.sha256, artifact.size,
            job.job_id, spec.initiator.party_id, task.key.version, task.module, spec.roles, artifact.metadata, unit.now,
        )  # fmt: skip
        is_new = unit.tx.add_model(model)
        known = None if is_new else unit.tx.model(model.reference, model.party)
        if known is not None and known.maker != model.maker:
            text = f"{model.reference} was not stored: another job, {known.job_id}, has made one of this name"
            unit.note(Event.JOB_WARNING, job_id=job.job_id, text=text)
            continue
        if not is_new:
            unit.tx.save_model(model)
        _on_disk(partial(unit.context.models.keep, artifact, model))
        note_model(unit, task.key, STORED, model)


def _reference(spec: JobSpec, job: Job, task: str, output: str) -> ModelReference:
    return ModelReference(spec.model_id or job.job_id, spec.model_version + job.run, task, output)


def _named(
    unit: UnitOfWork, spec: JobSpec, task: Task, made: list[Artifact]
) -> Iterator[tuple[str, Artifact]]:
    """Yield the models with the names of their outputs in the document; of several under one key, with their number."""
    of_task = spec.tasks[task.key.name]
    names = output_names(unit.context.modules.get(task.module), of_task.outputs, MODEL, of_task.stage)
    keys = [one.key for one in made]
    for place, artifact in enumerate(made):
        name = names.get(artifact.key, artifact.key)
        number = f"_{keys[:place].count(artifact.key)}" if keys.count(artifact.key) > 1 else ""
        yield f"{name}{number}", artifact


def carry_over(unit: UnitOfWork, job: Job) -> None:
    """Give models of tasks that this run did not run its name, too, when it has succeeded: of tasks that it has kept,
    and of those that the job has inherited.

    Raises StorageFailed if the disk refuses it."""
    spec = unit.spec(job.job_id)
    if spec is None:
        return
    for reference, model in inherited_models(unit, spec, job):
        if unit.tx.model(reference, job.party) is None and unit.context.models.has(model):
            _give_name(unit, model, reference)
    if job.run:
        _carry_over_kept(unit, spec, job)


def _give_name(unit: UnitOfWork, model: StoredModel, reference: ModelReference) -> None:
    now = replace(model, reference=reference, create_time=unit.now)
    _on_disk(partial(unit.context.models.copy, model, now))
    unit.tx.save_model(now)


def _carry_over_kept(unit: UnitOfWork, spec: JobSpec, job: Job) -> None:
    name = spec.model_id or job.job_id
    mine = [
        one for one in unit.tx.models_of_job(job.job_id) if (one.reference.model_id, one.party) == (name, job.party)
    ]
    kept = {
        task.key.name: task.key.version for task in unit.tx.tasks(job.job_id)
        if task.key.party == job.party and task.status is TaskStatus.SUCCESS
    }  # fmt: skip
    newest: dict[ModelReference, StoredModel] = {}
    for model in sorted(mine, key=lambda one: one.reference.version):
        if kept.get(model.reference.task) == model.task_version:
            newest[_reference(spec, job, model.reference.task, model.reference.output)] = model
    for reference, model in newest.items():
        if model.reference.version < reference.version and unit.tx.model(reference, job.party) is None:
            _give_name(unit, model, reference)


def _on_disk(act: Callable[[], None]) -> None:
    try:
        act()
    except OSError as error:
        raise StorageFailed(f"a model cannot be stored: {os_error_text(error)}") from error


def note_model(unit: UnitOfWork, key: TaskKey, what: str, model: StoredModel) -> None:
    """Add to the history of the job here that a model was stored or read: its name and its digest."""
    text = f"{model.reference} sha256 {model.sha256}"
    unit.pending = unit.pending.with_entry(HistoryEntry(
        key.job_id, HistoryLevel.MODEL, "", what, unit.now, key.party, key.name, key.version, message=text,
    ))  # fmt: skip


def note_chosen(unit: UnitOfWork, job_id: str, texts: Iterable[str], party: Party) -> None:
    """Add to the history of a job which versions of models were chosen for it, when it was submitted."""
    for text in texts:
        entry = HistoryEntry(job_id, HistoryLevel.MODEL, "", CHOSEN, unit.now, party, message=text)
        unit.pending = unit.pending.with_entry(entry)


def models_text(unit: UnitOfWork, task: Task, artifacts: Iterable[Artifact]) -> str:
    """Return the digests of the models that a share has read and made, for the history of its initiator, too; empty if
    there are none."""
    spec = unit.spec(task.key.job_id)
    wanted = spec.tasks[task.key.name].models_at(task.key.party) if spec is not None else ()
    read = [unit.tx.model(one, task.key.party) for one in wanted]
    found = [f"read {one.reference} sha256 {one.sha256}" for one in read if one is not None]
    found += [f"made {one.key} sha256 {one.sha256}" for one in artifacts if one.sha256]
    more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return "; ".join(found[:_MOST_NAMED]) + more
