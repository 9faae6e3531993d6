"""flow data: the file, the query that carries its configuration, and how much memory that takes."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
import tracemalloc
from pathlib import Path
from urllib.parse import unquote

import pytest

from fate_flow.cli.connection.client import Client
from fate_flow.cli.connection.settings_file import Address
from fate_flow.cli.output.upload_body import MultipartFile
from fate_flow.core.model.errors import FlowError
from tests.kit.cli.stub_server import Reply
from tests.kit.cli.terminal import on_a_terminal

CONF = {"file": "site_a.csv", "head": 1, "partition": 2, "namespace": "demo", "table_name": "site_a"}
STARTED = {"retcode": 0, "retmsg": "success", "jobId": "42", "data": {"code": 0, "table_name": "site_a"}}
GONE = "\x1b[1A\x1b[2K"             # up to the line of the bar, which is cleared


@pytest.fixture
def upload(write_json, tmp_path):
    """The command line of an upload whose file exists."""
    (tmp_path / "site_a.csv").write_bytes(b"id,x\r\n1,2\r\n")
    return "data", "upload", "-c", write_json("upload.json", CONF)


def sent_conf(asked):
    return json.loads(unquote(asked.query))


def test_an_upload_is_one_part_with_its_configuration_as_the_query(flow, stub, upload):
    stub.answers(STARTED)
    result = flow(*upload)
    asked = stub.last
    assert (result.exit_code, json.loads(result.stdout)) == (0, STARTED)
    assert (asked.method, asked.path) == ("POST", "/v1/data/upload")
    assert sent_conf(asked) == {**CONF, "conf_path": "upload.json", "drop": 0, "verbose": 0}
    kind, boundary = asked.headers["Content-Type"].split("; boundary=")
    assert kind == "multipart/form-data"
    assert asked.body == (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="site_a.csv"\r\n'
        "Content-Type: application/octet-stream\r\n\r\nid,x\r\n1,2\r\n"
        f"\r\n--{boundary}--\r\n"
    ).encode()
    assert "Transfer-Encoding" not in asked.headers


def test_every_letter_of_a_configuration_survives(flow, stub, upload, write_json):
    odd = {**CONF, "namespace": "a&b=c+d#e %41?ä/\"'", "meta": {"k;": "v\n"}}
    flow("data", "upload", "-c", write_json("odd.json", odd), "--drop", "--verbose")
    assert sent_conf(stub.last) == {**odd, "conf_path": "odd.json", "drop": 1, "verbose": 1}
    assert not set(stub.last.query) & set("&=+# ;\"")


@pytest.mark.parametrize("where", [".", "confs"])
def test_a_file_is_looked_for_beside_the_caller_and_then_beside_the_configuration(flow, stub, tmp_path, where):
    (tmp_path / "confs").mkdir()
    (tmp_path / "confs" / "upload.json").write_text(json.dumps(CONF))
    (tmp_path / where / "site_a.csv").write_text("id\n")
    assert flow("data", "upload", "-c", "confs/upload.json").exit_code == 0
    assert b"id\n" in stub.last.body
    assert sent_conf(stub.last)["file"] == "site_a.csv"


def test_a_missing_file_is_named(flow, stub, tmp_path, write_json):
    result = flow("data", "upload", "-c", write_json("upload.json", CONF))
    assert (result.exit_code, stub.asked) == (2, [])
    assert str(tmp_path / "site_a.csv") in result.stderr
    assert json.loads(result.stdout)["retcode"] == 100


@pytest.mark.parametrize("name", [None, "", 7, ["a"]])
def test_a_configuration_that_names_no_file_is_refused(flow, stub, write_json, name):
    result = flow("data", "upload", "-c", write_json("upload.json", {**CONF, "file": name}))
    assert (result.exit_code, stub.asked) == (2, [])
    assert "upload.json: file: is missing" in result.stderr


def test_a_file_of_the_server_goes_as_json(flow, stub, write_json):
    conf = {**CONF, "use_local_data": 0, "file": "/data/on_server.csv"}
    assert flow("data", "upload", "-c", write_json("upload.json", conf), "--drop").exit_code == 0
    assert stub.last.json == {**conf, "conf_path": "upload.json", "drop": 1, "verbose": 0}
    assert stub.last.query == ""


@pytest.mark.parametrize("command", [("upload",), ("download",)])
def test_a_job_that_was_refused_inside_fails_though_the_retcode_is_0(flow, stub, write_json, upload, command):
    stub.answers({"retcode": 0, "retmsg": "success", "data": {"code": 103, "message": "no cores"}})
    result = flow("data", *command, "-c", "upload.json")
    assert (result.exit_code, json.loads(result.stdout)["data"]["code"]) == (1, 103)


def test_a_table_that_exists_is_a_refusal(flow, stub, upload):
    stub.answers({"retcode": 100, "retmsg": "The data table already exists."})
    assert flow(*upload).exit_code == 1


def test_an_upload_can_be_watched(flow, stub, upload):
    stub.answers(STARTED, {"retcode": 0, "retmsg": "success", "data": {"status": "failed", "message": "empty CSV"}})
    result = flow(*upload, "--watch")
    assert (result.exit_code, json.loads(result.stdout)) == (1, STARTED)
    assert "job 42: failed: empty CSV" in result.stderr


def test_a_watched_upload_tells_what_the_table_holds(flow, stub, upload):
    header = [f"x{number}" for number in range(25)]
    stub.answers(
        {**STARTED, "data": {"code": 0, "namespace": "demo", "table_name": "site_a"}},
        {"retcode": 0, "retmsg": "success", "data": {"status": "success"}},
        {"retcode": 0, "retmsg": "success", "data": {"count": 7, "schema": {"header": header, "sid": "id"}}},
    )
    result = flow(*upload, "--watch")
    assert (result.exit_code, stub.last.path) == (0, "/v1/table/table_info")
    assert stub.last.json == {"namespace": "demo", "table_name": "site_a"}
    described = result.stderr.splitlines()[-1]
    assert described.startswith("table site_a in namespace demo: 7 rows; id id; columns (25): x0, x1, ")
    assert described.endswith("x19, ...")


@pytest.mark.long
def test_a_bar_shows_the_way_of_a_file_on_a_terminal(stub, upload, tmp_path):
    """In a terminal alone: what goes into a pipe is JSON on stdout, and nothing on stderr."""
    stub.answers(STARTED)
    shown, out = on_a_terminal(stub, *upload, stream="stderr", cwd=tmp_path)
    assert json.loads(out) == STARTED
    assert "site_a.csv" in shown
    assert "11/11 bytes" in shown
    assert shown.endswith(GONE)
    flow = [str(Path(sys.executable).with_name("flow")), "--server", stub.url, *upload]
    piped = subprocess.run(flow, stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path, timeout=180, check=True)
    assert (json.loads(piped.stdout), piped.stderr) == (STARTED, b"")


@pytest.mark.long
def test_a_bar_of_a_large_file_and_a_long_name_stays_on_its_line(stub, tmp_path, write_json):
    stub.answers(STARTED)
    stub.keeps_bodies = False
    name = f"{'x' * 200}.csv"
    with (tmp_path / name).open("wb") as file:
        file.truncate(40_000_000)
    conf = write_json("large.json", {**CONF, "file": name})
    shown, _ = on_a_terminal(stub, "data", "upload", "-c", conf, stream="stderr", cwd=tmp_path)
    frames = [re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", frame) for frame in shown.split("\r")]
    assert any("40.0/40.0 MB" in frame for frame in frames)
    assert max(map(len, frames)) <= 80
    assert shown.count("\n") == 1, "the last line of the bar, which goes"
    assert shown.endswith(GONE)


@pytest.mark.long
def test_a_terminal_that_cannot_move_its_cursor_gets_no_bar(stub, upload, tmp_path):
    stub.answers(STARTED)
    assert on_a_terminal(stub, *upload, stream="stderr", cwd=tmp_path, term="dumb")[0] == ""


@pytest.mark.long
def test_a_bar_shows_how_much_of_an_archive_has_come(stub, tmp_path):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        member = tarfile.TarInfo("guest/fate_flow_schedule.log")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"log"))
    stub.answers(Reply(200, content.getvalue(), {"Content-Type": "application/gzip"}))
    shown, out = on_a_terminal(stub, "job", "log", "-j", "42", "-o", ".", stream="stderr", cwd=tmp_path)
    assert "job_42_log" in shown
    assert f"{len(content.getvalue())}/? bytes" in shown
    assert shown.endswith(GONE)
    assert json.loads(out)["directory"] == str(tmp_path / "job_42_log")


def test_a_download_names_a_path(flow, stub, write_json, tmp_path):
    conf = {"namespace": "demo", "table_name": "site_a", "output_path": "out.csv"}
    assert flow("data", "download", "-c", write_json("download.json", conf)).exit_code == 0
    assert stub.last.path == "/v1/data/download"
    assert stub.last.json == {**conf, "output_path": str(tmp_path / "out.csv"), "conf_path": "download.json"}


def test_a_large_file_takes_little_memory(stub, tmp_path):
    path, size = tmp_path / "large.csv", 50 * 1024 * 1024
    with path.open("wb") as file:
        file.truncate(size)
    stub.keeps_bodies = False
    sent = []
    body = MultipartFile(path)
    body.on_sent = sent.append
    tracemalloc.start()
    try:
        answer = Client(lambda: Address(stub.url)).upload("data/upload", {"a": 1}, body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.is_success
    assert sum(sent) == size
    assert int(stub.last.headers["Content-Length"]) == len(body) > size
    assert peak < 8 * 1024 * 1024


def test_a_file_that_shrinks_on_the_way_is_named(stub, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * 100)
    body = MultipartFile(path)
    path.write_bytes(b"x")
    with pytest.raises(FlowError, match=r"a\.csv: became shorter"):
        list(body)


def test_a_file_that_grows_on_the_way_is_sent_as_it_was(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * 100)
    body = MultipartFile(path)
    path.write_bytes(b"x" * 200)
    assert len(b"".join(body)) == len(body)


def test_a_file_that_vanishes_is_named_and_not_taken_for_the_network(stub, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"x")
    body = MultipartFile(path)
    path.unlink()
    with pytest.raises(FlowError, match=r"a\.csv: cannot be read"):
        Client(lambda: Address(stub.url)).upload("data/upload", {}, body)


@pytest.mark.parametrize("name", ['a"b\n.csv', "ä.csv"])
def test_an_odd_name_stays_inside_its_header(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"x")
    head = next(iter(MultipartFile(path)))
    assert head.count(b"\r\n") == 4
    assert head.count(b'"') == 4


def test_a_busy_server_gets_a_file_once(flow, stub, upload, pauses):
    stub.answers(Reply(503, {"retcode": 503, "retmsg": "busy"}, {"Retry-After": "1"}))
    assert (flow(*upload).exit_code, len(stub.asked), pauses) == (1, 1, [])


def test_an_unreadable_file_is_named(flow, stub, upload, monkeypatch):
    def deny(self, **_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", deny)
    monkeypatch.setattr(Path, "is_file", lambda self: True)
    result = flow(*upload)
    assert (result.exit_code, stub.asked) == (2, [])
    assert "Permission denied" in result.stderr


def test_other_parameters_of_a_job_come_from_a_file(flow, stub, write_json):
    change = {"component_parameters": {"common": {"sum_0": {"column": "x"}}}}
    assert flow("job", "parameter-update", "-j", "42", "-c", write_json("update.json", change)).exit_code == 0
    assert stub.last.path == "/v1/job/parameter/update"
    assert stub.last.json == {**change, "job_id": "42", "conf_path": "update.json"}
    assert flow("job", "parameter-update", "-j", "42").exit_code == 2
