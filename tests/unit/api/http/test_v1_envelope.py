"""The envelope: what it looks like, how errors are told, and that every route of the client API is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fate_flow.api.http.errors import Api, register_apis
from fate_flow.api.http.file_routes import file_follows
from fate_flow.api.http.json_text import to_json
from fate_flow.api.v1.envelope import CLIENTS, error_response, failed, ok, reply, silent_json
from fate_flow.core.model.errors import (
    BadDocument,
    Busy,
    Conflict,
    FlowError,
    JobNotFound,
    NotFound,
    PeerUnreachable,
    PermissionDenied,
    StorageFailed,
)
from fate_flow.core.model.job import Answer
from fate_flow.core.model.status import JobStatus
from fate_flow.jobspec.text.json_text import JsonText
from tests.kit.api.client_world import World, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = make_world(tmp_path_factory.mktemp("home"))
    yield world
    world.store.close()


def test_an_answer_is_compact_sorted_and_without_nulls() -> None:
    data = {"b": datetime(2026, 1, 2, 3, 4, 5), "a": {2, 1}, "c": JobStatus.READY, "d": None, "e": Path("/x")}
    with Flask("some").test_request_context():
        response, bare = ok(data, jobId=None, meta={}), ok()
    assert response.data == (
        b'{"data":{"a":[1,2],"b":"2026-01-02 03:04:05","c":"ready","d":null,"e":"/x"},"meta":{},'
        b'"retcode":0,"retmsg":"success"}\n'
    )
    assert response.mimetype == "application/json"
    assert bare.data == b'{"retcode":0,"retmsg":"success"}\n'
    assert failed(103, "no", jobId="1").data == b'{"jobId":"1","retcode":103,"retmsg":"no"}\n'
    assert reply(Answer(10, "late")).data == b'{"retcode":10,"retmsg":"late"}\n'
    described = error_response(404, "none")
    assert (described.status_code, described.data) == (404, b'{"retcode":404,"retmsg":"none"}\n')


def test_what_is_json_already_stands_in_an_answer_as_it_is() -> None:
    stored = JsonText('{"b": [1, "x"],"a":null}')
    answer = to_json({"z": [stored, "{}"], "a": JsonText("[]"), "at": datetime(2026, 1, 2)})
    assert answer == '{"a":[],"at":"2026-01-02 00:00:00","z":[{"b": [1, "x"],"a":null},"{}"]}\n'


UNEXPECTED = "unexpected error; the log of this server has the reason: error ID"


def app_that_raises(error: Exception) -> Flask:
    app = Flask("raises")
    register_apis(app, Api(CLIENTS))

    @app.post("/plain")
    def plain() -> Any:
        raise error

    @app.post("/file")
    @file_follows
    def file() -> Any:
        raise error

    @app.post("/echo")
    def echo() -> Any:
        return ok(silent_json())

    return app


@pytest.mark.parametrize(("error", "status", "retcode", "as_file"), [
    (BadDocument("a.b", "is wrong"), 200, 101, 400), (NotFound("none"), 200, 101, 404),
    (JobNotFound("none"), 200, 102, 404), (Conflict("there"), 200, 100, 500), (FlowError("no"), 200, 100, 500),
    (PeerUnreachable("silent"), 200, 104, 500), (PermissionDenied("no"), 200, 108, 403),
    (Busy("later"), 503, 503, 503), (StorageFailed("full"), 500, 500, 500),
    (ValueError("x", "y"), 200, 100, 500), (RecursionError("deep"), 200, 100, 500),
])
def test_each_error_has_one_retcode_and_status(error: Exception, status: int, retcode: int, as_file: int) -> None:
    client = app_that_raises(error).test_client()
    response = client.post("/plain")
    assert (response.status_code, response.json["retcode"]) == (status, retcode)
    expected = error.message if isinstance(error, FlowError) else UNEXPECTED
    described = re.sub("[0-9a-f]{12}$", "ID", response.json["retmsg"])
    assert described == expected
    assert (response.headers.get("Retry-After") is not None) == (status == 503)
    response = client.post("/file")
    described = re.sub("[0-9a-f]{12}$", "ID", response.json["retmsg"])
    assert (response.status_code, response.json["retcode"], described) == (as_file, as_file, expected)


def test_what_a_defect_raises_goes_to_the_log_only(caplog: pytest.LogCaptureFixture) -> None:
    said = app_that_raises(ValueError("secret-of-9999")).test_client().post("/plain").json["retmsg"]
    assert "secret-of-9999" not in said
    assert "ValueError" not in said
    assert "Traceback" in caplog.text
    assert "secret-of-9999" in caplog.text
    assert re.search(rf"POST /plain \(trace [0-9a-f]{{32}}\) failed: {said[-18:]}", caplog.text)
    assert said[-18:].startswith("error ")


@pytest.mark.parametrize("body", [
    b"nothing", b"[1]", b'"x"', b"0", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"1" * 5000,
])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    said = app_that_raises(ValueError()).test_client().post("/echo", data=body).json
    assert said == {"retcode": 101, "retmsg": "the body is not a JSON object"}


@pytest.mark.parametrize(("body", "read"), [
    (b"", {}), (b"null", {}), (b" null\n", {}), (b"{}", {}), (b'{"a": 1}', {"a": 1}),
])
def test_none_at_all_is_an_empty_object_whatever_it_calls_itself(body: bytes, read: dict[str, int]) -> None:
    client = app_that_raises(ValueError()).test_client()
    for content_type in ("text/plain", "application/json"):
        assert client.post("/echo", data=body, content_type=content_type).json["data"] == read


def test_an_unknown_address_is_told_as_fate_tells_it(world: World) -> None:
    assert world.ask("no/such/thing") == {"retcode": 100, "retmsg": "<NotFound '404: Not Found'>"}
    assert world.client.post("/").json["retmsg"] == "<NotFound '404: Not Found'>"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "WORD"])
def test_another_method_is_told_which_ones_there_are(world: World, method: str) -> None:
    response = world.client.open("/v1/job/query", method=method)
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert response.json == {"retcode": 405, "retmsg": f"{method} is not a method of this path, which has POST"}


def test_a_head_is_answered_as_a_get_without_its_body(world: World) -> None:
    response, whole = world.client.head("/v1/openapi.json"), world.client.get("/v1/openapi.json")
    assert (response.status_code, response.data, response.mimetype) == (200, b"", whole.mimetype)
    assert response.headers["Content-Length"] == whole.headers["Content-Length"]


def test_slashes_do_not_matter(world: World) -> None:
    assert world.ask("job/query/", {}) == world.ask("job/query", {})


def test_every_request_is_noted_with_its_status(world: World) -> None:
    world.record.served.clear()
    world.ask("job/query", {})
    world.post("job/log/download", {"job_id": "20260101120000"})
    world.client.post("/v1/data/upload?secret=1")
    assert world.record.served == [
        ("127.0.0.1", "POST", "/v1/job/query", 200), ("127.0.0.1", "POST", "/v1/job/log/download", 404),
        ("127.0.0.1", "POST", "/v1/data/upload", 200),
    ]  # fmt: skip


# every path of the reference's checklist that a client may ask; what is behind it is tested elsewhere
OFFERED = """
job/submit job/list/job job/query job/stop job/config job/log/download job/data/view/query job/list/task job/task/query
job/rerun job/resume job/priority job/hold job/release job/approve job/reject queue/list queue/hold queue/release
job/clean/queue job/log/path job/validate job/explain resource/query resource/return data/upload
data/writer table/connector/create table/connector/query
data/download data/upload/history table/table_info table/delete table/disable table/enable tracking/component/list
tracking/component/parameters tracking/component/metrics tracking/component/metric/all
tracking/component/output/data/table tracking/component/summary/download server/version/get version/get info/version
table/add table/bind tracking/component/output/model server/reload job/url/get job/report
tracking/component/metric_data
model/import model/model_tag/create model/model_tag/remove model/model_tag/retrieve model/deploy model/query model/list
model/show model/delete model/tag/create model/tag/retrieve model/tag/update model/tag/destroy model/tag/list
info/common server/config/job/default server/service/get component/get provider/get provider/fate_flow/get log/cat
log/size
"""
NOT_OFFERED = """
component/hetero/merge
component/woe_array/extract component/woe_array/merge component/intersection/get model/load model/bind
model/restore model/store model/migrate model/homo/convert model/homo/deploy
server/toy/get provider/register
provider/registry/get checkpoint/list checkpoint/get operation/job_config/get
tracker/2026010112000000000001/a_0/2026010112000000000001_a_0/0/guest/9999/summary/save
"""


@pytest.mark.parametrize("path", OFFERED.split())
def test_the_route_is_there(world: World, path: str) -> None:
    said = world.post(path, {}).json
    assert "does not offer" not in said["retmsg"]
    assert "NotFound" not in said["retmsg"]


@pytest.mark.parametrize("path", NOT_OFFERED.split())
def test_the_route_says_that_it_is_not_offered(world: World, path: str) -> None:
    said = world.ask(path, {})
    refusal, _, instead = said["retmsg"].partition("; instead: ")
    assert (said["retcode"], "this server does not offer" in refusal, bool(instead)) == (100, True, True)


@pytest.mark.parametrize("path", ["table/download"])
def test_a_file_that_is_not_offered_does_not_come_with_status_200(world: World, path: str) -> None:
    response = world.post(path, {})
    assert (response.status_code, "does not offer" in response.json["retmsg"]) == (404, True)
