"""Effects: actions after the commit of the rows that order them, as values, and the function that carries them out.

Each effect is idempotent, and is derived from the rows again if it is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from fate_flow.core.model.artifact import Artifact
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import JobKey, TaskKey, Worker
from fate_flow.core.streams.counts import PortCount
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.core.text.phrases import sanitized
from fate_flow.services.context.ports import Context, LaunchOrder, StreamsHere
from fate_flow.services.context.traces import trace_of
from fate_flow.services.record.entries import of_moves, of_streams
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import Document, StoredModel

_LONGEST_PROBLEM = 4_000        # characters


@dataclass(frozen=True)
class LaunchWorker:
    """Open the exchange, write the worker's folder, wake the spawner."""

    order: LaunchOrder


@dataclass(frozen=True)
class StopWorker:
    """Tell the worker's runner to end it: SIGTERM, and SIGKILL after `grace_seconds`."""

    worker: Worker
    grace_seconds: float


@dataclass(frozen=True)
class ReleaseWorker:
    """Let a worker begin that waits for the others of its gang."""

    worker: Worker


@dataclass(frozen=True)
class ForgetWorker:
    """Remove the output and the working folder of a worker that has exited."""

    worker: Worker


@dataclass(frozen=True)
class CloseExchange:
    """Close the exchange of this attempt of a task, and its streams: no worker of it sends or receives any more."""

    task: TaskKey
    incarnation: str


@dataclass(frozen=True)
class CollectStreams:
    """Note what streams of this attempt have carried that ended after it was closed."""

    of: StreamsHere


@dataclass(frozen=True)
class WriteConfs:
    """Write the files with the documents of a job."""

    key: JobKey
    document: Document


@dataclass(frozen=True)
class RemoveJobFolder:
    job_id: str


@dataclass(frozen=True)
class RemoveMessages:
    """Remove the messages of a job that is over here, and the files that clients sent for its uploads."""

    job_id: str
    uploads: tuple[Artifact, ...]


@dataclass(frozen=True)
class RemoveArtifacts:
    """Remove the content of artifacts; their rows are already removed, or were never written."""

    artifacts: tuple[Artifact, ...]


@dataclass(frozen=True)
class RemoveModels:
    """Remove the files of models whose rows are already removed."""

    models: tuple[StoredModel, ...]


Effect = (
    LaunchWorker | StopWorker | ReleaseWorker | ForgetWorker | CloseExchange | CollectStreams | WriteConfs
    | RemoveJobFolder | RemoveMessages | RemoveArtifacts | RemoveModels
)  # fmt: skip


def carry_out(context: Context, effect: Effect) -> None:
    match effect:
        case LaunchWorker(order):
            _launch(context, order)
        case StopWorker() | ReleaseWorker() | ForgetWorker():
            _ask_engine(context, effect)
        case CloseExchange(task, incarnation):
            context.exchange.close(task, incarnation)
            _note_streams(context, StreamsHere(task, incarnation))
        case CollectStreams(of):
            _note_streams(context, of)
        case WriteConfs(key, document):
            _write_confs(context, key, document)
        case RemoveJobFolder(job_id):
            context.files.remove_job(job_id)
        case RemoveMessages(job_id, uploads):
            _remove_messages(context, job_id, uploads)
        case RemoveArtifacts() | RemoveModels():
            _remove_content(context, effect)
        case _:
            assert_never(effect)


def _remove_content(context: Context, effect: RemoveArtifacts | RemoveModels) -> None:
    if isinstance(effect, RemoveModels):
        for model in effect.models:
            remove_model_of_no_row(context, model)
    else:
        for artifact in effect.artifacts:
            context.files.remove_artifact(artifact)


def remove_model_of_no_row(context: Context, model: StoredModel) -> bool:
    """Remove the file of a model unless a row has been made for one of this name; return whether it was removed.

    A row that only this transaction sees keeps others from storing a file of this name meanwhile."""

    def remove(tx: Transaction) -> bool:
        if not tx.add_model(model):
            return False
        context.files.remove_artifact(context.models.artifact(model))
        return tx.drop_model(model.reference, model.party)

    return context.write(remove, is_repeatable=True)


def _ask_engine(context: Context, effect: StopWorker | ReleaseWorker | ForgetWorker) -> None:
    worker = effect.worker
    engine = context.engines.of(worker)
    if isinstance(effect, StopWorker):
        engine.stop(worker, effect.grace_seconds)
    elif isinstance(effect, ReleaseWorker):
        engine.release(worker)
    else:
        engine.forget(worker)


def _launch(context: Context, order: LaunchOrder) -> None:
    """Launch a worker. A problem is kept for the next poll, which launches again."""
    worker = order.worker
    try:
        context.exchange.open(
            worker.task, order.incarnation, order.parties, order.speaks_as, order.document, order.streams
        )
        context.engines.of(worker).launch(order)
    except (OSError, StorageFailed) as error:
        text = os_error_text(error) if isinstance(error, OSError) else str(error)
        context.launch_problems[worker.worker_id] = sanitized(text, _LONGEST_PROBLEM)
        raise
    context.launch_problems.pop(worker.worker_id, None)


def _write_confs(context: Context, key: JobKey, document: Document) -> None:
    """Write the files; leave none if another process refuses the job meanwhile. It removes the folder before, while or
    after they are written in it."""
    failure: OSError | None = None
    try:
        context.files.write_confs(key, document)
    except OSError as error:
        failure = error
    if not context.read(lambda tx: tx.jobs_here(key.job_id)):
        context.files.remove_job(key.job_id)
    elif failure is not None:
        raise failure


def _note_streams(context: Context, of: StreamsHere) -> None:
    """Add what the streams of an attempt have carried to the history of its job, if that is still known."""
    with context.exchange.collected_streams(of) as counts:
        if counts:
            context.write(partial(_add_counts, context, of.key, counts))


def _add_counts(context: Context, task: TaskKey, counts: Sequence[PortCount], tx: Transaction) -> None:
    if not tx.jobs_here(task.job_id):
        return
    now = context.clock()
    entries = [
        HistoryEntry(
            task.job_id, HistoryLevel.STREAM, "", "ended", now, task.party, task.name, task.version, message=str(one),
        )
        for one in counts
    ]  # fmt: skip
    tx.add_entries(entries)
    if context.keeps_record:
        traced = partial(trace_of, context, tx)
        tx.add_to_record((
            *of_moves(entries, context.fresh_salt, traced),
            *of_streams(task, counts, now, traced(task.job_id), context.fresh_salt),
        ))  # fmt: skip


def _remove_messages(context: Context, job_id: str, uploads: tuple[Artifact, ...]) -> None:
    if all(row.is_final for row in context.read(lambda tx: tx.jobs_here(job_id))):
        context.exchange.purge(job_id)      # checked again: the job may have been rerun since the commit
    for upload in uploads:
        context.files.remove_artifact(upload)
