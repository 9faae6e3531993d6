"""When a transaction is begun anew: which errors, how often, and after which pauses."""

from __future__ import annotations

import pytest

from fate_flow.core.model.errors import CommitUnknown, Conflict, DiskFull, FlowError, StorageFailed, StorageUnavailable
from fate_flow.store.contract.transaction_retry import PATIENCE_SECONDS, Retry


class Attempts:
    """Fails with these errors, one an attempt, and then succeeds. Time passes only in the pauses and in `takes`."""

    def __init__(self, *errors: FlowError, takes: float = 0.0) -> None:
        self.errors = list(errors)
        self.takes = takes
        self.count = 0
        self.pauses: list[float] = []
        self.now = 0.0

    def __call__(self) -> int:
        self.count += 1
        self.now += self.takes
        if self.errors:
            raise self.errors.pop(0)
        return self.count

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def carry_out(self, is_repeatable: bool = False, chance: float = 0.5) -> int:
        return Retry(lambda: self.now, self._sleep, lambda: chance)(self, is_repeatable)


def test_what_was_rolled_back_is_begun_anew() -> None:
    assert Attempts(StorageUnavailable(), StorageUnavailable()).carry_out() == 3


@pytest.mark.parametrize("error", [StorageFailed(), CommitUnknown(), Conflict()])
def test_what_may_have_happened_or_never_will_is_not(error: FlowError) -> None:
    attempts = Attempts(error)
    with pytest.raises(type(error)):
        attempts.carry_out()
    assert attempts.count == 1


def test_what_may_have_happened_is_begun_anew_where_twice_is_once() -> None:
    assert Attempts(CommitUnknown()).carry_out(is_repeatable=True) == 2


def test_a_full_disk_is_no_matter_of_patience() -> None:
    attempts = Attempts(DiskFull("the disk of the database is full"))
    with pytest.raises(DiskFull, match="full"):
        attempts.carry_out(is_repeatable=True)
    assert attempts.pauses == []


@pytest.mark.parametrize(("errors", "has_space", "runs"), [(1, True, 2), (2, True, 2), (1, False, 1)])
def test_on_a_full_disk_it_is_begun_anew_once_if_space_was_made(errors: int, has_space: bool, runs: int) -> None:
    attempts, asked = Attempts(*[DiskFull()] * errors), list[None]()

    def make_space() -> bool:
        asked.append(None)
        return has_space

    retry = Retry(lambda: 0.0, attempts._sleep, make_space=make_space)
    if runs > errors:
        assert retry(attempts) == runs
    else:
        with pytest.raises(DiskFull):
            retry(attempts)
    assert (attempts.count, len(asked), attempts.pauses) == (runs, 1, [])


def test_what_fails_otherwise_makes_no_space() -> None:
    retry = Retry(lambda: 0.0, make_space=lambda: pytest.fail("no space is needed"))
    with pytest.raises(StorageFailed):
        retry(Attempts(StorageFailed()))


def test_pauses_grow_up_to_a_second_and_end() -> None:
    attempts = Attempts(*[StorageUnavailable()] * 100)
    with pytest.raises(StorageUnavailable):
        attempts.carry_out()
    assert attempts.pauses[:4] == [0.01, 0.02, 0.04, 0.08]
    assert max(attempts.pauses) == 1.0
    assert sum(attempts.pauses) <= PATIENCE_SECONDS
    assert 5 < attempts.count < 20


def test_two_that_met_do_not_meet_again_in_step() -> None:
    early, late = Attempts(StorageUnavailable()), Attempts(StorageUnavailable())
    early.carry_out(chance=0.0)
    late.carry_out(chance=0.99)
    assert early.pauses[0] < late.pauses[0]


def test_who_has_waited_long_for_a_lock_does_not_wait_again() -> None:
    attempts = Attempts(StorageUnavailable(), takes=PATIENCE_SECONDS)
    with pytest.raises(StorageUnavailable):
        attempts.carry_out()
    assert attempts.count == 1
