"""A restored backup that lacks the last seconds alone, which no other party has cosigned yet: it is found by what this
party has acknowledged."""

from __future__ import annotations

import pytest

from fate_flow.core.record.entry import OWN_LOG, Kind, log_with, new_entry, read_entry
from fate_flow.core.wire.v1.witnessing import MOST_NUMBERS, Held
from fate_flow.services.record.acknowledged import acknowledged_by
from fate_flow.services.witnesses.cosigning import OWN_SECONDS
from fate_flow.services.witnesses.unsigned_word import SETTLED_SECONDS
from tests.kit.services.records import add
from tests.kit.services.witness_parties import WitnessParty, two_parties

WITH = log_with("10000")


class Pair:
    """Party 10000 sends messages to party 9999, which is restored from a backup."""

    def __init__(self, is_signed: bool = True) -> None:
        self.guest, self.host = two_parties()
        self.guest.record("of the own log")
        if is_signed:
            self.send("first")
            self.guest.cosigned_by(self.host)
            self.send("not signed")

    def number(self, what: str) -> str:
        return what.encode().hex().rjust(32, "0")

    def send(self, *what: str) -> None:
        for one in what:
            self.sent(one)
            self.received(one)
            self.acknowledged(one)

    def sent(self, what: str) -> None:
        self._add(self.host, "9999", Kind.SENT, what, request="r")

    def received(self, what: str, answer: str = "a") -> None:
        self._add(self.guest, "10000", Kind.RECEIVED, what, request="r", answer=answer)

    def acknowledged(self, what: str, answer: str = "a") -> None:
        self._add(self.host, "9999", Kind.ANSWERED, what, answer=answer, acknowledged=True)

    def _add(self, party: WitnessParty, other: str, kind: Kind, what: str, **fields: object) -> None:
        fields["number"] = self.number(what)
        add(party.store, [new_entry(log_with(other), kind, party.server.now, fields)])

    def ask(self) -> None:
        self.guest.ask(self.host, "10000")

    def wait(self, seconds: float) -> None:
        self.guest.wait(seconds)
        self.host.wait(seconds)

    @property
    def epochs(self) -> tuple[int, int]:
        """How many the log with the other party has, and the own one."""
        with self.guest.store.reading() as tx:
            found = [len({*tx.record_epochs(log), tx.record_head(log).epoch}) for log in (WITH, OWN_LOG)]
        return found[0], found[1]

    @property
    def lost(self) -> object:
        """What the first entry of the newest epoch names."""
        with self.guest.store.reading() as tx:
            (first,) = tx.sealed_entries(WITH, tx.record_head(WITH).epoch, 0, 1)
        return read_entry(first.content).get("lost")


@pytest.fixture
def pair() -> Pair:
    return Pair()


def test_what_is_lost_is_found_however_much_was_sent_since_the_backup_was_restored(pair: Pair) -> None:
    backup = pair.guest.backup()
    pair.send("lost")
    pair.guest.restore(backup)
    pair.send(*(f"later {one}" for one in range(40)))
    assert pair.number("lost") not in pair.host.witnessing.held_of("9999").acknowledged, "as an earlier release asks"
    pair.ask()
    assert (pair.epochs, pair.lost) == ((2, 2), [pair.number("lost")])

    pair.guest.restart()
    pair.ask()
    assert pair.epochs == (2, 2), "before the new epoch is signed"


def test_a_log_that_was_never_signed_is_compared_from_its_beginning() -> None:
    pair = Pair(is_signed=False)
    backup = pair.guest.backup()
    pair.send("lost")
    pair.guest.restore(backup)
    pair.send(*(f"later {one}" for one in range(40)))
    pair.ask()
    assert (pair.epochs, pair.lost) == ((2, 2), [pair.number("lost")])


def test_a_second_answer_to_a_message_that_is_lost_is_found_although_the_first_one_is_here(pair: Pair) -> None:
    pair.sent("twice")
    pair.received("twice", "no answer has arrived")
    backup = pair.guest.backup()
    pair.received("twice", "it is done already")
    pair.acknowledged("twice", "it is done already")
    pair.guest.restore(backup)
    pair.ask()
    assert (pair.epochs, pair.lost) == ((2, 2), [pair.number("twice")])


def test_an_earlier_release_names_no_answers(pair: Pair) -> None:
    pair.guest.restart()
    pair.guest.cosigning.look()
    pair.guest.cosigning.holds("10000", Held((), (pair.number("first"), pair.number("not signed"))), "")
    assert pair.epochs == (1, 1)


def test_an_acknowledgement_that_was_under_way_is_asked_for_a_minute_later(pair: Pair) -> None:
    pair.sent("lost")
    pair.guest.restore(pair.guest.backup())      # it was received, acknowledged and lost
    pair.ask()
    pair.acknowledged("lost")
    pair.send(*(f"later {one}" for one in range(40)))
    pair.guest.sign()
    pair.wait(SETTLED_SECONDS - 1)
    assert pair.guest.cosigning.questions() == ()
    assert pair.guest.cosigning.seconds_until_due(600.0) <= 1
    pair.wait(1)
    assert pair.guest.cosigning.questions() == ("10000",)
    pair.ask()
    assert (pair.epochs, pair.lost) == ((2, 2), [pair.number("lost")])


def test_a_party_that_is_silent_when_it_is_asked_again_holds_up_nothing(pair: Pair) -> None:
    pair.guest.restart()
    pair.ask()
    pair.wait(SETTLED_SECONDS)
    pair.guest.ask(None, "10000")
    assert pair.guest.cosigning.questions() == ()
    assert pair.guest.cosigning.may_sign(WITH)
    pair.wait(10)
    assert pair.guest.cosigning.questions() == ("10000",)
    pair.ask()
    pair.wait(OWN_SECONDS)
    assert pair.guest.cosigning.questions() == (), "twice, and no more"
    assert pair.epochs == (1, 1)


def test_what_was_acknowledged_after_the_second_question_counts_no_more(pair: Pair) -> None:
    pair.guest.restart()
    for _ in range(2):
        pair.ask()
        pair.wait(SETTLED_SECONDS)
    pair.guest.cosigning.holds("10000", Held((), (pair.number("made up"),)), "")
    assert pair.epochs == (1, 1)
    assert pair.guest.cosigning.question("10000").after is None


def test_of_too_many_messages_the_oldest_and_the_last_few_are_named(pair: Pair) -> None:
    for one in range(MOST_NUMBERS + 20):
        pair.acknowledged(f"{one}")
    with pair.host.store.reading() as tx:
        found = [number for number, _ in acknowledged_by(tx, "9999", pair.number("first"))]
    assert len(found) == MOST_NUMBERS
    assert found[0] == pair.number(f"{MOST_NUMBERS + 19}")
    assert found[-2:] == [pair.number("not signed"), pair.number("first")]
