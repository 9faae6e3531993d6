"""What every store promises of cores and memory: what there is, who has it, who would like to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fate_flow.core.model.job import EngineState, Hold, Job, JobKey


class Resources(Protocol):
    """Part of `contract.Transaction`. A pending request is a seat that this party had no capacity for."""

    def intake_hold(self) -> Hold | None:
        """Why this party takes no reservations of new jobs at the moment; None: it does."""

    def hold_intake(self, hold: Hold) -> None: ...

    def release_intake(self) -> bool:
        """False when it was not held."""

    def engine(self) -> EngineState | None: ...

    def register_engine(self, state: EngineState, config: Mapping[str, Any], at: int) -> EngineState:
        """Set the totals; what is in use stays in use."""

    def reserve(self, key: JobKey, cores: int, memory: int, token: str, round_number: int, at: int) -> bool:
        """Both rows or none: the job holds nothing yet, and the engine has enough."""

    def renew_claim(self, key: JobKey, round_number: int) -> None:
        """The same claim, asked for again in this reservation round or a later one: its lease begins anew."""

    def give_back(self, key: JobKey, at_most_round: int | None, at: int) -> bool:
        """Return what the reservation recorded; False when nothing was held, or a later reservation round holds it."""

    def pending(self, key: JobKey, asked: int, order: int | None = None) -> None:
        """The seat was asked for, at this steady time; `since` is that of the first such call.

        `order`: the `queue_key` that its initiator told along."""

    def first_pending(self, asked_after: int) -> Job | None:
        """Of the waiting seats that hold nothing and were asked for after this steady time: the one refused first."""

    def pending_requests(self, asked_after: int) -> tuple[Job, ...]:
        """Those seats in the order of their first refusals, `MOST_PENDING` (changes.py) of them at most."""

    def count_bypass(self, key: JobKey) -> None:
        """Another job takes what this seat lacks."""

    def forget_pending(self, key: JobKey) -> None: ...
