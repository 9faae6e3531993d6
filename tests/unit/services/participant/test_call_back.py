"""Whether a party reaches an initiator, before it takes part in its jobs."""

from __future__ import annotations

import threading

import pytest

from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.status import JobStatus
from fate_flow.core.wire.v1.queries import CALL_BACK
from fate_flow.server.other_parties.inquirers import call_backs_at_once, waiting_at_once
from fate_flow.services.participant.call_back import CallBack, is_silent_to
from fate_flow.services.use_cases.use_cases import UseCases
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import JOIN, command, create
from tests.kit.values import JOB_ID

REFUSED = "connection refused"
SAID = f"cannot reach party 9999: {REFUSED}"


def use_cases_of(host: HandServer, problem: str = REFUSED, asked: list[str] | None = None) -> UseCases:
    def reach(party_id: str) -> str:
        if asked is not None:
            asked.append(party_id)
        return problem

    return UseCases(host.context, lambda *_: None, 2, 30.0, reach=reach)


def test_a_party_that_cannot_reach_an_initiator_refuses_its_job_and_keeps_nothing() -> None:
    host = HandServer("10000")
    asked = create(**{CALL_BACK: True})
    [answer] = use_cases_of(host).commands.carry_out([asked], "9999")
    assert (answer.retcode, answer.retmsg) == (103, SAID)
    assert host.job_or_none() is None
    [answer] = use_cases_of(host, problem="").commands.carry_out([asked], "9999")
    assert (answer.is_ok, host.job().status) == (True, JobStatus.READY)


def test_validate_finds_it_beforehand() -> None:
    host = HandServer("10000")
    preview = use_cases_of(host).commands.preview(create(**{CALL_BACK: True}), "9999")
    assert (preview.retcode, preview.retmsg, preview.data) == (103, SAID, {"previewed": True})
    assert use_cases_of(host, problem="").commands.preview(create(**{CALL_BACK: True}), "9999").is_ok


def test_the_caller_is_asked_once_for_all_that_comes_with_one_request() -> None:
    host, asked = HandServer("10000"), list[str]()
    other = Command(CommandKind.CREATE, f"{JOB_ID[:-1]}9", create().to, body=create(**{CALL_BACK: True}).body)
    answers = use_cases_of(host, asked=asked).commands.carry_out([create(**{CALL_BACK: True}), other], "9999")
    assert ([one.retcode for one in answers], asked) == ([103, 103], ["9999"])


@pytest.mark.parametrize(
    "commands", [[create()], [create(**{CALL_BACK: "yes"})], [command(CommandKind.STOP, argument="failed")]]
)
def test_whoever_does_not_ask_for_it_is_not_called_back(commands: list[Command]) -> None:
    host, asked = HandServer("10000"), list[str]()
    assert use_cases_of(host, asked=asked).commands.carry_out(commands, "9999")[0].is_ok
    assert asked == []


def test_the_rest_of_a_batch_is_carried_out() -> None:
    host = HandServer("10000")
    for one in JOIN[:1]:
        assert host.handle(one).is_ok
    again = Command(CommandKind.CREATE, f"{JOB_ID[:-1]}9", create().to, body=create(**{CALL_BACK: True}).body)
    answers = use_cases_of(host).commands.carry_out([again, JOIN[1]], "9999")
    assert [one.retcode for one in answers] == [103, 0]
    assert host.job().status is JobStatus.WAITING


# ---------------------------------------------------------------------- how often and how many at once


def test_a_good_answer_holds_for_a_while_and_a_bad_one_does_not() -> None:
    answers, asked, now = ["", REFUSED, ""], list[str](), [0.0]

    def ask(party_id: str) -> str:
        asked.append(party_id)
        return answers.pop(0)

    call_back = CallBack(ask, is_silent=lambda _: False, seconds=10, monotonic=lambda: now[0])
    assert [call_back("9999"), call_back("9999")] == ["", ""]
    now[0] = 10.0
    assert [call_back("9999"), call_back("9999"), call_back("9999")] == [REFUSED, "", ""]
    assert len(asked) == 3


def test_a_good_answer_does_not_hold_once_the_scheduler_gets_none() -> None:
    """What the answer to a heartbeat says, the call back does not deny."""
    host, asked = HandServer("10000"), list[str]()

    def ask(party_id: str) -> str:
        asked.append(party_id)
        return REFUSED if len(asked) == 2 else ""

    call_back = CallBack(ask, is_silent_to(host.context), seconds=10, monotonic=lambda: 0.0)
    assert [call_back("9999"), call_back("9999"), len(asked)] == ["", "", 1]
    with host.store.transaction() as tx:
        tx.note_trouble(PeerTrouble("9999", silent_since=1_000, silence=REFUSED))
    assert [call_back("9999"), call_back("9999"), len(asked)] == [REFUSED, "", 3]
    with host.store.transaction() as tx:
        tx.note_trouble(PeerTrouble("9999", cut_off_since=1_000))     # it does not reach us, which is another matter
    assert [call_back("9999"), call_back("10001"), len(asked)] == ["", "", 4]


def test_only_so_many_wait_for_it_at_once_and_the_others_are_not_refused() -> None:
    is_asked, may_answer = threading.Event(), threading.Event()

    def ask(_: str) -> str:
        is_asked.set()
        assert may_answer.wait(90)
        return REFUSED

    call_back, found = CallBack(ask, is_silent=lambda _: False, most=1), list[str]()
    waiting = threading.Thread(target=lambda: found.append(call_back("9999")))
    waiting.start()
    assert is_asked.wait(90)
    assert call_back("10001") == "", "nobody knows"
    may_answer.set()
    waiting.join(90)
    assert found == [REFUSED]
    assert call_back("10001") == REFUSED


@pytest.mark.parametrize("threads", [4, 5, 8, 16, 32, 1024])
def test_a_handler_is_left_for_who_is_called_back_by_those_that_it_asks(threads: int) -> None:
    waiting, called = waiting_at_once(threads), call_backs_at_once(threads)
    assert min(waiting, called) >= 1
    assert waiting + called < threads
    assert threads != 32 or (waiting, called) == (24, 4)
