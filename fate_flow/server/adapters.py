"""The implementations of `services/context/ports.py`: workers as local processes, the spool, the folders of a job."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fate_flow.components.base.errors import ComponentError
from fate_flow.components.providers.description import ComponentInfo
from fate_flow.components.providers.program_order import OUTPUTS, WORK
from fate_flow.components.providers.provider import Launch, Start
from fate_flow.components.providers.table import PROVIDERS, ProviderTable
from fate_flow.components.tables.table import Table, drop
from fate_flow.components.tables.table_uri import BadTableUri, format_uri, table_in
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_job_id, check_table_piece, shown
from fate_flow.core.model.job import JobKey, TaskKey, Worker, WorkerPlace
from fate_flow.core.model.program import WORK_FOLDERS
from fate_flow.core.text.exit_codes import NO_RESULT, describe_exit_code
from fate_flow.core.text.phrases import sanitized
from fate_flow.engines.local.engine import LocalEngine, living_workers, printed_in
from fate_flow.engines.local.worker import LAUNCH, Exit, WorkerSpec, read_json, write_atomically
from fate_flow.jobspec.text.yaml_text import yaml_text
from fate_flow.records.operator_log.worker_config import worker_log_folders, worker_logging_config
from fate_flow.relay.spool import Spool
from fate_flow.relay.spool_session import Session
from fate_flow.server.log_sizes import JobLogSizes
from fate_flow.services.context.ports import LaunchOrder, Observation, TaskOutputs
from fate_flow.settings.settings import PART, Settings
from fate_flow.store.values import Document, TableMeta

LOG = logging.getLogger(__name__)


def worker_token(secret: bytes, worker_id: str) -> str:
    """Return the token that authenticates a worker; derived from its id, so a repeated launch has the same token."""
    return hmac.new(secret, worker_id.encode(), hashlib.sha256).hexdigest()


_LONGEST_MESSAGE, _LONGEST_NAME = 4_000, 180


@dataclass(frozen=True)
class LocalWorkers:
    """Workers as processes of this machine, in the folders that docs/reference/contracts.md describes.

    The handle of a worker is the path of its folder."""

    settings: Settings
    engine: LocalEngine
    exchange_url: str
    secret: bytes
    wake_scheduler: Callable[[bytes], None]
    providers: ProviderTable = PROVIDERS

    def handle_for(self, key: TaskKey, worker_id: str) -> str:
        place = self.settings.jobs_dir / key.job_id / key.party.role / key.party.party_id / key.name
        return str(place / key.task_id / str(key.version) / "task_executor" / worker_id)

    def launch(self, order: LaunchOrder) -> None:
        folder = _folder_of(order.worker)
        key = order.worker.task
        folder.mkdir(parents=True, exist_ok=True)
        logs = worker_log_folders(
            key.job_id, key.party.role, key.party.party_id, key.name, self.settings.log_dir
        )
        logs[1].mkdir(parents=True, exist_ok=True)
        component = self.providers.components[order.module]
        provider = self.providers.of(component)
        launch = self._launch(order, folder, logs[1])
        start = provider.start(component, launch)
        if not launch.config.exists():
            config = self._config(order, component, folder, start.outputs)
            # Only this user may read it, since it has a token.
            write_atomically(launch.config, yaml_text(config), mode=0o600, is_durable=False)
        start.cwd.mkdir(exist_ok=True)
        for file in start.files:
            write_atomically(folder / file.name, file.text, mode=file.mode, is_durable=False)
        self.engine.launch(self._spec(order, folder, provider.name, start))

    def forget(self, worker: Worker) -> None:
        shutil.rmtree(_folder_of(worker), ignore_errors=True)

    def printed(self, worker: Worker) -> Mapping[str, Path] | None:
        return printed_in(_folder_of(worker))

    def output_file(self, worker: Worker, name: str) -> Path | None:
        path = _folder_of(worker) / OUTPUTS / name
        return path if path.is_file() else None

    def has_living_worker(self, job_id: str) -> bool:
        return bool(living_workers(self.settings.jobs_dir / job_id))

    def _launch(self, order: LaunchOrder, folder: Path, logs: Path) -> Launch:
        settings = self.settings
        return Launch(
            worker_id=order.worker.worker_id,
            folder=folder,
            config=folder / "config.yaml",
            result=folder / "result.json",
            logs=logs,
            log_max_bytes=settings.log_limits.file_max_bytes,
            parameters=order.parameters,
            program=order.program,
            rules=settings.commands,
            party_id=settings.party_id,
            exchange_url=self.exchange_url,
            exchange_token=worker_token(self.secret, order.speaks_as),
        )

    def _spec(self, order: LaunchOrder, folder: Path, provider: str, start: Start) -> WorkerSpec:
        return WorkerSpec(
            worker_id=order.worker.worker_id,
            folder=folder,
            provider=provider,
            way=start.way,
            argv=start.argv,
            env=start.env,
            cwd=start.cwd,
            stdout=start.stdout,
            stderr=start.stderr,
            timeout_seconds=order.timeout_seconds,
            grace_seconds=order.stop_seconds,
            lease_file=self.settings.alive_file,
            lease_seconds=self.settings.limits.server_silence,
            output_max_bytes=start.output_max_bytes,
            output_setting=start.output_setting,
        )

    def _config(
        self, order: LaunchOrder, component: ComponentInfo, folder: Path, outputs: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the task configuration (docs/reference/contracts.md)."""
        key = order.worker.task
        role, party_id = key.party.role, key.party.party_id
        party_task = f"{key.task_id}_{key.version}_{role}_{party_id}_{order.incarnation}"
        return {
            "task_id": key.task_id,
            "party_task_id": party_task,
            "task_name": key.name,
            "component": component.name,
            "role": role,
            "party_id": party_id,
            "stage": order.stage,
            "parameters": dict(order.parameters),
            "input_artifacts": _inputs(order),
            "output_artifacts": self._outputs(order, folder, outputs),
            "conf": {**self._conf(order, folder, party_task), **self._storage(order, component)},
        }

    def _storage(self, order: LaunchOrder, component: ComponentInfo) -> dict[str, Any]:
        """Return the server that a task writes to or reads from; only this has its password, no document of a job."""
        server = self.settings.connectors.get(str(order.parameters.get("connector")))
        return {"storage": asdict(server)} if component.uses_connector and server is not None else {}

    def _outputs(self, order: LaunchOrder, folder: Path, outputs: Mapping[str, str]) -> dict[str, Any]:
        key = order.worker.task
        found: dict[str, Any] = {
            "metric": {"uri": f"file://{folder}/metric.json", "type_name": "json_metric"},
        }
        for name, kind in outputs.items():
            if kind == "file":
                found[name] = {"uri": f"file://{folder}/{OUTPUTS}/{name}", "type_name": kind}
                continue
            # A new table for each attempt: the output of a failed attempt is never mistaken for this one's.
            table = f"{key.task_id}_{key.version}_{key.party.role}_{key.party.party_id}_{name}_{order.incarnation[:8]}"
            uri = format_uri(self.settings.data_dir, f"output_{key.job_id}", table)
            found[name] = {"uri": uri, "type_name": kind}
        return found

    def _conf(self, order: LaunchOrder, folder: Path, party_task: str) -> dict[str, Any]:
        key = order.worker.task
        role, party_id = key.party.role, key.party.party_id
        parties = [{"role": one[0], "partyid": one[1]} for one in order.parties]
        options = {"data_dir": str(self.settings.data_dir), "task_cores": order.task_cores}
        exchange = {"url": self.exchange_url, "token": worker_token(self.secret, order.speaks_as)}
        return {
            "device": {"type": "CPU", "metadata": {}},
            "computing": {"type": "standalone", "metadata": {"computing_id": party_task, "options": options}},
            "federation": {
                "type": "fate_flow",
                "metadata": {
                    "federation_id": f"{key.task_id}_{key.version}_{order.incarnation}",
                    "parties": {"local": {"role": role, "partyid": party_id}, "parties": parties},
                    "exchange": exchange,
                },
            },
            "logger": {
                "config": worker_logging_config(
                    key.job_id, role, party_id, key.name, self.settings.log_dir, self.settings.log_level
                )
            },
            "task_final_meta_path": str(folder / "result.json"),
        }

    def observe(self, worker: Worker) -> Observation:
        folder = _folder_of(worker)
        seen = self.engine.observe(folder)
        place = WorkerPlace(seen.process.pid) if seen.process else None
        if seen.exit is None:
            return Observation(seen.state, place)
        if self._leaves_result(folder):
            places = _Places(self.settings.data_dir, folder)
            succeeded, message, made = _decision(worker.task, seen.result or {}, places)
            if seen.exit.exit_code == NO_RESULT and not seen.result:
                message = "the worker could not write its result file: check whether the disk of this party is full"
        else:
            succeeded, message, made = _decision_on_program(seen.exit)
        return Observation(
            seen.state, place, seen.exit.cause, seen.exit.exit_code, seen.exit.signal, succeeded,
            message or seen.exit.message, made,
        )  # fmt: skip

    def _leaves_result(self, folder: Path) -> bool:
        """Return whether the worker of this folder ends with a result file, if it ends well."""
        launch = read_json(folder / LAUNCH) or {}
        provider = self.providers.by_name.get(str(launch.get("provider")))
        return provider is None or provider.leaves_result(folder)

    def stop(self, worker: Worker, grace_seconds: float) -> None:
        if self.engine.stop(_folder_of(worker), grace_seconds):
            self.wake_scheduler(json.dumps({"worker": worker.worker_id, "event": "exited"}).encode())


def _folder_of(worker: Worker) -> Path:
    return Path(worker.handle)


def _inputs(order: LaunchOrder) -> dict[str, Any]:
    found: dict[str, list[Any]] = {}
    for one in order.collects:
        work = {"uri": f"file://{_folder_of(one)}/{WORK}", "type_name": "folder", "metadata": {}}
        found.setdefault(WORK_FOLDERS, []).append(work)
    for read in order.inputs:
        table = read.table
        metadata = {"namespace": table.namespace, "name": table.name, "schema": dict(table.schema)}
        found.setdefault(read.key, []).append({"uri": table.uri, "type_name": "table", "metadata": metadata})
    return {key: tables[0] if len(tables) == 1 else tables for key, tables in found.items()}


def _decision_on_program(end: Exit) -> tuple[bool, str, TaskOutputs]:
    """Return the outcome of a user's program: its exit code decides, it leaves no result file."""
    said = f"the program ended with {describe_exit_code(end.exit_code)}" if end.exit_code else ""
    return end.exit_code == 0, said, TaskOutputs()


@dataclass(frozen=True)
class _Places:
    """The places to which the result file of a worker may refer."""

    data_dir: Path
    folder: Path

    def file(self, uri: str) -> Path:
        """Return a file in the worker's own folder. Raise ValueError."""
        path = Path(uri.removeprefix("file://"))
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.folder)):
            raise ValueError(f"uri: {shown(uri)} is not in the folder of the worker")
        return path

    def table(self, uri: str, namespace: str, name: str) -> str:
        """Return the URI of a table of this party that has the stated name. Raise ValueError."""
        try:
            address = table_in(self.data_dir, uri)
        except BadTableUri as error:
            raise ValueError(f"uri: {error.message}") from error
        if (address.namespace, address.name) != (namespace, name):
            raise ValueError(f"uri: {shown(uri)} is not the table {namespace}.{name}")
        return uri


def _decision(key: TaskKey, result: Mapping[str, Any], places: _Places) -> tuple[bool, str, TaskOutputs]:
    """Return whether the result file reports success, the message of a failure in one line, and the outputs."""
    status = result.get("status")
    if not isinstance(status, dict):
        return False, "", TaskOutputs()
    if status.get("code") != 0:
        return False, sanitized(str(status.get("exceptions") or ""), _LONGEST_MESSAGE), TaskOutputs()
    try:
        return True, "", _made(key, result, places)
    except (BadRequest, AttributeError, LookupError, TypeError, ValueError) as error:
        # The component wrote the file: an invalid file is its failure, not ours.
        # Other parties read the message, and the error may name a path or a table of this party.
        LOG.error("%s: result.json is wrong: %s", key, sanitized(str(error), _LONGEST_MESSAGE))
        return False, "result.json describes the outputs wrongly; this party's log has the details", TaskOutputs()


def _made(key: TaskKey, result: Mapping[str, Any], places: _Places) -> TaskOutputs:
    """Return the outputs in a result file; the caller assigns the aliases of the DSL in the order of the keys."""
    outputs = result.get("io_meta", {}).get("outputs", {})
    tables = tuple(
        (name, _table(key, one, places)) for name, made in outputs.get("data", {}).items() for one in made
    )
    metrics = tuple(
        metric for made in outputs.get("metric", {}).values() for one in made for metric in _metrics(one, places)
    )
    summary = result.get("summary")
    return TaskOutputs(tables, metrics, summary if isinstance(summary, dict) else {})


def _table(key: TaskKey, made: Mapping[str, Any], places: _Places) -> TableMeta:
    meta = made["metadata"]
    namespace = check_table_piece(meta.get("namespace"), "namespace")
    name = check_table_piece(meta.get("name"), "name")
    stated = TableMeta(
        namespace=namespace,
        name=name,
        uri=places.table(str(made["uri"]), namespace, name),
        count=_count(meta.get("count") or 0),
        replaced=_count(meta.get("replaced") or 0),
        schema=dict(meta.get("schema") or {}),
        origin="output",
        job_id=key.job_id,
    )
    return _as_it_is(stated, key.task_id)


def _as_it_is(stated: TableMeta, task_id: str) -> TableMeta:
    """Return the table as it is on disk: after two uploads of one table, the file may be of the other one."""
    try:
        with Table(stated.uri) as table:
            if table.made_by in ("", task_id):
                return stated
            job_id = table.made_by.partition("_")[0]
            schema = table.schema.as_json()
            return replace(stated, count=table.count, replaced=table.replaced, schema=schema, job_id=job_id)
    except (ComponentError, sqlite3.Error):       # already removed, or not one of our tables
        return stated


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
        raise ValueError(f"count: {shown(value)} is not a number of rows")
    return value


def _metrics(
    made: Mapping[str, Any], places: _Places
) -> list[tuple[str, str, tuple[tuple[Any, Any], ...], Mapping[str, Any]]]:
    file = places.file(str(made["uri"]))
    try:
        listed = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [
        (
            sanitized(one["namespace"], _LONGEST_NAME), sanitized(one["name"], _LONGEST_NAME),
            tuple((pair[0], pair[1]) for pair in one["data"]), dict(one.get("meta", {})),
        )
        for one in listed
    ]  # fmt: skip


@dataclass(frozen=True)
class SpoolExchange:
    """The sessions of party tasks in the spool."""

    spool: Spool
    secret: bytes

    def open(self, key: TaskKey, incarnation: str, parties: tuple[tuple[str, str], ...], worker_id: str) -> None:
        self.spool.open(_session(key, incarnation), parties, worker_token(self.secret, worker_id))

    def close(self, key: TaskKey, incarnation: str) -> None:
        self.spool.close(_session(key, incarnation))

    def purge(self, job_id: str) -> None:
        self.spool.purge(job_id)

    def sweep(self, is_over: Callable[[str], bool]) -> None:
        # List first: a job that is over after the listing cannot have begun in between.
        for job_id in self.spool.jobs():
            if is_over(job_id):
                self.spool.purge(job_id)


def _session(key: TaskKey, incarnation: str) -> Session:
    return Session(key.job_id, key.task_id, key.version, incarnation, key.party.role, key.party.party_id)


_OF_JOB = ("job_dsl.json", "job_runtime_conf.json", "train_runtime_conf.json", "pipeline_dsl.json")
_ON_PARTY = "job_runtime_on_party_conf.json"


class JobFiles:
    """The folders of a job in the home of this party."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._log_sizes = JobLogSizes(settings.log_dir)

    def write_confs(self, key: JobKey, document: Document) -> None:
        folder = self.settings.jobs_dir / key.job_id
        party = folder / key.party.role / key.party.party_id
        party.mkdir(parents=True, exist_ok=True)
        # The last two are only for jobs that predict.
        contents: tuple[Mapping[str, Any], ...] = (document.dsl, document.runtime_conf, {}, {})
        for name, content in zip(_OF_JOB, contents, strict=True):
            _write(folder / name, content)
        _write(party / _ON_PARTY, document.on_party)

    def remove_job(self, job_id: str) -> None:
        shutil.rmtree(self.settings.jobs_dir / job_id, ignore_errors=True)

    def drop_upload(self, path: str) -> None:
        file = Path(path)
        if file.is_absolute() and file.parent == self.settings.uploads_dir:
            file.unlink(missing_ok=True)

    def drop_table(self, table: TableMeta) -> None:
        try:
            drop(self.settings.data_dir, table.uri)
        except BadTableUri as error:
            LOG.warning("table %s.%s: its file stays: %s", table.namespace, table.name, error)

    def has_confs(self, key: JobKey) -> bool:
        folder = self.settings.jobs_dir / key.job_id
        party = folder / key.party.role / key.party.party_id
        return all(path.exists() for path in (*(folder / name for name in _OF_JOB), party / _ON_PARTY))

    def jobs_on_disk(self) -> Iterable[str]:
        return _jobs_in(self.settings.jobs_dir)

    def uploads_before(self, at: int) -> Iterable[str]:
        for path in _files_in(self.settings.uploads_dir):
            if path.suffix != PART and _written_before(path, at):
                yield str(path)

    def logs_before(self, at: int) -> Iterable[str]:
        logs = self.settings.log_dir
        for job_id in _jobs_in(logs):
            # A new file changes the time of its folder, so most folders need no check of their files.
            if _written_before(logs / job_id, at) and all(_written_before(one, at) for one in _files_in(logs / job_id)):
                yield job_id

    def has_logs(self, job_id: str) -> bool:
        return (self.settings.log_dir / job_id).exists()

    def logs_beyond(self, most_bytes: int, measure_all: bool) -> Iterable[str]:
        return self._log_sizes.beyond(most_bytes, _jobs_in(self.settings.log_dir), measure_all)

    def remove_logs(self, job_id: str) -> None:
        shutil.rmtree(self.settings.log_dir / job_id, ignore_errors=True)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=2), is_durable=False)


def _jobs_in(folder: Path) -> Iterator[str]:
    """Yield the names in a folder that are job ids."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(BadRequest):
                yield check_job_id(entry.name)


def _files_in(folder: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _written_before(path: Path, at: int) -> bool:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime_ns // 1_000_000 < at
    return False


