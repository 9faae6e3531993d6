"""A party whose root key is replaced: its logs go on under another name, keep their past, and hide no second one."""

from __future__ import annotations

import pytest

from fate_flow.core.access.key_list import ed25519_in
from fate_flow.core.record.checkpoint import Checkpoint, read_checkpoint
from fate_flow.core.record.comparison import Finding
from fate_flow.core.record.entry import OWN_LOG, Kind, log_with, read_entry
from fate_flow.core.record.note import COSIGNATURE, read_note, sign_note
from fate_flow.core.record.offline.bundle import BadBundle
from fate_flow.core.record.sentences import sentence_of
from fate_flow.core.record.shown import ShownEntry
from fate_flow.core.record.tree import EMPTY_ROOT
from fate_flow.core.record.witness import witness_name
from fate_flow.core.wire.v1.witnessing import Held
from fate_flow.services.record.anchoring import verify_all
from fate_flow.services.record.asking import HeldNow
from fate_flow.services.record.checkpoints import origin_of
from fate_flow.services.record.proving import prove
from fate_flow.services.record.reconciling import LogReader, WholeEpoch, keep_heads, messages_in_both
from fate_flow.services.record.verifying import Keys, LogReport, State
from fate_flow.services.witnesses.cosignatures import witness_keys
from tests.kit.core.signers import has_signed
from tests.kit.services.witness_parties import RecordKeys, WitnessParty, two_parties

WITH = log_with("10000")
DAY = 24 * 3600 * 1000
FIRST, SECOND = RecordKeys("9999"), RecordKeys("9999", root=2)


@pytest.fixture
def parties() -> tuple[WitnessParty, WitnessParty]:
    """The first one has the second root key since its last signature, and entries that were sealed before."""
    guest, host = two_parties()
    guest.record("a")
    guest.record_with("10000", "b")
    guest.cosigned_by(host)
    guest.record("c")
    guest.record_with("10000", "d")
    guest.keys = SECOND
    return guest, host


def reports(guest: WitnessParty, held: Held | None = None) -> dict[tuple[str, int], LogReport]:
    with guest.store.reading() as tx:
        witnesses = [(party_id, key) for party_id, listed in witness_keys(tx).items() for key in listed]
        keys = Keys(guest.keys.root, (guest.keys.own.key.key,), witnesses, has_signed)
        found = verify_all(tx, keys, HeldNow(7, {"10000": held}) if held else None)
    return {(one.log, one.epoch): one for one in found}


def test_logs_begin_anew_under_the_name_of_the_new_root_key_and_keep_their_signed_past(
    parties: tuple[WitnessParty, WitnessParty]
) -> None:
    guest, host = parties
    host.save_keys(FIRST.listed(SECOND))
    guest.wait(60)
    guest.sign()
    epoch = guest.server.now // 1000
    reply = guest.offer(host)
    assert reply is not None
    assert reply.status == 200
    found = reports(guest)
    assert set(found) == {(log, one) for log in (OWN_LOG, WITH) for one in (1, epoch)}
    assert State.BROKEN not in {one.state for one in found.values()}
    assert all(one.signed_to == one.size for one in found.values())
    assert found[WITH, 1].anchored_by == found[WITH, epoch].anchored_by == found[OWN_LOG, epoch].anchored_by == "10000"
    with guest.store.reading() as tx:
        (first,) = tx.sealed_entries(WITH, epoch, 0, 1)
        origins = [tx.newest_checkpoint(WITH, one).note.partition("\n")[0] for one in (1, epoch)]
        proved = list(prove(tx, tx.sealed_entries(WITH, 1, 0, 9)))
    said = read_entry(first.content)
    assert (said["kind"], said["ended"]["size"]) == (Kind.EPOCH, found[WITH, 1].size)
    assert origins == [origin_of(FIRST.root, WITH, 1), origin_of(SECOND.root, WITH, epoch)]
    assert len(proved) == found[WITH, 1].size
    assert sentence_of(ShownEntry(WITH, epoch, 0, "", said)) == (
        "the log with party 10000, of which epoch 1 has 3 entries, begins anew: the root key of this party was replaced"
    )


def test_nothing_begins_anew_before_others_have_said_what_they_hold_nor_twice(
    parties: tuple[WitnessParty, WitnessParty]
) -> None:
    guest, host = parties
    host.save_keys(FIRST.listed(SECOND))
    guest.restart()
    guest.wait(60)
    guest.sign()
    assert set(reports(guest)) == {(OWN_LOG, 1), (WITH, 1)}
    for what in "ef":
        guest.record_with("10000", what)
        guest.cosigned_by(host)
        assert len(reports(guest)) == 4
        guest.wait(60)
        guest.restart()
    assert State.BROKEN not in {one.state for one in reports(guest, host.witnessing.held_of("9999")).values()}


def test_a_witness_holds_what_was_signed_under_the_root_key_before(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    backup = guest.backup()
    host.save_keys(FIRST.listed(SECOND))
    host.save_keys(SECOND.listed())
    guest.wait(60)
    guest.sign()
    guest.offer(host)
    held = host.witnessing.held_of("9999")
    roots = [read_checkpoint(read_note(note).text).origin.split("/")[0] for note in held.notes]
    assert roots == [SECOND.root, FIRST.root]
    guest.restore(backup)                # of the database, and of the keys
    guest.keys = FIRST
    assert reports(guest, held)[WITH, guest.server.now // 1000].state is State.BROKEN
    guest.wait(60)
    guest.ask(host, "10000")
    assert len(reports(guest)) == 4, "another party holds an epoch that is not here"


def a_liar_and_its_host() -> tuple[WitnessParty, WitnessParty]:
    """Party 9999 with another past under its new root key, and party 10000, which holds a head under the old one."""
    guest, host = two_parties()
    guest.record_with("10000", "a")
    guest.cosigned_by(host)
    host.save_keys(FIRST.listed(SECOND))
    host.save_keys(SECOND.listed())
    liar = WitnessParty("9999", "10000")
    liar.keys = SECOND
    liar.record_with("10000", "another past")
    liar.cosigning.look()
    return liar, host


def test_another_root_key_lets_nobody_show_a_second_past_of_what_is_held() -> None:
    liar, host = a_liar_and_its_host()
    liar.cosigning.holds("10000", Held(()), "")
    liar.sign()
    reply = liar.offer(host)
    assert reply is not None
    assert (reply.status, reply.text) == (
        403, "epoch 1 of this log is held here under another root key of party 9999\n"
    )  # fmt: skip


def test_a_root_key_that_an_operator_has_accepted_is_of_somebody_else() -> None:
    """Nothing announces it: the party has lost its home, and its logs begin at their beginning."""
    guest, host = two_parties()
    guest.record_with("10000", "a")
    guest.cosigned_by(host)
    host.save_keys(SECOND.listed())
    anew = WitnessParty("9999", "10000")
    anew.keys = SECOND
    anew.record_with("10000", "b")
    reply = anew.cosigned_by(host)
    assert reply is not None
    assert reply.status == 200


def test_what_a_witness_has_cosigned_by_keys_that_it_has_replaced_stays_anchored() -> None:
    guest, host = two_parties()
    guest.record_with("10000", "a")
    guest.cosigned_by(host)
    end, later = 1_000, RecordKeys("10000", root=2, witness=2)
    guest.save_keys(RecordKeys("10000").listed(later, until=end))
    guest.save_keys(later.listed(), at=end)
    assert reports(guest)[WITH, 1].anchored_by == "10000"
    with guest.store.reading() as tx:
        names = {key.name for key in witness_keys(tx)["10000"]}
        assert {key.kind for key in witness_keys(tx)["10000"]} == {COSIGNATURE}
    assert names == {witness_name(RecordKeys("10000", root=one).root) for one in (1, 2)}


def whole_log(party: WitnessParty) -> list[WholeEpoch]:
    with party.store.reading() as tx:
        marks = [tx.newest_checkpoint(WITH, epoch) for epoch in sorted(tx.record_epochs(WITH))]
        return [
            WholeEpoch(read_note(one.note), [each.content for each in tx.sealed_entries(WITH, one.epoch, 0, one.size)])
            for one in marks if one is not None
        ]  # fmt: skip


def compared(host: WitnessParty, epochs: list[WholeEpoch]) -> tuple[Finding, ...]:
    with host.store.transaction() as tx:
        theirs = LogReader.of(tx, "10000", "9999", has_signed, raw_of).read(epochs)
        return (*keep_heads(tx, theirs, 0), *messages_in_both(tx, "10000", theirs))


def raw_of(pem: str) -> bytes:
    found = ed25519_in(pem)
    assert found is not None
    return found


def test_a_log_is_compared_under_all_its_names_and_none_is_left_out(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    host.save_keys(FIRST.listed(SECOND))
    guest.wait(60)
    guest.sign()
    guest.offer(host)
    for keys in (None, SECOND.listed()):             # the list that follows is fetched later
        if keys is not None:
            host.save_keys(keys)
        epochs = whole_log(guest)
        assert len(epochs) == 2
        assert compared(host, epochs) == ()
        with pytest.raises(BadBundle, match=r"epoch 1.* is missing, and party 9999 has signed 3 entries of it"):
            compared(host, epochs[1:])


def test_an_epoch_under_another_root_key_does_not_stand_for_the_one_that_is_held() -> None:
    liar, host = a_liar_and_its_host()
    liar.cosigning.is_no_witness("10000")
    liar.sign()
    with pytest.raises(BadBundle, match=f"epoch 1 under the root key {FIRST.root} is missing"):
        compared(host, whole_log(liar))


def test_what_keys_have_signed_that_were_replaced_twice_is_compared() -> None:
    guest, host = two_parties()
    guest.record_with("10000", "a")
    guest.cosigned_by(host)
    epochs = whole_log(guest)
    for number in (1, 2):
        host.save_keys(RecordKeys("9999", record=number).listed(until=number * DAY), at=number * DAY)
    host.save_keys(RecordKeys("9999", record=3).listed(), at=2 * DAY)
    assert compared(host, epochs) == ()


def test_what_a_key_has_signed_that_was_taken_off_the_list_counts_as_far_as_it_is_held_here() -> None:
    """Somebody else may have that key, and sign anything with it."""
    guest, host = two_parties()
    guest.record_with("10000", "a")
    guest.cosigned_by(host)
    held = whole_log(guest)
    host.save_keys(RecordKeys("9999", record=2).listed())
    assert compared(host, held) == ()
    guest.record_with("10000", "b")
    guest.sign()
    with pytest.raises(BadBundle, match="no record key of party 9999 that is saved here has signed the log"):
        compared(host, whole_log(guest))


def test_an_epoch_without_entries_is_no_log() -> None:
    _, host = two_parties()
    origin = origin_of(FIRST.root, WITH, 1)
    note = sign_note(Checkpoint(origin, 0, EMPTY_ROOT).text(), FIRST.signer.key_of(origin), FIRST.own.sign)
    with pytest.raises(BadBundle, match="has no entries"):
        compared(host, [WholeEpoch(note, [])])
