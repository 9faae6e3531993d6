"""The contract of the store in memory and on SQLite in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fate_flow.store.contract.transaction import Store
from fate_flow.store.memory.store import MemoryStore
from tests.kit.store.sqlite_in_memory import sqlite_in_memory
from tests.store_contract.bindings import BindingContract
from tests.store_contract.cases import Each
from tests.store_contract.contract import StoreContract
from tests.store_contract.moves import MoveContract


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    found = sqlite_in_memory()
    yield found
    found.close()


class TestStoreContract(StoreContract):
    pass


class TestBindings(BindingContract):
    pass


class TestMoves(MoveContract):
    pass


def test_memory_notices_a_write_outside_of_a_transaction() -> None:
    store = MemoryStore()
    with store.transaction() as tx:
        tx.record_heartbeat("10000")
    with pytest.raises(AssertionError, match="outside"):
        tx.record_heartbeat("10000")
    with store.reading() as tx, pytest.raises(AssertionError, match="outside"):
        tx.record_heartbeat("10000")
    assert Each(store).heartbeats() == {"10000": 1}
