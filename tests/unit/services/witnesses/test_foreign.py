"""Witnesses of the configuration: asked before the first signature, and a restored backup accuses nobody."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from fate_flow.core.record.entry import OWN_LOG, read_entry
from fate_flow.core.record.note import read_note_key
from fate_flow.core.record.tree import EMPTY_ROOT
from fate_flow.services.record.checkpoints import origin_of
from fate_flow.services.record.verifying import Keys, LogReport, State, verify_log
from fate_flow.services.witnesses.foreign import ForeignOffer, ForeignWitnesses
from tests.kit.core.signers import has_signed
from tests.kit.peers.small_witness import TIME, SmallWitness
from tests.kit.services.witness_parties import WitnessParty, two_parties

DAY = 24 * 3600.0


class Own:
    """A party without peers, and a witness. `restart` begins a new process."""

    def __init__(self, party: WitnessParty | None = None) -> None:
        self.party, self.witness = party or WitnessParty("9999"), SmallWitness()
        self.let_know()
        self.start()

    def let_know(self, epoch: int = 1) -> None:
        keys = self.party.keys
        self.witness.knows(keys.signer.key_of(origin_of(keys.root, OWN_LOG, epoch)).text())

    def start(self) -> None:
        party = self.party
        self.foreign = ForeignWitnesses(
            party.context, [("public", read_note_key(self.witness.vkey))], lambda: party.keys.signer, has_signed,
            lambda: party.passed,
        )  # fmt: skip
        party.cosigning.others = self.foreign
        self.foreign.has_begun_own_anew = party.cosigning.has_begun_own_anew
        party.cosigning.look()

    def restart(self) -> None:
        self.party.restart()
        self.start()

    def send(self, say: Callable[[ForeignOffer], tuple[int, str]] | None = None) -> list[int]:
        """Send what is due, and take the answers; return their statuses."""
        found = []
        for offer in self.foreign.due():
            status, text = say(offer) if say else self.witness.add_checkpoint(offer.text)
            self.foreign.answered(offer, status, text)
            found.append(status)
        return found

    def grow(self, *what: str) -> list[int]:
        self.party.record(*what)
        self.party.sign()
        return self.send()

    @property
    def epoch(self) -> int:
        with self.party.store.reading() as tx:
            return int(tx.record_head(OWN_LOG).epoch)

    def signed(self) -> int:
        with self.party.store.reading() as tx:
            newest = tx.newest_checkpoint(OWN_LOG, tx.record_head(OWN_LOG).epoch)
        return newest.size if newest else 0

    def verified(self) -> LogReport:
        keys = self.party.keys
        known = Keys(keys.root, (keys.own.key.key,), (("public", read_note_key(self.witness.vkey)),), has_signed)
        with self.party.store.reading() as tx:
            return verify_log(tx, tx.record_head(OWN_LOG), self.epoch, known)

    def reason(self) -> str:
        """Why the present epoch has begun, as its first entry says."""
        with self.party.store.reading() as tx:
            (first,) = tx.sealed_entries(OWN_LOG, self.epoch, 0, 1)
        return str(read_entry(first.content)["reason"])

    def has_one_past(self) -> bool:
        """Whether nothing that was sent to the witness contradicts anything else that was."""
        return len({(origin, size) for origin, size, _ in self.witness.seen}) == len(set(self.witness.seen))


@pytest.fixture
def own() -> Own:
    return Own()


def test_nothing_is_signed_before_the_witness_has_answered_and_then_it_cosigns(own: Own) -> None:
    own.party.record("a")
    own.party.sign()
    assert own.signed() == 0
    assert own.send() == [200]
    assert own.witness.seen == [(own.witness.seen[0][0], 0, EMPTY_ROOT)]
    assert own.grow("b", "c") == [200]
    report = own.verified()
    assert (report.state, report.anchored_to, report.anchored_by, report.anchored_at) == (
        State.ANCHORED, 3, "public", TIME
    )  # fmt: skip
    assert report.who_anchors == "witness public"


def test_a_log_that_grows_is_cosigned_on_and_one_that_does_not_again_after_a_minute(own: Own) -> None:
    own.send()
    for count in (1, 2, 5, 8):
        assert own.grow(*"x" * count) == [200]
    assert own.send() == []
    own.party.wait(60)
    assert own.send() == [200]
    own.restart()
    assert own.send() == [200]           # the question after a start
    assert own.grow("y") == [200]
    assert own.verified().anchored_to == 17
    assert own.has_one_past()


def test_a_restored_backup_goes_on_in_the_next_epoch_and_has_signed_one_past(own: Own) -> None:
    own.send()
    own.grow("a")
    backup = own.party.backup()
    own.grow("b", "c")
    own.party.restore(backup)
    own.start()
    own.party.record("another b", "another c")
    own.party.sign()
    assert own.send() == [409]
    assert own.epoch > 1
    own.let_know(own.epoch)
    own.party.sign()
    assert [own.send(), own.send()] == [[409], [200]]        # it holds nothing of the new epoch; then it does
    assert own.grow("d") == [200]
    assert own.verified().state is State.ANCHORED
    assert own.has_one_past()


def test_a_home_that_was_restored_to_its_beginning_is_seen_too(own: Own) -> None:
    empty = own.party.backup()
    own.send()
    own.grow("a")
    own.party.restore(empty)
    own.start()
    own.party.record("another a")
    own.party.sign()
    assert own.send() == [409]
    assert own.epoch > 1
    assert own.has_one_past()


def test_another_past_of_one_size_is_seen(own: Own) -> None:
    other = Own()
    other.send()
    other.grow("x")
    other.witness = own.witness
    own.send()
    own.grow("a")
    other.restart()
    assert other.send() == [409]
    assert other.epoch > 1


def test_a_witness_that_has_lost_its_books_is_caught_up_with(own: Own) -> None:
    own.send()
    own.grow("a", "b", "c")
    own.witness.kept.clear()
    assert own.grow("d") == [409]
    assert own.send() == [200]
    own.witness.kept.clear()
    own.restart()
    assert own.send() == [409]
    assert own.send() == [200]
    assert own.epoch == 1


def test_an_inconsistent_answer_begins_the_next_epoch(own: Own) -> None:
    own.send()
    own.grow("a")
    own.party.record("b")
    own.party.sign()
    own.send(lambda _: (422, "no"))
    assert own.epoch > 1
    assert own.reason() == "witness public holds another past"


@pytest.mark.parametrize("answer", [(409, "999\n"), (422, "no")])
def test_a_witness_that_is_always_ahead_has_the_own_log_begin_anew_once(own: Own, answer: tuple[int, str]) -> None:
    own.send()
    own.grow("a")
    own.restart()
    own.send(lambda _: answer)
    begun = own.epoch
    assert begun > 1
    for _ in range(4):
        assert own.send(lambda _: answer) == [answer[0]]
        assert own.foreign.seconds_until_due(1000) == 600
        own.party.record("b")
        own.party.sign()
        assert own.foreign.seconds_until_due(1000) == 600
        own.party.wait(600)
    assert own.epoch == begun
    assert own.signed() > 0


def test_a_silent_witness_holds_the_own_log_up_even_if_a_party_has_answered() -> None:
    guest, host = two_parties()
    own = Own(guest)
    guest.record("a")
    guest.record_with("10000", "b")
    guest.ask(host, "10000")
    assert own.send(lambda _: (0, "")) == [0]
    guest.wait(60)
    guest.sign()
    assert own.signed() == 0
    assert own.send(lambda _: (503, "")) == [503]
    guest.wait(10)
    assert own.send() == [200]
    guest.sign()
    assert (own.signed(), own.epoch) == (1, 1)


def test_a_party_without_a_record_is_no_answer_about_the_own_log() -> None:
    guest, _ = two_parties()
    own = Own(guest)
    guest.cosigning.is_no_witness("10000")
    own.send()
    own.grow("a")
    backup = guest.backup()
    own.grow("b", "c")
    guest.restore(backup)
    own.start()
    guest.cosigning.is_no_witness("10000")
    own.send(lambda _: (0, ""))
    guest.record("another b", "another c")
    guest.wait(60)
    guest.sign()
    assert own.signed() == 1
    guest.wait(DAY)
    own.send(lambda _: (0, ""))
    assert own.epoch > 1
    assert own.reason() == "witness public has not said for a day what it holds"


def test_a_witness_that_is_behind_does_not_answer_for_another_one() -> None:
    own = Own()
    party, behind, newest = own.party, own.witness, SmallWitness("newest.example")
    own.witness = newest
    own.let_know()
    listed = [("behind", read_note_key(behind.vkey)), ("newest", read_note_key(newest.vkey))]

    def start() -> ForeignWitnesses:
        found = ForeignWitnesses(
            party.context, listed, lambda: party.keys.signer, has_signed, lambda: party.passed
        )  # fmt: skip
        party.cosigning.others, found.has_begun_own_anew = found, party.cosigning.has_begun_own_anew
        party.cosigning.look()
        return found

    def send(foreign: ForeignWitnesses, silent: str = "") -> None:
        for offer in foreign.due():
            witness = behind if offer.name == "behind" else newest
            answer = (0, "") if offer.name == silent else witness.add_checkpoint(offer.text)
            foreign.answered(offer, *answer)

    foreign = start()
    send(foreign)
    own.party.record("a")
    own.party.sign()
    send(foreign)
    backup = party.backup()
    party.record("b", "c")
    party.sign()
    send(foreign, silent="behind")
    party.restore(backup)
    foreign = start()
    party.record("another b", "another c")
    send(foreign, silent="newest")
    party.wait(60)
    party.sign()
    assert own.signed() == 1
    send(foreign)
    assert own.epoch > 1
    assert own.reason() == "an older state of this party was restored: witness newest holds 3 entries"


def test_a_witness_that_is_silent_for_a_day_is_given_up(own: Own, caplog: pytest.LogCaptureFixture) -> None:
    own.party.record("a")
    own.party.sign()
    own.send(lambda _: (0, ""))
    own.party.wait(60)
    own.send(lambda _: (0, ""))
    assert "the own log is not signed before it says what it holds" in caplog.text
    own.party.wait(DAY)
    own.send(lambda _: (0, ""))
    assert own.epoch > 1
    own.party.sign()
    assert own.signed() > 0


def test_a_process_that_takes_over_after_a_day_does_not_count_the_time_before_its_first_question(own: Own) -> None:
    own.send()
    own.grow("a")
    own.restart()
    own.party.wait(DAY)
    own.send(lambda _: (0, ""))
    assert own.epoch == 1
    own.foreign.stands_by()
    own.party.wait(DAY)
    own.send(lambda _: (0, ""))
    assert own.epoch == 1
    own.party.wait(DAY)
    own.send(lambda _: (0, ""))
    assert own.epoch > 1


@pytest.mark.parametrize("answer", [(404, "nginx"), (403, ""), (302, ""), (400, "no"), (200, "hello"), (409, "many")])
def test_what_a_proxy_says_is_no_answer_of_a_witness_that_has_cosigned(own: Own, answer: tuple[int, str]) -> None:
    own.send()
    own.grow("a")
    backup = own.party.backup()
    own.grow("b", "c")
    own.party.restore(backup)
    own.start()
    own.party.record("another b", "another c")
    own.send(lambda _: answer)
    own.party.sign()
    assert own.signed() == 1
    own.party.wait(10)
    assert own.send() == [409]
    assert own.epoch > 1
    assert own.has_one_past()


@pytest.mark.parametrize(("status", "text", "said", "signed"), [
    (404, "unknown log\n", "HTTP status 404: unknown log", 1),
    (403, "no known key\n", "HTTP status 403: no known key", 1),
    (302, "", "HTTP status 302: it does not say why", 0),
    (200, "\u2014 somebody AAAAAAAA\n", "no cosignature that holds", 0),
    (409, "many\n", "does not say which size it holds", 0),
])  # fmt: skip
def test_a_refusal_is_said_once_and_only_of_a_witness_that_never_knew_the_log_it_holds_nothing_up(
    own: Own, status: int, text: str, said: str, signed: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            own.send(lambda _: (status, text))
            own.party.wait(600)
    assert [said in one.message for one in caplog.records] == [True]
    own.party.record("a")
    own.party.sign()
    assert (own.signed(), own.epoch) == (signed, 1)
    own.party.wait(600)
    assert own.send() == [409 if signed else 200]        # it has learned the log meanwhile, and holds nothing
    own.party.sign()
    assert own.send() == [200]
    assert own.verified().anchored_to == 1
