"""Which job may reserve: an order that never changes by itself, and a bound on how often the head is passed.

A job stands where its `queue_key` puts it: the steady time at which it was created, less one span (`queue_ageing`) for
each level of its priority. So a higher priority goes first, jobs of one priority go first in first out, and a job that
has waited for a span longer stands before one that is a level higher. The key is fixed when the job comes, so nothing
has to be recomputed and an index keeps the order. Nothing starves: whoever comes `(highest - own) * queue_ageing` after
a job stands behind it, whatever its priority, so only so many can ever come to stand before it.

A job that was refused is blocked on the party that refused it. The first of those is that party's *head*. Jobs that
do not need that party pass it freely. A job that does need it may take what the head lacks, but each time counts; when
the head has been passed as often as the configuration allows, later jobs that need the party wait behind it until it
has started. A job that is in its reservation round may pass any moment, so it counts as if it had.

A head may lack capacity at several parties and know of one at a time. So a job also counts, and waits behind the head,
where it would take so much that what is known to be free at a party that both need is less than the head asks there.

A job that asks a party for more than it has in all is no head: nobody waits behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.job import Blocker, Claim, Hold
from fate_flow.core.text.phrases import ordinal


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
    blocked_by: Blocker | None = None
    queue_key: int = 0

    @property
    def order(self) -> tuple[int, int, str]:
        """As `Job.order`."""
        return (self.queue_key, self.create_time, self.job_id)


@dataclass(frozen=True)
class Behind:
    """This job may not reserve now: an earlier one that needs the same party has been passed often enough."""

    job_id: str
    head: str
    party_id: str

    @property
    def text(self) -> str:
        return f"waits behind job {self.head}, which party {self.party_id} has had no capacity for"


Asked = Callable[[str], Mapping[str, int]]
"""The cores that a job asks for, by party."""


def where_it_takes(job: Waiting, head: Waiting, free: Mapping[str, int], asked: Asked) -> str:
    """The party at which a later job takes what the head lacks; empty: nowhere.

    `free`: the cores that each party has, as far as it is known."""
    if head.blocked_on in job.parties:
        return head.blocked_on
    if head.blocked_by is not Blocker.CAPACITY:
        return ""
    for party_id in dict.fromkeys(job.parties):
        if party_id in head.parties and party_id in free:
            wanted = asked(job.job_id).get(party_id, 0)
            if wanted and free[party_id] - wanted < asked(head.job_id).get(party_id, 0):
                return party_id
    return ""


class Passing:
    """How often the heads may still be passed; `free` and `asked` as in `where_it_takes`."""

    def __init__(
        self, heads: Collection[Waiting], passes: int, in_round: Collection[Waiting], free: Mapping[str, int],
        asked: Asked,
    ) -> None:  # fmt: skip
        self._heads = sorted(heads, key=lambda head: head.order)
        self._left = {head.job_id: passes - head.passes for head in heads}
        self._free = dict(free)
        self._asked = asked
        for job in in_round:
            self._count(job)

    def admit(self, job: Waiting) -> Behind | None:
        """None when the job may ask for resources now; then it counts as one that passes."""
        for head, party_id in self._passed_by(job):
            if self._left[head.job_id] <= 0:
                return Behind(job.job_id, head.job_id, party_id)
        self._count(job)
        self._take(job)
        return None

    def _count(self, job: Waiting) -> None:
        for head, _ in self._passed_by(job):
            self._left[head.job_id] -= 1

    def _take(self, job: Waiting) -> None:
        """What it will have reserved is not there for those behind it."""
        if not self._heads:
            return
        for party_id, cores in self._asked(job.job_id).items():
            if party_id in self._free:
                self._free[party_id] -= cores

    def _passed_by(self, job: Waiting) -> list[tuple[Waiting, str]]:
        earlier = [head for head in self._heads if head.order < job.order]
        found = ((head, where_it_takes(job, head, self._free, self._asked)) for head in earlier)
        return [(head, party_id) for head, party_id in found if party_id]


def queue_key(enqueued: int, priority: int, ageing: int) -> int:
    """Where a job stands. `enqueued`: steady time; `ageing`: the milliseconds of waiting that outweigh a level."""
    return enqueued - priority * ageing


def takes_from(job: Claim, head: Claim, free: Claim) -> bool:
    """Whether a party that gives a job what it asks for has less left than another one needs of it."""
    return any(
        asked and left - asked < needed
        for asked, needed, left in ((job.cores, head.cores, free.cores), (job.memory, head.memory, free.memory))
    )


def fits(asked: Claim, capacity: Claim) -> bool:
    """Whether there is as much as is asked for."""
    return not takes_from(asked, Claim(), capacity)


def why_a_copy_waits(initiator: str, party: str, consent: Consent | None) -> str:
    """As text: why a job waits at a party that does not decide for it."""
    if consent is not None and consent.approval is Approval.PENDING:
        return f"nobody at {party} has approved it yet: flow job approve, or flow job reject"
    return f"waits for its initiator, {initiator}, which knows its place in the queue"


def pausing(wait_reason: str, milliseconds: int) -> str:
    """As text: so long it pauses still. They are counted when somebody asks, so that they are true then."""
    return f"{wait_reason} in {max(0, milliseconds) / 1000:.0f} s"


def why_it_waits(wait_reason: str, place: int, hold: Hold | None = None) -> str:
    """As text: who holds it, or what is lacking where, and the place in the queue (1 is the first)."""
    text = hold.text if hold is not None else wait_reason or "waits for its turn"
    return f"{text}; {ordinal(place)} in the queue"
