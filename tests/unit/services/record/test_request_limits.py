"""What a request may ask of the record: entries of all epochs count, signed or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fate_flow.core.model.errors import TooLarge
from fate_flow.core.record.entry import log_with
from fate_flow.services.record import anchoring, proving
from fate_flow.services.record.anchoring import verify_for_request
from fate_flow.services.record.proving import for_request
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.memory.store import MemoryStore
from tests.kit.services.records import add, an_entry

REQUESTS: tuple[Callable[[Transaction], object], ...] = (
    lambda tx: verify_for_request(tx, None),
    lambda tx: for_request(tx, "", "10000", False),
)


@pytest.mark.parametrize("request_of", REQUESTS)
def test_unsigned_entries_of_an_earlier_epoch_count(
    request_of: Callable[[Transaction], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, log = MemoryStore(), log_with("10000")
    add(store, [an_entry("a", log) for _ in range(9)])
    with store.transaction() as tx:
        assert tx.open_epoch(tx.record_head(log), 2)
    add(store, [an_entry("b", log)])
    monkeypatch.setattr(anchoring, "MOST_VERIFIED", 10)
    monkeypatch.setattr(proving, "MOST_HASHED", 10)
    with store.reading() as tx:
        request_of(tx)
    add(store, [an_entry("b", log)])
    with store.reading() as tx, pytest.raises(TooLarge, match="11"):
        request_of(tx)
