"""Parties that keep a record and cosign those of others: stores, keys and clocks, without servers or a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import (
    RECORD,
    WITNESS,
    KeyList,
    KeyState,
    ListedKey,
    PartyKeys,
    SignedKeyList,
    key_id_of,
)
from fate_flow.core.record.entry import OWN_LOG, log_with
from fate_flow.core.record.note import COSIGNATURE
from fate_flow.core.record.witness import witness_name
from fate_flow.services.context.ports import Context
from fate_flow.services.record.checkpoints import LogSigner, sign_heads
from fate_flow.services.record.verifying import Keys, LogReport, verify_log
from fate_flow.services.witnesses.cosigning import Cosigning, Offer
from fate_flow.services.witnesses.witnessing import Witness, Witnessing, WitnessReply
from tests.kit.core.signers import Signer, has_signed
from tests.kit.services.hand_server import HandServer
from tests.kit.services.records import add, an_entry, salts
from tests.kit.store.record_backup import RecordBackup


class RecordKeys:
    """The keys of a party for records, made of its id. `root`, `record`, `witness`: numbers of the keys, which count up
    when one takes the place of another."""

    def __init__(self, party_id: str, root: int = 1, record: int = 1, witness: int = 1) -> None:
        self.party_id, self.number = party_id, root * record * witness
        self.root_pem = Signer(f"root-{root}-of-{party_id}").pem
        self.root_id = key_id_of(self.root_pem)
        self.root = fingerprint_of(self.root_id)
        self.own = Signer(f"record-{record}-of-{party_id}")
        self.witness = Signer(witness_name(self.root), COSIGNATURE, sha256(f"{party_id} {witness}".encode()).digest())
        self.signer = LogSigner(self.root, self.own.key.key, self.own.sign)

    def listed(
        self, next_root: RecordKeys | None = None, until: int | None = None, state: KeyState = KeyState.JOINED
    ) -> PartyKeys:
        """Return what another party saves of them. `next_root`: has the root key that the list announces; `until`: the
        end of its keys."""
        keys = (ListedKey(RECORD, self.own.pem, 0, until), ListedKey(WITNESS, self.witness.pem, 0, until))
        announced = next_root.root_pem if next_root else None
        content = KeyList(self.party_id, self.number, 0, keys, announced).content()
        return PartyKeys(
            self.party_id, self.number, self.root_id, SignedKeyList(self.root_pem, content, "signature"), 0, state, "",
            0,
        )  # fmt: skip


class WitnessParty:
    """A party with a record. `restart` begins a new process on its store."""

    def __init__(self, party_id: str, *others: str) -> None:
        self.keys = RecordKeys(party_id)
        self.passed = 0.0            # seconds of its steady clock
        self.server = HandServer(party_id)
        for name, value in (("keeps_record", True), ("fresh_salt", salts)):
            object.__setattr__(self.context, name, value)
        with self.store.transaction() as tx:
            for other in others:
                tx.add_party_keys(RecordKeys(other).listed())
        self.restart()

    @property
    def party_id(self) -> str:
        return self.keys.party_id

    @property
    def context(self) -> Context:
        return self.server.context

    @property
    def store(self) -> Any:
        return self.server.store

    def restart(self) -> None:
        witness = Witness(self.keys.witness.key, self.keys.witness.sign)
        self.witnessing = Witnessing(self.context, lambda: witness, has_signed)
        self.cosigning = Cosigning(self.context, lambda: self.keys.signer, has_signed, lambda: self.passed)

    def save_keys(self, keys: PartyKeys, at: int = 0) -> None:
        """Save the next key list of another party, at this time."""
        with self.store.transaction() as tx:
            old = tx.party_keys(keys.party_id)
            assert tx.replace_party_keys(replace(keys, received_at=at), old)

    def backup(self) -> RecordBackup:
        return RecordBackup(self.store)

    def restore(self, backup: RecordBackup) -> None:
        """Begin a new process on a restored backup."""
        backup.restore(self.store)
        self.restart()

    def record(self, *what: str, log: str = OWN_LOG) -> None:
        add(self.store, [an_entry(one, log) for one in what])

    def record_with(self, other: str, *what: str) -> None:
        self.record(*what, log=log_with(other))

    def sign(self) -> None:
        with self.store.transaction() as tx:
            sign_heads(tx, self.keys.signer, self.server.now, salts, may_sign=self.cosigning.may_sign)
        self.cosigning.has_signed(is_urgent=True)

    def wait(self, seconds: float) -> None:
        self.passed += seconds
        self.server.now += int(seconds * 1000)

    def ask(self, other: WitnessParty | None, other_id: str) -> None:
        """Ask another party, as the thread does; None: it does not answer."""
        if other_id in self.cosigning.questions():
            if other is None:
                self.cosigning.does_not_answer(other_id)
            else:
                asked = self.cosigning.question(other_id)
                self.cosigning.holds(other_id, other.witnessing.held_of(self.party_id, asked), asked.question)

    def offer(
        self, other: WitnessParty, change: Callable[[Offer], str] = lambda offer: offer.text
    ) -> WitnessReply | None:
        """Offer what is due to another party, and take its answer."""
        for offer in self.cosigning.offers():
            if offer.party_id == other.party_id:
                reply = other.witnessing.add_checkpoint(self.party_id, change(offer), offer.question)
                self.cosigning.answered(offer, reply.status, reply.text)
                return reply
        return None

    def cosigned_by(self, other: WitnessParty) -> WitnessReply | None:
        """Ask, sign, and have it cosigned."""
        self.ask(other, other.party_id)
        self.sign()
        return self.offer(other)

    def verified(self, log: str, epoch: int = 0) -> LogReport:
        keys = Keys(self.keys.root, (self.keys.own.key.key,), (("10000", RecordKeys("10000").witness.key),), has_signed)
        with self.store.reading() as tx:
            head = tx.record_head(log)
            return verify_log(tx, head, epoch or head.epoch, keys)


def two_parties() -> tuple[WitnessParty, WitnessParty]:
    """Return parties 9999 and 10000, which know each other's keys."""
    return WitnessParty("9999", "10000"), WitnessParty("10000", "9999")
