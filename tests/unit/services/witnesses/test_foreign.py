"""Witnesses of the configuration: asked before the first signature, and a restored backup accuses nobody."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from fate_flow.core.record.entry import OWN_LOG
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
        party.cosigning.others, self.foreign.hears_a_party = self.foreign, party.cosigning.hears_a_party
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


def test_a_silent_witness_holds_the_own_log_up_for_a_minute_if_a_party_has_answered() -> None:
    guest, host = two_parties()
    own = Own(guest)
    guest.record("a")
    guest.record_with("10000", "b")
    guest.ask(host, "10000")
    assert own.send(lambda _: (0, "")) == [0]
    guest.sign()
    assert own.signed() == 0
    guest.wait(60)
    guest.sign()
    assert own.signed() == 1
    guest.wait(10)
    assert own.send(lambda _: (503, "")) == [503]
    assert own.epoch == 1


def test_a_witness_that_is_silent_for_a_day_is_given_up(own: Own) -> None:
    own.party.record("a")
    own.party.sign()
    own.send(lambda _: (0, ""))
    own.party.wait(DAY)
    own.send(lambda _: (0, ""))
    assert own.epoch > 1
    own.party.sign()
    assert own.signed() > 0


@pytest.mark.parametrize(("status", "text", "said"), [
    (404, "unknown log\n", "HTTP status 404: unknown log"),
    (200, "\u2014 somebody AAAAAAAA\n", "no cosignature that holds"),
    (409, "many\n", "does not say which size it holds"),
])  # fmt: skip
def test_a_refusal_is_said_once_and_holds_nothing_up(
    own: Own, status: int, text: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            own.send(lambda _: (status, text))
            own.party.wait(600)
    assert [said in one.message for one in caplog.records] == [True]
    own.party.record("a")
    own.party.sign()
    assert (own.signed(), own.epoch, own.verified().state) == (1, 1, State.CONSISTENT)
    own.party.wait(600)
    assert own.send() == [409]           # it has learned the log meanwhile, and holds nothing
    assert own.send() == [200]
