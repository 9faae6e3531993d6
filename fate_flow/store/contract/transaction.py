"""The contract of every store: the same for SQLite, MySQL and the memory store of the simulation.

All reads and writes happen inside `Store.transaction()`, which commits as a whole or not at all. Inside it,
`savepoint()` undoes a part. Every write that depends on a value that was read has this value in its condition, and
returns False if the row has moved on; no change of another process is overwritten.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TaskStatus
from fate_flow.store.contract.bindings import Bindings
from fate_flow.store.contract.jobs import Jobs
from fate_flow.store.contract.models import Models
from fate_flow.store.contract.old_jobs import OldJobs
from fate_flow.store.contract.outbox import Notifications, Outbox
from fate_flow.store.contract.party_keys import KeysOfParties
from fate_flow.store.contract.peers import Peers
from fate_flow.store.contract.permissions import Permissions
from fate_flow.store.contract.queue import Queue
from fate_flow.store.contract.record import Record, Segments, Witnessed
from fate_flow.store.contract.resources import Resources
from fate_flow.store.contract.results import Results
from fate_flow.store.contract.seats import Seats
from fate_flow.store.contract.submissions import Submissions
from fate_flow.store.contract.tasks import Tasks
from fate_flow.store.contract.workers import Workers
from fate_flow.store.values import OutputTable, TableMeta


class Transaction(
    Bindings, Jobs, KeysOfParties, Models, Notifications, OldJobs, Outbox, Peers, Permissions, Queue, Record, Resources,
    Results, Seats, Segments, Submissions, Tasks, Witnessed, Workers, Protocol,
):  # fmt: skip
    """One unit of work. Times are milliseconds since the epoch; `retry_at` is steady time (see `steady`)."""

    def savepoint(self) -> AbstractContextManager[None]:
        """Undo the writes of the block if it raises; the exception is raised on."""


def published(tx: Transaction, job_id: str, task: str, party: Party) -> tuple[OutputTable, ...]:
    """Return the outputs of a party task; empty until the task has succeeded at all parties."""
    found = tx.outputs(job_id, task, party)
    row = tx.task(found[0].task) if found else None
    return found if row is None or row.status is TaskStatus.SUCCESS else ()


def handed_on(tx: Transaction, output: OutputTable) -> TableMeta | None:
    """Return the table that the task handed on; None if it was deleted since, or if another job has rewritten it."""
    table = tx.table(output.namespace, output.name)
    is_another = table is not None and output.written_by not in ("", table.job_id)
    return None if is_another else table


class Store(Protocol):
    def reading(self) -> AbstractContextManager[Transaction]:
        """Return a context for reads without a lock or a common snapshot; writes in it violate the contract."""

    def snapshot(self) -> AbstractContextManager[Transaction]:
        """Return a context for reads without a lock, all of which see what was committed when the first one began."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Return a transaction: it commits at the end, and rolls back on an exception. The store does not retry it."""
