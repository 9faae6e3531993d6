"""What every store promises. A test file gives the fixture `store`, and subclasses this under a name that begins with
Test."""

from __future__ import annotations

from tests.store_contract.job_changes import JobChangeCases
from tests.store_contract.job_ends import JobEndCases
from tests.store_contract.jobs import JobCases
from tests.store_contract.models import ModelCases
from tests.store_contract.outbox import MessageCases, NotificationCases, OutboxCases, RecordCases
from tests.store_contract.queue import PendingCases, QueueCases, RoundCases
from tests.store_contract.resources import ResourceCases
from tests.store_contract.results import ResultCases, SubmissionCases
from tests.store_contract.retention import LeftCases, RetentionCases
from tests.store_contract.seats import SeatCases
from tests.store_contract.servers import PartyKeyCases, PermissionCases, SchedulerCases, SiteKeyCases
from tests.store_contract.tasks import TaskCases
from tests.store_contract.transactions import ReadingCases, TransactionCases
from tests.store_contract.workers import FailedWorkerCases, WaitingShareCases, WorkerCases


class StoreContract(
    TransactionCases,
    ReadingCases,
    JobCases,
    JobChangeCases,
    JobEndCases,
    RoundCases,
    QueueCases,
    PendingCases,
    ResourceCases,
    SeatCases,
    TaskCases,
    WorkerCases,
    OutboxCases,
    NotificationCases,
    SchedulerCases,
    PermissionCases,
    SiteKeyCases,
    PartyKeyCases,
    LeftCases,
    MessageCases,
    FailedWorkerCases,
    WaitingShareCases,
    RetentionCases,
    SubmissionCases,
    ResultCases,
    ModelCases,
    RecordCases,
):
    """All of it but bindings and moves, which have classes of their own."""
