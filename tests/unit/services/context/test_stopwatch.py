"""How long something has stood still, on a clock of one's own."""

from __future__ import annotations

from fate_flow.services.context.stopwatch import AwakeClock, Stopwatch


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_for_which_a_process_stood_still_is_left_out() -> None:
    clock = Clock()
    awake = AwakeClock(clock)
    begin = awake()
    for wait, passed in ((5.0, 5.0), (5.0, 5.9), (0.1, 0.5)):
        awake.expect(wait)
        before = awake()
        clock.now += passed
        assert round(awake() - before, 6) == passed
    awake.expect(5.0)
    clock.now += 3_600.0
    assert round(awake() - begin, 6) == 11.4
    clock.now += 5.5
    assert round(awake() - begin, 6) == 16.9


def test_it_counts_from_when_a_token_was_first_seen() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    assert watch.unchanged_seconds("a", 1) == 0.0
    clock.now += 5
    assert watch.unchanged_seconds("a", 1) == 5.0
    clock.now += 5
    assert watch.unchanged_seconds("a", 1) == 10.0


def test_another_token_begins_anew_and_so_does_the_first_one_after_it() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    watch.unchanged_seconds("a", 1)
    clock.now += 5
    assert watch.unchanged_seconds("a", 2) == 0.0
    assert watch.unchanged_seconds("a", 1) == 0.0


def test_keys_do_not_know_each_other() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    watch.unchanged_seconds("a", 1)
    clock.now += 5
    assert watch.unchanged_seconds(("a", "b"), 1) == 0.0
    assert watch.unchanged_seconds("a", 1) == 5.0


def test_what_is_not_watched_any_more_is_forgotten() -> None:
    clock = Clock()
    watch = Stopwatch(clock)
    for key in ("a", "b"):
        watch.unchanged_seconds(key, 1)
    clock.now += 5
    watch.keep_only({"b", "never seen"})
    assert watch.unchanged_seconds("a", 1) == 0.0
    assert watch.unchanged_seconds("b", 1) == 5.0
