"""Whose turn it is: first in first out among the jobs that can run, and a bound on how often the head is passed.

A job that was refused is blocked on the party that refused it. The first of those is that party's *head*. Jobs that
do not need that party pass it freely. A job that does need it may take what the head lacks, but each time counts; when
the head has been passed as often as the configuration allows, later jobs that need the party wait behind it until it
has started.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
    retry_at: int = 0
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


def barriers(heads: Collection[Waiting], passes: int) -> dict[str, Waiting]:
    """By party: the head that nobody may pass any more."""
    return {head.blocked_on: head for head in heads if head.passes >= passes}


def turn_of(job: Waiting, closed: Mapping[str, Waiting]) -> Behind | None:
    """None when the job may ask for resources now."""
    for party_id in job.parties:
        head = closed.get(party_id)
        if head is not None and head.order < job.order:
            return Behind(job.job_id, head.job_id, party_id)
    return None


def why_it_waits(wait_reason: str, place: int) -> str:
    """In words: what is lacking where, and the place in the queue (1 is the first)."""
    return f"{wait_reason or 'waits for its turn'}; {ordinal(place)} in the queue"
