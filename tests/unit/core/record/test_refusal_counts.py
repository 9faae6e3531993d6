"""Refusals are counted by caller and minute."""

from __future__ import annotations

from fate_flow.core.record.refusal_counts import MINUTE_MS, RefusalCounts, Refusals


def test_a_flood_is_one_value_for_each_caller_kind_and_minute() -> None:
    counts = RefusalCounts()
    for at in (10, 30, 20, MINUTE_MS + 5):
        counts.note("10000", "party", 429, at)
    counts.note("10000", "party", 108, 40)
    counts.note("", "client", 108, 50)

    assert counts.take(MINUTE_MS + 9) == (
        Refusals("10000", "party", 429, 3, 10, 30),
        Refusals("10000", "party", 108, 1, 40, 40),
        Refusals("", "client", 108, 1, 50, 50),
    )
    assert not counts.is_empty()
    assert counts.take(2 * MINUTE_MS) == (Refusals("10000", "party", 429, 1, MINUTE_MS + 5, MINUTE_MS + 5),)
    assert counts.is_empty()


def test_names_that_a_caller_invents_take_no_more_room() -> None:
    counts = RefusalCounts()
    for number in range(5_000):
        counts.note(str(number), "party", 108, 1)

    found = counts.take(MINUTE_MS)
    assert len(found) == 1_001
    assert sum(one.count for one in found) == 5_000
