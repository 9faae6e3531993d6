"""A server with something of everything: jobs in each status, their tasks, workers, files, tables, outputs and logs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fate_flow.components.artifacts.packed_model import pack
from fate_flow.components.tables.table import Schema, TableWriter, table_exists
from fate_flow.components.tables.table_uri import format_uri
from fate_flow.core.access.permission import Kind, Thing
from fate_flow.core.access.site import SiteKey
from fate_flow.core.model.artifact import JSON_MODEL
from fate_flow.core.model.job import Answer, Hold, TaskKey, Worker
from fate_flow.core.model.spec import ModelReference
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.core.planning.replicas import COLLECTOR
from fate_flow.peers.site_key import read_public_key
from fate_flow.store.values import Connector, Deployment, Metric, ModelTag, StoredModel, TableMeta
from tests.kit.api.client_world import GUEST, HOST, LOCAL, START, World
from tests.kit.api.models import put_file

UPLOAD_DSL = {"components": {"upload_0": {"module": "Upload"}}}
JOB_FILE = """version: 1
initiator: guest 9999
parties: {guest: [9999], host: [10000]}
tasks: {toy: {component: SecureAddExample}}
"""
TRAIN_DSL = {"components": {"reader_0": {"module": "Reader", "output": {"data": ["raw"]}}}}
_PEM = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
"""
KEY = SiteKey("10000", read_public_key(_PEM).key_id, _PEM)
WAITING, RUNNING, DONE, CANCELED, ASKED, HELD = (f"2026010112000000000{number:02d}" for number in range(90, 96))


DEPLOYED = "20260101120000000000555"


def known(world: World) -> Iterator[dict[str, Any]]:
    """What requests may name: keys that belong together."""
    example = str(world.home / "examples" / "a.csv")
    rest = {
        "role": "guest", "party_id": "9999", "component_name": "toy_0", "log_type": "componentInfo",
        "metric_namespace": "train", "metric_name": "loss", "output_name": "report",
        "namespace": "demo", "table_name": "site_a", "output_path": "downloads/a.csv",
        "name": "site_b", "engine": "PATH", "address": {"path": example}, "file": example, "drop": 1, "head": 1,
        "partition": 2,
        "message": "maintenance", "author": "operator", "reason": "not today", "priority": 3,
        "component": "reader", "dataset": {"namespace": "demo", "name": "site_a"},
        "src_party_id": "9999", "src_role": "guest", "privilege_component": "Reader", "privilege_dataset": [],
        "notes": "looks good", "job_parameters": {"common": {"task_cores": 1}},
        "component_parameters": {"common": {"toy_0": {"data_num": 20}}},
        "connector_name": "exports", "connector_info": {"path": "examples"}, "storage_engine": "PATH",
        "output_namespace": "copies", "delimiter": ";",
        "train_dsl": TRAIN_DSL, "cpn_str": ["reader_0"], "version": "2",
        "key": KEY.pem, "replaces": KEY.key_id, "key_name": "public",
        "model_id": DONE, "model_version": DEPLOYED, "task_name": "toy_0", "output_key": "m", "tag_name": "good",
        "new_tag_name": "best", "cpn_list": ["toy_0"],
        "engine_name": "STANDALONE", "module": "FATE", "provider_name": "fate_flow",
    }  # fmt: skip
    for job_id in (WAITING, RUNNING, DONE, CANCELED, ASKED, HELD):
        yield {"job_id": job_id, **rest}
    yield {"job_id": DONE}
    yield {"job_id": DONE, **rest, "name": "a job", "job_dsl": UPLOAD_DSL, "job_runtime_conf": upload_conf(example)}
    yield {"job_id": DONE, **rest, "filename": "a.json", "log_type": "jobSchedule", "limit": 1, "bytes": 5}
    yield {"job_id": DONE, **rest, "tag_name": "new"}
    yield {"job_id": DONE, **rest, "address": {"connector_name": "exports", "path": "downloads/b.csv"}}
    yield {"job_id": DONE, **rest, "storage_engine": None, "address": None}
    yield {"job_id": DONE, **rest, "address": {"path": "downloads/b.csv"}}
    yield {"job_id": DONE, **rest, "job_file": JOB_FILE, "party_id": 10000, "role": "host"}


def upload_conf(file: str) -> dict[str, Any]:
    """Of a local job that this server accepts at once."""
    described = {"file": file, "head": 1, "partition": 2, "namespace": "demo", "name": "site_c", "destroy": True}
    return {
        "dsl_version": 2,
        "initiator": {"role": "local", "party_id": 0},
        "role": {"local": [0]},
        "job_parameters": {"common": {"federated_mode": "SINGLE"}},
        "component_parameters": {"role": {"local": {"0": {"upload_0": described}}}},
    }


class Filled:
    """The database of a server as it was before the first request; it is filled once and then copied back."""

    def __init__(self, world: World) -> None:
        self._world = world
        _fill(world)
        # Its threads have connections of their own, and any of them may refill.
        self._copy = sqlite3.connect(":memory:", check_same_thread=False)
        world.store.database.connection().backup(self._copy)

    def refill(self) -> None:
        """All as it was, but for files that requests have added."""
        self._world.peers.answers = dict(_ANSWERS)
        for name in _TABLES:
            _table(self._world, name)
        _model(self._world)
        self._copy.backup(self._world.store.database.connection())

    def close(self) -> None:
        self._copy.close()


def _fill(world: World) -> None:
    table, disabled = (_table(world, name) for name in _TABLES)
    world.add_job(WAITING)
    world.add_seats(WAITING)
    world.add_job(RUNNING, JobStatus.RUNNING, f_start_time=START, f_cores=4, f_resource_in_use=True, f_claim="c1")
    world.add_job(DONE, JobStatus.SUCCESS, f_start_time=START, f_elapsed=10)
    world.add_job(CANCELED, JobStatus.CANCELED, f_end_time=START, f_reason="stopped_by_user")
    world.add_job(ASKED, party=GUEST, initiator=HOST, f_approval="pending")
    world.add_job(HELD, f_held=True, f_hold_by="operator", f_hold_message="wait")
    world.add_job(party=LOCAL, initiator=LOCAL)
    for job_id, status in _TASKS.items():
        begun = {} if status == "waiting" else {"f_start_time": START}
        world.add_task(job_id, f_status=status, f_party_status=status, **begun, **_ENDS.get(status, {}))
    world.add_output(DONE, table)
    key = TaskKey(DONE, "toy_0", 0, GUEST)
    with world.store.transaction() as tx:
        tx.save_table(table, START)
        tx.save_table(replace(disabled, is_disabled=True), START)
        tx.save_connector(Connector("exports", "PATH", {"path": "examples"}), START)
        for party_id in ("9999", "10000"):
            tx.grant(party_id, [Thing(Kind.COMPONENT, "Reader"), Thing(Kind.DATASET, "site_a", "demo")])
        tx.add_site_key(KEY, START)
        tx.save_metrics([Metric(key, "train", "loss", ((0, 1.5),), {"name": "loss"})], START)
        tx.save_metrics([Metric(key, "upload", "data_access", (), _UPLOADED)], START)
        tx.save_model(_model(world))
        deployed = {"dsl": TRAIN_DSL, "component_parameters": {}, "role": {}}
        tx.save_deployment(Deployment(DEPLOYED, DONE, 0, deployed, START))
        for name in ("good", "old"):
            tx.save_model_tag(ModelTag(name, "of models", START))
        tx.tag_model("good", DONE)
        tx.save_summary(key, {"sum": 2000, "files": {"report": {"size": 2}}}, START)
        tx.hold_intake(Hold("maintenance", "operator", START, 0))
        for number, (job_id, slot) in enumerate(((RUNNING, 0), (DONE, 0), (DONE, COLLECTOR))):
            tx.add_worker(_worker(world, f"{number:032x}", job_id, slot))


_TABLES = ("site_a", "site_d")
_MODEL = StoredModel(
    ModelReference(DONE, 0, "toy_0", "m"), GUEST, JSON_MODEL, "", 0, DONE, "9999", 0, "Fit", {"guest": [9999]},
    {"rows": 2}, START,
)  # fmt: skip
_TASKS = {WAITING: "waiting", HELD: "waiting", CANCELED: "canceled", RUNNING: "running", DONE: "success"}
_ENDS = {
    "success": {"f_end_time": START, "f_reason": "done"},
    "canceled": {"f_end_time": START, "f_reason": "stopped_by_user"},
}  # fmt: skip
_UPLOADED = {"table_name": "site_a", "namespace": "demo", "partition": 2, "upload_count": 2}
_PRINTED = Answer(data={
    "job_id": DONE, "component_name": "toy_0", "role": "host", "party_id": "10000", "task_version": 0, "worker": 0,
    "rank": 0, "attempt": 0, "status": "exited", "reason": "done", "message": "", "exit_status": "exit code 0",
    "caused_by": "host 10000", "stream": "stdout", "bytes": 3, "text": "hi\n",
    "attempts": [{
        "attempt": 0, "status": "exited", "reason": "done", "message": "", "exit_status": "exit code 0",
        "is_kept": True,
    }],
})  # fmt: skip
_OUTPUT_TABLES = Answer(data=[{"table_name": "t", "table_namespace": "n", "data_name": "made"}])
_ANSWERS = {"/task/log": _PRINTED, "/output/table": _OUTPUT_TABLES}


def _model(world: World) -> StoredModel:
    """The model of a job that has ended, with its file."""
    made, packed = world.home / "made" / "m", world.home / "made" / "m.tar"
    made.parent.mkdir(exist_ok=True)
    made.write_text('{"w": 1}', encoding="utf-8")
    digest = pack(made, packed, {})
    model = replace(_MODEL, sha256=digest.sha256, size=digest.size)
    put_file(world.services.context.models, model, packed)
    return model


def add_files(world: World) -> None:
    """Logs, what workers printed and left, and a CSV file."""
    for folder in ("examples", "downloads", "uploads"):
        (world.home / folder).mkdir()
    (world.home / "examples" / "a.csv").write_text("id,x\n1,2\n", encoding="utf-8")
    for job_id in (RUNNING, DONE):
        world.add_log(job_id, "guest/9999/toy_0/INFO.log", "one line\nanother of 10.0.0.1\n")
        world.add_log(job_id, "fate_flow_schedule.log", "scheduled\n")
        folder = _folder(world, job_id)
        (folder / "outputs").mkdir(parents=True)
        (folder / "outputs" / "report").write_text("{}", encoding="utf-8")
        printed = {stream: str(folder / stream) for stream in ("stdout", "stderr")}
        (folder / "launch.json").write_text(json.dumps(printed), encoding="utf-8")
        (folder / "stdout").write_text("the sum is 2000\n", encoding="utf-8")


def _folder(world: World, job_id: str) -> Path:
    return world.home / "jobs" / job_id


def _worker(world: World, worker_id: str, job_id: str, slot: int) -> Worker:
    key = TaskKey(job_id, "toy_0", 0, GUEST)
    return Worker(worker_id, key, WorkerStatus.RUNNING, "local", str(_folder(world, job_id)), slot=slot)


def _table(world: World, name: str) -> TableMeta:
    """With its file, which a request may have removed."""
    uri = format_uri(world.services.settings.data_dir, "demo", name)
    schema = Schema(("x", "y"), "id")
    if not table_exists(uri):
        with TableWriter(uri, schema) as writer:
            writer.add([("1", "2", "3"), ("2", "\u00e4", "")])
    return TableMeta("demo", name, uri, 2, schema.as_json(), job_id=DONE)
