"""A copy of a job that its initiator knows nothing of any more: asked about, and ended as the initiator says."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus
from fate_flow.services.participant.standing import take_standing
from fate_flow.services.use_cases.use_cases import UseCases
from tests.kit.services.hand_maintenance import RULES, Watched
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import HOLD, JOIN, RUN, a_host
from tests.kit.values import ELSE_ID, GUEST, JOB_ID

K = CommandKind
ASKED = Command(K.STANDING, JOB_ID, GUEST)


def asked_of(host: HandServer) -> list[str]:
    return [one.job_id for one in host.outbox() if one.kind is K.STANDING]


def use_cases_of(host: HandServer) -> UseCases:
    return UseCases(host.context, lambda *_: None, 2, 30.0)


def described(host: HandServer, data: Any, run: int = 0) -> None:
    with host.unit() as unit:
        take_standing(unit, Command(K.STANDING, JOB_ID, GUEST, run), Answer(data=data))
        host.settle(unit)


def test_a_job_that_runs_here_and_is_twice_not_named_is_asked_about() -> None:
    host = a_host(*RUN)
    use_cases = use_cases_of(host)
    for jobs in ([(JOB_ID, 0)], [(ELSE_ID, 0)], [(JOB_ID, 0)], [(ELSE_ID, 0)]):
        use_cases.commands.heartbeat("9999", jobs)
    assert asked_of(host) == []
    use_cases.commands.heartbeat("9999", [])
    assert asked_of(host) == [JOB_ID]
    use_cases.commands.heartbeat("9999", [])
    assert asked_of(host) == [JOB_ID], "not with each heartbeat"


def test_what_waits_or_is_another_initiators_is_no_reason_to_ask_at_a_heartbeat() -> None:
    for host, caller in ((a_host(*HOLD), "9999"), (a_host(*RUN), "10001")):
        use_cases = use_cases_of(host)
        for _ in range(3):
            use_cases.commands.heartbeat(caller, [])
        assert asked_of(host) == []


def test_a_job_that_waits_here_is_asked_about_now_and_then() -> None:
    watched = Watched(a_host(*JOIN, rules=RULES))
    watched.run()
    watched.after(60)
    assert asked_of(watched.server) == []
    watched.after(1)
    assert asked_of(watched.server) == [JOB_ID]
    watched.after(30)
    watched.after(61)
    assert asked_of(watched.server) == [JOB_ID] * 2


@pytest.mark.parametrize(
    ("data", "status", "reason", "cause"),
    [
        ({"run": 0, "status": "success", "reason": "done"}, JobStatus.SUCCESS, Reason.DONE, "guest 9999"),
        ({"run": 0, "status": "failed", "reason": "party_unreachable", "message": "gone", "caused_by": "host 10000"},
         JobStatus.FAILED, Reason.PARTY_UNREACHABLE, "host 10000"),
        ({"run": 2, "status": "running"}, JobStatus.CANCELED, Reason.STOPPED, "guest 9999"),
        ({"is_unknown": True}, JobStatus.FAILED, Reason.INITIATOR_LOST, "guest 9999"),
    ],
)
@pytest.mark.parametrize("commands", [RUN, JOIN, HOLD], ids=["runs", "waits", "holds"])
def test_it_ends_as_its_initiator_says_and_its_cores_come_back(
    commands: tuple[Command, ...], data: Any, status: JobStatus, reason: Reason, cause: str
) -> None:
    host = a_host(*commands)
    described(host, data)
    assert (host.job().status, host.job().reason, host.job().caused_by) == (status, reason, cause)
    assert (host.job().holds, host.free_cores()) == (False, 8)
    assert host.task().is_final


@pytest.mark.parametrize("data", [{"is_unknown": True}, {"run": 0, "status": "failed", "reason": "party_refused"}])
def test_one_that_was_never_accepted_everywhere_goes_without_a_trace(data: Any) -> None:
    host = a_host(*JOIN[:1])
    described(host, data)
    assert host.job_or_none() is None


@pytest.mark.parametrize(
    "data",
    [{"run": 0, "status": "running"}, {"run": 0, "status": "waiting"}, {"run": -1, "status": "failed"}, {}, None, "x",
     {"run": 0, "status": "nonsense"}, {"run": "1", "status": "failed"}],
)  # fmt: skip
def test_what_is_not_over_there_goes_on_here(data: Any) -> None:
    host = a_host(*RUN)
    described(host, data)
    assert host.job().status is JobStatus.RUNNING


def test_an_answer_about_another_run_or_to_the_initiator_itself_means_nothing() -> None:
    host = a_host(*RUN)
    described(host, {"is_unknown": True}, run=1)
    assert host.job().status is JobStatus.RUNNING


def test_the_initiator_says_how_its_job_stands() -> None:
    guest = HandServer("9999")
    [answer] = use_cases_of(guest).commands.carry_out([ASKED], "10000")
    assert answer == Answer(data={"is_unknown": True})
    copy = a_host(*RUN)
    [answer] = use_cases_of(copy).commands.carry_out([ASKED], "10000")
    assert answer == Answer(data={"is_unknown": True}), "a copy is not the job"


def test_a_stop_of_what_is_over_at_its_initiator_ends_the_copy() -> None:
    guest = HandServer("9999")
    ask_stop = Command(K.ASK_STOP, JOB_ID, GUEST, argument="canceled")
    [answer] = use_cases_of(guest).commands.carry_out([ask_stop], "10000")
    assert (answer.is_ok, answer.data) == (True, {"is_unknown": True})
    host = a_host(*RUN)
    described(host, answer.data)
    assert host.job().is_final


def test_a_run_that_is_older_here_than_at_its_initiator_is_over_for_it() -> None:
    host = a_host(*RUN)
    reply = use_cases_of(host).commands.heartbeat("9999", [(JOB_ID, 1)])
    assert list(reply.ended) == [JOB_ID]
