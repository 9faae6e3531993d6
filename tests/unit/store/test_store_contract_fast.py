"""The contract of the store in memory and on SQLite in memory, and both of them side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
pytest.register_assert_rewrite("store_contract")

from store_contract import StoreContract, each  # noqa: E402, F401

from fate_flow.store.contract import Store  # noqa: E402
from fate_flow.store.database import open_database  # noqa: E402
from fate_flow.store.memory import MemoryStore  # noqa: E402
from fate_flow.store.migrations import upgrade  # noqa: E402
from fate_flow.store.sql import SqlStore  # noqa: E402


def sqlite_in_memory() -> SqlStore:
    database = open_database("sqlite:///:memory:", Path())
    upgrade(database)
    return SqlStore(database)


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
