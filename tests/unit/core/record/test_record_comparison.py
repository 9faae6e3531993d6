"""The outcome of a comparison: nobody is accused by loss, and each lie leads to its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.record.checkpoint import Checkpoint
from fate_flow.core.record.comparison import Outcome, Side, compare, equivocations

SENT = {"kind": "sent", "number": "1", "request": "r", "at": 10}
ANSWERED = {"kind": "answered", "number": "1", "answer": "a", "acknowledged": True, "at": 20}
RECEIVED = {"kind": "received", "number": "1", "request": "r", "answer": "a", "at": 15}
LATER = {"kind": "sent", "number": "2", "request": "s", "at": 30}
LATER_RECEIVED = {"kind": "received", "number": "2", "request": "s", "answer": "b", "at": 35}


def side(party_id: str, *entries: Mapping[str, Any], lost: bool = False) -> Side:
    return Side(party_id, {(1, index): one for index, one in enumerate(entries)}, lost)


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
    found = outcome(side("1", SENT, ANSWERED, LATER), side("2", LATER_RECEIVED, lost=True))

    assert found == (Outcome.IN_DOUBT, ())


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
