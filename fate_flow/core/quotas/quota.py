"""The quotas of other parties, and what a party reads that has used up one of them.

A quota holds for every party that the configuration does not name. This party's own jobs and requests have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from fate_flow.core.model.errors import NoSpace, TooLarge, TooMany
from fate_flow.core.quotas.holding import Held
from fate_flow.core.text.phrases import counted


@dataclass(frozen=True)
class PartyQuota:
    """The most that one other party may take at once. Sizes are in bytes."""

    # A coordinator with 1,000 waiting jobs is an ordinary one (docs/explanation/performance.md). With documents of a
    # few kilobytes, twice as many are some ten megabytes of rows and 80,000 small files.
    unfinished_jobs: int = 2_000
    # The largest document that is read has 4,000,000 characters, and a job file is sent together with its form in
    # FATE's documents. Real ones have kilobytes. In memory JSON may take twenty times its text.
    document_bytes: int = 16 << 20
    # A request takes about 4 ms of a processor, in the gateway and behind it, so this is one processor. Up to 64
    # commands travel in one request, and chunks of messages have up to 4 MiB.
    requests_per_second: int = 250
    requests_at_once: int = 5_000
    # A burst of hundreds of jobs keeps all its lines. At 150 bytes a line, a flood adds a megabyte a minute.
    log_lines_per_minute: int = 6_000
    # Of limits.spool_max_bytes: so one party alone never takes the space of all others.
    spool_share: float = 0.5
    # Of the disk with the home: the rest is for this party's own jobs and for all others.
    disk_share: float = 0.8
    # Of the cores of the engine: the rest is for this party's own jobs and for all others. What is kept back lies idle
    # while nobody else needs it, so it is little.
    cores_share: float = 0.9
    gpus_share: float = 0.9
    # A framework has a few connections between two parties, and a mesh of many workers some dozens. Each takes two
    # descriptors and, if a worker reads nothing, 2.5 MiB of memory in the gateway.
    streams: int = 128


@dataclass(frozen=True)
class Quotas:
    """The quotas at the party `own`; `parties` has those that the configuration names."""

    own: str = ""
    default: PartyQuota = PartyQuota()
    parties: Mapping[str, PartyQuota] = field(default_factory=dict)

    def of(self, party_id: str) -> PartyQuota:
        return self.parties.get(party_id, self.default)

    @property
    def least_document_bytes(self) -> int:
        """Return what every party may send: no command in a smaller request has to be measured."""
        return min(one.document_bytes for one in (self.default, *self.parties.values()))

    def check_unfinished_jobs(self, party_id: str, count: int) -> None:
        """Raise TooMany if a party with so many unfinished jobs here may not have one more."""
        if count >= self.of(party_id).unfinished_jobs:
            raise TooMany(
                f"party {party_id} has {counted(count, 'unfinished job')} at party {self.own}, and may have "
                f"{self._limit(party_id, 'unfinished_jobs')}: submit again when some of them have ended"
            )

    def check_document(self, party_id: str, size: int) -> None:
        """Raise TooLarge if a party may not send a command with so many bytes, most of which are a document."""
        if size > self.of(party_id).document_bytes:
            raise TooLarge(
                f"the document has {size} bytes with the rest of its command, and party {party_id} may send "
                f"{self._limit(party_id, 'document_bytes')}"
            )

    def most_of(self, party_id: str, what: Held, total: int) -> int | None:
        """Return how many of `total` cores or GPUs all jobs of a party may hold at once; None: as many as there are.

        Rounded up: a job for all cores of a small engine is an ordinary one, and one core can always be had."""
        quota = self.of(party_id)
        share = quota.cores_share if what is Held.CORES else quota.gpus_share
        # rounded before ceil, because 0.55 of 100 cores is 55.00000000000001 as a float
        return None if share >= 1 else ceil(round(total * share, 6))

    def check_held(self, party_id: str, what: Held, asked: int, total: int) -> None:
        """Raise TooMany if a job asks for more cores or GPUs than all jobs of its party may hold at once."""
        most = self.most_of(party_id, what, total)
        if most is not None and asked > most:
            raise TooMany(
                f"the job asks for {counted(asked, what.noun)} of party {self.own}, and all jobs of party {party_id} "
                f"together may hold a share of {self._limit(party_id, what.share)}"
            )

    def too_few_left(self, party_id: str, what: Held, left: int, asked: int) -> str:
        """Return why a job waits whose party has only `left` of its share; it follows the name of a seat."""
        return (
            f"has {counted(left, what.noun)} left for party {party_id}, {asked} asked: its jobs may hold a share of "
            f"{self._limit(party_id, what.share)}"
        )

    def too_many_requests(self, party_id: str) -> str:
        """Return what a party reads that sends requests faster than it may."""
        return (
            f"party {party_id} sends more requests to party {self.own} than it may, "
            f"{self._limit(party_id, 'requests_per_second')}: try again later"
        )

    def too_many_streams(self, party_id: str) -> str:
        """Return what a party reads whose workers have as many streams to workers here as they may."""
        return (
            f"party {party_id} has as many streams to party {self.own} as it may, {self._limit(party_id, 'streams')}: "
            "try again when one has ended"
        )

    def spool_is_full(self, party_id: str, whole: int) -> str:
        """Return what a party reads whose unread messages take as much of the spool as they may; `whole`: its size."""
        return (
            f"the messages of party {party_id} that wait at party {self.own} take as much of the {whole} bytes of the "
            f"spool as they may, {self._limit(party_id, 'spool_share')}: more is stored once some are read"
        )

    def lines_left_out(self, party_id: str, count: int) -> str:
        """Return what stands in the log for lines about requests of a party, or an address, that were not written."""
        limit = self._limit(party_id, "log_lines_per_minute")
        return f"{counted(count, 'line')} about requests of {party_id} within a minute left out, {limit}"

    def check_disk(self, party_id: str, used: int, total: int) -> None:
        """Raise NoSpace if the jobs of a party take so many bytes of a disk with `total` that it may have no more."""
        if used > self.of(party_id).disk_share * total > 0:
            raise NoSpace(
                f"the jobs of party {party_id} take as much of the disk of party {self.own} as they may, "
                f"{self._limit(party_id, 'disk_share')}: submit again when results of some of them were removed there"
            )

    def _limit(self, party_id: str, key: str) -> str:
        """Return a quota with its key, and who can change it."""
        place = f"parties.{party_id}" if party_id in self.parties else "default"
        most = getattr(self.of(party_id), key)
        return f"at most {most} (quotas.{place}.{key}, which only an operator of party {self.own} can change)"
