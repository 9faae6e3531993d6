"""A guest of ours leads its jobs to the right end beside a host that answers only as FATE Flow 1.11.2 does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fate_flow.core.model.errors import UNREACHABLE, OperationFailed
from fate_flow.core.model.job import CommandKind, TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.jobspec.parameters import Change
from tests.fate_1_11_2.our_guest import GUEST, HOST, OurGuest, job_of, readers
from tests.kit.services.sights import FAILED, STOPPED
from tests.kit.values import JOB_ID


def running(count: int = 1, **parameters: object) -> OurGuest:
    """A job of which the first task runs at both parties."""
    world = OurGuest()
    world.submit(readers(count, **parameters))
    world.ours.runs(TaskKey(JOB_ID, "reader_0", 0, GUEST))
    world.pump()
    assert world.job.status is JobStatus.RUNNING
    return world


def ended(world: OurGuest, status: JobStatus, reason: Reason) -> None:
    """At both parties, and nothing is held or in its log that should not be."""
    job, theirs = world.job, world.peer.jobs[JOB_ID]
    assert (job.status, job.reason) == (status, reason), job.message
    assert (theirs.status, theirs.holds) == (status.value, False)
    assert world.ours.hand.free_cores() == 20
    assert world.peer.tracebacks == []


def stop_of_ours(world: OurGuest) -> None:
    world.use_cases.jobs.stop(JOB_ID)
    world.pump()


def our_worker_is_gone(world: OurGuest, name: str = "reader_0", version: int = 0) -> None:
    world.ours.sees(TaskKey(JOB_ID, name, version, GUEST), STOPPED)
    world.pump()


def test_a_job_succeeds_and_the_host_hears_of_its_end_as_from_fate() -> None:
    world = running(2)
    world.task_succeeds()
    world.task_succeeds("reader_1")
    ended(world, JobStatus.SUCCESS, Reason.DONE)
    assert world.peer.jobs[JOB_ID].progress == 100
    assert world.peer.asked[-4:] == ["update", "model", "status/success", "clean"]


def test_the_job_has_the_model_that_the_submit_is_answered_with() -> None:
    common = running().peer.jobs[JOB_ID].conf["job_parameters"]["common"]
    assert (common["model_id"], common["model_version"]) == ("guest-9999#host-10000#model", JOB_ID)


def test_a_host_without_capacity_is_asked_again() -> None:
    world = OurGuest()
    world.peer.refuses = {"resource/apply": 2}
    world.submit()
    assert (world.job.status, world.job.blocked_on) == (JobStatus.WAITING, "10000")
    for _ in range(2):
        world.after(3)
    assert world.job.status is JobStatus.RUNNING
    assert world.peer.asked.count("resource/apply") == 3


@pytest.mark.parametrize("whose", ["ours", "theirs"])
def test_a_task_that_fails_is_tried_again_at_both(whose: str) -> None:
    world = running(auto_retries=1)
    if whose == "ours":
        world.ours.sees(TaskKey(JOB_ID, "reader_0", 0, GUEST), FAILED)
        world.pump()
    else:
        world.theirs_ends(status="failed")
        our_worker_is_gone(world)
    world.after(3)
    world.task_succeeds(version=1)
    ended(world, JobStatus.SUCCESS, Reason.DONE)


def test_a_task_that_fails_for_good_fails_the_job() -> None:
    world = running()
    world.theirs_ends(status="failed")
    our_worker_is_gone(world)
    ended(world, JobStatus.FAILED, Reason.TASK_FAILED)
    assert world.peer.asked[-3:] == ["model", "status/failed", "clean"]


def test_a_stop_of_ours_and_a_rerun() -> None:
    world = running(2)
    stop_of_ours(world)
    our_worker_is_gone(world)
    ended(world, JobStatus.CANCELED, Reason.STOPPED_BY_USER)
    assert "model" not in world.peer.asked
    world.use_cases.jobs.rerun(JOB_ID, {})
    world.pump()
    world.task_succeeds(version=1)
    world.task_succeeds("reader_1", version=1)
    ended(world, JobStatus.SUCCESS, Reason.DONE)


@pytest.mark.parametrize("is_asked_first", [False, True], ids=["reported, then asked", "asked, then reported"])
def test_a_stop_by_the_client_of_the_host_cancels_the_job(is_asked_first: bool) -> None:
    world = running(2)
    world.peer.is_stopped_by_its_client(JOB_ID)
    if is_asked_first:
        world.peer.said.sort(key=lambda one: "/stop/" not in one[0])
    world.pump()
    our_worker_is_gone(world)
    ended(world, JobStatus.CANCELED, Reason.STOPPED_BY_USER)


def test_a_host_that_cancels_a_task_and_never_asks_for_a_stop_cancels_the_job() -> None:
    world = running(2, auto_retries=3)
    world.theirs_ends(status="canceled")
    our_worker_is_gone(world)
    ended(world, JobStatus.CANCELED, Reason.STOPPED_BY_USER)
    assert world.job.message == "reader_0 was canceled on host 10000, where a user has stopped it"


def test_other_parameters_and_a_rerun() -> None:
    world = running()
    stop_of_ours(world)
    our_worker_is_gone(world)
    world.use_cases.jobs.change_parameters(JOB_ID, Change({"common": {"task_cores": 1}}, {}), 0)
    world.pump()
    world.use_cases.jobs.rerun(JOB_ID, {})
    world.pump()
    world.task_succeeds(version=1)
    ended(world, JobStatus.SUCCESS, Reason.DONE)
    common = world.peer.jobs[JOB_ID].conf["job_parameters"]["common"]
    assert (common["task_cores"], common["model_version"]) == (1, JOB_ID)


def test_a_host_that_is_killed_and_back_goes_on() -> None:
    world = running(2)
    world.is_away = True
    world.after(20)
    world.ours_succeeds()
    world.beats()
    world.is_away = False
    world.theirs_ends()
    world.task_succeeds("reader_1")
    ended(world, JobStatus.SUCCESS, Reason.DONE)


def test_a_host_whose_worker_was_lost_with_it_fails_the_job() -> None:
    world = running()
    world.peer.asks_to_stop(JOB_ID, "failed")
    world.pump()
    our_worker_is_gone(world)
    ended(world, JobStatus.FAILED, Reason.TASK_FAILED)


# ---------------------------------------------------------------------- what it refuses


def refuse(world: OurGuest, kind: CommandKind, retcode: int, argument: str = "") -> None:
    """From now on it says this to such a command."""
    refused = {"retcode": retcode, "retmsg": "KeyError('something')"}
    world.alters = lambda one: refused if one.kind is kind and argument in one.argument else None


@pytest.mark.parametrize(
    ("kind", "argument", "retcode"),
    [
        (CommandKind.TASK_CREATE, "", 100), (CommandKind.TASK_STATUS, "running", 100),
        (CommandKind.TASK_COLLECT, "", 103),
    ],
)  # fmt: skip
def test_a_version_that_the_host_does_not_take_ends_the_job(kind: CommandKind, argument: str, retcode: int) -> None:
    world = running(auto_retries=1)
    refuse(world, kind, retcode, argument)
    world.ours.sees(TaskKey(JOB_ID, "reader_0", 0, GUEST), FAILED)
    world.pump()
    world.after(3)
    world.after(3)
    task = world.ours.task(TaskKey(JOB_ID, "reader_0", 1, HOST))
    assert (task.party_status, task.reason) == (TaskStatus.FAILED, Reason.LAUNCH_FAILED)
    if world.ours.task(TaskKey(JOB_ID, "reader_0", 1, GUEST)).worker_id:
        our_worker_is_gone(world, version=1)
    assert (world.job.status, world.job.reason) == (JobStatus.FAILED, Reason.TASK_FAILED)
    assert world.peer.jobs[JOB_ID].status == "failed"
    assert "KeyError('something')" in world.job.message


@pytest.mark.parametrize("kind", [CommandKind.TASK_CREATE, CommandKind.TASK_START])
def test_a_host_to_which_no_way_leads_any_more_ends_the_job(kind: CommandKind) -> None:
    """Only a question that is asked again may go unanswered: other commands wait until somebody answers."""
    world = running(auto_retries=1)
    refuse(world, kind, UNREACHABLE)
    world.ours.sees(TaskKey(JOB_ID, "reader_0", 0, GUEST), FAILED)
    world.pump()
    world.after(3)
    task = world.ours.task(TaskKey(JOB_ID, "reader_0", 1, HOST))
    assert (task.party_status, task.reason) == (TaskStatus.FAILED, Reason.LAUNCH_FAILED)


def test_a_question_that_nobody_answers_is_asked_again() -> None:
    world = running()
    refuse(world, CommandKind.TASK_COLLECT, UNREACHABLE)
    world.after(3)
    world.task_succeeds()
    ended(world, JobStatus.SUCCESS, Reason.DONE)


def test_a_rerun_that_the_host_does_not_take_ends_at_once() -> None:
    world = running()
    stop_of_ours(world)
    our_worker_is_gone(world)
    refuse(world, CommandKind.TASK_CREATE, 100)
    world.use_cases.jobs.rerun(JOB_ID, {})
    world.pump()
    assert (world.job.status, world.job.reason) == (JobStatus.FAILED, Reason.PARTY_REFUSED)
    assert world.job.message == "host 10000 does not take version 1 of reader_0: KeyError('something')"
    assert world.peer.asked.count("resource/apply") == 1


@pytest.mark.parametrize("module", ["Intersection", "SecureSum", "SecureAddExample"])
def test_a_component_that_exchanges_messages_is_refused_beside_it(module: str) -> None:
    world, takes = OurGuest(), {} if module == "SecureAddExample" else {"input": {"data": {"data": ["reader_0.data"]}}}
    reader = {"module": "Reader", "output": {"data": ["data"]}}
    with pytest.raises(OperationFailed) as refused:
        world.submit(job_of({"reader_0": reader, "a": {"module": module, **takes}}))
    assert refused.value.message == (
        f"host 10000: speaks plain FATE v1, whose servers carry no messages of a ({module}): "
        "that needs a server of ours at every party of it"
    )
    assert world.peer.jobs[JOB_ID].status == "failed"


def test_a_component_that_the_host_does_not_run_is_refused_before_anything_is_reserved() -> None:
    world = OurGuest()
    world.peer.does_not_run = frozenset({"reader_1"})
    with pytest.raises(OperationFailed) as refused:
        world.submit(readers(2))
    assert refused.value.message == (
        "host 10000: does not run reader_1 (Reader) at role host (need_run: false in its answer to create): "
        "use components that its server runs there"
    )
    assert world.peer.jobs[JOB_ID].status == "failed"
    assert "resource/apply" not in world.peer.asked


@pytest.mark.parametrize(
    "said", [None, {}, {"components": []}, {"components": {"reader_0": {}, "other": {"need_run": False}}}]
)
def test_a_host_that_does_not_say_otherwise_is_believed_to_run_all(
    said: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = OurGuest()
    create = world.peer._create

    def answered(job_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        create(job_id, body)
        return {"retcode": 0, "retmsg": "success", "data": said}

    monkeypatch.setattr(world.peer, "_create", answered)
    world.submit()
    assert (world.job.status, world.peer.asked.count("start")) == (JobStatus.RUNNING, 1)


def test_a_party_of_ours_that_refuses_such_a_component_for_another_reason_is_not_taken_for_a_plain_one() -> None:
    world = OurGuest()
    world.peer.refuses = {"create": 1}
    with pytest.raises(OperationFailed) as refused:
        world.submit(job_of({"a": {"module": "SecureAddExample"}}))
    assert refused.value.message == "host 10000: create refused"


# ---------------------------------------------------------------------- signs of life


def test_a_heartbeat_is_an_align_about_one_of_its_jobs() -> None:
    world = running()
    world.peer.asked.clear()
    world.beats()
    assert world.peer.asked == ["align"]
    assert world.ours.transport.heartbeats == {}
    assert world.peer.tracebacks == []


def test_its_own_heartbeat_is_answered() -> None:
    world = running()
    world.peer.aligns(JOB_ID)
    world.pump()


def test_a_host_that_never_confirmed_the_end_is_told_when_it_answers_again() -> None:
    world = running()
    world.is_away = True
    stop_of_ours(world)
    our_worker_is_gone(world)
    world.after(61)
    world.after(1)
    assert (world.job.status, world.job.unconfirmed) == (JobStatus.CANCELED, ("host 10000",))
    world._kept.clear()                  # dropped after very long
    with world.ours.hand.store.transaction() as tx:
        for command in tx.commands_after(0):
            tx.take_command(command.id)
    world.is_away = False
    world.beats()
    assert world.peer.jobs[JOB_ID].status == "canceled"
