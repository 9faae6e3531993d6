"""What every store promises of other parties, of their jobs here, and of who schedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fate_flow.core.model.peer import PeerTrouble


class Peers(Protocol):
    """Part of `contract.Transaction`."""

    def copies_that_run(self, initiator_id: str) -> tuple[tuple[str, int], ...]:
        """Jobs of this other party that run here, each with its run."""

    def copies_that_wait(self, after: str, limit: int) -> tuple[str, ...]:
        """So many ids of jobs of other parties that wait here, behind this one; none of plain v1 initiators."""

    def says_who(self, party_id: str) -> bool:
        """Whether this party has taken part in an unfinished job as a server of ours, which says so in each answer."""

    def record_heartbeat(self, party_id: str) -> None:
        """Count one sign of life."""

    def heartbeats(self) -> Mapping[str, int]: ...

    def note_trouble(self, trouble: PeerTrouble) -> None:
        """What is wrong with the ways to and from a party now; it may be nothing."""

    def peer_troubles(self) -> Mapping[str, PeerTrouble]:
        """By party: those with which something is wrong."""

    def forget_troubles(self) -> None:
        """Whoever schedules from now on looks anew."""

    def scheduler(self) -> tuple[str, int]:
        """Who schedules, and the counter of its signs of life."""

    def take_scheduler_lease(self, owner: str, counter: int, new_owner: str) -> bool:
        """Take the schedule from whoever has stood still at this counter."""

    def renew_scheduler_lease(self, owner: str, steady: int) -> bool:
        """The fence: counts up while `owner` schedules; every transaction of a scheduler begins with it.

        It writes down the steady time that its owner has come to."""

    def steady(self) -> int:
        """Steady time: the milliseconds that schedulers of this party have watched, all together.

        Each counts on from what the last one wrote down, on its own monotonic clock: it never goes back, and no step
        of a clock on the wall moves it."""
