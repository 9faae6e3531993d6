"""Refusals are counted by caller and minute."""

from __future__ import annotations

from fate_flow.core.record.refusal_counts import Cause, RefusalCounts, Refusals
from fate_flow.core.record.window_counts import MINUTE_MS


def note(
    counts: RefusalCounts, party_id: str, route: str, retcode: int, at: int, cause: str = "", address: str = ""
) -> None:  # fmt: skip
    counts.add(Refusals(1, at, at, party_id, route, retcode, cause, address))


def test_a_flood_is_one_value_for_each_caller_kind_and_minute() -> None:
    counts = RefusalCounts()
    for at in (10, 30, 20, MINUTE_MS + 5):
        note(counts, "10000", "party", 429, at)
    note(counts, "10000", "party", 108, 40)
    note(counts, "", "client", 108, 50)

    assert counts.take(MINUTE_MS + 9) == (
        Refusals(3, 10, 30, "10000", "party", 429),
        Refusals(1, 40, 40, "10000", "party", 108),
        Refusals(1, 50, 50, "", "client", 108),
    )
    assert not counts.is_empty()
    assert counts.take(2 * MINUTE_MS) == (Refusals(1, MINUTE_MS + 5, MINUTE_MS + 5, "10000", "party", 429),)
    assert counts.is_empty()


def test_names_that_a_caller_invents_take_no_more_room() -> None:
    counts = RefusalCounts()
    for number in range(5_000):
        note(counts, str(number), "party", 108, 1)

    found = counts.take(MINUTE_MS)
    assert len(found) == 1_001
    assert sum(one.count for one in found) == 5_000


def test_many_addresses_are_counted_together_and_a_proved_party_by_itself() -> None:
    counts = RefusalCounts()
    for number in range(5_000):
        note(counts, "", "party", 0, 1, Cause.KEY, f"10.0.{number // 250}.{number % 250}")
    note(counts, "10000", "party", 429, 2, Cause.REQUEST)
    note(counts, "", "party", 0, 3, Cause.KEY, "10.0.0.7")

    *named, others, proved = counts.take(MINUTE_MS)
    assert [one.address for one in named] == [f"10.0.0.{number}" for number in range(100)]
    assert named[7] == Refusals(2, 1, 3, "", "party", 0, "key", "10.0.0.7")
    assert others == Refusals(4_900, 1, 1, "", "party", 0, "key")
    assert proved == Refusals(1, 2, 2, "10000", "party", 429, "request")


def test_the_next_minute_names_addresses_again() -> None:
    counts = RefusalCounts()
    for number in range(200):
        note(counts, "", "party", 0, 1, Cause.HANDSHAKE, str(number))
    note(counts, "", "party", 0, MINUTE_MS, Cause.HANDSHAKE, "another")

    assert len(counts.take(MINUTE_MS)) == 101
    assert [one.address for one in counts.take_all()] == ["another"]
    assert counts.is_empty()


def test_what_is_put_back_takes_no_more_room_for_each_minute() -> None:
    counts = RefusalCounts()
    for minute in range(50):
        for number in range(500):
            note(counts, "", "party", 0, minute * MINUTE_MS, Cause.KEY, f"10.0.{number // 250}.{number % 250}")
        note(counts, "10000", "party", 429, minute * MINUTE_MS)
        counts.put_back(counts.take_all())

    found = counts.take(50 * MINUTE_MS)
    assert len(found) == 102
    assert sum(one.count for one in found) == 50 * 501
    assert Refusals(50, 0, 49 * MINUTE_MS, "10000", "party", 429) in found
