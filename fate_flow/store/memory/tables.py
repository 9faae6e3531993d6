"""The tables of a party in memory, and the journal that undoes writes to them.

Rows are frozen values in dictionaries, so a transaction needs no copy of them: the journal keeps the value that each
write replaced, and an undo writes it back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, TypeVar

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.access.joined_party import Contact, JoinedParty
from fate_flow.core.access.key_list import PartyKeys, ReplacedKeyList
from fate_flow.core.access.permission import Thing
from fate_flow.core.access.site import SiteKey
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.history import HistoryEntry
from fate_flow.core.model.job import Command, EngineState, Hold, Job, JobKey, Seat, Task, TaskKey, Worker
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.spec import ModelReference, Party
from fate_flow.core.notifications.notification import Occasion
from fate_flow.core.record.log import Batch, Head, StoredCheckpoint, StoredEntry
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.core.record.segment import Segment
from fate_flow.store.database.json_text import from_json, to_json
from fate_flow.store.values import (
    Connector,
    Deployment,
    Document,
    Metric,
    ModelTag,
    OutputTable,
    StoredModel,
    StoredNotification,
    Submission,
    TableMeta,
)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class JobRow:
    """A job, and the columns of its row that `Job` does not have."""

    job: Job
    document: Document
    has_signal: bool = False
    blocked_cores: int = 0
    has_ended: bool = False       # f_end_time is not NULL


class Journal:
    """The undo functions of a transaction's writes, oldest first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._depth = 0

    def append(self, undo: Callable[[], None]) -> None:
        assert self._depth, "written outside of a transaction"
        self._undo.append(undo)

    def begin(self) -> int:
        """Begin a transaction, or a part of one; return where `end` goes back to."""
        self._depth += 1
        return len(self._undo)

    def end(self, begin: int, has_failed: bool) -> None:
        """End what was begun there; if it has failed, undo its writes, the newest first."""
        try:
            while has_failed and len(self._undo) > begin:
                self._undo.pop()()
        finally:
            self._depth -= 1
            if not self._depth:
                self._undo.clear()


Group = Callable[[V], Hashable]


class Table(Generic[K, V]):
    """Rows by key, and in groups for the queries by other columns."""

    def __init__(self, journal: Journal, **groups: Group[V]) -> None:
        self.rows: dict[K, V] = {}
        self._journal = journal
        self._groups: dict[str, tuple[Group[V], dict[Hashable, dict[K, V]]]] = {
            name: (group, {}) for name, group in groups.items()
        }

    def of(self, group: str, value: Hashable) -> tuple[V, ...]:
        """Return the rows of a group, in any order."""
        return tuple(self._groups[group][1].get(value, {}).values())

    def put(self, key: K, row: V) -> None:
        old = self.rows.get(key)
        self._journal.append(lambda: self._set(key, old))
        self._set(key, row)

    def drop(self, key: K) -> bool:
        old = self.rows.get(key)
        if old is None:
            return False
        self._journal.append(lambda: self._set(key, old))
        self._set(key, None)
        return True

    def drop_group(self, group: str, value: Hashable) -> None:
        for key in tuple(self._groups[group][1].get(value, {})):
            self.drop(key)

    def _set(self, key: K, row: V | None) -> None:
        old = self.rows.pop(key, None) if row is None else self.rows.get(key)
        if row is not None:
            self.rows[key] = row
        for group, members in self._groups.values():
            if old is not None and (row is None or group(old) != group(row)):
                del members[group(old)][key]
            if row is not None:
                members.setdefault(group(row), {})[key] = row


BY_JOB = "job"
BY_STATUS = "status"
BY_LOG = "log"          # of the record, and its epoch; unsealed entries are in no log
BY_MAKER = "maker"      # job, task and party


class Rows:
    """All tables of one party."""

    def __init__(self) -> None:
        self.journal = journal = Journal()
        self.command_ids = count(1)     # never used twice, also not after a rollback
        self.metric_ids = count(1)
        self.entry_numbers = count(1)
        self.key_list_numbers = count(1)
        self.jobs: Table[JobKey, JobRow] = Table(
            journal, job=lambda row: row.job.job_id, status=lambda row: row.job.status
        )
        self.seats: Table[tuple[str, Party], Seat] = Table(
            journal, job=lambda seat: seat.job_id, status=lambda seat: seat.status
        )
        self.tasks: Table[TaskKey, Task] = Table(
            journal, job=lambda task: task.key.job_id, status=lambda task: task.status
        )
        self.workers: Table[str, Worker] = Table(
            journal, job=lambda worker: worker.task.job_id, status=lambda worker: worker.status
        )
        self.engines: Table[str, EngineState] = Table(journal)
        self.outbox: Table[int, Command] = Table(journal)
        self.history: Table[int, HistoryEntry] = Table(journal, job=lambda entry: entry.job_id)
        self.record: Table[int, StoredEntry] = Table(
            journal, job=lambda one: one.job_id, log=lambda one: (one.log if one.is_sealed else "", one.epoch)
        )
        self.record_ids = count(1)
        self.record_batches: Table[tuple[str, int, int], Batch] = Table(journal)
        self.record_heads: Table[str, Head] = Table(journal)
        self.segments: Table[tuple[str, int, int], Segment] = Table(journal)
        self.checkpoints: Table[tuple[str, int, int], StoredCheckpoint] = Table(journal)
        self.witnessed: Table[str, StoredCheckpoint] = Table(journal)
        self.questions: Table[str, tuple[str, ...]] = Table(journal)
        self.evidence: Table[tuple[str, int, bool], Evidence] = Table(journal)
        self.people: Table[str, str] = Table(journal)
        self.peers: Table[str, int] = Table(journal)
        self.troubles: Table[str, PeerTrouble] = Table(journal)
        self.intake: Table[str, Hold] = Table(journal)
        self.permissions: Table[tuple[str, Thing], tuple[Thing, str | None]] = Table(journal)     # text of its limits
        self.party_limits: Table[str, tuple[str, str, int]] = Table(journal)     # text of the limits, who, when
        self.table_uses: Table[tuple[str, Thing, str], int] = Table(journal)     # by party, table and share: when
        self.site_keys: Table[str, SiteKey] = Table(journal)
        self.party_keys: Table[str, PartyKeys] = Table(journal)
        self.old_party_keys: Table[int, tuple[str, ReplacedKeyList]] = Table(journal)
        self.joined_parties: Table[str, JoinedParty] = Table(journal)
        self.contacts: Table[tuple[str, str], Contact] = Table(journal)
        self.notifications: Table[int, StoredNotification] = Table(journal)
        self.notification_choices: Table[str, frozenset[Occasion]] = Table(journal)     # by person
        self.noted_silences: Table[str, int] = Table(journal)       # by party: when
        self.schedulers: Table[str, tuple[str, int, int]] = Table(journal)
        self.bindings: Table[str, JobBinding] = Table(journal)
        self.submissions: Table[str, Submission] = Table(journal, job=lambda one: one.job_id)
        self.tables: Table[tuple[str, str], TableMeta] = Table(journal)
        self.connectors: Table[str, Connector] = Table(journal)
        self.models: Table[tuple[ModelReference, Party], StoredModel] = Table(journal)
        self.deployments: Table[str, Deployment] = Table(journal)
        self.model_tags: Table[str, ModelTag] = Table(journal)
        self.tagged_models: Table[tuple[str, str], str] = Table(journal)     # by tag and model id
        self.outputs: Table[tuple[TaskKey, str], OutputTable] = Table(
            journal, maker=lambda one: _maker(one.task), job=lambda one: one.task.job_id
        )
        self.metrics: Table[int, tuple[int, Metric]] = Table(
            journal, maker=lambda row: _maker(row[1].task), job=lambda row: row[1].task.job_id
        )
        self.failed_workers: Table[TaskKey, tuple[TaskKey, int]] = Table(journal, job=lambda row: row[0].job_id)
        self.summaries: Table[TaskKey, tuple[TaskKey, Mapping[str, Any]]] = Table(
            journal, maker=lambda row: _maker(row[0]), job=lambda row: row[0].job_id
        )


def refuse(constraint: str, is_violated: bool) -> None:
    if is_violated:
        raise StorageFailed(f"the database refused: constraint failed: {constraint}")


def as_json(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the value as it would come back from a database."""
    if not value:
        return {}
    return from_json(to_json(dict(value)))


def _maker(key: TaskKey) -> tuple[str, str, Party]:
    return (key.job_id, key.name, key.party)


def seat_key(seat: Seat) -> tuple[str, Party]:
    return (seat.job_id, seat.party)


def _age(row: JobRow) -> tuple[int, JobKey]:
    return (row.job.create_time, row.job.key)


def by_age(rows: Iterable[JobRow]) -> tuple[Job, ...]:
    return tuple(row.job for row in sorted(rows, key=_age))


def ids_by_age(rows: Iterable[JobRow]) -> tuple[str, ...]:
    return tuple(row.job.job_id for row in sorted(rows, key=_age))
