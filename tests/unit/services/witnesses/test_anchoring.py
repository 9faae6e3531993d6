"""How far the own log is anchored: by the commitments to its head that other parties have cosigned."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.frozen import changed
from fate_flow.core.record.entry import OWN_LOG
from fate_flow.services.record.anchoring import verify_all
from fate_flow.services.record.verifying import Keys, LogReport, State
from tests.kit.core.signers import has_signed
from tests.kit.services.witness_parties import WitnessParty, two_parties


def own_log_of(party: WitnessParty, witness: WitnessParty) -> LogReport:
    keys = Keys(party.keys.root, (party.keys.own.key.key,), ((witness.party_id, witness.keys.witness.key),), has_signed)
    with party.store.reading() as tx:
        return next(one for one in verify_all(tx, keys) if one.log == OWN_LOG)


def a_cosigned_party() -> tuple[WitnessParty, WitnessParty]:
    guest, host = two_parties()
    guest.record("a", "b", "c")
    guest.record_with("10000", "d")
    guest.cosigned_by(host)
    return guest, host


def test_the_own_log_is_anchored_by_who_has_cosigned_a_commitment_to_it() -> None:
    guest, host = a_cosigned_party()
    guest.record("e")
    guest.wait(60)
    guest.sign()                         # a commitment that nobody has cosigned yet
    report = own_log_of(guest, host)
    assert (report.state, report.size, report.signed_to, report.anchored_to) == (State.ANCHORED, 4, 4, 3)
    assert (report.anchored_by, report.anchored_at) == ("10000", host.server.now // 1000)
    guest.offer(host)
    assert own_log_of(guest, host).anchored_to == 4


def test_without_a_cosignature_the_own_log_is_only_consistent() -> None:
    guest, host = two_parties()
    guest.record("a")
    guest.record_with("10000", "b")
    guest.ask(host, "10000")
    guest.sign()
    assert own_log_of(guest, host).state is State.CONSISTENT


def test_an_erased_commitment_anchors_nothing() -> None:
    guest, host = a_cosigned_party()
    with guest.store.transaction():
        for key, row in dict(guest.store._rows.record.rows).items():
            guest.store._rows.record.put(key, changed(row, salt="", text=""))
    assert own_log_of(guest, host).state is State.CONSISTENT


def test_an_own_log_that_was_made_anew_contradicts_what_others_hold() -> None:
    guest, host = a_cosigned_party()
    other = WitnessParty("9999", "10000")
    other.record("x", "y", "z")
    other.record_with("10000", "d")
    other.ask(host, "10001")
    report = own_log_of(guest, host)
    with guest.store.transaction():      # somebody replaces the own log, and signs it with the key of the party
        own, rows = other.store._rows, guest.store._rows
        for key, row in list(rows.record.rows.items()):
            if row.log == OWN_LOG:
                rows.record.put(key, changed(row, content=next(
                    one.content for one in own.record.rows.values() if (one.log, one.index) == (OWN_LOG, row.index)
                )))  # fmt: skip
        (batch,) = [one for one in own.record_batches.rows.values() if one.log == OWN_LOG]
        ids = next(one.ids for one in rows.record_batches.rows.values() if one.log == OWN_LOG)
        rows.record_batches.put((OWN_LOG, 1, 0), replace(batch, ids=ids))
        rows.record_heads.put(OWN_LOG, own.record_heads.rows[OWN_LOG])
        rows.checkpoints.drop((OWN_LOG, 1, 3))
    assert report.state is State.ANCHORED
    found = own_log_of(guest, host)
    assert (found.state, found.broken_at) == (State.BROKEN, 0)
    assert found.why == "party 10000 holds a head of 3 entries with another root"
