"""Which configuration a command of an operator uses that names none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fate_flow.cli.connection.local_server import homes_of_local_servers
from fate_flow.cli.server import conf_option
from fate_flow.cli.server.main import fate_flow


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the commands run; no server runs, and the package is in no checkout."""
    found = tmp_path / "empty"
    found.mkdir()
    monkeypatch.chdir(found)
    monkeypatch.delenv("FATE_FLOW_CONF", raising=False)
    monkeypatch.setattr(conf_option, "homes_of_local_servers", list)
    monkeypatch.setattr(conf_option, "conf_of_checkout", lambda: None)
    return found


def made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('party_id: "9999"\n')
    return path


def running(home: Path, conf: Path) -> Path:
    (home / "run").mkdir(parents=True)
    (home / "run" / "server.json").write_text(json.dumps({"conf": str(conf)}))
    return home


def check(*arguments: str) -> Result:
    return CliRunner().invoke(fate_flow, ["conf", "check", *arguments])


def used() -> Path:
    """The file that the command says it uses."""
    done = check()
    assert (done.exit_code, done.stdout) == (0, "ok\n"), done.output
    [said] = [line for line in done.stderr.splitlines() if line.startswith("configuration: ")]
    return Path(said.removeprefix("configuration: "))


def test_each_way_comes_before_the_next(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout, server = made(tmp_path / "checkout" / "service_conf.yaml"), made(tmp_path / "server.yaml")
    home = running(tmp_path / "home", server)
    monkeypatch.setattr(conf_option, "conf_of_checkout", lambda: checkout)
    assert used() == checkout
    monkeypatch.setattr(conf_option, "homes_of_local_servers", lambda: [home])
    assert used() == server
    assert made(bare / "conf" / "service_conf.yaml") == used()
    assert made(bare / "service_conf.yaml") == used()
    monkeypatch.setenv("FATE_FLOW_CONF", str(tmp_path / "wrong.yaml"))
    assert f"{tmp_path}/wrong.yaml: cannot be read" in check().stderr
    done = check("-c", str(server))
    assert (done.exit_code, "configuration: " in done.stderr) == (0, False)


def test_without_any_the_command_says_how_to_name_one() -> None:
    done = check()
    assert done.exit_code == 2
    assert "there is no configuration: name it with -c, or in FATE_FLOW_CONF. Without both" in done.stderr


def test_of_several_servers_none_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    confs = [made(tmp_path / f"{name}.yaml") for name in "ab"]
    homes = [running(tmp_path / conf.stem, conf) for conf in confs]
    monkeypatch.setattr(conf_option, "homes_of_local_servers", lambda: homes)
    done = check()
    assert done.exit_code == 2
    assert "2 servers of this user run on this machine: name one with -c" in done.stderr
    assert all(str(conf) in done.stderr for conf in confs)


def test_a_server_of_an_earlier_release_says_no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (running(tmp_path / "old", tmp_path) / "run" / "server.json").write_text("{}")
    monkeypatch.setattr(conf_option, "homes_of_local_servers", lambda: [tmp_path / "old", tmp_path / "starting"])
    assert "there is no configuration" in check().stderr


def test_a_file_of_another_user_in_the_current_folder_is_not_taken(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = made(bare / "service_conf.yaml")
    if os.getuid() == 0:
        os.chown(conf, 4243, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 4242)
    assert "there is no configuration" in check().stderr


def test_the_servers_of_this_user_are_those_that_hold_the_lock_of_a_home(tmp_path: Path) -> None:
    homes = [tmp_path / "a", tmp_path / "b"]
    for home in homes:
        (home / "run").mkdir(parents=True)
        (home / "run" / "server.lock").touch()
    with (homes[0] / "run" / "server.lock").open("a"):
        assert set(homes) & set(homes_of_local_servers()) == {homes[0]}
