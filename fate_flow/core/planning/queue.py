"""Which waiting job may reserve: a fixed order, and a limit on how often the head may be passed.

The `queue_key` gives a job its place: the steady time at which it was created, minus one span (`queue_ageing`) for each
level of its priority. So a higher priority goes first, jobs of one priority go first in, first out, and a job that has
waited one span longer goes before a job that is one level higher. The key never changes, so nothing has to be
recomputed, and an index keeps the order. No job starves: any job that comes `(highest - own) * queue_ageing` later
stands behind it, whatever its priority, so only a limited number of jobs can come before it.

A refused job is blocked on the party that refused it. The first job that is blocked on a party is that party's *head*.
Jobs that do not need this party pass the head freely. A job that needs it may take capacity that the head waits for,
but each time is counted. When the head has been passed as often as the configuration allows, later jobs that need the
party wait behind it until it has started. A job in its reservation round may pass at any moment, so it counts already.

A head may lack capacity at several parties, but it knows of one at a time. Therefore a job also counts as passing if
both need some party, its free capacity is known, and the job would leave less there than the head requests.

A party with several engines counts its capacity at each of them, and tells initiators which numbers belong together
(`Place`). A job waits for one of these places; the head, the passes and the known free cores are those of the place. A
party that does not tell its engines apart, such as an older server, is one place.

A job that requests more than a party has in all is not a head: no job waits behind it.

`services/scheduling/queue_rounds.py` asks this for the jobs of one initiator. A party orders the requests of all
initiators by itself (`participant/reservation.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.job import Blocker, Claim, Hold
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.spec import Party
from fate_flow.core.text.phrases import ordinal


class Place(NamedTuple):
    """Where capacity is counted: at a party, or at one engine of it.

    `tag`: of the engine, as its party states it (`core/quotas/queues.py`); empty: it tells no engines apart."""

    party_id: str
    tag: str = ""


@dataclass(frozen=True)
class Waiting:
    """The fields of a waiting job that the queue needs."""

    job_id: str
    create_time: int
    parties: tuple[str, ...]
    blocked_on: str = ""
    blocked_cores: int = 0
    retry_at: int = 0                # steady time
    passes: int = 0
    blocked_by: Blocker | None = None
    queue_key: int = 0
    blocked_at: str = ""             # the tag of the engine, as that party states it

    @property
    def place(self) -> Place:
        """What it waits for."""
        return Place(self.blocked_on, self.blocked_at)

    @property
    def order(self) -> tuple[int, int, str]:
        """The same as `Job.order`."""
        return (self.queue_key, self.create_time, self.job_id)


@dataclass(frozen=True)
class Behind:
    """A job may not reserve now, because an earlier job that needs the same party was passed as often as allowed."""

    job_id: str
    head: str
    place: Place

    def text(self, engine: str = "") -> str:
        """Return why it waits. `engine`: the name of the engine; empty: it is not known here."""
        of = f" on engine {engine}" if engine else ""
        return f"waits behind job {self.head}, which party {self.place.party_id} has had no capacity for{of}"


Asked = Callable[[str], Mapping[Place, int]]
"""Given a job id, returns the cores that the job requests at each place."""


def where_it_takes(job: Waiting, head: Waiting, free: Mapping[Place, int], asked: Asked) -> Place | None:
    """Return the place at which a later job would take capacity that the head waits for; None if there is none.

    `free`: the free cores at each place, as far as they are known."""
    if head.blocked_on in job.parties and _may_meet(job, head.place, asked):
        return head.place
    if head.blocked_by is not Blocker.CAPACITY or not any(one.party_id in head.parties for one in free):
        return None
    shared = set(job.parties) & set(head.parties)
    for place, wanted in asked(job.job_id).items() if shared else ():
        is_known = wanted and place.party_id in shared and place in free
        if is_known and free[place] - wanted < asked(head.job_id).get(place, 0):
            return place
    return None


def _may_meet(job: Waiting, place: Place, asked: Asked) -> bool:
    """Return whether a job, which needs this party, needs capacity at the place, as far as is known."""
    if not place.tag:
        return True
    there = [one.tag for one in asked(job.job_id) if one.party_id == place.party_id]
    return not there or place.tag in there or "" in there


class Passing:
    """Counts how often each head may still be passed; `free` and `asked` as in `where_it_takes`."""

    def __init__(
        self, heads: Collection[Waiting], passes: int, in_round: Collection[Waiting], free: Mapping[Place, int],
        asked: Asked,
    ) -> None:  # fmt: skip
        self._heads = sorted(heads, key=lambda head: head.order)
        self._left = {head.job_id: passes - head.passes for head in heads}
        self._free = dict(free)
        self._asked = asked
        for job in in_round:
            self._count(job)

    def admit(self, job: Waiting) -> Behind | None:
        """Return None if the job may reserve now, and count it as passing; else return the head it waits behind."""
        for head, place in self._passed_by(job):
            if self._left[head.job_id] <= 0:
                return Behind(job.job_id, head.job_id, place)
        self._count(job)
        self._take(job)
        return None

    def _count(self, job: Waiting) -> None:
        for head, _ in self._passed_by(job):
            self._left[head.job_id] -= 1

    def _take(self, job: Waiting) -> None:
        """Subtract what the job will reserve from the free cores that later jobs see."""
        if not self._heads:
            return
        for place, cores in self._asked(job.job_id).items():
            if place in self._free:
                self._free[place] -= cores

    def _passed_by(self, job: Waiting) -> list[tuple[Waiting, Place]]:
        earlier = [head for head in self._heads if head.order < job.order]
        found = ((head, where_it_takes(job, head, self._free, self._asked)) for head in earlier)
        return [(head, place) for head, place in found if place is not None]


def queue_key(enqueued: int, priority: int, ageing: int) -> int:
    """Return the queue key of a job.

    `enqueued`: steady time; `ageing`: the milliseconds of waiting that outweigh one level of priority."""
    return enqueued - priority * ageing


def takes_from(job: Claim, head: Claim, free: Claim) -> bool:
    """Return whether a party with the capacity `free`, after it served `job`, would have too little left for `head`."""
    return any(
        asked and left - asked < needed
        for asked, needed, left in (
            (job.cores, head.cores, free.cores), (job.memory, head.memory, free.memory),
            (job.gpus, head.gpus, free.gpus),
        )
    )  # fmt: skip


def fits(asked: Claim, capacity: Claim) -> bool:
    """Return whether the capacity suffices for what is asked."""
    return not takes_from(asked, Claim(), capacity)


def why_a_copy_waits(
    initiator: Party, party: Party, consent: Consent | None, trouble: PeerTrouble | None, steady: int,
    *, holds: bool = False,
) -> str:  # fmt: skip
    """Return text that says why a job waits, at a party that is not its initiator.

    `trouble`: with the connections to and from the initiator, at the time `steady`. `holds`: whether the job has a
    reservation at this party."""
    if consent is not None and consent.is_first:
        return f"only {consent.by} at {party} has approved it, and two people have to: flow job approve"
    if consent is not None and consent.approval is Approval.PENDING:
        return f"nobody at {party} has approved it yet: flow job approve, or flow job reject"
    if trouble is None or trouble.is_over:
        return f"waits for its initiator, {initiator}, which knows its place in the queue"
    ends = "its reservation here ends (limits.hold_seconds), and it" if holds else "it"
    return f"{trouble.explain(initiator, party, steady)}; {ends} waits here until that is over"


def pausing(wait_reason: str, milliseconds: int) -> str:
    """Return the reason with the remaining seconds of the pause, computed when the text is requested."""
    return f"{wait_reason} in {max(0, milliseconds) / 1000:.0f} s"


def why_it_waits(wait_reason: str, place: int, hold: Hold | None = None) -> str:
    """Return text with the reason to wait (the hold, if there is one) and the place in the queue (1 is the first)."""
    text = hold.text if hold is not None else wait_reason or "waits for its turn"
    return f"{text}; {ordinal(place)} in the queue"
