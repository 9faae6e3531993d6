"""The implementations of `services/context/ports.py`: the spool, the folders of a job."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_flow.components.artifacts.on_disk import kinds_on_disk
from fate_flow.components.tables.left_files import files_before, has_files, maker_of, remove_before
from fate_flow.core.model.artifact import Artifact
from fate_flow.core.model.job import JobKey, TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.core.record.carried import ChannelCount
from fate_flow.core.streams.addresses import StreamEnds
from fate_flow.core.streams.counts import PortCount
from fate_flow.engines.local.worker import write_atomically
from fate_flow.relay.spool import Spool
from fate_flow.relay.spool_session import Session
from fate_flow.relay.stream_sessions import StreamSession, StreamSessions
from fate_flow.server.engines.local_workers import worker_token
from fate_flow.server.log_sizes import JobLogSizes, jobs_in
from fate_flow.services.artifacts.table_files import TableFile
from fate_flow.services.context.ports import StreamsHere
from fate_flow.settings.settings import PART, Settings
from fate_flow.store.contract.bindings import namespace_of
from fate_flow.store.values import Document


@dataclass(frozen=True)
class SpoolExchange:
    """The sessions of party tasks in the spool, and the streams of these sessions."""

    spool: Spool
    secret: bytes
    streams: StreamSessions

    def open(
        self, key: TaskKey, incarnation: str, parties: tuple[tuple[str, str], ...], worker_id: str, document: str,
        streams: StreamEnds,
    ) -> None:  # fmt: skip
        session = _session(key, incarnation)
        self.spool.open(session, parties, worker_token(self.secret, worker_id), document)
        if streams:
            self.streams.open(StreamSession(session, document, streams))

    def close(self, key: TaskKey, incarnation: str) -> None:
        session = _session(key, incarnation)
        self.streams.close(session)
        self.spool.close(session)

    def carried(self, key: TaskKey, incarnation: str) -> Iterable[ChannelCount]:
        return self.spool.carried(_session(key, incarnation))

    def uncollected_streams(self) -> Iterator[StreamsHere]:
        return map(_streams_of, self.streams.uncollected())

    def collected_streams(self, of: StreamsHere) -> AbstractContextManager[tuple[PortCount, ...]]:
        return self.streams.collected(_session(of.key, of.incarnation))

    def with_streams(self) -> Iterator[StreamsHere]:
        return map(_streams_of, self.streams.sessions())

    def end_streams(self, of: StreamsHere, why: str) -> None:
        self.streams.end(_session(of.key, of.incarnation), why)

    def purge(self, job_id: str) -> None:
        try:
            self.spool.purge(job_id)
        finally:
            self.streams.purge(job_id)

    def sweep(self, is_over: Callable[[str], bool]) -> None:
        # List first: a job that is over after the listing cannot have begun in between.
        for job_id in {*self.spool.jobs(), *self.streams.jobs()}:
            if is_over(job_id):
                self.purge(job_id)


def _session(key: TaskKey, incarnation: str) -> Session:
    return Session(key.job_id, key.task_id, key.version, incarnation, key.party.role, key.party.party_id)


def _streams_of(session: Session) -> StreamsHere:
    name, party = session.task_id.removeprefix(f"{session.job_id}_"), Party(session.role, session.party_id)
    return StreamsHere(TaskKey(session.job_id, name, session.version, party), session.incarnation)


_OF_JOB = ("job_dsl.json", "job_runtime_conf.json", "train_runtime_conf.json", "pipeline_dsl.json")
_ON_PARTY = "job_runtime_on_party_conf.json"


class JobFiles:
    """The folders of a job in the home of this party, and its folder for tables."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._log_sizes = JobLogSizes(settings.log_dir)
        self._kinds = kinds_on_disk(settings.data_dir, settings.uploads_dir, settings.models_dir)

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

    def remove_artifact(self, artifact: Artifact) -> None:
        self._kinds[artifact.kind].remove(artifact)

    def has_confs(self, key: JobKey) -> bool:
        folder = self.settings.jobs_dir / key.job_id
        party = folder / key.party.role / key.party.party_id
        return all(path.exists() for path in (*(folder / name for name in _OF_JOB), party / _ON_PARTY))

    def jobs_on_disk(self) -> Iterable[str]:
        return jobs_in(self.settings.jobs_dir)

    def uploads_before(self, at: int) -> Iterable[str]:
        for path in _files_in(self.settings.uploads_dir):
            if path.suffix != PART and _written_before(path, at):
                yield str(path)

    def logs_before(self, at: int) -> Iterable[str]:
        logs = self.settings.log_dir
        for job_id in jobs_in(logs):
            # A new file changes the time of its folder, so most folders need no check of their files.
            if _written_before(logs / job_id, at) and all(_written_before(one, at) for one in _files_in(logs / job_id)):
                yield job_id

    def has_logs(self, job_id: str) -> bool:
        return (self.settings.log_dir / job_id).exists()

    def logs_beyond(self, most_bytes: int, measure_all: bool) -> Iterable[str]:
        return self._log_sizes.beyond(most_bytes, jobs_in(self.settings.log_dir), measure_all)

    def remove_logs(self, job_id: str) -> None:
        shutil.rmtree(self.settings.log_dir / job_id, ignore_errors=True)

    def table_files_before(self, at: int) -> Iterator[TableFile]:
        return (TableFile(*one) for one in files_before(self.settings.data_dir, at))

    def maker_of_table(self, file: TableFile) -> str:
        return maker_of(self.settings.data_dir, file.namespace, file.name)

    def remove_table_file(self, file: TableFile, before: int) -> bool:
        return remove_before(self.settings.data_dir, (file.namespace, file.name, file.draft), before)

    def has_table_files(self, job_id: str) -> bool:
        return has_files(self.settings.data_dir, namespace_of(job_id))


def _write(path: Path, content: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=2), is_durable=False)


def _files_in(folder: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield Path(entry.path)


def _written_before(path: Path, at: int) -> bool:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime_ns // 1_000_000 < at
    return False


