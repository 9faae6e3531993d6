"""The store in memory and the one on SQLite say the same, whatever is done to both."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.job import Blocker, Command, CommandKind, EnginePart, JobKey, Report, WorkerEnd, WorkerPlace
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JOB_UNFINISHED, IllegalMove, JobStatus, SeatStatus, TaskStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveJob, MoveTask
from fate_flow.store.memory.store import MemoryStore
from fate_flow.store.values import Metric, OutputTable, Submission, TableMeta
from tests.kit.store.sqlite_in_memory import sqlite_in_memory
from tests.store_contract.cases import (
    ARBITER,
    DOCUMENT,
    GUEST,
    HOST,
    Each,
    a_job,
    a_seat,
    a_task,
    a_worker,
    an_engine,
    in_use,
    with_jobs,
)

pytestmark = pytest.mark.long


class Twins:
    """Does everything to a store in memory and to one on SQLite, and insists that both say the same."""

    def __init__(self) -> None:
        self.memory, self.sql = MemoryStore(), sqlite_in_memory()
        self._each = (Each(self.memory), Each(self.sql))

    def __getattr__(self, method: str) -> Any:
        def call(*args: Any) -> Any:
            ours, theirs = (_outcome(getattr(one, method), *args) for one in self._each)
            assert ours == theirs, (method, args)
            return ours

        return call

    def abandoned(self, method: str, *args: Any) -> None:
        """The same in a transaction that is given up, with a savepoint that is kept and one that is not."""
        for one in (self.memory, self.sql):
            with suppress(ZeroDivisionError), one.transaction() as tx:
                for end in (None, ZeroDivisionError):
                    with suppress(ZeroDivisionError, StorageFailed, IllegalMove), tx.savepoint():
                        getattr(tx, method)(*args)
                        if end:
                            raise end
                raise ZeroDivisionError

    def close(self) -> None:
        self.sql.close()


def _outcome(call: Any, *args: Any) -> Any:
    try:
        return call(*args)
    except (StorageFailed, IllegalMove) as error:
        return type(error)


# ------------------------------------------------------------------ the books

KEYS = [JobKey(f"j{number}", party) for number in (1, 2) for party in (ARBITER, GUEST, HOST)]
keys = st.sampled_from(KEYS)
ENGINES = ("local", "slurm")
engines = st.sampled_from(ENGINES)
rounds = st.integers(0, 4)
cores = st.integers(0, 9)
memory = st.sampled_from([0, 1, 500, 1024, 2000])

book_entries = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), keys, engines, cores, memory, st.sampled_from(["t", "u"]), rounds, st.just(1)),
        st.tuples(st.just("give_back"), keys, st.none() | rounds, st.just(2)),
        st.tuples(st.just("renew_claim"), keys, rounds),
        st.tuples(
            st.just("register_engine"), st.builds(an_engine, cores, memory, name=engines), st.just({}), st.just(3)
        ),
    ),
    max_size=30,
)


@settings(max_examples=60)
@given(book_entries)
def test_what_is_in_use_and_what_remains_make_the_total(entries: list[tuple[Any, ...]]) -> None:
    twins = Twins()
    for key in KEYS:
        twins.add_job(a_job(key.job_id, key.party), DOCUMENT)
    for method, *args in entries:
        getattr(twins, method)(*args)
        claims = [twins.job(key).claim for key in KEYS]
        for engine in filter(None, map(twins.engine, ENGINES)):
            held = [claim for claim in claims if claim.token and claim.engine == engine.name]
            used = [sum(getattr(claim, what) for claim in held) for what in ("cores", "memory")]
            assert used[0] + engine.remaining_cores == engine.cores
            assert used[1] + engine.remaining_memory == engine.memory
    twins.close()


@settings(max_examples=30)
@given(book_entries)
def test_after_all_returns_nothing_is_in_use(entries: list[tuple[Any, ...]]) -> None:
    each = Each(MemoryStore())
    with_jobs(each, *(a_job(key.job_id, key.party) for key in KEYS))
    for name in ENGINES:
        each.register_engine(an_engine(name=name), {}, 0)
    for method, *args in entries:
        getattr(each, method)(*args)
    for key in KEYS:
        each.give_back(key, None, 9)
    assert in_use(each, *KEYS) == (0, 0)
    for engine in map(each.engine, ENGINES):
        assert (engine.remaining_cores, engine.remaining_memory) == (engine.cores, engine.memory)


# ------------------------------------------------------------------ everything

NAMES = ("a", "b")
PARTIES = (GUEST, HOST)
WORKERS = ("w1", "w2")

job_ids = st.sampled_from(["j1", "j2"])
parties = st.sampled_from(PARTIES)
owners = st.sampled_from(["", "me", "you"])
text = st.sampled_from(["", "words", "andere Wörter"])
blocked = st.sampled_from(["", "10000", "10001"])
times = st.integers(1, 9)
tags = st.sampled_from(["", "aa", "bb"])
lacking = st.none() | st.sampled_from(Blocker)
small = st.integers(0, 3)
places = st.none() | st.builds(WorkerPlace, small)
reasons = st.none() | st.sampled_from([Reason.STOPPED, Reason.PARTY_REFUSED])
ends = st.builds(WorkerEnd, st.sampled_from(Reason), text, st.sampled_from(["", "host 10000"]), st.just("signal 9"))
values = st.dictionaries(st.sampled_from(["x", "y"]), st.none() | st.integers() | st.lists(text), max_size=2)
task_keys = st.builds(lambda *one: a_task(*one).key, st.sampled_from(NAMES), st.integers(0, 1), parties, job_ids)



class TwinStores(RuleBasedStateMachine):
    """Random writes to both stores: each answers alike, and in the end all that can be read is alike."""

    def __init__(self) -> None:
        super().__init__()
        self.twins = Twins()

    def do(self, method: str, *args: Any) -> None:
        self.twins.abandoned(method, *args)
        getattr(self.twins, method)(*args)

    # jobs

    @rule(key=keys, status=st.sampled_from([*JOB_UNFINISHED, JobStatus.WAITING, JobStatus.FAILED]), at=times, run=small)
    def add_job(self, key: JobKey, status: JobStatus, at: int, run: int) -> None:
        job = a_job(key.job_id, key.party, status=status, create_time=at, run=run, parties=(HOST, GUEST, ARBITER))
        self.do("add_job", job, DOCUMENT)

    @rule(
        key=keys, new=st.sampled_from(JobStatus), reason=reasons, message=text, at=times, caused_by=text,
        whereto=st.none() | st.just(JobStatus.FAILED), late=st.none() | st.sampled_from(JobStatus),
        unconfirmed=st.sampled_from([(), ("host 10000",)]),
    )  # fmt: skip
    def move_job(
        self, key: JobKey, new: JobStatus, reason: Reason | None, message: str, at: int, caused_by: str,
        whereto: JobStatus | None, late: JobStatus | None, unconfirmed: tuple[str, ...],
    ) -> None:  # fmt: skip
        job = self.twins.job(key) or a_job(key.job_id, key.party)
        move = MoveJob(new, reason, message, whereto, at + 5, unconfirmed)
        self.do("move_job", replace(job, status=late) if late else job, move, at, caused_by)

    @rule(key=keys, message=text, at=times, by_user=st.booleans())
    def request_stop(self, key: JobKey, message: str, at: int, by_user: bool) -> None:
        self.do("request_stop", key, Reason.STOPPED_BY_USER, message, at, by_user, "guest 9999")

    @rule(key=keys, percent=st.integers(0, 100))
    def set_progress(self, key: JobKey, percent: int) -> None:
        self.do("set_progress", key, percent)

    @rule(key=keys, owner=owners, at=times)
    def begin_round(self, key: JobKey, owner: str, at: int) -> None:
        self.do("begin_round", key, owner, at)

    @rule(
        key=keys, owner=owners, why=text, party_id=blocked, count=cores, at=times, conflicts=small, blocked_by=lacking,
        tag=tags,
    )  # fmt: skip
    def end_round(
        self, key: JobKey, owner: str, why: str, party_id: str, count: int, at: int, conflicts: int,
        blocked_by: Blocker | None, tag: str,
    ) -> None:  # fmt: skip
        at_engine = tag if party_id else ""
        self.do("end_round", key, owner, why, party_id, count, at, conflicts, blocked_by, False, at_engine)

    @rule(key=keys, why=text, party_id=blocked, count=cores, at=times, tag=tags)
    def postpone(self, key: JobKey, why: str, party_id: str, count: int, at: int, tag: str) -> None:
        self.do("postpone", key, why, party_id, count, at, tag if party_id else "")

    @rule(owner=owners)
    def take_over(self, owner: str) -> None:
        self.do("take_over", owner)

    @rule(job_id=job_ids, by=job_ids)
    def count_pass(self, job_id: str, by: str) -> None:
        self.do("count_pass", job_id, by)

    @rule(key=keys, at=times)
    def pending(self, key: JobKey, at: int) -> None:
        self.do("pending", key, at)

    @rule(key=keys)
    def count_bypass(self, key: JobKey) -> None:
        self.do("count_bypass", key)

    @rule(key=keys)
    def forget_pending(self, key: JobKey) -> None:
        self.do("forget_pending", key)

    @rule(job_id=job_ids)
    def forget_job(self, job_id: str) -> None:
        self.do("forget_job", job_id)

    @rule(key=keys)
    def forget_seat(self, key: JobKey) -> None:
        self.do("forget_seat", key)

    # resources

    @rule(total=cores, size=memory, nodes=small, name=engines)
    def register_engine(self, total: int, size: int, nodes: int, name: str) -> None:
        self.do("register_engine", an_engine(total, size, nodes, name), {}, 3)

    @rule(
        key=keys, engine=engines, count=cores, size=memory, token=st.sampled_from(["", "t", "u"]), round_number=rounds,
        beside=st.none() | st.tuples(engines, st.integers(0, 2), st.integers(0, 2)),
    )  # fmt: skip
    def reserve(
        self, key: JobKey, engine: str, count: int, size: int, token: str, round_number: int,
        beside: tuple[str, int, int] | None,
    ) -> None:  # fmt: skip
        parts = (EnginePart(*beside),) if beside is not None else ()
        count, size = count + sum(one.cores for one in parts), size + sum(one.memory for one in parts)
        self.do("reserve", key, engine, count, size, token, round_number, 1, 0, parts)

    @rule(key=keys, round_number=rounds)
    def renew_claim(self, key: JobKey, round_number: int) -> None:
        self.do("renew_claim", key, round_number)

    @rule(key=keys, round_number=st.none() | rounds)
    def give_back(self, key: JobKey, round_number: int | None) -> None:
        self.do("give_back", key, round_number, 2)

    # seats

    @rule(
        one=keys, other=keys, status=st.sampled_from(SeatStatus), run=small, message=text, free=cores, asked=cores,
        are_two=st.booleans(),
    )  # fmt: skip
    def add_seats(
        self, one: JobKey, other: JobKey, status: SeatStatus, run: int, message: str, free: int, asked: int,
        are_two: bool,
    ) -> None:  # fmt: skip
        fields = {"status": status, "run": run, "message": message, "free_cores": free, "asked_cores": asked}
        taken = (one, other) if are_two else (one,)
        self.do("add_seats", [a_seat(key.job_id, key.party, **fields) for key in taken])

    @rule(
        key=keys, new=st.sampled_from(SeatStatus), message=text, free=cores,
        late=st.none() | st.sampled_from(SeatStatus), blocked_by=lacking,
    )  # fmt: skip
    def move_seat(
        self, key: JobKey, new: SeatStatus, message: str, free: int, late: SeatStatus | None, blocked_by: Blocker | None
    ) -> None:
        seats = self.twins.seats(key.job_id)
        seat = next((seat for seat in seats if seat.party == key.party), a_seat(key.job_id, key.party))
        self.do("move_seat", replace(seat, status=late) if late else seat, new, message, free, blocked_by)

    # tasks

    @rule(
        which=st.lists(task_keys, max_size=3), status=st.sampled_from(TaskStatus), at=times, retries=small,
        retry_at=times,
    )  # fmt: skip
    def add_tasks(self, which: list[Any], status: TaskStatus, at: int, retries: int, retry_at: int) -> None:
        rows = [
            a_task(
                key.name, key.version, key.party, key.job_id, party_status=status, create_time=at,
                auto_retries=retries, retry_at=retry_at,
            )
            for key in which
        ]  # fmt: skip
        self.do("add_tasks", rows, a_job(), DOCUMENT)

    @rule(
        job_id=job_ids, name=st.sampled_from(NAMES), version=st.integers(0, 1), old=st.sampled_from(TaskStatus),
        new=st.sampled_from(TaskStatus), reason=reasons, message=text, code=st.none() | small, at=times,
    )  # fmt: skip
    def move_task(
        self, job_id: str, name: str, version: int, old: TaskStatus, new: TaskStatus, reason: Reason | None,
        message: str, code: int | None, at: int,
    ) -> None:  # fmt: skip
        move = MoveTask(name, version, old, new, reason, message, caused_by="host 10000", exit_code=code)
        self.do("move_task", job_id, move, at)

    @rule(
        key=task_keys, new=st.sampled_from(TaskStatus), at=times, reason=reasons, message=text,
        whereto=st.none() | st.just(TaskStatus.FAILED), incarnation=st.none() | st.just("stale"),
    )  # fmt: skip
    def move_party_task(
        self, key: Any, new: TaskStatus, at: int, reason: Reason | None, message: str, whereto: TaskStatus | None,
        incarnation: str | None,
    ) -> None:  # fmt: skip
        task = self.twins.task(key) or a_task(key.name, key.version, key.party, key.job_id)
        task = replace(task, incarnation=incarnation) if incarnation else task
        self.do("move_party_task", task, new, at, reason, message, whereto)

    @rule(
        key=task_keys, status=st.sampled_from(TaskStatus), reason=reasons, message=text, start=small, end=small,
        incarnation=st.sampled_from(["", "inc-0", "inc-1"]),
    )  # fmt: skip
    def take_report(
        self, key: Any, status: TaskStatus, reason: Reason | None, message: str, start: int, end: int, incarnation: str
    ) -> None:
        task = self.twins.task(key) or a_task(key.name, key.version, key.party, key.job_id)
        self.do("take_report", task, Report(key, incarnation, status, reason, message, start, end))

    @rule(key=task_keys, worker_id=st.sampled_from(WORKERS))
    def set_worker(self, key: Any, worker_id: str) -> None:
        self.do("set_worker", key, worker_id)

    @rule(key=task_keys)
    def note_restart(self, key: Any) -> None:
        self.do("note_restart", key)

    # workers

    @rule(worker_id=st.sampled_from(WORKERS), key=task_keys, at=times)
    def add_worker(self, worker_id: str, key: Any, at: int) -> None:
        self.do("add_worker", replace(a_worker(worker_id), task=key, create_time=at))

    @rule(worker_id=st.sampled_from(WORKERS), key=task_keys, engine=engines, cores=small, memory=small)
    def add_elastic_worker(self, worker_id: str, key: Any, engine: str, cores: int, memory: int) -> None:
        worker = replace(a_worker(worker_id), task=key, engine=engine, is_elastic=True, cores=cores, memory=memory)
        self.do("add_elastic_worker", worker)

    @rule(
        worker_id=st.sampled_from(WORKERS), new=st.sampled_from(WorkerStatus), at=times, place=places,
        late=st.none() | st.sampled_from(WorkerStatus), end=st.none() | ends,
    )  # fmt: skip
    def move_worker(
        self, worker_id: str, new: WorkerStatus, at: int, place: WorkerPlace | None, late: WorkerStatus | None,
        end: WorkerEnd | None,
    ) -> None:
        worker = self.twins.worker(worker_id) or a_worker(worker_id)
        self.do("move_worker", replace(worker, status=late) if late else worker, new, at, place, end)

    @rule(worker_id=st.sampled_from(WORKERS), why=ends)
    def mark_stopping(self, worker_id: str, why: WorkerEnd) -> None:
        self.do("mark_stopping", worker_id, why)

    # outbox, peers, schedulers, submissions

    @rule(kind=st.sampled_from(CommandKind), job_id=job_ids, party=parties, body=values, run=small)
    def put_command(self, kind: CommandKind, job_id: str, party: Any, body: dict[str, Any], run: int) -> None:
        # Not abandoned: whether the number of a row that was rolled back is used again differs by database.
        self.twins.put_command(Command(kind, job_id, party, run, "a", 1, "stop", body), 1)

    @rule(number=st.integers(1, 5))
    def take_command(self, number: int) -> None:
        self.do("take_command", number)

    @rule(party_id=st.sampled_from(["10000", "9999"]))
    def record_heartbeat(self, party_id: str) -> None:
        self.do("record_heartbeat", party_id)

    @rule()
    def scheduler(self) -> None:
        self.do("scheduler")

    @rule(owner=owners, new=owners, is_late=st.booleans())
    def take_scheduler_lease(self, owner: str, new: str, is_late: bool) -> None:
        found, counter = self.twins.scheduler()
        self.do("take_scheduler_lease", owner if is_late else found, counter, new)

    @rule(owner=owners, steady=small)
    def renew_scheduler_lease(self, owner: str, steady: int) -> None:
        self.do("renew_scheduler_lease", owner, steady)
        self.do("steady")

    @rule(request_id=st.sampled_from(["r1", "r2"]), digest=text)
    def begin_submission(self, request_id: str, digest: str) -> None:
        self.do("begin_submission", Submission(request_id, f"j{request_id[1]}", digest), 1)

    @rule(job_id=job_ids, retcode=small, message=text)
    def decide_submission(self, job_id: str, retcode: int, message: str) -> None:
        self.do("decide_submission", job_id, retcode, message)

    @rule(job_id=job_ids)
    def forget_submission(self, job_id: str) -> None:
        self.do("forget_submission", job_id)

    @rule()
    def forget_refused_submissions(self) -> None:
        self.do("forget_refused_submissions")

    # results

    @rule(name=st.sampled_from(NAMES), count=small, partitions=small, schema=values, has_head=st.booleans(), at=times)
    def save_table(
        self, name: str, count: int, partitions: int, schema: dict[str, Any], has_head: bool, at: int
    ) -> None:
        table = TableMeta("ns", name, "file:///t", count, schema, partitions, "output", "j1", "", has_head, False)
        self.do("save_table", table, at)

    @rule(name=st.sampled_from(NAMES))
    def drop_table(self, name: str) -> None:
        self.do("drop_table", "ns", name)

    @rule(key=task_keys, data_name=st.sampled_from(NAMES), name=text)
    def save_outputs(self, key: Any, data_name: str, name: str) -> None:
        self.do("save_outputs", [OutputTable(key, data_name, "ns", name)], 1)

    @rule(key=task_keys, name=text, pairs=st.lists(st.tuples(small, st.floats(0, 1) | text), max_size=2), meta=values)
    def save_metrics(self, key: Any, name: str, pairs: list[Any], meta: dict[str, Any]) -> None:
        self.do("save_metrics", [Metric(key, "train", name, tuple(pairs), meta)], 1)

    @rule(key=task_keys, summary=values)
    def save_summary(self, key: Any, summary: dict[str, Any]) -> None:
        self.do("save_summary", key, summary, 1)

    # all that can be read

    def teardown(self) -> None:
        self.read_general()
        for job_id in ("j1", "j2"):
            self.read_job(job_id)
        self.twins.close()

    def read_general(self) -> None:
        twins = self.twins
        for method in (
            "unfinished_jobs", "jobs_to_forget", "last_create_time", "queue_heads", "waiting_jobs", "count_waiting",
            "cancelled_waiting", "jobs_in_round", "parties_with_seats", "unfinished_workers", "heartbeats",
            "scheduler",
        ):  # fmt: skip
            getattr(twins, method)()
        for limit in (1, 9):
            twins.unblocked_waiting(limit)
            twins.waiting_unschedulable(limit, limit)
            twins.first_pending(limit)
            for party_id in ("", "10000", "10001"):
                for tag in ("", "aa"):
                    twins.blocked_waiting(party_id, limit, limit, tag)
                twins.seats_at(party_id)
        for number in (0, 2):
            twins.commands_after(number)
        for name in ENGINES:
            twins.engine(name)
        for worker_id in WORKERS:
            twins.worker(worker_id)
        for name in NAMES:
            twins.table("ns", name)

    def read_job(self, job_id: str) -> None:
        twins = self.twins
        for method in ("job_here", "jobs_here", "document", "seats", "tasks", "workers_of", "submission_of"):
            getattr(twins, method)(job_id)
        for key in KEYS:
            job = twins.job(key)
            if job is not None:
                twins.place_in_queue(job)
        for name in NAMES:
            for party in PARTIES:
                for method in ("outputs", "metrics", "summary"):
                    getattr(twins, method)(job_id, name, party)
                for version in (0, 1):
                    twins.task(a_task(name, version, party, job_id).key)


TestTwinStores = TwinStores.TestCase
TestTwinStores.settings = settings(max_examples=40, stateful_step_count=40)
