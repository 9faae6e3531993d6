"""What the answer to a job command means for the seat it went to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.errors import NOT_EFFECTIVE, NOT_READY, UNREACHABLE
from fate_flow.core.model.job import Blocker, Command, CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import SeatStatus, check_move
from fate_flow.core.planning.actions import InviteAgain, MoveSeat, NameUnconfirmed, NoteApproval, Send
from fate_flow.core.planning.replies import ReplyOutcome, handle_reply
from tests.kit.values import HOST, JOB_ID, a_seat

S = SeatStatus
AWAITED = {
    (CommandKind.CREATE, S.JOINING), (CommandKind.CHECK, S.CHECKING), (CommandKind.APPLY, S.APPLYING),
    (CommandKind.START, S.STARTING), (CommandKind.STOP, S.STOPPING), (CommandKind.STATUS, S.LEAVING),
    (CommandKind.STATUS, S.UNCONFIRMED),
}  # fmt: skip
RETCODES = [0, NOT_EFFECTIVE, 100, 101, 102, 103, UNREACHABLE, NOT_READY, 108, 500]


def handled(
    kind: CommandKind, status: SeatStatus, retcode: int = 0, message: str = "m", data: Any = None, run: int = 0,
    **body: Any,
) -> ReplyOutcome:  # fmt: skip
    command = Command(kind, JOB_ID, HOST, run, body={"turn": 7, **body})
    outcome = handle_reply(a_seat(HOST, status), command, retcode, message, data)
    for action in outcome.actions:
        if isinstance(action, MoveSeat):
            check_move(status, action.new)
    return outcome


def moved(outcome: ReplyOutcome) -> tuple[SeatStatus, str]:
    [move] = [action for action in outcome.actions if isinstance(action, MoveSeat)]
    return move.new, move.message


def sent(outcome: ReplyOutcome) -> list[tuple[CommandKind, object]]:
    return [
        (action.command.kind, action.command.body.get("turn")) for action in outcome.actions if isinstance(action, Send)
    ]


PARAMETERS = tuple((CommandKind.PARAMETERS, status) for status in (S.JOINING, S.JOINED, S.CHECKING))
"""Where a party that does not agree to other parameters is heard."""


def is_refused_again(kind: CommandKind, status: SeatStatus, retcode: int) -> bool:
    """A renewal, an invitation that was sent once more, an apply in vain, or other parameters."""
    if (kind, status) in PARAMETERS:
        return retcode not in (0, UNREACHABLE, NOT_EFFECTIVE)
    if (kind, status) == (CommandKind.APPLY, S.JOINED):      # after a check that failed
        return retcode in (0, UNREACHABLE)
    again = ((CommandKind.APPLY, S.HELD), (CommandKind.CREATE, S.JOINED))
    return (kind, status) in again and retcode not in (0, UNREACHABLE)


def test_a_party_that_has_removed_the_job_is_sent_it_again() -> None:
    gone = handled(CommandKind.CHECK, S.CHECKING, 103, data={"is_unknown": True})
    assert moved(gone) == (S.JOINED, "had removed the job, which is sent again")
    assert [action for action in gone.actions if isinstance(action, InviteAgain)]
    assert gone.stop is None


def test_an_invitation_that_is_refused_the_second_time_ends_the_job() -> None:
    refused = handled(CommandKind.CREATE, S.JOINED, 103)
    assert (refused.stop, refused.actions) == (Reason.PARTY_REFUSED, ())


def test_a_renewal_that_is_refused_is_a_hold_that_is_lost() -> None:
    lost = handled(CommandKind.APPLY, S.HELD, 103, data={"why": "has 0 of 4 cores free, 2 asked"})
    assert moved(lost) == (S.JOINED, "lost what it held: has 0 of 4 cores free, 2 asked")
    assert sent(lost) == []


@pytest.mark.parametrize("kind", CommandKind)
def test_only_an_answer_that_the_seat_waits_for_means_anything(kind: CommandKind) -> None:
    for status in SeatStatus:
        for retcode in RETCODES:
            is_awaited = (kind, status) in AWAITED or is_refused_again(kind, status, retcode)
            assert (handled(kind, status, retcode) != ReplyOutcome()) is is_awaited, (status, retcode)


@pytest.mark.parametrize(("kind", "status"), sorted(AWAITED, key=str))
def test_an_answer_to_another_run_means_nothing(kind: CommandKind, status: SeatStatus) -> None:
    assert handled(kind, status, run=1) == ReplyOutcome()


@pytest.mark.parametrize("retcode", RETCODES)
def test_whoever_does_not_accept_has_refused(retcode: int) -> None:
    expected = (S.JOINED, "") if retcode == 0 else (S.REFUSED, "m")
    assert moved(handled(CommandKind.CREATE, S.JOINING, retcode)) == expected


def test_what_an_unanswered_create_may_have_made_is_to_go() -> None:
    outcome = handled(CommandKind.CREATE, S.JOINING, UNREACHABLE)
    [command] = [action.command for action in outcome.actions if isinstance(action, Send)]
    assert (command.kind, command.to, command.argument) == (CommandKind.STATUS, HOST, "failed")
    assert command.body == {"reason": "party_refused", "message": "m", "tag": "submit_failed"}


def test_a_party_that_has_refused_is_told_nothing_more() -> None:
    assert sent(handled(CommandKind.CREATE, S.JOINING, 103)) == []


def test_a_party_that_is_ready_is_asked_for_its_cores_in_the_same_turn() -> None:
    outcome = handled(CommandKind.CHECK, S.CHECKING)
    assert moved(outcome) == (S.APPLYING, "")
    assert sent(outcome) == [(CommandKind.APPLY, 7)]


def test_a_party_that_was_asked_for_its_cores_with_the_check_is_not_asked_again() -> None:
    outcome = handled(CommandKind.CHECK, S.CHECKING, is_applied_for=True)
    assert (moved(outcome), sent(outcome)) == ((S.APPLYING, ""), [])


@pytest.mark.parametrize("retcode", RETCODES)
def test_a_party_that_was_asked_with_create_is_held_if_it_has_reserved_and_else_asked_again(retcode: int) -> None:
    outcome = handled(CommandKind.APPLY, S.JOINED, retcode, is_ahead=True)
    assert outcome == ReplyOutcome((MoveSeat(a_seat(HOST, S.JOINED), S.HELD),) if retcode == 0 else ())


@pytest.mark.parametrize("retcode", RETCODES)
def test_the_approval_of_a_party_that_was_asked_with_create_is_noted(retcode: int) -> None:
    outcome = handled(CommandKind.CHECK, S.JOINED, retcode, data={"approved": "approved by ann"}, is_ahead=True)
    texts = [action.text for action in outcome.actions if isinstance(action, NoteApproval)]
    assert texts == (["approved by ann"] if retcode == 0 else [])
    assert len(outcome.actions) == len(texts)
    assert not handled(CommandKind.CHECK, S.JOINED, data={"approved": "approved by ann"}).actions, "a late answer"


@pytest.mark.parametrize("kind", [CommandKind.CHECK, CommandKind.APPLY])
def test_once_a_party_is_asked_as_usual_what_was_sent_with_create_means_nothing(kind: CommandKind) -> None:
    for status in set(SeatStatus) - {S.JOINED}:
        for retcode in RETCODES:
            assert handled(kind, status, retcode, is_ahead=True) == ReplyOutcome(), (status, retcode)


@pytest.mark.parametrize("retcode", RETCODES)
def test_what_was_reserved_although_the_check_failed_is_given_back(retcode: int) -> None:
    outcome = handled(CommandKind.APPLY, S.JOINED, retcode, order=4)
    assert sent(outcome) == ([(CommandKind.RETURN, 7)] if retcode in (0, UNREACHABLE) else [])
    assert len(outcome.actions) == len(sent(outcome))


@pytest.mark.parametrize(
    ("retcode", "text"), [(NOT_READY, "is not ready: m"), (UNREACHABLE, "does not answer: m")]
)
def test_a_party_that_is_not_ready_is_waited_for(retcode: int, text: str) -> None:
    outcome = handled(CommandKind.CHECK, S.CHECKING, retcode)
    assert moved(outcome) == (S.JOINED, text)
    assert (sent(outcome), outcome.stop) == ([], None)


@pytest.mark.parametrize("retcode", [NOT_EFFECTIVE, 100, 102, 103, 108, 500])
def test_any_other_answer_to_a_check_ends_the_job(retcode: int) -> None:
    outcome = handled(CommandKind.CHECK, S.CHECKING, retcode)
    assert outcome == ReplyOutcome(stop=Reason.DEPENDENCE_FAILED, message="host 10000: m")


def test_cores_that_were_reserved_are_held() -> None:
    outcome = handled(CommandKind.APPLY, S.APPLYING)
    assert (moved(outcome), sent(outcome)) == ((S.HELD, ""), [])


@pytest.mark.parametrize(
    ("message", "data", "text"),
    [
        ("m", {"why": "has 1 of 8 cores free, 2 asked"}, "has 1 of 8 cores free, 2 asked"),
        ("m", {}, "m"), ("m", None, "m"), ("m", "text", "m"), ("m", {"why": 7}, "m"), ("m", {"why": ""}, "m"),
        ("", {}, "refused"),                        # never empty: that would read as `asked again`
        ("", {"why": "\ud800\0"}, "??"),            # what no database takes
        ("m", {"why": "x" * 9_000}, "x" * 500),
    ],
)  # fmt: skip
def test_a_refusal_says_why(message: str, data: Any, text: str) -> None:
    outcome = handled(CommandKind.APPLY, S.APPLYING, 103, message, data)
    assert (moved(outcome), sent(outcome)) == ((S.JOINED, text), [])


@pytest.mark.parametrize(
    ("retcode", "data", "blocked_by"),
    [
        (103, {"why": "w", "free_cores": 1}, Blocker.CAPACITY), (103, None, Blocker.CAPACITY),
        (103, {"never": True}, Blocker.SIZE),
        (103, {"never": "true"}, Blocker.CAPACITY), (100, None, Blocker.ANSWER), (NOT_EFFECTIVE, None, Blocker.ANSWER),
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [S.APPLYING, S.HELD])
def test_a_refusal_says_what_is_lacking(status: SeatStatus, retcode: int, data: Any, blocked_by: Blocker) -> None:
    [move] = handled(CommandKind.APPLY, status, retcode, data=data).actions
    assert isinstance(move, MoveSeat)
    assert move.blocked_by is blocked_by


def test_what_an_unanswered_apply_may_have_reserved_is_given_back() -> None:
    outcome = handled(CommandKind.APPLY, S.APPLYING, UNREACHABLE)
    assert moved(outcome) == (S.JOINED, "does not answer: m")
    assert sent(outcome) == [(CommandKind.RETURN, 7)]


@pytest.mark.parametrize("retcode", RETCODES)
def test_a_start_that_was_refused_counts_as_a_refusal_to_reserve(retcode: int) -> None:
    expected = (S.STARTED, "") if retcode == 0 else (S.JOINED, "did not start: m")
    outcome = handled(CommandKind.START, S.STARTING, retcode)
    assert (moved(outcome), outcome.stop) == (expected, None)


@pytest.mark.parametrize("retcode", RETCODES)
def test_any_answer_to_a_stop_means_that_it_drains(retcode: int) -> None:
    assert moved(handled(CommandKind.STOP, S.STOPPING, retcode)) == (S.DRAINING, "")


@pytest.mark.parametrize(
    ("data", "reports"),
    [
        ({"tasks": [{"a": 1}, {"b": 2}]}, ({"a": 1}, {"b": 2})),
        ({"tasks": [{"a": 1}, "text", 5, None, ["x"]]}, ({"a": 1},)),
        ({"tasks": {"a": 1}}, ()), ({"tasks": None}, ()), ({}, ()), (None, ()), ([], ()),
    ],
)  # fmt: skip
def test_the_message_of_tasks_that_come_with_the_answer_to_a_stop(data: Any, reports: tuple) -> None:
    assert handled(CommandKind.STOP, S.STOPPING, 0, data=data).reports == reports


@pytest.mark.parametrize("retcode", RETCODES)
@pytest.mark.parametrize("status", [S.LEAVING, S.UNCONFIRMED])
def test_any_answer_to_the_end_means_that_it_knows(retcode: int, status: SeatStatus) -> None:
    assert moved(handled(CommandKind.STATUS, status, retcode)) == (S.LEFT, "")


@pytest.mark.parametrize(
    ("ended_as", "named"),
    [("success", False), ("failed", True), ("canceled", True), (None, False), ("", False)],
)
def test_a_party_that_had_ended_the_job_otherwise_is_named(ended_as: object, named: bool) -> None:
    described = Command(CommandKind.STATUS, JOB_ID, HOST, argument="success")
    actions = handle_reply(a_seat(HOST, S.LEAVING), described, 0, "success", {"ended_as": ended_as}).actions
    assert actions[0] == MoveSeat(a_seat(HOST, S.LEAVING), S.LEFT)
    assert actions[1:] == ((NameUnconfirmed(HOST, str(ended_as)),) if named else ())


@pytest.mark.parametrize("kind", [CommandKind.CHECK, CommandKind.APPLY])
def test_a_party_that_is_not_ready_is_waited_for_in_its_own_words(kind: CommandKind) -> None:
    status = S.CHECKING if kind is CommandKind.CHECK else S.APPLYING
    requeue_job = handled(kind, status, NOT_READY, "on hold by ann: maintenance")
    assert moved(requeue_job) == (S.JOINED, "is not ready: on hold by ann: maintenance")
    assert requeue_job.stop is None


@pytest.mark.parametrize(
    ("kind", "status", "retcode", "text"),
    [
        (CommandKind.CREATE, S.JOINING, 0, ""),
        (CommandKind.CHECK, S.CHECKING, NOT_READY, "has not approved it yet"),
        (CommandKind.APPLY, S.APPLYING, NOT_READY, "has not approved it yet"),
    ],
)
def test_a_party_that_wants_to_approve_first_is_known_for_it(
    kind: CommandKind, status: SeatStatus, retcode: int, text: str
) -> None:
    requeue_job = handled(kind, status, retcode, "nobody has", {"awaits": "approval"})
    assert requeue_job.actions == (MoveSeat(a_seat(HOST, status), S.JOINED, text, Blocker.APPROVAL),)


def test_the_words_of_an_approval_are_kept_once_and_forgotten_when_it_is_asked_for_anew() -> None:
    seat, text = a_seat(HOST, S.CHECKING), "approved by ann: contract 7"
    known = replace(seat, approval=text)
    check = Command(CommandKind.CHECK, JOB_ID, HOST)
    first, again = (handle_reply(one, check, 0, "", {"approved": text}) for one in (seat, known))
    assert first.actions[:2] == (NoteApproval(seat, text), MoveSeat(seat, S.APPLYING))
    assert [type(one) for one in again.actions] == [MoveSeat, Send]
    anew = handle_reply(known, check, 106, "not ready", {"awaits": "approval"})
    assert anew.actions[0] == NoteApproval(known, "")
    hostile = handle_reply(seat, check, 0, "", {"approved": ["x"]})
    assert [type(one) for one in hostile.actions] == [MoveSeat, Send]


@pytest.mark.parametrize(("kind", "status"), [(CommandKind.CHECK, S.CHECKING), (CommandKind.APPLY, S.APPLYING)])
def test_a_rejection_ends_the_job_with_its_reason(kind: CommandKind, status: SeatStatus) -> None:
    rejected = handled(kind, status, 103, "rejected by ann: no budget", {"is_rejected": True})
    assert (rejected.actions, rejected.stop) == ((), Reason.PARTY_REFUSED)
    assert rejected.message == "host 10000: rejected by ann: no budget"
