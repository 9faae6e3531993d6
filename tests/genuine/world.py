"""Two parties with something to look at, and the states in which a command finds them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.kit.servers.party_servers import (
    CORES,
    GUEST,
    HOST,
    OVER,
    READER,
    Cluster,
    PartyServer,
    csv_text,
    job_of,
    summing,
    table_named,
    toy,
)
from tests.kit.site_keys import private_pem, write_private_key
from tests.kit.waiting import eventually

Facts = Mapping[str, str]
Given = Callable[["World"], AbstractContextManager[Facts]]

ROWS = {f"id{number}": [number, number * 2] for number in range(20)}
NUMBERS = csv_text(["id", "x", "y"], ROWS)
ROLES = {"guest": [GUEST], "host": [HOST]}
UNKNOWN = "202601011200000000000"

TRAIN_DSL = {"components": {
    "reader_0": {"module": "Reader", "output": {"data": ["raw"]}},
    "lr_0": {
        "module": "HeteroLR", "input": {"data": {"train_data": ["reader_0.raw"]}},
        "output": {"data": ["scores"], "model": ["lr"]},
    },
    "report_0": {"module": "Evaluation", "input": {"data": {"data": ["lr_0.scores"]}}},
}}  # fmt: skip
"""Modules that no party here has."""
FIT_DSL = {
    "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
    "fit_0": {
        "module": "Fit", "input": {"data": {"train_data": ["reader_0.data"]}},
        "output": {"data": ["data"], "model": ["model"]},
    },
}  # fmt: skip
OF_NUMBERS = {"reader_0": {"table": {"namespace": "it", "name": "numbers"}}}
TO_TRAIN = {"task_conf": {"fit_0": {"stage": "train"}}}
WRITTEN = {"namespace": "it", "table_name": "numbers"}
CONNECTOR = {"connector_name": "downloads", "engine": "PATH", "connector_info": {"path": "downloads"}}
MYSQL = {"user": "u", "passwd": "p", "host": "127.0.0.1", "port": 3306, "db": "d", "name": "t"}


@dataclass(frozen=True)
class World:
    """The parties, and a folder with the files that commands name."""

    parties: Cluster
    files: Path
    facts: Facts

    @property
    def guest(self) -> PartyServer:
        return self.parties.guest


def the_world(parties: Cluster, files: Path) -> World:
    """A table at both parties, a job that went well and one that did not."""
    for party in (parties.guest, parties.host):
        party.has_table("numbers", NUMBERS)
        party.has_lost_table("lost")
    done = parties.run(adding_up())
    failed = parties.submit(failing())
    parties.wait(failed, "failed")
    local = parties.guest.rows("SELECT f_job_id FROM t_job WHERE f_role = 'local' ORDER BY f_create_time")
    facts = {
        "job": done, "failed": failed, "unknown": UNKNOWN, "guest": GUEST, "host": HOST, "files": str(files),
        "uploaded": str(local[0]["f_job_id"]), "downloads": str(parties.guest.home / "downloads"),
        "conf": str(parties.guest.home / "conf" / "service_conf.yaml"),
        "here": str(parties.guest.home / "examples" / "numbers.csv"),
    }  # fmt: skip
    _write_files(files, parties)
    write_private_key(parties.guest.home / "keys" / "site.pem", 3)
    return World(parties, files, facts)


def adding_up() -> dict[str, Any]:
    """A reader, and the sum of a column over the parties."""
    return job_of(
        {"reader_0": READER, "sum_0": summing("reader_0.raw")}, ROLES,
        common={"reader_0": table_named("numbers"), "sum_0": {"column": "y"}},
    )


def failing() -> dict[str, Any]:
    return job_of({"reader_0": READER}, ROLES, common={"reader_0": table_named("lost")})


# ---------------------------------------------------------------------- files that commands name


def _write_files(folder: Path, parties: Cluster) -> None:
    document = toy()
    conf, dsl = document["job_runtime_conf"], document["job_dsl"]
    at_host = {**conf, "initiator": {"role": "host", "party_id": int(HOST)}}
    here = parties.guest.home / "examples" / "numbers.csv"
    here.parent.mkdir(exist_ok=True)
    here.write_text(NUMBERS, encoding="utf-8")
    (folder / "names.txt").write_text("reader_0,\nlr_0\n", encoding="utf-8")
    (folder / "numbers.csv").write_text(NUMBERS, encoding="utf-8")
    upload = {
        "file": str(folder / "numbers.csv"), "head": 1, "partition": 2, "id_delimiter": ",", "namespace": "it",
        "table_name": "fresh",
    }
    there = {**upload, "use_local_data": 0, "file": str(here)}
    download = {"namespace": "it", "table_name": "numbers", "output_path": str(parties.guest.home / "downloads/n.csv")}
    bind = {
        "engine": "PATH", "address": {"path": str(here)}, "namespace": "it", "name": "fresh", "head": True,
        "partitions": 2, "id_delimiter": ",",
    }
    key, other = (write_private_key(folder / f"{number}.pem", number).public for number in (1, 2))
    privilege = {"party_id": HOST, "component": "reader,secure_sum", "dataset": {"namespace": "it", "name": "numbers"}}
    for name, content in {
        "conf": conf,
        "dsl": dsl,
        "conf_of_1": {**conf, "dsl_version": 1},
        "conf_at_host": at_host,
        "conf_unknown": {**conf, "magic": 1},
        "train_dsl": TRAIN_DSL,
        "dsl_unknown": {"components": {"toy_0": {"module": "Magic"}}},
        "upload": upload,
        "upload_numbers": {**upload, "table_name": "numbers"},
        "upload_nameless": {key: value for key, value in upload.items() if key != "table_name"},
        "upload_percent": {**upload, "namespace": "100% it", "id_delimiter": "%"},
        "upload_nothing": {**upload, "file": str(folder / "gone.csv")},
        "upload_here": there,
        "upload_here_gone": {**there, "file": str(here.with_name("gone.csv"))},
        "upload_here_secret": {**there, "file": "/etc/passwd"},
        "download": download,
        "download_unknown": {**download, "table_name": "not there"},
        "download_outside": {**download, "output_path": "/etc/n.csv"},
        "writer": {**WRITTEN, "output_namespace": "it", "output_name": "copy"},
        "writer_connector": {
            **WRITTEN, "storage_engine": "PATH", "address": {"connector_name": "downloads", "path": "copy.csv"},
            "output_name": "copy",
        },
        "writer_mysql": {**WRITTEN, "storage_engine": "MYSQL", "address": MYSQL},
        "writer_outside": {**WRITTEN, "storage_engine": "PATH", "address": {"path": "/etc/copy.csv"}},
        "writer_nowhere": WRITTEN,
        "writer_unknown": {**WRITTEN, "table_name": "nothing", "output_name": "copy"},
        "connector": CONNECTOR,
        "connector_mysql": {**CONNECTOR, "engine": "MYSQL", "connector_info": MYSQL},
        "connector_outside": {**CONNECTOR, "connector_info": {"path": "/etc"}},
        "bind": bind,
        "bind_numbers": {**bind, "name": "numbers"},
        "bind_mysql": {**bind, "engine": "MYSQL", "address": {"user": "u", "db": "d", "name": "t"}},
        "bind_hive": {**bind, "engine": "HIVE", "address": {"host": "127.0.0.1", "name": "t"}},
        "bind_nameless": {key: value for key, value in bind.items() if key != "name"},
        "bind_secret": {**bind, "address": {"path": "/etc/passwd"}},
        "update": {
            "job_parameters": {"common": {"task_cores": 1, "timeout": 600}},
            "component_parameters": {"common": {"reader_0": table_named("numbers")}},
        },
        "update_unknown": {"component_parameters": {"common": {"magic_0": {"x": 1}}}},
        "update_fixed": {"job_parameters": {"common": {"job_type": "predict"}}},
        "model": {
            "model_id": "m", "model_version": "1", "role": "guest", "party_id": GUEST, "output_path": str(folder),
            "file": str(folder / "numbers.csv"),
        },
        "homo": {"model_id": "m", "model_version": "1", "component_name": "a_0", "deployment_type": "kfserving"},
        "provider": {"name": "p", "version": "1", "path": str(folder)},
        "key": {"party_id": HOST, "key": key.pem},
        "key_other": {"party_id": int(HOST), "key": other.pem},
        "key_replacing": {"party_id": HOST, "key": other.pem, "replaces": key.key_id},
        "key_bad": {"party_id": HOST, "key": "k"},
        "key_private": {"party_id": HOST, "key": private_pem(1)},
        "key_own": {"party_id": GUEST, "key": other.pem},
        "key_nameless": {"key": other.pem},
        "privilege": privilege,
        "privilege_unknown": {"party_id": HOST, "component": "magic"},
        "privilege_of_fate": {"party_id": HOST, "component": "reader,hetero_lr,dataio"},
        "privilege_nothing": {"party_id": HOST},
        "privilege_of_nobody": {**privilege, "party_id": "nobody"},
    }.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


# ---------------------------------------------------------------------- states


@contextmanager
def a_job_that_runs(world: World) -> Iterator[Facts]:
    with world.parties.held(HOST):
        job_id = world.parties.submit(toy())
        world.parties.wait(job_id, "running")
        yield {"job": job_id}
    _at_rest(world)


@contextmanager
def a_job_that_has_all_cores(world: World) -> Iterator[Facts]:
    with world.parties.held(HOST):
        job_id = world.parties.submit(toy(task_cores=CORES))
        world.guest.wait(job_id, "running")
        yield {"job": job_id}
    _at_rest(world)


@contextmanager
def a_job_that_waits(world: World) -> Iterator[Facts]:
    """For the cores of one that runs."""
    with a_job_that_has_all_cores(world):
        job_id = world.parties.submit(toy())
        world.guest.wait(job_id, "waiting")
        yield {"job": job_id}


@contextmanager
def a_job_that_failed(world: World) -> Iterator[Facts]:
    """It can be rerun, and then fails again."""
    job_id = world.parties.submit(failing())
    world.parties.wait(job_id, "failed")
    yield {"job": job_id}
    again = "SELECT f_run FROM t_job WHERE f_job_id = ? AND f_status = 'failed' AND f_run = 1"
    eventually(lambda: world.guest.rows(again, job_id), "the rerun to end")
    _at_rest(world)


@contextmanager
def a_job_that_is_over(world: World) -> Iterator[Facts]:
    """Since the file of a table is not there."""
    job_id = world.parties.submit(failing())
    world.parties.wait(job_id, "failed")
    yield {"job": job_id}


@contextmanager
def no_table_that_is_disabled(world: World) -> Iterator[Facts]:
    world.guest.post("table/disable/delete", {})
    yield {}


@contextmanager
def a_job_with_metrics(world: World) -> Iterator[Facts]:
    yield {"job": world.parties.run(toy())}


@contextmanager
def a_trained_model(world: World) -> Iterator[Facts]:
    """At both parties, which need the tests' provider for it."""
    job_id = world.parties.run(job_of(FIT_DSL, ROLES, common=OF_NUMBERS, parameters=TO_TRAIN))
    yield {"job": job_id}
    for party in (world.guest, world.parties.host):
        party.post("model/delete", {"model_id": job_id})


@contextmanager
def an_exported_model(world: World) -> Iterator[Facts]:
    """In a file of the client's machine, and not in the store any more."""
    with a_trained_model(world) as facts:
        exported = world.guest.raw("GET", "model/export", json={"model_id": facts["job"]})
        file = world.files / f"{facts['job']}.zip"
        file.write_bytes(exported.content)
        world.guest.ask("model/delete", {"model_id": facts["job"]})
        yield {**facts, "file": str(file)}
        file.unlink()


@contextmanager
def nothing_that_is_granted(world: World) -> Iterator[Facts]:
    world.guest.ask("permission/delete", {"party_id": HOST, "component": "*", "dataset": "*"})
    yield {}


@contextmanager
def something_that_is_granted(world: World) -> Iterator[Facts]:
    world.guest.ask("permission/grant", {"party_id": HOST, "component": "Reader,SecureSum", "dataset": "*"})
    numbers = {"namespace": "it", "name": "numbers"}
    world.guest.ask("permission/grant", {"party_id": HOST, "dataset": numbers})
    yield {}
    world.guest.ask("permission/delete", {"party_id": HOST, "component": "*", "dataset": "*"})


@contextmanager
def no_key_of_the_host(world: World) -> Iterator[Facts]:
    world.guest.post("key/public/delete", {"party_id": HOST})
    yield {}
    world.guest.post("key/public/delete", {"party_id": HOST})


@contextmanager
def a_key_of_the_host(world: World) -> Iterator[Facts]:
    with no_key_of_the_host(world):
        world.guest.ask("key/public/save", json.loads((world.files / "key.json").read_text(encoding="utf-8")))
        yield {}


@contextmanager
def a_table_to_spare(world: World) -> Iterator[Facts]:
    world.guest.has_table("spare", NUMBERS)
    yield {}


@contextmanager
def a_table_that_is_disabled(world: World) -> Iterator[Facts]:
    with a_table_to_spare(world):
        world.guest.ask("table/disable", {"namespace": "it", "table_name": "spare"})
        yield {}


@contextmanager
def a_configuration_that_changed(world: World) -> Iterator[Facts]:
    with _overlaid(world, {"job_default_config": {"task_cores": 3}}):
        yield {}


@contextmanager
def a_configuration_that_is_wrong(world: World) -> Iterator[Facts]:
    with _overlaid(world, {"nonsense": 1}):
        yield {}


@contextmanager
def _overlaid(world: World, changes: Mapping[str, Any]) -> Iterator[None]:
    """The guest's configuration has these changes meanwhile."""
    path = world.guest.home / "conf" / "local.service_conf.yaml"
    before = path.read_text(encoding="utf-8") if path.exists() else None
    document = yaml.safe_load(before or "") or {}
    path.write_text(yaml.safe_dump({**document, **changes}), encoding="utf-8")
    yield
    if before is None:
        path.unlink()
    else:
        path.write_text(before, encoding="utf-8")


@contextmanager
def no_table_of_that_name(world: World) -> Iterator[Facts]:
    """What the command makes is there when the jobs are over."""
    fresh = {"namespace": "it", "table_name": "fresh"}
    world.guest.post("table/delete", fresh)
    yield {}
    _at_rest(world)
    assert world.guest.ask("table/table_info", fresh)["count"] == len(ROWS)


@contextmanager
def no_copy_of_that_name(world: World) -> Iterator[Facts]:
    """When the jobs are over there is one."""
    copy = {"namespace": "it", "table_name": "copy"}
    world.guest.post("table/delete", copy)
    yield {}
    _at_rest(world)
    info = world.guest.ask("table/table_info", copy)
    assert (info["count"], info["origin"]) == (len(ROWS), "writer")


@contextmanager
def a_connector(world: World) -> Iterator[Facts]:
    world.guest.ask("table/connector/create", CONNECTOR)
    yield {}


@contextmanager
def no_copy_through_a_connector(world: World) -> Iterator[Facts]:
    """Neither as a table nor as a file; afterwards there are both."""
    target = world.guest.home / "downloads" / "copy.csv"
    target.unlink(missing_ok=True)
    with a_connector(world), no_copy_of_that_name(world):
        yield {}
    assert target.read_text(encoding="utf-8") == NUMBERS


@contextmanager
def no_file_of_that_name(world: World) -> Iterator[Facts]:
    target = world.guest.home / "downloads" / "n.csv"
    target.unlink(missing_ok=True)
    yield {}
    _at_rest(world)
    assert target.read_text(encoding="utf-8") == NUMBERS


@contextmanager
def afterwards_at_rest(world: World) -> Iterator[Facts]:
    yield {}
    _at_rest(world)


def _at_rest(world: World) -> None:
    """Every job is over at both parties."""
    def going_on() -> list[str]:
        marks = ", ".join("?" * len(OVER))
        statement = f"SELECT f_job_id FROM t_job WHERE f_status NOT IN ({marks})"
        return [str(row) for party in world.parties.parties.values() for row in party.rows(statement, *OVER)]

    eventually(lambda: not going_on(), lambda: f"the end of {going_on()}")
