"""A party's server for tests of its client routes: a real store on SQLite, everything behind the use cases faked.

No scheduler runs, so a local job is accepted at once and then waits.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from fate_flow.api.app import create_public_app
from fate_flow.api.http.services import Services
from fate_flow.components.artifacts.on_disk import OUTPUTS
from fate_flow.components.providers.table import CATALOGUE
from fate_flow.components.tables.table import Schema, TableWriter
from fate_flow.components.tables.table_uri import format_uri, parse_uri
from fate_flow.core.access.site import SiteRule
from fate_flow.core.metrics.spans import NoSpans, Spans
from fate_flow.core.model.artifact import FILE_SCHEME, Artifact
from fate_flow.core.model.grammar import LAST
from fate_flow.core.model.job import Answer, Claim, EngineState, Job, JobKey, Seat, Task, TaskKey, Worker
from fate_flow.core.model.modules import ModuleInfo
from fate_flow.core.model.program import ProgramRules
from fate_flow.core.model.resources import LOCAL as LOCAL_ENGINE
from fate_flow.core.model.resources import EngineSize, WorkerUsage
from fate_flow.core.model.spec import JobParameters, Party
from fate_flow.core.model.status import TASK_END, JobStatus, SeatStatus, TaskStatus
from fate_flow.core.quotas.quota import Quotas
from fate_flow.engines.local.engine import printed_in
from fate_flow.engines.local.usage import usage_in
from fate_flow.jobspec.ceilings import NO_CEILINGS, Ceilings
from fate_flow.server.model_store import ModelStore
from fate_flow.services.context.ports import Context, Engines, LaunchOrder, Observation, PartyEngine, Rules, StreamsHere
from fate_flow.services.use_cases.use_cases import UseCases
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.limits import Limits
from fate_flow.settings.parties import PlainParties, Route
from fate_flow.settings.settings import Settings
from fate_flow.store.segment_files import SegmentFiles
from fate_flow.store.sql.store import SqlStore
from fate_flow.store.values import Document, OutputTable, TableMeta
from fate_flow.store.views.views import Views
from tests.kit.api.documented import DocumentedClient
from tests.kit.api.routes_compiled_once import with_routes_compiled_once
from tests.kit.site_keys import private_key
from tests.kit.store.migrated_sqlite import migrated_sqlite

GUEST, HOST, LOCAL = Party("guest", "9999"), Party("host", "10000"), Party("local", "0")
START = 1_700_000_000_000

TOY_DSL: dict[str, Any] = {"components": {"toy_0": {"module": "SecureAddExample"}}}
TOY_CONF: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000]},
    "job_parameters": {"common": {"task_cores": 2}},
    "component_parameters": {"common": {"toy_0": {"data_num": 10}}},
}
TOY = Document(TOY_DSL, TOY_CONF, {}, description="a toy")


class FakeEngine:
    def handle_for(self, key: TaskKey, worker_id: str) -> str:
        return f"/nowhere/{key.task_id}/{worker_id}"

    def launch(self, order: LaunchOrder) -> None:
        raise AssertionError("no scheduler runs here")

    def observe(self, worker: Worker) -> Observation:
        return Observation("created")

    def stop(self, worker: Worker, grace_seconds: float) -> None: ...

    def printed(self, worker: Worker) -> Mapping[str, Path] | None:
        return printed_in(Path(worker.handle))

    def used(self, worker: Worker) -> WorkerUsage | None:
        return usage_in(Path(worker.handle))

    def output_file(self, worker: Worker, name: str) -> Path | None:
        return Path(worker.handle) / OUTPUTS / name


class FakeExchange:
    def open(
        self, key: TaskKey, incarnation: str, parties: tuple[tuple[str, str], ...], worker_id: str, document: str
    ) -> None: ...

    def close(self, key: TaskKey, incarnation: str) -> None: ...

    def carried(self, key: TaskKey, incarnation: str) -> tuple[()]:
        return ()

    def uncollected_streams(self) -> tuple[()]:
        return ()

    def collected_streams(self, of: StreamsHere) -> AbstractContextManager[tuple[()]]:
        return nullcontext(())

    def purge(self, job_id: str) -> None: ...

    def sweep(self, is_over: Callable[[str], bool]) -> None: ...


@dataclass
class FakeFiles:
    written: list[str] = field(default_factory=list)

    def write_confs(self, key: JobKey, document: Document) -> None:
        self.written.append(key.job_id)

    def remove_job(self, job_id: str) -> None: ...

    def has_logs(self, job_id: str) -> bool:
        return job_id in self.written

    def remove_artifact(self, artifact: Artifact) -> None:
        (Path(artifact.uri.removeprefix(FILE_SCHEME)) if artifact.is_packed else parse_uri(artifact.uri).path).unlink()


@dataclass
class FakeRecord:
    served: list[tuple[str, str, str, int]] = field(default_factory=list)
    callers: list[str] = field(default_factory=list)          # one for each of `served`: which client has signed
    traces: list[str] = field(default_factory=list)           # of `served`
    lines: list[str] = field(default_factory=list)
    folders: list[object] = field(default_factory=list)       # one for each of `lines`: the job with that log; "": none

    def emit(self, event: Any, /, *, stacklevel: int = 1, **fields: object) -> None:
        self.lines.append(event.message(fields))           # a missing or unknown field is an error
        self.folders.append(fields.get("job_id", ""))

    def http_response(self, job_id: str, endpoint: str, text: str, body: object, *, stacklevel: int = 1) -> None: ...

    def access(self, address: str, method: str, path: str, status: int, user: str = "-", trace: str = "") -> None:
        self.served.append((address, method, path, status))
        self.callers.append(user)
        self.traces.append(trace)

    def flush(self) -> None: ...


@dataclass
class FakePeers:
    """The servers of other parties: they answer what they are told to, and note what they are asked."""

    answer: Answer = field(default_factory=Answer)
    answers: dict[str, Answer] = field(default_factory=dict)       # to what ends like this
    asked: list[tuple[Party, str]] = field(default_factory=list)

    def ask(self, to: Party, endpoint: str, _: Mapping[str, Any]) -> Answer:
        self.asked.append((to, endpoint))
        return next((one for end, one in self.answers.items() if endpoint.endswith(end)), self.answer)


@dataclass
class World:
    """One server, and short ways to fill its database and to ask it."""

    services: Services
    store: SqlStore
    record: FakeRecord
    rung: list[Sequence[str]]
    peers: FakePeers

    @cached_property
    def app(self) -> Flask:
        """Made when it is asked for the first time: tests of pages have one of their own."""
        app = with_routes_compiled_once(lambda: create_public_app(self.services, message_key=lambda: OWN_KEY))
        app.test_client_class = DocumentedClient
        return app

    @property
    def home(self) -> Path:
        return self.services.settings.home

    @property
    def uploads(self) -> list[Path]:
        return sorted((self.home / "uploads").glob("*"))

    @property
    def client(self) -> FlaskClient:
        return self.app.test_client()

    # asking

    def ask(self, path: str, body: object = None, **more: Any) -> Any:
        """The envelope of an answer with HTTP status 200."""
        response = self.post(path, body, **more)
        assert response.status_code == 200, response.data
        return response.json

    def post(self, path: str, body: object = None, **more: Any) -> TestResponse:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        return self.client.post(f"/v1/{path}", data=data, content_type="application/json", **more)

    def get(self, path: str, body: object) -> TestResponse:
        """A GET with a body, as the genuine client sends it for output data."""
        return self.client.get(f"/v1/{path}", data=json.dumps(body), content_type="application/json")

    def upload(self, conf: object, data: bytes = b"id,x\n1,2\n") -> TestResponse:
        """A file as the genuine client sends it: the conf as a query string of JSON, with the characters that
        `requests` leaves as they are."""
        return self.upload_by(quote(json.dumps(conf), safe="!#$%&'()*+,/:;=?@[]~"), data)

    def upload_by(self, query: str, data: bytes = b"id,x\n1,2\n") -> TestResponse:
        return self.client.post(f"/v1/data/upload?{query}", data=form(data), content_type=FORM_TYPE)

    # filling

    def write_peers(self, text: str) -> None:
        """What the scheduler says of its connections: JSON, or damage."""
        file = self.services.settings.shared_run_dir / "peers.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def add_job(
        self, job_id: str = "", status: JobStatus = JobStatus.WAITING, party: Party = GUEST, initiator: Party = GUEST,
        document: Document = TOY, **columns: Any,
    ) -> str:  # fmt: skip
        """A job that was here before; `columns` are written as they are."""
        job_id = job_id or self.services.new_job_id()
        with self.store.transaction() as tx:
            job = Job(
                JobKey(job_id, party), initiator, party == initiator, JobStatus.READY, parties=(GUEST, HOST),
                asked=Claim(4, 0), timeout_seconds=60, create_time=max(START, tx.last_create_time() + 1),
            )  # fmt: skip
            assert tx.add_job(job, document)
        if status in (JobStatus.SUCCESS, JobStatus.FAILED):
            columns = {"f_end_time": START, "f_reason": "done", **columns}
        self.write("t_job", {"f_job_id": job_id, "f_role": party.role}, f_status=status.value, **columns)
        return job_id

    def add_task(
        self, job_id: str, name: str = "toy_0", party: Party = GUEST, version: int = 0, **columns: Any
    ) -> None:
        key = TaskKey(job_id, name, version, party)
        task = Task(key, TaskStatus.WAITING, TaskStatus.WAITING, party == GUEST, "a1b2", "SecureAddExample",
                    create_time=START + version)
        with self.store.transaction() as tx:
            job = tx.jobs_here(job_id)[0]
            tx.add_tasks([task], job, TOY)
        if TaskStatus(columns.get("f_status", "waiting")) in TASK_END:
            columns = {"f_federated_reason": "stopped", "f_federated_end_time": START} | columns
        if columns:
            where = {"f_job_id": job_id, "f_role": party.role, "f_task_version": version, "f_component_name": name}
            self.write("t_task", where, **columns)

    def add_seats(self, job_id: str) -> None:
        with self.store.transaction() as tx:
            tx.add_seats([
                Seat(job_id, GUEST, SeatStatus.JOINED, asked_cores=2),
                Seat(job_id, HOST, SeatStatus.JOINED, message="has 1 of 8 cores free, 2 asked", free_cores=1,
                     asked_cores=2),
            ])  # fmt: skip

    def add_table(self, namespace: str, name: str, rows: Sequence[tuple[str, ...]], job_id: str = "") -> TableMeta:
        uri = format_uri(self.services.settings.data_dir, namespace, name)
        schema = Schema(("x", "y"), "id")
        with TableWriter(uri, schema) as writer:
            writer.add(rows)
        table = TableMeta(namespace, name, uri, len(rows), schema.as_json(), job_id=job_id)
        with self.store.transaction() as tx:
            tx.save_table(table, START)
        return table

    def add_output(self, job_id: str, table: TableMeta, name: str = "toy_0", data_name: str = "made") -> None:
        with self.store.transaction() as tx:
            tx.save_outputs(
                [OutputTable(TaskKey(job_id, name, 0, GUEST), data_name, table.namespace, table.name)], START
            )

    def add_log(self, job_id: str, path: str, text: str) -> Path:
        file = self.services.settings.log_dir / job_id / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def write(self, table: str, where: Mapping[str, Any], **columns: Any) -> None:
        sets = ", ".join(f"{name} = ?" for name in columns)
        conditions = " AND ".join(f"{name} = ?" for name in where)
        statement = f"UPDATE {table} SET {sets} WHERE {conditions}"
        self.store.database.execute_sql(statement, [*columns.values(), *where.values()])

    def count(self, table: str) -> int:
        return int(self.store.database.execute_sql(f"SELECT COUNT(*) FROM {table}").fetchone()[0])


UNSIGNED = SiteRule()
OWN_KEY = private_key(99)       # of the party, for its answers
FORM_TYPE = "multipart/form-data; boundary=frontier"


def form(data: bytes, name: str = "file") -> bytes:
    """A form with one file, as `requests_toolbelt` writes it."""
    head = f'--frontier\r\nContent-Disposition: form-data; name="{name}"; filename="../x.csv"\r\n'
    return f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + data + b"\r\n--frontier--\r\n"


def make_world(
    home: Path, limits: Limits | None = None, data_roots: tuple[Path, ...] = (), ceilings: Ceilings = NO_CEILINGS,
    client_keys: ClientKeys | None = None, duplicate_ids: str = LAST, site: SiteRule = UNSIGNED,
    allowed_hosts: frozenset[str] = frozenset(), modules: Mapping[str, ModuleInfo] = CATALOGUE,
    quotas: Quotas | None = None, plain_parties: PlainParties | None = None, keeps_record: bool = False,
    spans: Spans | None = None, shares_logs: bool = False,
) -> World:
    settings = Settings(
        party_id="9999", home=home, log_dir=home / "logs", limits=limits or Limits(submit_timeout=0.05),
        data_roots=data_roots, client_keys=client_keys, duplicate_ids=duplicate_ids, site=site,
        allowed_hosts=allowed_hosts, plain_parties=plain_parties, routes={"10000": Route("http://10.0.0.2:9380")},
        commands=ProgramRules(share_logs=shares_logs),
    )  # fmt: skip
    database = migrated_sqlite(home)
    store = SqlStore(database, segment_files=SegmentFiles(home))
    with store.transaction() as tx:
        tx.register_engine(EngineState("local", 20, 0, 20, 0), {}, START)
    record, rung = FakeRecord(), list[Sequence[str]]()
    clock, fresh, ids = itertools.count(START), itertools.count(1), itertools.count(1)
    engines = Engines({LOCAL_ENGINE: PartyEngine(FakeEngine(), EngineSize(1, 20))})
    context = Context(
        party_id="9999", url="http://127.0.0.1:9380", store=store, engines=engines, exchange=FakeExchange(),
        files=FakeFiles(), record=record, modules=modules,
        defaults=JobParameters(), rules=Rules(), routes=frozenset({"10000"}),
        clock=lambda: next(clock), fresh_id=lambda: f"{next(fresh):032x}", ceilings=ceilings, site=site,
        quotas=quotas or Quotas("9999"), models=ModelStore(home / "models"), keeps_record=keeps_record,
        spans=spans or NoSpans(),
    )  # fmt: skip
    use_cases = UseCases(context, lambda jobs, *_: rung.append(jobs), 4, settings.limits.submit_timeout)
    peers = FakePeers()
    services = Services(
        settings, context, use_cases, Views(database, segment_files=store.segment_files),
        lambda: f"2026010112000000000{next(ids):02d}", peers.ask,
    )  # fmt: skip
    return World(services, store, record, rung, peers)

