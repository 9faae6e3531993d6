"""The rules for placed workers: what the listings of a cluster have shown, and what follows.

All times are seconds of the clock of the process that lists; no clock of another machine is read. What another process
of this server has seen does not count, except for the time that a worker was pending, which is kept in its folder.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

from fate_flow.engines.placed.cluster import Listed, Stage

ENOUGH_LISTINGS = 2
"""A worker has to be missing in so many listings, one after the other, before it counts as gone."""


@dataclass(frozen=True)
class Seen:
    """What listings have shown of one worker up to now."""

    listed: Listed | None = None       # in the last listing that could be read
    is_read: bool = False              # the last try to list has succeeded
    pending_seconds: float = 0.0       # between listings that both showed it as pending
    pending_at: float | None = None    # of the last listing, if that showed it as pending
    gone: int = 0                      # listings one after the other that did not show it as alive
    gone_since: float = 0.0            # the first of these
    may_compute: bool = False          # also when its job has ended: the cluster had lost a node with it

    def with_listing(self, listed: Listed | None, at: float) -> Seen:
        """Return what is seen after a listing that began at this time. `listed`: None if the worker is not in it."""
        may_compute = self.may_compute or (listed is not None and (listed.may_compute or listed.hides_lost_node))
        if listed is not None and listed.stage is Stage.PENDING:
            since = at if self.pending_at is None else self.pending_at
            return Seen(listed, True, self.pending_seconds + at - since, at, may_compute=may_compute)
        if listed is not None and listed.stage is not Stage.ENDED:
            return Seen(listed, True, self.pending_seconds, may_compute=may_compute)
        if self.listed is None and listed is not None:          # until now it had not come: it was not gone
            return Seen(listed, True, self.pending_seconds, None, 1, at, may_compute)
        first = self.gone_since if self.gone else at
        # A cluster forgets a job some minutes after its end: its last word stays. It may still list a second job of
        # this name that has found the claim, and then the node that was lost counts.
        before = self.listed if self.listed is not None and self.listed.stage is Stage.ENDED else None
        last = before if before is not None and (listed is None or before.may_compute) else listed
        return Seen(last, True, self.pending_seconds, None, self.gone + 1, first, may_compute)

    def without_listing(self) -> Seen:
        """Return what is seen after a try to list that failed: all clocks stand."""
        return replace(self, is_read=False, pending_at=None, gone=0)


class Step(Enum):
    """What follows for a worker that has no end in its folder."""

    NOTHING = "nothing"
    GIVE_UP = "give up"                # it was pending for too long
    END = "end"                        # its job is gone, but it may still compute: its folder says that it ends
    LOST = "lost"                      # it is gone, and nothing of it can be left


@dataclass(frozen=True)
class Patience:
    """How long is waited, in seconds."""

    longest_pending: float             # 0: for ever
    settle: float                      # until what was written on another machine is seen here
    silence: float                     # after which a runner that sees no server has ended, with its grace


def step_of(seen: Seen, *, is_begun: bool, now: float, patience: Patience) -> Step:
    """Decide about a placed worker. `is_begun`: a runner has claimed it."""
    if not seen.is_read:
        return Step.NOTHING
    if not is_begun and 0 < patience.longest_pending < seen.pending_seconds:
        return Step.GIVE_UP
    if seen.gone < ENOUGH_LISTINGS:
        return Step.NOTHING
    passed = now - seen.gone_since
    if not is_begun or _has_surely_ended(seen):
        return Step.LOST if passed >= patience.settle else Step.NOTHING
    return Step.LOST if passed >= patience.settle + patience.silence else Step.END


def _has_surely_ended(seen: Seen) -> bool:
    """Return whether the cluster has seen the end of all its processes, as it has not on a node that it has lost."""
    return seen.listed is not None and seen.listed.stage is Stage.ENDED and not seen.may_compute


def furthest(listed: Collection[Listed]) -> dict[str, Listed]:
    """Return one job for each name: where a name was submitted twice, the one that is furthest from its end."""
    found: dict[str, Listed] = {}
    lost = set()
    for one in listed:
        if one.name not in found or _rank(one) > _rank(found[one.name]):
            found[one.name] = one
        if one.may_compute:
            lost.add(one.name)
    for name in lost:
        found[name] = replace(found[name], hides_lost_node=True)
    return found


def _rank(one: Listed) -> int:
    if one.may_compute:
        return 1
    return {Stage.ENDED: 0, Stage.PENDING: 2, Stage.UNKNOWN: 3, Stage.ALIVE: 4}[one.stage]
