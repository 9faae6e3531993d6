"""A party asks its peers before it signs, and has them cosign; a restored backup leads to the next epoch."""

from __future__ import annotations

import pytest

from fate_flow.core.record.entry import OWN_LOG, Kind, log_with, read_entry
from fate_flow.core.wire.v1.witnessing import ASKED_SINCE, Held
from fate_flow.services.record.verifying import State
from fate_flow.services.witnesses.cosigning import GIVE_UP_SECONDS, IDLE_SECONDS, OWN_SECONDS
from tests.kit.services.witness_parties import WitnessParty, two_parties

WITH = log_with("10000")


@pytest.fixture
def parties() -> tuple[WitnessParty, WitnessParty]:
    return two_parties()


def size_of(party: WitnessParty, log: str = WITH) -> tuple[int, int]:
    """The newest checkpoint: its epoch and size."""
    with party.store.reading() as tx:
        newest = tx.newest_checkpoint(log, tx.record_head(log).epoch)
        return (newest.epoch, newest.size) if newest else (tx.record_head(log).epoch, 0)


def first_entry(party: WitnessParty, log: str) -> dict[str, object]:
    with party.store.reading() as tx:
        head = tx.record_head(log)
        return dict(read_entry(tx.sealed_entries(log, head.epoch, 0, 1)[0].content))


def nobody_is_accused(*parties: WitnessParty) -> bool:
    for party in parties:
        with party.store.reading() as tx:
            if tx.evidence():
                return False
    return True


def test_what_is_signed_is_cosigned_and_anchors_the_log(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    for count in (1, 3, 2):
        guest.record_with("10000", *"abc"[:count])
        reply = guest.cosigned_by(host)
        assert reply is not None
        assert reply.status == 200
    report = guest.verified(WITH)
    assert (report.state, report.anchored_to, report.anchored_by) == (State.ANCHORED, 6, "10000")
    assert report.anchored_at == host.server.now // 1000


def test_nothing_is_signed_with_a_party_before_it_has_answered(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    guest.record_with("10000", "a")
    guest.record("b")
    guest.sign()
    guest.ask(None, "10000")
    guest.sign()
    assert (size_of(guest), size_of(guest, OWN_LOG)) == ((1, 0), (1, 0))
    guest.wait(OWN_SECONDS)
    guest.cosigned_by(host)
    assert (size_of(guest), size_of(guest, OWN_LOG)) == ((1, 2), (1, 1))


def test_the_own_log_waits_a_minute_if_another_party_has_answered() -> None:
    guest, host = WitnessParty("9999", "10000", "10001"), WitnessParty("10000", "9999")
    guest.record("a")
    guest.ask(host, "10000")
    guest.ask(None, "10001")
    guest.sign()
    assert size_of(guest, OWN_LOG) == (1, 0)
    guest.wait(OWN_SECONDS)
    guest.sign()
    assert size_of(guest, OWN_LOG) == (1, 1)


def test_a_party_without_a_record_does_not_answer_for_one_that_is_silent() -> None:
    guest = WitnessParty("9999", "10000", "10001")
    guest.record("a")
    guest.ask(None, "10001")
    guest.cosigning.is_no_witness("10000")
    guest.wait(OWN_SECONDS)
    guest.sign()
    assert size_of(guest, OWN_LOG) == (1, 0)
    guest.wait(GIVE_UP_SECONDS)
    guest.ask(None, "10001")
    guest.sign()
    assert size_of(guest, OWN_LOG)[0] > 1


def test_a_process_counts_silence_from_its_first_question_since_it_is_in_charge() -> None:
    guest, host = WitnessParty("9999", "10000", "10001"), WitnessParty("10000", "9999")
    guest.record("a")
    guest.wait(GIVE_UP_SECONDS)
    guest.ask(host, "10000")
    for _ in range(2):
        guest.ask(None, "10001")
        guest.sign()
        assert (size_of(guest, log_with("10001")), size_of(guest, OWN_LOG)) == ((1, 0), (1, 0))
        guest.cosigning.stands_by()
        guest.wait(GIVE_UP_SECONDS)
    guest.ask(None, "10001")
    guest.wait(OWN_SECONDS)
    guest.sign()
    assert size_of(guest, OWN_LOG) == (1, 1)


def test_a_log_that_does_not_grow_is_cosigned_again_each_minute(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    guest.record_with("10000", "a")
    guest.cosigned_by(host)
    assert guest.offer(host) is None
    for party in parties:
        party.wait(IDLE_SECONDS)
    assert guest.offer(host) is not None
    report = guest.verified(WITH)
    assert (report.anchored_to, report.anchored_at) == (1, host.server.now // 1000)
    with guest.store.reading() as tx:
        (only,) = tx.checkpoints(WITH, 1)
    assert only.note.count("\u2014") == 2            # its own signature, and the newest of the witness


def test_a_heartbeat_takes_along_what_is_not_cosigned_yet(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    guest.record_with("10000", "a")
    assert guest.cosigning.for_heartbeat("10000") is None
    guest.ask(host, "10000")
    guest.sign()
    offer = guest.cosigning.for_heartbeat("10000")
    assert offer is not None
    reply = host.witnessing.add_checkpoint("9999", offer.text, offer.question)
    guest.cosigning.answered(offer, reply.status, reply.text)
    assert guest.cosigning.for_heartbeat("10000") is None
    assert guest.verified(WITH).anchored_to == 1


def test_a_heartbeat_takes_along_what_is_due_soon_so_that_an_idle_partner_gets_one_request(
    parties: tuple[WitnessParty, WitnessParty],
) -> None:
    guest, host = parties
    guest.record_with("10000", "a")
    guest.cosigned_by(host)
    for party in parties:
        party.wait(IDLE_SECONDS / 2)
    assert guest.cosigning.for_heartbeat("10000") is None, "as one of each five seconds while a job runs"
    for party in parties:
        party.wait(IDLE_SECONDS / 4)
    offer = guest.cosigning.for_heartbeat("10000")
    assert offer is not None
    reply = host.witnessing.add_checkpoint("9999", offer.text, offer.question)
    guest.cosigning.answered(offer, reply.status, reply.text)
    for party in parties:
        party.wait(IDLE_SECONDS * 3 / 4)
    assert guest.offer(host) is None
    assert guest.verified(WITH).anchored_at == host.server.now // 1000 - 45


def test_a_lost_answer_is_caught_up_with(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    guest.record_with("10000", "a")
    guest.ask(host, "10000")
    guest.sign()
    (offer,) = guest.cosigning.offers()
    assert host.witnessing.add_checkpoint("9999", offer.text, offer.question).status == 200
    guest.cosigning.answered(offer, 0, "")
    guest.record_with("10000", "b", "c")
    guest.sign()
    for party in parties:
        party.wait(20)
    first, second = guest.offer(host), guest.offer(host)
    assert first is not None
    assert second is not None
    assert (first.status, first.text, second.status) == (409, "1\n", 200)
    assert guest.verified(WITH).anchored_to == 3
    assert nobody_is_accused(*parties)


def test_a_witness_that_has_lost_its_books_is_caught_up_with(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    empty = host.backup()
    for what in ("a", "b"):
        guest.record_with("10000", what)
        guest.cosigned_by(host)
    host.restore(empty)
    guest.record_with("10000", "c")
    guest.sign()
    first = guest.offer(host)
    assert first is not None
    assert first.status == ASKED_SINCE, "it does not know the question"
    assert guest.offer(host) is None
    guest.wait(10)
    guest.ask(host, "10000")
    second = guest.offer(host)
    assert second is not None
    assert second.status == 200
    assert guest.verified(WITH).anchored_to == 3


def test_a_checkpoint_from_before_a_restart_that_comes_late_is_refused(
    parties: tuple[WitnessParty, WitnessParty],
) -> None:
    """Cosigned, it would accuse the party as soon as that signs other entries at its size."""
    guest, host = parties
    guest.record_with("10000", "a")
    guest.cosigned_by(host)
    backup = guest.backup()
    guest.record_with("10000", "lost")
    guest.sign()
    (late,) = guest.cosigning.offers()

    guest.restore(backup)
    guest.ask(host, "10000")
    reply = host.witnessing.add_checkpoint("9999", late.text, late.question)
    assert reply.status == ASKED_SINCE
    assert "newer question" in reply.text
    guest.record_with("10000", "other", "things")
    guest.sign()
    again = guest.offer(host)
    assert again is not None
    assert again.status == 200
    assert host.witnessing.add_checkpoint("9999", late.text, late.question).status == ASKED_SINCE
    assert nobody_is_accused(*parties)


def test_a_question_that_comes_late_once_more_is_not_the_newest(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    guest.record_with("10000", "a")
    guest.cosigning.look()
    early = guest.cosigning.question("10000")
    guest.cosigning.holds("10000", host.witnessing.held_of("9999", early), early.question)
    guest.sign()
    (late,) = guest.cosigning.offers()
    guest.restart()
    guest.ask(host, "10000")
    host.witnessing.held_of("9999", early)
    assert host.witnessing.add_checkpoint("9999", late.text, late.question).status == ASKED_SINCE
    guest.sign()
    reply = guest.offer(host)
    assert reply is not None
    assert reply.status == 200


def test_a_peer_that_is_being_asked_is_offered_nothing(parties: tuple[WitnessParty, WitnessParty]) -> None:
    """The offer would name an older question, and be refused."""
    guest, host = parties
    guest.record_with("10000", "a")
    guest.ask(host, "10000")
    guest.sign()
    asked = guest.cosigning.question("10000")
    assert (guest.cosigning.offers(), guest.cosigning.for_heartbeat("10000")) == ((), None)
    guest.cosigning.holds("10000", host.witnessing.held_of("9999", asked), asked.question)
    reply = guest.offer(host)
    assert reply is not None
    assert reply.status == 200


def test_an_offer_that_an_answered_question_has_overtaken_is_made_once_more(
    parties: tuple[WitnessParty, WitnessParty],
) -> None:
    guest, host = parties
    guest.record_with("10000", "a")
    guest.ask(host, "10000")
    guest.sign()
    (offer,) = guest.cosigning.offers()
    asked = guest.cosigning.question("10000")
    guest.cosigning.holds("10000", host.witnessing.held_of("9999", asked), asked.question)
    reply = host.witnessing.add_checkpoint("9999", offer.text, offer.question)
    guest.cosigning.answered(offer, reply.status, reply.text)
    assert reply.status == ASKED_SINCE
    again = guest.offer(host)
    assert again is not None
    assert again.status == 200


def test_a_restored_backup_goes_on_in_the_next_epoch(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    guest.record_with("10000", "a")
    guest.record("b")
    guest.cosigned_by(host)
    backup = guest.backup()
    guest.record_with("10000", "lost", "lost, too")
    guest.cosigned_by(host)

    guest.restore(backup)
    guest.record_with("10000", "c")
    reply = guest.cosigned_by(host)
    assert reply is not None
    assert reply.status == 200
    epoch = guest.server.now // 1000
    assert (size_of(guest)[0], size_of(guest, OWN_LOG)[0]) == (epoch, epoch)
    entry = first_entry(guest, WITH)
    assert (entry["kind"], entry["ended"]["size"], entry["theirs"]["size"]) == (Kind.EPOCH, 3, 4)  # type: ignore[index]
    assert "party 10000 is ahead" in str(entry["reason"])
    assert first_entry(guest, OWN_LOG)["kind"] == Kind.EPOCH
    assert guest.verified(WITH).state is State.ANCHORED
    assert guest.verified(WITH, 1).state is State.ANCHORED
    assert nobody_is_accused(*parties)

    guest.restart()
    guest.record_with("10000", "d")
    guest.cosigned_by(host)
    assert size_of(guest)[0] == epoch


def test_a_backup_that_was_written_to_before_the_answer_accuses_nobody(
    parties: tuple[WitnessParty, WitnessParty]
) -> None:
    guest, host = parties
    guest.record_with("10000", "a")
    guest.cosigned_by(host)
    backup = guest.backup()
    guest.record_with("10000", "lost")
    guest.cosigned_by(host)

    guest.restore(backup)
    guest.record_with("10000", *"bcde")
    guest.ask(None, "10000")
    guest.sign()
    guest.wait(IDLE_SECONDS)
    assert guest.cosigned_by(host) is not None
    assert size_of(guest)[0] > 1
    assert nobody_is_accused(*parties)


def test_a_party_that_never_answers_is_given_up_after_a_day(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    guest.record_with("10000", "a")
    guest.record("b")
    guest.ask(None, "10000")
    guest.wait(GIVE_UP_SECONDS)
    guest.ask(None, "10000")
    guest.sign()
    assert "has not said for a day" in str(first_entry(guest, WITH)["reason"])
    assert size_of(guest)[0] == size_of(guest, OWN_LOG)[0] > 1
    assert guest.offer(host) is not None
    assert guest.verified(WITH).state is State.ANCHORED


def test_a_head_that_no_own_key_has_signed_is_not_believed(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    guest.record_with("10000", "a")
    guest.cosigned_by(host)
    (note,) = host.witnessing.held_of("9999").notes
    guest.restart()
    guest.cosigning.questions()
    guest.cosigning.holds(
        "10000", Held([
            note.replace("\n1\n", "\n9\n"), "no note", note.replace("/with/10000/", "/own/"),
            note.replace("/with/10000/1", "/with/10000/1\ud800"),
        ]), "",
    )  # fmt: skip
    guest.record_with("10000", "b")
    guest.sign()
    assert size_of(guest) == (1, 2)


def test_a_peer_without_a_record_stops_nothing(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, _ = parties
    guest.record_with("10000", "a")
    assert guest.cosigning.questions() == ("10000",)
    guest.cosigning.is_no_witness("10000")
    guest.sign()
    assert size_of(guest) == (1, 1)
    assert guest.cosigning.offers() == ()
    assert guest.cosigning.questions() == ()
    guest.wait(600)
    assert guest.cosigning.questions() == ("10000",)


def test_the_log_with_a_party_that_is_gone_does_not_grow_by_itself(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    guest.record_with("10000", "a")
    guest.ask(host, "10000")
    for what in "bcd":
        guest.record(what)
        guest.sign()
    assert size_of(guest) == (1, 2)
    guest.offer(host)
    guest.record("e")
    guest.sign()
    assert size_of(guest) == (1, 3)
