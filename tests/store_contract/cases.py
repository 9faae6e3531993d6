"""What the tests of a store are made of: rows, and a store whose every call is a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.document import Disclosure, JobDocument
from fate_flow.core.model.job import Claim, EngineState, Job, JobKey, Seat, Task, TaskKey, Worker, WorkerEnd
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus, WorkerStatus
from fate_flow.store.contract.transaction import Store
from fate_flow.store.values import Document

GUEST = Party("guest", "9999")
HOST = Party("host", "10000")
ARBITER = Party("arbiter", "10000")
OTHER_HOST = Party("host", "10001")

DOCUMENT = Document(
    dsl={"components": {"reader_0": {"module": "Reader"}}},
    runtime_conf={"dsl_version": 2, "words": ["ä", None, 1.5, True]},
    on_party={"job_parameters": {"task_cores": 4}},
    name="a name",
    description="what it is for",
    tag="",
)


WITH_DISCLOSURE = replace(DOCUMENT, disclosure=Disclosure({"/a/b": "0" * 64}, {"/a/ä": "1" * 64}, ("10000", "10001")))
IN_ANOTHER_FORMAT = replace(DOCUMENT, own=JobDocument("native", {"tasks": ["ä", None]}, {"task_cores": 1.5}))


def a_job(job_id: str = "j1", party: Party = GUEST, **fields: Any) -> Job:
    return replace(
        Job(
            key=JobKey(job_id, party),
            initiator=GUEST,
            is_initiator=party == GUEST,
            status=JobStatus.WAITING,
            parties=(GUEST, HOST),
            asked=Claim(4, 128),
            timeout_seconds=3600,
            create_time=1_000,
        ),
        **fields,
    )


def a_seat(job_id: str = "j1", party: Party = HOST, **fields: Any) -> Seat:
    return replace(Seat(job_id, party, SeatStatus.JOINED), **fields)


def a_task(name: str = "reader_0", version: int = 0, party: Party = GUEST, job_id: str = "j1", **fields: Any) -> Task:
    return replace(
        Task(
            key=TaskKey(job_id, name, version, party),
            status=TaskStatus.WAITING,
            party_status=TaskStatus.WAITING,
            runs_here=party == GUEST,
            incarnation=f"inc-{version}",
            module="Reader",
            create_time=1_000,
        ),
        **fields,
    )


def left(each: Each, engine_name: str = "local") -> tuple[int, int]:
    engine = each.engine(engine_name)
    return engine.remaining_cores, engine.remaining_memory


def a_worker(worker_id: str = "w1", task: Task | None = None, **fields: Any) -> Worker:
    key = (task or a_task()).key
    return replace(Worker(worker_id, key, WorkerStatus.CREATED, "local", "/jobs/j1/w1", create_time=1_000), **fields)


DONE = WorkerEnd(Reason.DONE, "", "guest 9999")


def exited(worker: Worker, why: WorkerEnd = DONE) -> Worker:
    """As it ends at 6."""
    return replace(
        worker, status=WorkerStatus.EXITED, end_time=6, reason=why.reason, message=why.message, caused_by=why.caused_by,
        exit_status=why.exit_status,
    )  # fmt: skip


def over_all(why: dict[str, Any], end_time: int) -> dict[str, Any]:
    """What a move of a task over all its parties writes, as the fields of its rows."""
    return {**{f"federated_{key}": value for key, value in why.items()}, "federated_end_time": end_time}


def an_engine(
    cores: int = 8, memory: int = 1024, nodes: int = 1, name: str = "local", gpus: int = 0
) -> EngineState:
    return EngineState(name, cores, memory, 0, 0, nodes, f"section of {name}", gpus)


def an_engine_state(
    cores: int, memory: int, free_cores: int, free_memory: int, nodes: int = 1, name: str = "local", gpus: int = 0,
    remaining_gpus: int = 0,
) -> EngineState:
    """`an_engine` in the store, with so much of it not reserved."""
    engine = an_engine(cores, memory, nodes, name, gpus)
    return replace(
        engine, remaining_cores=free_cores, remaining_memory=free_memory, remaining_gpus=remaining_gpus
    )


class Each:
    """Makes every call in a transaction of its own: what comes back was committed."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.store.transaction() as tx:
                return getattr(tx, method)(*args, **kwargs)

        return call


class Cases:
    """Tests of the store that the fixture `store` gives."""

    @pytest.fixture
    def each(self, store: Store) -> Each:
        return Each(store)


def with_jobs(each: Each, *jobs: Job) -> Each:
    for job in jobs:
        assert each.add_job(job, DOCUMENT)
    return each


def with_tasks(each: Each, *tasks: Task) -> Each:
    each.add_tasks(tasks, a_job(), DOCUMENT)
    return each


def in_use(each: Each, *keys: JobKey) -> tuple[int, int]:
    claims = [job.claim for job in map(each.job, keys) if job is not None and job.holds]
    return sum(claim.cores for claim in claims), sum(claim.memory for claim in claims)
