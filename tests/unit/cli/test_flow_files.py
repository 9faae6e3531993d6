"""Commands that write files: job config, job log, component output-data and get-summary."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from tests.kit.cli.stub_server import Reply, archive, tar_of

SEAT = ("-j", "42", "-r", "guest", "-p", "9999", "-cpn", "psi_0")
SEAT_BODY = {"job_id": "42", "role": "guest", "party_id": "9999", "component_name": "psi_0"}
CONFIG = ("job", "config", "-j", "42", "-r", "guest", "-p", "9999", "-o", "out")


def test_a_config_is_a_file_per_document(flow, stub, tmp_path):
    data = {"job_id": "42", "dsl": {"components": {}}, "runtime_conf": {"ä": 1}, "train_runtime_conf": {},
            "model_info": {"model_id": "m"}, "../evil": {}}
    stub.answers({"retcode": 0, "retmsg": "success", "data": data})
    result = flow(*CONFIG)
    folder = tmp_path / "out" / "job_42_config"
    assert (result.exit_code, stub.last.path) == (0, "/v1/job/config")
    assert stub.last.json == {"job_id": "42", "role": "guest", "party_id": "9999", "output_path": "out"}
    assert {path.name for path in folder.iterdir()} == {
        "dsl.json", "runtime_conf.json", "train_runtime_conf.json", "model_info.json"}
    assert json.loads((folder / "runtime_conf.json").read_text(encoding="utf-8")) == {"ä": 1}
    printed = json.loads(result.stdout)
    assert (printed["retcode"], printed["directory"]) == (0, str(folder))
    assert printed["retmsg"] == f"download successfully, please check {folder} directory"
    assert "dsl" not in printed["data"]
    assert printed["data"]["job_id"] == "42"


def test_a_config_that_is_refused_writes_nothing(flow, stub, tmp_path):
    stub.answers({"retcode": 101, "retmsg": "find job failed"})
    result = flow(*CONFIG)
    assert (result.exit_code, json.loads(result.stdout)["retmsg"]) == (1, "find job failed")
    assert not (tmp_path / "out").exists()


def test_logs_are_unpacked(flow, stub, tmp_path):
    stub.answers(archive({"guest/9999/INFO.log": "hello\n", "fate_flow_schedule.log": ""}))
    result = flow("job", "log", "-j", "42", "-o", "out")
    folder = tmp_path / "out" / "job_42_log"
    assert (stub.last.method, stub.last.path) == ("POST", "/v1/job/log/download")
    assert stub.last.json == {"job_id": "42", "output_path": "out"}
    assert (folder / "guest" / "9999" / "INFO.log").read_text() == "hello\n"
    assert json.loads(result.stdout) == {
        "retcode": 0, "directory": str(folder), "retmsg": f"download successfully, please check {folder} directory"}
    assert [path.name for path in folder.parent.iterdir()] == ["job_42_log"]


@pytest.mark.parametrize("group", ["component", "tracking"])
def test_output_data_is_asked_for_by_get_with_a_body(flow, stub, tmp_path, group):
    stub.answers(archive({"data.csv": "id\n1\n", "data.meta": "{}"}))
    result = flow(group, "output-data", *SEAT, "-o", ".")
    folder = tmp_path / "job_42_psi_0_guest_9999_output_data"
    assert (result.exit_code, stub.last.method) == (0, "GET")
    assert stub.last.path == "/v1/tracking/component/output/data/download"
    assert stub.last.json == {**SEAT_BODY, "output_path": ".", "limit": -1}
    assert (folder / "data.csv").read_text() == "id\n1\n"


REFUSALS = [
    Reply(404, {"retcode": 404, "retmsg": "Log file path is invalid"}),
    Reply(210, {"retcode": 210, "retmsg": "no data"}),
    Reply(200, {"retcode": 100, "retmsg": "<NotFound '404: Not Found'>"}), Reply(200, {"retcode": 0, "retmsg": "?"}),
]


@pytest.mark.parametrize("reply", REFUSALS, ids=lambda reply: f"{reply.status}-{reply.body['retcode']}")
@pytest.mark.parametrize("arguments", [
    ("job", "log", "-j", "42", "-o", "out"), ("job", "logs", "-j", "42", "-o", "out"),
    ("component", "output-data", *SEAT, "-o", "out"),
    ("component", "get-summary", *SEAT, "-o", "."),
], ids=lambda arguments: arguments[1])
def test_an_answer_instead_of_a_file_is_printed_and_fails(flow, stub, tmp_path, arguments, reply):
    stub.answers(reply)
    result = flow(*arguments)
    assert (result.exit_code, json.loads(result.stdout)) == (1, reply.body)
    assert not list(tmp_path.glob("out/*"))
    assert not list(tmp_path.glob("summary*"))


@pytest.mark.parametrize(
    "content", [b"", b"no archive", tar_of({"a": "x" * 5000})[:-20]], ids=["empty", "none", "cut off"]
)
def test_a_damaged_archive_is_an_error(flow, stub, content):
    stub.answers(Reply(body=content, headers={"Content-Type": "application/gzip"}))
    result = flow("job", "log", "-j", "42", "-o", "out")
    assert result.exit_code == 1
    assert "could not be unpacked" in json.loads(result.stdout)["retmsg"]
    assert result.stderr.startswith("Error: ")


@pytest.mark.parametrize("name", ["../evil.txt", "a/../../evil.txt", "{elsewhere}/evil.txt", "link/evil.txt"])
def test_an_archive_cannot_write_elsewhere(flow, stub, tmp_path, name):
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "out" / "job_42_log"
    elsewhere.mkdir()
    folder.mkdir(parents=True)
    (folder / "link").symlink_to(elsewhere)
    stub.answers(archive({"good.txt": "", name.format(elsewhere=elsewhere): "evil"}))
    result = flow("job", "log", "-j", "42", "-o", "out")
    assert (result.exit_code, "leads to another folder" in json.loads(result.stdout)["retmsg"]) == (1, True)
    assert not list(tmp_path.rglob("evil.txt"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_an_archive_has_files_and_folders_alone(flow, stub, tmp_path, kind):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        head = tarfile.TarInfo("odd")
        head.type, head.linkname = kind, "good.txt"
        tar.addfile(head)
    stub.answers(Reply(body=packed.getvalue(), headers={"Content-Type": "application/gzip"}))
    result = flow("job", "log", "-j", "42", "-o", "out")
    said = json.loads(result.stdout)["retmsg"]
    assert (result.exit_code, "'odd' is neither a file nor a folder" in said) == (1, True)
    assert not list((tmp_path / "out").rglob("odd"))


def test_an_odd_job_id_does_not_lead_elsewhere(flow, stub, tmp_path):
    stub.answers(archive({"a": ""}))
    flow("job", "log", "-j", "../../x", "-o", "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["job_.._.._x_log"]


def test_a_summary_is_written_to_a_file(flow, stub, tmp_path):
    stub.answers(Reply(body=b'{"size": 7}'))
    result = flow("component", "get-summary", *SEAT, "-o", ".")
    (written,) = tmp_path.glob("summary_psi_0_*.json")
    assert (result.exit_code, written.read_bytes()) == (0, b'{"size": 7}')
    assert stub.last.json == {**SEAT_BODY, "filename": written.name, "output_path": str(written)}
    assert str(written) in json.loads(result.stdout)["retmsg"]


def test_a_folder_that_cannot_be_written_is_one_line(flow, stub, tmp_path):
    Path(tmp_path / "file").touch()
    stub.answers(archive({"a": ""}))
    result = flow("job", "log", "-j", "42", "-o", "file/out")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
