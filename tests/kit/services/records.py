"""Logs with entries in a store, sealed in several batches and signed in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from fate_flow.core.record.checkpoint import cosign
from fate_flow.core.record.commitment import commitment
from fate_flow.core.record.entry import OWN_LOG, Kind, NewEntry, new_entry
from fate_flow.core.record.log import StoredCheckpoint
from fate_flow.core.record.note import COSIGNATURE, read_note
from fate_flow.services.context.ports import Context
from fate_flow.services.record.checkpoints import LogSigner, sign_heads
from fate_flow.services.record.sealing import seal_new
from fate_flow.services.record.verifying import Keys, LogReport, verify_log
from fate_flow.services.witnesses.cosigning import Cosigning
from fate_flow.store.contract.transaction import Store
from tests.kit.core.signers import Signer, has_signed

ROOT = "AAAAAAA-BBBBBBB"
OWN, PEER = Signer("own"), Signer("peer", COSIGNATURE)
SIGNER = LogSigner(ROOT, OWN.key.key, OWN.sign)
KEYS = Keys(ROOT, (OWN.key.key,), (("10000", PEER.key),), has_signed)
SEEN_AT = 1_700_000_100


def an_entry(what: str, log: str = OWN_LOG, text: str = "") -> NewEntry:
    salt = "7e" * 32 if text else ""
    digest = {"message": commitment("message", bytes.fromhex(salt), text.encode())} if text else {}
    return new_entry(log, Kind.ACT, 7, {"what": what, **digest}, job_id="j1", salt=salt, text=text)


def salts() -> str:
    return f"{next(_NUMBERS):064x}"


_NUMBERS = count(1)


def add(store: Store, entries: Sequence[NewEntry]) -> None:
    """Add entries, and seal them in one batch for each log."""
    with store.transaction() as tx:
        tx.add_to_record(entries)
        seal_new(tx, 1)


def sign(store: Store, at: int = 1_000) -> tuple[StoredCheckpoint, ...]:
    with store.transaction() as tx:
        return sign_heads(tx, SIGNER, at, salts)


def cosign_newest(store: Store, log: str = OWN_LOG) -> None:
    """The peer sees the newest checkpoint, and its cosignature is kept."""
    with store.transaction() as tx:
        newest = tx.newest_checkpoint(log, 1)
        assert newest is not None
        note = read_note(newest.note)
        signed = note.with_signatures([cosign(note, PEER.key, SEEN_AT, PEER.sign)])
        tx.put_checkpoint(log, StoredCheckpoint(1, newest.size, str(signed), newest.at))


def without_peers(context: Context, signer: Callable[[], LogSigner | None] = lambda: SIGNER) -> Cosigning:
    """Return where a party stands that knows no other one."""
    found = Cosigning(context, signer, has_signed, lambda: 0.0)
    assert found.questions() == ()
    return found


def verified(store: Store, log: str = OWN_LOG, keys: Keys | None = KEYS) -> LogReport:
    with store.reading() as tx:
        return verify_log(tx, tx.record_head(log), 1, keys)
