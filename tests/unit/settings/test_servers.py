"""The section `servers`, and what a start proves about the folder that it names."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from peewee import Database

from fate_flow.components.base.own_servers import urls_here
from fate_flow.core.model.errors import BadSettings, FlowError
from fate_flow.records.operator_log.events import Event
from fate_flow.server.party_servers import shared_home
from fate_flow.server.party_servers.shared_home import (
    announce_workers,
    named_server,
    prove_shared_home,
    withdraw_workers,
)
from fate_flow.server.runtime import open_log, prepare_home, secret_of
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings
from fate_flow.store.database.migrations import upgrade
from fate_flow.store.database.opening import open_database

MYSQL = "database: {url: 'mysql://root@127.0.0.1/x'}"


def read(folder: Path, text: str) -> Settings:
    conf = folder / "conf" / "service_conf.yaml"
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text(f'party_id: "9999"\n{text}\n', encoding="utf-8")
    return load_settings(conf)


@pytest.mark.parametrize(("text", "message"), [
    (f"{MYSQL}\nservers: {{name: one}}", "servers.shared_home: is not set, but servers.name is: .* needs both"),
    (f"{MYSQL}\nservers: {{shared_home: /s}}", "servers.name: is not set, but servers.shared_home is"),
    (f"{MYSQL}\nservers: {{name: One, shared_home: /s}}", "servers.name: 'One' is not a name of at most 32"),
    (f"{MYSQL}\nservers: {{name: a/b, shared_home: /s}}", "servers.name: 'a/b' is not a name"),
    ("servers: {name: one, shared_home: /s}", "servers.shared_home: is set, but database.url names no MySQL"),
    (f"{MYSQL}\nhome: /h\nservers: {{name: one, shared_home: /h}}", "servers.shared_home: /h is also home"),
    (f"{MYSQL}\nservers: {{name: one, shared_home: /s, x: 1}}", "servers.x: no such key"),
    (f"{MYSQL}\nservers: {{name: one, shared_home: /s}}\nlimits: {{poll_interval: 4}}",
     "limits.poll_interval: 4 is above 3, and servers.name is set"),
])  # fmt: skip
def test_a_wrong_section_is_told(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        read(tmp_path, text)


def test_what_belongs_to_the_party_is_in_the_shared_folder_and_the_rest_in_the_home(tmp_path: Path) -> None:
    one = read(tmp_path, f"{MYSQL}\nservers: {{name: one, shared_home: /shared}}")
    shared = [
        one.jobs_dir, one.data_dir, one.spool_dir, one.uploads_dir, one.models_dir, one.keys_dir, one.log_dir,
        one.one_of.folder, one.shared_run_dir, one.lease_file,
    ]  # fmt: skip
    assert [path for path in shared if not path.is_relative_to("/shared")] == []
    own = [one.run_dir, one.alive_file, one.server_log_dir, one.providers_dir, one.streams_dir, one.parties_socket]
    assert [path for path in own if not path.is_relative_to(one.home)] == []
    alone = read(tmp_path, "")
    assert alone.shared == alone.home
    assert (alone.log_dir, alone.lease_file) == (alone.server_log_dir, alone.alive_file)


# ---------------------------------------------------------------------- the proof


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """SQLite, which a configuration with several servers does not accept: the rows are the same."""
    found = open_database("sqlite:///rows.sqlite", tmp_path)
    upgrade(found)
    yield found
    found.close()


def server(folder: Path, name: str, shared: str = "shared") -> Settings:
    found = read(folder / name, f"{MYSQL}\nservers: {{name: {name}, shared_home: '{folder / shared}'}}")
    prepare_home(found)
    found.one_of.folder.mkdir(exist_ok=True)
    return found


def test_servers_with_one_folder_start_in_any_order_any_number_of_times(database: Database, tmp_path: Path) -> None:
    one, two = server(tmp_path, "one"), server(tmp_path, "two")
    for each in (one, two, two, one):
        prove_shared_home(each, database)
    assert secret_of(one) == secret_of(two)


def test_a_copy_of_the_folder_is_not_the_folder(database: Database, tmp_path: Path) -> None:
    one, two = server(tmp_path, "one"), server(tmp_path, "two")
    prove_shared_home(two, database)
    shutil.copytree(tmp_path / "shared", tmp_path / "copy")
    prove_shared_home(one, database)
    shutil.move(tmp_path / "shared", tmp_path / "the folder of one")
    shutil.move(tmp_path / "copy", tmp_path / "shared")        # what two sees at the same path
    with pytest.raises(FlowError, match=r"is not the folder that server one has: .* Is the file system mounted\?"):
        prove_shared_home(two, database)


def test_the_folder_has_one_path(database: Database, tmp_path: Path) -> None:
    prove_shared_home(server(tmp_path, "one"), database)
    with pytest.raises(FlowError, match=r"and .*/shared at server one: the folder has to have one path"):
        prove_shared_home(server(tmp_path, "two", "elsewhere"), database)


def test_a_server_alone_does_not_use_the_database_of_several(database: Database, tmp_path: Path) -> None:
    alone = read(tmp_path / "alone", "")
    prove_shared_home(alone, database)
    prove_shared_home(server(tmp_path, "one"), database)
    with pytest.raises(FlowError, match=r"servers\.name: is not set, but the database has rows of servers"):
        prove_shared_home(alone, database)


def test_two_servers_have_two_names(tmp_path: Path) -> None:
    one = server(tmp_path, "one")
    with named_server(one), named_server(server(tmp_path, "two")):
        again = replace(one, home=tmp_path / "again")
        with pytest.raises(FlowError, match=r"servers\.name: another server of the party runs as one"), (
            named_server(again)
        ):
            pass
    with named_server(one):
        pass


def test_a_file_system_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(_one: Path, _other: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(shared_home.os, "link", no_links)
    one = server(tmp_path, "one")
    with pytest.raises(FlowError, match="file system without hard links or locks of files"), named_server(one):
        pass
    assert {path.name for path in one.one_of.folder.iterdir()} == {"one.lock"}


def test_workers_find_a_server_until_its_clean_end(tmp_path: Path) -> None:
    one = server(tmp_path, "one")
    announce_workers(one, "http://127.0.0.1:1234")
    assert urls_here(one.one_of.folder) == ("http://127.0.0.1:1234",)
    assert json.loads((one.one_of.folder / "one.json").read_text())["worker_url"] == "http://127.0.0.1:1234"
    withdraw_workers(one)
    assert urls_here(one.one_of.folder) == ()


def test_each_server_writes_its_own_log_and_all_those_of_jobs(tmp_path: Path) -> None:
    one = server(tmp_path, "one")
    record = open_log(one)
    record.emit(Event.DETECT_NOTE, text="something")
    record.emit(Event.SUBMITTED, job_id="20200101000000000000", model_id="")
    record.close()
    assert not (one.log_dir / "fate_flow").exists()
    assert list((one.server_log_dir / "fate_flow").glob("*.log"))
    assert list((one.log_dir / "20200101000000000000").glob("*.log"))
