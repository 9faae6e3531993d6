"""Which job may reserve, and the words for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.job import Blocker, Claim
from fate_flow.core.planning.queue import (
    Behind,
    Passing,
    Place,
    Waiting,
    queue_key,
    takes_from,
    where_it_takes,
    why_it_waits,
)
from fate_flow.core.text.phrases import ordinal, sanitized


def waits(
    job_id: str, at: int, *parties: str, blocked_on: str = "", passes: int = 0,
    blocked_by: Blocker | None = Blocker.CAPACITY, blocked_at: str = "",
) -> Waiting:
    return Waiting(
        job_id, at, parties or ("9999", "10000"), blocked_on, 2, passes=passes, blocked_by=blocked_by,
        blocked_at=blocked_at,
    )  # fmt: skip


def two_of_each(_: str) -> dict[Place, int]:
    """What every job asks for: two cores of each party."""
    return dict.fromkeys(map(Place, ("9999", "10000", "10001", "10002")), 2)


def passing(*heads: Waiting, passes: int = 16, in_round: tuple[Waiting, ...] = (), **free: int) -> Passing:
    """`free`: by party, as `at_10000=4`."""
    known = {Place(name.removeprefix("at_")): cores for name, cores in free.items()}
    return Passing(heads, passes, in_round, known, two_of_each)


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
    behind = passing(head).admit(waits("2", 11))
    assert behind == (Behind("2", "1", Place("10000")) if is_closed else None)


def test_with_no_passes_at_all_the_queue_is_strict() -> None:
    head = waits("1", 10, blocked_on="10000")
    assert passing(head, passes=0).admit(waits("2", 11)) is not None


def test_as_many_get_their_reservation_round_as_may_pass_and_those_in_their_reservation_round_count() -> None:
    head = waits("1", 10, blocked_on="10000", passes=12)
    in_round = (waits("2", 11), waits("0", 9), waits("3", 11, "9999", "10001"), head)    # only the first would pass it
    queue = passing(head, in_round=in_round)
    found = [queue.admit(waits(f"{number}", 20)) for number in range(4, 9)]
    assert [one is None for one in found] == [True, True, True, False, False]
    assert queue.admit(waits("9", 20, "9999", "10001")) is None


def test_a_job_that_would_pass_two_heads_counts_at_both_and_waits_behind_either() -> None:
    heads = [waits("1", 10, "9999", blocked_on="9999", passes=1), waits("2", 11, blocked_on="10000")]
    queue = passing(*heads, passes=2)
    assert queue.admit(waits("3", 12)) is None
    assert queue.admit(waits("4", 13)) == Behind("4", "1", Place("9999"))
    assert queue.admit(waits("5", 13, "10000", "10001")) is None
    assert queue.admit(waits("6", 13, "10000", "10001")) == Behind("6", "2", Place("10000"))


@pytest.mark.parametrize(
    ("free", "blocked_by", "party_id"),
    [
        ({}, Blocker.CAPACITY, ""),                         # nothing is known of either
        ({"9999": 4, "10001": 4}, Blocker.CAPACITY, ""),    # there is capacity for both
        ({"9999": 3, "10001": 4}, Blocker.CAPACITY, "9999"),
        ({"9999": 4, "10001": 3}, Blocker.CAPACITY, "10001"),
        ({"9999": 3, "10001": 3}, Blocker.ANSWER, ""),      # capacity would not help it: the other party is silent
    ],
)
def test_a_job_takes_what_the_head_lacks_also_where_the_head_will_be_short(
    free: dict[str, int], blocked_by: Blocker, party_id: str
) -> None:
    head = waits("1", 10, "9999", "10000", "10001", blocked_on="10000", blocked_by=blocked_by)
    known = {Place(party): cores for party, cores in free.items()}
    found = where_it_takes(waits("2", 11, "9999", "10001", "10002"), head, known, two_of_each)
    assert found == (Place(party_id) if party_id else None)


SLURM, LOCAL = Place("10000", "aa11"), Place("10000", "bb22")


@pytest.mark.parametrize(("asks", "expected"), [
    ({SLURM: 2}, SLURM), ({SLURM: 1, LOCAL: 1}, SLURM), ({SLURM: 0}, SLURM),
    ({LOCAL: 2}, None),                      # a full Slurm does not block the local engine
    ({Place("10000"): 2}, SLURM),            # the party has not said where
    ({}, SLURM),
])  # fmt: skip
def test_a_head_at_one_engine_is_met_by_jobs_at_that_engine(
    asks: dict[Place, int], expected: Place | None
) -> None:
    head = waits("1", 10, blocked_on="10000", blocked_at="aa11")
    assert where_it_takes(waits("2", 11), head, {}, {"2": asks, "1": {SLURM: 4}}.__getitem__) == expected


@pytest.mark.parametrize(("free", "expected"), [(5, LOCAL), (6, None)])
def test_a_head_that_will_be_short_at_another_engine_is_met_there(free: int, expected: Place | None) -> None:
    head = waits("1", 10, blocked_on="10000", blocked_at="aa11")
    asks = {"1": {SLURM: 4, LOCAL: 4}, "2": {LOCAL: 2}}
    assert where_it_takes(waits("2", 11), head, {LOCAL: free}, asks.__getitem__) == expected


def test_the_text_names_the_engine_where_that_is_known() -> None:
    behind = Behind("2", "1", SLURM)
    assert behind.text() == "waits behind job 1, which party 10000 has had no capacity for"
    assert behind.text("slurm") == "waits behind job 1, which party 10000 has had no capacity for on engine slurm"


def test_a_head_that_lacks_two_parties_is_passed_at_both_together_as_often_as_at_one() -> None:
    head = waits("1", 10, "9999", "10000", "10001", blocked_on="10000", passes=14)
    queue = passing(head, at_10001=3, at_9999=50)
    assert queue.admit(waits("2", 11)) is None
    assert queue.admit(waits("3", 12, "9999", "10001")) is None
    assert queue.admit(waits("4", 13, "9999", "10001")) == Behind("4", "1", Place("10001"))
    assert queue.admit(waits("5", 13)) == Behind("5", "1", Place("10000"))
    assert queue.admit(waits("6", 13, "9999", "10002")) is None, "it takes nothing that the head lacks"


def test_what_those_before_it_will_take_is_not_free_for_a_job() -> None:
    queue = passing(waits("1", 10, blocked_on="10000", passes=16), at_9999=6)
    found = [queue.admit(waits(f"{number}", 20, "9999", "10001")) for number in range(2, 5)]
    assert found == [None, None, Behind("4", "1", Place("9999"))]


@pytest.mark.parametrize(
    ("asked", "needed", "free", "does"),
    [
        ((2, 0), (4, 0), (5, 0), True), ((2, 0), (4, 0), (6, 0), False), ((0, 0), (4, 0), (3, 0), False),
        ((2, 0), (0, 9), (8, 3), False), ((2, 1), (0, 9), (8, 9), True), ((2, 1), (2, 8), (8, 9), False),
    ],
)  # fmt: skip
def test_a_claim_takes_from_another_when_too_little_is_left_for_it(
    asked: tuple[int, int], needed: tuple[int, int], free: tuple[int, int], does: bool
) -> None:
    assert takes_from(Claim(*asked), Claim(*needed), Claim(*free)) is does


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
    found = passing(HEAD).admit(job)
    assert found == (Behind(job.job_id, "1", Place("10000")) if is_behind else None)


def test_why_it_is_not_a_jobs_reservation_round_is_said_as_text() -> None:
    behind = passing(HEAD).admit(waits("2", 11))
    assert behind is not None
    assert behind.text() == "waits behind job 1, which party 10000 has had no capacity for"


def test_jobs_are_ordered_by_age_and_then_by_id() -> None:
    jobs = [waits("3", 10), waits("1", 11), waits("2", 10)]
    assert [job.job_id for job in sorted(jobs, key=lambda job: job.order)] == ["2", "3", "1"]


def keyed(job_id: str, at: int, priority: int = 0, enqueued: int | None = None) -> Waiting:
    """Created at this wall clock, and at this steady time."""
    key = queue_key(at if enqueued is None else enqueued, priority, 60)
    return replace(waits(job_id, at), queue_key=key)


@pytest.mark.parametrize(
    ("jobs", "order"),
    [
        ((keyed("1", 10), keyed("2", 11), keyed("3", 12)), "123"),                        # one priority: by age
        ((keyed("1", 10), keyed("2", 11, 1), keyed("3", 12, -1)), "213"),                 # a higher one goes first
        ((keyed("1", 10), keyed("2", 69, 1), keyed("3", 71, 1)), "213"),                  # until the others are older
        ((keyed("1", 10, -9), keyed("2", 700)), "12"),
        ((keyed("1", 10, enqueued=7), keyed("2", 11, enqueued=7)), "12"),     # no scheduler has ticked since
        ((keyed("1", 900, enqueued=7), keyed("2", 901, enqueued=8)), "12"),
        ((keyed("1", 90_000, enqueued=7), keyed("2", 9, enqueued=8)), "12"),     # whatever the clock says
    ],
)
def test_higher_priorities_go_first_and_lower_ones_age(jobs: tuple[Waiting, ...], order: str) -> None:
    assert "".join(job.job_id for job in sorted(jobs, key=lambda job: job.order)) == order


@pytest.mark.parametrize("priority", [-1_000, 0, 7, 1_000])
def test_nothing_starves(priority: int) -> None:
    """Whoever comes so much later stands behind it, be its priority the highest."""
    job, late = keyed("1", 10, priority), 10 + (1_000 - priority) * 60
    assert job.order < keyed("2", late + 1, 1_000).order
    assert job.order < keyed("2", late, 1_000).order, "a tie goes to the elder"
    assert priority == 1_000 or job.order > keyed("2", late - 1, 1_000).order


def test_a_job_of_a_higher_priority_passes_nobody() -> None:
    queue = Passing([replace(HEAD, queue_key=10)], 16, (), {}, two_of_each)
    assert queue.admit(replace(waits("2", 11), queue_key=9)) is None
    assert queue.admit(replace(waits("3", 12), queue_key=11)) == Behind("3", "1", Place("10000"))


@pytest.mark.parametrize(
    ("reason", "place", "text"),
    [
        ("host 10000 has 2 of 8 cores free, 4 asked", 3, "host 10000 has 2 of 8 cores free, 4 asked; 3rd in the queue"),
        ("", 1, "waits for its turn; 1st in the queue"),
    ],
)
def test_why_a_job_waits(reason: str, place: int, text: str) -> None:
    assert why_it_waits(reason, place) == text


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
    found = sanitized(value, 30)
    assert found == text
    found.encode("utf-8")
