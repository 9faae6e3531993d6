"""What stands behind a server of a test: workers, files, logs and a network that do nothing by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fate_flow.core.model.artifact import Artifact
from fate_flow.core.model.job import Command, JobKey, TaskKey, Worker
from fate_flow.core.record.carried import ChannelCount
from fate_flow.core.streams.addresses import StreamEnds
from fate_flow.core.streams.counts import PortCount
from fate_flow.records.operator_log.events import Event
from fate_flow.services.artifacts.table_files import TableFile
from fate_flow.services.context.ports import LaunchOrder, Observation, StreamsHere
from fate_flow.store.values import Document


@dataclass
class HandEngine:
    """Workers are seen as the test says: `sights[worker id]`, else as ordered and not begun.

    It accepts only workers that name it."""

    name: str = "local"
    sights: dict[str, Observation] = field(default_factory=dict)
    launched: list[LaunchOrder] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    graces: list[float] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    alive: set[str] = field(default_factory=set)            # jobs with a worker that no row names

    def handle_for(self, key: TaskKey, worker_id: str) -> str:
        return f"{self.name}:/{key.party.party_id}/{key.task_id}/{key.version}/{worker_id}"

    def launch(self, order: LaunchOrder) -> None:
        self._check(order.worker)
        self.launched.append(order)

    def observe(self, worker: Worker) -> Observation:
        self._check(worker)
        return self.sights.get(worker.worker_id, Observation("created"))

    def stop(self, worker: Worker, grace_seconds: float) -> None:
        self._check(worker)
        self.stopped.append(worker.worker_id)
        self.graces.append(grace_seconds)

    def release(self, worker: Worker) -> None:
        self._check(worker)
        self.released.append(worker.worker_id)

    def forget(self, worker: Worker) -> None:
        self._check(worker)
        self.forgotten.append(worker.worker_id)

    def printed(self, worker: Worker) -> dict[str, Path] | None:
        return {stream: Path(worker.handle) / stream for stream in ("stdout", "stderr")}

    def used(self, worker: Worker) -> None: ...

    def output_file(self, worker: Worker, name: str) -> Path | None:
        return Path(worker.handle) / name

    def has_living_worker(self, job_id: str) -> bool:
        return job_id in self.alive

    def _check(self, worker: Worker) -> None:
        assert worker.engine == self.name, f"{worker} is not of engine {self.name}"


@dataclass
class Calls:
    """What was asked of a fake: the name of each call with its arguments."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


class HandExchange(Calls):
    """An exchange that opens nothing. `stream_counts`: what it says that the streams of an attempt have carried;
    `channels`: that of its channels.
    `late`: attempts with streams that ended after them; `streams`: attempts that have some."""

    stream_counts: tuple[PortCount, ...] = ()
    channels: tuple[ChannelCount, ...] = ()
    late: tuple[StreamsHere, ...] = ()
    streams: tuple[StreamsHere, ...] = ()

    def open(
        self, key: TaskKey, incarnation: str, parties: tuple[tuple[str, str], ...], worker_id: str, document: str,
        streams: StreamEnds,
    ) -> None:
        self.calls.append(("open", key, incarnation, parties, worker_id, document, *((streams,) if streams else ())))

    def close(self, key: TaskKey, incarnation: str) -> None:
        self.calls.append(("close", key, incarnation))

    def carried(self, key: TaskKey, incarnation: str) -> tuple[ChannelCount, ...]:
        return self.channels

    def uncollected_streams(self) -> tuple[StreamsHere, ...]:
        return self.late

    @contextmanager
    def collected_streams(self, of: StreamsHere) -> Iterator[tuple[PortCount, ...]]:
        yield self.stream_counts
        self.calls.append(("collected", of))

    def with_streams(self) -> tuple[StreamsHere, ...]:
        return self.streams

    def end_streams(self, of: StreamsHere, why: str) -> None:
        self.calls.append(("end_streams", of, why))
        self.streams = tuple(one for one in self.streams if one != of)

    def purge(self, job_id: str) -> None:
        self.calls.append(("purge", job_id))

    def sweep(self, is_over: Callable[[str], bool]) -> None:
        self.calls.append(("sweep", is_over))


class HandFiles(Calls):
    """Folders in which nothing ever lies: it keeps no configuration, no upload, no job, no log and no table."""

    def write_confs(self, key: JobKey, document: Document) -> None:
        self.calls.append(("write_confs", key, document))

    def remove_job(self, job_id: str) -> None:
        self.calls.append(("remove_job", job_id))

    def remove_artifact(self, artifact: Artifact) -> None:
        self.calls.append(("remove_artifact", artifact))

    def has_confs(self, key: JobKey) -> bool:
        return False

    def jobs_on_disk(self) -> tuple[str, ...]:
        return ()

    def uploads_before(self, at: int) -> tuple[str, ...]:
        return ()

    def logs_before(self, at: int) -> tuple[str, ...]:
        return ()

    def has_logs(self, job_id: str) -> bool:
        return False

    def logs_beyond(self, most_bytes: int, measure_all: bool) -> tuple[str, ...]:
        return ()

    def remove_logs(self, job_id: str) -> None:
        self.calls.append(("remove_logs", job_id))

    def table_files_before(self, at: int) -> tuple[TableFile, ...]:
        return ()

    def maker_of_table(self, file: TableFile) -> str:
        return ""

    def remove_table_file(self, file: TableFile, before: int) -> bool:
        return False

    def has_table_files(self, job_id: str) -> bool:
        return False


@dataclass
class HandRecord:
    """Checks that every event has the fields it needs, and keeps them."""

    events: list[tuple[Event, dict[str, object]]] = field(default_factory=list)

    def emit(self, event: Event, /, *, stacklevel: int = 1, **fields: object) -> None:
        event.message(fields)
        self.events.append((event, fields))

    def http_response(self, job_id: str, endpoint: str, text: str, body: object, *, stacklevel: int = 1) -> None: ...

    def access(self, address: str, method: str, path: str, status: int, user: str = "-", trace: str = "") -> None: ...

    def flush(self) -> None: ...

    def seen(self, event: Event) -> list[dict[str, object]]:
        return [fields for one, fields in self.events if one is event]


@dataclass
class HandTransport:
    posted: list[Command] = field(default_factory=list)
    heartbeats: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)

    def post(self, commands: tuple[Command, ...]) -> None:
        self.posted.extend(commands)

    def heartbeat(self, party_id: str, jobs: tuple[tuple[str, int], ...]) -> None:
        self.heartbeats[party_id] = jobs

    def take(self) -> list[Command]:
        """What was posted since the last time."""
        taken, self.posted = self.posted, []
        return taken
