"""Clients of FATE Flow 2 read `code` and `message` of every answer: both are there, whatever they ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.test import TestResponse

from fate_flow.core.access.site import SiteRule
from fate_flow.settings.client_keys import ClientKeys
from tests.kit.api.client_world import FORM_TYPE, World, form, make_world

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PATHS = (
    "", "/", "/site/info/query", "/job/submit", "/job/query?job_id=1&role=guest&party_id=9999", "/job/task/query",
    "/data/component/upload/file", "/output/data/download?job_id=1", "/no/such/path", "//x", "/job/submit/",
)


@pytest.fixture(params=[None, ClientKeys("our-clients", "secret-of-9999")], ids=["open", "signed"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    site = SiteRule(is_on=True) if request.param else SiteRule()
    world = make_world(tmp_path, client_keys=request.param, site=site)
    yield world
    world.store.close()


@pytest.mark.parametrize("path", PATHS)
def test_every_path_and_method_is_refused_with_code_and_message(world: World, path: str) -> None:
    for method in METHODS:
        refused(world.client.open(f"/v2{path}", method=method, headers={"Host": "fate.example.org"}), path)


def refused(response: TestResponse, path: str) -> None:
    assert (response.status_code, response.content_type) == (200, "application/json")
    assert response.json is not None
    assert response.json.keys() == {"code", "message"}
    assert response.json["code"] == 6001
    text = "this server speaks the API of FATE Flow 1.x, below /v1"
    assert text in response.json["message"]
    assert f"/v2{path}".partition("?")[0] in response.json["message"]


def test_what_a_client_sends_along_changes_nothing(world: World) -> None:
    dag = {"dag_schema": {"schema_version": "2.2.0", "dag": {"parties": [], "tasks": {}}}}
    for sent in ({"json": dag}, {"data": b"{"}, {"data": form(b"id,x\n"), "content_type": FORM_TYPE}):
        assert world.client.post("/v2/job/submit", **sent).json["code"] == 6001
    assert world.count("t_job") == 0


def test_other_paths_are_not_meant(world: World) -> None:
    assert "retcode" in world.client.post("/v2x/job/submit", json={}).json
