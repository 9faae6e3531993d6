"""How fast requests may follow each other."""

from __future__ import annotations

import pytest

from fate_flow.core.quotas.pace import TokenBucket


def test_after_a_rest_a_burst_is_let_through_and_then_the_rate() -> None:
    bucket = TokenBucket(rate=10.0, burst=3.0, now=0.0)
    assert [bucket.take(0.0) for _ in range(4)] == [0.0, 0.0, 0.0, None]
    assert bucket.take(0.05) is None
    assert [bucket.take(0.1), bucket.take(0.1)] == [0.0, None]
    assert [bucket.take(100.0) for _ in range(4)] == [0.0, 0.0, 0.0, None], "a longer rest gives no larger burst"


def test_who_waits_has_its_place_and_who_waits_too_long_has_none() -> None:
    bucket = TokenBucket(rate=10.0, burst=1.0, now=0.0)
    waits = [bucket.take(0.0, patience=0.25) for _ in range(5)]
    assert waits[:3] == pytest.approx([0.0, 0.1, 0.2])
    assert waits[3:] == [None, None]
    assert bucket.take(0.1, patience=0.25) == pytest.approx(0.2), "those that were refused do not count"


@pytest.mark.parametrize("rate", [1.0, 7.0, 45.0])
def test_over_a_long_time_only_the_rate_counts(rate: float) -> None:
    bucket = TokenBucket(rate, burst=20.0, now=0.0)
    passed = sum(bucket.take(tenth / 10) is not None for tenth in range(1000) for _ in range(60))
    assert passed == pytest.approx(20 + rate * 99.9, abs=2)


def test_a_clock_that_stands_still_gives_nothing() -> None:
    bucket = TokenBucket(rate=10.0, burst=1.0, now=5.0)
    assert [bucket.take(5.0), bucket.take(4.0), bucket.take(5.0)] == [0.0, None, None]
