"""Deliberate bugs in what the stores write."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from fate_flow.core.model.job import Claim, EngineState
from fate_flow.core.model.resources import LOCAL
from fate_flow.store.database.engine_rows import EngineRow
from fate_flow.store.memory.store import MemoryTransaction
from fate_flow.store.sql import resources


def no_fence(transaction: type) -> AbstractContextManager[Any]:
    """A scheduler that has lost its lease goes on writing."""
    keep = transaction.renew_scheduler_lease  # type: ignore[attr-defined]

    def renew_scheduler_lease(self: Any, owner: str, steady: int) -> bool:
        keep(self, owner, steady)
        return True

    return patch.object(transaction, "renew_scheduler_lease", renew_scheduler_lease)


def return_ignores_the_round(transaction: type) -> AbstractContextManager[Any]:
    keep = transaction.give_back  # type: ignore[attr-defined]
    return patch.object(transaction, "give_back", lambda self, key, _, at: keep(self, key, None, at))


def cores_come_back_twice() -> AbstractContextManager[Any]:
    keep = MemoryTransaction.give_back

    def give_back(self: Any, key: Any, at_most_round: int | None, at: int) -> bool:
        claim = self.job(key).claim
        done = keep(self, key, at_most_round, at)
        engine = self.engine(claim.engine)
        if done and engine.remaining_cores + claim.cores <= engine.cores:
            self._take(engine, Claim(-claim.cores))
        return done

    return patch.object(MemoryTransaction, "give_back", give_back)


def gpus_come_back_twice() -> AbstractContextManager[Any]:
    keep = MemoryTransaction.give_back

    def give_back(self: Any, key: Any, at_most_round: int | None, at: int) -> bool:
        claim = self.job(key).claim
        done = keep(self, key, at_most_round, at)
        engine = self.engine(claim.engine) if done else None
        if engine is not None and engine.remaining_gpus + claim.gpus <= engine.gpus:
            self._take(engine, Claim(gpus=-claim.gpus))
        return done

    return patch.object(MemoryTransaction, "give_back", give_back)


def cores_come_back_to_the_default_engine() -> AbstractContextManager[Any]:
    """Whichever engine has reserved, as long as the row of the default one has space."""
    keep = MemoryTransaction._come_back

    def come_back(self: Any, engine: EngineState, held: Claim) -> None:
        other = self.engine(LOCAL)
        moved = min(held.cores, other.cores - other.remaining_cores) if engine.name != LOCAL else 0
        keep(self, other, Claim(moved))
        keep(self, self.engine(engine.name), Claim(held.cores - moved, held.memory, gpus=held.gpus))

    return patch.object(MemoryTransaction, "_come_back", come_back)


def what_is_on_other_engines_stays_there() -> AbstractContextManager[Any]:
    """Only the engine of the job gets its part back."""
    keep, engine_of = MemoryTransaction.give_back, MemoryTransaction.engine

    def give_back(self: Any, key: Any, at_most_round: int | None, at: int) -> bool:
        own = self.job(key).claim.engine

        def engine(self: Any, name: str) -> Any:
            return engine_of(self, name) if name == own else None

        with patch.object(MemoryTransaction, "engine", engine):
            return keep(self, key, at_most_round, at)

    return patch.object(MemoryTransaction, "give_back", give_back)


def the_engine_of_the_job_reserves_all() -> AbstractContextManager[Any]:
    keep = MemoryTransaction.reserve

    def reserve(self: Any, *given: Any) -> bool:
        return keep(self, *given[:8])

    return patch.object(MemoryTransaction, "reserve", reserve)


def apply_takes_again() -> AbstractContextManager[Any]:
    """A repeated apply reserves a second time."""
    keep = MemoryTransaction.renew_claim

    def renew_claim(self: Any, key: Any, round_number: int) -> None:
        keep(self, key, round_number)
        claim = self.job(key).claim
        self._take(self.engine(claim.engine), Claim(claim.cores))

    return patch.object(MemoryTransaction, "renew_claim", renew_claim)


def sql_reserves_what_is_not_there() -> AbstractContextManager[Any]:
    """The UPDATE of the engine's row without its guard."""
    keep = resources.hit

    def hit(query: Any) -> bool:
        if getattr(query, "model", None) is EngineRow:
            query._where = EngineRow.f_engine_name == "STANDALONE"
        return keep(query)

    return patch.object(resources, "hit", hit)


def reservation_rounds_are_not_taken_over() -> AbstractContextManager[Any]:
    return patch.object(MemoryTransaction, "take_over", lambda self, owner: ())
