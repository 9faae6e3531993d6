"""How many lines a party may cause in the log."""

from __future__ import annotations

from fate_flow.core.quotas.lines import LineCounts


def test_the_first_lines_of_a_minute_are_written_and_the_others_counted() -> None:
    counts = LineCounts(60.0)
    assert [counts.take("a", 2, now) for now in (0.0, 1.0, 2.0, 59.0)] == [(True, 0), (True, 0), (False, 0), (False, 0)]
    assert counts.take("b", 2, 2.0) == (True, 0)
    assert [counts.take("a", 2, now) for now in (60.0, 61.0, 62.0)] == [(True, 2), (True, 0), (False, 0)]
    assert counts.take("a", 2, 500.0) == (True, 1)


def test_no_caller_fills_the_memory_with_keys() -> None:
    counts = LineCounts(60.0)
    for number in range(3000):
        assert counts.take(str(number), 1, 0.0) == (True, 0)
    assert len(counts._of) == 1000
