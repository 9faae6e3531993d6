"""A party on hold, and a party that approves jobs of others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.approval import Approval, ApprovalRule, Consent
from fate_flow.core.model.job import (
    Answer,
    Hold,
)
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.status import JobStatus
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import (
    HOLD,
    JOIN,
    a_host,
    command,
    create,
)
from tests.kit.values import JOB_ID, NOW

# ---------------------------------------------------------------------- a party on hold


def test_a_party_on_hold_reserves_nothing_new_and_says_why() -> None:
    host = a_host(*JOIN)
    with host.store.transaction() as tx:
        tx.hold_intake(Hold("maintenance", "ann", NOW, 0))
    for kind in (K.CHECK, K.APPLY):
        answer = host.handle(command(kind, turn=1))
        assert (answer.retcode, answer.retmsg) == (106, "on hold by ann: maintenance")
    assert not host.job().holds
    assert host.handle(create()).is_ok
    with host.store.transaction() as tx:
        tx.release_intake()
    assert host.handle(command(K.APPLY, turn=1)).is_ok


def test_what_a_party_on_hold_has_reserved_before_goes_on() -> None:
    host = a_host(*HOLD)
    with host.store.transaction() as tx:
        tx.hold_intake(Hold("maintenance", "ann", NOW, 0))
    assert host.handle(command(K.APPLY, turn=1)).is_ok, "asked for again, so that its lease does not run out"
    assert host.handle(command(K.START, turn=1)).is_ok


# ---------------------------------------------------------------------- a party that approves jobs of others


ASKS = ApprovalRule(True, frozenset({"10001"}))


def decided(host: HandServer, approval: Approval, message: str = "") -> None:
    with host.store.transaction() as tx:
        assert tx.decide_consent(host.job().key, Consent(approval, "ann", message, NOW))


@pytest.mark.parametrize(
    ("rule", "caller", "own", "asks"),
    [
        (ASKS, "9999", "10000", True), (ASKS, "10001", "10000", False), (ASKS, "10000", "10000", False),
        (ApprovalRule(), "9999", "10000", False), (ApprovalRule(False, frozenset({"1"})), "9999", "10000", False),
    ],
)  # fmt: skip
def test_whose_jobs_have_to_be_approved(rule: ApprovalRule, caller: str, own: str, asks: bool) -> None:
    assert rule.asks(caller, own) is asks


def test_a_job_that_has_to_be_approved_is_taken_and_not_ready() -> None:
    host = a_host(approval=ASKS)
    for _ in range(2):
        answer = host.handle(create())
        assert (answer.retcode, answer.data["awaits"]) == (0, "approval")
    assert host.handle(replace(command(K.STATUS), argument="waiting")).is_ok
    for kind in (K.CHECK, K.APPLY):
        answer = host.handle(command(kind, turn=1))
        assert (answer.retcode, answer.data) == (106, {"awaits": "approval"})
        assert answer.retmsg == f"nobody at host 10000 has approved job {JOB_ID} yet"
    assert host.handle(command(K.START, turn=1)).retcode == 103
    decided(host, Approval.APPROVED, "contract 7")
    answer = host.handle(command(K.CHECK, turn=1))
    assert (answer.retcode, answer.data) == (0, {"approved": "approved by ann: contract 7"})
    assert host.handle(command(K.APPLY, turn=1)).is_ok
    assert "awaits" not in host.handle(create()).data


def test_a_rejected_job_is_refused_in_words() -> None:
    host = a_host(*JOIN, approval=ASKS)
    decided(host, Approval.REJECTED, "no budget")
    for kind in (K.CHECK, K.APPLY):
        answer = host.handle(command(kind, turn=1))
        assert (answer.retcode, answer.retmsg) == (103, "rejected by ann: no budget")
        assert answer.data == {"is_rejected": True}


def test_an_initiator_that_speaks_plain_v1_waits_too() -> None:
    host = a_host(approval=ASKS)
    body = {key: value for key, value in create().body.items() if key not in ("extensions", "incarnations")}
    assert host.handle(replace(create(), body=body)).is_ok
    assert host.handle(replace(command(K.STATUS), argument="waiting")).is_ok
    assert host.handle(command(K.CHECK)).retcode == 106
    decided(host, Approval.APPROVED)
    assert host.handle(command(K.CHECK)) == Answer(), "it would not understand who has approved it"


def test_an_approval_is_of_the_job_and_holds_for_its_next_run() -> None:
    host = a_host(*JOIN, approval=ASKS)
    decided(host, Approval.APPROVED)
    assert host.handle(replace(command(K.STATUS), argument="failed")).is_ok
    with host.store.transaction() as tx:
        tx.begin_again(host.job(), 1, 0, "")
    assert host.handle(replace(command(K.CHECK, turn=2), run=1)).is_ok


def test_a_rejection_that_crosses_a_reservation_is_found_at_the_start() -> None:
    host = a_host(*JOIN, approval=ASKS)
    decided(host, Approval.REJECTED, "no budget")
    with host.store.transaction() as tx:
        assert tx.reserve(host.job().key, "local", 2, 0, "token", 1, NOW)
    assert host.handle(command(K.START, turn=1)).retmsg == "rejected by ann: no budget"
    assert host.job().status is JobStatus.WAITING
