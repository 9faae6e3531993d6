"""The engines of kind `local`: workers as processes of this machine."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from fate_flow.components.artifacts.attempt import Attempt, KindOnDisk
from fate_flow.components.artifacts.data_frames import input_of
from fate_flow.components.artifacts.on_disk import kept_file, kinds_on_disk
from fate_flow.components.artifacts.result_file import Reported, read_result
from fate_flow.components.providers.description import ComponentInfo
from fate_flow.components.providers.program_order import WORK
from fate_flow.components.providers.provider import Launch, Start
from fate_flow.components.providers.table import PROVIDERS, ProviderTable
from fate_flow.core.metrics.spans import span_of_worker
from fate_flow.core.model.artifact import DATAFRAME, FILE_SCHEME, INDEX, METRIC, TABLE, Artifact, ArtifactInfos
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.job import TaskKey, Worker, WorkerPlace
from fate_flow.core.model.program import WORK_FOLDERS
from fate_flow.core.model.program_scope import Program
from fate_flow.core.model.resources import WorkerUsage
from fate_flow.core.planning.participant.share_end import SAID_BY_THE_ENGINE
from fate_flow.core.text.exit_codes import NO_RESULT, describe_exit_code
from fate_flow.core.text.trace import ENVIRONMENT, traceparent
from fate_flow.core.text.yaml_text import yaml_text
from fate_flow.engines.local.engine import LocalEngine, living_workers, printed_in
from fate_flow.engines.local.groups import Groups, Limits
from fate_flow.engines.local.signs import SIGN_SECONDS
from fate_flow.engines.local.usage import usage_in
from fate_flow.engines.local.worker import LAUNCH, Exit, WorkerSpec, read_json, release, write_atomically
from fate_flow.engines.local.worker import Observation as Seen
from fate_flow.records.operator_log.worker_config import worker_log_folders, worker_logging_config
from fate_flow.server.engines.parts import EngineParts
from fate_flow.services.context.ports import LaunchOrder, Observation, TaskOutputs
from fate_flow.settings.engines.engine_settings import EngineSettings
from fate_flow.settings.settings import Settings


def worker_token(secret: bytes, worker_id: str) -> str:
    """Return the token that authenticates a worker; derived from its id, so a repeated launch has the same token."""
    return hmac.new(secret, worker_id.encode(), hashlib.sha256).hexdigest()


CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
_FOLDER = "folder"          # the kind of input that only the collector of a program gets: working folders


class FolderEngine(Protocol):
    """Runs workers that it knows by their folders."""

    def observe(self, folder: Path) -> Seen: ...

    def stop(self, folder: Path, grace_seconds: float) -> bool: ...


@dataclass(frozen=True)
class FolderWorkers(ABC):
    """Workers in the folders that docs/reference/contracts.md describes.

    The handle of a worker is the path of its folder, below the folder of all jobs. A worker with any other handle is
    lost: whatever lies there, nothing of it is read, stopped or removed."""

    settings: Settings
    engine: FolderEngine
    exchange_url: str
    secret: bytes
    wake_scheduler: Callable[[bytes], None]
    providers: ProviderTable = PROVIDERS
    program_env: Mapping[str, str] = field(default_factory=dict)
    has_gpus: bool = False

    def handle_for(self, key: TaskKey, worker_id: str) -> str:
        place = self.settings.jobs_dir / key.job_id / key.party.role / key.party.party_id / key.name
        return str(place / key.task_id / str(key.version) / "task_executor" / worker_id)

    def launch(self, order: LaunchOrder) -> None:
        folder = self._folder_of(order.worker)
        if folder is None:
            raise ValueError(self._not_ours(order.worker))
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
            config = self._config(order, component, folder, start)
            # Only this user may read it, since it has a token.
            write_atomically(launch.config, yaml_text(config), mode=0o600, is_durable=False)
        start.cwd.mkdir(exist_ok=True)
        for file in start.files:
            write_atomically(folder / file.name, file.text, mode=file.mode, is_durable=False)
        self._run(order, self._spec(order, folder, provider.name, start), start.imports)

    @abstractmethod
    def _run(self, order: LaunchOrder, spec: WorkerSpec, imports: Sequence[str]) -> None:
        """Have the worker of this spec run; `imports`: modules that a fork of the spawner needs."""

    def forget(self, worker: Worker) -> None:
        folder = self._folder_of(worker)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def printed(self, worker: Worker) -> Mapping[str, Path] | None:
        folder = self._folder_of(worker)
        return printed_in(folder) if folder is not None else None

    def used(self, worker: Worker) -> WorkerUsage | None:
        folder = self._folder_of(worker)
        return usage_in(folder) if folder is not None else None

    def output_file(self, worker: Worker, name: str) -> Path | None:
        folder = self._folder_of(worker)
        return kept_file(folder, name) if folder is not None else None

    @abstractmethod
    def has_living_worker(self, job_id: str) -> bool: ...

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
            program=self._with_devices(order),
            rules=replace(settings.commands, home=str(settings.home)),
            party_id=settings.party_id,
            role=order.worker.task.party.role,
            stage=order.stage,
            exchange_url=self.exchange_url,
            exchange_token=worker_token(self.secret, order.speaks_as),
            program_env=self.program_env,
            exchange_servers=self._servers,
        )

    def _devices(self, order: LaunchOrder) -> dict[str, str]:
        """Return the variable that shows a worker its GPUs, and no others; nothing on an engine without GPUs."""
        return {CUDA_VISIBLE_DEVICES: ",".join(order.worker.devices)} if self.has_gpus else {}

    def _with_devices(self, order: LaunchOrder) -> Program | None:
        """Return the program of the order, if it has one; its environment is not that of other workers."""
        one = order.program
        return None if one is None else replace(one, env={**_trace(order), **one.env, **self._devices(order)})

    @property
    def _servers(self) -> str:
        """Return the folder with the addresses of the party's servers; empty if it has only this one."""
        return str(self.settings.one_of.folder) if self.settings.one_of is not None else ""

    @property
    def _sign_seconds(self) -> float:
        """Return how often runners have to show that they live; 0 if the engine knows it from elsewhere."""
        return 0.0

    def _spec(self, order: LaunchOrder, folder: Path, provider: str, start: Start) -> WorkerSpec:
        return WorkerSpec(
            worker_id=order.worker.worker_id,
            folder=folder,
            provider=provider,
            way=start.way,
            argv=start.argv,
            env={**_trace(order), **start.env, **self._devices(order)},
            cwd=start.cwd,
            stdout=start.stdout,
            stderr=start.stderr,
            timeout_seconds=order.timeout_seconds,
            grace_seconds=order.stop_seconds,
            lease_file=self.settings.lease_file,
            lease_seconds=self.settings.limits.server_silence,
            output_max_bytes=start.output_max_bytes,
            output_setting=start.output_setting,
            sign_seconds=self._sign_seconds,
            reads_contents=self.settings.recording.is_on,
        )

    def _config(
        self, order: LaunchOrder, component: ComponentInfo, folder: Path, start: Start
    ) -> dict[str, Any]:
        """Return the task configuration (docs/reference/contracts.md)."""
        key = order.worker.task
        role, party_id = key.party.role, key.party.party_id
        party_task = f"{key.task_id}_{key.version}_{role}_{party_id}_{order.incarnation}"
        return {
            "task_id": key.task_id,
            "party_task_id": party_task,
            "task_name": key.name,
            "component": start.runs or component.name,
            "role": role,
            "party_id": party_id,
            "stage": order.stage,
            "parameters": dict(order.parameters if start.parameters is None else start.parameters),
            "input_artifacts": _inputs(order, component.inputs, folder, start.converts),
            "output_artifacts": self._outputs(order, component, folder, start.outputs),
            "conf": {**self._conf(order, folder, party_task), **self._storage(order, component)},
        }

    def _storage(self, order: LaunchOrder, component: ComponentInfo) -> dict[str, Any]:
        """Return the server that a task writes to or reads from; only this has its password, no document of a job."""
        server = self.settings.connectors.get(str(order.parameters.get("connector")))
        return {"storage": asdict(server)} if component.uses_connector and server is not None else {}

    def _outputs(
        self, order: LaunchOrder, component: ComponentInfo, folder: Path, outputs: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the place of each output, with `{index}` in the uri of those that may be several.

        A data frame that becomes a table, too, says which (`as_table`)."""
        attempt, kinds = Attempt(order.worker.task, folder, order.incarnation), self._kinds_on_disk()
        found = {}
        for key, kind in {"metric": METRIC, **outputs}.items():
            info = component.outputs.get(key)
            name = f"{key}_{INDEX}" if info is not None and info.is_multi else key
            found[key] = kinds[kind].planned(attempt, name).place
            if kind == DATAFRAME and info is not None and TABLE in info.kinds:
                found[key]["as_table"] = kinds[TABLE].planned(attempt, name).place
        return found

    def _kinds_on_disk(self) -> Mapping[str, KindOnDisk]:
        return kinds_on_disk(self.settings.data_dir, self.settings.uploads_dir, self.settings.models_dir)

    def _conf(self, order: LaunchOrder, folder: Path, party_task: str) -> dict[str, Any]:
        key = order.worker.task
        role, party_id = key.party.role, key.party.party_id
        parties = [{"role": one[0], "partyid": one[1]} for one in order.parties]
        options = {
            "data_dir": str(self.settings.data_dir), "task_cores": order.task_cores, "partitions": order.partitions,
        }  # fmt: skip
        if order.least_intersection:
            options["least_intersection"] = order.least_intersection
        exchange = {"url": self.exchange_url, "token": worker_token(self.secret, order.speaks_as)}
        if self._servers:
            exchange["servers"] = self._servers
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
        folder = self._folder_of(worker)
        if folder is None:
            return Observation("lost", message=self._not_ours(worker))
        seen = self.engine.observe(folder)
        place = WorkerPlace(seen.process.pid) if seen.process else None
        if seen.exit is None:
            return Observation(
                seen.state, place, is_placed=seen.is_placed, waits=seen.waits, has_arrived=seen.has_arrived
            )  # fmt: skip
        message = ""
        if self._leaves_result(folder):
            said = read_result(seen.result or {}, Attempt(worker.task, folder), self._kinds_on_disk())
            if seen.exit.exit_code == NO_RESULT and not seen.result:
                message = "the worker could not write its result file: check whether the disk of this party is full"
        else:
            said = _decision_on_program(seen.exit)
        if seen.exit.cause in SAID_BY_THE_ENGINE:      # whatever the worker wrote before it was killed
            message = seen.exit.message
        return Observation(
            seen.state, place, seen.exit.cause, seen.exit.exit_code, seen.exit.signal, said.succeeded,
            message or said.message or seen.exit.message, TaskOutputs(said.artifacts, said.summary),
            contents=seen.exit.contents,
        )  # fmt: skip

    def _leaves_result(self, folder: Path) -> bool:
        """Return whether the worker of this folder ends with a result file, if it ends well."""
        launch = read_json(folder / LAUNCH) or {}
        provider = self.providers.by_name.get(str(launch.get("provider")))
        return provider is None or provider.leaves_result(folder)

    def stop(self, worker: Worker, grace_seconds: float) -> None:
        folder = self._folder_of(worker)
        if folder is not None and self.engine.stop(folder, grace_seconds):
            self.wake_scheduler(json.dumps({"worker": worker.worker_id, "event": "exited"}).encode())

    def release(self, worker: Worker) -> None:
        folder = self._folder_of(worker)
        if folder is not None:
            release(folder)

    def _folder_of(self, worker: Worker) -> Path | None:
        """Return the folder that the handle names; None if it is not one below the folder of all jobs."""
        folder, jobs = Path(worker.handle), self.settings.jobs_dir
        is_plain = folder.is_absolute() and ".." not in folder.parts
        return folder if is_plain and jobs in folder.parents else None

    def _not_ours(self, worker: Worker) -> str:
        jobs = self.settings.jobs_dir
        return f"the handle of worker {worker.worker_id}, {shown(worker.handle)}, is not a folder below {jobs}"


def _trace(order: LaunchOrder) -> dict[str, str]:
    """Return the variable that names the trace of the job, and this worker as its span."""
    return {ENVIRONMENT: traceparent(order.trace, span_of_worker(order.worker.worker_id))} if order.trace else {}


@dataclass(frozen=True)
class LocalWorkers(FolderWorkers):
    """Workers as processes of this machine."""

    engine: LocalEngine

    def _run(self, order: LaunchOrder, spec: WorkerSpec, imports: Sequence[str]) -> None:
        # A worker without reserved cores, as that of an arbiter, computes, too.
        cores, processes = order.need.cores or order.task_cores, self.settings.worker_limits.processes
        limits = Limits(cores, order.need.memory_mb, processes)
        self.engine.launch(replace(spec, limits=limits), imports)

    def has_living_worker(self, job_id: str) -> bool:
        return bool(living_workers(self.settings.jobs_dir / job_id, self.engine))

    @property
    def _sign_seconds(self) -> float:
        return SIGN_SECONDS if self.settings.one_of is not None else 0.0


def build_local(parts: EngineParts, one: EngineSettings) -> LocalWorkers:
    """Return an engine of kind `local`. All of them have the same spawner."""
    groups = Groups.read(parts.settings.run_dir)
    engine = LocalEngine(parts.spawner, groups, sees_signs=parts.settings.one_of is not None)
    return LocalWorkers(
        parts.settings, engine, parts.exchange_url, parts.secret, parts.wake_scheduler, parts.providers,
        one.program_env, bool(one.devices),
    )  # fmt: skip


def _inputs(order: LaunchOrder, infos: ArtifactInfos, folder: Path, converts: Mapping[str, str]) -> dict[str, Any]:
    """Return the artifacts by input key: a list where the component takes several, and where there are several.

    One that the worker has to convert or to copy first says from what (`made_from`)."""
    found: dict[str, list[Any]] = {}
    for one in order.collects:
        work = Artifact(_FOLDER, f"{FILE_SCHEME}{one.handle}/{WORK}")
        found.setdefault(WORK_FOLDERS, []).append(work.as_json())
    attempt = Attempt(order.worker.task, folder, order.incarnation)
    for read in order.inputs:
        several = found.setdefault(read.key, [])
        several.append(input_of(attempt, read, converts.get(read.key, ""), len(several)))
    lists = {key for key, one in infos.items() if one.is_multi}
    return {key: every[0] if len(every) == 1 and key not in lists else every for key, every in found.items()}


def _decision_on_program(end: Exit) -> Reported:
    """Return the outcome of a user's program: its exit code decides, it leaves no result file."""
    said = f"the program ended with {describe_exit_code(end.exit_code)}" if end.exit_code else ""
    return Reported(end.exit_code == 0, said)
