"""The keys of clients that a server makes at the first start of a home, and finds there ever after."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from fate_flow.cli.server.main import fate_flow
from fate_flow.core.model.errors import BadSettings
from fate_flow.server.runtime import prepare_home, secret_of, with_client_keys
from fate_flow.server.start_warnings import start_warnings
from fate_flow.settings.client_keys import ClientKeys, keys_file, make_client_keys, read_client_keys
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings

GIVEN = "http_app_key: our-clients, http_secret_key: secret.of-9999"
KEYS = ClientKeys("our-clients", "secret.of-9999")


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "conf" / "service_conf.yaml"
    path.parent.mkdir()
    path.write_text('party_id: "9999"\n', encoding="utf-8")
    return path


def started(conf: Path, client: str = "", more: str = "") -> Settings:
    """What a server goes on with that starts with this section of its configuration."""
    text = f"authentication: {{client: {{{client}}}}}\n" if client else ""
    conf.write_text(f'party_id: "9999"\n{text}{more}', encoding="utf-8")
    settings = load_settings(conf)
    prepare_home(settings)
    settings = with_client_keys(settings)
    secret_of(settings)
    return settings


def test_a_new_home_gets_keys_at_its_first_start_and_keeps_them(conf: Path) -> None:
    assert (load_settings(conf).client_keys, load_settings(conf).clients_sign) == (None, True)
    assert not keys_file(conf.parents[1]).exists(), "to look at a configuration makes nothing"
    first = started(conf)
    assert first.client_keys is not None
    assert len(first.client_keys.secret_key) == 64
    assert keys_file(first.home).stat().st_mode & 0o777 == 0o600
    assert keys_file(first.home).parent.stat().st_mode & 0o777 == 0o700
    assert started(conf).client_keys == load_settings(conf).client_keys == first.client_keys


def test_no_two_homes_have_the_same_keys(tmp_path: Path) -> None:
    assert make_client_keys(tmp_path / "a") != make_client_keys(tmp_path / "b")


@pytest.mark.parametrize("mark", ["run/secret", "fate_flow.sqlite"])
def test_a_home_that_was_made_before_stays_as_it_was(conf: Path, mark: str) -> None:
    (conf.parents[1] / "run").mkdir()
    (conf.parents[1] / mark).touch()
    for _ in range(2):
        assert (started(conf).client_keys, started(conf).clients_sign) == (None, False)
        assert next(start_warnings(started(conf))).startswith("clients need not sign their requests: ")
    assert not keys_file(conf.parents[1]).exists()
    made = started(conf, "switch: true").client_keys
    assert made is not None
    assert started(conf).client_keys == made, "without a switch it is as it was at the last start"


@pytest.mark.parametrize("connection", [
    "parties: {listen: {host: 10.0.0.1, port: 9390}}", 'routes: {"10000": {url: "https://partner.example:9390"}}',
])  # fmt: skip
def test_such_a_home_does_not_start_without_keys_where_it_is_connected_with_other_machines(
    conf: Path, connection: str
) -> None:
    (conf.parents[1] / "fate_flow.sqlite").touch()
    with pytest.raises(BadSettings, match=r"authentication\.client\.switch: is not true, and .* set it to true\."):
        started(conf, more=connection)
    assert started(conf, "switch: true", connection).client_keys is not None


def test_what_the_configuration_says_counts(conf: Path) -> None:
    assert started(conf, "switch: false").client_keys is None
    assert started(conf, f"switch: false, {GIVEN}").client_keys is None
    assert not keys_file(conf.parents[1]).exists()
    assert started(conf, f"switch: true, {GIVEN}").client_keys == KEYS
    assert not keys_file(conf.parents[1]).exists()


def test_keys_of_the_configuration_are_those_of_a_new_home(conf: Path) -> None:
    assert started(conf, GIVEN).client_keys == KEYS
    assert started(conf, GIVEN).client_keys == KEYS
    assert read_client_keys(conf.parents[1]) == KEYS


def test_of_many_that_make_keys_at_once_all_get_the_same(tmp_path: Path) -> None:
    for number in range(20):
        home = tmp_path / str(number)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _, home=home: make_client_keys(home), range(8)))
        assert len(set(found)) == 1
        assert os.listdir(home / "keys") == ["clients.yaml"]


def test_a_database_that_is_made_before_the_first_start(conf: Path) -> None:
    done = CliRunner().invoke(fate_flow, ["db", "upgrade", "-c", str(conf)])
    assert done.exit_code == 0, done.output
    assert started(conf).client_keys is not None


@pytest.mark.parametrize(("text", "mode", "message"), [
    ("http_app_key: our-clients\nhttp_secret_key: secret-key\n", 0o640, "is of mode 0640, so other users could use"),
    ("http_app_key: our-clients\n", 0o600, "http_app_key and http_secret_key must each be 8 to 100"),
    ("[", 0o600, "is not YAML"), ("- a\n", 0o600, "must each be 8 to 100"), ("", 0o600, "must each be 8 to 100"),
])  # fmt: skip
def test_a_file_that_cannot_be_used_keeps_the_server_from_starting(
    conf: Path, text: str, mode: int, message: str
) -> None:
    file = keys_file(conf.parents[1])
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(BadSettings, match=message) as caught:
        load_settings(conf)
    assert "secret-key" not in caught.value.message


def test_keys_that_cannot_be_written_are_none(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("no folder")
    with pytest.raises(BadSettings, match=r"clients\.yaml: cannot be written"):
        make_client_keys(tmp_path)


def test_secrets_are_not_shown(conf: Path) -> None:
    keys = started(conf).client_keys
    assert keys is not None
    assert keys.secret_key not in repr(replace(load_settings(conf)))
