"""Routes of jobs, tasks and resources: what clients of the v1 API send and get."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from client_world import GUEST, HOST, LOCAL, START, TOY, TOY_CONF, TOY_DSL, World, make_world
from werkzeug.test import TestResponse

from fate_flow.core.authority import document_digest
from fate_flow.core.history import Entry, Level
from fate_flow.core.job import UNREACHABLE, Answer, JobKey, TaskKey, Worker, WorkerEnd
from fate_flow.core.peer import PeerTrouble
from fate_flow.core.reasons import Reason
from fate_flow.core.spec import Party
from fate_flow.core.status import JobStatus, WorkerStatus
from fate_flow.settings_limits import Limits
from fate_flow.store.contract import Document

UPLOAD_DSL = {"components": {"upload_0": {"module": "Upload"}}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path)
    yield world
    world.store.close()


def local_conf(file: str, **job_parameters: Any) -> dict[str, Any]:
    told = {"file": file, "head": 1, "partition": 2, "namespace": "demo", "name": "site_a"}
    return {
        "dsl_version": 2,
        "initiator": {"role": "local", "party_id": 0},
        "role": {"local": [0]},
        "job_parameters": {"common": {"federated_mode": "SINGLE", **job_parameters}},
        "component_parameters": {"role": {"local": {"0": {"upload_0": told}}}},
    }


def a_job(world: World, **job_parameters: Any) -> dict[str, Any]:
    """A local job of which nothing is wrong: what `job submit` sends."""
    file = world.home / "examples" / "a.csv"
    file.parent.mkdir(exist_ok=True)
    file.write_text("id,x\n1,2\n")
    conf = {**local_conf(str(file), **job_parameters), "conf_path": "/client/conf.json"}
    return {"job_dsl": UPLOAD_DSL, "job_runtime_conf": conf}


# submit


def test_a_submit_answers_where_everything_is(world: World) -> None:
    said = world.ask("job/submit", a_job(world))
    job_id, data, home = said["jobId"], said["data"], world.home
    assert (said["retcode"], said["retmsg"], data["code"], data["message"]) == (0, "success", 0, "success")
    assert data["job_id"] == job_id
    assert data["model_info"] == {"model_id": "local-0#model", "model_version": job_id}
    assert data["logs_directory"] == str(home / "logs" / job_id)
    assert data["dsl_path"] == str(home / "jobs" / job_id / "job_dsl.json")
    assert data["runtime_conf_path"] == str(home / "jobs" / job_id / "job_runtime_conf.json")
    on_party = home / "jobs" / job_id / "local" / "0" / "job_runtime_on_party_conf.json"
    assert data["runtime_conf_on_party_path"] == str(on_party)
    assert data["board_url"].endswith(f"job_id={job_id}&role=local&party_id=0")
    assert data["warnings"] == []
    assert [job_id] in [list(jobs) for jobs in world.rung]


def test_where_the_board_would_be_a_page_says_what_shows_a_job(world: World) -> None:
    url = world.ask("job/submit", a_job(world))["data"]["board_url"]
    page = world.client.get(url.removeprefix(world.services.settings.url).partition("#")[0])
    assert (page.status_code, page.mimetype) == (200, "text/html")
    assert f"flow --server {world.services.settings.url} job watch" in page.text


def test_a_submit_takes_the_short_names_too(world: World) -> None:
    body = a_job(world)
    said = world.ask("job/submit", {"dsl": body["job_dsl"], "runtime_conf": body["job_runtime_conf"]})
    assert said["retcode"] == 0


def test_removed_keys_are_told_as_fate_tells_them_and_ignored_ones_are_listed(world: World) -> None:
    said = world.ask("job/submit", a_job(world, work_mode=1, unheard_of=2))
    assert said["retmsg"] == "[WARN]backend,work_mode is removed,it does not take effect!"
    assert any("unheard_of" in warning for warning in said["data"]["warnings"])


def test_a_repeated_submit_is_the_same_job(world: World) -> None:
    body = a_job(world)
    by_header = {"headers": {"Idempotency-Key": "once"}}
    first, second = (world.ask("job/submit", body, **by_header) for _ in range(2))
    third = world.ask("job/submit", {**body, "request_id": "once"})
    assert first["jobId"] == second["jobId"] == third["jobId"]
    assert world.count("t_job") == 1


def test_a_request_id_stands_for_one_content_only(world: World) -> None:
    world.ask("job/submit", {**a_job(world), "request_id": "once"})
    said = world.ask("job/submit", {**a_job(world, task_cores=1), "request_id": "once"})
    assert (said["retcode"], "jobId" in said) == (103, False)
    assert "once" in said["retmsg"]


def test_a_refused_submit_leaves_nothing(world: World) -> None:
    said = world.ask("job/submit", a_job(world, task_cores=21))
    assert said["retcode"] == 103
    assert "asks for 21 cores" in said["retmsg"]
    assert set(said) == {"retcode", "retmsg"}, "no id of a job that does not exist"
    assert (world.count("t_job"), world.count("t_task")) == (0, 0)


@pytest.mark.parametrize("route", ["submit", "validate"])
def test_a_key_that_a_document_has_twice_is_refused(world: World, route: str) -> None:
    text = json.dumps(a_job(world)).replace('"upload_0":', '"upload_0": {}, "upload_0":', 1)
    said = world.ask(f"job/{route}", text.encode())
    words = "job_dsl.components.upload_0 is there twice: an object has each of its keys once"
    assert (said["retcode"], said["retmsg"]) == (101, words)
    assert world.count("t_job") == 0


def test_a_party_that_does_not_answer_fails_the_submit(world: World) -> None:
    said = world.ask("job/submit", {"job_dsl": TOY_DSL, "job_runtime_conf": TOY_CONF})
    assert said["retcode"] == 103
    assert "not every party answered" in said["retmsg"]


def test_too_many_waiting_submits_are_sent_away_for_a_moment(world: World) -> None:
    for _ in range(4):
        assert world.services.desk._slots.acquire(blocking=False)
    response = world.post("job/submit", a_job(world))
    assert (response.status_code, response.json["retcode"]) == (503, 503)
    assert response.headers["Retry-After"] == "1"


@pytest.mark.parametrize("module", ["Upload", "Download"])
@pytest.mark.parametrize("path", ["/etc/passwd", "relative.csv", "/nowhere/../etc/passwd"])
def test_a_submitted_job_touches_no_other_files_of_the_server(world: World, module: str, path: str) -> None:
    body = a_job(world)
    told = body["job_runtime_conf"]["component_parameters"]["role"]["local"]["0"]["upload_0"]
    told.update(file=path, output_path=path)
    said = world.ask("job/submit", {**body, "job_dsl": {"components": {"upload_0": {"module": module}}}})
    assert said["retcode"] == 103
    assert path in said["retmsg"]
    assert world.count("t_job") == 0


def test_a_client_cannot_have_its_source_removed(world: World) -> None:
    body = a_job(world)
    body["job_runtime_conf"]["component_parameters"]["role"]["local"]["0"]["upload_0"]["remove_source"] = True
    assert "remove_source" in world.ask("job/submit", body)["retmsg"]


# validate


def test_validate_shows_what_each_party_would_run(world: World) -> None:
    said = world.ask("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": TOY_CONF})
    guest, host = said["data"]["parties"]
    assert (guest["role"], guest["party_id"], guest["cores"], guest["task_cores"]) == ("guest", "9999", 2, 2)
    (task,) = host["tasks"]
    del task["values"]
    assert task == {
        "component_name": "toy_0", "module": "SecureAddExample", "need_run": True, "after": [], "min_available": {},
        "parameters": {"data_num": 10},
    }
    assert host["job_parameters"]["task_cores"] == 2
    assert said["data"]["warnings"] == []
    assert (world.count("t_job"), world.count("t_submission"), world.rung) == (0, 0, [])


def validated(world: World, **common: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is said of guest and host of the toy with these job parameters."""
    conf = {**TOY_CONF, "job_parameters": {"common": {"task_cores": 2, **common}}}
    said = world.ask("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": conf})
    guest, host = said["data"]["parties"]
    return guest, host


def test_validate_asks_each_other_party_and_tells_where_its_values_come_from(world: World) -> None:
    capped = {"component_name": "toy_0", "key": "timeout", "asked": 9, "value": 5, "source": "ceilings.task_timeout"}
    world.peers.answer = Answer(data={"previewed": True, "effective": [capped, "nonsense"]})
    guest, host = validated(world, task_timeout=9, stop_duration=3)
    assert (guest["asked"], host["asked"], host["message"]) == ("accepts", "accepts", "")
    common = "job_runtime_conf.job_parameters.common"
    values = guest["tasks"][0]["values"]
    assert values["timeout"] == {"value": 9, "from": "document", "where": f"{common}.task_timeout"}
    assert values["stop_duration"] == {"value": 3, "from": "document", "where": f"{common}.stop_duration"}
    at_host = host["tasks"][0]["values"]["timeout"]
    assert at_host == {"value": 5, "from": "party", "where": "ceilings.task_timeout of host 10000"}
    cores, memory = host["values"]["task_cores"], host["values"]["task_memory"]
    assert cores == {"value": 2, "from": "document", "where": f"{common}.task_cores"}
    assert memory == {"value": 0, "from": "server default", "where": "job_default_config.task_memory"}
    (asked,) = world.peers.asked
    assert asked == (Party("host", "10000"), "/party/validate")


@pytest.mark.parametrize(("answer", "message"), [
    (Answer(104, "party 10000 does not answer: ConnectTimeout"), "party 10000 does not answer: ConnectTimeout"),
    (Answer(100, "it went wrong there"), "it does not offer to be asked"),
    (Answer(0, "success", []), "it does not offer to be asked"),
])  # fmt: skip
def test_a_party_that_says_nothing_to_it_is_named_as_not_asked(world: World, answer: Answer, message: str) -> None:
    world.peers.answer = answer
    guest, host = validated(world)
    assert (guest["asked"], host["asked"], host["message"]) == ("accepts", "not asked", message)
    stop = {"value": None, "from": "party", "where": "its limits.stop_grace"}
    assert host["tasks"][0]["values"]["stop_duration"] == stop
    assert guest["tasks"][0]["values"]["stop_duration"]["value"] == 10


@pytest.mark.parametrize(("module", "stance"), [("SecureAddExample", "refuses"), ("Reader", "not asked")])
def test_a_server_of_fate_is_not_asked_whether_it_carries_messages(world: World, module: str, stance: str) -> None:
    world.peers.answer = Answer(100, "<NotFound '404: Not Found'>")
    conf = {**TOY_CONF, "component_parameters": {"common": {"toy_0": {"table": {"name": "t", "namespace": "n"}}}}}
    world.add_table("n", "t", [("1", "2", "3")])
    dsl = {"components": {"toy_0": {"module": module}}}
    said = world.ask("job/validate", {"job_dsl": dsl, "job_runtime_conf": conf})
    host = said["data"]["parties"][1]
    words = "speaks plain FATE v1, whose servers carry no messages of toy_0 (SecureAddExample): "
    assert (host["asked"], host["message"].startswith(words)) == (stance, stance == "refuses")


def test_only_so_many_may_wait_for_other_parties_at_once(world: World) -> None:
    desk = world.services.desk
    with desk.waiting(), desk.waiting(), desk.waiting(), desk.waiting():
        response = world.post("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": TOY_CONF})
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert len(validated(world)) == 2


def test_a_party_that_would_refuse_the_submit_refuses_now(world: World) -> None:
    words = "job_runtime_conf.job_parameters.common.task_cores: 2 is more than 1, the most that host 10000 allows"
    world.peers.answer = Answer(103, words, {"previewed": True})
    said = world.ask("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": TOY_CONF})
    assert (said["retcode"], said["retmsg"]) == (103, f"host 10000: {words}")
    assert said["data"]["problems"] == [said["retmsg"]]
    assert [one["asked"] for one in said["data"]["parties"]] == ["accepts", "refuses"]
    assert (world.count("t_job"), world.count("t_outbox")) == (0, 0)


def test_validate_lists_all_that_is_wrong(world: World) -> None:
    conf = {**TOY_CONF, "dsl_version": 1, "component_parameters": {"common": {"toy_0": {"data_num": -1}}}}
    said = world.ask("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": conf})
    assert said["retcode"] == 103
    problems = said["data"]["problems"]
    assert said["retmsg"] == problems[0]
    assert any("dsl_version" in one for one in problems)
    assert any("data_num" in one for one in problems)


@pytest.mark.parametrize(("change", "culprit"), [
    ({"initiator": {"role": "host", "party_id": 10000}}, "submit the job at party 10000"),
    ({"role": {"guest": [9999], "host": [10001]}}, "party 10001 has no route"),
    ({"job_parameters": {"common": {"task_cores": 21}}}, "asks for 21 cores"),
])
def test_validate_checks_what_only_this_server_knows(world: World, change: dict[str, Any], culprit: str) -> None:
    said = world.ask("job/validate", {"job_dsl": TOY_DSL, "job_runtime_conf": {**TOY_CONF, **change}})
    assert said["retcode"] == 103
    assert culprit in said["retmsg"]
    assert said["data"]["problems"] == [said["retmsg"]]


# query


def test_a_full_row_has_the_documents_and_says_why_it_waits(world: World) -> None:
    first, second = world.add_job(f_wait_reason="host 10000 has 2 of 8 cores free, 4 asked"), world.add_job()
    (row,) = world.ask("job/query", {"job_id": first})["data"]
    assert row["f_runtime_conf"] == TOY_CONF
    assert row["f_dsl"] == TOY_DSL
    assert row["f_roles"] == {"guest": [9999], "host": [10000]}
    assert row["f_wait_reason"] == "host 10000 has 2 of 8 cores free, 4 asked; 1st in the queue"
    assert re.fullmatch(r"2023-11-1\d \d\d:\d\d:20", row["f_create_date"])
    (row,) = world.ask("job/query", {"job_id": second})["data"]
    assert row["f_wait_reason"] == "waits for its turn; 2nd in the queue"


def test_places_are_right_in_a_long_queue_too(world: World) -> None:
    ids = [world.add_job() for _ in range(30)]
    rows = world.ask("job/query", {"status": "waiting"})["data"]
    assert [row["f_job_id"] for row in rows] == ids[::-1]
    assert rows[0]["f_wait_reason"].endswith("30th in the queue")


def test_elsewhere_a_waiting_job_names_its_initiator(world: World) -> None:
    job_id = world.add_job(party=GUEST, initiator=HOST)
    (row,) = world.ask("job/query", {"job_id": job_id})["data"]
    assert row["f_wait_reason"] == "waits for its initiator, host 10000, which knows its place in the queue"


def test_what_is_stopping_is_shown_as_running_and_found_as_such(world: World) -> None:
    job_id = world.add_job(status=JobStatus.STOPPING, f_reason="stopped_by_user", f_message="by a user")
    (row,) = world.ask("job/query", {"job_id": job_id, "status": "running"})["data"]
    assert (row["f_status"], row["f_status_detail"]) == ("running", "stopping")
    assert (row["f_reason"], row["f_message"]) == ("stopped_by_user", "by a user")
    (row,) = world.ask("job/list/job", {"status": "running"})["data"]["jobs"]
    assert (row["status"], row["status_detail"]) == ("running", "stopping")


@pytest.mark.parametrize("filters", [
    {"party_id": 9999}, {"party_id": "9999"}, {"role": ["guest", "host"]}, {"role": "guest", "unknown": 1},
    {"is_initiator": True}, {"create_time": [1_600_000_000_000, None]}, {"create_time": ["2020-01-01 00:00:00", None]},
    {"create_date": ["2020-01-01 00:00:00", "2100-01-01 00:00:00"]}, {"job_id": None, "status": "waiting"},
])
def test_filters_that_find_the_job(world: World, filters: dict[str, Any]) -> None:
    job_id = world.add_job()
    assert [row["f_job_id"] for row in world.ask("job/query", filters)["data"]] == [job_id]


@pytest.mark.parametrize("filters", [
    {}, None, {"job_id": None}, {"job_id": "../../etc/passwd"}, {"job_id": "20260101120000"},
    {"role": []}, {"create_time": [None, 1_600_000_000_000]}, {"status": "deleted"}, {"progress": [50, 100]},
])
def test_filters_that_find_nothing(world: World, filters: Any) -> None:
    world.add_job()
    assert world.ask("job/query", filters) == {"retcode": 0, "retmsg": "no job could be found", "data": []}


def test_of_several_seats_the_initiators_comes_first(world: World) -> None:
    world.add_job("20260101120000")
    world.add_job("20260101120000", party=HOST)
    roles = [row["f_role"] for row in world.ask("job/query", {"job_id": "20260101120000"})["data"]]
    assert roles == ["guest", "host"]


# list


def test_a_list_is_newest_first_in_pages_and_without_documents(world: World) -> None:
    ids = [world.add_job() for _ in range(5)]
    said = world.ask("job/list/job", {"limit": 2, "page": 2})["data"]
    assert said["count"] == 5
    assert [job["job_id"] for job in said["jobs"]] == [ids[2], ids[1]]
    job = said["jobs"][0]
    assert (job["party_id"], job["partners"]) == (9999, [10000])
    assert not {"dsl", "runtime_conf", "runtime_conf_on_party", "train_runtime_conf"} & job.keys()
    assert not any(name.startswith("f_") for name in job)


@pytest.mark.parametrize(("filters", "found"), [
    ({"job_id": "202601"}, 2), ({"job_id": "%"}, 0), ({"description": "toy"}, 2), ({"partner": 10000}, 2),
    ({"partner": "777"}, 0), ({"party_id": 9999}, 2), ({"role": "guest"}, 2), ({"role": ["host"]}, 0),
    ({"status": "waiting"}, 1), ({"status": ["waiting", "success"]}, 2), ({}, 2),
])
def test_a_list_is_narrowed(world: World, filters: dict[str, Any], found: int) -> None:
    world.add_job()
    world.add_job(status=JobStatus.SUCCESS)
    world.add_job(status=JobStatus.FAILED, f_tag="submit_failed")
    assert world.ask("job/list/job", filters)["data"]["count"] == found


def test_a_list_is_ordered_as_asked(world: World) -> None:
    slow, fast = world.add_job(f_elapsed=9), world.add_job(f_elapsed=1)
    said = world.ask("job/list/job", {"order_by": "elapsed", "order": "asc"})["data"]["jobs"]
    assert [job["job_id"] for job in said] == [fast, slow]


# stop, queue, config


def test_a_waiting_job_is_told_to_stop(world: World) -> None:
    job_id = world.add_job()
    said = world.ask("job/stop", {"job_id": job_id})
    assert said == {"retcode": 0, "retmsg": "stop job on this party success; stop job on all party success"}
    (row,) = world.ask("job/query", {"job_id": job_id})["data"]
    assert (row["f_cancel_signal"], row["f_reason"]) == (True, "stopped_by_user")


@pytest.mark.parametrize(("now", "urgent"), [(True, True), (1, True), (False, False)])
def test_a_job_is_told_to_stop_now(world: World, now: object, urgent: bool) -> None:
    job_id = world.add_job()
    assert world.ask("job/stop", {"job_id": job_id, "now": now})["retcode"] == 0
    with world.store.reading() as tx:
        assert tx.job_here(job_id).is_urgent is urgent


def test_an_unknown_job_cannot_be_stopped(world: World) -> None:
    said = world.ask("job/stop", {"job_id": "20260101120000"})
    assert (said["retcode"], said["retmsg"]) == (102, "can not found job")


def test_the_queue_is_cleaned_without_a_body(world: World) -> None:
    ids = [world.add_job(), world.add_job()]
    world.add_job(status=JobStatus.RUNNING)
    assert world.ask("job/clean/queue")["data"] == dict.fromkeys(ids, 0)


def test_the_config_is_what_was_submitted(world: World) -> None:
    job_id = world.add_job()
    said = world.ask("job/config", {"job_id": job_id, "role": "guest", "party_id": 9999, "output_path": "/x"})["data"]
    assert (said["job_id"], said["dsl"], said["runtime_conf"]) == (job_id, TOY_DSL, TOY_CONF)
    assert said["train_runtime_conf"] == {}
    assert said["model_info"] == {"model_id": "guest-9999#host-10000#model", "model_version": job_id}


# explain


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
        "asked_cores": 2, "free_cores": 1, "approval": None, "trouble": None,
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


def running_job(world: World, retries: int = 0) -> str:
    """One whose guest has started its share, and whose host runs it."""
    conf = {**TOY_CONF, "job_parameters": {"common": {"task_cores": 2, "auto_retries": retries}}}
    job_id = world.add_job(status=JobStatus.RUNNING, document=replace(TOY, runtime_conf=conf))
    world.add_seats(job_id)
    world.write("t_seat", {"f_job_id": job_id}, f_status="started", f_message="")
    for party in (GUEST, HOST):
        world.add_task(job_id, party=party, f_status="running", f_party_status="running")
    return job_id


def trouble(world: World, **fields: Any) -> None:
    with world.store.transaction() as tx:
        tx.scheduler()
        assert tx.depose("", 0, "me")
        assert tx.still_schedules("me", 8_000)
        tx.note_trouble(PeerTrouble("10000", **fields))


def waits(world: World, job_id: str, role: str = "host") -> list[str]:
    """What each place that shows the job, and its share at this party, says it waits for."""
    explained = world.ask("job/explain", {"job_id": job_id})["data"]
    listed = world.ask("job/list/job", {"job_id": job_id})["data"]["jobs"][0]
    queried = world.ask("job/query", {"job_id": job_id})["data"][0]
    tasks = world.ask("job/list/task", {"job_id": job_id, "role": role})["data"]["tasks"]
    share = world.ask("job/task/query", {"job_id": job_id, "role": role})["data"][0]
    found = [explained["wait_reason"], listed["wait_reason"], queried["f_wait_reason"], tasks[0]["wait_reason"],
             share["f_wait_reason"]]  # fmt: skip
    return [words or "" for words in found]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"silent_since": 1_000, "silence": "connection refused"},
         "host 10000 has not answered for 7 s (connection refused); given up in 83 s"),
        ({"cut_off_since": 1_000, "cut_off": "connection refused"},
         "host 10000 cannot reach guest 9999 (connection refused, for 7 s); given up in 83 s"),
    ],
)  # fmt: skip
def test_a_running_job_says_everywhere_which_party_is_silent_or_cut_off_since_when_and_until_when(
    world: World, fields: Any, words: str
) -> None:
    job_id = running_job(world)
    assert waits(world, job_id) == [""] * 5
    trouble(world, **fields)
    assert waits(world, job_id) == [words] * 5
    said = world.ask("job/explain", {"job_id": job_id})["data"]
    assert [one["trouble"] for one in said["parties"]] == [None, words]
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


def copy_of_a_job(world: World, **task: Any) -> str:
    """A job that host 10000 has submitted, and that runs here."""
    job_id = world.add_job(status=JobStatus.RUNNING, party=GUEST, initiator=HOST, f_start_time=START)
    world.add_task(job_id, **{"f_status": "running", "f_party_status": "running", "f_start_time": START, **task})
    return job_id


def test_a_party_says_that_its_own_share_stops_and_who_decides_what_follows(world: World) -> None:
    job_id = copy_of_a_job(world)
    assert waits(world, job_id, "guest") == [""] * 5
    world.write("t_task", {"f_job_id": job_id}, f_party_status="stopping", f_reason="stopped", f_target="canceled")
    words = "the share of guest 9999 is being stopped; host 10000 decides what follows"
    assert waits(world, job_id, "guest") == [f"toy_0: {words}"] * 3 + [words] * 2


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
    for party, reason, words in ((GUEST, "stopped", ""), (HOST, "worker_error", "no data")):
        status = "failed" if party == HOST else "canceled"
        world.add_task(job_id, party=party, f_status="failed", f_party_status=status, f_reason=reason,
                       f_message=words, f_end_time=START)  # fmt: skip
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
    worker = Worker(f"{key.party.role}-{attempt}", key, WorkerStatus.CREATED, "/x", attempt=attempt)
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
            Entry(job_id, Level.JOB, "", "ready", 5, GUEST, caused_by="guest 9999"),
            Entry(job_id, Level.WORKER, "running", "exited", 7, HOST, "a_0", 1, exit_status="signal 9"),
        ])  # fmt: skip
    job, worker = world.ask("job/history", {"job_id": job_id})["data"]["moves"]
    assert job == {
        "time": 5, "level": "job", "role": "guest", "party_id": "9999", "component_name": None, "task_version": None,
        "old": None, "new": "ready", "reason": None, "message": "", "caused_by": "guest 9999", "exit_status": None,
        "seen_by": "9999",
    }  # fmt: skip
    assert (worker["component_name"], worker["task_version"], worker["exit_status"]) == ("a_0", 1, "signal 9")


# tasks


def test_a_task_query_shows_the_newest_version_only(world: World) -> None:
    job_id = world.add_job(status=JobStatus.RUNNING)
    world.add_task(job_id, f_status="failed", f_party_status="failed", f_end_time=1)
    world.add_task(job_id, version=1, f_status="running", f_party_status="stopping", f_message="it broke")
    world.add_task(job_id, version=1, party=HOST)
    rows = world.ask("job/task/query", {"job_id": job_id})["data"]
    assert [(row["f_role"], row["f_task_version"]) for row in rows] == [("guest", 1), ("host", 1)]
    row = rows[0]
    assert (row["f_party_status"], row["f_party_status_detail"], row["f_error_report"]) == (
        "running", "stopping", "it broke")  # fmt: skip
    assert row["f_component_parameters"] == {}
    running = world.ask("job/task/query", {"job_id": job_id, "status": "running", "role": "guest", "party_id": 9999})
    assert [row["f_component_name"] for row in running["data"]] == ["toy_0"]
    assert world.ask("job/task/query", {"job_id": job_id, "status": "failed"})["retcode"] == 101


def test_a_task_list_shows_all_versions_oldest_first(world: World) -> None:
    job_id = world.add_job(status=JobStatus.RUNNING)
    world.add_task(job_id, version=1)
    world.add_task(job_id, version=0)
    said = world.ask("job/list/task", {"limit": 10})["data"]
    assert said["count"] == 2
    assert [task["task_version"] for task in said["tasks"]] == [0, 1]
    assert world.ask("job/list/task", {"component_name": "other"})["data"] == {"tasks": [], "count": 0}


def test_the_report_of_a_job(world: World) -> None:
    job_id = world.add_job(status=JobStatus.RUNNING)
    ended = {"f_start_time": START, "f_end_time": START + 5, "f_elapsed": 5}
    world.add_task(job_id, f_status="success", f_party_status="success", **ended)
    world.add_task(job_id, name="toy_1", version=1, f_status="running")
    [first, second] = world.ask("job/report", {"job_id": job_id})["data"]
    assert first == {
        "component_name": "toy_0", "role": "guest", "party_id": "9999", "start_time": START, "end_time": START + 5,
        "elapsed": 5, "status": "success", "index": 0,
    }  # fmt: skip
    assert (second["component_name"], second["status"], second["index"]) == ("toy_1", "running", 1)
    assert world.ask("job/report", {"job_id": "20260101120000"})["retcode"] == 101
    assert world.ask("job/report", {})["retcode"] == 101


def test_the_page_of_a_job(world: World) -> None:
    named = {"job_id": "20260101120000", "role": "guest", "party_id": 9999}
    [url] = world.ask("job/url/get", named)["data"]["board_url"]
    assert url.endswith("/index.html#/dashboard?job_id=20260101120000&role=guest&party_id=9999")
    assert world.client.get("/index.html").status_code == 200
    assert world.ask("job/url/get", {"job_id": "20260101120000"})["retcode"] == 101


# resources


def test_resources_in_use_and_their_return(world: World) -> None:
    job_id = world.add_job()
    with world.store.transaction() as tx:
        assert tx.reserve(JobKey(job_id, GUEST), 4, 0, "token", 0, 1)
    said = world.ask("resource/query", {})["data"]
    holder = {"job_id": job_id, "role": "guest", "party_id": "9999", "core": 4, "memory": 0}
    assert said["use_resource_job"] == [holder]
    assert said["computing_engine_resource"]["f_remaining_cores"] == 16
    assert world.ask("resource/query", {"engine_name": "SPARK"})["data"]["computing_engine_resource"] == {}
    seat = {"job_id": job_id, "role": "guest", "party_id": "9999", "resource_in_use": False}
    assert world.ask("resource/return", {"job_id": job_id})["data"] == [{**seat, "resource_return_status": True}]
    assert world.ask("resource/return", {"job_id": job_id})["data"] == [{**seat, "resource_return_status": False}]
    assert world.ask("resource/query")["data"]["use_resource_job"] == []


def test_what_a_running_job_holds_is_not_returned(world: World) -> None:
    job_id = world.add_job()
    with world.store.transaction() as tx:
        assert tx.reserve(JobKey(job_id, GUEST), 4, 0, "token", 0, 1)
    world.write("t_job", {"f_job_id": job_id}, f_status="running")
    said = world.ask("resource/return", {"job_id": job_id})
    assert (said["retcode"], f"flow job stop -j {job_id}" in said["retmsg"]) == (100, True)


# logs


@pytest.mark.parametrize("ask", [
    lambda world, job_id: world.post("job/log/download", {"job_id": job_id, "output_path": "/client"}),
    lambda world, job_id: world.get("job/log", {"job_id": job_id, "output_path": "/client"}),      # fate_client 1.6
], ids=["1.11", "1.6"])  # fmt: skip
def test_the_logs_of_a_job_come_as_an_archive(world: World, ask: Callable[[World, str], TestResponse]) -> None:
    job_id = world.add_job()
    world.add_log(job_id, "fate_flow_schedule.log", "scheduled\n")
    world.add_log(job_id, "guest/9999/INFO.log", "x" * 200_000)
    (world.home / "logs" / job_id / "link.log").symlink_to("/etc/passwd")
    response = ask(world, job_id)
    assert response.headers["Content-Disposition"] == f"attachment; filename=job_{job_id}_log.tar.gz"
    with tarfile.open(fileobj=io.BytesIO(response.data), mode="r:gz") as archive:
        assert sorted(archive.getnames()) == ["fate_flow_schedule.log", "guest/9999/INFO.log"]
        assert archive.extractfile("fate_flow_schedule.log").read() == b"scheduled\n"
        assert len(archive.extractfile("guest/9999/INFO.log").read()) == 200_000


@pytest.mark.parametrize(("status", "errors"), [
    (JobStatus.SUCCESS, None),
    (JobStatus.FAILED, "[ERROR] toy_0 (version 0): worker_killed: signal 9\n[ERROR] job {job} is failed: done: \n"),
])  # fmt: skip
def test_a_party_whose_workers_wrote_no_logs_has_the_files_that_the_toy_opens(
    world: World, status: JobStatus, errors: str | None
) -> None:
    job_id = world.add_job(status=status)
    broken = {"f_party_status": "failed", "f_reason": "worker_killed", "f_message": "signal 9", "f_end_time": 1}
    world.add_task(job_id, **({} if errors is None else broken))
    world.add_log(job_id, "fate_flow_schedule.log", "scheduled\n")
    response = world.post("job/log/download", {"job_id": job_id})
    with tarfile.open(fileobj=io.BytesIO(response.data), mode="r:gz") as archive:
        found = {name: archive.extractfile(name).read().decode() for name in archive.getnames()}
    assert found["guest/9999/INFO.log"] == ""
    assert found.get("guest/9999/ERROR.log") == (errors and errors.format(job=job_id))


def test_a_job_without_logs_is_a_404(world: World) -> None:
    response = world.post("job/log/download", {"job_id": "20260101120000"})
    assert (response.status_code, response.json["retcode"]) == (404, 404)
    assert set(response.json) == {"retcode", "retmsg"}


def test_lines_of_a_log(world: World) -> None:
    job_id = world.add_job()
    world.add_log(job_id, "fate_flow_schedule.log", "one\ntwo from 10.0.0.1:80\nthree\n")
    body = {"job_id": job_id, "log_type": "jobSchedule"}
    assert world.ask("log/size", body)["data"] == {"size": 3}
    assert world.ask("log/cat", {**body, "begin": 2, "end": 2})["data"] == [
        {"line_num": 2, "content": "two from xxx.xxx.xxx.xxx:80"}]  # fmt: skip
    assert len(world.ask("log/cat", body)["data"]) == 3
    party = {**body, "log_type": "componentInfo", "role": "guest", "party_id": 9999, "component_name": "toy_0"}
    assert world.ask("log/size", party)["data"] == {"size": 0}
    assert world.ask("log/cat", party)["data"] == []


def test_the_output_rows_of_a_job(world: World) -> None:
    job_id = world.add_job()
    world.add_output(job_id, world.add_table("demo", "made", [("a", "1", "2")]))
    (row,) = world.ask("job/data/view/query", {"job_id": job_id, "role": "guest"})["data"]
    assert (row["f_component_name"], row["f_data_name"], row["f_table_name"]) == ("toy_0", "made", "made")


def test_a_submit_cannot_be_larger_than_the_server_takes(tmp_path: Path) -> None:
    world = make_world(tmp_path, Limits(max_request_bytes=1000))
    response = world.post("job/submit", b"x" * 1001)
    assert (response.status_code, response.json["retcode"]) == (413, 413)
    assert "1000 bytes" in response.json["retmsg"]


def test_a_local_seat_is_shown_without_partners(world: World) -> None:
    job_id = world.add_job(party=LOCAL, initiator=LOCAL, document=Document(UPLOAD_DSL, local_conf("/x"), {}))
    world.write("t_job", {"f_job_id": job_id}, f_roles='{"local": ["0"]}')
    (job,) = world.ask("job/list/job", {})["data"]["jobs"]
    assert (job["party_id"], job["partners"]) == (0, [])


def test_a_waiting_job_is_given_a_priority(world: World) -> None:
    job_id = world.add_job()
    assert world.ask("job/priority", {"job_id": job_id, "priority": -3})["retmsg"] == "set job priority success"
    assert world.ask("job/explain", {"job_id": job_id})["data"]["priority"] == -3


@pytest.mark.parametrize("priority", [1_001, -1_001, "high", 1.5])
def test_a_priority_out_of_bounds_is_refused(world: World, priority: object) -> None:
    answer = world.ask("job/priority", {"job_id": world.add_job(), "priority": priority})
    assert answer["retcode"] == 101
    assert answer["retmsg"].startswith("priority: ")


def test_a_job_on_hold_says_so_and_keeps_its_place(world: World) -> None:
    world.add_job()
    job_id = world.add_job()
    assert world.ask("job/hold", {"job_id": job_id, "message": "until monday", "author": "ann"})["retcode"] == 0
    told = world.ask("job/explain", {"job_id": job_id})["data"]
    assert told["wait_reason"] == "on hold by ann: until monday; 2nd in the queue"
    assert {key: told["hold"][key] for key in ("message", "by")} == {"message": "until monday", "by": "ann"}
    assert told["hold"]["time"] > 0
    listed = world.ask("job/query", {"job_id": job_id})["data"][0]
    assert listed["f_wait_reason"] == told["wait_reason"]
    assert world.ask("job/release", {"job_id": job_id})["retcode"] == 0
    assert world.ask("job/explain", {"job_id": job_id})["data"]["hold"] is None
    assert "not on hold" in world.ask("job/release", {"job_id": job_id})["retmsg"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"message": ""}, "message: is missing or empty"),
        ({"message": "a\nb"}, "message: 'a\\nb' is not one line of up"),
        ({"message": "x" * 501}, "is not one line of up to 500 characters"), ({"message": 7}, "message: 7 is not text"),
        ({"message": "why", "author": "x" * 101}, "author: "),
    ],
)  # fmt: skip
def test_a_hold_without_words_for_people_is_refused(world: World, body: dict[str, object], words: str) -> None:
    for path, more in (("job/hold", {"job_id": world.add_job()}), ("queue/hold", {})):
        answer = world.ask(path, {**more, **body})
        assert answer["retcode"] == 101
        assert words in answer["retmsg"]


def test_a_party_on_hold_shows_it(world: World) -> None:
    assert world.ask("party/list")["data"]["own"] == {"party_id": "9999", "hold": None}
    assert world.ask("queue/hold", {"message": "maintenance"})["retcode"] == 0
    hold = world.ask("party/list")["data"]["own"]["hold"]
    assert (hold["message"], hold["by"]) == ("maintenance", "party 9999")
    assert world.ask("queue/release")["retcode"] == 0
    assert world.ask("queue/release")["retmsg"] == "party 9999 is not on hold"


HELD = {"message": "maintenance", "by": "ann", "time": 5}


@pytest.mark.parametrize(
    ("told", "hold"),
    [
        ({"hold": HELD}, HELD), ({"hold": None}, None), (None, None), ("text", None), ({"hold": "x"}, None),
        ({"hold": {"message": "a\nb" + "x" * 600, "by": 7, "time": "now"}},
         {"message": "a\nb" + "x" * 497, "by": "", "time": 0}),
    ],
)  # fmt: skip
def test_the_holds_of_other_parties_are_shown_as_they_tell_them(world: World, told: object, hold: object) -> None:
    world.peers.answers["/party/intake"] = Answer(data=told)
    assert {one["party_id"]: one["hold"] for one in world.ask("party/list")["data"]["parties"]} == {"10000": hold}
    assert world.peers.asked == [(Party("host", "10000"), "/party/intake")]


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        (Answer(data={"hold": None}), "answers", ""),
        (Answer(data={"hold": None, "way_back": None}), "answers", ""),
        (Answer(404, "it has no such route: it speaks plain v1"), "answers", ""),
        (Answer(100, "<NotFound '404: Not Found'>"), "answers", ""),
        (Answer(101, "this server is party 7777"), "does not answer",
         "this server is party 7777; silent for 3.5 s and 4 tries (no answer in time), asked again in 2.0 s; "
         "7 commands wait for it"),
        (Answer(UNREACHABLE, "party 10000 does not answer: connection refused"), "does not answer",
         "connection refused; silent for 3.5 s and 4 tries (no answer in time), asked again in 2.0 s; "
         "7 commands wait for it"),
        (Answer(data={"hold": None, "way_back": {"seconds": 0, "error": "connection refused"}}),
         "cannot reach this party", "cannot reach party 9999: connection refused"),
    ],
)  # fmt: skip
def test_the_parties_are_asked_when_their_list_is_asked_for(
    world: World, answer: Answer, status: str, message: str
) -> None:
    """Whatever the scheduler has seen of them last."""
    peers = world.services.settings.run_dir / "peers.json"
    peers.parent.mkdir(exist_ok=True)
    seen = {"circuit": "open", "silent_seconds": 3.5, "failures": 4, "error": "no answer in time",
            "next_try_seconds": 2.0, "commands_waiting": 7}  # fmt: skip
    peers.write_text(json.dumps({"10000": seen} if status == "does not answer" else {}))
    world.peers.answers["/party/intake"] = answer
    [found] = world.ask("party/list")["data"]["parties"]
    assert (found["status"], found["message"], found["hold"]) == (status, message, None)


def test_why_a_party_is_silent_is_said_once(world: World) -> None:
    peers = world.services.settings.run_dir / "peers.json"
    peers.parent.mkdir(exist_ok=True)
    seen = {"circuit": "open", "silent_seconds": 0.5, "failures": 1, "error": "connection refused",
            "next_try_seconds": 2.0, "commands_waiting": 0}  # fmt: skip
    peers.write_text(json.dumps({"10000": seen}))
    world.peers.answers["/party/intake"] = Answer(UNREACHABLE, "party 10000 does not answer: connection refused")
    [found] = world.ask("party/list")["data"]["parties"]
    assert found["message"] == "connection refused; silent for 0.5 s and 1 try, asked again in 2.0 s"


def test_nobody_is_asked_where_too_many_handlers_wait_already(world: World) -> None:
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(world.services.desk.waiting())
        [found] = world.ask("party/list")["data"]["parties"]
    assert (found["status"], world.peers.asked) == ("not asked", [])


def test_another_party_is_told_of_a_hold_where_there_is_a_route_to_it(world: World) -> None:
    world.ask("queue/hold", {"message": "maintenance"})
    said = world.ask("party/intake", headers={"SRC-PARTY-ID": "10000"})
    assert said["data"]["hold"]["message"] == "maintenance"
    refused = world.ask("party/intake", headers={"SRC-PARTY-ID": "555"})
    assert (refused["retcode"], refused["retmsg"][:27]) == (108, "party 555 has no route here")


def test_a_job_of_another_that_has_to_be_approved_says_so(world: World) -> None:
    job_id = world.add_job(party=GUEST, initiator=HOST, f_approval="pending")
    why = "nobody at guest 9999 has approved it yet: flow job approve, or flow job reject"
    told = world.ask("job/explain", {"job_id": job_id})["data"]
    assert (told["wait_reason"], told["approval"]["status"]) == (why, "pending")
    assert told["waits_for"] == "awaiting_approval"
    [row] = world.ask("job/query", {"job_id": job_id})["data"]
    document = world.ask("job/config", {"job_id": job_id, "role": "guest", "party_id": 9999})["data"]
    digest = document_digest(document["dsl"], document["runtime_conf"])
    assert (row["f_wait_reason"], row["f_document_digest"]) == (why, digest)
    [queued] = world.ask("queue/list")["data"]["unapproved"]
    [listed] = world.ask("job/list/job", {"job_id": job_id})["data"]["jobs"]
    shown = (told["approval"]["digest"], document["digest"], queued["digest"], listed["document_digest"])
    assert shown == (digest,) * 4
    assert world.ask("job/reject", {"job_id": job_id})["retcode"] == 101
    assert world.ask("job/reject", {"job_id": job_id, "reason": "no", "author": "ann"})["retcode"] == 0
    told = world.ask("job/explain", {"job_id": job_id})["data"]["approval"]
    assert (told["status"], told["by"], told["message"]) == ("rejected", "ann", "no")
    for said, message in (({}, ""), ({"reason": "contract 7"}, "contract 7")):
        assert world.ask("job/approve", {"job_id": job_id, **said})["retcode"] == 0
        told = world.ask("job/explain", {"job_id": job_id})["data"]["approval"]
        assert (told["status"], told["message"]) == ("approved", message)
    assert world.ask("job/approve", {"job_id": job_id, "reason": "a\nb"})["retcode"] == 101
    digest, short = told["digest"], told["digest"][:32]
    approved = world.ask("job/approve", {"job_id": job_id, "digest": short})
    assert approved["data"] == {"digest": digest, "revision": 0}
    wrong = [digest.upper(), short[:31], f"{short}0", "0" * 32, "0" * 64, 7]
    assert [world.ask("job/approve", {"job_id": job_id, "digest": one})["retcode"] for one in wrong] == [
        101, 101, 101, 100, 100, 101]  # fmt: skip
    revisions = (told["revision"], "0", 1, -1, "x")
    assert [world.ask("job/approve", {"job_id": job_id, "revision": one})["retcode"] for one in revisions] == [
        0, 0, 100, 101, 101]  # fmt: skip


def test_what_a_job_waits_for_is_one_word_too(world: World) -> None:
    job_id = world.add_job(f_blocked_on="10000", f_lacks="approval", f_apart=True, f_wait_reason="host 10000 has not")
    world.add_seats(job_id)
    world.write("t_seat", {"f_job_id": job_id, "f_role": "host"}, f_lacks="approval")
    told = world.ask("job/explain", {"job_id": job_id})["data"]
    assert (told["waits_for"], told["lacks"]) == ("awaiting_approval", "approval")
    assert told["awaiting_approval"] == ["host 10000"]


# ---------------------------------------------------------------------- the queue


def test_the_queue_is_listed_in_its_order_with_what_each_job_waits_for(world: World) -> None:
    free, held, short, pending = (world.add_job(f_queue_key=key) for key in (5, 7, 3, 9))
    world.add_seats(short)
    world.write("t_job", {"f_job_id": short}, f_blocked_on="10000", f_lacks="room", f_wait_reason="has no room",
                f_passes=2, f_priority=4, f_retry_at=2_500)
    world.write("t_job", {"f_job_id": pending}, f_blocked_on="10000", f_lacks="approval", f_apart=True)
    world.ask("job/hold", {"job_id": held, "message": "later", "author": "ann"})
    found = world.ask("queue/list")["data"]
    assert (found["count"], found["hold"], found["unapproved"]) == (4, None, [])
    assert [(one["place_in_queue"], one["job_id"]) for one in found["jobs"]] == [
        (1, short), (2, free), (3, held), (4, pending),
    ]  # fmt: skip
    assert [one["waits_for"] for one in found["jobs"]] == ["room", "turn", "release", "awaiting_approval"]
    assert [one["estimate_seconds"] for one in found["jobs"]] == [None, 0, None, None]
    assert [bool(one["no_estimate_because"]) for one in found["jobs"]] == [True, False, True, True]
    first = found["jobs"][0]
    assert (first["priority"], first["passed_by"], first["asked_again_seconds"]) == (4, 2, 2.5)
    assert first["parties"][1] == {"role": "host", "party_id": "10000", "asked_cores": 2}
    for one in found["jobs"]:
        told = world.ask("job/explain", {"job_id": one["job_id"]})["data"]
        assert all(told[key] == one[key] for key in ("wait_reason", "waits_for", "lacks", "place_in_queue", "hold"))


def test_a_page_of_the_queue_knows_its_places(world: World) -> None:
    ids = [world.add_job() for _ in range(5)]
    found = world.ask("queue/list", {"limit": 2, "page": 2})["data"]
    assert [(one["place_in_queue"], one["job_id"]) for one in found["jobs"]] == [(3, ids[2]), (4, ids[3])]
    assert found["count"] == 5
    assert world.ask("queue/list", {"limit": 0})["retcode"] == 101


def test_the_queue_lists_what_awaits_the_approval_of_this_party(world: World) -> None:
    job_id = world.add_job(party=GUEST, initiator=HOST, f_approval="pending", f_asked_cores=3)
    world.add_job(party=GUEST, initiator=HOST, f_approval="approved")
    world.add_job(party=GUEST, initiator=HOST, f_approval="pending", status=JobStatus.FAILED)
    world.ask("queue/hold", {"message": "maintenance", "author": "ann"})
    found = world.ask("queue/list")["data"]
    assert (found["jobs"], found["hold"]["by"]) == ([], "ann")
    [one] = found["unapproved"]
    assert (one["job_id"], one["initiator"], one["asked_cores"]) == (job_id, {"role": "host", "party_id": "10000"}, 3)


def at_steady_time(world: World, milliseconds: int) -> None:
    with world.store.transaction() as tx:
        owner, counter = tx.scheduler()
        assert tx.depose(owner, counter, "me")
        assert tx.still_schedules("me", milliseconds)


def test_a_job_that_pauses_before_its_next_attempt_says_when_it_is_over(world: World) -> None:
    resting = world.add_job(f_rerun_signal=True, f_retry_at=40_000, f_wait_reason="retry_backoff: toy_0 begins again")
    world.add_job(f_rerun_signal=True)
    for after, seconds in ((0, 40), (12_000, 28), (50_000, 0)):
        at_steady_time(world, after)
        words = f"retry_backoff: toy_0 begins again in {seconds} s"
        assert world.ask("job/explain", {"job_id": resting})["data"]["wait_reason"] == words
        assert world.ask("queue/list")["data"]["jobs"][0]["wait_reason"] == f"{words}; 1st in the queue"
        assert world.ask("job/query", {"job_id": resting})["data"][0]["f_wait_reason"].startswith(words)
    at_steady_time(world, 0)
    found = world.ask("queue/list")["data"]["jobs"]
    assert [one["waits_for"] for one in found] == ["retry_backoff", "parties"]
    assert [one["asked_again_seconds"] for one in found] == [40, None]
    assert [one["estimate_seconds"] for one in found] == [None, None]
