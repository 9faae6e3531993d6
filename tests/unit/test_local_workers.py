"""What the server learns of workers: of one that it stopped before it began, and what another one made."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from fate_flow.components.artifacts.on_disk import OUTPUTS
from fate_flow.components.providers.program_order import ORDER
from fate_flow.components.tables.table import Schema, TableWriter
from fate_flow.components.tables.table_uri import format_uri
from fate_flow.core.model.job import TaskKey, Worker
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.streams.addresses import NO_STREAMS
from fate_flow.engines.local.engine import LocalEngine
from fate_flow.engines.local.worker import CLAIMED, EXIT, LAUNCH, RESULT, ProcessId, WorkerSpec
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_session import Session
from fate_flow.relay.stream_sessions import StreamSessions
from fate_flow.server.adapters import SpoolExchange
from fate_flow.server.engines.local_workers import LocalWorkers
from fate_flow.services.context.ports import LaunchOrder
from fate_flow.settings.logs import LogLimits
from fate_flow.settings.settings import Settings

KEY = TaskKey("2026010112000000000001234", "a", 0, Party("guest", "9999"))


def a_worker(folder: Path) -> Worker:
    return Worker(folder.name, KEY, WorkerStatus.CREATED, "local", str(folder))


def test_the_scheduler_hears_of_a_worker_that_never_begins_and_of_no_other(tmp_path: Path) -> None:
    rung: list[Any] = []
    wakeup: Any = SimpleNamespace(send=lambda *_: None)
    workers = LocalWorkers(
        Settings("9999", tmp_path), LocalEngine(wakeup), "http://x", b"secret",
        lambda text: rung.append(json.loads(text))
    )
    never, running = (a_worker(tmp_path / "jobs" / name) for name in ("never", "running"))
    Path(running.handle).mkdir(parents=True)
    (Path(running.handle) / CLAIMED).write_text(json.dumps({"pid": os.getpid(), "started": 1}))
    for worker in (never, running):
        workers.stop(worker, 10.0)
    assert rung == [{"worker": "never", "event": "exited"}]
    assert workers.observe(never).state == "exited"


def local_workers(home: Path) -> LocalWorkers:
    wakeup: Any = SimpleNamespace(send=lambda *_: None)
    return LocalWorkers(Settings("9999", home), LocalEngine(wakeup), "http://x", b"secret", lambda _: None)


def test_a_worker_that_is_about_to_run_lives_in_the_folder_of_its_job(tmp_path: Path) -> None:
    workers = local_workers(tmp_path)
    folder = Path(workers.handle_for(KEY, "w"))
    folder.mkdir(parents=True)
    assert folder.is_relative_to(tmp_path / "jobs" / KEY.job_id)
    assert not workers.has_living_worker(KEY.job_id)
    (folder / LAUNCH).write_text("{}")
    assert not workers.has_living_worker(KEY.job_id), "nobody has claimed it"
    (folder / CLAIMED).write_text(json.dumps(asdict(ProcessId.of(os.getpid()))))
    assert workers.has_living_worker(KEY.job_id)


def test_what_a_worker_leaves_is_found_by_its_handle_until_it_is_forgotten(tmp_path: Path) -> None:
    workers = local_workers(tmp_path)
    folder = Path(workers.handle_for(KEY, "w"))
    worker = a_worker(folder)
    assert (workers.printed(worker), workers.output_file(worker, "model")) == (None, None)
    (folder / OUTPUTS).mkdir(parents=True)
    (folder / OUTPUTS / "model").write_text("m")
    (folder / LAUNCH).write_text(json.dumps({"stdout": "/logs/out", "stderr": "/logs/err", "argv": []}))
    assert workers.printed(worker) == {"stdout": Path("/logs/out"), "stderr": Path("/logs/err")}
    assert workers.output_file(worker, "model") == folder / OUTPUTS / "model"
    assert workers.output_file(worker, "other") is None
    workers.forget(worker)
    assert (workers.printed(worker), workers.output_file(worker, "model")) == (None, None)


@pytest.mark.parametrize("handle", ["", ".", "kept", "{home}", "{jobs}", "{jobs}/../kept", "{home}/jobs2/w", "/"])
def test_a_worker_whose_handle_is_no_folder_of_a_job_is_lost_and_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handle: str
) -> None:
    removed: list[Any] = []
    monkeypatch.setattr(shutil, "rmtree", lambda path, **_: removed.append(path))
    monkeypatch.chdir(tmp_path)
    workers = local_workers(tmp_path)
    (tmp_path / "kept" / OUTPUTS).mkdir(parents=True)
    given = handle.format(home=tmp_path, jobs=tmp_path / "jobs")
    worker = replace(a_worker(tmp_path), handle=given)
    seen = workers.observe(worker)
    assert seen.state == "lost"
    assert seen.message.endswith(f"is not a folder below {tmp_path}/jobs")
    workers.stop(worker, 1.0)
    workers.forget(worker)
    assert (removed, workers.printed(worker), workers.output_file(worker, "model")) == ([], None, None)
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]
    order = LaunchOrder(worker, "SecureSum", "ab" * 16, (("guest", "9999"),), {}, (), 1, 0, 1.0, "w")
    with pytest.raises(ValueError, match="is not a folder below"):
        workers.launch(order)


def test_a_session_of_the_spool_has_the_document_of_the_job(tmp_path: Path) -> None:
    spool, name = Spool(tmp_path, SpoolLimits(), lambda: None), "native:" + "1" * 64
    streams = StreamSessions(tmp_path / "streams", tmp_path / "streams.sock")
    SpoolExchange(spool, b"secret", streams).open(KEY, "ab" * 16, (("host", "10000"),), "w", name, NO_STREAMS)
    assert spool.document_of(Session(KEY.job_id, KEY.task_id, KEY.version, "ab" * 16, "guest", "9999")) == name


def test_a_job_is_purged_from_the_spool_although_its_streams_cannot_be_read(tmp_path: Path) -> None:
    spool = Spool(tmp_path, SpoolLimits(), lambda: None)
    exchange = SpoolExchange(spool, b"secret", StreamSessions(tmp_path / "no folder", tmp_path / "streams.sock"))
    exchange.open(KEY, "ab" * 16, (("host", "10000"),), "w", "", NO_STREAMS)
    (tmp_path / "no folder").write_text("")
    with pytest.raises(NotADirectoryError):
        exchange.purge(KEY.job_id)
    assert spool.jobs() == ()


def test_the_collector_reads_the_working_folders_of_the_ranks(tmp_path: Path) -> None:
    engine: Any = SimpleNamespace(launch=lambda *_: None)
    settings = replace(Settings("9999", tmp_path), log_dir=tmp_path / "logs")
    ranks = tuple(replace(a_worker(tmp_path / "jobs" / f"{rank}"), rank=rank) for rank in (0, 1))
    collector = a_worker(tmp_path / "jobs" / "c")
    order = LaunchOrder(
        collector, "Command", "ab" * 16, (("guest", "9999"),), {"command": ["true"]}, (), 1, 0, 1.0, "0",
        collects=ranks,
    )  # fmt: skip
    LocalWorkers(settings, engine, "http://x", b"secret", lambda _: None).launch(order)
    read = yaml.safe_load((tmp_path / "jobs" / "c" / "config.yaml").read_text(encoding="utf-8"))["input_artifacts"]
    assert [one["uri"] for one in read["work"]] == [f"file://{tmp_path}/jobs/{name}/work" for name in ("0", "1")]


def test_of_two_uploads_of_one_table_the_file_says_what_it_holds(tmp_path: Path) -> None:
    """Whichever of them is heard of last: the record is to be that of the file."""
    uri, other = format_uri(tmp_path / "data", "demo", "a"), "2026010112000000000009999"
    metadata = {"namespace": "demo", "name": "a", "count": 1, "schema": {"header": [], "sid": "id"}}
    made = {"data": {"data": [{"uri": uri, "type_name": "table", "metadata": metadata}]}}
    worker = a_worker(tmp_path / "jobs" / "w")
    Path(worker.handle).mkdir(parents=True)
    (Path(worker.handle) / EXIT).write_text(json.dumps({"exit_code": 0, "signal": None, "cause": "exited"}))
    (Path(worker.handle) / RESULT).write_text(json.dumps({"status": {"code": 0}, "io_meta": {"outputs": made}}))
    wakeup: Any = SimpleNamespace(send=lambda *_: None)
    workers = LocalWorkers(Settings("9999", tmp_path), LocalEngine(wakeup), "http://x", b"secret", lambda _: None)

    def found() -> tuple[int, Any, str]:
        [table] = workers.observe(worker).made.artifacts
        return table.metadata["count"], table.metadata["schema"]["header"], table.metadata["job_id"]

    assert found() == (1, [], KEY.job_id), "a file that is gone is what was said of it"
    for made_by, says in ((KEY.task_id, (1, [], KEY.job_id)), (f"{other}_upload_0", (2, ["x"], other))):
        with TableWriter(uri, Schema(("x",)), made_by=made_by, overwrite=True) as writer:
            writer.add([("a", "1"), ("b", "2")])
        assert found() == says


def test_what_a_result_file_names_lies_where_the_worker_may_leave_it_and_only_the_own_log_has_the_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, wakeup = tmp_path / "jobs" / "w", cast(Any, SimpleNamespace(send=lambda *_: None))
    workers = LocalWorkers(Settings("9999", tmp_path), LocalEngine(wakeup), "http://x", b"secret", lambda _: None)
    folder.mkdir(parents=True)
    (folder / EXIT).write_text(json.dumps({"exit_code": 0, "signal": None, "cause": "exited"}))
    (tmp_path / "secret.json").write_text(json.dumps([{"namespace": "n", "name": "m", "data": [[1, 2]]}]))
    (folder / "metric.json").symlink_to(tmp_path / "secret.json")
    data_dir = Settings("9999", tmp_path).data_dir

    def said(kind: str, uri: str) -> str:
        made = {"uri": uri, "type_name": kind, "metadata": {"namespace": "demo", "name": "a", "count": 1}}
        outputs = {"data": {"data": [made]}} if kind == "table" else {"metric": {"metric": [made]}}
        (folder / RESULT).write_text(json.dumps({"status": {"code": 0}, "io_meta": {"outputs": outputs}}))
        seen = workers.observe(a_worker(folder))
        assert seen.made.artifacts == ()
        assert seen.message == "result.json describes the outputs wrongly; that party's log has the details"
        return caplog.records[-1].getMessage()

    assert "does not lie in" in said("table", format_uri(tmp_path / "elsewhere", "demo", "a"))
    assert "is not the table demo.a" in said("table", format_uri(data_dir, "demo", "b"))
    for uri in (f"file://{tmp_path}/secret.json", f"file://{folder}/../secret.json", f"file://{folder}/metric.json"):
        assert "is not in the folder of the worker" in said("json_metric", uri)


def test_a_worker_that_could_not_write_its_result_file_says_so(tmp_path: Path) -> None:
    folder, wakeup = tmp_path / "jobs" / "w", cast(Any, SimpleNamespace(send=lambda *_: None))
    folder.mkdir(parents=True)
    (folder / EXIT).write_text(json.dumps({"exit_code": 74, "signal": None, "cause": "exited"}))
    workers = LocalWorkers(Settings("9999", tmp_path), LocalEngine(wakeup), "http://x", b"secret", lambda _: None)
    seen = workers.observe(a_worker(folder))
    text = "the worker could not write its result file: check whether the disk of this party is full"
    assert (seen.succeeded, seen.message) == (False, text)


def test_a_worker_that_was_killed_for_its_memory_says_so_whatever_it_wrote_before(tmp_path: Path) -> None:
    folder, wakeup = tmp_path / "jobs" / "w", cast(Any, SimpleNamespace(send=lambda *_: None))
    folder.mkdir(parents=True)
    text = "used more than its 512 MB (task_memory)"
    end = {"exit_code": None, "signal": 9, "cause": "out_of_memory", "message": text}
    (folder / EXIT).write_text(json.dumps(end))
    (folder / RESULT).write_text(json.dumps({"status": {"code": 1, "exceptions": "half a result"}}))
    workers = LocalWorkers(Settings("9999", tmp_path), LocalEngine(wakeup), "http://x", b"secret", lambda _: None)
    seen = workers.observe(a_worker(folder))
    assert (seen.cause, seen.succeeded, seen.message) == ("out_of_memory", False, text)


@pytest.mark.parametrize("make", [
    os.mkfifo, Path.mkdir, lambda path: path.write_text("[" * 100_000), lambda path: path.write_bytes(b"\xff"),
    lambda path: path.symlink_to("/dev/zero"),
])  # fmt: skip
def test_whatever_lies_where_the_result_file_should_be_the_worker_is_seen_to_have_failed(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    """And nobody waits for it: a program can write into the folder of its worker."""
    folder, wakeup = tmp_path / "jobs" / "w", cast(Any, SimpleNamespace(send=lambda *_: None))
    folder.mkdir(parents=True)
    (folder / EXIT).write_text(json.dumps({"exit_code": 0, "signal": None, "cause": "exited"}))
    make(folder / RESULT)
    workers = LocalWorkers(Settings("9999", tmp_path), LocalEngine(wakeup), "http://x", b"secret", lambda _: None)
    seen = workers.observe(a_worker(folder))
    assert (seen.state, seen.succeeded, seen.made.artifacts) == ("exited", False, ())


def test_an_exit_code_that_a_shell_makes_of_a_signal_is_told_with_the_signal(tmp_path: Path) -> None:
    """Of a program `sh -c ...` whose child was killed: 137 alone says nothing to most people."""
    folder, wakeup = tmp_path / "jobs" / "w", cast(Any, SimpleNamespace(send=lambda *_: None))
    folder.mkdir(parents=True)
    (folder / ORDER).write_text("{}")
    (folder / LAUNCH).write_text(json.dumps({"provider": "command"}))
    (folder / EXIT).write_text(json.dumps({"exit_code": 137, "signal": None, "cause": "exited"}))
    workers = LocalWorkers(Settings("9999", tmp_path), LocalEngine(wakeup), "http://x", b"secret", lambda _: None)
    seen = workers.observe(a_worker(folder))
    assert (seen.succeeded, seen.exit_code) == (False, 137)
    assert seen.message.startswith("the program ended with exit code 137 (128 + 9: SIGKILL")


def test_what_a_built_in_component_prints_has_the_bound_of_a_log_file(tmp_path: Path) -> None:
    launched: list[WorkerSpec] = []
    engine: Any = SimpleNamespace(launch=lambda spec, _: launched.append(spec))
    settings = replace(Settings("9999", tmp_path), log_dir=tmp_path, log_limits=LogLimits(file_max_bytes=5_000))
    worker = a_worker(tmp_path / "jobs" / "w")
    order = LaunchOrder(worker, "SecureSum", "ab" * 16, (("guest", "9999"),), {}, (), 1, 0, 1.0, "w")
    LocalWorkers(settings, engine, "http://x", b"secret", lambda _: None).launch(order)
    [spec] = launched
    assert (spec.provider, spec.way) == ("builtin", "fork")
    assert (spec.output_max_bytes, spec.output_setting) == (5_000, "log.file_max_bytes")


@pytest.mark.parametrize("module", ["SecureSum", "Command"])
def test_a_worker_finds_the_trace_of_its_job_in_its_environment(tmp_path: Path, module: str) -> None:
    launched: list[WorkerSpec] = []
    engine: Any = SimpleNamespace(launch=lambda spec, _: launched.append(spec))
    settings = replace(Settings("9999", tmp_path), log_dir=tmp_path / "logs")
    worker = replace(a_worker(tmp_path / "jobs" / "w"), worker_id="0123456789abcdef" * 2)
    order = LaunchOrder(
        worker, module, "ab" * 16, (("guest", "9999"),), {"command": ["true"]}, (), 1, 0, 1.0, "w",
        trace="4b" * 16,
    )  # fmt: skip
    LocalWorkers(settings, engine, "http://x", b"secret", lambda _: None).launch(order)
    assert launched[0].env["TRACEPARENT"] == f"00-{'4b' * 16}-0123456789abcdef-01"
