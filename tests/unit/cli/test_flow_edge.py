"""Which server, no server, no FATE Flow server, exit codes, help, completion."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from base64 import b64encode
from hashlib import sha1
from hmac import HMAC
from pathlib import Path

import click
import pytest
import requests
import yaml
from click.testing import CliRunner

from fate_flow import __version__
from fate_flow.cli.connection import client as connection
from fate_flow.cli.connection.client import CallFailed, Client
from fate_flow.cli.connection.profiles import settings_path
from fate_flow.cli.connection.settings_file import Address, find_server
from fate_flow.cli.flow import main
from fate_flow.cli.flow.main import flow as flow_command
from fate_flow.cli.output.upload_body import MultipartFile
from fate_flow.cli.server.main import fate_flow as server_command
from tests.kit.cli.stub_server import Reply

NOBODY = "http://127.0.0.1:1"


def run(*arguments, env=None):
    return CliRunner().invoke(flow_command, arguments, env=env, catch_exceptions=False)


NO_COMMANDS = ("__init__", "main", "not_offered")


def every_command(command, path=()):
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from every_command(child, (*path, name))


def test_help_does_not_wait_for_the_import_of_the_http_library():
    text = "import sys, fate_flow.cli.flow.main; print(sorted({'requests', 'urllib3', 'ssl'} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", text], capture_output=True, text=True, timeout=60, check=True
    )  # fmt: skip
    assert done.stdout == "[]\n"


def test_a_command_does_not_wait_for_the_import_of_others():
    text = (
        "import sys; from fate_flow.cli.flow.main import flow; flow.main(['table', '--help'], standalone_mode=False); "
        "print(sorted(one for one in sys.modules if one.startswith(('fate_flow.cli.flow.', 'fate_flow.cli.audit'))))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", text], capture_output=True, text=True, timeout=60, check=True
    )  # fmt: skip
    found = done.stdout.splitlines()[-1]
    assert found == str([f"fate_flow.cli.flow.{name}" for name in ("main", "not_offered", "table")])


def test_each_command_has_the_name_by_which_it_is_imported():
    assert [name for name, one in flow_command.commands.items() if one.name != name] == []
    assert flow_command.get_command(None, "jobb") is None
    files = (Path(main.__file__).parent).glob("*.py")
    modules = {f"fate_flow.cli.flow.{one.stem}" for one in files} - {f"fate_flow.cli.flow.{one}" for one in NO_COMMANDS}
    assert modules <= set(main._MODULES.values()), "a command that nobody can call"


COMMANDS = [("flow", path) for path, _ in every_command(flow_command)]
COMMANDS += [("fate_flow", path) for path, _ in every_command(server_command)]


@pytest.mark.parametrize(("program", "path"), COMMANDS, ids=lambda value: " ".join(value))
def test_every_help_has_an_example_and_needs_no_server(program, path):
    root = {"flow": flow_command, "fate_flow": server_command}[program]
    result = CliRunner().invoke(root, [*path, "--help"], prog_name=program)
    assert result.exit_code == 0
    assert f"Example: {program}" in result.stdout or "json:" in result.stdout


@pytest.mark.parametrize(("program", "path"), COMMANDS, ids=lambda value: " ".join(value))
def test_the_options_of_an_example_exist(program, path):
    command = dict(every_command({"flow": flow_command, "fate_flow": server_command}[program]))[path]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    text = [word for line in command.help.splitlines() if line.strip().startswith("Example:") for word in line.split()]
    used = {word for word in text if word.startswith("-")}
    if not isinstance(command, click.Group):
        assert used <= known


def test_without_init_a_line_says_what_to_run():
    result = run("job", "list")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "flow init --ip 127.0.0.1 --port 9380" in result.stderr
    assert "--server" in result.stderr


def test_no_server_is_one_line_and_the_genuine_answer():
    result = run("--server", NOBODY, "job", "list")
    assert result.exit_code == 3
    assert result.stderr == f"Error: no server answers at {NOBODY}: is it started? bin/service.sh start\n"
    assert json.loads(result.stdout) == {
        "retcode": 100, "retmsg": "Connection refused. Please check if the fate flow service is started."}


def test_a_traceback_comes_only_when_asked_for():
    result = run("-v", "--server", NOBODY, "job", "list")
    assert result.exit_code == 3
    assert "Traceback" in result.stderr


def test_a_server_that_hangs_up_is_not_said_to_have_refused(stub):
    class Gone(requests.Session):
        def request(self, *_, **__):
            raise requests.ConnectionError("Connection aborted.")

    client = Client(lambda: Address(stub.url))
    client._session = Gone()
    result = CliRunner().invoke(flow_command, ["job", "list"], obj=client)
    assert result.exit_code == 3
    assert "it is unknown whether the request was carried out" in result.stderr


@pytest.mark.parametrize("reply", [
    Reply(502, b"<html>Bad Gateway</html>"), Reply(200, b"[]"), Reply(200, b""), Reply(200, b"[" * 100_000)])
def test_what_is_no_fate_flow_server_is_said_to_be_none(flow, stub, reply):
    stub.answers(reply)
    result = flow("job", "list")
    assert result.exit_code == 1
    assert "is not a FATE Flow server" in result.stderr
    assert json.loads(result.stdout)["retcode"] == 100


def test_a_defect_of_ours_is_one_line_too(flow, monkeypatch):
    monkeypatch.setattr(Client, "post", lambda *_: 1 / 0)
    result = flow("job", "list")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ZeroDivisionError")
    assert "Traceback" not in result.stderr


def test_the_version_is_told():
    assert run("--version").stdout == f"flow, version {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert f"_FLOW_COMPLETE={shell}_complete" in result.stdout


def test_the_help_of_completion_says_what_is_completed():
    assert "complete commands, options and job ids" in " ".join(run("completion", "--help").stdout.split())


@pytest.mark.long
@pytest.mark.parametrize(("text", "completed"), [
    ("flow job su", ["plain,submit"]), ("flow job list --ta", ["plain,--table"]),
    ("flow job query -s st", ["plain,stopping"]), ("flow data upload -c upl", ["file,upl"]),
])  # fmt: skip
def test_a_shell_completes_commands_options_and_values(text, completed):
    program = [sys.executable, "-m", "fate_flow.cli.flow.main"]
    env = {"_FLOW_COMPLETE": "bash_complete", "COMP_WORDS": text, "COMP_CWORD": str(len(text.split()) - 1)}
    done = subprocess.run(program, env=env, capture_output=True, text=True, check=False, timeout=180)
    assert done.stdout.splitlines() == completed


def test_bash_completes_with_the_script_that_is_printed(tmp_path):
    flow = Path(sys.executable).with_name("flow")
    (tmp_path / "flow.bash").write_text(run("completion", "bash").stdout)
    typed = 'source flow.bash; COMP_WORDS=(flow job que); COMP_CWORD=2; _flow_completion flow; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "--norc", "-c", typed], cwd=tmp_path, env={"PATH": f"{flow.parent}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=True, timeout=180,
    )  # fmt: skip
    assert done.stdout == "query\n"


# ---------------------------------------------------------------------- init


def test_init_remembers_an_address(stub):
    port = stub.url.rpartition(":")[2]
    result = run("init", "--ip", "127.0.0.1", "--port", port)
    assert json.loads(result.stdout) == {
        "retcode": 0, "retmsg": "Fate Flow CLI has been initialized successfully."}
    assert stub.url in result.stderr
    assert settings_path().stat().st_mode & 0o777 == 0o600
    assert run("job", "list").exit_code == 0
    assert len(stub.asked) == 1


def test_init_follows_a_configuration(tmp_path):
    conf = tmp_path / "service_conf.yaml"
    conf.write_text("fateflow: {host: 0.0.0.0, http_port: 9380}")
    assert run("init", "-c", "service_conf.yaml").exit_code == 0
    assert find_server(None) == Address("http://127.0.0.1:9380")
    (tmp_path / "local.service_conf.yaml").write_text(
        "fateflow: {http_port: 9381}\n"
        "authentication: {client: {switch: true, http_app_key: k, http_secret_key: s}}")
    assert find_server(None) == Address("http://127.0.0.1:9381", "k", "s")
    assert yaml.safe_load(settings_path().read_text()) == {
        "api_version": "v1", "ip": None, "port": None, "server_conf_path": str(conf), "app_key": None,
        "secret_key": None}


def test_the_server_named_last_counts(tmp_path):
    Path("a.yaml").write_text("fateflow: {http_port: 9380}")
    run("init", "-c", "a.yaml")
    run("init", "--ip", "10.0.0.1", "--port", "9382")
    assert find_server(None).url == "http://10.0.0.1:9382"


def test_init_keeps_keys_and_reset_forgets_all():
    run("init", "--ip", "10.0.0.1", "--port", "9382", "--app-key", "k", "--secret-key", "s")
    assert find_server(None) == Address("http://10.0.0.1:9382", "k", "s")
    result = run("init", "--reset")
    assert (result.exit_code, json.loads(result.stdout)["retcode"]) == (0, 0)
    assert run("job", "list").exit_code == 2


def test_init_wants_to_know_a_server():
    result = run("init", "--ip", "10.0.0.1")
    assert (result.exit_code, json.loads(result.stdout)["retcode"]) == (2, 100)
    assert not settings_path().exists()


@pytest.mark.parametrize("text", ["fateflow: {}", "{", "[]", "fateflow: {http_port: many}"])
def test_init_refuses_a_configuration_without_an_address(text):
    Path("a.yaml").write_text(text)
    result = run("init", "-c", "a.yaml")
    assert result.exit_code == 2
    assert not settings_path().exists()


def test_init_repairs_damaged_settings():
    settings_path().parent.mkdir()
    settings_path().write_text("{")
    assert run("job", "list").exit_code == 2
    assert run("init", "--ip", "10.0.0.1", "--port", "9382").exit_code == 0
    assert find_server(None).url == "http://10.0.0.1:9382"


def test_a_configuration_that_went_away_is_named(tmp_path):
    Path("a.yaml").write_text("fateflow: {http_port: 9380}")
    run("init", "-c", "a.yaml")
    Path("a.yaml").unlink()
    result = run("job", "list")
    assert result.exit_code == 2
    assert f"{tmp_path / 'a.yaml'}: cannot be read" in result.stderr


def test_the_environment_may_name_the_server(stub):
    assert run("job", "list", env={"FATE_FLOW_SERVER": stub.url + "/"}).exit_code == 0
    assert stub.last.path == "/v1/job/list/job"


@pytest.mark.parametrize("url", ["127.0.0.1:9380", "localhost", "ftp://a", "http://", "http://a:99999", "http://[::1"])
def test_what_is_no_url_is_refused(url):
    result = run("--server", url, "job", "list")
    assert result.exit_code == 2
    assert "http://127.0.0.1:9380" in result.stderr


def test_a_proxy_of_the_environment_does_not_stand_before_this_machine(stub, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", NOBODY)
    monkeypatch.setenv("http_proxy", NOBODY)
    assert run("--server", stub.url, "job", "list").exit_code == 0


# ---------------------------------------------------------------------- signatures


def signature_of(asked, secret, path):
    form = b""
    parts = [asked.headers[name].encode() for name in ("TIMESTAMP", "NONCE", "APP_KEY")]
    content = b"\n".join([*parts, path.encode(), asked.body, form])
    return b64encode(HMAC(secret.encode(), content, sha1).digest()).decode()


def test_requests_are_signed_where_there_are_keys(stub):
    Client(lambda: Address(stub.url, "key", "secret")).post("job/stop", {"job_id": "42"})
    assert stub.last.headers["SIGNATURE"] == signature_of(stub.last, "secret", "/v1/job/stop")


def test_a_file_is_signed_by_its_query(stub, tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    client = Client(lambda: Address(stub.url, "key", "secret"))
    client.upload("data/upload", {"a": "b&c"}, MultipartFile(tmp_path / "a"))
    asked = stub.last
    bodiless = type(asked)(asked.method, asked.path, asked.query, asked.headers, b"")
    assert asked.headers["SIGNATURE"] == signature_of(bodiless, "secret", f"/v1/data/upload?{asked.query}")


def test_without_keys_nothing_is_signed(stub):
    Client(lambda: Address(stub.url)).post("job/stop", {})
    assert "SIGNATURE" not in stub.last.headers


@pytest.mark.parametrize("reply", [
    Reply(body=b'{"retcode": 0, "data": "' + b"x" * 2000 + b'"}', headers={"Content-Type": "application/json"}),
    Reply(body=gzip.compress(b" " * 1_000_000), headers={"Content-Type": "text/json", "Content-Encoding": "gzip"}),
    Reply(500, b"x" * 2000),
], ids=["json", "compressed", "text"])  # fmt: skip
def test_an_answer_is_read_up_to_a_limit(stub, monkeypatch, reply):
    monkeypatch.setattr(connection, "MOST_BYTES", 1000)
    client = Client(lambda: Address(stub.url))
    stub.answers(reply)
    for ask in (lambda: client.post("job/query", {}), lambda: client.download("POST", "job/log", {}, io.BytesIO())):
        with pytest.raises(CallFailed, match=r"the answer of http.* is longer than 1000 bytes, and is not"):
            ask()


def test_a_file_may_be_longer(stub, monkeypatch):
    monkeypatch.setattr(connection, "MOST_BYTES", 1000)
    stub.answers(Reply(body=b"x" * 2000, headers={"Content-Type": "application/octet-stream"}))
    target = io.BytesIO()
    assert Client(lambda: Address(stub.url)).download("POST", "job/log", {}, target) is None
    assert target.getvalue() == b"x" * 2000


def test_a_file_of_json_arrives_as_it_is(stub):
    stub.answers(Reply(body=b'{"a":  1}', headers={"Content-Type": "application/json"}))
    target = io.BytesIO()
    assert Client(lambda: Address(stub.url)).download("POST", "job/log", {}, target) is None
    assert target.getvalue() == b'{"a":  1}'
