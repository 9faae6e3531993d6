"""What a party does when an initiator asks: each command, twice, late, wrong, and by the wrong caller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.access.authority import STATEMENTS, Speaker
from fate_flow.core.model.approval import Approval, ApprovalRule, Consent
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import (
    NOT_EFFECTIVE,
    Answer,
    Claim,
    Command,
    CommandKind,
    EngineState,
    Hold,
    JobKey,
    PendingRequest,
)
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.planning.replies import STILL_ENDS
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.peers.wire import ANY_RUN
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Rules
from fate_flow.services.participant.body_fields import plain_v1_incarnation
from fate_flow.services.participant.ends import end_job_here
from fate_flow.services.workers.elastic import PENDING_LASTS
from fate_flow.store.memory.store import MemoryTransaction
from fate_flow.store.values import Document
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import (
    DOCUMENT,
    HOLD,
    INCARNATIONS,
    JOIN,
    RUN,
    a_host,
    command,
    create,
    task_command,
)
from tests.kit.services.sights import FAILED, RUNS, STOPPED, made
from tests.kit.values import FRESH_ID, GUEST, HOST, JOB_ID, NOW, OTHER, a_job

K = CommandKind
START_A = task_command(K.TASK_START)


# ---------------------------------------------------------------------- everything twice


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        ((), create()),
        (JOIN[:1], command(K.STATUS, argument="waiting")),
        (JOIN, command(K.CHECK, turn=1)),
        (HOLD, command(K.RETURN, turn=1)),
        (HOLD, command(K.START)), (HOLD, command(K.START, turn=1)),
        (RUN, command(K.UPDATE, progress=40)),
        (RUN, START_A),
        ((*RUN, START_A), task_command(K.TASK_STOP, argument="canceled")),
        ((*RUN, START_A), command(K.STOP, argument="canceled", reason="stopped_by_user", message="m")),
        (RUN, command(K.STATUS, argument="success", reason="done")),
        (RUN, command(K.STATUS, argument="failed", reason="task_failed", message="m")),
        (JOIN[:1], command(K.STATUS, argument="failed", tag="submit_failed")),
        (RUN, task_command(K.TASK_STATUS, argument="running")),
        (RUN, task_command(K.TASK_CREATE, version=1, incarnation="c1" * 16, auto_retries=2)),
        (RUN, task_command(K.TASK_COLLECT)),
        (RUN, command(K.CLEAN)),
        (RUN, command(K.FIND_REUSABLE)),
    ],
)
def test_a_command_that_comes_twice_is_answered_the_same_and_changes_nothing_more(
    before: tuple[Command, ...], asked: Command
) -> None:
    host = a_host(*before)
    first = host.handle(asked)
    seen, launched = host.snapshot(), len(host.engine.launched)
    assert first.is_ok
    assert host.handle(asked) == first
    assert host.snapshot() == seen
    assert len(host.engine.launched) == launched


def test_a_job_that_rests_holds_nothing_and_waits() -> None:
    idle = a_host().free_cores()
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = FAILED
    host.watch()
    round_number = host.job().claim.round_number
    answer = host.handle(command(K.STATUS, argument="waiting", turn=round_number))
    assert (answer.retcode, answer.data) == (0, {"remaining_cores": idle})
    assert (host.job().status, host.job().holds, host.job().run) == (JobStatus.WAITING, False, 0)
    seen = host.snapshot()
    assert host.handle(command(K.STATUS, argument="waiting", turn=round_number)).is_ok
    assert host.snapshot() == seen


@pytest.mark.parametrize("asked", [{}, {"turn": 0}, {"turn": 2}])
def test_a_word_to_wait_that_is_of_another_reservation_round_or_none_changes_nothing(asked: dict[str, int]) -> None:
    host = a_host(*JOIN, command(K.APPLY, turn=1), command(K.START, turn=1))
    seen = host.snapshot()
    assert host.handle(command(K.STATUS, argument="waiting", **asked)).is_ok
    assert host.snapshot() == seen


def test_what_still_runs_is_waited_for_before_it_rests() -> None:
    host = a_host(*RUN, START_A)
    answer = host.handle(command(K.STATUS, argument="waiting", turn=host.job().claim.round_number))
    assert (answer.retcode, answer.data) == (NOT_EFFECTIVE, {STILL_ENDS: True})
    assert (host.job().status, host.job().holds) == (JobStatus.RUNNING, True)


@pytest.mark.parametrize(
    "end", [command(K.STATUS, argument="failed", reason="task_failed"), command(K.STOP, argument="canceled")]
)
def test_a_job_that_ends_does_not_rest(end: Command) -> None:
    host = a_host(*RUN, START_A, end)
    seen = host.snapshot()
    answer = host.handle(command(K.STATUS, argument="waiting", turn=0))
    assert answer.retcode == 103
    assert host.job().status.value in answer.retmsg
    assert host.snapshot() == seen


@pytest.mark.parametrize("round_number", [{"turn": 1}, {}])
def test_an_apply_that_comes_twice_answers_the_same_and_begins_its_lease_anew(round_number: dict[str, int]) -> None:
    host = a_host(*JOIN)
    first = host.handle(command(K.APPLY, **round_number))
    seen = host.snapshot()
    assert host.handle(command(K.APPLY, **round_number)) == first
    renewed = replace(host.job(), claim=replace(host.job().claim, renewals=0))
    assert (host.job().claim.renewals, {**host.snapshot(), "jobs": (renewed,)}) == (1, seen)


@pytest.mark.parametrize(("described", "grace"), [({}, 10.0), ({"deadline_seconds": 60.0}, 10.0), (
    {"deadline_seconds": 3}, 3.0), ({"deadline_seconds": 0}, 0.0)])  # fmt: skip
def test_the_deadline_of_a_stop_is_a_duration_and_the_party_caps_it(described: dict[str, float], grace: float) -> None:
    host = a_host(*RUN, START_A, rules=Rules(stop_grace_seconds=10.0))
    assert host.handle(command(K.STOP, argument="canceled", **described)).is_ok
    assert host.engine.graces == [grace]


def asking(**parameters: Any) -> Document:
    """A job with these job parameters beside the usual ones."""
    conf = DOCUMENT.runtime_conf
    common = {**conf["job_parameters"]["common"], **parameters}
    return replace(DOCUMENT, runtime_conf={**conf, "job_parameters": {"common": common}})


@pytest.mark.parametrize(
    ("asked", "deadline", "grace"),
    [(30, 90, 30.0), (30, 5, 5.0), (3, 60, 3.0), (0, 60, 0.0), (500, 900, 120.0)],
)
def test_the_job_says_how_long_its_workers_may_take_and_the_party_caps_it(
    asked: float, deadline: float, grace: float
) -> None:
    rules = Rules(stop_grace_seconds=10.0, longest_stop_seconds=120.0)
    host = a_host(create(document=asking(stop_duration=asked)), *RUN[1:], START_A, rules=rules)
    assert host.handle(command(K.STOP, argument="canceled", deadline_seconds=deadline)).is_ok
    assert host.engine.graces == [grace]


def test_a_task_runs_no_longer_than_the_party_allows() -> None:
    ceilings = Ceilings(task_timeout=60)
    for asked, seconds in ((0, 60), (30, 30), (90, 60)):
        host = a_host(create(document=asking(task_timeout=asked)), *RUN[1:], START_A, ceilings=ceilings)
        assert [order.timeout_seconds for order in host.engine.launched] == [seconds]


def test_a_party_that_gives_less_than_was_asked_says_so_when_it_accepts() -> None:
    host = HandServer("10000", ceilings=Ceilings(task_timeout=60), rules=Rules(longest_stop_seconds=120.0))
    answer = host.handle(create(document=asking(task_timeout=90, stop_duration=500)))
    assert answer.data["effective"] == [
        {"component_name": name, "key": key, "asked": asked, "value": value, "source": source}
        for name in ("a", "b")
        for key, asked, value, source in (
            ("timeout", 90, 60, "ceilings.task_timeout"), ("stop_duration", 500, 120.0, "limits.longest_stop"))
    ]
    assert "effective" not in HandServer("10000").handle(create(document=asking(stop_duration=60))).data


def test_a_party_that_does_not_agree_refuses_and_keeps_nothing() -> None:
    host = HandServer("10000", ceilings=Ceilings(max_attempts=2, job_timeout=600))
    answer = host.handle(create(document=asking(auto_retries=3, timeout=900)))
    common = "job_runtime_conf.job_parameters.common"
    assert (answer.retcode, answer.retmsg) == (103, (
        f"{common}.timeout: 900 is more than 600, the most that host 10000 allows (ceilings.job_timeout); "
        f"{common}.auto_retries: 3 is more than 1, the most that host 10000 allows (ceilings.max_attempts)"
    ))  # fmt: skip
    assert host.job_or_none() is None
    assert host.handle(create(document=asking(auto_retries=1, timeout=600))).is_ok


def test_of_very_many_refusals_the_first_are_told() -> None:
    graph = {f"t{number}": [] for number in range(30)}
    document = job({"guest": ["9999"], "host": ["10000"]}, graph)
    conf = document.runtime_conf
    own = {name: {"retry": {"max_attempts": 9}} for name in graph}
    common = {"task_cores": 1, "task_conf": own}
    document = replace(document, runtime_conf={**conf, "job_parameters": {"common": common}})
    answer = HandServer("10000", ceilings=Ceilings(max_attempts=2)).handle(create(document=document, incarnations={}))
    assert answer.retmsg.count("9 is more than 2") == 10
    assert answer.retmsg.endswith("; and 20 more")


@pytest.mark.parametrize(
    ("described", "cause"),
    [({"caused_by": "host 10001"}, "host 10001"), ({}, "guest 9999"), ({"caused_by": "nobody"}, "guest 9999")],
)
def test_a_share_that_is_stopped_says_whose_doing_it_is(described: dict[str, Any], cause: str) -> None:
    for end in (
        command(K.STOP, argument="canceled", **described),
        task_command(K.TASK_STOP, argument="canceled", **described),
    ):
        host = a_host(*RUN, START_A, end)
        assert (host.task().reason, host.task().caused_by) == (Reason.STOPPED, cause)
        host.engine.sights[worker_of(host)] = STOPPED
        host.watch()
        assert (host.task().party_status, host.task().caused_by) == (TaskStatus.CANCELED, cause)


@pytest.mark.parametrize(("described", "cause"), [({"caused_by": "host 10001"}, "host 10001"), ({}, "guest 9999")])
@pytest.mark.parametrize("kind", [K.STOP, K.STATUS])
def test_a_job_that_is_ended_here_says_whose_doing_it_is(
    kind: CommandKind, described: dict[str, Any], cause: str
) -> None:
    end = command(kind, argument="canceled", **described)
    idle, busy = a_host(*RUN, end), a_host(*RUN, START_A, end)
    assert (idle.job().status, idle.job().caused_by) == (JobStatus.CANCELED, cause)
    assert (busy.job().status, busy.job().caused_by) == (JobStatus.STOPPING, cause)
    busy.engine.sights[worker_of(busy)] = STOPPED
    busy.watch()
    assert (busy.job().status, busy.job().caused_by) == (JobStatus.CANCELED, cause)
    with busy.unit() as unit:
        ends = [one for one in unit.tx.history(JOB_ID) if one.level is HistoryLevel.JOB and one.reason]
    assert [(one.new, one.caused_by) for one in ends] == [("stopping", cause), ("canceled", cause)]


@pytest.mark.parametrize("kind", [K.STOP, K.STATUS])
def test_a_job_that_is_ended_here_has_the_exit_code_of_the_failed_worker(kind: CommandKind) -> None:
    end = command(kind, argument="failed", exit_code=3)
    idle, busy = a_host(*RUN, end), a_host(*RUN, START_A, end)
    assert (idle.job().exit_code, busy.job().exit_code) == (3, 3)
    busy.engine.sights[worker_of(busy)] = STOPPED
    busy.watch()
    assert (busy.job().status, busy.job().exit_code) == (JobStatus.FAILED, 3)
    with busy.unit() as unit:
        ends = [one.exit_status for one in unit.tx.history(JOB_ID) if one.level is HistoryLevel.JOB and one.reason]
    assert ends == ["exit code 3"] * 2
    assert a_host(*RUN, command(kind, argument="failed", exit_code="3")).job().exit_code is None


def test_a_share_that_ends_by_itself_is_its_own_doing() -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = FAILED
    host.watch()
    assert (host.task().reason, host.task().caused_by) == (Reason.WORKER_ERROR, "host 10000")


def test_a_stop_at_once_comes_through_to_what_is_stopping_already() -> None:
    host = a_host(*RUN, START_A, rules=Rules(stop_grace_seconds=10.0))
    for seconds in (60, 60, 0):
        assert host.handle(command(K.STOP, argument="canceled", deadline_seconds=seconds)).is_ok
    assert host.engine.graces == [10.0, 0]


@pytest.mark.parametrize("described", [True, -1, "3", float("nan"), 1e12])
def test_a_deadline_that_is_no_duration_is_refused(described: object) -> None:
    host = a_host(*RUN, START_A)
    answer = host.handle(command(K.STOP, argument="canceled", deadline_seconds=described))
    assert (answer.retcode, host.engine.stopped) == (101, [])
    assert answer.retmsg.startswith("deadline_seconds: ")


def test_all_commands_of_a_job_repeated_in_their_order_end_where_they_ended() -> None:
    commands = (*RUN, START_A, command(K.STOP, argument="canceled", reason="stopped_by_user"))
    host = a_host(*commands)
    seen = host.snapshot()
    for one in commands:
        host.handle(one)
    assert host.snapshot() == seen


# ---------------------------------------------------------------------- who may ask what


@pytest.mark.parametrize("kind", [kind for kind in K if STATEMENTS[kind] is Speaker.INITIATOR])
def test_only_its_initiator_commands_a_job(kind: CommandKind) -> None:
    host = a_host(*RUN)
    seen = host.snapshot()
    asked = replace(START_A, kind=kind, argument="canceled") if kind.value.startswith("task") else command(kind)
    answer = host.handle(asked, caller="10001")
    assert (answer.retcode, answer.retmsg) == (108, f"party 10001 is not the initiator of job {JOB_ID}")
    assert host.snapshot() == seen


@pytest.mark.parametrize(
    ("to", "caller", "document", "retcode", "text"),
    [
        (HOST, "10001", DOCUMENT, 108, "initiator: guest 9999 is not party 10001"),
        (OTHER, "9999", DOCUMENT, 101, "role: host 10001 has no seat"),
        (Party("local", "0"), "9999", job({"guest": ["9999"], "local": ["0"]}), 108, "taken from the own server only"),
        (HOST, "9999", job({"guest": ["9999"], "host": ["10000"]}, cores=9), 103, "asks for 9 cores, more than"),
        (HOST, "9999", replace(DOCUMENT, dsl={"components": {}}), 101, "dsl.components"),
    ],
)
def test_a_job_that_this_party_cannot_take_is_refused_and_leaves_nothing(
    to: Party, caller: str, document: Any, retcode: int, text: str
) -> None:
    host = a_host()
    answer = host.handle(create(to, document), caller)
    assert answer.retcode == retcode
    assert text in answer.retmsg
    assert host.job_or_none(to) is None
    assert host.files.calls == []


def test_the_seats_of_one_job_at_one_party_are_counted_together() -> None:
    two_seats = job({"guest": ["9999"], "host": ["9999", "10000"]}, cores=5, initiator="9999")
    guest = HandServer("9999", cores=8)
    answer = guest.handle(create(GUEST, two_seats))
    assert (answer.retcode, "asks for 10 cores" in answer.retmsg) == (103, True)
    assert a_host(create(HOST, two_seats), cores=8).job().asked.cores == 5


@pytest.mark.parametrize("memory", [0, 100])
def test_memory_that_no_party_has_is_refused(memory: int) -> None:
    document = job({"guest": ["9999"], "host": ["10000"]})
    conf = {**document.runtime_conf, "job_parameters": {"common": {"task_memory": 50, "task_parallelism": 2}}}
    answer = HandServer("10000", memory=memory).handle(create(document=replace(document, runtime_conf=conf)))
    assert answer.is_ok is (memory == 100)
    assert answer.is_ok or "asks for 100 MB of memory, more than host 10000 has" in answer.retmsg


def test_a_job_id_that_another_initiator_uses_already_is_refused() -> None:
    host = a_host(create())
    other = job({"guest": ["10001"], "host": ["10000"]})
    answer = host.handle(create(document=other), caller="10001")
    text = f"job {JOB_ID} is here already, created first by another initiator; submit it again: that takes a new id"
    assert (answer.retcode, answer.retmsg) == (108, text)
    known = {**DOCUMENT.runtime_conf, "initiator": {"role": "host", "party_id": "10001"}}
    known["role"] = {"guest": ["9999"], "host": ["10000", "10001"]}
    answer = host.handle(create(document=replace(DOCUMENT, runtime_conf=known)), caller="10001")
    text = f"job {JOB_ID} is here already, created first by guest 9999; submit it again: that takes a new id"
    assert (answer.retcode, answer.retmsg) == (108, text), "one of its own parties"
    assert host.job().initiator == GUEST


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"dsl": None}, "dsl: is missing"), ({"runtime_conf": []}, "runtime_conf: is missing"),
        ({"incarnations": {"a": "../../x"}}, "incarnations.a: '../../x' is not an incarnation"),
        ({"incarnations": {"a": 7}}, "incarnations.a: 7 is not an incarnation"),
    ],
)  # fmt: skip
def test_a_create_that_is_not_well_formed_is_refused(body: dict[str, Any], text: str) -> None:
    host = a_host()
    answer = host.handle(create(**body))
    assert (answer.retcode, text in answer.retmsg) == (101, True), answer
    assert host.job_or_none() is None


@pytest.mark.parametrize(
    ("body", "name", "description"),
    [
        ({}, "n", "d"), ({"name": None, "description": 5}, "", ""),
        ({"name": "\ud800" + "x" * 600, "description": "a\0b"}, "?" + "x" * 499, "a?b"),
    ],
)  # fmt: skip
def test_names_are_made_fit_for_the_database(body: dict[str, Any], name: str, description: str) -> None:
    host = a_host(create(**body))
    with host.store.reading() as tx:
        document = tx.document(JOB_ID)
    assert (document.name, document.description) == (name, description)


def test_what_create_answers_and_stores() -> None:
    host = a_host()
    answer = host.handle(create())
    assert answer.data["components"] == {"a": {"need_run": True}, "b": {"need_run": True}}
    assert answer.data["cores"] == 2
    assert "batch" in answer.data["extensions"]
    found = host.job()
    assert (found.status, found.is_initiator, found.is_plain_v1, found.asked.cores) == (
        JobStatus.READY,
        False,
        False,
        2,
    )
    assert [host.task(name).incarnation for name in "ab"] == list(INCARNATIONS.values())
    assert [call[0] for call in host.files.calls] == ["write_confs"]


def test_a_plain_v1_initiator_names_no_extensions_and_no_incarnations() -> None:
    body = dict(create().body)
    del body["extensions"], body["incarnations"]
    host = a_host(command(K.CREATE, **body))
    assert host.job().is_plain_v1
    given = {host.task(name).incarnation for name in "ab"}
    assert (len(given), {len(one) for one in given}) == (2, {32})
    again = a_host(command(K.CREATE, **body))      # at another party of ours it is the same
    assert {again.task(name).incarnation for name in "ab"} == given


# ---------------------------------------------------------------------- what is not here, or not now


@pytest.mark.parametrize(
    ("asked", "retcode"),
    [
        (command(K.STATUS, argument="failed", tag="submit_failed"), 0),
        (command(K.STATUS, argument="success"), 0),
        (command(K.STATUS, argument="waiting"), 103),
        (command(K.CHECK), 103), (command(K.APPLY), 103), (command(K.START), 103), (command(K.UPDATE), 103),
        (command(K.RETURN), 0), (command(K.STOP, argument="canceled"), 0),
        (START_A, 102), (task_command(K.TASK_STOP, argument="canceled"), 102), (task_command(K.TASK_COLLECT), 102),
    ],
)  # fmt: skip
def test_of_a_job_that_is_not_here_what_ends_it_is_done_and_all_else_is_refused(asked: Command, retcode: int) -> None:
    assert a_host().handle(asked).retcode == retcode


@pytest.mark.parametrize("run", [0, 1, 2])
def test_a_command_of_another_run_changes_nothing(run: int) -> None:
    host = a_host()
    with host.store.transaction() as tx:
        tx.add_job(a_job(JobStatus.WAITING, HOST, run=1), DOCUMENT)
    answer = host.handle(command(K.APPLY, run=run, turn=1))
    assert answer.retcode == (0 if run == 1 else NOT_EFFECTIVE)


# ---------------------------------------------------------------------- reserving


def test_reserving_takes_the_cores_once_and_says_what_is_left() -> None:
    host = a_host(*JOIN)
    answer = host.handle(command(K.APPLY, turn=1))
    assert answer.data == {
        "cores": 2, "memory": 0, "remaining_cores": 6, "remaining_memory": 0, "lease_seconds": 60.0,
    }  # fmt: skip
    assert host.handle(command(K.APPLY, turn=2)).data == answer.data
    assert host.free_cores() == 6
    assert host.job().claim.round_number == 2


def test_a_refusal_says_what_is_free() -> None:
    host = a_host(*JOIN, cores=2)
    with host.store.transaction() as tx:
        tx.add_job(replace(a_job(JobStatus.WAITING, HOST), key=JobKey("20260101120000", HOST)), DOCUMENT)
        assert tx.reserve(JobKey("20260101120000", HOST), 1, 0, "token", 1, NOW)
    answer = host.handle(command(K.APPLY, turn=1))
    assert answer.retcode == 103
    assert answer.data == {"why": "has 1 of 2 cores free, 2 asked", "free_cores": 1, "free_memory": 0}
    assert not host.job().holds


# ---------------------------------------------------------------------- whom the party lets go first

BIG, SMALL = "2026010112000000000000001", "2026010112000000000000002"
ENOUGH = Rules(queue_passes=2, retry_wait=2_000)


class Contended:
    """Host 10000 with 4 cores: a job holds one, and BIG, that needs all, was refused once."""

    def __init__(self, cores: int = 4) -> None:
        self.host = HandServer("10000", cores=cores, rules=ENOUGH)
        self.host.steady = 100_000
        self._join(JOB_ID, 1)
        assert self.apply(JOB_ID).is_ok
        self._join(BIG, 4)
        self._join(SMALL, 1)
        self.refused = self.apply(BIG)

    def _join(self, job_id: str, cores: int) -> None:
        with self.host.store.transaction() as tx:
            here = a_job(JobStatus.WAITING, HOST, asked=Claim(cores, 0))
            tx.add_job(replace(here, key=JobKey(job_id, HOST)), DOCUMENT)

    def apply(self, job_id: str) -> Answer:
        return self.host.handle(replace(command(K.APPLY, turn=1), job_id=job_id))

    def give_back(self, job_id: str, **body: Any) -> None:
        assert self.host.handle(replace(command(K.RETURN, turn=1, **body), job_id=job_id)).is_ok

    def come_and_go(self, times: int) -> list[bool]:
        """SMALL asks so often, and gives back what it gets."""
        found = []
        for _ in range(times):
            found.append(self.apply(SMALL).is_ok)
            self.give_back(SMALL)
        return found

    def pending(self, job_id: str = BIG) -> PendingRequest:
        return self.host.job(HOST, job_id).pending


def test_a_job_that_was_passed_often_enough_goes_first() -> None:
    party = Contended()
    assert party.refused.data["why"] == "has 3 of 4 cores free, 4 asked"
    assert party.come_and_go(3) == [True, True, False]
    assert party.pending() == PendingRequest(100_000, 100_000, 2)
    answer = party.apply(SMALL)
    assert (answer.retcode, answer.data) == (
        103, {"why": "keeps its capacity for an older job, which has been passed there 2 times", "free_cores": 0,
              "free_memory": 0},
    )  # fmt: skip
    party.give_back(JOB_ID)
    assert party.apply(SMALL).retcode == 103
    assert party.apply(BIG).is_ok
    assert party.host.free_cores() == 0


def test_a_job_that_leaves_enough_for_the_one_that_waits_passes_it_freely() -> None:
    party = Contended(cores=8)
    assert party.refused.is_ok
    with party.host.store.transaction() as tx:
        tx.give_back(JobKey(BIG, HOST), None, NOW)
        tx.pending(JobKey(BIG, HOST), 100_000)
    assert party.come_and_go(5) == [True] * 5
    assert party.pending().passes == 0


def test_an_apply_that_comes_again_passes_nobody() -> None:
    party = Contended()
    for _ in range(5):
        assert party.apply(SMALL).is_ok
    assert party.pending().passes == 1


def test_who_asks_no_more_is_not_waited_for() -> None:
    party = Contended()
    party.come_and_go(3)
    party.host.steady = 100_000 + PENDING_LASTS + 4 * ENOUGH.retry_wait - 1
    assert not party.apply(SMALL).is_ok
    party.host.steady += 1
    assert party.apply(SMALL).is_ok
    party.give_back(SMALL)
    assert party.apply(BIG).retcode == 103
    assert not party.apply(SMALL).is_ok, "it asks again, and keeps its place"
    assert party.pending().since == 100_000


def test_who_has_waited_for_longer_is_not_put_behind() -> None:
    party = Contended()
    with party.host.store.transaction() as tx:
        tx.pending(JobKey(SMALL, HOST), 99_999)
    assert party.come_and_go(5) == [True] * 5


@pytest.mark.parametrize(
    ("order", "initiator", "may_pass"),
    [(9, "9999", True), (10, "9999", False), (11, "9999", False), (9, "10001", False), (None, "9999", False)],
)
def test_an_initiator_lets_its_own_jobs_pass_as_its_own_queue_has_them(
    order: int | None, initiator: str, may_pass: bool
) -> None:
    party = Contended()
    with party.host.store.transaction() as tx:
        tx.pending(JobKey(BIG, HOST), 100_000, 10)
        tx.forget_seat(JobKey(SMALL, HOST))
        here = a_job(JobStatus.WAITING, HOST, asked=Claim(1, 0), initiator=Party("guest", initiator))
        tx.add_job(replace(here, key=JobKey(SMALL, HOST)), DOCUMENT)
    ask = replace(command(K.APPLY, turn=1, **({} if order is None else {"order": order})), job_id=SMALL)
    found = []
    for _ in range(4):
        found.append(party.host.handle(ask, caller=initiator).is_ok)
        party.host.handle(replace(command(K.RETURN, turn=1), job_id=SMALL), caller=initiator)
    assert found == ([True] * 4 if may_pass else [True, True, False, False])


@pytest.mark.parametrize("order", ["x", 1.5, True, [1], 2**63])
def test_a_place_in_the_queue_that_no_column_takes_is_refused(order: object) -> None:
    answer = a_host(*JOIN).handle(command(K.APPLY, turn=1, order=order))
    assert answer.retcode == 101
    assert answer.retmsg.startswith("order: ")


@pytest.mark.parametrize(("still_wants", "may_pass"), [(True, False), (None, False), (False, True)])
def test_what_a_job_returns_since_another_party_had_no_capacity_is_kept_for_it(
    still_wants: bool | None, may_pass: bool
) -> None:
    party = Contended()
    party.come_and_go(3)
    party.give_back(JOB_ID)
    assert party.apply(BIG).is_ok
    party.give_back(BIG, **({} if still_wants is None else {"still_wants": still_wants}))
    assert party.apply(SMALL).is_ok is may_pass
    assert (party.pending() == PendingRequest()) is may_pass


def test_a_job_that_the_party_has_become_too_small_for_is_told_so_and_keeps_nobody_waiting() -> None:
    party = Contended()
    party.come_and_go(3)
    with party.host.store.transaction() as tx:
        tx.register_engine(EngineState("STANDALONE", 3, 0, 3, 0), {}, NOW)
    assert party.apply(SMALL).is_ok, "at once, before the big one asks again"
    party.give_back(SMALL)
    answer = party.apply(BIG)
    assert answer.retcode == 103
    assert answer.data == {
        "why": "has 2 of 3 cores free, 4 asked: the job asks for more than it has in all", "free_cores": 2,
        "free_memory": 0, "never": True,
    }  # fmt: skip
    assert party.pending() == PendingRequest()


def test_two_seats_of_a_job_wait_for_capacity_for_both() -> None:
    party = Contended(cores=5)
    second = JobKey(BIG, Party("arbiter", "10000"))
    with party.host.store.transaction() as tx:
        tx.give_back(JobKey(BIG, HOST), None, NOW)
        tx.pending(JobKey(BIG, HOST), 100_000)
        tx.add_job(replace(a_job(JobStatus.WAITING, HOST, asked=Claim(1, 0)), key=second), DOCUMENT)
    assert party.come_and_go(3) == [True, True, False]


@pytest.mark.parametrize("round_number", ["x", -1, 2**40, [1], True])
def test_a_reservation_round_that_is_no_number_is_refused(round_number: Any) -> None:
    host = a_host(*JOIN)
    assert host.handle(command(K.APPLY, turn=round_number)).retcode == 101
    assert not host.job().holds


@pytest.mark.parametrize(
    ("round_number", "is_returned"), [(1, False), (2, True), (3, True), (None, True)]
)
def test_a_return_that_arrives_after_the_next_reservation_round_reserved_returns_nothing(
    round_number: int | None, is_returned: bool
) -> None:
    host = a_host(*HOLD, command(K.APPLY, turn=2))
    answer = host.handle(command(K.RETURN, **({} if round_number is None else {"turn": round_number})))
    assert answer.is_ok
    assert host.job().holds is not is_returned
    assert host.free_cores() == (8 if is_returned else 6)
    assert answer.data == {"remaining_cores": host.free_cores()}


@pytest.mark.parametrize(
    ("before", "asked", "retcode"),
    [
        (JOIN[:1], command(K.APPLY, turn=1), 103),       # not accepted everywhere yet
        (JOIN, command(K.START), 103),                   # holds nothing
        (HOLD, command(K.START, turn=0), 103),           # late: of a reservation round that was given up
        (HOLD, command(K.START, turn=2), 103),
        (HOLD, command(K.START, turn="x"), 101),
        (RUN, command(K.RETURN, turn=1), NOT_EFFECTIVE), # its end returns it
        ((*JOIN, command(K.STATUS, argument="canceled")), command(K.CHECK), 103),
        ((*JOIN, command(K.STATUS, argument="canceled")), command(K.APPLY), 103),
        ((*JOIN, command(K.STATUS, argument="canceled")), command(K.START), 103),
        ((*RUN, START_A, command(K.STOP, argument="canceled")), command(K.APPLY, turn=2), 103),   # it drains
        (JOIN, START_A, 103),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_status_is_refused_and_changes_nothing(
    before: tuple[Command, ...], asked: Command, retcode: int
) -> None:
    host = a_host(*before)
    seen = host.snapshot()
    assert host.handle(asked).retcode == retcode
    assert host.snapshot() == seen


def plain_v1_create() -> Command:
    """`create` as a plain v1 initiator sends it."""
    body = {key: value for key, value in create().body.items() if key not in ("extensions", "incarnations")}
    return Command(K.CREATE, JOB_ID, HOST, ANY_RUN, body=body)


@pytest.mark.parametrize("asked", [command(K.ALIGN), command(K.UPDATE), task_command(K.TASK_COLLECT)])
@pytest.mark.parametrize(("is_plain_v1", "heartbeats"), [(True, {"9999": 1}), (False, {})])
def test_whatever_a_plain_v1_initiator_says_is_a_sign_of_life(
    asked: Command, is_plain_v1: bool, heartbeats: dict[str, int]
) -> None:
    host = a_host(plain_v1_create() if is_plain_v1 else create())
    host.handle(asked)
    with host.store.reading() as tx:
        assert tx.heartbeats() == heartbeats


def test_other_parties_of_a_job_may_ask_whether_it_is_here_and_nobody_else() -> None:
    host = a_host(plain_v1_create())
    assert [host.handle(command(K.ALIGN), caller).retcode for caller in ("10000", "10001")] == [0, 108]
    with host.store.reading() as tx:
        assert tx.heartbeats() == {}


def test_what_is_stopping_still_runs_for_a_plain_v1_initiator() -> None:
    plain = (plain_v1_create(), *RUN[1:], task_command(K.TASK_START, user_id="u"))
    host = a_host(*plain)
    host.engine.sights[worker_of(host)] = RUNS
    host.watch()
    host.handle(command(K.STOP, argument="canceled"))
    assert host.task().party_status is TaskStatus.STOPPING
    collected = host.handle(task_command(K.TASK_COLLECT, x=1)).data
    reported = [one.body for one in host.outbox() if one.kind is K.REPORT and one.task == "a"]
    assert {body["party_status"] for body in (collected, *reported)} == {"running"}


@pytest.mark.parametrize(
    ("progress", "stored"), [(40, 40), (-5, 0), (400, 100), ("40", 0), (None, 0), (True, 1)]
)
def test_update_writes_progress_and_nothing_else(progress: Any, stored: int) -> None:
    host = a_host(*RUN)
    host.handle(command(K.UPDATE, progress=progress, status="success", is_initiator=True, cores=99))
    found = host.job()
    assert (found.progress, found.status, found.is_initiator) == (stored, JobStatus.RUNNING, False)


# ---------------------------------------------------------------------- tasks


def test_starting_a_task_orders_one_worker_and_opens_its_exchange() -> None:
    host = a_host(*RUN)
    answer = host.handle(START_A)
    [order] = host.engine.launched
    assert (order.worker.worker_id, order.incarnation) == (host.task().worker_id, INCARNATIONS["a"])
    assert order.parties == (("guest", "9999"), ("host", "10000"))
    assert (order.task_cores, order.outputs) == (2, ("data",))
    assert host.exchange.calls[-1][0] == "open"
    assert answer.data["party_status"] == "waiting"
    assert host.task().status is TaskStatus.RUNNING
    assert host.task().party_status is TaskStatus.WAITING


def test_a_task_that_is_told_not_to_run_is_passed_over() -> None:
    parameters = {"role": {"host": {"0": {"a": {"need_run": False}}}}}
    document = replace(DOCUMENT, runtime_conf={**DOCUMENT.runtime_conf, "component_parameters": parameters})
    host = a_host(create(document=document), *RUN[1:])
    answer = host.handle(START_A)
    assert (answer.data["party_status"], answer.data["reason"]) == ("pass", "not_needed")
    assert host.engine.launched == []


def test_an_input_that_is_missing_fails_the_launch_and_the_initiator_is_told() -> None:
    host = a_host(*RUN)
    host.handle(task_command(K.TASK_START, "b"))
    assert host.engine.launched == []
    task = host.task("b")
    assert (task.party_status, task.reason) == (TaskStatus.FAILED, Reason.LAUNCH_FAILED)
    assert task.message == "input data.data: a.data has no table at host 10000"
    [report] = host.outbox()
    assert (report.kind, report.to, report.body["party_status"]) == (K.REPORT, GUEST, "failed")


def test_the_output_of_one_task_is_the_input_of_the_next() -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = made("table_of_a")
    host.watch()
    host.handle(task_command(K.TASK_START, "b"))
    order = host.engine.launched[-1]
    assert [(one.key, one.table.name) for one in order.inputs] == [("data", "table_of_a")]


@pytest.mark.parametrize(
    "asked",
    [
        task_command(K.TASK_START, incarnation="ff" * 16),
        task_command(K.TASK_STOP, argument="canceled", incarnation="ff" * 16),
        task_command(K.TASK_STATUS, argument="success", incarnation="ff" * 16),
        task_command(K.TASK_START, incarnation=["x"]),
    ],
)
def test_a_command_of_another_incarnation_changes_nothing(asked: Command) -> None:
    host = a_host(*RUN)
    seen = host.snapshot()
    assert host.handle(asked).retcode == NOT_EFFECTIVE
    assert host.snapshot() == seen


@pytest.mark.parametrize(
    "asked",
    [
        task_command(K.TASK_START, version=7), task_command(K.TASK_STOP, "x", argument="canceled"),
        task_command(K.TASK_STATUS, version=7, argument="success"),
    ],
)  # fmt: skip
def test_a_task_that_is_not_here_is_said_to_be_so(asked: Command) -> None:
    answer = a_host(*RUN).handle(asked)
    assert (answer.retcode, answer.retmsg.startswith("no found task")) == (102, True)


def test_collect_of_a_task_that_is_not_here() -> None:
    assert a_host(*RUN).handle(task_command(K.TASK_COLLECT, version=7)).retcode == 103


@pytest.mark.parametrize(
    ("argument", "status", "retcode"),
    [
        ("running", TaskStatus.RUNNING, 0), ("success", TaskStatus.SUCCESS, 0), ("stopping", TaskStatus.STOPPING, 0),
        ("waiting", TaskStatus.WAITING, 0), ("nonsense", TaskStatus.WAITING, 101),
    ],
)  # fmt: skip
def test_the_federated_status_is_the_initiators_to_say(argument: str, status: TaskStatus, retcode: int) -> None:
    host = a_host(*RUN)
    assert host.handle(task_command(K.TASK_STATUS, argument=argument)).retcode == retcode
    assert (host.task().status, host.task().party_status) == (status, TaskStatus.WAITING)


def test_the_federated_end_of_a_task_stays() -> None:
    host = a_host(*RUN, task_command(K.TASK_STATUS, argument="failed"))
    assert host.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    assert host.task().status is TaskStatus.FAILED


@pytest.mark.parametrize(
    ("body", "retcode"),
    [
        ({"incarnation": "c1" * 16, "auto_retries": 2}, 0), ({}, 0), ({"incarnation": "../x"}, 101),
        ({"auto_retries": -1}, 101), ({"auto_retries": 2**80}, 101), ({"incarnation": 5}, 101),
    ],
)  # fmt: skip
def test_a_new_version_of_a_task(body: dict[str, Any], retcode: int) -> None:
    host = a_host(*RUN)
    asked = Command(K.TASK_CREATE, JOB_ID, HOST, 0, "a", 1, body=body)
    assert host.handle(asked).retcode == retcode
    if retcode == 0:
        task = host.task(version=1)
        assert (task.incarnation, task.auto_retries) == (
        body.get("incarnation") or plain_v1_incarnation(JOB_ID, task.key.name, 1), body.get("auto_retries", 0))


def test_a_job_that_is_over_here_gets_no_new_version() -> None:
    """The end of the job has overtaken the last retry of a task."""
    host = a_host(*RUN, command(K.STATUS, argument="failed", reason="task_failed"))
    assert host.handle(Command(K.TASK_CREATE, JOB_ID, HOST, 0, "a", 1)).retcode == NOT_EFFECTIVE
    with host.store.reading() as tx:
        assert {task.key.version for task in tx.tasks(JOB_ID)} == {0}


def test_a_component_that_the_job_does_not_have_gets_no_version() -> None:
    assert a_host(*RUN).handle(Command(K.TASK_CREATE, JOB_ID, HOST, 0, "zzz", 1)).retcode == 100


def test_stopping_a_task_without_a_worker_ends_it_at_once() -> None:
    host = a_host(*RUN)
    answer = host.handle(task_command(K.TASK_STOP, argument="canceled"))
    assert (answer.data["party_status"], answer.data["reason"]) == ("canceled", "stopped")
    assert host.exchange.calls[-1][0] == "close"


@pytest.mark.parametrize(
    ("said", "known"), [({"begins_again": True}, "restart_task"), ({"begins_again": 1}, ""), ({}, "")]
)
@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_stop_may_say_that_the_task_begins_again(said: dict[str, Any], known: str, is_stopping: bool) -> None:
    host = a_host(*RUN, START_A)
    if is_stopping:
        host.handle(task_command(K.TASK_STOP, argument="canceled"))
    for _ in range(2):
        answer = host.handle(task_command(K.TASK_STOP, argument="canceled", **said))
        assert answer.data["party_status"] == "stopping"
    assert host.task().policy == known


def test_stopping_a_task_with_a_worker_ends_it_when_the_worker_has_gone() -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = RUNS
    host.watch()
    answer = host.handle(task_command(K.TASK_STOP, argument="canceled"))
    assert answer.data["party_status"] == "stopping"
    assert host.engine.stopped == [worker_of(host)]
    host.engine.sights[worker_of(host)] = made("table")      # it was done just then: the stop was first
    host.watch()
    assert (host.task().party_status, host.task().reason) == (TaskStatus.CANCELED, Reason.STOPPED)
    with host.store.reading() as tx:
        assert tx.outputs(JOB_ID, "a", HOST) == ()


# ---------------------------------------------------------------------- stopping and ending


@pytest.mark.parametrize("argument", ["running", "waiting", "ready", "stopping", "nonsense", "", "Success"])
@pytest.mark.parametrize("kind", [K.STOP, K.STATUS])
def test_a_status_that_ends_no_job_changes_nothing(kind: CommandKind, argument: str) -> None:
    host = a_host(*RUN)
    seen = host.snapshot()
    retcodes = {(K.STATUS, "waiting"): 0, (K.STATUS, "running"): NOT_EFFECTIVE, (K.STATUS, "ready"): NOT_EFFECTIVE}
    assert host.handle(command(kind, argument=argument)).retcode == retcodes.get((kind, argument), 101)
    assert host.snapshot() == seen


def test_a_stop_ends_the_row_at_once_when_nothing_runs() -> None:
    host = a_host(*RUN)
    answer = host.handle(command(K.STOP, argument="canceled", reason="stopped_by_user", message="enough"))
    assert [report["party_status"] for report in answer.data["tasks"]] == ["canceled", "canceled"]
    found = host.job()
    assert (found.status, found.reason, found.message) == (JobStatus.CANCELED, Reason.STOPPED_BY_USER, "enough")
    assert (found.holds, host.free_cores()) == (False, 8)
    assert "purge" in host.exchange.names()


def test_a_stop_ends_the_row_with_its_last_worker() -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = RUNS
    host.watch()
    answer = host.handle(command(K.STOP, argument="timeout", reason="job_timeout"))
    assert [report["party_status"] for report in answer.data["tasks"]] == ["stopping", "canceled"]
    found = host.job()
    assert (found.status, found.target, found.holds) == (JobStatus.STOPPING, JobStatus.TIMEOUT, True)
    host.engine.sights[worker_of(host)] = STOPPED
    host.watch()
    assert (host.job().status, host.job().reason, host.free_cores()) == (JobStatus.TIMEOUT, Reason.JOB_TIMEOUT, 8)


def test_the_end_that_is_told_while_workers_still_end_comes_true_when_they_have_gone() -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = RUNS
    host.watch()
    host.handle(command(K.STOP, argument="failed", reason="task_failed"))
    assert host.handle(command(K.STATUS, argument="failed", reason="task_failed")).is_ok
    assert host.job().status is JobStatus.STOPPING
    host.engine.sights[worker_of(host)] = STOPPED
    host.watch()
    assert (host.job().status, host.free_cores()) == (JobStatus.FAILED, 8)


@pytest.mark.parametrize(
    ("argument", "said", "reason"),
    [
        ("success", "done", Reason.DONE), ("success", None, Reason.DONE),
        ("failed", "party_unreachable", Reason.PARTY_UNREACHABLE), ("failed", None, Reason.TASK_FAILED),
        ("failed", "stopped_by_user", Reason.TASK_FAILED),      # not what a failure follows from
        ("failed", "worker_error", Reason.TASK_FAILED),         # what only a party says of its share
        ("failed", "nonsense", Reason.TASK_FAILED), ("failed", ["x"], Reason.TASK_FAILED),
        ("canceled", "stopped_by_user", Reason.STOPPED_BY_USER), ("canceled", None, Reason.STOPPED),
        ("timeout", "no_capacity", Reason.NO_CAPACITY), ("timeout", None, Reason.JOB_TIMEOUT),
    ],
)  # fmt: skip
def test_the_reason_of_an_end_is_the_initiators_or_what_the_status_stands_for(
    argument: str, said: Any, reason: Reason
) -> None:
    host = a_host(*RUN, command(K.STATUS, argument=argument, reason=said, message="m"))
    found = host.job()
    assert (found.status.value, found.reason, found.message) == (argument, reason, "m")
    assert host.free_cores() == 8


def test_a_job_that_had_ended_here_keeps_its_end_and_says_which() -> None:
    host = a_host(*RUN)
    with host.unit() as unit:
        end_job_here(unit, host.job(), Reason.INITIATOR_LOST, "party 9999 was silent")
    answer = host.handle(command(K.STATUS, argument="success"))
    assert (answer.retcode, answer.data["ended_as"]) == (0, "failed")
    assert (host.job().status, host.job().reason) == (JobStatus.FAILED, Reason.INITIATOR_LOST)


def task_moves(host: HandServer) -> list[tuple[str, str, str, str, str]]:
    """Of `a` over all its parties, as the history of this party has it."""
    with host.unit() as unit:
        return [
            (one.old, one.new, one.reason, one.message, one.caused_by)
            for one in unit.tx.history(JOB_ID) if one.level is HistoryLevel.TASK and one.task == "a" and one.old
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("why", "described"),
    [
        (
            {"reason": "worker_error", "message": "no data", "caused_by": "host 10001"},
            ("worker_error", "no data", "host 10001"),
        ),
        ({"reason": "worker_error"}, ("worker_error", "", "guest 9999")),
        *[
            (none_that_fits, ("worker_error", "", "guest 9999"))
            for none_that_fits in (
                {},                                                    # as a plain v1 initiator
                {"reason": "done", "message": "m"},                    # no failure follows from it
                {"reason": ["x"], "message": "m"}, {"reason": "nonsense"},
            )
        ],
    ],
)  # fmt: skip
def test_how_a_task_ended_over_all_its_parties_is_in_its_row_and_the_history_with_the_party_at_fault(
    why: dict[str, Any], described: tuple[str, str, str]
) -> None:
    host = a_host(*RUN, START_A)
    assert host.handle(task_command(K.TASK_STATUS, "a", argument="failed", **why)).is_ok
    assert task_moves(host) == [("waiting", "running", "", "", ""), ("running", "failed", *described)]
    row = host.task()
    assert (row.federated_reason.value, row.federated_message, row.federated_caused_by) == described
    assert row.federated_end_time > 0


@pytest.mark.parametrize(("described", "taken"), [(3, 3), (0, 0), (256, None), ("3", None), (None, None)])
def test_the_exit_code_of_the_failed_worker_is_told_to_every_party(described: object, taken: int | None) -> None:
    host = a_host(*RUN, START_A)
    why = {"reason": "worker_killed", "exit_code": described}
    assert host.handle(task_command(K.TASK_STATUS, "a", argument="failed", **why)).is_ok
    assert host.task().federated_exit_code == taken


def begun(host: HandServer) -> list[tuple[str, int, str, str, str]]:
    """Each version of a task, as the history of this party has its beginning."""
    with host.unit() as unit:
        return [
            (one.task, one.version, one.reason, one.message, one.caused_by)
            for one in unit.tx.history(JOB_ID) if one.level is HistoryLevel.TASK and not one.old
        ]  # fmt: skip


def test_the_history_of_a_party_has_the_beginning_of_each_version_with_the_party_at_fault() -> None:
    why = {"reason": "worker_error", "message": "no data", "caused_by": "host 10001"}
    again = task_command(K.TASK_CREATE, "a", version=1, **{"incarnation": FRESH_ID, **why})
    host = a_host(*RUN, again, again)
    first = [(name, 0, "", "", "guest 9999") for name in ("a", "b")]
    assert begun(host) == [*first, ("a", 1, "worker_error", "no data", "host 10001")]


@pytest.mark.parametrize("why", [{}, {"reason": "x", "message": ["x"], "caused_by": "nobody"}])
def test_a_version_that_nobody_gives_a_reason_for_is_the_initiators_doing(why: dict[str, Any]) -> None:
    again = task_command(K.TASK_CREATE, "a", version=1, **{"incarnation": FRESH_ID, **why})
    assert begun(a_host(*RUN, again))[-1] == ("a", 1, "", "", "guest 9999")


def test_a_party_with_two_seats_writes_the_beginning_of_a_version_once() -> None:
    seats = {"guest": ["9999"], "host": ["10000"], "arbiter": ["10000"]}
    host = HandServer("10000")
    for role in ("host", "arbiter"):
        asked = create(document=job(seats), incarnations={})
        assert host.handle(replace(asked, to=Party(role, "10000"))).is_ok
    assert [one[:2] for one in begun(host)] == [("work_0", 0)]


def test_what_the_end_of_its_job_cuts_off_says_so_in_the_history() -> None:
    end = command(K.STATUS, argument="canceled", reason="stopped_by_user", message="enough", caused_by="host 10001")
    assert task_moves(a_host(*RUN, end)) == [("waiting", "canceled", "stopped_by_user", "enough", "host 10001")]


def test_a_federated_status_that_is_told_here_is_on_record() -> None:
    host = a_host(*RUN)
    host.handle(task_command(K.TASK_STATUS, "a", argument="running"))
    described = [fields["info"] for fields in host.record.seen(Event.TASK_STATUS_WRITTEN)]
    assert described == [{"status": "running"}]


def test_a_job_that_was_never_accepted_cannot_succeed() -> None:
    host = a_host(*JOIN[:1])
    assert host.handle(command(K.STATUS, argument="success")).retcode == NOT_EFFECTIVE
    assert host.job().status is JobStatus.READY


def test_a_refused_submit_leaves_nothing() -> None:
    host = a_host(*JOIN[:1], command(K.STATUS, argument="failed", tag="submit_failed"))
    assert host.job_or_none() is None
    assert host.files.calls[-1] == ("remove_job", JOB_ID)


@pytest.mark.parametrize(
    ("described", "argument", "statuses"),
    [
        ([], "success", ("canceled", "canceled")),
        ([("a", "success"), ("b", "failed")], "failed", ("success", "failed")),
        ([("a", "running")], "failed", ("canceled", "canceled")),
    ],
)
def test_with_the_job_every_task_ends_as_the_initiator_said_or_canceled(
    described: list[tuple[str, str]], argument: str, statuses: tuple[str, str]
) -> None:
    host = a_host(*RUN)
    for name, status in described:
        host.handle(task_command(K.TASK_STATUS, name, argument=status))
    host.handle(command(K.STATUS, argument=argument))
    assert tuple(host.task(name).status.value for name in "ab") == statuses


@pytest.mark.parametrize(
    ("observation", "argument", "status"), [(made("t"), "success", "success"), (FAILED, "failed", "failed")]
)
def test_a_task_whose_end_was_never_told_ends_as_this_party_saw_it(
    observation: Any, argument: str, status: str
) -> None:
    host = a_host(*RUN, START_A)
    host.engine.sights[worker_of(host)] = observation
    host.watch()
    host.handle(command(K.STATUS, argument=argument))
    assert host.task().status.value == status


# ---------------------------------------------------------------------- when something is wrong with us


def test_one_command_that_we_stumble_over_is_answered_and_undone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host = a_host(*HOLD)

    def stumble(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("fate_flow.services.participant.ends.clean_up", stumble)
    seen = host.snapshot()
    answer = host.handle(command(K.STATUS, argument="canceled"))
    text, _, incident = answer.retmsg.rpartition(" ")
    assert (answer.retcode, text) == (100, "unexpected error at host 10000; its log has the reason: error")
    assert f"failed: error {incident}\n" in caplog.text
    assert host.snapshot() == seen


def test_a_database_that_refuses_is_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    host = a_host(*HOLD)

    def refuse(*_: object) -> None:
        raise StorageFailed("disk full")

    monkeypatch.setattr("fate_flow.services.participant.ends.clean_up", refuse)
    with pytest.raises(StorageFailed):
        host.handle(command(K.STATUS, argument="canceled"))
    assert host.job().holds


def test_a_hold_that_another_process_took_back_in_between_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """On MySQL two processes may read the row before one of them locks it."""
    host = a_host(*HOLD)
    move = MemoryTransaction.move_job

    def too_late(tx: Any, *arguments: Any) -> bool:
        tx.give_back(JobKey(JOB_ID, HOST), None, NOW)
        return move(tx, *arguments)

    monkeypatch.setattr(MemoryTransaction, "move_job", too_late)
    answer = host.handle(command(K.START))
    assert (answer.retcode, "holds nothing any more" in answer.retmsg) == (103, True)
    assert host.job().status is JobStatus.WAITING


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
        assert tx.reserve(host.job().key, 2, 0, "token", 1, NOW)
    assert host.handle(command(K.START, turn=1)).retmsg == "rejected by ann: no budget"
    assert host.job().status is JobStatus.WAITING
