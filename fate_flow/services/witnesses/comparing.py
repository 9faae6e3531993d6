"""Comparing the log with another party for people: whoever wants to know of contradictions is notified of them.

Both logs may be long. They are read, checked and compared before the transaction that keeps the heads of the other one,
for which all writers wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from fate_flow.core.model.errors import FlowError, NotFound, OperationFailed
from fate_flow.core.record.both_sides import with_other_side
from fate_flow.core.record.comparison import ALL, About, Finding
from fate_flow.core.record.entry import other_party
from fate_flow.core.record.note import Check
from fate_flow.core.record.offline.bundle import BadBundle, read_bundle
from fate_flow.core.record.shown import ShownEntry
from fate_flow.services.context.notifying import notify_of_findings
from fate_flow.services.context.ports import Context
from fate_flow.services.record.asking import Ask
from fate_flow.services.record.reconciling import (
    LogReader,
    WholeEpoch,
    contradictions,
    epochs_in,
    keep_heads,
    messages_in_both,
)
from fate_flow.services.witnesses.asking_logs import LogQuestions
from fate_flow.store.contract.transaction import Transaction


@dataclass(frozen=True)
class Compared:
    """What comparing logs has found. `unheard`: why the log of a party could not be compared, by party id."""

    findings: tuple[Finding, ...]
    unheard: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Shown:
    """The entries about a job, with the other sides. `unheard`: why a party was left out, by party id."""

    entries: tuple[ShownEntry, ...]
    unheard: Mapping[str, str] = field(default_factory=dict)


class Comparing:
    """Compares this party's logs with those of other parties. `raw_of` returns the bytes of a public key in PEM."""

    def __init__(self, context: Context, check: Check, raw_of: Callable[[str], bytes]) -> None:
        self._context, self._check, self._raw_of = context, check, raw_of

    def with_file(self, party_id: str, text: str, about: About = ALL) -> tuple[Finding, ...]:
        """Compare with what `audit prove -p` has written at a party. Raises NotFound without a key list of the party;
        BadBundle if the file does not have its whole log, signed; StorageFailed."""
        return self._compare(self._reader(party_id), epochs_in(read_bundle(text).entries), about)

    def by_asking(
        self, party_id: str, ask: Ask, monotonic: Callable[[], float], about: About = ALL
    ) -> tuple[Finding, ...]:  # fmt: skip
        """Compare with what a party hands out now. Raises what `with_file` and `LogQuestions.log` raise."""
        reader, since = self._reader(party_id), self._context.read(lambda tx: tx.questions(party_id))
        return self._compare(reader, LogQuestions(ask, party_id, monotonic).log(), about, since)

    def of_job(self, about: About, ask: Ask, monotonic: Callable[[], float]) -> Compared:
        """Ask each party with which there are entries about a job, and compare those. Raises NotFound if nothing is
        recorded about the job; StorageFailed."""
        found = list[Finding]()

        def compare(party_id: str) -> None:
            found.extend(self.by_asking(party_id, ask, monotonic, about))

        unheard = _of_each(self._context.read(lambda tx: _parties_of(tx, about.job_id)), compare)
        return Compared(tuple(found), unheard)

    def shown(
        self, entries: tuple[ShownEntry, ...], job_id: str, ask: Ask, monotonic: Callable[[], float]
    ) -> Shown:  # fmt: skip
        """Return the entries about a job, beside what its parties hand out about it. Raises StorageFailed."""
        own = self._context.party_id

        def put_beside(party_id: str) -> None:
            nonlocal entries
            theirs = self._reader(party_id).read(LogQuestions(ask, party_id, monotonic).log())
            entries = with_other_side(entries, own, party_id, theirs.entries, job_id)

        unheard = _of_each(_others(one.log for one in entries), put_beside)
        return Shown(entries, unheard)

    def _reader(self, party_id: str) -> LogReader:
        return self._context.read(
            lambda tx: LogReader.of(tx, self._context.party_id, party_id, self._check, self._raw_of)
        )

    def _compare(
        self, reader: LogReader, epochs: Iterable[WholeEpoch], about: About, since: tuple[str, ...] | None = None
    ) -> tuple[Finding, ...]:
        """`since`: the questions of the party that were known before it was asked."""
        theirs, own = reader.read(epochs), self._context.party_id
        self._context.read(lambda tx: contradictions(tx, theirs))       # it computes roots, which are then known
        messages = self._context.read(lambda tx: messages_in_both(tx, own, theirs, about), of_one_moment=True)

        def act(tx: Transaction) -> tuple[Finding, ...]:
            if since is not None and tx.questions(theirs.party_id) != since:
                # It may have been restored from a backup meanwhile: what it has handed out may be lost there.
                raise OperationFailed(f"party {theirs.party_id} was started while its log was read; compare again")
            found = (*keep_heads(tx, theirs, self._context.clock()), *messages)
            notify_of_findings(self._context, tx, theirs.party_id, found)
            return found

        return self._context.write(act)


def _parties_of(tx: Transaction, job_id: str) -> tuple[str, ...]:
    entries = tx.record_of_job(job_id)
    if not entries:
        raise NotFound(f"nothing is recorded about job {job_id} (record.switch)")
    return _others(one.log for one in entries)


def _others(logs: Iterable[str]) -> tuple[str, ...]:
    """Return the parties with which these logs are kept."""
    return tuple(sorted({other_party(one) for one in logs} - {""}))


def _of_each(parties: Iterable[str], act: Callable[[str], None]) -> Mapping[str, str]:
    """Do this for each party; return why it could not be done, by party id."""
    failed = {}
    for party_id in parties:
        try:
            act(party_id)
        except BadBundle as error:
            failed[party_id] = str(error)
        except FlowError as error:
            failed[party_id] = error.message
    return failed
