"""What a board shows of a job, where tables come from, and which servers there are."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

import pytest

from fate_flow.components.providers.table import CATALOGUE
from fate_flow.components.tables.table_uri import parse_uri
from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer, TaskKey
from fate_flow.core.model.spec import JobParameters
from fate_flow.core.model.status import JobStatus
from fate_flow.store.values import Document, OutputTable
from tests.kit.api.client_world import GUEST, START, World
from tests.kit.jobspec.parsing import problems

UNKNOWN = "202601010000000000000"
ROWS = [("a", "1", "2"), ("b", "3", "4")]
DSL = {
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["raw"]}},
        "match_0": {
            "module": "Intersection", "input": {"data": {"data": ["reader_0.raw"]}}, "output": {"data": ["joined"]},
        },
        "sum_0": {"module": "SecureSum", "input": {"data": {"data": ["match_0.joined"]}}},
    }
}  # fmt: skip
CONF = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000]},
    "component_parameters": {
        "common": {"sum_0": {"column": "y"}, "reader_0": {"table": {"namespace": "it", "name": "numbers"}}},
        "role": {"host": {"0": {"sum_0": {"need_run": False}}}},
    },
}
SEAT = {"role": "guest", "party_id": 9999}


@pytest.fixture
def job_id(world: World) -> str:
    """A job of which a reader and an intersection are done."""
    job_id = world.add_job(status=JobStatus.SUCCESS, document=Document(DSL, CONF, {}))
    numbers, joined = world.add_table("it", "numbers", ROWS), world.add_table("out", "joined_1", ROWS[:1], job_id)
    world.write("t_storage_table_meta", {"f_name": joined.name}, f_origin="output")
    world.add_output(job_id, numbers, "reader_0", "raw")
    world.add_output(job_id, joined, "match_0", "joined")
    return job_id


def test_what_runs_after_what(world: World, job_id: str) -> None:
    data = world.ask("pipeline/dag/dependency", {"job_id": job_id, **SEAT})["data"]
    assert data["component_list"] == ["reader_0", "match_0", "sum_0"]
    assert data["component_module"] == {"reader_0": "Reader", "match_0": "Intersection", "sum_0": "SecureSum"}
    assert data["component_need_run"] == {"reader_0": True, "match_0": True, "sum_0": True}
    assert data["dependencies"] == {
        "reader_0": [],
        "match_0": [{"component_name": "reader_0", "type": "data", "up_output_info": ["data", 0]}],
        "sum_0": [{"component_name": "match_0", "type": "data", "up_output_info": ["data", 0]}],
    }


def test_who_takes_part_with_which_tables(world: World, job_id: str) -> None:
    data = world.ask("tracking/job/data_view", {"job_id": job_id, **SEAT})["data"]
    roles = {"guest": [9999], "host": [10000]}
    assert (data["partner"], data["roles"], data["model_summary"]) == (roles, roles, {})
    assert data["dataset"] == {
        "guest": {"9999": {"reader_0": "it.numbers"}}, "host": {"10000": {"reader_0": "it.numbers"}}}


def test_the_tables_of_a_job_by_component(world: World, job_id: str) -> None:
    numbers, joined = {"namespace": "it", "name": "numbers"}, {"namespace": "out", "name": "joined_1"}
    assert world.ask("table/list", {"job_id": job_id, **SEAT})["data"] == {
        "reader_0": {"input": {}, "output": {"raw": numbers}},
        "match_0": {"input": {"reader_0.raw": numbers}, "output": {"joined": joined}},
        "sum_0": {"input": {"match_0.joined": joined}, "output": {}},
    }


def test_the_first_rows_of_what_a_component_put_out(world: World, job_id: str) -> None:
    asked = {"job_id": job_id, **SEAT, "component_name": "match_0"}
    said = world.ask("tracking/component/output/data", asked)
    assert said["data"] == [[["a", "1", "2"]]]
    assert said["meta"] == {"header": [["id", "x", "y"]], "total": [1], "names": ["joined"]}
    nothing = world.ask("tracking/component/output/data", {**asked, "component_name": "sum_0"})
    assert (nothing["retcode"], nothing["retmsg"], nothing["data"]) == (0, "no data", [])


def test_no_more_rows_are_shown_than_fit_on_a_page(world: World) -> None:
    world.add_table("it", "long", [(str(number), "1", "2") for number in range(150)])
    data = world.ask("table/preview", {"namespace": "it", "table_name": "long"})["data"]
    assert (len(data["data"]), data["count"]) == (100, 150)


def test_the_first_rows_of_a_table(world: World) -> None:
    table = world.add_table("it", "numbers", ROWS)
    asked = {"namespace": "it", "table_name": "numbers"}
    assert world.ask("table/preview", asked)["data"] == {
        **asked, "count": 2, "header": ["id", "x", "y"], "data": [list(row) for row in ROWS]}
    parse_uri(table.uri).path.unlink()
    gone = world.ask("table/preview", asked)
    assert (gone["retcode"], gone["retmsg"].startswith("no data: ")) == (101, True)


@pytest.mark.parametrize("path", ["pipeline/dag/dependency", "tracking/job/data_view", "table/list"])
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "missing: job_id,role,party_id"), ({"job_id": UNKNOWN, **SEAT}, "find job failed"),
        ({"job_id": "../x", **SEAT}, "job_id"), ({"job_id": "known", **SEAT, "role": "host"}, "find job failed"),
        ({"job_id": "known", "role": "boss", "party_id": 1}, "role"),
    ],
)  # fmt: skip
def test_a_seat_that_is_not_here(world: World, job_id: str, path: str, body: dict[str, Any], text: str) -> None:
    said = world.ask(path, {**body, "job_id": job_id} if body.get("job_id") == "known" else body)
    assert (said["retcode"], text in said["retmsg"]) == (101, True), said


@pytest.mark.parametrize(
    ("path", "body", "retcode"),
    [
        ("table/preview", {}, 101), ("table/preview", {"namespace": "it", "table_name": "no"}, 101),
        ("table/preview", {"namespace": "it", "table_name": ".."}, 101),
        ("table/tracking/source", {}, 101), ("table/tracking/source", {"namespace": "it", "table_name": "no"}, 100),
        ("table/tracking/job", {"namespace": ["it"], "table_name": "no"}, 101),
        ("table/tracking/job", {"namespace": "it", "table_name": "no"}, 100),
        ("tracking/component/output/data", {"job_id": UNKNOWN, **SEAT}, 101),
        ("tracking/component/output/data", {"job_id": UNKNOWN, **SEAT, "component_name": "a/b"}, 101),
        ("info/party/10001", {}, 101), ("info/party/x", {}, 101),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said(world: World, path: str, body: dict[str, Any], retcode: int) -> None:
    assert world.ask(path, body)["retcode"] == retcode


# ---------------------------------------------------------------------- where tables come from


def source_of(world: World, name: str, namespace: str = "out") -> list[tuple[str, str]]:
    """(parent, source) of each."""
    found = world.ask("table/tracking/source", {"namespace": namespace, "table_name": name})["data"]
    assert all(one["source_table_namespace"] for one in found)
    return [(one["parent_table_name"], one["source_table_name"]) for one in found]


def test_the_way_of_a_table_leads_to_what_was_uploaded(world: World, job_id: str) -> None:
    assert source_of(world, "numbers", "it") == []
    assert source_of(world, "joined_1") == [("numbers", "numbers")]
    later = world.add_job(status=JobStatus.SUCCESS, document=Document(DSL, CONF, {}))
    again = world.add_table("out", "joined_2", ROWS[:1], later)
    world.write("t_storage_table_meta", {"f_name": again.name}, f_origin="output")
    with world.store.transaction() as tx:
        tx.save_outputs([
            OutputTable(TaskKey(later, "reader_0", 0, GUEST), "raw", "out", "joined_1"),
            OutputTable(TaskKey(later, "match_0", 0, GUEST), "joined", "out", "joined_2"),
        ], START)
    assert source_of(world, "joined_2") == [("joined_1", "numbers")]


def test_the_jobs_of_a_table(world: World, job_id: str) -> None:
    asked = {"namespace": "it", "table_name": "numbers"}
    answer = world.ask("table/tracking/job", asked)
    assert answer["data"] == {"count": 1, "job": [job_id], "models": []}
    head = {"name": "", "status": "success", "status_detail": "success", "create_time": START}
    assert answer["jobs"] == {job_id: head}
    world.add_table("it", "alone", ROWS)
    alone = world.ask("table/tracking/job", {**asked, "table_name": "alone"})["data"]
    assert alone == {"count": 0, "job": [], "models": []}
    world.add_table("it", "made", ROWS, "202601010000000000001")
    made = world.ask("table/tracking/job", {**asked, "table_name": "made"})["data"]
    assert made == {"count": 1, "job": ["202601010000000000001"], "models": []}


# ---------------------------------------------------------------------- servers, templates


def test_the_servers_of_this_party(world: World) -> None:
    data = world.ask("server/fateflow/info", {})["data"]
    common = world.ask("info/common", {})["data"]
    assert data == {"party 9999": {**common, "instance_id": "party 9999", "url": world.services.settings.url}}


def test_another_party_speaks_for_itself(world: World) -> None:
    world.peers.answer = Answer(data={"party_id": "10000", "version": "1.11.2"})
    assert world.ask("info/party/10000", {})["data"] == {"party_id": "10000", "version": "1.11.2"}
    assert world.peers.asked[-1][1] == "/info/common"
    assert world.ask("info/party/9999", {})["data"] == world.ask("info/common", {})["data"]
    world.peers.answer = Answer(UNREACHABLE, "party 10000 does not answer")
    assert world.ask("info/party/10000", {})["retcode"] == UNREACHABLE


def test_the_documents_of_a_template_are_good_ones(world: World) -> None:
    response = world.post("template/download", {"min_data": 1, "output_path": "x"})
    assert response.status_code == 200
    with tarfile.open(fileobj=io.BytesIO(response.data), mode="r:gz") as tar:
        files = {one.name: tar.extractfile(one).read().decode() for one in tar}      # type: ignore[union-attr]
    assert files["template/data/guest.csv"].startswith("id,x,y\n")
    for name in ("toy", "intersection"):
        dsl, conf = (json.loads(files[f"template/{name}/{name}_{kind}.json"]) for kind in ("dsl", "conf"))
        assert problems(dsl, conf, modules=CATALOGUE, defaults=JobParameters(), strict=True) == []
    assert json.loads(files["template/upload/upload_host_conf.json"])["table_name"] == "host"
    assert world.post("template/download", {"min_data": "x"}).status_code == 400
