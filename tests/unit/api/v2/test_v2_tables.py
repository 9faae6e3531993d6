"""Tables, as clients of FATE Flow 2 upload, show, copy, download and delete them."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from fate_flow.services.artifacts.tables import stored
from tests.kit.api.client_world import FORM_TYPE, World
from tests.kit.api.shapes import misfits

SUCCESS = {"code": 0, "message": "success"}
ROWS = [("a", "1", "2"), ("b", "3", "4")]
NUMBERS = {"namespace": "it", "name": "numbers"}
NOT_THERE = {"code": 7001, "message": "No found table: name[numbers],namespace[it]"}
UPLOAD = {"head": True, "partitions": 4, "meta": {"delimiter": ";"}}
TAR = "application/gzip"


def asked(world: World, path: str, /, **arguments: Any) -> TestResponse:
    return world.client.get(f"/v2/{path}", query_string=arguments)


def sent(world: World, path: str, /, **body: Any) -> Any:
    return world.client.post(f"/v2/{path}", json=body).json


def files_of(response: TestResponse) -> dict[str, str]:
    assert response.mimetype == TAR, response.data
    with tarfile.open(fileobj=io.BytesIO(response.data), mode="r:gz") as tar:
        return {one.name: tar.extractfile(one).read().decode() for one in tar}      # type: ignore[union-attr]


def job_of(world: World, job_id: str) -> tuple[str, dict[str, Any]]:
    """The module of a local job, and its parameters."""
    document = world.services.views.document(job_id)
    assert document is not None
    [(name, task)] = document.dsl["components"].items()
    return task["module"], document.runtime_conf["component_parameters"]["role"]["local"]["0"][name]


def file_in(world: World, folder: str, text: str = "id;x\n1;2\n") -> Path:
    path = world.home / folder / "n.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# ---------------------------------------------------------------------- show and delete


def test_a_table_is_shown_with_its_columns(world: World) -> None:
    world.add_table("it", "numbers", ROWS)
    found = asked(world, "table/query", **NUMBERS).json["data"]
    shape = {**NUMBERS, "count": 2, "engine": "standalone", "path": str, "data_type": "table", "source": dict}
    assert list(misfits(found, shape)) == []
    assert found["meta"] == {"delimiter": ",", "header": "id,x,y", "schema_meta": {"fields": [
        {"name": "id", "property": "sample_id"}, {"name": "x", "property": "value"}, {"name": "y", "property": "value"},
    ]}}  # fmt: skip
    assert "display" not in found
    assert asked(world, "table/query", display="true", **NUMBERS).json["data"]["display"] == [list(one) for one in ROWS]


def test_a_table_that_is_not_there_is_named(world: World) -> None:
    for response in (asked(world, "table/query", **NUMBERS), asked(world, "data/download", **NUMBERS)):
        assert response.json == NOT_THERE
    for path in ("table/delete", "data/component/download"):
        assert sent(world, path, path="downloads/n.csv", **NUMBERS) == NOT_THERE
    copy = {"data_warehouse": NUMBERS, "namespace": "it", "name": "copy"}
    assert sent(world, "data/component/dataframe/transformer", **copy) == NOT_THERE


def test_a_table_is_deleted_once(world: World) -> None:
    world.add_table("it", "numbers", ROWS)
    assert sent(world, "table/delete", **NUMBERS) == SUCCESS
    assert sent(world, "table/delete", **NUMBERS) == NOT_THERE


# ---------------------------------------------------------------------- download and copy


def test_a_table_is_downloaded_as_a_file_in_a_tar(world: World) -> None:
    world.add_table("it", "numbers", ROWS)
    response = asked(world, "data/download", header="no", **NUMBERS)
    assert response.headers["Content-Disposition"] == "attachment; filename=download_data_it_numbers.tar.gz"
    files = files_of(response)
    assert files["data/0.csv"] == "id,x,y\na,1,2\nb,3,4\n"
    assert json.loads(files["data/0.meta"]) == {"header": ["id", "x", "y"]}


def test_a_table_whose_file_is_gone_is_an_error_in_json(world: World) -> None:
    world.services.context.files.remove_artifact(stored(world.add_table("it", "numbers", ROWS)))
    assert asked(world, "data/download", **NUMBERS).json == NOT_THERE


def test_a_disabled_table_is_not_read(world: World) -> None:
    world.add_table("it", "numbers", ROWS)
    world.ask("table/disable", {"namespace": "it", "table_name": "numbers"})
    found = asked(world, "data/download", **NUMBERS).json
    assert (found["code"], "is disabled" in found["message"]) == (6000, True)


def test_a_table_is_written_to_a_file_by_a_local_job(world: World) -> None:
    world.add_table("it", "numbers", ROWS)
    found = sent(world, "data/component/download", path="downloads/n.csv", **NUMBERS)
    assert found["data"] == {**NUMBERS, "path": "downloads/n.csv"}
    path = str(world.home / "downloads" / "n.csv")
    assert job_of(world, found["job_id"]) == ("Download", {**NUMBERS, "output_path": path})
    refused = sent(world, "data/component/download", path="/etc/n.csv", **NUMBERS)
    assert (refused["code"], "path: '/etc/n.csv' is not below" in refused["message"]) == (5001, True)


def test_the_transformer_copies_a_table(world: World) -> None:
    world.add_table("it", "numbers", ROWS)
    target = {"namespace": "it", "name": "frame"}
    found = sent(world, "data/component/dataframe/transformer", data_warehouse=NUMBERS, site_name="x", **target)
    assert found["data"] == target
    copied = {**NUMBERS, "output_namespace": "it", "output_name": "frame", "destroy": True}
    assert job_of(world, found["job_id"]) == ("Writer", copied)


@pytest.mark.parametrize(("body", "code", "says"), [
    ({"drop": False}, 7002, "'taken' in namespace 'it'"),
    ({"name": "numbers"}, 5001, "data_warehouse: is the table itself"),
    ({"data_warehouse": {"job_id": "1"}}, 5001, "data_warehouse: 'job_id'"),
    ({"data_warehouse": {"name": "numbers"}}, 5001, "namespace"),
    ({"data_warehouse": "numbers"}, 5001, "Invalid request."),
])  # fmt: skip
def test_a_copy_of_nothing_known_is_refused(world: World, body: dict[str, Any], code: int, says: str) -> None:
    world.add_table("it", "numbers", ROWS)
    world.add_table("it", "taken", ROWS)
    sent_body = {"data_warehouse": NUMBERS, "namespace": "it", "name": "taken", **body}
    found = sent(world, "data/component/dataframe/transformer", **sent_body)
    assert (found["code"], says in found["message"]) == (code, True), found
    assert world.count("t_job") == 0


# ---------------------------------------------------------------------- upload


def test_a_file_of_the_server_becomes_a_table(world: World) -> None:
    path = file_in(world, "examples")
    found = sent(world, "data/component/upload", file="examples/n.csv", extend_sid=True, **UPLOAD, **NUMBERS)
    assert found["data"] == NUMBERS
    module, parameters = job_of(world, found["job_id"])
    assert module == "Upload"
    assert parameters == {
        **NUMBERS, "file": str(path), "head": True, "extend_sid": True, "partition": 4, "id_delimiter": ";",
        "destroy": True, "duplicate_ids": "last", "meta": {"delimiter": ";"},
    }  # fmt: skip


def test_a_table_without_a_name_gets_one(world: World) -> None:
    file_in(world, "examples")
    names = {
        sent(world, "data/component/upload", file="examples/n.csv", **UPLOAD)["data"]["name"] for _ in range(2)
    }  # fmt: skip
    assert len(names) == 2
    found = sent(world, "table/bind/path", path="examples/n.csv", **NUMBERS)
    assert (found["data"], job_of(world, found["job_id"])[1]["is_bound"]) == (NUMBERS, True)


@pytest.mark.parametrize(("body", "says"), [
    ({"file": "/etc/passwd"}, "file: '/etc/passwd' is not below"),
    ({"file": "examples/gone.csv"}, "does not exist"),
    ({"partitions": 0}, "partitions"),
    ({"namespace": "x" * 201, "name": "n"}, "namespace"),
    ({"head": "perhaps"}, "Invalid request."),
    ({"meta": "x"}, "Invalid request."),
])  # fmt: skip
def test_an_upload_of_nothing_known_is_refused(world: World, body: dict[str, Any], says: str) -> None:
    file_in(world, "examples")
    found = sent(world, "data/component/upload", **{**UPLOAD, "file": "examples/n.csv", **body})
    assert (found["code"], says in found["message"]) == (5001, True), found
    assert world.count("t_job") == 0


def form(fields: dict[str, str]) -> bytes:
    """A form with these fields and a file, as `requests` writes it."""
    head = '--frontier\r\nContent-Disposition: form-data; name="{}"{}\r\n\r\n{}\r\n'
    parts = [head.format(key, "", value) for key, value in fields.items()]
    return "".join([*parts, head.format("file", '; filename="n.csv"', "id;x\n1;2\n"), "--frontier--\r\n"]).encode()


def uploaded(world: World, **fields: str) -> Any:
    return world.client.post("/v2/data/component/upload/file", data=form(fields), content_type=FORM_TYPE).json


def test_a_file_of_the_client_becomes_a_table(world: World) -> None:
    found = uploaded(world, head="True", partitions="4", meta='{"label_name": "y"}', extend_sid="False", **NUMBERS)
    assert found["data"] == NUMBERS
    _, parameters = job_of(world, found["job_id"])
    assert (parameters["partition"], parameters["head"], parameters["extend_sid"]) == (4, True, False)
    assert (parameters["id_delimiter"], parameters["meta"]) == (",", {"label_name": "y"})
    [path] = world.uploads
    assert (parameters["file"], parameters["remove_source"]) == (str(path), True)
    assert path.read_text() == "id;x\n1;2\n"


@pytest.mark.parametrize(("fields", "says"), [
    ({"partitions": "4", "meta": "{}"}, "Invalid request."),
    ({"head": "True", "partitions": "4", "meta": "{"}, "meta: '{' is not JSON"),
    ({"head": "True", "partitions": "4", "meta": "[]"}, "meta: '[]' is not a JSON object"),
    ({"head": "True", "partitions": "many", "meta": "{}"}, "Invalid request."),
])  # fmt: skip
def test_of_a_form_that_is_refused_nothing_stays(world: World, fields: dict[str, str], says: str) -> None:
    found = uploaded(world, **fields)
    assert (found["code"], says in found["message"]) == (5001, True), found
    assert (world.uploads, world.count("t_job")) == ([], 0)


def test_an_upload_without_a_form_misses_its_first_field(world: World) -> None:
    assert sent(world, "data/component/upload/file", head=True) == {
        "code": 5001, "message": "Invalid request.",
        "data": {"form": {"head": ["Missing data for required field."]}},
    }  # fmt: skip
