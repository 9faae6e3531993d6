"""Values for tests that need one and care about a part of it: `a_job(status=...)`, `a_seat(HOST, ...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fate_flow.core.model.job import Claim, Job, JobKey, Seat, Task, TaskKey
from fate_flow.core.model.spec import DeclaredOutput, Input, JobParameters, JobSpec, Party, Source, TaskSpec
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.view import JobView
from fate_flow.jobspec.fate_v1.retry_document import rule_for

GUEST, HOST, OTHER = Party("guest", "9999"), Party("host", "10000"), Party("host", "10001")
OWN_HOST = Party("host", "9999")
JOB_ID = "2026010112000000000001234"
ELSE_ID = f"{JOB_ID[:-1]}9"
NOW = 1_700_000_000_000
INCARNATION = "ab" * 16
FRESH_ID = "cd" * 16


def a_spec(
    tasks: Mapping[str, Sequence[str]] | None = None, parties: tuple[Party, ...] = (GUEST, HOST),
    passed_at: Mapping[str, frozenset[Party]] | None = None, **parameters: Any,
) -> JobSpec:  # fmt: skip
    """Tasks by name with the names of those they need, all at all parties; parameters as JobParameters has them."""
    graph = {"a": ()} if tasks is None else tasks
    common = JobParameters(**{"task_cores": 1, **parameters})
    specs = {
        name: TaskSpec(
            name, "Work", parties, inputs=_inputs(needs), outputs=(DeclaredOutput("data", "data"),),
            passed_at=(passed_at or {}).get(name, frozenset()), retry=rule_for(common, name),
        )
        for name, needs in graph.items()
    }  # fmt: skip
    return JobSpec(parties[0], parties, specs, dict.fromkeys(parties, common), retry=rule_for(common))


def _inputs(needs: Sequence[str]) -> tuple[Input, ...]:
    sources = tuple(Source(name, "data") for name in needs)
    return (Input("data", "data", sources),) if sources else ()


def a_job(status: JobStatus = JobStatus.RUNNING, party: Party = GUEST, **fields: Any) -> Job:
    """The job itself at the guest, its initiator; a copy of it at any other party."""
    has_begun = status not in (JobStatus.READY, JobStatus.WAITING)
    known = {
        "initiator": GUEST, "is_initiator": party == GUEST, "parties": (GUEST, HOST), "asked": Claim(2, 0),
        "create_time": NOW - 60_000, "round_number": int(has_begun), "start_time": NOW - 30_000 if has_begun else 0,
    }  # fmt: skip
    return Job(key=JobKey(JOB_ID, party), status=status, **{**known, **fields})


def a_seat(party: Party = HOST, status: SeatStatus = SeatStatus.JOINED, message: str = "", **fields: Any) -> Seat:
    return Seat(JOB_ID, party, status, message=message, **{"asked_cores": 2, **fields})


def seats(status: SeatStatus, *parties: Party) -> tuple[Seat, ...]:
    """The same for all of these, guest and host unless others are named."""
    return tuple(a_seat(party, status) for party in parties or (GUEST, HOST))


def a_task(
    name: str = "a", party: Party = GUEST, party_status: TaskStatus = TaskStatus.WAITING,
    status: TaskStatus | None = None, version: int = 0, **fields: Any,
) -> Task:  # fmt: skip
    """A party's share of a task; the federated status is the same as its own unless said otherwise."""
    known = {"runs_here": party == GUEST, "incarnation": INCARNATION, "module": "Work", "create_time": NOW - 50_000}
    key = TaskKey(JOB_ID, name, version, party)
    return Task(key, status or party_status, party_status, **{**known, **fields})


def a_view(job: Job | None = None, **fields: Any) -> JobView:
    """A running job of guest and host that has one task, waiting at both."""
    known: dict[str, Any] = {
        "spec": a_spec(), "seats": seats(SeatStatus.STARTED), "tasks": (a_task(), a_task(party=HOST)), "now": NOW,
        "fresh_id": FRESH_ID,
    }  # fmt: skip
    return JobView(job=job or a_job(), **{**known, **fields})
