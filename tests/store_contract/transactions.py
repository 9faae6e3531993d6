"""A transaction is all or nothing, and so is a savepoint; a reader sees what was committed."""

# ruff: noqa: PT012  # what has to fail is a transaction, and that is several statements

from __future__ import annotations

import pytest

from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.job import Command, CommandKind
from fate_flow.store.contract.transaction import Store
from tests.store_contract.cases import DOCUMENT, HOST, Cases, Each, a_job, a_seat, a_worker, an_engine, with_jobs


class TransactionCases(Cases):
    def test_an_exception_takes_back_everything(self, store: Store, each: Each) -> None:
        with_jobs(each, a_job("old"))
        each.register_engine(an_engine(), {}, 1)
        with pytest.raises(ZeroDivisionError), store.transaction() as tx:
            tx.add_job(a_job("new"), DOCUMENT)
            tx.add_seats([a_seat("new")])
            tx.reserve(a_job("old").key, "local", 4, 4, "t", 1, 2)
            tx.forget_job("old")
            tx.put_command(Command(CommandKind.CREATE, "new", HOST), 1)
            tx.record_heartbeat("10000")
            raise ZeroDivisionError
        assert each.job(a_job("old").key) == a_job("old")
        assert each.job(a_job("new").key) is None
        assert each.jobs_here("old") == (a_job("old"),)
        assert each.engine("local").remaining_cores == 8
        assert (each.seats("new"), each.commands_after(0), each.heartbeats()) == ((), (), {})

    def test_a_savepoint_takes_back_its_own_part(self, store: Store, each: Each) -> None:
        with store.transaction() as tx:
            tx.add_job(a_job("before"), DOCUMENT)
            with pytest.raises(ZeroDivisionError), tx.savepoint():
                tx.add_job(a_job("inside"), DOCUMENT)
                tx.set_progress(a_job("before").key, 50)
                raise ZeroDivisionError
            tx.add_job(a_job("after"), DOCUMENT)
        assert [each.job_here(name) is not None for name in ("before", "inside", "after")] == [True, False, True]
        assert each.job_here("before").progress == 0

    def test_savepoints_nest(self, store: Store, each: Each) -> None:
        with store.transaction() as tx, tx.savepoint():
            tx.record_heartbeat("outer")
            with pytest.raises(ZeroDivisionError), tx.savepoint():
                tx.record_heartbeat("inner")
                with tx.savepoint():
                    tx.record_heartbeat("innermost")
                raise ZeroDivisionError
            with tx.savepoint():
                tx.record_heartbeat("outer")
        assert each.heartbeats() == {"outer": 2}

    def test_what_a_savepoint_kept_goes_with_its_transaction(self, store: Store, each: Each) -> None:
        with pytest.raises(ZeroDivisionError), store.transaction() as tx:
            with tx.savepoint():
                tx.record_heartbeat("10000")
            raise ZeroDivisionError
        assert each.heartbeats() == {}

    def test_a_refused_write_is_storage_failed_and_leaves_nothing(self, store: Store, each: Each) -> None:
        each.add_worker(a_worker())
        with pytest.raises(StorageFailed), store.transaction() as tx:
            tx.record_heartbeat("10000")
            tx.add_worker(a_worker())
        assert each.heartbeats() == {}

    def test_a_refused_write_in_a_savepoint_costs_the_savepoint_only(self, store: Store, each: Each) -> None:
        each.add_worker(a_worker())
        with store.transaction() as tx:
            tx.record_heartbeat("10000")
            with pytest.raises(StorageFailed), tx.savepoint():
                tx.record_heartbeat("10001")
                tx.add_worker(a_worker())
            tx.record_heartbeat("10000")
        assert each.heartbeats() == {"10000": 2}


class ReadingCases(Cases):
    def test_what_was_committed_is_read(self, store: Store, each: Each) -> None:
        with_jobs(each, a_job())
        with store.reading() as tx:
            assert tx.job(a_job().key) == a_job()
            assert tx.jobs_here("j1") == (a_job(),)
        each.set_progress(a_job().key, 5)
        with store.reading() as tx:
            assert tx.job_here("j1").progress == 5

    def test_an_error_of_the_reader_comes_through(self, store: Store, each: Each) -> None:
        with pytest.raises(ZeroDivisionError), store.reading() as tx:
            tx.engine("local")
            raise ZeroDivisionError
        assert each.engine("local") is None

    def test_a_transaction_may_follow_and_be_taken_back(self, store: Store, each: Each) -> None:
        with store.reading() as tx:
            assert tx.heartbeats() == {}
        with pytest.raises(ZeroDivisionError), store.transaction() as tx:
            tx.record_heartbeat("10000")
            raise ZeroDivisionError
        with store.reading() as tx:
            assert tx.heartbeats() == {}
