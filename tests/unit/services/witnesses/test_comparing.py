"""Two logs are compared before anything is written; only the heads of the other one are kept in a transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from fate_flow.core.model.errors import NotFound, OperationFailed
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.record.checkpoint import Checkpoint, read_checkpoint
from fate_flow.core.record.comparison import About, Finding, Outcome
from fate_flow.core.record.entry import log_with
from fate_flow.core.record.log import StoredCheckpoint
from fate_flow.core.record.note import read_note, sign_note
from fate_flow.core.record.offline.bundle import BadBundle, document_in
from fate_flow.core.record.offline.evidence import evidence_in, evidence_text
from fate_flow.core.record.offline.policy import Policy
from fate_flow.core.wire.v1.witnessing import asked_part
from fate_flow.peers.site_key import raw_of_pem
from fate_flow.services.record.checkpoints import origin_of
from fate_flow.services.record.proving import file_of_party
from fate_flow.services.witnesses import comparing
from fate_flow.services.witnesses.asking_logs import LogQuestions
from fate_flow.services.witnesses.comparing import Comparing
from fate_flow.services.witnesses.handed_out import part_of_log
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.memory.store import MemoryTransaction
from tests.kit.core.signers import has_signed
from tests.kit.services.witness_parties import WitnessParty, two_parties


@dataclass
class WatchedStore:
    """The store of a party, which knows whether a transaction is open, for which all writers wait."""

    store: Any
    is_writing: bool = False

    def reading(self) -> AbstractContextManager[Transaction]:
        return self.store.reading()

    snapshot = reading

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self.store.transaction() as tx:
            self.is_writing = True
            try:
                yield tx
            finally:
                self.is_writing = False


class Comparison:
    """A party that has the file of another one."""

    def __init__(self) -> None:
        self.guest, self.host = two_parties()
        self.host.record_with("9999", *"abcdef")
        self.host.ask(self.guest, "9999")
        self.host.sign()
        self.watched = WatchedStore(self.guest.store)
        object.__setattr__(self.guest.context, "store", self.watched)
        self.checks = 0

    def file(self) -> str:
        with self.host.store.reading() as tx:
            return file_of_party(tx, "9999").text

    def reconcile(self) -> tuple[Finding, ...]:
        return Comparing(self.guest.context, self.check, raw_of_pem).with_file("10000", self.file())

    def reconcile_by_asking(self) -> tuple[Finding, ...]:
        def ask(to: Party, endpoint: str, body: Mapping[str, Any]) -> Answer:
            with self.host.store.reading() as tx:
                return Answer(0, data=part_of_log(tx, "9999", asked_part(body)).as_data())

        comparing = Comparing(self.guest.context, self.check, raw_of_pem)
        return comparing.by_asking("10000", ask, lambda: 0.0)

    def check(self, key: bytes, content: bytes, signature: bytes) -> bool:
        assert not self.watched.is_writing
        self.checks += 1
        return has_signed(key, content, signature)


@pytest.fixture
def comparison() -> Comparison:
    return Comparison()


def test_nothing_is_read_or_checked_while_writers_wait(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    read = MemoryTransaction.sealed_entries

    def sealed_entries(tx: MemoryTransaction, *place: Any) -> Any:
        assert not comparison.watched.is_writing
        return read(tx, *place)

    monkeypatch.setattr(MemoryTransaction, "sealed_entries", sealed_entries)
    assert not any(one.accused for one in comparison.reconcile())
    assert comparison.checks == 1, "one signature is on all entries"
    with comparison.guest.store.reading() as tx:
        kept = tx.witnessed(origin_of(comparison.host.keys.root, log_with("9999"), 1))
    assert kept.size == 6


def test_a_head_that_was_kept_meanwhile_counts(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    compare = comparing.messages_in_both

    def then_another_head_comes(tx: Transaction, own: str, theirs: Any, about: About) -> Any:
        head, signer = theirs.epochs[0].head, comparison.host.keys.signer
        text = Checkpoint(head.origin, head.size, b"\1" * 32).text()
        note = sign_note(text, signer.key_of(head.origin), signer.sign)
        with comparison.guest.store.transaction() as other:
            other.put_witnessed(head.origin, 0, StoredCheckpoint(0, head.size, str(note), 1))
        return compare(tx, own, theirs, about)

    monkeypatch.setattr(comparing, "messages_in_both", then_another_head_comes)
    assert [(one.outcome, one.accused) for one in comparison.reconcile()] == [(Outcome.EQUIVOCATION, ("10000",))]
    assert kept_evidence(comparison) == [(True, 6, 6)]
    comparison.reconcile()
    assert kept_evidence(comparison) == [(True, 6, 6)], "once"


def kept_evidence(comparison: Comparison) -> list[tuple[bool, int, int]]:
    """Whether two roots of one size prove it, and both sizes."""
    with comparison.guest.store.reading() as tx:
        found = tx.evidence()
    assert {one.party_id for one in found} <= {"10000"}
    heads = [[read_checkpoint(read_note(note).text) for note in (one.first, one.second)] for one in found]
    return [(one.is_proof, first.size, second.size) for one, (first, second) in zip(found, heads, strict=True)]


def test_a_smaller_kept_head_of_another_past_is_proof_with_the_root_that_the_log_had_then(
    comparison: Comparison,
) -> None:
    signer, origin = comparison.host.keys.signer, origin_of(comparison.host.keys.root, log_with("9999"), 1)
    note = str(sign_note(Checkpoint(origin, 2, b"\1" * 32).text(), signer.key_of(origin), signer.sign))
    with comparison.guest.store.transaction() as tx:
        tx.put_witnessed(origin, 0, StoredCheckpoint(0, 2, note, 1))
    assert {one.outcome for one in comparison.reconcile() if one.accused} == {Outcome.EQUIVOCATION}
    assert kept_evidence(comparison) == [(True, 2, 6)]
    with comparison.guest.store.reading() as tx:
        (found,) = tx.evidence()
    (shown,) = evidence_in(document_in(evidence_text([found])))
    first, second = shown.heads(Policy({origin: (signer.key_of(origin),)}), has_signed)
    assert (first.size, first.root, second.size) == (2, b"\1" * 32, 6)


def test_a_file_of_a_party_without_keys_here_is_refused(comparison: Comparison) -> None:
    comparison.guest = WitnessParty("9999")
    with pytest.raises(NotFound, match="no key list of party 10000"):
        comparison.reconcile()


def test_a_signature_that_does_not_hold_is_refused(comparison: Comparison) -> None:
    with pytest.raises(BadBundle, match=r"log .*/with/9999/1: "):
        Comparing(comparison.guest.context, lambda *_: False, raw_of_pem).with_file("10000", comparison.file())


def test_no_head_is_kept_of_a_party_that_was_started_while_its_log_was_read(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restored from a backup, it may have lost what it had handed out."""
    log = LogQuestions.log

    def then_it_is_started(questions: LogQuestions) -> Any:
        found = log(questions)
        with comparison.guest.store.transaction() as tx:
            known = tx.questions("10000")
            assert tx.put_questions("10000", known, ("1" * 32, *known))
        return found

    monkeypatch.setattr(LogQuestions, "log", then_it_is_started)
    with pytest.raises(OperationFailed, match="party 10000 was started while its log was read; compare again"):
        comparison.reconcile_by_asking()
    with comparison.guest.store.reading() as tx:
        assert tx.witnessed(origin_of(comparison.host.keys.root, log_with("9999"), 1)) is None
