"""A statement has neither too many rows nor too long texts."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.record.entry import OWN_LOG, Kind, new_entry
from fate_flow.store.portions import portions
from tests.kit.store.sqlite_in_memory import sqlite_in_memory


@pytest.mark.parametrize(("lengths", "expected"), [
    ([], []), ([1], [[1]]), ([9], [[9]]), ([1, 1, 1, 1], [[1, 1, 1], [1]]), ([2, 3, 1], [[2, 3], [1]]),
    ([1, 9, 1], [[1], [9], [1]]), ([5, 5], [[5], [5]]),
])  # fmt: skip
def test_a_portion_ends_before_it_has_too_much(lengths: list[int], expected: list[list[int]]) -> None:
    found = portions([(7, "x" * one) for one in lengths], 3, 5)
    assert [[len(str(row[1])) for row in some] for some in found] == expected


def test_long_texts_are_added_to_the_record_by_several_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    store, sizes = sqlite_in_memory(), list[int]()
    database, execute = store.database, store.database.execute_unlogged

    def measured(sql: str, values: Any = None) -> Any:
        sizes.append(sum(len(one) for one in values or () if isinstance(one, str)))
        return execute(sql, values)

    entries = [
        new_entry(OWN_LOG, Kind.ACT, at, {"what": "a"}, salt="7e" * 32, text=chr(0x1F600) * 300_000) for at in range(10)
    ]
    with store.transaction() as tx:
        monkeypatch.setattr(database, "execute_unlogged", measured)
        tx.add_to_record(entries)
        monkeypatch.undo()
        assert [one.at for one in tx.unsealed_entries(20)] == list(range(10))
    assert max(sizes) < 1_000_000 < sum(sizes)
