"""A party whose witnesses answer what cannot be, as often as they are asked: nothing begins anew for ever, and only the
log with that witness waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count

import pytest

from fate_flow.core.record.entry import OWN_LOG, log_with, read_entry
from fate_flow.core.wire.v1.witnessing import Held
from fate_flow.services.witnesses import cosigning
from fate_flow.services.witnesses.cosigning import Offer
from fate_flow.store.contract.transaction import Transaction
from tests.kit.services.witness_parties import RecordKeys, WitnessParty, two_parties

WITH, LIAR = log_with("10000"), log_with("10001")


def numbers() -> Iterator[tuple[str, ...]]:
    """Numbers that no message has, other ones each time."""
    for one in count(1):
        yield (f"{one:032x}",)


MADE_UP = numbers()


def epochs(party: WitnessParty, log: str) -> int:
    with party.store.reading() as tx:
        return len({*tx.record_epochs(log), tx.record_head(log).epoch})


def first_reason(party: WitnessParty, log: str) -> str:
    with party.store.reading() as tx:
        (first,) = tx.sealed_entries(log, tx.record_head(log).epoch, 0, 1)
    return str(read_entry(first.content)["reason"])


def signed(party: WitnessParty, log: str) -> int:
    with party.store.reading() as tx:
        newest = tx.newest_checkpoint(log, tx.record_head(log).epoch)
        return newest.size if newest else 0


def say_stale(party: WitnessParty, to: str, size_of: Callable[[Offer], int] = lambda offer: offer.old) -> int:
    """Let a witness answer all that it is offered now by HTTP status 409 and a size; return how often it was offered
    anything."""
    found = 0
    while offers := [one for one in party.cosigning.offers() if one.party_id == to]:
        found += len(offers)
        for one in offers:
            party.cosigning.answered(one, 409, f"{size_of(one)}\n")
    return found


def test_a_witness_that_makes_up_acknowledgements_begins_the_logs_anew_once() -> None:
    guest, _ = two_parties()
    guest.record("a")
    guest.record_with("10000", "b")
    asked = 0
    for _ in range(60):
        if guest.cosigning.questions():
            asked += 1
            guest.cosigning.holds("10000", Held((), next(MADE_UP)), "")
        guest.sign()
        say_stale(guest, "10000")
        guest.wait(2)
    assert (epochs(guest, WITH), epochs(guest, OWN_LOG)) == (2, 2)
    assert asked <= 12, "every ten seconds at most"
    assert signed(guest, OWN_LOG) > 0


def test_the_word_of_a_witness_about_acknowledgements_is_looked_up_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = list[tuple[tuple[str, str], ...]]()

    def look_up(tx: Transaction, party_id: str, wanted: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        looked_up.append(tuple(wanted))
        return ()

    monkeypatch.setattr(cosigning, "not_received", look_up)
    guest, _ = two_parties()
    first, *others = (next(MADE_UP) for _ in range(6))
    for wait, one in ((0, first), *((30, one) for one in others)):
        guest.wait(wait)
        guest.cosigning.holds("10000", Held((), one), "")
    assert looked_up == [((*first, ""),), (), ((*others[1], ""),), (), (), ()], "at once, and a minute later"
    guest.restart()
    guest.cosigning.look()
    guest.cosigning.holds("10000", Held((), first), "")
    assert looked_up[6:] == [((*first, ""),)]


def test_what_this_party_has_signed_counts_however_often_its_witness_was_asked() -> None:
    guest, host = two_parties()
    guest.record_with("10000", "a")
    guest.cosigned_by(host)
    backup = guest.backup()
    guest.record_with("10000", "b")
    guest.cosigned_by(host)
    guest.restore(backup)
    guest.cosigning.look()
    guest.cosigning.holds("10000", Held(()), "")
    assert epochs(guest, WITH) == 1
    guest.cosigning.holds("10000", host.witnessing.held_of("9999"), "")
    assert epochs(guest, WITH) == 2


def test_a_home_that_was_lost_with_its_record_key_begins_anew_and_contradicts_nothing() -> None:
    guest, host = two_parties()
    guest.record_with("10000", "a", "b")
    guest.cosigned_by(host)
    lost = host.witnessing.held_of("9999")
    anew, keys = WitnessParty("9999", "10000"), RecordKeys("9999", record=2)
    anew.keys = keys
    host.save_keys(keys.listed())
    anew.wait(60)
    for what in "xy":
        anew.record_with("10000", what)
        reply = anew.cosigned_by(host)
        assert reply is not None
        assert reply.status == 200
        anew.wait(60)
    anew.cosigning.holds("10000", lost, "")      # it says so once more
    assert epochs(anew, WITH) == 2
    assert "no key of this home has signed" in first_reason(anew, WITH)
    with host.store.reading() as tx:
        assert tx.evidence() == ()


def test_a_head_by_a_key_that_was_taken_away_is_no_loss_if_the_log_has_it() -> None:
    guest, host = two_parties()
    guest.record_with("10000", "a", "b")
    guest.cosigned_by(host)
    guest.keys = RecordKeys("9999", record=2)
    host.save_keys(guest.keys.listed())
    guest.restart()
    guest.record_with("10000", "c")
    statuses = [reply.status for reply in (guest.cosigned_by(host), guest.offer(host)) if reply]
    assert statuses == [409, 200]
    assert epochs(guest, WITH) == 1


def test_a_second_witness_that_is_ahead_does_not_begin_the_own_log_anew_once_more() -> None:
    guest = WitnessParty("9999", "10000", "10001")
    hosts = [WitnessParty(one, "9999") for one in ("10000", "10001")]
    for log in (OWN_LOG, WITH, LIAR):
        guest.record("a", log=log)
    backup = guest.backup()
    for log in (OWN_LOG, WITH, LIAR):
        guest.record("b", log=log)
    for host in hosts:
        guest.ask(host, host.party_id)
    guest.sign()
    for offer in guest.cosigning.offers():
        host = next(one for one in hosts if one.party_id == offer.party_id)
        reply = host.witnessing.add_checkpoint("9999", offer.text, offer.question)
        guest.cosigning.answered(offer, reply.status, reply.text)
    guest.restore(backup)
    for host in hosts:
        guest.ask(host, host.party_id)
        guest.wait(2)
    assert [epochs(guest, one) for one in (WITH, LIAR, OWN_LOG)] == [2, 2, 2]


def test_a_witness_that_was_heard_once_holds_up_the_log_with_it_alone() -> None:
    guest, host = WitnessParty("9999", "10000", "10001"), WitnessParty("10000", "9999")
    guest.ask(host, "10000")
    guest.cosigning.holds("10001", Held(()), "")
    guest.record_with("10001", "a")
    guest.sign()
    say_stale(guest, "10001")
    before = signed(guest, LIAR)
    guest.record("b")
    for log in ("10000", "10001"):
        guest.record_with(log, "c")
    guest.sign()
    assert signed(guest, OWN_LOG) == 1
    assert signed(guest, WITH) == 2, "with the commitment to the own log"
    assert signed(guest, LIAR) == before

    guest.wait(10)
    guest.ask(None, "10001")
    guest.wait(cosigning.GIVE_UP_SECONDS)
    guest.ask(None, "10001")
    assert (epochs(guest, LIAR), epochs(guest, OWN_LOG)) == (2, 1), "it is given up, and the own log goes on"


def test_a_witness_whose_answers_do_not_fit_is_asked_ten_seconds_later_or_at_once_after_ten_minutes() -> None:
    guest, host = two_parties()
    guest.record_with("10000", "a")
    for wait in (0.0, 600.0):
        guest.ask(host, "10000")
        guest.sign()
        guest.wait(wait)
        assert say_stale(guest, "10000") == 1
        assert (guest.cosigning.questions() == ("10000",)) == bool(wait)
        guest.wait(10)
        assert guest.cosigning.questions() == ("10000",)


def test_a_witness_that_says_another_size_each_time_is_offered_something_every_ten_seconds() -> None:
    def another(offer: Offer) -> int:
        return 2 if offer.old == 1 else 1

    guest, host = two_parties()
    guest.record_with("10000", *"abcd")
    guest.ask(host, "10000")
    guest.sign()
    assert say_stale(guest, "10000", another) == 2
    for _ in range(3):
        guest.wait(9)
        assert say_stale(guest, "10000", another) == 0
        guest.wait(1)
        assert say_stale(guest, "10000", another) == 1
    guest.wait(10)
    reply = guest.offer(host)
    assert reply is not None
    assert (reply.status, reply.text) == (409, "0\n")
    guest.wait(10)
    assert guest.offer(host) is not None
    assert guest.verified(WITH).anchored_to == 4
