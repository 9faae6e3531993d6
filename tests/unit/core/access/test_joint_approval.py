"""Two people approve the same document: what each approval changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.access.joint_approval import joint_consent
from fate_flow.core.model.approval import Approval, ApprovalRule, Consent

ONE, TWO = ApprovalRule(required=True), ApprovalRule(required=True, people=2)
ASKED = Consent(Approval.PENDING)
ANNA = Consent(Approval.APPROVED, "anna", "contract 7", 5, "d" * 64)
BOB = Consent(Approval.APPROVED, "bob (robert)", "", 6, "d" * 64)
FIRST = replace(ANNA, approval=Approval.PENDING)


def test_one_person_is_enough_where_one_is_asked() -> None:
    assert joint_consent(ONE, ASKED, ANNA) is ANNA
    assert not ANNA.is_first


def test_the_first_of_two_is_remembered_and_decides_nothing() -> None:
    found = joint_consent(TWO, ASKED, ANNA)
    assert found == FIRST
    assert (found.is_given, found.is_of(ANNA.digest), found.is_first) == (False, False, True)
    assert found.text == "approved, as the first of two people, by anna: contract 7"


def test_the_second_one_decides() -> None:
    found = joint_consent(TWO, FIRST, BOB)
    assert found == Consent(Approval.APPROVED, "anna and bob", "contract 7", 6, "d" * 64)
    assert found.is_of("d" * 64)
    both = joint_consent(TWO, FIRST, replace(BOB, message="seen"))
    assert both.text == "approved by anna and bob: contract 7; seen"


@pytest.mark.parametrize("by", ["anna", "anna (bob)", "anna (anna and bob)"])
def test_the_same_person_twice_is_one_whatever_name_it_gives(by: str) -> None:
    assert joint_consent(TWO, FIRST, replace(BOB, by=by)) is FIRST
    named = replace(FIRST, by="anna (ann)")
    assert joint_consent(TWO, named, replace(BOB, by=by)) is named


def test_both_have_to_approve_the_same_document() -> None:
    other = replace(BOB, digest="e" * 64)
    assert joint_consent(TWO, FIRST, other) == replace(other, approval=Approval.PENDING)


def test_who_was_rejected_needs_two_again() -> None:
    rejected = replace(BOB, approval=Approval.REJECTED)
    assert joint_consent(TWO, rejected, ANNA) == FIRST
    assert joint_consent(TWO, FIRST, rejected) is rejected, "one person is enough to reject"


def test_what_was_approved_stays_so() -> None:
    """By two people, or by one before the configuration asked for two."""
    assert joint_consent(TWO, ANNA, BOB) is ANNA
    assert joint_consent(TWO, replace(ANNA, digest="e" * 64), BOB).is_first, "it was another document"
