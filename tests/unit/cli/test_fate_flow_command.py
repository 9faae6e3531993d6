"""The command fate_flow: db, conf and serve, as far as they need no server."""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from click.testing import CliRunner

from fate_flow.cli.server.main import fate_flow as command
from fate_flow.core.model.errors import BadSettings, FlowError
from fate_flow.store.database.migrations import migrations

NEWEST = migrations()[-1].number


def run(*arguments):
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


@pytest.fixture
def conf(tmp_path):
    return write_conf(tmp_path)


def write_conf(tmp_path, **keys):
    path = tmp_path / "service_conf.yaml"
    path.write_text(yaml.safe_dump({"party_id": "9999", "home": str(tmp_path / "home"), **keys}))
    return str(path)


def test_a_database_is_made_and_then_left_alone(conf, tmp_path):
    first, second = run("db", "upgrade", "-c", conf), run("db", "upgrade", "-c", conf)
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert f"applied {NEWEST:04} " in first.stdout
    assert second.stdout == f"the database of party 9999 has schema {NEWEST}\n"
    assert run("db", "version", "-c", conf).stdout == f"the database has schema {NEWEST}, this release knows {NEWEST}\n"


def test_asking_for_the_version_makes_no_database(conf, tmp_path):
    result = run("db", "version", "-c", conf)
    assert (result.exit_code, result.stdout) == (0, f"the database has schema 0, this release knows {NEWEST}\n")
    assert not (tmp_path / "home").exists()


def test_a_database_of_another_party_is_refused(conf, tmp_path):
    run("db", "upgrade", "-c", conf)
    result = run("db", "upgrade", "-c", write_conf(tmp_path, party_id="10000"))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: the database belongs to party 9999")


def test_what_is_no_database_is_one_line(conf, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "fate_flow.sqlite").write_bytes(b"no database" * 1000)
    for verb in ("upgrade", "version"):
        result = run("db", verb, "-c", conf)
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
        assert "the database refused" in result.stderr


def test_a_database_server_that_is_away_is_one_line(tmp_path):
    conf = write_conf(tmp_path, database={"url": "mysql://root@127.0.0.1:1/x"})
    for verb in ("upgrade", "version"):
        result = run("db", verb, "-c", conf)
        assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


def test_a_good_configuration_is_ok(conf):
    result = run("conf", "check", "-c", conf)
    assert (result.exit_code, result.stdout) == (0, "ok\n")


def test_the_configuration_that_is_shipped_is_ok():
    shipped = Path(__file__).parents[3] / "conf" / "service_conf.yaml"
    assert run("conf", "check", "-c", str(shipped)).exit_code == 0


@pytest.mark.parametrize(("keys", "named"), [
    ({"party_id": "x"}, "party_id"), ({"fateflow": {"http_port": "many"}}, "fateflow.http_port"),
    ({"colour": 1}, "colour"), ({"retention": {"finished_jobs_days": -1}}, "retention.finished_jobs_days"),
    ({"retention": {"most_finished_jobs": 1.5}}, "retention.most_finished_jobs"),
    ({"retention": {"record_texts_days": 5}}, "retention.record_texts_days"),
    ({"retention": {"record_texts_days": 5, "record_rows_days": 6}}, "retention.record_texts_days"),
    ({"retention": {"days": 1}}, "retention.days"),
    ({"fate_on_standalone": {"standalone": {"max_cores_percent_per_job": 0}}},
     "fate_on_standalone.standalone.max_cores_percent_per_job"),
    ({"fate_on_standalone": {"standalone": {"max_cores_percent_per_job": 1.5}}},
     "fate_on_standalone.standalone.max_cores_percent_per_job"),
    ({"database": {"url": "sqlite:rows"}}, "database.url"), ({"database": {"url": "sqlite://rows"}}, "database.url"),
    ({"database": {"url": "mysql://root@127.0.0.1"}}, "database.url"),
])
def test_a_bad_configuration_names_the_key(tmp_path, keys, named):
    path = write_conf(tmp_path, **keys)
    result = run("conf", "check", "-c", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{path}: {named}: " in result.stderr


def test_all_that_is_wrong_with_a_configuration_is_said_at_once(tmp_path):
    path = write_conf(
        tmp_path, party_idd="1", fateflow={"httpport": 9380, "http_threads": "many"}, log={"level": "loud", "sqll": 1},
        routes={"10000": {"url": "10.0.0.2"}, "x": {"url": "http://h"}, "10001": {"uri": "http://h"}},
        retention={"finished_jobs_days": -1}, commands={"allow": "all", "secrets": {"A": {}, "B": 3}},
    )  # fmt: skip
    result = run("conf", "check", "-c", path)
    lines = result.stderr.splitlines()
    assert (result.exit_code, all(line.startswith(f"{path}: ") for line in lines)) == (2, True)
    said = {line.removeprefix(f"{path}: ").partition(": ")[0] for line in lines}
    assert said == {
        "party_idd", "fateflow.httpport", "fateflow.http_threads", "log.level", "log.sqll", "routes.10000.url",
        "routes.x", "routes.10001.uri", "routes.10001.url", "retention.finished_jobs_days", "commands.allow",
        "commands.secrets.A.file", "commands.secrets.B", "commands.secrets.B.file",
    }
    assert f"{path}: party_idd: no such key; did you mean party_id; known here: " in result.stderr
    assert f"{path}: fateflow.http_threads: 'many' is not a whole number from 4 to 1024\n" in result.stderr


@pytest.mark.parametrize("arguments", [("serve",), ("db", "upgrade"), ("db", "version")])
def test_a_configuration_that_cannot_be_read_is_one_line(arguments, tmp_path):
    result = run(*arguments, "-c", str(tmp_path / "none.yaml"))
    assert result.exit_code == 1
    assert "none.yaml: cannot be read" in result.stderr
    assert "Traceback" not in result.stderr


def test_what_is_held_can_be_seen_without_a_server(conf):
    run("db", "upgrade", "-c", conf)
    result = run("admin", "held", "--json", "-c", conf)
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"engine": None, "engines": [], "held": []})


@pytest.mark.parametrize("arguments", [("held",), ("clean",), ("clean", "--job", "20260101120000000000")])
def test_admin_needs_a_home_and_its_schema(conf, tmp_path, arguments):
    nowhere = run("admin", *arguments, "-c", conf)
    assert (nowhere.exit_code, nowhere.stdout) == (1, "")
    assert nowhere.stderr.startswith("Error: home: the folder ")
    (tmp_path / "home").mkdir()
    empty = run("admin", *arguments, "-c", conf)
    assert (empty.exit_code, "the database is empty: start the server once" in empty.stderr) == (1, True)


def test_nothing_is_cleaned_where_nothing_is(conf):
    run("db", "upgrade", "-c", conf)
    assert run("admin", "clean", "-c", conf).stdout == ""
    result = run("admin", "clean", "--job", "20260101120000000000", "-c", conf)
    assert (result.exit_code, result.stderr) == (1, "Error: job 20260101120000000000 is not known here\n")


def test_a_release_needs_a_reason(conf):
    seat = ("admin", "release", "20260101120000000000", "--role", "host", "--party-id", "10000", "-c", conf)
    assert run(*seat).exit_code == 2
    assert "is empty; give the reason" in run(*seat, "--reason", " ").stderr
    run("db", "upgrade", "-c", conf)
    result = run(*seat, "--reason", "why")
    assert (result.exit_code, "is not known here" in result.stderr) == (1, True)


@pytest.fixture
def server(monkeypatch):
    """A stand-in for the server's module."""
    module = ModuleType("fate_flow.server.supervisor")
    monkeypatch.setitem(sys.modules, "fate_flow.server.supervisor", module)
    yield module
    gc.unfreeze()


@pytest.mark.parametrize("code", [0, 4])
def test_serve_ends_as_the_server_ends(conf, server, code):
    seen = []
    server.serve = lambda path: seen.append(path) or code
    assert (run("serve", "-c", conf).exit_code, seen) == (code, [Path(conf)])


def test_the_collector_leaves_alone_what_a_server_has_imported(conf, server):
    """To look at it once takes a tenth of the time in which a server starts."""
    server.serve = lambda _: print(gc.isenabled(), gc.get_freeze_count() > 10_000)
    assert run("serve", "-c", conf).output == "True True\n"


@pytest.mark.parametrize("error", [BadSettings("party_id: is bad"), FlowError("party_id: is bad")])
def test_a_server_that_cannot_start_says_why_in_one_line(conf, server, error):
    def serve(_path):
        raise error

    server.serve = serve
    result = run("serve", "-c", conf)
    assert (result.exit_code, result.stderr) == (1, "Error: party_id: is bad\n")
    assert "Traceback" in run("-v", "serve", "-c", conf).stderr


def test_keys_are_made_once_and_only_their_public_parts_are_printed(conf, tmp_path):
    made = run("key", "make", "-c", conf)
    assert (made.exit_code, json.loads(json.loads(made.stdout)["key_list"])["party_id"]) == (0, "9999")
    fingerprint = run("key", "fingerprint", "-c", conf)
    assert re.fullmatch(r"([A-Z2-7]{7}-){7}[A-Z2-7]{7}\n", fingerprint.stdout)
    assert f"fingerprint of its root key: {fingerprint.stdout}" in made.stderr
    shown = run("key", "show", "-c", conf)
    assert (shown.exit_code, shown.stdout) == (0, made.stdout)
    pem = run("key", "show", "--pem", "-c", conf)
    assert (pem.stdout.startswith("-----BEGIN PUBLIC KEY-----\n"), pem.stderr.startswith("key id of party 9999: ")) == (
        True, True)
    again = run("key", "make", "-c", conf)
    assert (again.exit_code, "is there already" in again.stderr) == (1, True)
    for name in ("root", "tls", "message"):
        assert f"made {tmp_path / 'home' / 'keys' / name}.pem" in made.stderr
        assert (tmp_path / "home" / "keys" / f"{name}.pem").stat().st_mode & 0o777 == 0o600
    assert "PRIVATE" not in made.output + shown.output + pem.output + again.output


def test_a_list_is_certified_with_a_root_key_from_elsewhere(conf, tmp_path):
    run("key", "make", "-c", conf)
    root = tmp_path / "home" / "keys" / "root.pem"
    root.rename(tmp_path / "safe.pem")
    without = run("key", "certify", "-c", conf)
    assert (without.exit_code, "fate_flow key certify -c CONF --root FILE" in without.stderr) == (1, True)
    done = run("key", "certify", "-c", conf, "--root", str(tmp_path / "safe.pem"), "--number", "7")
    assert (done.exit_code, json.loads(json.loads(done.stdout)["key_list"])["number"]) == (0, 7)
    assert "key list of party 9999, number 7\n" in done.stderr
    assert not root.exists()


def test_an_rsa_key_is_made_where_one_is_wanted(conf):
    assert run("key", "make", "-c", conf, "--kind", "rsa").exit_code == 0
    assert len(run("key", "show", "--pem", "-c", conf).stdout) > 500
    assert run("key", "make", "-c", conf, "--kind", "dsa").exit_code == 2


def test_a_key_that_is_not_there_is_one_line(conf):
    for arguments in (("show",), ("show", "--pem"), ("fingerprint",), ("certify",)):
        result = run("key", *arguments, "-c", conf)
        assert (result.exit_code, result.stderr.count("\n"), "fate_flow key make" in result.stderr) == (1, 1, True)


def test_the_keys_of_a_cluster_are_made_without_the_rest_of_a_server():
    """`bin/cluster up` makes them before it starts the servers."""
    text = "import sys, fate_flow.cli.server.cluster_keys; print(sorted({'flask', 'requests'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
