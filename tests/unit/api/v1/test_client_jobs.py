"""Routes of jobs, tasks and resources: what clients of the v1 API send and get."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from fate_flow.core.model.job import JobKey
from fate_flow.core.model.status import JobStatus
from fate_flow.core.text.trace import trace_id_in
from fate_flow.settings.limits import Limits
from fate_flow.store.values import Document
from tests.kit.api.client_world import GUEST, HOST, LOCAL, START, TOY_CONF, TOY_DSL, World, make_world

UPLOAD_DSL = {"components": {"upload_0": {"module": "Upload"}}}


def local_conf(file: str, **job_parameters: Any) -> dict[str, Any]:
    described = {"file": file, "head": 1, "partition": 2, "namespace": "demo", "name": "site_a"}
    return {
        "dsl_version": 2,
        "initiator": {"role": "local", "party_id": 0},
        "role": {"local": [0]},
        "job_parameters": {"common": {"federated_mode": "SINGLE", **job_parameters}},
        "component_parameters": {"role": {"local": {"0": {"upload_0": described}}}},
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
    assert data["board_url"].endswith(f"/board/jobs/{job_id}?role=local&party_id=0")
    assert data["warnings"] == []
    assert [job_id] in [list(jobs) for jobs in world.rung]


def test_a_job_keeps_the_trace_of_its_request_and_every_answer_names_one(world: World) -> None:
    trace = "4b" * 16
    given = world.post("job/submit", a_job(world), headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    made = world.post("job/submit", a_job(world), headers={"traceparent": "nonsense"})
    refused = world.post("job/submit", {}, headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})

    with world.store.reading() as tx:
        kept = [tx.jobs_here(one.json["jobId"])[0].trace for one in (given, made)]
    assert kept == [trace, trace_id_in(made.headers["traceparent"])]
    assert len(kept[1]) == 32
    assert kept[1] != trace
    assert [trace_id_in(one.headers["traceparent"]) for one in (given, refused)] == [trace, trace]
    assert refused.json["retcode"] != 0
    assert world.record.traces == [trace, kept[1], trace]


def test_where_fate_has_its_board_a_page_leads_to_ours_and_names_the_commands(world: World) -> None:
    page = world.client.get("/index.html")
    assert (page.status_code, page.mimetype) == (200, "text/html")
    assert 'href="/board/"' in page.text
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
    message = "job_dsl.components.upload_0 is there twice: an object has each of its keys once"
    assert (said["retcode"], said["retmsg"]) == (101, message)
    assert world.count("t_job") == 0


def test_a_party_that_does_not_answer_fails_the_submit(world: World) -> None:
    said = world.ask("job/submit", {"job_dsl": TOY_DSL, "job_runtime_conf": TOY_CONF})
    assert said["retcode"] == 103
    assert "not every party answered" in said["retmsg"]


def test_too_many_waiting_submits_are_sent_away_for_a_moment(world: World) -> None:
    for _ in range(4):
        assert world.services.use_cases.submits._slots.acquire(blocking=False)
    response = world.post("job/submit", a_job(world))
    assert (response.status_code, response.json["retcode"]) == (503, 503)
    assert response.headers["Retry-After"] == "1"


@pytest.mark.parametrize("module", ["Upload", "Download"])
@pytest.mark.parametrize("path", ["/etc/passwd", "relative.csv", "/nowhere/../etc/passwd"])
def test_a_submitted_job_touches_no_other_files_of_the_server(world: World, module: str, path: str) -> None:
    body = a_job(world)
    described = body["job_runtime_conf"]["component_parameters"]["role"]["local"]["0"]["upload_0"]
    described.update(file=path, output_path=path)
    said = world.ask("job/submit", {**body, "job_dsl": {"components": {"upload_0": {"module": module}}}})
    assert said["retcode"] == 103
    assert path in said["retmsg"]
    assert world.count("t_job") == 0


def test_a_client_cannot_have_its_source_removed(world: World) -> None:
    body = a_job(world)
    body["job_runtime_conf"]["component_parameters"]["role"]["local"]["0"]["upload_0"]["remove_source"] = True
    assert "remove_source" in world.ask("job/submit", body)["retmsg"]


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
        assert tx.job_here(job_id).is_force_stop is urgent


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
    assert row["f_component_parameters"] == {
        "module": "SecureAddExample", "ComponentParam": {"data_num": 10, "need_run": True},
        "role": {"guest": [9999], "host": [10000]}, "initiator": {"role": "guest", "party_id": 9999},
        "local": {"role": "guest", "party_id": 9999},
    }  # fmt: skip
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
    assert url.endswith("/board/jobs/20260101120000?role=guest&party_id=9999")
    assert world.client.get("/index.html").status_code == 200
    assert world.ask("job/url/get", {"job_id": "20260101120000"})["retcode"] == 101


# resources


def test_resources_in_use_and_their_return(world: World) -> None:
    job_id = world.add_job()
    with world.store.transaction() as tx:
        assert tx.reserve(JobKey(job_id, GUEST), "local", 4, 0, "token", 0, 1)
    said = world.ask("resource/query", {})["data"]
    holder = {"job_id": job_id, "role": "guest", "party_id": "9999", "core": 4, "memory": 0, "gpus": 0}
    assert said["use_resource_job"] == [{**holder, "engine": "STANDALONE"}]
    assert said["engines"] == [said["computing_engine_resource"]]
    assert said["computing_engine_resource"]["f_remaining_cores"] == 16
    assert world.ask("resource/query", {"engine_name": "SPARK"})["data"]["computing_engine_resource"] == {}
    seat = {"job_id": job_id, "role": "guest", "party_id": "9999", "resource_in_use": False}
    assert world.ask("resource/return", {"job_id": job_id})["data"] == [{**seat, "resource_return_status": True}]
    assert world.ask("resource/return", {"job_id": job_id})["data"] == [{**seat, "resource_return_status": False}]
    assert world.ask("resource/query")["data"]["use_resource_job"] == []


def test_what_a_running_job_holds_is_not_returned(world: World) -> None:
    job_id = world.add_job()
    with world.store.transaction() as tx:
        assert tx.reserve(JobKey(job_id, GUEST), "local", 4, 0, "token", 0, 1)
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
