"""What every store promises: one contract for SQLite, MySQL and the memory of a simulation.

All reads and writes happen inside `Store.transaction()`: it commits as a whole or not at all. Within it, `savepoint()`
undoes a part. Every write that depends on what was read before carries that in its condition and answers False when
the row has moved on; nothing is overwritten in silence.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TaskStatus
from fate_flow.store.contract.bindings import Bindings
from fate_flow.store.contract.connectors import Connectors
from fate_flow.store.contract.history import History
from fate_flow.store.contract.jobs import Jobs
from fate_flow.store.contract.old_jobs import OldJobs
from fate_flow.store.contract.outbox import Outbox
from fate_flow.store.contract.peers import Peers
from fate_flow.store.contract.permissions import Permissions
from fate_flow.store.contract.queue import Queue
from fate_flow.store.contract.resources import Resources
from fate_flow.store.contract.results import Results
from fate_flow.store.contract.seats import Seats
from fate_flow.store.contract.site_keys import SiteKeys
from fate_flow.store.contract.submissions import Submissions
from fate_flow.store.contract.tasks import Tasks
from fate_flow.store.contract.workers import Workers
from fate_flow.store.values import OutputTable, TableMeta


class Transaction(
    Bindings, Connectors, History, Jobs, OldJobs, Outbox, Peers, Permissions, Queue, Resources, Results, Seats,
    SiteKeys, Submissions, Tasks, Workers, Protocol,
):  # fmt: skip
    """One unit of work. Times are milliseconds since the epoch; `retry_at` is steady time (see `steady`)."""

    def savepoint(self) -> AbstractContextManager[None]:
        """An exception inside undoes what was done inside, and is raised on."""


def published(tx: Transaction, job_id: str, task: str, party: Party) -> tuple[OutputTable, ...]:
    """What a party task has made, once the task has succeeded at all parties; its worker may have named it before."""
    found = tx.outputs(job_id, task, party)
    row = tx.task(found[0].task) if found else None
    return found if row is None or row.status is TaskStatus.SUCCESS else ()


def handed_on(tx: Transaction, output: OutputTable) -> TableMeta | None:
    """The table as the task handed it on; None when it was deleted since, or another job wrote it anew."""
    table = tx.table(output.namespace, output.name)
    is_another = table is not None and output.written_by not in ("", table.job_id)
    return None if is_another else table


class Store(Protocol):
    def reading(self) -> AbstractContextManager[Transaction]:
        """For reads that need no lock and no common moment; who writes in it breaks the contract."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Commits at the end, rolls back on an exception; retried by nobody: the caller decides anew."""
