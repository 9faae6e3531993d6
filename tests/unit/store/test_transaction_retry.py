"""When a transaction is begun anew: which errors, how often, and after which pauses."""

from __future__ import annotations

import pytest

from fate_flow.core.model.errors import CommitUnknown, Conflict, FlowError, StorageFailed, StorageUnavailable
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
    attempts = Attempts(StorageFailed("the disk of the database is full"))
    with pytest.raises(StorageFailed, match="full"):
        attempts.carry_out(is_repeatable=True)
    assert attempts.pauses == []


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
