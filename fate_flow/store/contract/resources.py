"""The store contract for cores, memory and GPUs: capacity, reservations, pending requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fate_flow.core.model.job import EnginePart, EngineState, Hold, Job, JobKey


class Resources(Protocol):
    """Part of `contract.Transaction`. A pending request belongs to a seat that this party had no capacity for."""

    def intake_hold(self) -> Hold | None:
        """Return the hold of this party; None if it takes reservations of new jobs."""

    def hold_intake(self, hold: Hold) -> None: ...

    def release_intake(self) -> bool:
        """Remove the hold of this party; False if there was none."""

    def engine(self, name: str) -> EngineState | None:
        """Return the engine of this name; None if it was never registered."""

    def register_engine(self, state: EngineState, config: Mapping[str, Any], at: int) -> EngineState:
        """Set the totals of the engine with this name; reservations stay. Returns it as it is then."""

    def reserve(
        self, key: JobKey, engine: str, cores: int, memory: int, token: str, round_number: int, at: int, gpus: int = 0,
        elsewhere: tuple[EnginePart, ...] = (),
    ) -> bool:  # fmt: skip
        """Reserve in the rows of the job and of its engines, all or none; False if the job holds something, or if an
        engine has not enough or is unknown. The claim of the job names the engines.

        `cores`, `memory`, `gpus`: on all engines together; `elsewhere`: what of it is not on `engine`."""

    def lock_engine(self, name: str) -> None:
        """Let no other transaction that calls this for the engine go on before this one has ended. So what
        `unfinished_workers` returns after it has all devices of the engine that are given to workers."""

    def cores_of_jobs_by(self, party_id: str) -> int:
        """Return how many cores the jobs of this initiator hold here, with those of their elastic workers."""

    def gpus_of_jobs_by(self, party_id: str) -> int:
        """Return how many GPUs the jobs of this initiator hold here, with those of their elastic workers."""

    def lock_jobs_by(self, party_id: str) -> None:
        """Let no other transaction that calls this for the initiator go on before this one has ended. So what
        `open_jobs_by` returns after it holds until then, if all who add jobs call this first."""

    def open_jobs_by(self, party_id: str) -> int:
        """Return how many jobs of this initiator are bound here and not over, each once."""

    def renew_claim(self, key: JobKey, round_number: int) -> None:
        """Renew a claim that was requested again in this reservation round or a later one: its lease begins again."""

    def give_back(self, key: JobKey, at_most_round: int | None, at: int) -> bool:
        """Give a reservation back to its engines; False if nothing is held, or if it belongs to a round after
        `at_most_round`."""

    def pending(self, key: JobKey, asked: int, order: int | None = None) -> None:
        """Note a refused request of a seat at steady time `asked`; its `since` is that of the first one.

        `order`: the `queue_key` in the request of its initiator."""

    def first_pending(self, asked_after: int) -> Job | None:
        """Return the seat that was refused first, of the waiting seats that hold nothing and asked after this steady
        time."""

    def pending_requests(self, asked_after: int) -> tuple[Job, ...]:
        """Return these seats in the order of their first refusals, at most `MOST_PENDING` (changes.py)."""

    def count_bypass(self, key: JobKey) -> None:
        """Count that another job takes capacity that this seat waits for."""

    def forget_pending(self, key: JobKey) -> None: ...
