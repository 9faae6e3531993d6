"""What every store promises where several connections write at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import product
from typing import Any

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.store.values import Submission
from fate_flow.store.views.read_only import ReadOnly, read_again
from tests.store_contract.cases import (
    DOCUMENT,
    HOST,
    OTHER_HOST,
    Cases,
    Each,
    a_job,
    a_task,
    an_engine,
    an_engine_state,
    in_use,
    with_jobs,
    with_tasks,
)


def at_once(store: Any, *calls: Callable[[Any], Any]) -> list[Any]:
    """What each call answers, each in a thread, on a connection and in a transaction of its own.

    A transaction that the database gives up (a deadlock, say) is decided anew, as the coordinator does it."""
    answers: list[Any] = [None] * len(calls)
    start = threading.Barrier(len(calls))

    def run(place: int, call: Callable[[Any], Any]) -> None:
        start.wait()
        for attempt in range(10):
            try:
                with store.transaction() as tx:
                    answers[place] = call(tx)
                break
            except StorageFailed as failed:
                answers[place] = failed if attempt == 9 else None
        store.close()

    threads = [threading.Thread(target=run, args=one) for one in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


class _Views(ReadOnly):
    @read_again
    def before_and_after(self, change: Callable[[], object]) -> list[Any]:
        with self._reading() as tx:
            return [tx.heartbeats(), change(), tx.heartbeats()]


class StoreRaces(Cases):
    """Several connections at once: of those that want the same, one gets it."""

    ROUNDS = 5
    THREADS = 6

    def test_a_view_sees_one_state(self, store: Any, each: Each) -> None:
        def change() -> None:
            assert at_once(store, lambda tx: tx.record_heartbeat("10000")) == [None]

        assert _Views(store.database).before_and_after(change) == [{}, None, {}]
        each.record_heartbeat("10000")           # the next transaction writes again, and sees all
        assert each.heartbeats() == {"10000": 2}

    def test_a_reader_waits_for_nobody(self, store: Any, each: Each) -> None:
        each.record_heartbeat("10000")
        seen: list[Any] = []

        def read() -> None:
            with store.reading() as tx:
                seen.append(tx.heartbeats())
            store.close()

        with store.transaction() as tx:
            tx.record_heartbeat("10000")
            thread = threading.Thread(target=read)
            thread.start()
            thread.join(90)
            assert seen == [{"10000": 1}], "what is committed, while somebody writes"
        read()
        assert seen[1] == {"10000": 2}

    def test_a_snapshot_is_of_one_moment(self, store: Any, each: Each) -> None:
        each.record_heartbeat("10000")

        def write() -> None:
            each.record_heartbeat("10000")
            store.close()

        with store.snapshot() as tx:
            assert tx.heartbeats() == {"10000": 1}
            thread = threading.Thread(target=write)
            thread.start()
            thread.join(90)
            assert not thread.is_alive(), "nobody waits for a reader"
            assert tx.heartbeats() == {"10000": 1}
        assert each.heartbeats() == {"10000": 2}

    def once(self, store: Any, call: Callable[[Any, int, int], Any]) -> None:
        for number in range(self.ROUNDS):
            calls = [lambda tx, n=number, who=who: call(tx, n, who) for who in range(self.THREADS)]
            answers = at_once(store, *calls)
            assert sorted(answers, key=bool) == [False] * (self.THREADS - 1) + [True], answers

    def test_the_last_core_goes_to_one(self, store: Any, each: Each) -> None:
        each.register_engine(an_engine(cores=self.ROUNDS), {}, 1)
        places = list(product(range(self.ROUNDS), range(self.THREADS)))
        jobs = {(number, who): a_job(f"j{number}_{who}") for number, who in places}
        with_jobs(each, *jobs.values())
        for number in range(self.ROUNDS):
            each.register_engine(an_engine(cores=number + 1), {}, 1)
            keys = [jobs[number, who].key for who in range(self.THREADS)]
            answers = at_once(store, *(lambda tx, key=key: tx.reserve(key, "local", 1, 0, "t", 1, 2) for key in keys))
            assert sorted(answers) == [False] * (self.THREADS - 1) + [True]
            assert in_use(each, *keys) == (1, 0)
            assert each.engine("local").remaining_cores == 0

    def test_a_job_reserves_once(self, store: Any, each: Each) -> None:
        each.register_engine(an_engine(cores=100), {}, 1)
        with_jobs(each, *(a_job(f"j{number}") for number in range(self.ROUNDS)))
        self.once(store, lambda tx, number, who: tx.reserve(a_job(f"j{number}").key, "local", 2, 0, f"t{who}", 1, 2))
        assert each.engine("local").remaining_cores == 100 - 2 * self.ROUNDS

    def test_everything_comes_back_once(self, store: Any, each: Each) -> None:
        each.register_engine(an_engine(cores=100), {}, 1)
        for number in range(self.ROUNDS):
            with_jobs(each, a_job(f"j{number}"))
            assert each.reserve(a_job(f"j{number}").key, "local", 2, 0, "t", 1, 2)
        self.once(store, lambda tx, number, who: tx.give_back(a_job(f"j{number}").key, None, 3))
        assert each.engine("local").remaining_cores == 100

    def test_a_reservation_round_begins_once(self, store: Any, each: Each) -> None:
        with_jobs(each, *(a_job(f"j{number}") for number in range(self.ROUNDS)))
        self.once(store, lambda tx, number, who: tx.begin_round(a_job(f"j{number}").key, f"s{who}", 5))
        assert {job.round_number for job in each.waiting_jobs()} == {1}

    def test_a_job_moves_once(self, store: Any, each: Each) -> None:
        with_jobs(each, *(a_job(f"j{number}") for number in range(self.ROUNDS)))
        self.once(store, lambda tx, number, who: tx.move_job(a_job(f"j{number}"), MoveJob(JobStatus.RUNNING), who))

    def test_a_job_is_added_once(self, store: Any, each: Each) -> None:
        self.once(store, lambda tx, number, who: tx.add_job(a_job(f"j{number}", run=who), DOCUMENT))

    def test_tasks_are_added_once(self, store: Any, each: Each) -> None:
        def add(tx: Any) -> None:
            tx.add_tasks([a_task("a"), a_task("b")], a_job(), DOCUMENT)

        assert at_once(store, *[add] * self.THREADS) == [None] * self.THREADS
        assert each.tasks("j1") == (a_task("a"), a_task("b"))

    def test_a_share_has_one_worker(self, store: Any, each: Each) -> None:
        with_tasks(each, *(a_task(f"t_{number}") for number in range(self.ROUNDS)))
        self.once(store, lambda tx, number, who: tx.set_worker(a_task(f"t_{number}").key, f"w{who}"))

    def test_a_request_id_counts_once(self, store: Any, each: Each) -> None:
        def begin(tx: Any, number: int, who: int) -> bool:
            known = tx.begin_submission(Submission(f"r{number}", f"j{who}", "d"), 5)
            assert known is None or known.request_id == f"r{number}"
            return known is None

        self.once(store, begin)

    def test_a_scheduler_is_replaced_once(self, store: Any, each: Each) -> None:
        each.scheduler()
        for _ in range(self.ROUNDS):
            owner, counter = each.scheduler()
            calls = [
                lambda tx, o=owner, c=counter, who=who: tx.take_scheduler_lease(o, c, f"s{who}")
                for who in range(self.THREADS)
            ]
            assert sorted(at_once(store, *calls)) == [False] * (self.THREADS - 1) + [True]

    def test_a_command_is_taken_once(self, store: Any, each: Each) -> None:
        numbers = [each.put_command(Command(CommandKind.CREATE, "j1", HOST), 1) for _ in range(self.ROUNDS)]
        self.once(store, lambda tx, number, who: tx.take_command(numbers[number]))

    def test_no_sign_of_life_is_lost(self, store: Any, each: Each) -> None:
        each.record_heartbeat("10000")
        for _ in range(self.ROUNDS):
            at_once(store, *[lambda tx: tx.record_heartbeat("10000")] * self.THREADS)
        assert each.heartbeats() == {"10000": 1 + self.ROUNDS * self.THREADS}

    def test_no_party_gets_more_jobs_than_one_transaction_allows(self, store: Any, each: Each) -> None:
        """Also if it has sent no heartbeat yet, so that no row of it is here."""

        def add(tx: Any, job_id: str, most: int) -> bool:
            tx.lock_jobs_by("10001")
            if tx.open_jobs_by("10001") >= most:
                return False
            job = a_job(job_id, initiator=OTHER_HOST)
            bound = JobBinding(job_id, OTHER_HOST, frozenset({OTHER_HOST}), "d" * 64)
            return bool(tx.add_job(job, DOCUMENT) and tx.bind(bound))

        for number in range(self.ROUNDS):
            calls = [lambda tx, n=number, who=who: add(tx, f"j{n}_{who}", n + 1) for who in range(self.THREADS)]
            assert sorted(at_once(store, *calls)) == [False] * (self.THREADS - 1) + [True]
            assert each.open_jobs_by("10001") == number + 1
        assert each.heartbeats() == {}

    def test_the_first_sign_of_life_may_come_twice(self, store: Any, each: Each) -> None:
        at_once(store, *[lambda tx: tx.record_heartbeat("10000")] * self.THREADS)
        assert 1 <= each.heartbeats()["10000"] <= self.THREADS

    def test_servers_that_start_together_register_one_engine(self, store: Any, each: Each) -> None:
        at_once(store, *[lambda tx: tx.register_engine(an_engine(8), {}, 1)] * self.THREADS)
        assert each.engine("local") == an_engine_state(8, 1024, 8, 1024)
        for cores in (16, 4, 32):
            at_once(store, *[lambda tx, cores=cores: tx.register_engine(an_engine(cores), {}, 1)] * self.THREADS)
            assert each.engine("local") == an_engine_state(cores, 1024, cores, 1024)

    def test_the_books_balance_under_everything_at_once(self, store: Any, each: Each) -> None:
        jobs = [a_job(f"j{number}") for number in range(self.THREADS)]
        with_jobs(each, *jobs)
        each.register_engine(an_engine(10, 1000), {}, 1)

        def churn(who: int) -> Callable[[Any], None]:
            def call(tx: Any) -> None:
                key = jobs[who].key
                tx.reserve(key, "local", 1 + who % 3, 10 * who, f"t{who}", 1, 2)
                if who % 2:
                    tx.register_engine(an_engine(8 + who, 1000 + who), {}, 3)
                tx.give_back(key, None, 4)
                tx.reserve(key, "local", 1 + who % 2, who, f"u{who}", 2, 5)

            return call

        for _ in range(self.ROUNDS):
            answers = at_once(store, *(churn(who) for who in range(self.THREADS)))
            assert not [answer for answer in answers if isinstance(answer, Exception)]
            engine = each.engine("local")
            cores, memory = in_use(each, *(job.key for job in jobs))
            assert (cores + engine.remaining_cores, memory + engine.remaining_memory) == (engine.cores, engine.memory)
