"""`fate_flow client`: the keys of people and robots, made and revoked on the server's machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from fate_flow.cli.server.home_context import home_context
from fate_flow.cli.server.main import fate_flow
from fate_flow.core.access.client_roles import APPROVE, OPERATE, SUBMIT
from fate_flow.core.record.entry import read_entry
from fate_flow.server.runtime import prepare_home, with_client_keys
from fate_flow.settings.people import read_people
from fate_flow.settings.reader import load_settings


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """That of a server that has been started once."""
    path = tmp_path / "conf" / "service_conf.yaml"
    path.parent.mkdir()
    path.write_text('party_id: "9999"\nfateflow: {http_port: 9381}\n', encoding="utf-8")
    settings = load_settings(path)
    prepare_home(settings)
    with_client_keys(settings)
    return path


def run(conf: Path, *arguments: str) -> Result:
    return CliRunner().invoke(fate_flow, ["client", *arguments, "-c", str(conf)])


def test_a_key_is_printed_once_and_never_again(conf: Path, tmp_path: Path) -> None:
    made = run(conf, "add", "anna", "--role", "submit", "--role", "approve")
    assert made.exit_code == 0
    keys = yaml.safe_load(made.stdout)
    [anna] = read_people(tmp_path)
    assert (anna.name, anna.roles) == ("anna", SUBMIT | APPROVE)
    assert keys == {"app_key": anna.app_key, "secret_key": anna.secret_key}
    assert "client anna of party 9999: submit, approve" in made.stderr
    assert "anna runs: flow init --ip ADDRESS --port 9381 --app-key KEY" in made.stderr
    shown = [run(conf, "list"), run(conf, "show", "anna"), run(conf, "revoke", "anna"), run(conf, "show", "anna")]
    assert [one.exit_code for one in shown] == [0] * 4
    assert not [one for one in shown if anna.secret_key in one.output]


def test_all_clients_are_listed_with_the_owner(conf: Path, tmp_path: Path) -> None:
    run(conf, "add", "nightly-robot", "--role", "submit")
    run(conf, "add", "anna", "--role", "read")
    run(conf, "revoke", "anna")
    rows = [line.split() for line in run(conf, "list").stdout.splitlines()]
    assert rows[0] == ["client", "client", "roles", "since", "revoked"]
    assert [(one[0], one[1]) for one in rows[1:]] == [("anna", "read"), ("nightly-robot", "submit"), ("owner", "read")]
    assert [len(one) for one in rows[1:]] == [6, 4, 8], "who is revoked has two days"


def test_a_renewed_key_replaces_the_present_one(conf: Path, tmp_path: Path) -> None:
    first = yaml.safe_load(run(conf, "add", "anna", "--role", "submit").stdout)
    second = yaml.safe_load(run(conf, "renew", "anna", "--role", "operate").stdout)
    keys = {one.app_key: one for one in read_people(tmp_path)}
    assert not keys[first["app_key"]].is_valid
    assert (keys[second["app_key"]].is_valid, keys[second["app_key"]].roles) == (True, OPERATE)
    lines = run(conf, "show", "anna").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [first["app_key"], second["app_key"]]


@pytest.mark.parametrize(("arguments", "text"), [
    (("add", "Anna", "--role", "read"), "NAME: 'Anna' is not 2 to 32 small letters"),
    (("add", "owner", "--role", "read"), "there is a client owner already"),
    (("add", "anna", "--role", "root"), "'root' is not one of 'read', 'submit'"),
    (("add", "anna"), "Missing option '--role'"),
    (("revoke", "bob"), "there is no client 'bob'; fate_flow client list shows all"),
    (("show", "bob"), "there is no client 'bob'; fate_flow client list shows all"),
    (("renew", "owner"), "the key of owner is http_app_key in the configuration"),
])  # fmt: skip
def test_what_cannot_be_done_is_refused(conf: Path, arguments: tuple[str, ...], text: str) -> None:
    result = run(conf, *arguments)
    assert (result.exit_code != 0, text in result.stderr) == (True, True)


def test_the_key_of_the_owner_can_be_revoked(conf: Path) -> None:
    assert run(conf, "revoke", "owner").stderr == "the key of owner is revoked\n"
    assert "client owner has no key any more" in run(conf, "revoke", "owner").stderr


def test_where_nobody_signs_a_key_would_have_no_effect(conf: Path) -> None:
    conf.write_text('party_id: "9999"\nauthentication: {client: {switch: false}}\n', encoding="utf-8")
    result = run(conf, "add", "anna", "--role", "read")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "set authentication.client.switch to true" in result.stderr


# ---------------------------------------------------------------------- the record


@pytest.fixture
def recorded(conf: Path) -> Path:
    conf.write_text(f"{conf.read_text()}record: {{switch: true}}\n", encoding="utf-8")
    assert CliRunner().invoke(fate_flow, ["db", "upgrade", "-c", str(conf)]).exit_code == 0
    return conf


def acts(conf: Path) -> list[tuple[str, str, str]]:
    with home_context(load_settings(conf)) as context, context.store.reading() as tx:
        entries = tx.unsealed_entries(100)
        fields = [read_entry(one.content) for one in entries]
        found = zip(fields, entries, strict=True)
        return [(said["what"], tx.person_name(said["who"]), one.text) for said, one in found]


def test_each_change_of_keys_is_recorded_and_no_name_or_key_is_in_an_entry(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "olga")
    made = [
        run(recorded, *arguments)
        for arguments in (("add", "anna", "--role", "submit"), ("renew", "anna"), ("revoke", "anna"))
    ]
    assert [one.exit_code for one in made] == [0, 0, 0]
    assert run(recorded, "revoke", "anna").exit_code == 1

    revocation = "revocation of a client requested"
    assert acts(recorded) == [
        ("new client requested", "olga", "client 'anna': submit"),
        ("new key of a client requested", "olga", "client 'anna': the same roles"),
        (revocation, "olga", "client 'anna'"),
        (revocation, "olga", "client 'anna'"), (f"{revocation}, and failed", "olga", "client 'anna'"),
    ]  # fmt: skip
    with home_context(load_settings(recorded)) as context, context.store.reading() as tx:
        contents = b"".join(one.content for one in tx.unsealed_entries(100))
    assert b"anna" not in contents
    assert yaml.safe_load(made[0].stdout)["app_key"].encode() not in contents


def test_the_first_act_in_a_new_home_makes_its_database(conf: Path, tmp_path: Path) -> None:
    assert run(conf, "add", "anna", "--role", "submit").exit_code == 0
    assert [what for what, _, _ in acts(conf)] == ["new client requested"]


@pytest.mark.parametrize("arguments", [("audit", "verify"), ("grants", "show"), ("client", "list")])
def test_a_command_before_the_first_start_leaves_the_home_new(
    conf: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """A database that it made would say that a server has run here without keys of clients."""
    CliRunner().invoke(fate_flow, [*arguments, "-c", str(conf)])
    assert not (tmp_path / "fate_flow.sqlite").exists()
    assert load_settings(conf).clients_sign


def test_without_a_record_no_database_is_made(conf: Path, tmp_path: Path) -> None:
    conf.write_text(f"{conf.read_text()}record: {{switch: false}}\n", encoding="utf-8")
    assert run(conf, "add", "anna", "--role", "submit").exit_code == 0
    assert not (tmp_path / "fate_flow.sqlite").exists()


def test_a_key_that_cannot_be_recorded_is_not_made(recorded: Path, tmp_path: Path) -> None:
    (tmp_path / "run" / "secret").touch()        # a server has run here, so a database that is not there was lost
    (tmp_path / "fate_flow.sqlite").unlink()
    found = run(recorded, "add", "anna", "--role", "submit")
    assert (found.exit_code, "the database is empty" in found.stderr) == (1, True)
    assert read_people(tmp_path) == ()
