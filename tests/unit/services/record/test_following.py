"""Following the record, also if a log ends before the place where the reader stands."""

from __future__ import annotations

import pytest

from fate_flow.core.record.entry import OWN_LOG
from fate_flow.core.record.shown import Position
from fate_flow.services.record.following import followed
from fate_flow.store.memory.store import MemoryStore
from tests.kit.services.records import add, an_entry


def a_record(in_epochs: tuple[int, ...]) -> MemoryStore:
    """A store whose own log has so many entries in each epoch, from epoch 1 on."""
    store = MemoryStore()
    for epoch, count in enumerate(in_epochs, 1):
        if epoch > 1:
            with store.transaction() as tx:
                assert tx.open_epoch(tx.record_head(OWN_LOG), epoch)
        add(store, [an_entry(f"{epoch}.{number}") for number in range(count)])
    return store


@pytest.mark.parametrize(("in_epochs", "place", "end", "read"), [
    ((4,), (1, 2), None, ["1.2", "1.3"]), ((4,), (1, 4), None, []), ((4, 2), (1, 4), None, ["2.0", "2.1"]),
    ((4,), (1, 50), (1, 4), []), ((4,), (3, 0), (1, 4), []), ((1, 2), (1, 50), (1, 1), ["2.0", "2.1"]),
    ((1, 2), (2, 3), (2, 2), []), ((), (1, 50), (1, 0), []),
])  # fmt: skip
def test_a_log_that_ends_before_the_reader_is_named(
    in_epochs: tuple[int, ...], place: tuple[int, int], end: tuple[int, int] | None, read: list[str]
) -> None:
    with a_record(in_epochs).reading() as tx:
        page = followed(tx, {OWN_LOG: place})
    assert page.beyond == ({} if end is None else {OWN_LOG: end})
    assert [one.said["what"] for one in page.entries] == read


def test_a_reader_beyond_the_end_goes_on_with_what_comes_then() -> None:
    store = a_record((1,))
    position: Position = {OWN_LOG: (1, 50)}
    with store.reading() as tx:
        page = followed(tx, position)
    add(store, [an_entry("new")])
    with store.reading() as tx:
        page = followed(tx, page.position)
    assert (page.beyond, [one.said["what"] for one in page.entries]) == ({}, ["new"])
