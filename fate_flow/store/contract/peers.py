"""The store contract for other parties, their jobs here, and the scheduler lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fate_flow.core.model.peer import PeerTrouble


class Peers(Protocol):
    """Part of `contract.Transaction`."""

    def copies_that_run(self, initiator_id: str) -> tuple[tuple[str, int], ...]:
        """Return the jobs of this other party that run here, each with its run."""

    def copies_that_wait(self, after: str, limit: int) -> tuple[str, ...]:
        """Return ids behind `after` of jobs of other parties that wait here, without those of plain v1 initiators."""

    def says_who(self, party_id: str) -> bool:
        """Return whether this party takes part in an unfinished job as a server of ours, which names itself in each
        answer."""

    def record_heartbeat(self, party_id: str) -> None:
        """Count one heartbeat of this party."""

    def heartbeats(self) -> Mapping[str, int]: ...

    def note_trouble(self, trouble: PeerTrouble) -> None:
        """Store the present trouble with the connections to and from a party; it may be empty."""

    def peer_troubles(self) -> Mapping[str, PeerTrouble]:
        """Return the parties with a trouble, by party id."""

    def forget_troubles(self) -> None:
        """Remove all troubles, because a new scheduler measures again."""

    def scheduler(self) -> tuple[str, int]:
        """Return the owner of the scheduler lease, and its counter."""

    def take_scheduler_lease(self, owner: str, counter: int, new_owner: str) -> bool:
        """Take the scheduler lease from `owner`; False if its counter is no longer `counter`."""

    def renew_scheduler_lease(self, owner: str, steady: int) -> bool:
        """Count up the lease, and store the steady time; False if `owner` has lost it.

        This is the fence: every transaction of a scheduler begins with it."""

    def steady(self) -> int:
        """Return the steady time: the milliseconds that schedulers of this party were awake, all together.

        Each scheduler counts on from the stored time, with its own monotonic clock. So the steady time never goes back,
        and a change of the wall clock does not affect it."""
