"""Verifying a record with what other parties say now that they hold of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fate_flow.cli.audit.record_reports import BROKEN, print_reports, read_report
from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.record.entry import OWN_LOG, log_with
from fate_flow.core.wire.v1.paths import HELD
from fate_flow.core.wire.v1.witnessing import Held
from fate_flow.services.record.anchoring import verify_all
from fate_flow.services.record.asking import HeldNow, ask_what_is_held, held_epochs, parties_to_ask
from fate_flow.services.record.verifying import Keys, LogReport, State
from tests.kit.core.signers import has_signed
from tests.kit.services.witness_parties import WitnessParty, two_parties

WITH = log_with("10000")


@pytest.fixture
def parties() -> tuple[WitnessParty, WitnessParty]:
    guest, host = two_parties()
    guest.record("a", "b")
    guest.record_with("10000", "c", "d")
    guest.cosigned_by(host)
    return guest, host


def verified(guest: WitnessParty, held: Held) -> dict[tuple[str, int], LogReport]:
    keys = Keys(guest.keys.root, (guest.keys.own.key.key,), (), has_signed)
    with guest.store.reading() as tx:
        found = verify_all(tx, keys, HeldNow(77, {"10000": held}))
    return {(one.log, one.epoch): one for one in found}


def test_what_another_party_holds_now_anchors_the_logs(parties: tuple[WitnessParty, WitnessParty]) -> None:
    """The cosignatures that are kept do not count in this case: the keys of no witness are known."""
    guest, host = parties
    found = verified(guest, host.witnessing.held_of("9999"))
    log, own = found[WITH, 1], found[OWN_LOG, 1]
    assert (log.state, log.anchored_to, log.anchored_by, log.anchored_at) == (State.ANCHORED, 3, "10000", 77)
    assert (own.state, own.anchored_to, own.anchored_by) == (State.ANCHORED, 2, "10000")


def test_an_older_state_of_the_whole_database_is_seen(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    backup = guest.backup()
    guest.record_with("10000", "e")
    guest.sign()
    guest.wait(60)
    guest.offer(host)
    guest.restore(backup)
    assert verified(guest, Held(()))[WITH, 1].state is State.CONSISTENT
    found = verified(guest, host.witnessing.held_of("9999"))[WITH, 1]
    assert (found.state, found.broken_at) == (State.BROKEN, 3)
    assert found.why == "party 10000 holds 4 entries of it now, and 3 are there"


def test_another_past_is_seen(parties: tuple[WitnessParty, WitnessParty]) -> None:
    _, host = parties
    other, _ = two_parties()
    other.record_with("10000", "another", "past", "of", "it")
    other.ask(host, "10001")
    found = verified(other, host.witnessing.held_of("9999"))[WITH, 1]
    assert (found.state, found.broken_at) == (State.BROKEN, 0)
    assert found.why == "party 10000 holds 3 entries of it now, with another root"


def test_an_epoch_that_is_not_here_is_seen(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    before = guest.backup()
    older = WitnessParty("9999", "10000").backup()
    guest.restore(older)
    guest.record_with("10000", "x")
    guest.cosigned_by(host)                      # the log has begun anew, since the other party was ahead
    epoch = guest.server.now // 1000
    guest.restore(before)
    found = verified(guest, host.witnessing.held_of("9999"))
    assert found[WITH, epoch].state is State.BROKEN
    assert "of this epoch now, and none are there" in found[WITH, epoch].why


def test_what_an_epoch_has_declared_as_lost_is_not_held_against_it(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    backup = guest.backup()
    guest.record_with("10000", "e")
    guest.sign()
    guest.wait(60)
    guest.offer(host)
    guest.restore(backup)
    guest.cosigned_by(host)
    found = verified(guest, host.witnessing.held_of("9999"))
    assert {one.state for (log, _), one in found.items() if log == WITH} == {State.CONSISTENT, State.ANCHORED}


def test_an_acknowledged_message_that_is_not_here_is_named(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    held = host.witnessing.held_of("9999")
    found = verified(guest, Held(held.notes, ("ab" * 16,)))[WITH, 1]
    assert (found.state, found.broken_at, found.why) == (State.ANCHORED, -1, "")
    said = "party 10000 says that this party has acknowledged 1 message of it that the log does not have"
    assert found.warning == said
    assert read_report(found.as_document()) == found


def test_the_bare_word_of_another_party_is_a_warning_and_changes_no_exit_code(
    parties: tuple[WitnessParty, WitnessParty], capsys: pytest.CaptureFixture[str]
) -> None:
    guest, host = parties
    held, made_up = host.witnessing.held_of("9999"), ("made up",)
    for notes in (held.notes, ()):
        codes = []
        for acknowledged in ((), made_up):
            found = tuple(verified(guest, Held(notes, acknowledged)).values())
            codes.append(print_reports(found, False, has_keys=True, has_evidence=False, unheard={}))
        assert codes[0] == codes[1] != BROKEN
        printed = capsys.readouterr()
        assert printed.err.count("warning: party 10000 says that") == 1
        assert "BROKEN" not in printed.out


def test_a_checkpoint_that_this_party_has_not_signed_is_no_word(parties: tuple[WitnessParty, WitnessParty]) -> None:
    guest, host = parties
    held = host.witnessing.held_of("9999")
    assert held_epochs(held, "10000", (host.keys.own.key.key,), has_signed) == {}
    for text in ("no note", *(one.replace("with/10000/1", "with/10000/1\ud800") for one in held.notes)):
        assert held_epochs(Held((text,)), "10000", (guest.keys.own.key.key,), has_signed) == {}
    assert held_epochs(held, "10001", (guest.keys.own.key.key,), has_signed) == {}
    assert list(held_epochs(held, "10000", (guest.keys.own.key.key,), has_signed)) == [1]


def test_all_are_asked_and_who_has_not_answered_is_named() -> None:
    asked: list[tuple[str, str]] = []

    def ask(to: Party, path: str, _: Mapping[str, Any]) -> Answer:
        asked.append((to.party_id, path))
        return Answer(0, data={"checkpoints": ["note"]}) if to.party_id == "1" else Answer(UNREACHABLE, "no answer")

    found = ask_what_is_held(("1", "2"), ask, 5_000)
    assert sorted(asked) == [("1", HELD), ("2", HELD)]
    assert found == HeldNow(5, {"1": Held(("note",))}, {"2": "no answer"})
    assert ask_what_is_held((), ask, 5_000) == HeldNow(5)


def test_only_parties_whose_keys_count_and_that_can_be_reached_are_asked() -> None:
    guest, _ = two_parties()
    with guest.store.reading() as tx:
        assert parties_to_ask(tx, frozenset({"10000", "10001"})) == ("10000",)
        assert parties_to_ask(tx, ()) == ()
