"""What is done once the rows that order it are stored, as values, and the one function that carries them out.

Each is idempotent, and is derived from the rows again when it is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.job import JobKey, TaskKey, Worker
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.core.text.phrases import sanitized
from fate_flow.services.context.ports import Context, LaunchOrder
from fate_flow.store.values import Document, TableMeta

_LONGEST_PROBLEM = 4_000        # characters


@dataclass(frozen=True)
class LaunchWorker:
    """Open the exchange, write the worker's folder, wake the spawner."""

    order: LaunchOrder


@dataclass(frozen=True)
class StopWorker:
    """Tell its runner to end it: SIGTERM, and SIGKILL after so many seconds."""

    worker: Worker
    grace_seconds: float


@dataclass(frozen=True)
class ForgetWorker:
    """Remove what one that has exited has left."""

    worker: Worker


@dataclass(frozen=True)
class CloseExchange:
    """No worker of this attempt of a task sends or receives any more."""

    task: TaskKey
    incarnation: str


@dataclass(frozen=True)
class WriteConfs:
    """The files of a job that say what it is."""

    key: JobKey
    document: Document


@dataclass(frozen=True)
class RemoveJobFolder:
    job_id: str


@dataclass(frozen=True)
class RemoveMessages:
    """The messages of a job that is over here, and the files that clients sent for its uploads."""

    job_id: str
    uploads: tuple[str, ...]


@dataclass(frozen=True)
class RemoveTableFiles:
    tables: tuple[TableMeta, ...]


Effect = (
    LaunchWorker | StopWorker | ForgetWorker | CloseExchange | WriteConfs | RemoveJobFolder | RemoveMessages
    | RemoveTableFiles
)  # fmt: skip


def carry_out(context: Context, effect: Effect) -> None:
    match effect:
        case LaunchWorker(order):
            _launch(context, order)
        case StopWorker(worker, grace_seconds):
            context.engine.stop(worker, grace_seconds)
        case ForgetWorker(worker):
            context.engine.forget(worker)
        case CloseExchange(task, incarnation):
            context.exchange.close(task, incarnation)
        case WriteConfs(key, document):
            context.files.write_confs(key, document)
        case RemoveJobFolder(job_id):
            context.files.remove_job(job_id)
        case RemoveMessages(job_id, uploads):
            _remove_messages(context, job_id, uploads)
        case RemoveTableFiles(tables):
            for table in tables:
                context.files.drop_table(table)
        case _:
            assert_never(effect)


def _launch(context: Context, order: LaunchOrder) -> None:
    """What keeps a worker from starting is kept for the poll, which orders it again."""
    worker = order.worker
    try:
        context.exchange.open(worker.task, order.incarnation, order.parties, order.speaks_as)
        context.engine.launch(order)
    except (OSError, StorageFailed) as error:
        text = os_error_text(error) if isinstance(error, OSError) else str(error)
        context.launch_problems[worker.worker_id] = sanitized(text, _LONGEST_PROBLEM)
        raise
    context.launch_problems.pop(worker.worker_id, None)


def _remove_messages(context: Context, job_id: str, uploads: tuple[str, ...]) -> None:
    if all(row.is_final for row in context.read(lambda tx: tx.jobs_here(job_id))):
        context.exchange.purge(job_id)      # it may have begun again since the commit
    for path in uploads:
        context.files.drop_upload(path)
