"""What a host of ours does for an initiator of FATE Flow 1.11.2: the rules that its traffic alone does not show."""

from __future__ import annotations

import pytest

from fate_flow.core.model.errors import NOT_EFFECTIVE
from fate_flow.core.model.job import CommandKind, TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.wire.v1.paths import endpoint_of
from tests.fate_1_11_2.our_server import OURS, OurServer
from tests.fate_1_11_2.traffic import Exchange, recorded
from tests.kit.services.sights import STOPPED

HOST = Party("host", OURS)


def after(count: int, name: str = "genuine-guest-stop-and-rerun") -> tuple[OurServer, list[Exchange]]:
    """A host that has heard the first requests of the genuine guest, and all that it has to say."""
    ours, said = OurServer(), [one for one in recorded(name) if one.is_from_fate]
    for one in said[:count]:
        assert record_heartbeat(ours, one) == 0, one.verb
    return ours, said


def record_heartbeat(ours: OurServer, one: Exchange, verb: str = "") -> int:
    """The retcode of the answer; `verb`: another one at the same place."""
    path = one.path if not verb else one.path.removesuffix(one.verb.rpartition(" ")[2]) + verb
    return int(ours.hears(path, {} if verb else one.body, one.headers)["retcode"])


STARTED, RUNS_A_TASK = 5, 7
"""How many requests the genuine guest makes until the job runs, and until its first task does."""


def test_a_stop_leaves_what_never_began_as_it_is() -> None:
    ours, said = after(RUNS_A_TASK)
    key = TaskKey(said[0].command.job_id, "reader_0", 0, HOST)
    ours.runs(key)
    assert record_heartbeat(ours, said[0], "stop/canceled") == 0
    ours.sees(key, STOPPED)
    assert record_heartbeat(ours, said[0], "status/canceled") == 0
    assert ours.job(key.job_id, "host").status is JobStatus.CANCELED
    first, later = ours.task(key), ours.task(TaskKey(key.job_id, "reader_1", 0, HOST))
    assert first.party_status is TaskStatus.CANCELED
    assert (later.party_status, later.status) == (TaskStatus.WAITING, TaskStatus.WAITING)


def test_a_rerun_that_comes_while_a_worker_still_ends_begins_when_it_has() -> None:
    """FATE's servers have killed theirs when they answer a stop, and send the rerun once."""
    ours, said = after(RUNS_A_TASK)
    job_id = said[0].command.job_id
    old, new = (TaskKey(job_id, "reader_0", version, HOST) for version in (0, 1))
    ours.runs(old)
    assert record_heartbeat(ours, said[0], "stop/canceled") == 0
    assert record_heartbeat(ours, said[0], "status/canceled") == 0
    create, waiting = (at(said, verb) for verb in ("reader_0 0 create", "status/waiting"))
    assert (record_heartbeat(ours, said[create]), record_heartbeat(ours, said[waiting])) == (0, 0)
    apply = at(said, "resource/apply")
    assert record_heartbeat(ours, said[apply]) == 103
    assert ours.job(job_id, "host").status is JobStatus.STOPPING
    ours.sees(old, STOPPED)
    job = ours.job(job_id, "host")
    assert (job.status, job.run, ours.hand.free_cores()) == (JobStatus.WAITING, 1, 20)
    for one in said[apply : apply + 4]:
        assert record_heartbeat(ours, one) == 0, one.verb
    ours.runs(new)
    assert ours.task(new).party_status is TaskStatus.RUNNING


def at(said: list[Exchange], verb: str) -> int:
    """Where the genuine guest says it the last time."""
    return max(number for number, one in enumerate(said) if one.verb == verb)


def test_a_status_that_changes_nothing_is_no_error() -> None:
    ours, said = after(STARTED)
    job_id = said[0].command.job_id
    assert record_heartbeat(ours, said[0], "status/running") == NOT_EFFECTIVE
    assert ours.job(job_id, "host").status is JobStatus.RUNNING
    assert record_heartbeat(ours, said[0], "status/canceled") == 0
    assert record_heartbeat(ours, said[0], "status/running") == NOT_EFFECTIVE
    assert ours.job(job_id, "host").status is JobStatus.CANCELED


def test_a_status_of_a_job_that_is_not_here() -> None:
    ours, said = after(0)
    assert record_heartbeat(ours, said[0], "status/running") == 103
    assert record_heartbeat(ours, said[0], "status/nonsense") == 101


def test_the_lease_that_it_is_told_is_the_one_that_it_has() -> None:
    ours, said = after(3)
    apply = said[3]
    answer = ours.hears(apply.path, apply.body, apply.headers)
    assert answer["data"]["lease_seconds"] == ours.hand.context.rules.plain_hold / 1000 == 300.0


@pytest.mark.parametrize("is_busy", [False, True], ids=["between two tasks", "a task runs"])
def test_an_initiator_that_was_given_up_is_told_once_and_its_heartbeat_is_not_answered_as_before(is_busy: bool) -> None:
    ours, said = after(RUNS_A_TASK if is_busy else STARTED)
    job_id = said[0].command.job_id
    key = TaskKey(job_id, "reader_0", 0, HOST)
    if is_busy:
        ours.runs(key)
    assert record_heartbeat(ours, said[0], "align") == 0
    ours.after(1)
    ours.sends()
    ours.after(661)
    ours.after(1)
    if is_busy:
        ours.sees(key, STOPPED)
        ours.after(1)
    job = ours.job(job_id, "host")
    assert (job.status, job.reason) == (JobStatus.FAILED, Reason.INITIATOR_LOST)
    asked = [one for one in ours.sends() if one.kind is CommandKind.ASK_STOP]
    assert [endpoint_of(one) for one in asked] == [f"/initiator/{job_id}/guest/10000/stop/failed"]
    assert record_heartbeat(ours, said[0], "align") == 103


def test_a_stop_by_a_client_here_is_asked_of_the_initiator() -> None:
    ours, said = after(RUNS_A_TASK)
    job_id = said[0].command.job_id
    ours.sends()
    ours.use_cases.jobs.stop(job_id)
    ours.settle()
    assert [endpoint_of(one) for one in ours.sends()] == [f"/initiator/{job_id}/guest/10000/stop/canceled"]


def test_a_heartbeat_about_a_job_that_the_initiator_ended_is_answered_well() -> None:
    ours, said = after(STARTED)
    assert record_heartbeat(ours, said[0], "status/canceled") == 0
    assert record_heartbeat(ours, said[0], "align") == 0


@pytest.mark.parametrize(("need_run", "retcode"), [(True, 103), (False, 0)])
def test_a_component_that_waits_for_messages_of_such_an_initiator_is_refused(need_run: bool, retcode: int) -> None:
    ours, said = after(0, "genuine-guest-reader")
    toy = {"components": {"toy_0": {"module": "SecureAddExample"}}}
    parameters = {"role": {"guest": {"0": {"toy_0": {"need_run": need_run}}}}}
    conf = {**said[0].body["runtime_conf"], "component_parameters": parameters}
    answer = ours.hears(said[0].path, {**said[0].body, "dsl": toy, "runtime_conf": conf}, said[0].headers)
    assert answer["retcode"] == retcode
    text = "guest 10000 speaks plain FATE v1, whose servers carry no messages of toy_0 (SecureAddExample): "
    assert need_run is (text in answer["retmsg"])
