"""Whose turn it is: first in first out among the jobs that can run, and a bound on how often the head is passed.

A job that was refused is blocked on the party that refused it. The first of those is that party's *head*. Jobs that
do not need that party pass it freely. A job that does need it may take what the head lacks, but each time counts; when
the head has been passed as often as the configuration allows, later jobs that need the party wait behind it until it
has started. A job that is in its turn may pass any moment, so it counts as if it had.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fate_flow.core.text import ordinal


@dataclass(frozen=True)
class Waiting:
    """A waiting job, as little as the queue needs of it."""

    job_id: str
    create_time: int
    parties: tuple[str, ...]
    blocked_on: str = ""
    blocked_cores: int = 0
    retry_at: int = 0                # steady time
    passes: int = 0

    @property
    def order(self) -> tuple[int, str]:
        return (self.create_time, self.job_id)


@dataclass(frozen=True)
class Behind:
    """Not this job's turn: an older one that needs the same party has been passed often enough."""

    job_id: str
    head: str
    party_id: str

    @property
    def words(self) -> str:
        return f"waits behind job {self.head}, which party {self.party_id} has had no room for"


class Passing:
    """How often the head of each party may still be passed."""

    def __init__(self, heads: Collection[Waiting], passes: int, in_turn: Collection[Waiting]) -> None:
        self._heads = {head.blocked_on: head for head in heads}
        self._left = {head.blocked_on: passes - head.passes for head in heads}
        for job in in_turn:
            self._count(job)

    def turn_of(self, job: Waiting) -> Behind | None:
        """None when the job may ask for resources now; then it counts as one that passes."""
        for head in self._passed_by(job):
            if self._left[head.blocked_on] <= 0:
                return Behind(job.job_id, head.job_id, head.blocked_on)
        self._count(job)
        return None

    def _count(self, job: Waiting) -> None:
        for head in self._passed_by(job):
            self._left[head.blocked_on] -= 1

    def _passed_by(self, job: Waiting) -> list[Waiting]:
        needed = dict.fromkeys(job.parties)
        heads = [self._heads[party_id] for party_id in needed if party_id in self._heads]
        return [head for head in heads if head.order < job.order]


def why_it_waits(wait_reason: str, place: int) -> str:
    """In words: what is lacking where, and the place in the queue (1 is the first)."""
    return f"{wait_reason or 'waits for its turn'}; {ordinal(place)} in the queue"
