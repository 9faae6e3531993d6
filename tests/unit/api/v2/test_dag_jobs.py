"""Jobs that clients of FATE 2 submit and follow; v1 and FATE 2's API show the same jobs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from fate_flow import __version__
from fate_flow.core.model.job import JobKey
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.jobspec.fate_v2.submitted import as_submitted
from tests.kit.api.client_world import TOY_CONF, TOY_DSL, World
from tests.kit.api.running_jobs import running_job, trouble
from tests.kit.jobspec.fate_v2_documents import a_training, fate_table

LOCAL = [{"role": "local", "party_id": ["0"]}]
JOB_KEYS = {
    "apply_resource_time", "cores", "create_time", "dag", "description", "elapsed", "end_time", "engine_name",
    "flow_id", "inheritance", "initiator_party_id", "job_id", "memory", "model_id", "model_version", "parties",
    "party_id", "progress", "protocol", "remaining_cores", "remaining_memory", "resource_in_use",
    "return_resource_time", "role", "scheduler_party_id", "start_time", "status", "status_code", "tag", "update_time",
    "user_name",
}  # fmt: skip
TASK_KEYS = {
    "cmd", "component", "component_parameters", "create_time", "elapsed", "end_time", "engine_conf", "error_report",
    "execution_id", "job_id", "kill_status", "launcher_name", "memory", "party_id", "party_status", "protocol",
    "provider_name", "resource_in_use", "role", "run_ip", "run_pid", "run_port", "scheduler_party_id", "start_time",
    "status", "status_code", "sync_type", "task_cores", "task_id", "task_name", "task_parameters", "task_run",
    "task_version", "timeout", "update_time", "worker_id",
}  # fmt: skip


def a_download(world: World) -> dict[str, Any]:
    """A job of this party alone, with a component of this package."""
    (world.home / "downloads").mkdir(exist_ok=True)
    world.add_table("a", "b", [])
    parameters = {"namespace": "a", "name": "b", "output_path": str(world.home / "downloads" / "b.csv")}
    return {"schema_version": "2.2.0", "dag": {
        "parties": LOCAL, "conf": {"cores": 1, "auto_retries": 1},
        "tasks": {"download_0": {"component_ref": "download", "parameters": parameters}},
    }}  # fmt: skip


@pytest.fixture
def submitted(world: World) -> str:
    found = submit(world, a_download(world))
    assert found["code"] == 0, found
    job_id: str = found["job_id"]
    return job_id


def submit(world: World, body: object) -> dict[str, Any]:
    found: dict[str, Any] = world.client.post("/v2/job/submit", json={"dag_schema": body}).json
    return found


def ask(world: World, path: str, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = world.client.get(f"/v2/job/{path}", query_string=query).json
    return found


# ---------------------------------------------------------------------- submit


def test_a_submit_is_answered_with_the_names_of_job_and_model(world: World) -> None:
    found = submit(world, a_download(world))
    assert found == {
        "code": 0, "message": "success", "job_id": found["job_id"],
        "data": {"model_id": found["job_id"], "model_version": "0"},
    }  # fmt: skip


def test_keys_without_effect_are_named_in_the_answer(world: World) -> None:
    body = a_download(world)
    body["dag"]["conf"]["engine"] = {"name": "standalone"}
    assert submit(world, body)["data"]["warnings"] == ["dag.conf.engine: is not known; it is ignored"]


@pytest.mark.parametrize(("key", "value", "problem"), [
    ("stage", "trian", "dag.stage: 'trian' is not one of default, train, predict, cross_validation"),
    ("tasks", {"a": {"component_ref": "dowload"}}, "dag.tasks.a.component_ref: 'dowload' is not known; did you mean "),
])  # fmt: skip
def test_a_wrong_dag_is_refused_with_all_its_problems(world: World, key: str, value: object, problem: str) -> None:
    body = a_download(world)
    body["dag"][key] = value
    found = submit(world, body)
    assert found["code"] == 1000
    assert found["message"].startswith(problem)
    assert found["data"]["problems"] == [found["message"]]
    assert "job_id" not in found
    assert world.count("t_job") == 0


def test_a_dag_that_cannot_run_here_is_refused_at_creation(world: World) -> None:
    body = a_download(world)
    body["dag"]["conf"]["cores"] = 500
    assert submit(world, body)["code"] == 1002


@pytest.mark.parametrize("sent", [{}, {"dag_schema": []}, {"dag_schema": None}])
def test_a_submit_without_a_dag_is_no_request(world: World, sent: object) -> None:
    found = world.client.post("/v2/job/submit", json=sent).json
    assert (found["code"], list(found["data"]["json"])) == (5001, ["dag_schema"])


def test_a_repeated_key_is_refused(world: World) -> None:
    found = world.client.post("/v2/job/submit", data=b'{"dag_schema": {"dag": 1, "dag": 2}}').json
    assert found["code"] == 5001
    assert "dag" in found["message"]


def test_the_server_fills_in_initiator_and_providers(tmp_path: Path) -> None:
    body = a_training()
    del body["dag"]["conf"]
    body["dag"]["tasks"]["sum_0"] = {"component_ref": "secure_sum"}
    before = copy.deepcopy(body)
    found = as_submitted(body, "9999", fate_table(tmp_path).components)
    assert body == before
    assert found["dag"]["conf"] == {
        "initiator_party_id": "9999", "scheduler_party_id": "9999", "task": {"provider": "fate:2.2.0@local"},
    }  # fmt: skip
    assert found["dag"]["tasks"]["psi_0"] == before["dag"]["tasks"]["psi_0"]
    assert found["dag"]["tasks"]["sum_0"]["conf"] == {"provider": f"fate_flow:{__version__}@local"}


# ---------------------------------------------------------------------- jobs


def test_a_job_has_fates_keys_and_its_dag(world: World, submitted: str) -> None:
    [row] = ask(world, "query", job_id=submitted, role="local", party_id="0")["data"]
    assert row.keys() == JOB_KEYS | {"wait_reason"}
    assert row["wait_reason"] == "waits for its turn; 1st in the queue"
    assert (row["status"], row["parties"], row["party_id"]) == ("waiting", LOCAL, "0")
    assert (row["model_id"], row["model_version"]) == (submitted, "0")
    dag = row["dag"]["dag"]
    assert row["dag"].keys() == {"dag", "kind", "schema_version"}
    assert dag["parties"] == LOCAL
    assert dag["conf"] | {"task": None} == {
        "auto_retries": 1, "computing_partitions": 1, "cores": 1, "extra": None, "inheritance": None,
        "initiator_party_id": "0", "model_id": submitted, "model_version": "0", "model_warehouse": None,
        "priority": None, "scheduler_party_id": "0", "sync_type": "callback", "task": None,
    }  # fmt: skip
    assert dag["conf"]["task"]["provider"] == f"fate_flow:{__version__}@local"
    assert dag["tasks"]["download_0"]["component_ref"] == "download"


def test_a_dag_is_shown_by_v1_as_well(world: World, submitted: str) -> None:
    [row] = world.ask("job/query", {"job_id": submitted})["data"]
    assert (row["f_format"], row["f_dsl"]) == ("fate_v2", {"components": {"download_0": {"module": "Download"}}})
    config = world.ask("job/config", {"job_id": submitted, "role": "local", "party_id": "0"})["data"]
    assert config["document"]["format"] == "fate_v2"


def test_a_job_of_v1_is_shown_with_a_dag(world: World) -> None:
    job_id = world.add_job()
    [row] = ask(world, "query", job_id=job_id)["data"]
    assert row["dag"]["dag"]["parties"] == row["parties"] == [
        {"role": "guest", "party_id": ["9999"]}, {"role": "host", "party_id": ["10000"]},
    ]  # fmt: skip
    task = row["dag"]["dag"]["tasks"]["toy_0"]
    assert task["component_ref"] == TOY_DSL["components"]["toy_0"]["module"]
    assert task["parameters"] == TOY_CONF.get("component_parameters", {}).get("common", {}).get("toy_0", {})
    assert row["dag"]["dag"]["conf"]["initiator_party_id"] == "9999"


@pytest.mark.parametrize(("status", "shown"), [
    (JobStatus.TIMEOUT, "failed"), (JobStatus.STOPPING, "running"), (JobStatus.WAITING, "waiting"),
    (JobStatus.SUCCESS, "success"),
])  # fmt: skip
def test_pipeline_knows_every_status(world: World, status: JobStatus, shown: str) -> None:
    ended = {"f_end_time": 1, "f_reason": "job_timeout"} if status is JobStatus.TIMEOUT else {}
    job_id = world.add_job(status=status, **ended)
    assert [row["status"] for row in ask(world, "query", status=shown)["data"]] == [shown]
    assert [row["job_id"] for row in ask(world, "list/query", status=[shown])["data"]["data"]] == [job_id]


@pytest.mark.parametrize("query", [
    {"job_id": "20260101000000000001"}, {"job_id": "1", "role": "guest", "party_id": "9999"}, {"status": "no"}, {},
])  # fmt: skip
def test_there_is_no_such_job(world: World, query: dict[str, str]) -> None:
    looked_for = ",".join(f"{key}[{value}]" for key, value in query.items())
    assert ask(world, "query", **query) == {
        "code": 1001, "message": f"No found job: {looked_for}" if looked_for else "No found job",
    }  # fmt: skip


def test_a_list_has_pages(world: World) -> None:
    jobs = [world.add_job() for _ in range(3)]
    found = ask(world, "list/query", limit=2, page=1)["data"]
    assert (found["count"], [row["job_id"] for row in found["data"]]) == (3, [jobs[2], jobs[1]])
    assert found["data"][0].keys() == JOB_KEYS | {"partners", "wait_reason"}
    assert found["data"][0]["partners"] == ["10000"]
    found = ask(world, "list/query", limit=2, page=2, order_by="create_time", order="asc", role=["guest", "host"])
    assert [row["job_id"] for row in found["data"]["data"]] == [jobs[2]]
    assert ask(world, "list/query", order_by="cores")["data"] == {
        "querystring": {"order_by": ["Must be one of: create_time, start_time, end_time, elapsed."]},
    }  # fmt: skip


def test_the_dependencies_of_a_job(world: World, submitted: str) -> None:
    seat = {"job_id": submitted, "role": "local", "party_id": "0"}
    assert ask(world, "dag/dependency", **seat)["data"] == {
        "component_list": ["download_0"], "component_module": {"download_0": "Download"},
        "component_stage": {"download_0": "default"}, "dependencies": {"download_0": [{"up_output_info": []}]},
    }  # fmt: skip
    found = ask(world, "dag/dependency", **{**seat, "role": "guest"})
    assert found["message"] == f"No found job: job_id[{submitted}],role[guest],party_id[0]"


def test_the_tables_that_a_job_names(world: World, submitted: str) -> None:
    seat = {"job_id": submitted, "role": "local", "party_id": "0"}
    found = ask(world, "data/view", **seat)["data"]
    assert (found["role"], found["party_id"], list(found["data_view"])) == ("local", "0", ["local"])


def test_results_of_an_ended_job_are_deleted(world: World) -> None:
    job_id = world.add_job(status=JobStatus.SUCCESS)
    assert world.client.post("/v2/job/clean", json={"job_id": job_id}).json == {"code": 0, "message": "success"}
    found = world.client.post("/v2/job/clean", json={"job_id": world.add_job()}).json
    assert found["code"] != 0


@pytest.mark.parametrize(("fields", "more"), [
    ({"f_message": ""}, {}),
    ({"f_restarting": True}, {"status_detail": "restarting"}),
    ({"f_status": "stopping", "f_target": "failed", "f_reason": "task_failed", "f_stop_by": 50_000},
     {"status_detail": "stopping"}),
    ({"f_status": "timeout", "f_end_time": 1, "f_reason": "job_timeout"}, {"status_detail": "timeout"}),
])  # fmt: skip
def test_a_status_that_fates_clients_do_not_know_stands_beside_theirs(
    world: World, fields: dict[str, Any], more: dict[str, str]
) -> None:
    job_id = running_job(world)
    world.write("t_task", {"f_job_id": job_id}, f_party_status="success", f_reason="done", f_end_time=1,
                f_status="stopping" if "f_restarting" in fields else "running")  # fmt: skip
    world.write("t_job", {"f_job_id": job_id}, **fields)
    [row], [listed] = ask(world, "query", job_id=job_id)["data"], ask(world, "list/query")["data"]["data"]
    assert row["status"] in ("running", "failed")
    for one in (row, listed):
        assert {key: one[key] for key in one.keys() - JOB_KEYS - {"partners"}} == more


def test_a_job_and_its_tasks_say_what_they_wait_for(world: World) -> None:
    job_id = running_job(world, retries=1)
    world.write("t_task", {"f_job_id": job_id}, f_status="stopping")
    world.write("t_task", {"f_job_id": job_id, "f_role": "guest"}, f_party_status="failed", f_reason="worker_error",
                f_end_time=1)  # fmt: skip
    trouble(world, silent_since=1_000)
    silence = "host 10000 has not answered for 7 s"
    begins = "begins again as version 1 when host 10000 has stopped"
    [job], [listed] = ask(world, "query", job_id=job_id)["data"], ask(world, "list/query")["data"]["data"]
    for row in (job, listed):
        assert (row["status"], row.get("status_detail")) == ("running", None)
        assert row["wait_reason"] == f"{silence}; given up in 83 s; toy_0 {begins}"
    for path in ("task/query", "task/list/query"):
        data = ask(world, path, job_id=job_id)["data"]
        found = {row["role"]: row for row in (data if path == "task/query" else data["data"])}
        assert {(row["status"], row["status_detail"]) for row in found.values()} == {("running", "restarting")}
        assert found["guest"]["wait_reason"] == begins
        assert found["host"]["wait_reason"] == f"{silence}; given up in 83 s; {begins}"


# ---------------------------------------------------------------------- tasks


@pytest.fixture
def of_toy(world: World) -> str:
    job_id = world.add_job()
    world.add_task(job_id)
    world.add_task(job_id, version=1)
    return job_id


def test_a_task_has_fates_keys(world: World, of_toy: str) -> None:
    [row] = ask(world, "task/query", job_id=of_toy, role="guest", party_id="9999")["data"]
    assert row.keys() == TASK_KEYS
    assert (row["task_name"], row["component"], row["task_version"]) == ("toy_0", "SecureAddExample", 1)
    assert row["execution_id"] == f"{of_toy}_toy_0_1_guest_9999"
    assert row["provider_name"].endswith("@local")


def test_tasks_are_filtered(world: World, of_toy: str) -> None:
    for query, versions in (
        ({"status": "waiting"}, [1]), ({"task_version": 0}, [0]), ({"task_name": "toy_0"}, [1]), ({}, [1]),
    ):  # fmt: skip
        found = ask(world, "task/query", job_id=of_toy, **query)["data"]
        assert [row["task_version"] for row in found] == versions
    assert ask(world, "task/query", job_id=of_toy, status="running") == {"code": 2000, "message": "No found task"}
    found = ask(world, "task/list/query", job_id=of_toy, limit=1, page=1)["data"]
    assert (found["count"], len(found["data"])) == (2, 1)


def test_a_task_that_stops_still_runs_for_the_client(world: World, of_toy: str) -> None:
    key = JobKey(of_toy, Party("guest", "9999"))
    where = {"f_job_id": key.job_id, "f_task_version": 1}
    world.write("t_task", where, f_status="stopping", f_party_status="stopping")
    [row] = ask(world, "task/query", job_id=of_toy, status="running")["data"]
    assert (row["status"], row["party_status"], row["resource_in_use"]) == ("running", "running", True)
