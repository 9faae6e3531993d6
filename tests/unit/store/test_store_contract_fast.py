"""The contract of the store in memory and on SQLite in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fate_flow.store.contract.transaction import Store
from fate_flow.store.memory.store import MemoryStore
from tests.kit.store.sqlite_in_memory import sqlite_in_memory

sys.path.insert(0, str(Path(__file__).parents[2]))
pytest.register_assert_rewrite("store_contract", "store_contract_bindings", "store_contract_moves")

from store_contract import Each, StoreContract  # noqa: E402
from store_contract_bindings import BindingContract  # noqa: E402
from store_contract_moves import MoveContract  # noqa: E402


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
