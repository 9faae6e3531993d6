"""Connectors, and the jobs of Writers: what is taken, and that nothing leads out of the folders that are open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fate_flow.settings.limits import Limits
from fate_flow.store.values import TableMeta
from tests.kit.api.client_world import World, make_world

SOURCE = {"namespace": "demo", "table_name": "site_a"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path, Limits())
    (world.home / "examples").mkdir()
    (world.home / "downloads").mkdir()
    (world.home / "examples" / "a.csv").write_text("id,x\n1,2\n", encoding="utf-8")
    with world.store.transaction() as tx:
        for name in ("site_a", "site_b"):
            tx.save_table(TableMeta("demo", name, f"standalone:///d/demo/{name}", 2, {}), 1)
    yield world
    world.store.close()


def connector(world: World, path: str, name: str = "exports", engine: str = "PATH") -> Any:
    body = {"connector_name": name, "engine": engine, "connector_info": {"path": path}}
    return world.ask("table/connector/create", body)


def written(world: World, **more: Any) -> dict[str, Any]:
    """The parameters of the Writer's job."""
    answer = world.ask("data/writer", {**SOURCE, **more})
    assert answer["retcode"] == 0, answer
    conf = world.services.views.document(answer["jobId"])
    assert conf is not None
    found: dict[str, Any] = conf.runtime_conf["component_parameters"]["role"]["local"]["0"]["writer_0"]
    assert (found.pop("namespace"), found.pop("name")) == ("demo", "site_a")
    return found


def refused(world: World, path: str, body: dict[str, Any]) -> tuple[int, str]:
    answer = world.ask(path, body)
    return answer["retcode"], answer["retmsg"]


# ---------------------------------------------------------------------- connectors


def test_a_connector_is_told_as_it_was_made_and_replaced(world: World) -> None:
    assert connector(world, "examples")["retcode"] == 0
    assert connector(world, str(world.home / "downloads"), engine="LOCALFS")["retcode"] == 0
    assert world.ask("table/connector/query", {"connector_name": "exports"})["data"] == {
        "connector_name": "exports", "engine": "LOCALFS", "path": str(world.home / "downloads"),
    }  # fmt: skip


@pytest.mark.parametrize(("change", "retcode", "says"), [
    ({"engine": "MYSQL"}, 101, "engine: this server does not offer 'MYSQL' here; instead: PATH"),
    ({"connector_info": {"path": "/etc"}}, 101, "connector_info.path: '/etc' is not below"),
    ({"connector_info": {"path": "examples/../.."}}, 101, "is not below"),
    ({"connector_info": {"path": "examples", "passwd": "x"}}, 101, "connector_info.passwd: is not a key of PATH"),
    ({"connector_info": "examples"}, 101, "connector_info.path: null"),
    ({"connector_name": ".."}, 101, "connector_name: '..' is not"),
    ({"connector_name": None}, 101, "required argument are missing: connector_name"),
])
def test_what_is_no_connector(world: World, change: dict[str, Any], retcode: int, says: str) -> None:
    body = {"connector_name": "exports", "engine": "PATH", "connector_info": {"path": "examples"}, **change}
    code, message = refused(world, "table/connector/create", body)
    assert (code, says in message) == (retcode, True), message
    assert refused(world, "table/connector/query", {"connector_name": "exports"})[0] == 100


def test_a_password_that_is_refused_is_not_told_back(world: World) -> None:
    info = {"user": "someone", "passwd": "hidden", "host": "10.0.0.1"}
    for engine in ("MYSQL", "PATH"):
        body = {"connector_name": "exports", "engine": engine, "connector_info": info}
        assert "hidden" not in refused(world, "table/connector/create", body)[1]
    bound = {"engine": "MYSQL", "address": info, "namespace": "demo", "name": "new"}
    assert "hidden" not in refused(world, "table/bind", bound)[1]


# ---------------------------------------------------------------------- what binds through them


def test_a_table_is_bound_to_a_file_in_the_folder_of_a_connector_and_to_one_that_is_a_file(world: World) -> None:
    connector(world, "examples")
    connector(world, "examples/a.csv", "one")
    for name, address in {
        "new": {"connector_name": "exports", "path": "a.csv"}, "newer": {"connector_name": "one"},
    }.items():  # fmt: skip
        answer = world.ask("table/bind", {"engine": "PATH", "address": address, "namespace": "demo", "name": name})
        assert answer["retcode"] == 0, answer


def test_the_columns_that_are_to_come_are_told_to_the_job(world: World) -> None:
    columns = {"id_column": "x", "feature_column": "y, z"}
    body = {"engine": "PATH", "address": {"path": "examples/a.csv"}, "namespace": "demo", "name": "new"}
    answer = world.ask("table/bind", {**body, **columns})
    assert (answer["retcode"], answer["data"]["warnings"]) == (0, [])
    document = world.services.views.document(answer["jobId"])
    assert document is not None
    assert columns.items() <= document.runtime_conf["component_parameters"]["role"]["local"]["0"]["upload_0"].items()
    assert refused(world, "table/bind", {**body, "id_column": ["x"]})[1].startswith("id_column: ")
    message = refused(world, "table/bind", {**body, "name": "newer", "id_column": "x", "extend_sid": 1})[1]
    assert "id_column: 'x' excludes extend_sid" in message


@pytest.mark.parametrize(("address", "engine", "retcode", "says"), [
    ({"connector_name": "other"}, "PATH", 100, "there is no connector 'other'"),
    ({"connector_name": "exports"}, "FILE", 100, "'exports' is a connector of PATH, not of FILE"),
    ({"connector_name": "exports", "path": "../a.csv"}, "PATH", 101, "is not a path inside connector 'exports'"),
    ({"connector_name": "exports", "path": "/etc/passwd"}, "PATH", 101, "is not a path inside"),
    ({"connector_name": "exports", "path": 5}, "PATH", 101, "address.path: 5"),
    ({"connector_name": 5}, "PATH", 101, "connector_name: 5"),
    ({}, "PATH", 101, "address.path: null is not the path"),
])
def test_an_address_that_leads_nowhere(
    world: World, address: dict[str, Any], engine: str, retcode: int, says: str
) -> None:
    connector(world, "examples")
    body = {"engine": engine, "address": address, "namespace": "demo", "name": "new"}
    code, message = refused(world, "table/bind", body)
    assert (code, says in message) == (retcode, True), message


def test_a_link_in_the_folder_of_a_connector_leads_out_of_nothing(world: World) -> None:
    connector(world, "downloads")
    (world.home / "downloads" / "out").symlink_to("/etc")
    address = {"connector_name": "exports", "path": "out/b.csv"}
    code, message = refused(world, "data/writer", {**SOURCE, "storage_engine": "PATH", "address": address})
    assert (code, "is not below" in message) == (101, True)


# ---------------------------------------------------------------------- writers


def test_a_file_a_table_or_both(world: World) -> None:
    path = str(world.home / "downloads" / "b.csv")
    assert written(world, address={"path": path}, delimiter=";") == {
        "output_path": path, "destroy": False, "delimiter": ";",
    }  # fmt: skip
    connector(world, "downloads", engine="LOCALFS")
    named = {"storage_engine": "LOCALFS", "address": {"connector_name": "exports", "path": "b.csv"}}
    both = {"output_path": path, "output_namespace": "demo", "output_name": "new", "destroy": False}
    assert written(world, **named, output_name="new") == both
    assert written(world, output_namespace="copies") == {
        "output_namespace": "copies", "output_name": "site_a", "destroy": False,
    }  # fmt: skip
    assert written(world, output_name="site_b", drop=1)["destroy"] is True


@pytest.mark.parametrize(("body", "retcode", "says"), [
    ({}, 101, "address: is missing, and so is output_name"),
    ({"table_name": "nothing", "output_name": "new"}, 101, "there is no table 'nothing'"),
    ({"output_name": "site_b"}, 100, "The data table already exists; \"drop\": 1 in the conf"),
    ({"output_name": "site_a"}, 100, "is the source table itself"),
    ({"output_name": "site_a", "drop": 1}, 100, "is the source table itself"),
    ({"output_name": ".."}, 101, "output_name: '..'"),
    ({"storage_engine": "HIVE", "address": {"host": "10.0.0.1"}}, 101, "does not offer 'HIVE'"),
    ({"storage_engine": "MYSQL", "address": {"host": "10.0.0.1"}}, 101, "connect to addresses that a client sends"),
    ({"storage_engine": "MYSQL", "address": {"connector_name": "exports", "name": "t"}}, 101,
     "'exports' is not one of connectors in service_conf.yaml: none"),
    ({"storage_engine": "MYSQL", "address": {"connector_name": "exports", "name": "a.b"}}, 101, "address.name: 'a.b'"),
    ({"storage_engine": "PATH", "output_name": "new"}, 101, "address.path: null is not the path"),
    ({"storage_engine": "PATH", "address": {"path": "/etc/passwd"}}, 101, "address.path: '/etc/passwd' is not below"),
    ({"storage_engine": "PATH", "address": {"path": "downloads"}}, 101, "is a folder"),
])
def test_what_cannot_be_written(world: World, body: dict[str, Any], retcode: int, says: str) -> None:
    code, message = refused(world, "data/writer", {**SOURCE, **body})
    assert (code, says in message) == (retcode, True), message


def test_a_file_that_is_there_is_replaced_by_a_writer_with_drop_and_by_a_download(world: World) -> None:
    path = world.home / "downloads" / "there.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("of somebody\n")
    code, message = refused(world, "data/writer", {**SOURCE, "address": {"path": "downloads/there.csv"}})
    assert (code, message) == (
        100, "address.path: 'downloads/there.csv' exists already; \"drop\": 1 in the conf replaces it",
    )  # fmt: skip
    assert written(world, address={"path": "downloads/there.csv"}, drop=1)["destroy"] is True
    assert world.ask("data/download", {**SOURCE, "output_path": "downloads/there.csv"})["retcode"] == 0


@pytest.mark.parametrize("path", ["data/writer", "data/download"])
def test_a_table_that_is_disabled_is_not_read(world: World, path: str) -> None:
    world.ask("table/disable", SOURCE)
    body = {**SOURCE, "output_name": "new", "output_path": "downloads/b.csv"}
    code, message = refused(world, path, body)
    assert (code, "'site_a' in namespace 'demo' is disabled; flow table enable" in message) == (100, True), message
    world.ask("table/enable", SOURCE)
    assert world.ask(path, body)["retcode"] == 0


def test_a_submitted_fetch_needs_a_connector_of_the_operator(world: World) -> None:
    described = {"namespace": "demo", "name": "new", "connector": "warehouse", "source": "t"}
    conf = {
        "dsl_version": 2, "initiator": {"role": "local", "party_id": 0}, "role": {"local": [0]},
        "component_parameters": {"role": {"local": {"0": {"fetch_0": described}}}},
    }  # fmt: skip
    dsl = {"components": {"fetch_0": {"module": "Fetch"}}}
    answer = world.ask("job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    assert (answer["retcode"], "connector: 'warehouse' is not one of" in answer["retmsg"]) == (103, True), answer


def test_a_submitted_writer_is_held_to_the_folders_that_are_open(world: World) -> None:
    def conf(**target: Any) -> dict[str, Any]:
        described = {"namespace": "demo", "name": "site_a", **target}
        return {
            "dsl_version": 2, "initiator": {"role": "local", "party_id": 0}, "role": {"local": [0]},
            "component_parameters": {"role": {"local": {"0": {"writer_0": described}}}},
        }  # fmt: skip

    dsl = {"components": {"writer_0": {"module": "Writer"}}}
    for target, retcode in (
        ({"connector": "warehouse", "target": "t"}, 103), ({"output_path": "/etc/b.csv"}, 103),
        ({"output_path": "b.csv"}, 103), ({"output_name": "b"}, 103),
        ({"output_path": str(world.home / "downloads" / "b.csv")}, 0),
        ({"output_namespace": "copies", "output_name": "b"}, 0),
    ):
        answer = world.ask("job/submit", {"job_dsl": dsl, "job_runtime_conf": conf(**target)})
        assert answer["retcode"] == retcode, (target, answer)
