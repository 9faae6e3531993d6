"""Whose turn it is, and the words for it."""

from __future__ import annotations

import pytest

from fate_flow.core.queue import Behind, Passing, Waiting, why_it_waits
from fate_flow.core.text import ordinal, plain


def waits(job_id: str, at: int, *parties: str, blocked_on: str = "", passes: int = 0) -> Waiting:
    return Waiting(job_id, at, parties or ("9999", "10000"), blocked_on, 2, passes=passes)


HEAD = waits("1", 10, blocked_on="10000", passes=16)


@pytest.mark.parametrize(
    ("head", "is_closed"),
    [
        (waits("1", 10, blocked_on="10000", passes=15), False),
        (HEAD, True),
        (waits("1", 10, blocked_on="10000", passes=99), True),
        (waits("1", 10, blocked_on="10001", passes=99), False),
    ],
)
def test_a_head_that_was_passed_often_enough_is_not_passed_any_more(head: Waiting, is_closed: bool) -> None:
    behind = Passing([head], 16, ()).turn_of(waits("2", 11))
    assert behind == (Behind("2", "1", "10000") if is_closed else None)


def test_with_no_passes_at_all_the_queue_is_strict() -> None:
    head = waits("1", 10, blocked_on="10000")
    assert Passing([head], 0, ()).turn_of(waits("2", 11)) is not None


def test_as_many_get_their_turn_as_may_pass_and_those_in_their_turn_count() -> None:
    head = waits("1", 10, blocked_on="10000", passes=12)
    in_turn = [waits("2", 11), waits("0", 9), waits("3", 11, "9999", "10001"), head]     # only the first would pass it
    passing = Passing([head], 16, in_turn)
    found = [passing.turn_of(waits(f"{number}", 20)) for number in range(4, 9)]
    assert [one is None for one in found] == [True, True, True, False, False]
    assert passing.turn_of(waits("9", 20, "9999", "10001")) is None


def test_a_job_that_would_pass_two_heads_counts_at_both_and_waits_behind_either() -> None:
    heads = [waits("1", 10, "9999", blocked_on="9999", passes=1), waits("2", 11, blocked_on="10000")]
    passing = Passing(heads, 2, ())
    assert passing.turn_of(waits("3", 12)) is None
    assert passing.turn_of(waits("4", 13)) == Behind("4", "1", "9999")
    assert passing.turn_of(waits("5", 13, "10000", "10001")) is None
    assert passing.turn_of(waits("6", 13, "10000", "10001")) == Behind("6", "2", "10000")


@pytest.mark.parametrize(
    ("job", "is_behind"),
    [
        (waits("2", 11), True),
        (waits("2", 10), True),                     # at the same moment: by id
        (waits("0", 10), False),
        (waits("2", 9), False),                     # older than the head
        (waits("2", 11, "9999", "10001"), False),   # does not need what the head lacks
        (HEAD, False),                              # the head itself
    ],
)
def test_only_younger_jobs_that_need_the_party_wait_behind_the_head(job: Waiting, is_behind: bool) -> None:
    found = Passing([HEAD], 16, ()).turn_of(job)
    assert found == (Behind(job.job_id, "1", "10000") if is_behind else None)


def test_why_it_is_not_a_jobs_turn_is_said_in_words() -> None:
    behind = Passing([HEAD], 16, ()).turn_of(waits("2", 11))
    assert behind is not None
    assert behind.words == "waits behind job 1, which party 10000 has had no room for"


def test_jobs_are_ordered_by_age_and_then_by_id() -> None:
    jobs = [waits("3", 10), waits("1", 11), waits("2", 10)]
    assert [job.job_id for job in sorted(jobs, key=lambda job: job.order)] == ["2", "3", "1"]


@pytest.mark.parametrize(
    ("reason", "place", "words"),
    [
        ("host 10000 has 2 of 8 cores free, 4 asked", 3, "host 10000 has 2 of 8 cores free, 4 asked; 3rd in the queue"),
        ("", 1, "waits for its turn; 1st in the queue"),
    ],
)
def test_why_a_job_waits(reason: str, place: int, words: str) -> None:
    assert why_it_waits(reason, place) == words


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (10, "10th"), (11, "11th"), (12, "12th"), (13, "13th"),
        (20, "20th"), (21, "21st"), (22, "22nd"), (101, "101st"), (111, "111th"), (112, "112th"), (1003, "1003rd"),
    ],
)  # fmt: skip
def test_ordinals(number: int, text: str) -> None:
    assert ordinal(number) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"), ("gr\u00fc\u00df 测试 😀", "gr\u00fc\u00df 测试 😀"), ("x" * 50, "x" * 30),
        ("half \ud800 of one", "half ? of one"), ("a\0b", "a?b"), ("", ""), (None, ""), (7, ""), (["x"], ""),
        ({"x": 1}, ""), (True, ""), (b"x", ""),
    ],
)  # fmt: skip
def test_text_of_somebody_else_is_made_fit_for_a_database(value: object, text: str) -> None:
    found = plain(value, 30)
    assert found == text
    found.encode("utf-8")
