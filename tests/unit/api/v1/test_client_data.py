"""Routes of data and tables: uploads in both forms, downloads, and what is left on disk after each."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from fate_flow.api.bodies.uploads import ReceivingRequest
from fate_flow.components.tables.table import table_exists
from fate_flow.core.model.job import TaskKey
from fate_flow.settings.limits import Limits
from fate_flow.store.values import Metric
from tests.kit.api.client_world import FORM_TYPE, GUEST, START, World, form, make_world

CONF = {
    "file": "data/site_a.csv", "head": 1, "partition": 2, "id_delimiter": ",", "namespace": "demo",
    "table_name": "site_a", "drop": 0, "verbose": 0, "conf_path": "/client/upload.json",
}  # fmt: skip


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    folder = tmp_path / "roots"
    folder.mkdir()
    return folder


@pytest.fixture
def world(tmp_path: Path, roots: Path) -> Iterator[World]:
    world = make_world(tmp_path / "home", Limits(upload_max_bytes=100_000, submit_timeout=0.05), (roots,))
    yield world
    world.store.close()


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()


def described(world: World) -> dict[str, Any]:
    """What the component of the only job is told."""
    (row,) = world.ask("job/query", {"role": "local"})["data"]
    (parameters,) = row["f_runtime_conf"]["component_parameters"]["role"]["local"]["0"].values()
    return dict(parameters)


# upload of a client's file


def test_an_uploaded_file_is_handed_to_a_local_job(world: World) -> None:
    said = world.upload(CONF).json
    assert (said["retcode"], said["data"]["code"]) == (0, 0)
    assert (said["data"]["table_name"], said["data"]["namespace"]) == ("site_a", "demo")
    (file,) = world.uploads
    assert file.read_bytes() == b"id,x\n1,2\n"
    assert file.parent.stat().st_mode & 0o077 == 0
    assert described(world) == {
        "file": str(file), "namespace": "demo", "name": "site_a", "head": True, "partition": 2, "id_delimiter": ",",
        "destroy": False, "extend_sid": False, "auto_increasing_sid": False, "duplicate_ids": "last",
        "remove_source": True,
    }  # fmt: skip
    (row,) = world.ask("job/query", {"job_id": said["jobId"]})["data"]
    assert (row["f_role"], row["f_party_id"], row["f_status"], row["f_asked_cores"]) == ("local", "0", "waiting", 4)


@pytest.mark.parametrize("value", ["a&b=c.csv", "a+b.csv", "ü ?.csv", "100%.csv", 'say "it".csv'])
def test_the_query_string_of_the_genuine_client_may_hold_anything(world: World, value: str) -> None:
    assert world.upload({**CONF, "file": value, "table_name": value}).json["retcode"] == 0
    assert described(world)["name"] == value


@pytest.mark.parametrize("value", ["%", "100%", "100% x", "50%+50%", 'a%"b', "%&=%", "ü%"])
def test_a_percent_sign_as_the_genuine_client_sends_it(world: World, value: str) -> None:
    conf = {**CONF, "id_delimiter": "%", "namespace": value}
    query = quoted_by_requests(json.dumps(conf, ensure_ascii=False))
    assert world.upload_by(query).json["retcode"] == 0
    assert (described(world)["namespace"], described(world)["id_delimiter"]) == (value, "%")


def test_a_percent_sign_that_the_genuine_client_makes_an_escape_is_refused_where_it_is_no_text(world: World) -> None:
    query = quoted_by_requests(json.dumps({**CONF, "namespace": "a%abc"}))
    said = world.upload_by(query).json
    assert (said["retcode"], "a '%' before two digits" in said["retmsg"], world.uploads) == (101, True, [])


def quoted_by_requests(text: str) -> str:
    """As `requests` quotes a query string, and then urllib3, where some `%` is no escape."""
    query = quote(text, safe="!#$%&'()*+,/:;=?@[]~")
    return query if len(re.findall("%[0-9A-Fa-f]{2}", query)) == query.count("%") else query.replace("%", "%25")


def test_flags_may_come_as_text(world: World) -> None:
    conf = {**CONF, "head": "false", "drop": "true", "extend_sid": "1", "partition": "3", "task_cores": 2}
    assert world.upload(conf).json["retcode"] == 0
    parameters = described(world)
    assert [parameters[key] for key in ("head", "destroy", "extend_sid", "partition")] == [False, True, True, 3]
    assert world.ask("job/query", {"role": "local"})["data"][0]["f_asked_cores"] == 2


@pytest.mark.parametrize("drop", [2, "2"])
def test_the_no_of_an_old_client_replaces_nothing(world: World, drop: object) -> None:
    """fate_client 1.6 sends 2 where later ones send 0."""
    assert world.upload({**CONF, "drop": drop}).json["retcode"] == 0
    assert described(world)["destroy"] is False
    assert world.upload({**CONF, "drop": 3}).json["retcode"] == 101


def test_what_becomes_of_duplicate_ids_may_be_said_by_the_client_and_the_server(tmp_path: Path, world: World) -> None:
    assert world.upload({**CONF, "duplicate_ids": "refuse"}).json["retcode"] == 0
    assert described(world)["duplicate_ids"] == "refuse"
    (tmp_path / "strict").mkdir()
    strict = make_world(tmp_path / "strict", duplicate_ids="refuse")
    assert strict.upload(CONF).json["retcode"] == 0
    assert described(strict)["duplicate_ids"] == "refuse"
    strict.store.close()


def test_what_has_no_effect_is_said(world: World) -> None:
    warnings = world.upload({**CONF, "with_meta": True, "meta": {"a": 1}}).json["data"]["warnings"]
    assert warnings == ["with_meta: has no effect on this server", "meta: has no effect on this server"]


def test_plain_keys_are_taken_too(world: World) -> None:
    query = urlencode({"namespace": "demo", "table_name": "plain", "head": 1, "partition": 4})
    response = world.client.post(f"/v1/data/upload?{query}", data=form(b"id\n1\n"), content_type=FORM_TYPE)
    assert response.json["retcode"] == 0
    assert described(world)["name"] == "plain"


@pytest.mark.parametrize(("change", "retcode", "offender"), [
    ({"namespace": None}, 100, "required argument are missing: namespace; "),
    ({"namespace": None, "partition": None}, 100, "required argument are missing: namespace,partition; "),
    ({"partition": "many"}, 101, "partition: 'many'"), ({"partition": 0}, 101, "partition: 0"),
    ({"partition": True}, 101, "partition: true"), ({"head": "maybe"}, 101, "head: 'maybe'"),
    ({"duplicate_ids": "first"}, 101, "duplicate_ids: 'first' is not one of last, refuse"),
    ({"duplicate_ids": 1}, 101, "duplicate_ids: 1"),
    ({"table_name": ".."}, 101, "table_name: '..'"), ({"table_name": 5}, 101, "table_name: 5"),
    ({"namespace": "x" * 300}, 101, "namespace: 'xxx"), ({"id_delimiter": 1}, 101, "id_delimiter: 1"),
    ({"id_delimiter": "ab"}, 103, "id_delimiter: 'ab'"), ({"task_cores": "x"}, 101, "task_cores: 'x'"),
    ({"task_cores": 21}, 103, "asks for 21 cores"),
])
def test_an_upload_that_is_refused_leaves_no_file(
    world: World, change: dict[str, Any], retcode: int, offender: str
) -> None:
    said = world.upload({**CONF, **change}).json
    assert (said["retcode"], offender in said["retmsg"]) == (retcode, True), said
    assert "Traceback" not in said["retmsg"]
    assert (world.uploads, world.count("t_job")) == ([], 0)


def test_a_table_that_exists_is_overwritten_only_when_told_to(world: World) -> None:
    world.add_table("demo", "site_a", [("1", "2", "3")])
    said = world.upload(CONF).json
    assert said["retcode"] == 100
    assert said["retmsg"].startswith("The data table already exists")
    assert "--drop" in said["retmsg"]
    assert "'site_a'" in said["retmsg"]
    assert world.uploads == []
    assert world.upload({**CONF, "drop": 1}).json["retcode"] == 0


@pytest.mark.parametrize(("body", "offender"), [
    (form(b""), "file: '../x.csv' is empty"),
    (form(b"x", name="other"), "required argument are missing: file"),
    (form(b"x" * 100_001), "file: is larger than 100000 bytes"),
    (form(b"x" * 2_000_000), "file: is larger than 100000 bytes"),
    (form(b"id\n1\n")[:-20], "no complete file"),
    (form(b"a").replace(b"--frontier--", b"--frontier") + form(b"b"), "only one is allowed"),
    (b"", "required argument are missing: file"),
    (b"this is no form", "required argument are missing: file"),
    (b"x" * 600_000, "file: is missing among the first fields"),
    (form(b"id\n1\n").replace(b"; filename=", b"; x="), "required argument are missing: file"),
])
def test_a_file_that_is_not_right_leaves_nothing(world: World, body: bytes, offender: str) -> None:
    conf = urlencode({"namespace": "demo", "table_name": "t", "head": 1, "partition": 1})
    response = world.client.post(f"/v1/data/upload?{conf}", data=body, content_type=FORM_TYPE)
    assert response.status_code == 200
    assert (response.json["retcode"], offender in response.json["retmsg"]) == (101, True), response.json
    assert (world.uploads, world.count("t_job")) == ([], 0)


@pytest.mark.parametrize("query", ['{"namespace": "demo"', "{}x", "{" * 100_000])
def test_a_query_string_that_only_begins_like_json(world: World, query: str) -> None:
    said = world.client.post(f"/v1/data/upload?{query}", data=form(b"x"), content_type=FORM_TYPE).json
    assert (said["retcode"], said["retmsg"][:24]) == (101, "query string: is not JSO")


def test_a_large_file_is_taken_in_flat_memory(tmp_path: Path) -> None:
    world = make_world(tmp_path / "home", Limits(submit_timeout=0.05))
    size = 20_000_000
    head, tail = form(b"|").split(b"|")
    stream = _Long([head, *[b"12345678\n" * 1000] * (size // 9000), tail])
    tracemalloc.start()
    response = world.client.post(
        "/v1/data/upload?namespace=d&table_name=t&head=0&partition=1",
        environ_overrides={"CONTENT_TYPE": FORM_TYPE, "wsgi.input": stream, "wsgi.input_terminated": True},
    )  # fmt: skip
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert response.json["retcode"] == 0, response.json
    assert world.uploads[0].stat().st_size == size // 9000 * 9000
    assert peak < 4_000_000


class _Long(io.RawIOBase):
    """A body that comes piece by piece, its length unknown."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._pieces, b"")
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


def test_a_full_disk_refuses_the_upload_and_nothing_of_it_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    stream = ReceivingRequest._get_file_stream

    def on_a_full_disk(request: ReceivingRequest, *arguments: Any, **named: Any) -> Any:
        stream(request, *arguments, **named).close()
        return FullDisk()

    with monkeypatch.context() as full:
        full.setattr(ReceivingRequest, "_get_file_stream", on_a_full_disk)
        response = world.upload(CONF)
    assert (response.status_code, response.json["retcode"]) == (500, 500)
    assert response.json["retmsg"] == "file: cannot be written below uploads: No space left on device"
    assert (world.uploads, world.count("t_job")) == ([], 0)
    assert world.upload(CONF).json["retcode"] == 0


def test_what_a_killed_server_left_half_received_goes(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "uploads"
    folder.mkdir()
    stale, fresh, whole = (folder / name for name in ("a.part", "b.part", "c"))
    for path in (stale, fresh, whole):
        path.touch()
    os.utime(stale, (1, 1))
    os.utime(whole, (1, 1))
    assert make_world(tmp_path / "home").app
    assert sorted(folder.iterdir()) == [fresh, whole]


# upload of a file that is on the server


def here(world: World, file: str, **more: Any) -> Any:
    return world.ask("data/upload", {**CONF, "file": file, "use_local_data": 0, **more})


def test_a_file_below_a_data_root_is_read_where_it_is(world: World, roots: Path) -> None:
    (roots / "a.csv").write_text("id\n1\n")
    said = here(world, str(roots / "a.csv"))
    assert said["retcode"] == 0
    parameters = described(world)
    assert parameters["file"] == str(roots / "a.csv")
    assert "remove_source" not in parameters


def test_the_examples_of_the_home_are_open(world: World) -> None:
    (world.home / "examples").mkdir()
    (world.home / "examples" / "a.csv").write_text("id\n1\n")
    assert here(world, "examples/a.csv")["retcode"] == 0
    assert described(world)["file"] == str(world.home / "examples" / "a.csv")


@pytest.mark.parametrize(("file", "offender"), [
    ("/etc/passwd", "fateflow.data_roots"), ("{roots}/../../x", "fateflow.data_roots"),
    ("{roots}/link/passwd", "fateflow.data_roots"), ("fate_flow.sqlite", "fateflow.data_roots"),
    ("", "fateflow.data_roots"), ("a\0b", "is not a path"), ("{roots}/none.csv", "does not exist"),
    ("{roots}", "is not a file"), ("{roots}/empty.csv", "is empty"), (7, "file: 7 is not text"),
])
def test_other_files_of_the_server_are_not(world: World, roots: Path, file: Any, offender: str) -> None:
    (roots / "link").symlink_to("/etc")
    (roots / "empty.csv").touch()
    said = here(world, file.format(roots=roots) if isinstance(file, str) else file)
    assert (said["retcode"], "file: " in said["retmsg"], offender in said["retmsg"]) == (101, True, True), said
    assert world.count("t_job") == 0


def test_a_form_of_another_kind_is_no_way_around_the_limit_of_requests(world: World, tmp_path: Path) -> None:
    small = make_world(tmp_path / "home", Limits(max_request_bytes=1000))
    response = small.client.post("/v1/data/upload", data=b"a=" + b"x" * 2000,
                                 content_type="application/x-www-form-urlencoded")  # fmt: skip
    assert (response.status_code, response.json["retcode"]) == (413, 413)


# download


def test_a_download_is_a_local_job_too(world: World, roots: Path) -> None:
    world.add_table("demo", "site_a", [("1", "2", "3")])
    body = {"namespace": "demo", "table_name": "site_a", "output_path": str(roots / "out.csv"), "delimiter": ";"}
    said = world.ask("data/download", body)
    assert (said["retcode"], said["data"]["table_name"]) == (0, "site_a")
    assert described(world) == {
        "namespace": "demo", "name": "site_a", "output_path": str(roots / "out.csv"), "delimiter": ";"}  # fmt: skip


@pytest.mark.parametrize(("change", "offender"), [
    ({"output_path": "/tmp/out.csv"}, "output_path: '/tmp/out.csv' is not below"),
    ({"output_path": "fate_flow.sqlite"}, "output_path: 'fate_flow.sqlite' is not below"),
    ({"output_path": "downloads"}, "is a folder"), ({"output_path": None}, "missing: output_path"),
    ({"table_name": "none"}, "there is no table 'none'"), ({"delimiter": 1}, "delimiter: 1"),
])
def test_a_download_that_is_refused(world: World, change: dict[str, Any], offender: str) -> None:
    (world.home / "downloads").mkdir()
    world.add_table("demo", "site_a", [("1", "2", "3")])
    body = {"namespace": "demo", "table_name": "site_a", "output_path": "downloads/out.csv"}
    said = world.ask("data/download", {**body, **change})
    assert (said["retcode"], offender in said["retmsg"]) == (101, True), said
    assert world.count("t_job") == 0


# history and tables


def test_the_history_of_uploads(world: World) -> None:
    ids = [world.add_job(), world.add_job()]
    world.add_table("demo", "site_a", [("1", "2", "3")], ids[1])
    with world.store.transaction() as tx:
        for count, job_id in enumerate(ids):
            meta = {
                "table_name": "site_a", "namespace": "demo", "partition": 2, "upload_count": count, "replaced_rows": 7,
            }
            tx.save_metrics([Metric(TaskKey(job_id, "upload_0", 0, GUEST), "upload", "data_access", (), meta)], START)
    newest, oldest = world.ask("data/upload/history", {"limit": 5})["data"]
    info = {"table_name": "site_a", "namespace": "demo", "partition": 2, "upload_count": 1, "replaced_rows": 7}
    schema = {"header": ["x", "y"], "sid": "id"}
    assert newest == {ids[1]: {"upload_info": info, "notes": "a toy", "schema": schema}}
    assert oldest[ids[0]]["schema"] == {}
    assert world.ask("data/upload/history", {"job_id": ids[0]})["data"] == [oldest]


def test_what_is_known_of_a_table(world: World) -> None:
    body = {"namespace": "demo", "table_name": "site_a"}
    assert world.ask("table/table_info", body)["data"] == {**body, "exist": 0, "count": 0}
    world.add_table("demo", "site_a", [("1", "2", "3"), ("2", "3", "4")])
    said = world.ask("table/table_info", body)["data"]
    assert [said[key] for key in ("exist", "count", "partition", "enable", "origin")] == [1, 2, 1, True, "upload"]
    assert (said["schema"]["header"], said["replaced_rows"]) == (["x", "y"], 0)


def test_a_table_is_disabled_and_enabled(world: World) -> None:
    world.add_table("demo", "site_a", [("1", "2", "3")])
    body = {"namespace": "demo", "table_name": "site_a"}
    assert world.ask("table/disable", body)["data"] == [body]
    assert world.ask("table/table_info", body)["data"]["enable"] is False
    assert world.ask("table/enable", body)["data"] == [body]
    assert world.ask("table/table_info", body)["data"]["enable"] is True


def test_a_deleted_table_is_gone_with_its_file(world: World) -> None:
    table = world.add_table("demo", "site_a", [("1", "2", "3")])
    body = {"namespace": "demo", "table_name": "site_a"}
    assert world.ask("table/delete", {**body, "job_id": "ignored"})["data"] == body
    assert not table_exists(table.uri)
    for route in ("table/delete", "table/disable", "table/enable"):
        said = world.ask(route, body)
        assert (said["retcode"], "no find table" in said["retmsg"], "'site_a'" in said["retmsg"]) == (101, True, True)
