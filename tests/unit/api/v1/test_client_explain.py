"""What explain says of a job: why it waits, what it does, how it ended; and what the queue and a stop say besides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.job import TaskKey, Worker, WorkerEnd
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.web.jobs.whose_move import who_acts
from tests.kit.api.client_world import GUEST, HOST, START, TOY, TOY_CONF, World, make_world
from tests.kit.api.running_jobs import copy_of_a_job, running_job, trouble

TOYS = "c_first", "a_second", "b_third"


def a_chain(*names: str) -> dict[str, Any]:
    """Each reads what the one before has left."""
    tables = [{}, *({"input": {"data": {"data": [f"{name}.data"]}}} for name in names)]
    return {"components": {
        name: {"module": "Reader" if not table else "Intersection", "output": {"data": ["data"]}, **table}
        for name, table in zip(names, tables, strict=False)
    }}  # fmt: skip


def test_explain_shows_each_task_after_those_that_it_needs(world: World) -> None:
    table = {"common": {TOYS[0]: {"table": {"namespace": "n", "name": "t"}}}}
    document = replace(TOY, dsl=a_chain(*TOYS), runtime_conf={**TOY.runtime_conf, "component_parameters": table})
    job_id = world.add_job(document=document)
    for name in sorted(TOYS):
        world.add_task(job_id, name)
    for _ in range(2):
        said = world.ask("job/explain", {"job_id": job_id})["data"]
        assert [task["component_name"] for task in said["tasks"]] == list(TOYS)


def test_a_document_that_cannot_be_read_any_more_keeps_no_job_from_being_explained(world: World) -> None:
    job_id = world.add_job(document=replace(TOY, dsl={"components": {"x": {"module": "NoMore"}}}))
    world.add_task(job_id)
    assert len(world.ask("job/explain", {"job_id": job_id})["data"]["tasks"]) == 1


def test_explain_says_the_name_and_since_when(world: World) -> None:
    job_id = world.add_job(document=replace(TOY, name="monthly totals"), f_start_time=None)
    said = world.ask("job/explain", {"job_id": job_id})["data"]
    assert (said["name"], said["start_time"], said["end_time"]) == ("monthly totals", None, None)
    assert START <= said["create_time"] <= said["time"]
    assert said["waiting_seconds"] >= 0
    ended = world.add_job(status=JobStatus.SUCCESS)
    said = world.ask("job/explain", {"job_id": ended})["data"]
    assert (said["end_time"], said["waiting_seconds"]) == (START, None)


@pytest.mark.parametrize(("least", "removed"), [(None, 60), (90, 90)])
def test_explain_says_when_an_ended_job_is_removed(tmp_path: Path, least: int | None, removed: int) -> None:
    world = make_world(tmp_path, ceilings=Ceilings(least_ttl=least))
    ended, other = world.add_job(status=JobStatus.SUCCESS, f_ttl=60), world.add_job(f_ttl=60)
    said = world.ask("job/explain", {"job_id": ended})["data"]
    assert (said["ttl"], said["removed_after"]) == (60, said["end_time"] + removed * 1_000)
    said = world.ask("job/explain", {"job_id": other})["data"]
    assert (said["ttl"], said["removed_after"]) == (60, None)
    world.store.close()


def test_the_queue_names_its_jobs(world: World) -> None:
    named = world.add_job(document=replace(TOY, name="monthly totals"))
    other = world.add_job(document=replace(TOY, name=""))
    said = world.ask("queue/list", {})["data"]
    assert [(one["job_id"], one["name"]) for one in said["jobs"]] == [(named, "monthly totals"), (other, "")]


@pytest.mark.parametrize("initiator", ["own", "other"])
def test_a_stop_of_a_job_that_is_over_says_so_and_changes_nothing(world: World, initiator: str) -> None:
    more = {} if initiator == "own" else {"initiator": HOST}
    job_id = world.add_job(status=JobStatus.FAILED, **more)
    said = world.ask("job/stop", {"job_id": job_id, "now": True})
    text = f"job {job_id} is over already: it ended as failed; nothing was stopped"
    assert said == {"retcode": 0, "retmsg": text}
    (row,) = world.ask("job/query", {"job_id": job_id})["data"]
    assert (row["f_cancel_signal"], row["f_stop_now"]) == (False, False)


def test_explain_says_why_it_waits_and_what_everybody_has(world: World) -> None:
    job_id = world.add_job(f_wait_reason="host 10000 has 1 of 8 cores free, 2 asked", f_blocked_on="10000")
    world.add_seats(job_id)
    world.add_task(job_id)
    world.add_task(job_id, party=HOST)
    said = world.ask("job/explain", {"job_id": job_id})["data"]
    assert (said["status"], said["place_in_queue"], said["is_initiator"]) == ("waiting", 1, True)
    assert said["wait_reason"] == "host 10000 has 1 of 8 cores free, 2 asked; 1st in the queue"
    assert said["parties"][1] == {
        "role": "host", "party_id": "10000", "status": "joined", "message": "has 1 of 8 cores free, 2 asked",
        "asked_cores": 2, "free_cores": 1, "engines": [], "approval": None, "trouble": None,
    }  # fmt: skip
    assert said["parties"][0]["free_cores"] is None
    (task,) = said["tasks"]
    assert (task["component_name"], task["status"], task["task_version"]) == ("toy_0", "waiting", 0)
    assert [(one["role"], one["status"]) for one in task["parties"]] == [("guest", "waiting"), ("host", "waiting")]
    assert said["unconfirmed_parties"] == []


def test_explain_says_how_a_job_ended(world: World) -> None:
    job_id = world.add_job(status=JobStatus.FAILED, f_reason="party_unreachable", f_message="host 10000 is silent",
                           f_unconfirmed_parties='["host 10000"]', f_exit_code=3)  # fmt: skip
    said = world.ask("job/explain", {"job_id": job_id})["data"]
    assert said["exit_code"] == 3
    assert (said["status"], said["reason"], said["message"]) == ("failed", "party_unreachable", "host 10000 is silent")
    assert said["unconfirmed_parties"] == ["host 10000"]
    assert (said["place_in_queue"], said["wait_reason"]) == (None, "")


def test_explain_says_which_policy_acts_later_and_when_as_long_as_the_job_runs(world: World) -> None:
    rule = {"event": "worker_failed", "action": "cancel_job", "timeout": 60}
    common = {"task_cores": 2, "policies": [rule]}
    document = replace(TOY, runtime_conf={**TOY_CONF, "job_parameters": {"common": common}})
    timers = json.dumps({"worker_failed toy_0 0 host 10000": 37_000, "worker_failed toy_0 0 guest 9999": 5_000})
    job_id = world.add_job(status=JobStatus.RUNNING, document=document, f_policy_timers=timers)
    world.add_seats(job_id)
    world.add_task(job_id, f_status="running", f_party_status="running")
    world.add_task(job_id, party=HOST, f_status="running", f_party_status="failed", f_reason="worker_error",
                   f_message="no data", f_end_time=1)  # fmt: skip
    assert world.ask("job/explain", {"job_id": job_id})["data"]["pending_policies"] == [
        {
            "action": "cancel_job", "seconds": 37, "event": "worker_failed", "component_name": "toy_0",
            "task_version": 0, "role": "host", "party_id": "10000", "message": "no data",
        }
    ]  # fmt: skip
    world.write("t_job", {"f_job_id": job_id}, f_status="stopping")
    assert world.ask("job/explain", {"job_id": job_id})["data"]["pending_policies"] == []


def waits(world: World, job_id: str, role: str = "host") -> list[str]:
    """What each place that shows the job, and its share at this party, says it waits for."""
    explained = world.ask("job/explain", {"job_id": job_id})["data"]
    listed = world.ask("job/list/job", {"job_id": job_id})["data"]["jobs"][0]
    queried = world.ask("job/query", {"job_id": job_id})["data"][0]
    tasks = world.ask("job/list/task", {"job_id": job_id, "role": role})["data"]["tasks"]
    share = world.ask("job/task/query", {"job_id": job_id, "role": role})["data"][0]
    found = [explained["wait_reason"], listed["wait_reason"], queried["f_wait_reason"], tasks[0]["wait_reason"],
             share["f_wait_reason"]]  # fmt: skip
    return [text or "" for text in found]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"silent_since": 1_000, "silence": "connection refused"},
         "host 10000 has not answered for 7 s (connection refused); given up in 83 s"),
        ({"cut_off_since": 1_000, "cut_off": "connection refused"},
         "host 10000 cannot reach guest 9999 (connection refused, for 7 s); given up in 83 s"),
    ],
)  # fmt: skip
def test_a_running_job_says_everywhere_which_party_is_silent_or_cut_off_since_when_and_until_when(
    world: World, fields: Any, text: str
) -> None:
    job_id = running_job(world)
    assert waits(world, job_id) == [""] * 5
    trouble(world, **fields)
    assert waits(world, job_id) == [text] * 5
    said = world.ask("job/explain", {"job_id": job_id})["data"]
    assert [one["trouble"] for one in said["parties"]] == [None, text]
    assert world.ask("job/list/task", {"job_id": job_id, "role": "guest"})["data"]["tasks"][0]["wait_reason"] == ""


def test_a_task_that_is_stopped_to_begin_again_is_restarting_and_says_what_that_waits_for(world: World) -> None:
    job_id = running_job(world, retries=1)
    world.write("t_task", {"f_job_id": job_id}, f_status="stopping")
    world.write("t_task", {"f_job_id": job_id, "f_role": "guest"}, f_party_status="failed", f_reason="worker_error",
                f_end_time=1)  # fmt: skip
    begins = "begins again as version 1 when host 10000 has stopped"
    assert waits(world, job_id) == [f"toy_0 {begins}"] * 3 + [begins] * 2
    [task] = world.ask("job/explain", {"job_id": job_id})["data"]["tasks"]
    assert (task["status"], task["status_detail"], task["begins_again"]) == ("running", "restarting", begins)
    for row in world.ask("job/list/task", {"job_id": job_id})["data"]["tasks"]:
        assert (row["status"], row["status_detail"]) == ("running", "restarting")


def test_a_task_whose_next_version_is_not_due_says_everywhere_when_it_begins(world: World) -> None:
    job_id = running_job(world, retries=1)
    world.write("t_task", {"f_job_id": job_id}, f_status="failed", f_party_status="failed", f_reason="worker_error",
                f_end_time=1, f_federated_reason="worker_error", f_federated_end_time=1)  # fmt: skip
    for party in (GUEST, HOST):
        world.add_task(job_id, party=party, version=1, f_retry_at=12_000)
    assert waits(world, job_id) == ["toy_0 begins again as version 1 in 12 s"] * 3 + [
        "", "begins again as version 1 in 12 s"
    ]
    rows = world.ask("job/list/task", {"job_id": job_id, "role": "host"})["data"]["tasks"]
    assert [(row["status"], row["status_detail"]) for row in rows] == [("failed", "failed"), ("waiting", "restarting")]


@pytest.mark.parametrize(("fields", "text"), [
    ({"silent_since": 1_000, "silence": "connection refused"},
     "host 10000 has not answered for 7 s (connection refused)"),
    ({"cut_off_since": 1_000, "cut_off": "no answer in time"},
     "host 10000 cannot reach guest 9999 (no answer in time, for 7 s)"),
])  # fmt: skip
def test_a_job_that_waits_where_its_initiator_is_silent_says_everywhere_since_when_and_what_follows(
    world: World, fields: Any, text: str
) -> None:
    job_id = world.add_job(party=GUEST, initiator=HOST)

    def said() -> tuple[list[str], Any, str]:
        explained = world.ask("job/explain", {"job_id": job_id})["data"]
        listed = world.ask("job/list/job", {"job_id": job_id})["data"]["jobs"][0]
        queried = world.ask("job/query", {"job_id": job_id})["data"][0]
        texts = [explained["wait_reason"], listed["wait_reason"], queried["f_wait_reason"]]
        return texts, explained["initiator_trouble"], who_acts(explained, "9999")

    place = "waits for its initiator, host 10000, which knows its place in the queue"
    assert said() == ([place] * 3, None, "Nobody here: host 10000 knows its place in the queue.")
    trouble(world, **fields)
    whose = f"The operators of party 10000: {text}."
    assert said() == ([f"{text}; it waits here until that is over"] * 3, text, whose)
    world.write("t_job", {"f_job_id": job_id}, f_resource_in_use=True, f_claim="c", f_cores=4)
    ends = "its reservation here ends (limits.hold_seconds), and it waits here until that is over"
    assert said()[0][0] == f"{text}; {ends}"
    world.write("t_job", {"f_job_id": job_id}, f_approval="pending")
    assert said()[0] == ["nobody at guest 9999 has approved it yet: flow job approve, or flow job reject"] * 3


def test_a_party_says_that_its_own_share_stops_and_who_decides_what_follows(world: World) -> None:
    job_id = copy_of_a_job(world)
    assert waits(world, job_id, "guest") == [""] * 5
    world.write("t_task", {"f_job_id": job_id}, f_party_status="stopping", f_reason="stopped", f_target="canceled")
    text = "the share of guest 9999 is being stopped; host 10000 decides what follows"
    assert waits(world, job_id, "guest") == [f"toy_0: {text}"] * 3 + [text] * 2


def test_a_party_says_that_a_task_begins_again_once_its_initiator_has_announced_it(world: World) -> None:
    ended = {"f_reason": "worker_error", "f_federated_reason": "worker_error", "f_federated_end_time": START + 1}
    job_id = copy_of_a_job(world, f_status="failed", f_party_status="failed", f_end_time=START + 1, **ended)
    world.add_task(job_id, version=1)
    begins = "begins again as version 1 when host 10000 starts it"
    assert waits(world, job_id, "guest") == [f"toy_0 {begins}"] * 3 + ["", begins]
    [task] = world.ask("job/explain", {"job_id": job_id})["data"]["tasks"]
    assert (task["status"], task["status_detail"], task["begins_again"]) == ("waiting", "restarting", begins)
    [row] = world.ask("job/task/query", {"job_id": job_id})["data"]
    assert (row["f_status"], row["f_status_detail"]) == ("waiting", "restarting")


def test_a_party_whose_share_still_stops_says_that_the_task_begins_again_where_it_was_told(world: World) -> None:
    job_id = copy_of_a_job(world)
    stops = {"f_party_status": "stopping", "f_reason": "stopped", "f_target": "canceled"}
    world.write("t_task", {"f_job_id": job_id}, f_policy="restart_task", **stops)
    begins = "begins again as version 1 when guest 9999 has stopped and host 10000 starts it"
    assert waits(world, job_id, "guest") == [f"toy_0 {begins}"] * 3 + [begins] * 2
    [task] = world.ask("job/explain", {"job_id": job_id})["data"]["tasks"]
    assert (task["status"], task["status_detail"], task["begins_again"]) == ("running", "restarting", begins)
    [row] = world.ask("job/task/query", {"job_id": job_id})["data"]
    assert (row["f_status"], row["f_status_detail"]) == ("running", "restarting")
    [row] = world.ask("job/list/task", {"job_id": job_id})["data"]["tasks"]
    assert (row["status"], row["status_detail"]) == ("running", "restarting")


def test_a_job_that_ends_says_which_party_that_waits_for(world: World) -> None:
    job_id = running_job(world)
    world.write("t_job", {"f_job_id": job_id}, f_status="stopping", f_target="failed", f_reason="task_failed",
                f_stop_by=50_000)  # fmt: skip
    world.write("t_seat", {"f_job_id": job_id}, f_status="draining")
    world.write("t_task", {"f_job_id": job_id, "f_role": "guest"}, f_party_status="canceled", f_reason="stopped",
                f_end_time=1)  # fmt: skip
    trouble(world)
    assert waits(world, job_id)[:3] == ["ends as failed when host 10000 has stopped, in 42 s at the latest"] * 3


def test_a_job_that_pauses_and_is_held_says_first_who_holds_it(world: World) -> None:
    job_id = world.add_job(f_rerun_signal=True, f_retry_at=40_000, f_wait_reason="retry_backoff: toy_0 begins again")
    world.ask("job/hold", {"job_id": job_id, "message": "lunch", "author": "ann"})
    said = world.ask("job/explain", {"job_id": job_id})["data"]
    assert said["wait_reason"] == "on hold by ann: lunch; retry_backoff: toy_0 begins again in 40 s"
    assert said["waits_for"] == "release"


def test_explain_says_how_the_version_before_ended_of_what_is_to_begin_again(world: World) -> None:
    job_id = world.add_job()
    for party, reason, text in ((GUEST, "stopped", ""), (HOST, "worker_error", "no data")):
        status = "failed" if party == HOST else "canceled"
        world.add_task(job_id, party=party, f_status="failed", f_party_status=status, f_reason=reason,
                       f_message=text, f_end_time=START)   # fmt: skip
        world.add_task(job_id, party=party, version=1)
    (task,) = world.ask("job/explain", {"job_id": job_id})["data"]["tasks"]
    last = task["last_version"]
    assert (task["task_version"], last["task_version"], last["role"]) == (1, 0, "host")
    assert (last["status"], last["reason"], last["message"]) == ("failed", "worker_error", "no data")


def test_explain_says_how_a_task_ended_over_all_its_parties_and_each_worker_of_this_one(world: World) -> None:
    job_id = world.add_job()
    world.add_task(job_id, f_status="failed", f_party_status="failed", f_worker_id="w", f_end_time=START,
                   f_federated_reason="worker_killed", f_federated_message="it died", f_federated_exit_code=3,
                   f_federated_caused_by="host 10000", f_federated_end_time=START + 5)  # fmt: skip
    for party, attempt in ((GUEST, 0), (GUEST, 1), (HOST, 0)):
        _exited_worker(world, TaskKey(job_id, "toy_0", 0, party), attempt)
    (task,) = world.ask("job/explain", {"job_id": job_id})["data"]["tasks"]
    keys = ("status", "status_detail", "reason", "message", "exit_code", "caused_by", "end_time")
    assert [task[key] for key in keys] == [
        "failed", "failed", "worker_killed", "it died", 3, "host 10000", START + 5,
    ]  # fmt: skip
    (share,) = task["parties"]
    assert share["elastic"] is None
    assert share["workers"] == [{
        "worker": 0, "rank": 0, "attempt": 1, "is_elastic": False, "status": "exited", "reason": "worker_error",
        "message": "no data", "exit_status": "exit code 3", "caused_by": "guest 9999", "start_time": None,
        "end_time": START,
    }]  # fmt: skip
    (row,) = world.ask("job/task/query", {"job_id": job_id})["data"]
    assert [row[f"f_federated_{key}"] for key in ("reason", "message", "exit_code", "caused_by", "end_time")] == [
        "worker_killed", "it died", 3, "host 10000", START + 5,
    ]  # fmt: skip


def _exited_worker(world: World, key: TaskKey, attempt: int) -> None:
    worker = Worker(f"{key.party.role}-{attempt}", key, WorkerStatus.CREATED, "local", "/x", attempt=attempt)
    end = WorkerEnd(Reason.WORKER_ERROR, "no data", str(key.party), "exit code 3")
    with world.store.transaction() as tx:
        tx.add_worker(worker)
        tx.move_worker(worker, WorkerStatus.EXITED, START, end=end)


def test_explain_counts_the_elastic_workers_of_this_party(world: World) -> None:
    said = {"toy_0": {"command": ["x"], "replicas": 5, "min_replicas": 2, "max_failed_workers": 1}}
    conf = {**TOY_CONF, "component_parameters": {"common": said}}
    document = replace(TOY, dsl={"components": {"toy_0": {"module": "Command"}}}, runtime_conf=conf)
    job_id = world.add_job(status=JobStatus.RUNNING, document=document)
    running = {"f_status": "running", "f_party_status": "running", "f_component_module": "Command"}
    world.add_task(job_id, f_worker_id="w", **running)
    world.add_task(job_id, party=HOST, **running)
    own, other = world.ask("job/explain", {"job_id": job_id})["data"]["tasks"][0]["parties"]
    assert (own["elastic"], other["elastic"]) == ({"most": 3, "running": 0, "lent": 0}, None)


def test_explain_at_a_party_that_is_not_the_initiator(world: World) -> None:
    job_id = world.add_job(party=GUEST, initiator=HOST)
    said = world.ask("job/explain", {"job_id": job_id})["data"]
    assert "initiator, host 10000" in said["wait_reason"]
    assert [one["asked_cores"] for one in said["parties"]] == [4]


def test_the_history_of_a_job_in_its_order(world: World) -> None:
    job_id = world.add_job()
    with world.store.transaction() as tx:
        tx.add_entries([
            HistoryEntry(job_id, HistoryLevel.JOB, "", "ready", 5, GUEST, caused_by="guest 9999"),
            HistoryEntry(job_id, HistoryLevel.WORKER, "running", "exited", 7, HOST, "a_0", 1, exit_status="signal 9"),
        ])  # fmt: skip
    job, worker = world.ask("job/history", {"job_id": job_id})["data"]["moves"]
    assert job == {
        "time": 5, "level": "job", "role": "guest", "party_id": "9999", "component_name": None, "task_version": None,
        "old": None, "new": "ready", "reason": None, "message": "", "caused_by": "guest 9999", "exit_status": None,
        "seen_by": "9999",
    }  # fmt: skip
    assert (worker["component_name"], worker["task_version"], worker["exit_status"]) == ("a_0", 1, "signal 9")
