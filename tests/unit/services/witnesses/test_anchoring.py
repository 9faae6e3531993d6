"""How far the own log is anchored: by the commitments to its head that other parties have cosigned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.frozen import changed
from fate_flow.core.record.entry import OWN_LOG, log_with
from fate_flow.core.record.tree import leaf_hash
from fate_flow.services.record.anchoring import verify_all
from fate_flow.services.record.verifying import Keys, LogReport, State
from tests.kit.core.signers import has_signed
from tests.kit.services.tampering import Rows
from tests.kit.services.witness_parties import WitnessParty, two_parties

WITH = log_with("10000")


def own_log_of(party: WitnessParty, witness: WitnessParty) -> LogReport:
    """Return the report of its first epoch."""
    return reports_of(party, witness)[OWN_LOG, 1]


def reports_of(party: WitnessParty, witness: WitnessParty) -> dict[tuple[str, int], LogReport]:
    keys = Keys(party.keys.root, (party.keys.own.key.key,), ((witness.party_id, witness.keys.witness.key),), has_signed)
    with party.store.reading() as tx:
        return {(one.log, one.epoch): one for one in verify_all(tx, keys)}


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


def test_an_own_log_that_is_gone_as_a_whole_is_broken() -> None:
    guest, host = a_cosigned_party()
    Rows(guest.store).drop_log(OWN_LOG)
    found = own_log_of(guest, host)
    assert (found.epoch, found.state, found.broken_at) == (1, State.BROKEN, 0)
    assert found.why == "party 10000 holds a head of 3 entries, and none are there"


@pytest.mark.parametrize(
    ("entries", "broken_at", "end"), [("x", 1, ", and 1 are there"), ("abxyz", 0, " with another root")]
)
def test_an_own_log_that_was_made_anew_and_committed_to_since_is_broken(
    entries: str, broken_at: int, end: str
) -> None:  # fmt: skip
    """Its newest head fits what others hold; an older one does not."""
    guest, host = a_cosigned_party()
    Rows(guest.store).drop_log(OWN_LOG)
    guest.record(*entries)
    guest.wait(60)
    guest.sign()
    guest.offer(host)
    found = own_log_of(guest, host)
    assert (found.state, found.broken_at) == (State.BROKEN, broken_at)
    assert found.why == f"party 10000 holds a head of 3 entries{end}"


def a_party_that_was_restored() -> tuple[WitnessParty, WitnessParty]:
    """Two entries of each log were never signed when the next epochs began; the others are held by another party."""
    guest, host = a_cosigned_party()
    backup = guest.backup()
    guest.record_with("10000", "lost")
    guest.wait(60)
    guest.sign()
    guest.offer(host)
    guest.restore(backup)
    for log in (OWN_LOG, WITH):
        guest.record("not signed", log=log)
        guest.record("nor this", log=log)
    guest.cosigned_by(host)
    return guest, host


@pytest.mark.parametrize("log", [OWN_LOG, WITH])
@pytest.mark.parametrize(("cut", "end"), [(0, "and none are there"), (1, "and {} are there")])
def test_an_epoch_that_is_gone_or_has_lost_its_end_is_broken(log: str, cut: int, end: str) -> None:
    guest, host = a_party_that_was_restored()
    size = reports_of(guest, host)[log, 1].size
    left = size - cut if cut else 0
    Rows(guest.store).drop_epoch(log, 1, left)

    found = reports_of(guest, host)
    epoch = guest.server.now // 1000
    assert (found[log, 1].state, found[log, 1].broken_at) == (State.BROKEN, left)
    said = f"epoch {epoch} says that this one has ended with {size} entries, {end.format(left)}"
    assert found[log, 1].why == said
    assert [key for key, one in found.items() if one.state is State.BROKEN] == [(log, 1)]


@pytest.mark.parametrize("log", [OWN_LOG, WITH])
def test_an_epoch_with_another_end_is_broken_where_nobody_has_signed_it(log: str) -> None:
    guest, host = a_party_that_was_restored()
    before = reports_of(guest, host)
    assert State.BROKEN not in {one.state for one in before.values()}
    rows = guest.store._rows
    of_epoch = [one for one in rows.record.rows.values() if (one.log, one.epoch) == (log, 1)]
    last = max(of_epoch, key=lambda one: one.index)
    Rows(guest.store).put(changed(last, content=last.content.replace(b"nor this", b"but this")))
    key, batch = next((key, one) for key, one in rows.record_batches.rows.items() if last.id in one.ids)
    with guest.store.transaction():
        rows.record_batches.put(key, replace(batch, hashes=(leaf_hash(rows.record.rows[last.id].content),)))

    found = reports_of(guest, host)[log, 1]
    assert (found.state, found.broken_at) == (State.BROKEN, before[log, 1].signed_to)
    assert found.why.endswith(f"has ended with {found.size} entries with another root")


def test_an_epoch_whose_first_entry_is_broken_says_nothing_of_the_one_before() -> None:
    guest, host = a_party_that_was_restored()
    rows = guest.store._rows.record.rows
    epoch = guest.server.now // 1000
    first = next(one for one in rows.values() if (one.log, one.epoch, one.index) == (WITH, epoch, 0))
    Rows(guest.store).put(changed(first, content=first.content.replace(b'"epoch":1', b'"epoch":2')))
    broken = [key for key, one in reports_of(guest, host).items() if one.state is State.BROKEN]
    assert broken == [(WITH, epoch)]
