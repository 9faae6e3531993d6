"""Routes about components and about the server itself."""

from __future__ import annotations

import io
import json
import tarfile
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from fate_flow.components.tables.table import drop
from fate_flow.core.model.job import Answer, TaskKey
from fate_flow.store.values import Metric
from tests.kit.api.client_world import GUEST, HOST, START, World


@pytest.fixture
def job_id(world: World) -> str:
    return world.add_job()


def of(job_id: str, /, **more: Any) -> dict[str, Any]:
    return {"job_id": job_id, "role": "guest", "party_id": "9999", "component_name": "toy_0", **more}


def test_the_components_of_a_job(world: World, job_id: str) -> None:
    assert world.ask("tracking/component/list", {"job_id": job_id})["data"] == {"components": ["toy_0"]}
    said = world.ask("tracking/component/list", {"job_id": "20260101120000"})
    assert (said["retcode"], "20260101120000" in said["retmsg"]) == (100, True)


def test_the_parameters_of_a_component(world: World, job_id: str) -> None:
    said = world.ask("tracking/component/parameters", of(job_id))
    assert said["data"] == {"module": "SecureAddExample", "ComponentParam": {"data_num": 10, "need_run": True}}


@pytest.mark.parametrize("change", [
    {"job_id": "20260101120000"}, {"component_name": "other"}, {"role": "arbiter"}, {"party_id": 7},
])
def test_parameters_of_a_task_that_is_none(world: World, job_id: str, change: dict[str, Any]) -> None:
    said = world.ask("tracking/component/parameters", of(job_id, **change))
    assert said["retcode"] == 101
    assert said["retmsg"].startswith("can not found this task")


def test_metrics(world: World, job_id: str) -> None:
    jobs = {job_id: {"name": "", "status": "waiting", "status_detail": "waiting", "create_time": START}}
    for path in ("tracking/component/metrics", "tracking/component/metric/all"):
        assert world.ask(path, of(job_id)) == {"retcode": 0, "retmsg": "no data", "data": {}, "jobs": jobs}
    key = TaskKey(job_id, "toy_0", 0, GUEST)
    with world.store.transaction() as tx:
        tx.save_metrics([Metric(key, "train", "sum", (("total", 20), ("n", 2)), {"unit": "ones"}),
                         Metric(key, "train", "loss", (), {})], START)  # fmt: skip
    assert world.ask("tracking/component/metrics", of(job_id))["data"] == {"train": ["sum", "loss"]}
    said = world.ask("tracking/component/metric/all", of(job_id))["data"]
    assert said["train"]["sum"] == {"data": [["total", 20], ["n", 2]], "meta": {"unit": "ones"}}
    assert world.ask("tracking/component/metrics", of(job_id, role="host", party_id=10000))["data"] == {}
    with world.store.transaction() as tx:
        tx.save_metrics([Metric(replace(key, version=1), "train", "sum", (("total", 7),), {})], START)
    for version, total in ((None, 7), (0, 20), (1, 7)):
        body = of(job_id) if version is None else of(job_id, task_version=version)
        said = world.ask("tracking/component/metric/all", body)["data"]
        assert said["train"]["sum"]["data"][0] == ["total", total], version
    assert world.ask("tracking/component/metric/all", of(job_id, task_version=2))["data"] == {}
    assert world.ask("tracking/component/metric/all", of(job_id, task_version=-1))["retcode"] == 101


def test_one_metric(world: World, job_id: str) -> None:
    key = TaskKey(job_id, "toy_0", 0, GUEST)
    with world.store.transaction() as tx:
        tx.save_metrics([Metric(key, "train", "sum", (("total", 20),), {"unit": "ones"})], START)
    named = of(job_id, metric_namespace="train", metric_name="sum")
    assert world.ask("tracking/component/metric_data", named) == {
        "retcode": 0, "retmsg": "success", "data": [["total", 20]], "meta": {"unit": "ones"},
    }  # fmt: skip
    other = world.ask("tracking/component/metric_data", {**named, "metric_name": "loss"})
    assert other == {"retcode": 0, "retmsg": "no data", "data": [], "meta": {}}
    assert world.ask("tracking/component/metric_data", of(job_id))["retcode"] == 101


# output data


def unpacked(data: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return {one.name: archive.extractfile(one).read().decode() for one in archive}  # type: ignore[union-attr]


def test_output_data_is_an_archive_of_csv_and_meta(world: World, job_id: str) -> None:
    rows = [("a", "1", 'say "x", y'), ("b", "ü", "2")]
    world.add_output(job_id, world.add_table("out", "made", rows))
    response = world.get("tracking/component/output/data/download", of(job_id, limit=-1, output_path="/client"))
    assert response.status_code == 200
    assert unpacked(response.data) == {
        "made.csv": 'id,x,y\na,1,"say ""x"", y"\nb,ü,2\n', "made.meta": '{"header":["id","x","y"]}\n'}  # fmt: skip


def test_output_data_is_limited_and_bare_when_asked_for(world: World, job_id: str) -> None:
    world.add_output(job_id, world.add_table("out", "made", [(str(n), "1", "2") for n in range(1500)]))
    body = of(job_id, limit=1001, head=False)
    files = unpacked(world.get("tracking/component/output/data/download", body).data)
    assert files["made.csv"].splitlines() == [f"{n},1,2" for n in range(1001)]


@pytest.mark.parametrize(("change", "status", "offender"), [
    ({"limit": 0}, 210, "limit is 0"), ({"component_name": "other"}, 210, "no data"),
    ({"job_id": "20260101120000"}, 210, "no data"), ({"role": "host", "party_id": 10000}, 210, "no data"),
    ({"limit": "x"}, 400, "limit: 'x'"), ({"job_id": "../x"}, 400, "job_id: '../x'"),
    ({"component_name": "../x"}, 400, "component_name: '../x'"), ({"role": None}, 400, "missing: role"),
    ({"head": "x"}, 400, "head: 'x'"),
])
def test_without_output_data_the_status_is_not_200(
    world: World, job_id: str, change: dict[str, Any], status: int, offender: str
) -> None:
    world.add_output(job_id, world.add_table("out", "made", [("a", "1", "2")]))
    response = world.get("tracking/component/output/data/download", of(job_id, **change))
    assert (response.status_code, response.json["retcode"]) == (status, status)
    assert offender in response.json["retmsg"]
    assert set(response.json) == {"retcode", "retmsg"}


def test_output_data_that_was_deleted_since_is_no_data(world: World, job_id: str) -> None:
    table = world.add_table("out", "made", [("a", "1", "2")])
    world.add_output(job_id, table)
    drop(world.services.settings.data_dir, table.uri)
    response = world.get("tracking/component/output/data/download", of(job_id))
    assert (response.status_code, "'made'" in response.json["retmsg"]) == (210, True)
    with world.store.transaction() as tx:
        tx.drop_table("out", "made")
    why = "no data: out.made was deleted or replaced since"
    assert world.get("tracking/component/output/data/download", of(job_id)).json["retmsg"] == why


@pytest.mark.long
def test_output_data_is_sent_in_flat_memory(world: World, job_id: str) -> None:
    world.add_output(job_id, world.add_table("out", "made", [(str(n), "1" * 40, "2" * 40) for n in range(100_000)]))
    tracemalloc.start()
    response = world.client.get("/v1/tracking/component/output/data/download", data=json.dumps(of(job_id)))
    size = sum(len(chunk) for chunk in response.response)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size > 100_000
    assert peak < 3_000_000


def test_where_the_output_tables_are(world: World, job_id: str) -> None:
    world.add_output(job_id, world.add_table("out", "made", []))
    said = world.ask("tracking/component/output/data/table", of(job_id))
    assert said["data"] == [{"table_name": "made", "table_namespace": "out", "data_name": "made"}]
    for version, count in ((0, 1), (1, 0)):
        said = world.ask("tracking/component/output/data/table", of(job_id, task_version=version))
        assert len(said.get("data", ())) == count, said
    said = world.ask("tracking/component/output/data/table", of(job_id, role="host", party_id=10000, task_version=0))
    assert (said["retcode"], said["retmsg"][:12]) == (100, "task_version")
    said = world.ask("tracking/component/output/data/table", of(job_id, component_name="other"))
    there_is = f"No found component: job {job_id} has no other; it has toy_0"
    assert (said["retcode"], said["retmsg"]) == (100, there_is)
    said = world.ask("tracking/component/output/data/table", of(job_id, role="host", party_id=9999))
    assert (said["retcode"], said["retmsg"][:14]) == (100, "No found table")
    elsewhere = of(job_id, component_name="other", role="host", party_id=10000)
    assert world.ask("tracking/component/output/data/table", elsewhere)["retmsg"] == there_is
    assert world.peers.asked == []
    said = world.ask("tracking/component/output/data/table", of("20260101120000"))
    assert (said["retcode"], said["retmsg"][:12]) == (100, "No found job")


@pytest.mark.parametrize(("status", "is_there"), [("running", False), ("failed", False), ("success", True)])
def test_what_a_worker_names_while_it_runs_is_published_when_the_task_has_succeeded_at_all_parties(
    world: World, job_id: str, status: str, is_there: bool
) -> None:
    table = world.add_table("out", "made", [("a", "1", "2")])
    world.add_output(job_id, table)
    world.add_task(job_id, f_status=status, f_party_status="success", f_end_time=1, f_reason="done")
    for path in ("tracking/component/output/data/table", f"tracker/{job_id}/toy_0/guest/9999/output/table"):
        found = world.ask(path, of(job_id), headers={"SRC-PARTY-ID": "10000"}).get("data")
        assert bool(found) == is_there, path
    response = world.get("tracking/component/output/data/download", of(job_id, limit=-1))
    assert (b"no data" in response.data) != is_there


@pytest.mark.parametrize(("answer", "retcode", "fragment"), [
    (Answer(data=[{"table_name": "t", "table_namespace": "n", "data_name": "made"}]), 0, "success"),
    (Answer(data=[]), 100, "No found table: toy_0"),
    (Answer(108, "party 9999 has no seat in job"), 108, "has no seat"),
    (Answer(104, "party 10000 does not answer: ConnectTimeout"), 104, "does not answer"),
])  # fmt: skip
def test_the_output_tables_of_another_party_are_asked_there(
    world: World, job_id: str, answer: Answer, retcode: int, fragment: str
) -> None:
    world.peers.answer = answer
    said = world.ask("tracking/component/output/data/table", of(job_id, role="host", party_id=10000))
    assert world.peers.asked == [(HOST, f"/tracker/{job_id}/toy_0/host/10000/output/table")]
    assert (said["retcode"], fragment in said["retmsg"], said.get("data")) == (retcode, True, answer.data or None)


def test_the_summary_as_data_or_as_a_file(world: World, job_id: str) -> None:
    route = "tracking/component/summary/download"
    assert (world.post(route, of(job_id)).status_code, world.post(route, of(job_id)).json["retcode"]) == (210, 210)
    with world.store.transaction() as tx:
        tx.save_summary(TaskKey(job_id, "toy_0", 0, GUEST), {"total": 20}, START)
    assert world.ask(route, of(job_id))["data"] == {"total": 20}
    response = world.post(route, of(job_id, filename="toy_summary.json"))
    assert (response.status_code, response.json) == (200, {"total": 20})
    assert response.headers["Content-Disposition"] == "attachment; filename=toy_summary.json"
    response = world.post(route, of(job_id, filename="../x\r\nSet-Cookie: a"))
    assert (response.status_code, "filename" in response.json["retmsg"]) == (400, True)


# the server


def test_versions(world: World) -> None:
    said = world.ask("server/version/get", {})["data"]
    assert (said["API"], said["FATE"], said["FATEFlow"]) == ("v1", "1.11.2", "1.11.2")
    assert {"FATEBoard", "EGGROLL", "CENTOS", "UBUNTU", "PYTHON", "MAVEN", "JDK", "SPARK"} <= said.keys()
    assert world.ask("version/get", {"module": "FATE"})["data"] == {"FATE": "1.11.2", "API": "v1"}
    assert world.ask("info/version")["data"] == said
    assert world.post("version/get", {"module": "NONE"}).status_code == 404


def test_who_the_server_is(world: World) -> None:
    assert world.ask("info/common", {})["data"] == {
        "version": "1.11.2", "host": "127.0.0.1", "http_port": 9380, "grpc_port": None, "party_id": "9999"}  # fmt: skip
    assert world.ask("server/config/job/default", {})["data"]["task_cores"] == 4


def test_components_and_their_provider(world: World) -> None:
    known = world.ask("component/get", {})["data"]["components"]
    assert known["intersection"]["alias"] == ["Intersection"]
    provider = world.ask("provider/get", {})["data"]
    assert provider == world.ask("provider/fate_flow/get", {})["data"]
    assert provider == world.ask("provider/get", {"provider_name": "fate_flow"})["data"]
    (what,) = provider["fate_flow"].values()
    assert "SecureSum" in what["components"]
    assert {"path", "class_path"} < what.keys()
    assert world.post("provider/other/get", {}).status_code == 404
