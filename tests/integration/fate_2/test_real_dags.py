"""Jobs that clients of FATE 2 submit, at two real parties with a provider of components."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.components.foreign_provider import VERSION, make_environment
from tests.kit.fate_2.answers import about, differences, recorded, shape_of
from tests.kit.servers.decisions import decided
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, PartyServer, running_cluster
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(600)

GUESTS, HOSTS = {"role": "guest", "party_id": [GUEST]}, {"role": "host", "party_id": [HOST]}
PROVIDER = f"foreign:{VERSION}@local"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("fate_2")
    foreign = {"version": VERSION, "python": str(make_environment(folder / "env"))}
    overlays = {party: {"providers": {"foreign": foreign}} for party in (GUEST, HOST)}
    with running_cluster(folder / "servers", (GUEST, HOST), base_port=BASE_PORT + 240, overlays=overlays) as cluster:
        servers = cluster.parties.values()
        eventually(lambda: all(one.ask("provider/get")["foreign"][VERSION]["is_ready"] for one in servers), str)
        yield cluster
        cluster.check_idle()


def a_dag(**tasks: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema_version": "2.2.0",
        "dag": {
            "parties": [GUESTS, HOSTS], "stage": "train", "tasks": tasks,
            "party_tasks": {
                "guest_own": {"parties": [GUESTS], "tasks": {"say_0": {"parameters": {"text": "of the guest"}}}},
                "host_own": {"parties": [HOSTS], "tasks": {"say_0": {"parameters": {"text": "of the host"}}}},
            },
        },
    }  # fmt: skip


def say(*after: str, **more: Any) -> dict[str, Any]:
    return {"component_ref": "say", "dependent_tasks": list(after), "stage": "default", **more}


def post(server: PartyServer, path: str, **sent: Any) -> dict[str, Any]:
    found: dict[str, Any] = server.raw("POST", f"job/{path}", api="v2", json=sent).json()
    return found


def get(server: PartyServer, path: str, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = server.raw("GET", f"job/{path}", api="v2", params=query).json()
    return found


def submit(server: PartyServer, dag: dict[str, Any]) -> str:
    found = decided(lambda: post(server, "submit", dag_schema=dag), lambda said: str(said["message"]))
    assert found["code"] == 0, found
    job_id: str = found["job_id"]
    return job_id


def seat_of(server: PartyServer, job_id: str) -> dict[str, str]:
    role = "guest" if server.party_id == GUEST else "host"
    return {"job_id": job_id, "role": role, "party_id": server.party_id}


def waited_for(server: PartyServer, job_id: str, status: str) -> dict[str, Any]:
    """The row of a job, as `pipeline` asks for it every second."""
    def look() -> dict[str, Any] | None:
        row: dict[str, Any] = get(server, "query", **seat_of(server, job_id))["data"][0]
        ended = ("success", "failed", "canceled")
        assert row["status"] == status or row["status"] not in ended, state()
        return row if row["status"] == status else None

    def state() -> str:
        job = server.job(job_id)
        tasks = [(one["f_component_name"], one["f_status"], one["f_message"]) for one in server.tasks(job_id)]
        return f"{status}: {job['f_status']}, {job['f_message']}, {tasks}"

    return eventually(look, state)


def test_a_dag_runs_at_its_parties_and_is_read_back(cluster: Cluster) -> None:
    guest, host = cluster.guest, cluster.host
    dag = a_dag(say_0=say(), say_1=say("say_0", parties=[GUESTS], parameters={"text": "again", "times": 3}))
    job_id = submit(guest, dag)
    row = waited_for(guest, job_id, "success")
    there = waited_for(host, job_id, "success")
    assert row["dag"]["dag"]["party_tasks"] == dag["dag"]["party_tasks"]
    assert there["dag"]["dag"]["party_tasks"] == {
        "guest_own": {"parties": [GUESTS]}, "host_own": dag["dag"]["party_tasks"]["host_own"],
    }  # fmt: skip
    for one in (row, there):
        assert one["dag"]["dag"]["conf"]["task"]["provider"] == PROVIDER
        assert (one["model_id"], one["model_version"], one["initiator_party_id"]) == (job_id, "0", GUEST)
    tasks = {
        server.party_id: get(server, "task/query", **seat_of(server, job_id))["data"] for server in (guest, host)
    }
    assert sorted(one["task_name"] for one in tasks[GUEST]) == ["say_0", "say_1"]
    assert [one["task_name"] for one in tasks[HOST]] == ["say_0"], "the other task is the guest's alone"
    assert {(one["provider_name"], one["component"], one["status"]) for one in tasks[GUEST]} == {
        (PROVIDER, "say", "success"),
    }  # fmt: skip
    assert [one["component_parameters"]["parameters"] for one in tasks[HOST]] == [{"text": "of the host"}]
    assert host.job(job_id)["f_format"] == "fate_v2"
    archive = guest.raw("POST", "job/log/download", api="v2", json={"job_id": job_id})
    with tarfile.open(fileobj=io.BytesIO(archive.content)) as tar:
        assert f"guest/{GUEST}/INFO.log" in tar.getnames()


@pytest.mark.heavy
def test_answers_have_the_keys_and_types_of_the_genuine_server(cluster: Cluster) -> None:
    dag = a_dag(say_0=say(), say_1=say("say_0", parameters={"text": "again"}))
    submitted = post(cluster.guest, "submit", dag_schema=dag)
    waited_for(cluster.guest, submitted["job_id"], "success")
    answers = {"submit": submitted}
    for name, (method, path, sent) in about(submitted["job_id"]).items():
        where = {"params": sent} if method == "GET" else {"json": sent}
        answers[name] = cluster.guest.raw(method, path, api="v2", **where).json()
    shapes = recorded()["shapes"]
    assert answers.keys() == shapes.keys()
    found = {name: differences(shape_of(answer), shapes[name]) for name, answer in answers.items()}
    # FATE's tasks of this record read each other's outputs, those of the provider of tests have none.
    none_read = [f".data.dependencies.*[].{key}: is missing" for key in ("component_name", "model_type", "type")]
    assert {name: all_ for name, all_ in found.items() if all_} == {"dependencies": none_read}


def test_a_failed_job_runs_again_and_a_running_one_is_stopped(cluster: Cluster) -> None:
    guest, host = cluster.guest, cluster.host
    failed = submit(guest, a_dag(say_0=say(), say_1=say("say_0", parties=[HOSTS], parameters={"text": "fail"})))
    waited_for(host, failed, "failed")
    waited_for(guest, failed, "failed")
    assert post(host, "rerun", job_id=failed) == {"code": 0, "message": "success"}
    eventually(
        lambda: any(
            one["task_version"] == 1 and one["status"] == "failed"
            for one in get(host, "task/query", job_id=failed, task_name="say_1").get("data", ())
        ), str,
    )  # fmt: skip
    waited_for(guest, failed, "failed")
    long = submit(guest, a_dag(say_0=say(), say_1=say("say_0", parameters={"text": "wait"})))
    waiting = {**seat_of(guest, long), "status": "running", "task_name": "say_1"}
    eventually(lambda: get(guest, "task/query", **waiting).get("data"), str)
    assert post(guest, "stop", job_id=long) == {"code": 0, "message": "success"}
    waited_for(guest, long, "canceled")
    waited_for(host, long, "canceled")


def test_a_job_that_takes_too_long_reads_failed(cluster: Cluster) -> None:
    guest = cluster.guest
    dag = a_dag(say_0=say(parties=[GUESTS], conf={"timeout": 1}))
    dag["dag"]["party_tasks"] = {}
    dag["dag"]["tasks"]["say_0"]["parameters"] = {"text": "wait"}
    job_id = submit(guest, dag)
    row = waited_for(guest, job_id, "failed")
    assert row["end_time"] is not None


def test_a_party_without_the_provider_is_named(cluster: Cluster) -> None:
    dag = a_dag(say_0=say())
    dag["dag"]["conf"] = {"task": {"provider": "foreign:9.9.9@local"}}
    found = post(cluster.guest, "submit", dag_schema=dag)
    assert (found["code"], found["message"]) == (
        1000, f"dag.tasks.say_0.component_ref: party {GUEST} has foreign {VERSION}, not version '9.9.9'",
    )  # fmt: skip
