"""The outcome of a comparison: nobody is accused by loss, and each lie leads to its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.record.checkpoint import Checkpoint
from fate_flow.core.record.comparison import Outcome, Side, compare, equivocations

SENT = {"kind": "sent", "number": "1", "request": "r", "at": 10}
ANSWERED = {"kind": "answered", "number": "1", "answer": "a", "acknowledged": True, "at": 20}
RECEIVED = {"kind": "received", "number": "1", "request": "r", "answer": "a", "at": 15}
LATER = {"kind": "sent", "number": "2", "request": "s", "at": 30}
LATER_RECEIVED = {"kind": "received", "number": "2", "request": "s", "answer": "b", "at": 35}


def side(party_id: str, *entries: Mapping[str, Any], epoch: int = 1) -> Side:
    return Side(party_id, {(epoch, index): one for index, one in enumerate(entries)})


def outcome(ours: Side, theirs: Side) -> tuple[Outcome, tuple[str, ...]]:
    """Of message 1."""
    (found,) = (one for one in compare(ours, theirs) if one.number == "1")
    (seen,) = (one for one in compare(theirs, ours) if one.number == "1")
    assert (found.outcome, set(found.accused)) == (seen.outcome, set(seen.accused)), "both sides find the same"
    return found.outcome, found.accused


def test_a_message_that_both_have_is_agreed() -> None:
    assert outcome(side("1", SENT, ANSWERED), side("2", RECEIVED)) == (Outcome.AGREED, ())


def test_a_message_without_an_answer_is_agreed_if_the_other_side_has_it() -> None:
    assert outcome(side("1", SENT), side("2", RECEIVED)) == (Outcome.AGREED, ())


def test_a_lost_message_accuses_nobody() -> None:
    assert outcome(side("1", SENT), side("2")) == (Outcome.IN_DOUBT, ())


def test_a_refusal_that_was_not_recorded_accuses_nobody() -> None:
    refused = {**ANSWERED, "acknowledged": False}

    assert outcome(side("1", SENT, refused), side("2")) == (Outcome.IN_DOUBT, ())


def test_a_message_that_was_acknowledged_is_missing_if_what_was_sent_afterwards_is_there() -> None:
    found = outcome(side("1", SENT, ANSWERED, LATER), side("2", LATER_RECEIVED))

    assert found == (Outcome.MISSING, ("2",))


def test_a_message_that_the_other_log_is_too_old_for_accuses_nobody() -> None:
    assert outcome(side("1", SENT, ANSWERED), side("2")) == (Outcome.IN_DOUBT, ())
    assert outcome(side("1", SENT, ANSWERED, LATER), side("2")) == (Outcome.IN_DOUBT, ())


def test_a_message_that_was_sent_before_the_acknowledgement_proves_nothing() -> None:
    assert outcome(side("1", SENT, LATER, ANSWERED), side("2", LATER_RECEIVED)) == (Outcome.IN_DOUBT, ())


def test_a_party_that_has_said_that_it_lost_a_part_is_not_accused_of_it() -> None:
    found = outcome(side("1", SENT, ANSWERED, LATER), side("2", {**EPOCH, "at": 25}, LATER_RECEIVED, epoch=9))

    assert found == (Outcome.IN_DOUBT, ())


BEFORE = {"kind": "sent", "number": "0", "request": "q", "at": 1}
BEFORE_ANSWERED = {"kind": "answered", "number": "0", "answer": "z", "acknowledged": True, "at": 5}
BEFORE_RECEIVED = {"kind": "received", "number": "0", "request": "q", "answer": "z", "at": 3}
EPOCH = {"kind": "epoch", "at": 2}
OURS = side("1", BEFORE, BEFORE_ANSWERED, SENT, ANSWERED, LATER)


def test_what_was_sent_after_an_answer_of_the_new_epoch_cannot_have_been_lost_with_the_old_one() -> None:
    theirs = side("2", EPOCH, BEFORE_RECEIVED, LATER_RECEIVED, epoch=9)

    assert outcome(OURS, theirs) == (Outcome.MISSING, ("2",))


@pytest.mark.parametrize(
    "theirs",
    [
        pytest.param([{**EPOCH, "lost": [{}, "1"]}, BEFORE_RECEIVED, LATER_RECEIVED], id="it is named as lost"),
        pytest.param([{**EPOCH, "lost": ["2"]}, BEFORE_RECEIVED], id="nothing later is there"),
        pytest.param([{**EPOCH, "at": 4}, BEFORE_RECEIVED, LATER_RECEIVED], id="recorded before, sealed afterwards"),
        pytest.param([EPOCH, LATER_RECEIVED], id="no answer of the new epoch came before it was sent"),
    ],
)
def test_what_may_have_been_lost_with_the_old_epoch_accuses_nobody(theirs: list[Mapping[str, Any]]) -> None:
    assert outcome(OURS, side("2", *theirs, epoch=9)) == (Outcome.IN_DOUBT, ())


def test_another_answer_to_what_arrived_again_after_a_loss_accuses_nobody() -> None:
    theirs = side("2", {**EPOCH, "lost": ["1"]}, {**RECEIVED, "answer": "again"}, epoch=9)
    assert outcome(side("1", SENT, ANSWERED), theirs) == (Outcome.IN_DOUBT, ())


def test_what_was_sent_again_after_a_loss_accuses_nobody() -> None:
    ours = side("1", BEFORE, SENT, ANSWERED, BEFORE_ANSWERED, LATER)
    assert outcome(ours, side("2", EPOCH, BEFORE_RECEIVED, LATER_RECEIVED, epoch=9)) == (Outcome.IN_DOUBT, ())


def test_a_message_that_was_received_in_both_epochs_says_nothing_of_the_new_one() -> None:
    there = {(1, 0): BEFORE_RECEIVED, (9, 0): EPOCH, (9, 1): BEFORE_RECEIVED, (9, 2): LATER_RECEIVED}
    assert outcome(OURS, Side("2", there)) == (Outcome.IN_DOUBT, ())


def test_what_was_acknowledged_before_a_message_that_is_named_as_lost_may_be_lost_too() -> None:
    last = {**LATER, "number": "3"}
    last_received = {**LATER_RECEIVED, "number": "3"}
    ours = side("1", BEFORE, BEFORE_ANSWERED, SENT, ANSWERED, LATER, {**ANSWERED, "number": "2"}, last)
    there = side("2", {**EPOCH, "lost": ["2"]}, BEFORE_RECEIVED, last_received, epoch=9)
    assert outcome(ours, there) == (Outcome.IN_DOUBT, ())


def test_the_word_of_the_receiver_alone_accuses_nobody() -> None:
    assert outcome(side("1"), side("2", RECEIVED)) == (Outcome.IN_DOUBT, ())


def test_two_contents_of_a_request_or_an_answer_are_altered() -> None:
    assert outcome(side("1", SENT, ANSWERED), side("2", {**RECEIVED, "request": "x"}))[0] is Outcome.ALTERED
    assert outcome(side("1", SENT, ANSWERED), side("2", {**RECEIVED, "answer": "x"}))[0] is Outcome.ALTERED


def test_a_repeated_message_has_the_answer_that_arrived_among_those_that_were_given() -> None:
    again = {**RECEIVED, "answer": "not yet"}

    assert outcome(side("1", SENT, ANSWERED), side("2", again, RECEIVED)) == (Outcome.AGREED, ())


def test_nobody_can_number_a_message_of_the_other_party() -> None:
    assert outcome(side("1", SENT, ANSWERED), side("2", RECEIVED, {**SENT, "request": "x"}))[0] is Outcome.AGREED


def test_entries_about_other_things_are_left_out() -> None:
    assert compare(side("1", {"kind": "head", "at": 1}, {"kind": "sent", "at": 1}), side("2")) == ()


def test_a_finding_names_the_entries_that_show_it() -> None:
    (found,) = compare(side("1", {"kind": "head", "at": 1}, SENT, ANSWERED), side("2", RECEIVED))

    assert (found.ours, found.theirs) == (((1, 1), (1, 2)), ((1, 0),))


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()), max_size=12))
def test_honest_parties_are_never_accused(messages: list[tuple[bool, bool, bool, bool]]) -> None:
    """Each message may be lost on its way, its answer may be lost, it may be repeated, and either party may send it."""
    one: list[dict[str, Any]] = []
    two: list[dict[str, Any]] = []
    for number, (arrives, is_answered, is_repeated, is_other_way) in enumerate(messages):
        sender, receiver = (two, one) if is_other_way else (one, two)
        name = {"number": f"{is_other_way} {number}"}
        sender.append({**SENT, **name})
        for _ in range(1 + is_repeated if arrives else 0):
            receiver.append({**RECEIVED, **name})
        if arrives and is_answered:
            sender.append({**ANSWERED, **name})

    found = compare(side("1", *one), side("2", *two))

    assert len(found) == len(messages)
    assert not [finding for finding in found if finding.accused]
    agreed = sum(arrives for arrives, *_ in messages)
    assert sum(finding.outcome is Outcome.AGREED for finding in found) == agreed


def test_two_roots_for_one_size_are_an_equivocation() -> None:
    one, two = Checkpoint("log", 3, bytes(32)), Checkpoint("log", 3, b"x" * 32)
    other, later = Checkpoint("other", 3, b"x" * 32), Checkpoint("log", 4, b"x" * 32)

    assert equivocations([one, one, other, later], "2") == ()
    (found,) = equivocations([one, two, later], "2")
    assert (found.outcome, found.accused) == (Outcome.EQUIVOCATION, ("2",))
