"""Build the parts of each process of a server from its settings. Nothing here makes decisions."""

from __future__ import annotations

import json
import logging
import os
import queue
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import requests

from fate_flow.api.between_parties.exchange import ForwardReply
from fate_flow.components.providers.table import ProviderTable, provider_table
from fate_flow.core.metrics.measures import EXCHANGE_BYTES, SENT, Measures, Unmeasured
from fate_flow.core.model.artifact import TABLE
from fate_flow.core.model.errors import DATABASE_AWAY, BadSettings
from fate_flow.core.model.spec import Party
from fate_flow.core.quotas.disk_space import text_for_parties
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.core.wire.v1.chunks import Chunk
from fate_flow.core.wire.v1.envelope import headers, read_answer
from fate_flow.core.wire.v1.job_answers import MOST_PLACES
from fate_flow.core.wire.v1.paths import deliver_path
from fate_flow.engines.local.program_user import PASSES
from fate_flow.engines.local.programs import ConfiguredProgramPolicy
from fate_flow.peers.key_changes import own_signature
from fate_flow.peers.network_errors import describe_network_error
from fate_flow.peers.peer_http import PeerHttp, PeerResponse
from fate_flow.peers.pinned import PinnedParties
from fate_flow.peers.signature import SiteSignature
from fate_flow.records.operator_log.events import Event
from fate_flow.records.operator_log.operator_log import OperatorLog
from fate_flow.records.operator_log.server_handler import ServerLogHandler
from fate_flow.records.operator_log.sql_text import with_values
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_session import Session
from fate_flow.relay.stream_calls import GatewayCalls
from fate_flow.relay.stream_sessions import StreamSessions
from fate_flow.relay.wakeup import QuietWakeup, Wakeup
from fate_flow.server.adapters import JobFiles, SpoolExchange
from fate_flow.server.engines.kinds import build_engines
from fate_flow.server.engines.parts import EngineParts
from fate_flow.server.home_disk import DiskReserve, HomeDisk
from fate_flow.server.model_store import ModelStore
from fate_flow.server.other_parties.inquirers import call_backs_at_once
from fate_flow.server.party_disk import PartyDiskUse
from fate_flow.server.periodic.log_keeper import bounds_of
from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.context.ports import BoundEffect, Context, Keep, Rules
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.services.participant.stream_calls import StreamCalls, opens_all
from fate_flow.services.use_cases.units import Wake
from fate_flow.settings.client_keys import make_client_keys
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.database.opening import open_database, sqlite_file
from fate_flow.store.segment_files import SegmentFiles
from fate_flow.store.sql.store import SqlStore

log = logging.getLogger(__name__)

_FORWARD_SECONDS = 30.0
_LONGEST_REFUSAL = 64 * 1024


@dataclass(frozen=True)
class Wakeups:
    """The wake-ups between the processes of a server; made before the fork."""

    scheduler: Wakeup
    spawner: Wakeup
    exchange: Wakeup
    sealer: QuietWakeup = field(default_factory=QuietWakeup)        # of the record


def rules_of(settings: Settings) -> Rules:
    limits = settings.limits

    def milliseconds(seconds: float) -> int:
        return int(seconds * 1000)

    return Rules(
        poll_interval=milliseconds(limits.poll_interval),
        hold=milliseconds(limits.hold_seconds),
        ready=milliseconds(limits.ready_seconds),
        heartbeat_interval=milliseconds(limits.heartbeat_interval),
        idle_heartbeat=milliseconds(limits.idle_heartbeat_interval),
        party_silence=milliseconds(limits.party_silence),
        initiator_silence=milliseconds(limits.initiator_silence),
        plain_hold=milliseconds(limits.plain_hold_seconds),
        plain_silence=milliseconds(limits.plain_silence),
        command_keep=milliseconds(limits.command_keep),
        stop_grace_seconds=limits.stop_grace,
        longest_stop_seconds=limits.longest_stop,
        drain=milliseconds(limits.drain_timeout),
        launch=milliseconds(limits.launch_timeout),
        retry_wait=milliseconds(limits.retry_wait),
        long_backoff=milliseconds(limits.long_backoff),
        queue_passes=limits.queue_passes,
        queue_ageing=milliseconds(limits.queue_ageing),
        resource_waiting=milliseconds(limits.resource_waiting_timeout),
        metrics_max_bytes=limits.metrics_max_bytes,
    )


def keep_of(settings: Settings) -> Keep:
    retention, day = settings.retention, 24 * 3600 * 1000
    return Keep(
        finished_jobs=int(retention.finished_jobs_days * day),
        job_logs=int(retention.job_logs_days * day),
        job_logs_bytes=retention.job_logs_max_bytes,
        most_finished_jobs=retention.most_finished_jobs,
        outputs={TABLE: int(retention.output_tables_days * day)},
    )


def open_log(settings: Settings) -> OperatorLog:
    """Open the operators' log; the records of our own modules go to its stat log."""
    record = OperatorLog(
        settings.log_dir, level=settings.log_level, log_sql=settings.log_sql, bounds=bounds_of(settings),
        server_root=settings.server_log_dir,
    )
    root = logging.getLogger()
    root.handlers[:] = [ServerLogHandler(record)]
    root.setLevel(settings.log_level)
    for noisy in ("urllib3", "peewee", "apscheduler", "werkzeug"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    return record


def open_store(settings: Settings, record: OperatorLog, wakeups: Wakeups | None = None) -> SqlStore:
    """`wakeups`: of a process of a server, to wake the one that seals the record."""
    database = open_database(settings.database_url, settings.home, record.database)

    def log_write(job_id: str, statement: str, params: Sequence[Any]) -> None:
        record.sql(job_id, with_values(statement, params), stacklevel=3)

    recorded = wakeups.sealer.wake if wakeups is not None else lambda: None
    return SqlStore(database, log_write, recorded, SegmentFiles(settings.shared))


def secret_of(settings: Settings) -> bytes:
    """Return the secret from which worker tokens are derived; made once for a party."""
    return _made_once(settings.shared_run_dir / "secret", 32)


def home_id_of(settings: Settings) -> str:
    """Return the name that all schedulers of one home share. The home is locked: an older one of this name is dead."""
    return _made_once(settings.run_dir / "lineage", 8).hex()


def with_client_keys(settings: Settings) -> Settings:
    """Return the settings with the client keys; make the keys if this start has to. Raise BadSettings."""
    if not settings.makes_client_keys:
        return settings
    made = make_client_keys(settings.shared, settings.client_keys)
    return replace(settings, client_keys=settings.client_keys or made, makes_client_keys=False)


def signature_of(settings: Settings) -> SiteSignature | None:
    """Return what signs the requests to other parties; None if they are not signed. Raise BadSettings for a bad key."""
    if not settings.site.is_on:
        return None
    try:
        return own_signature(settings.keys_dir, settings.private_key, now_on_the_wall)
    except BadSettings as error:
        if not settings.site.due_to:
            raise
        raise BadSettings(
            f"{error.message}; {settings.site.due_to} leads to another machine without TLS that ends at a key of the "
            "party, so requests and answers have to be signed (authentication.site); a party that speaks plain v1 is "
            "excepted by its id (parties.plain.from, authentication.site.unsigned_from)"
        ) from error


def _made_once(path: Path, size: int) -> bytes:
    """Return random bytes, made once: several servers of a party that start at once all get the same.

    A file that a crash left incomplete is made again."""
    found = path.read_bytes() if path.exists() else b""
    if len(found) == size:
        return found
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(secrets.token_bytes(size))
        file.flush()
        os.fsync(file.fileno())
    if found:
        os.replace(draft, path)
    else:
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return path.read_bytes()


def reserve_of(settings: Settings) -> DiskReserve:
    """Return the space that is kept for the record, if there is one and its database is on a disk of this machine."""
    file = sqlite_file(settings.database_url, settings.home)
    size = settings.recording.reserve if settings.recording.is_on else 0
    return DiskReserve(file and file.with_name(f"{file.name}.reserve"), size, settings.limits.least_free)


def disk_of(settings: Settings) -> HomeDisk:
    """Return what looks at the disks that the server writes to."""
    file = sqlite_file(settings.database_url, settings.home)
    others = (
        settings.log_dir, *([file.parent] if file else []), settings.jobs_dir, settings.data_dir, settings.spool_dir,
        settings.uploads_dir, settings.models_dir,
    )  # fmt: skip
    return HomeDisk(settings.home, settings.limits.least_free, others=others)


def open_spool(settings: Settings, wakeup: Wakeup) -> Spool:
    limits, disk = SpoolLimits(total_bytes=settings.limits.spool_max_bytes), disk_of(settings)
    return Spool(
        settings.spool_dir, limits, wakeup.wake, quotas=settings.quotas, keeps_digests=settings.recording.is_on,
        why_closed=lambda: text_for_parties(settings.party_id) if disk().is_short() else "",
    )


def stream_sessions(settings: Settings) -> StreamSessions:
    return StreamSessions(settings.streams_dir, settings.streams_socket)


def providers_of(settings: Settings) -> ProviderTable:
    """Return the providers of this party. Raise BadSettings for a name that one of ours has."""
    return provider_table(settings.party_id, settings.providers, settings.providers_dir)


def build_context(
    settings: Settings, wakeups: Wakeups, worker_url: str, record: OperatorLog, store: SqlStore,
    effect_runner: EffectRunner, measures: Measures | None = None,
) -> Context:  # fmt: skip
    """Return the dependencies that the use cases of one process share; without `measures`, it counts nothing."""
    secret, providers = secret_of(settings), providers_of(settings)
    parts = EngineParts(
        settings, wakeups.spawner.sending_end, wakeups.scheduler.wake, f"{worker_url}/v1/exchange", secret, providers
    )
    return Context(
        party_id=settings.party_id,
        url=settings.url,
        store=store,
        engines=build_engines(parts),
        exchange=SpoolExchange(open_spool(settings, wakeups.exchange), secret, stream_sessions(settings)),
        files=JobFiles(settings),
        record=record,
        modules=providers.components,
        defaults=settings.defaults,
        rules=rules_of(settings),
        ceilings=settings.ceilings,
        quotas=settings.quotas,
        disk=disk_of(settings),
        disk_use=PartyDiskUse(settings),
        routes=settings.routes.keys(),
        clock=now_on_the_wall,
        fresh_id=lambda: secrets.token_hex(16),
        program_policy=ConfiguredProgramPolicy(settings.commands, settings.party_id),
        carry_out=effect_runner.take,
        queues=settings.queues,
        approval=settings.approval,
        subscribers=settings.notifications.subscribers,
        permission=settings.permission,
        site=settings.site,
        carries_streams=settings.has_gateway,
        why_no_stream=settings.why_no_stream,
        models=ModelStore(settings.models_dir),
        measures=measures or Unmeasured(),
        keeps_record=settings.recording.is_on,
        retry=Retry(make_space=reserve_of(settings).give_back),
    )


class EffectRunner:
    """A thread that carries out effects in their order: decisions must not wait for folders and files."""

    def __init__(self) -> None:
        self._effects: queue.SimpleQueue[BoundEffect | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def take(self, effects: Iterable[BoundEffect]) -> None:
        for effect in effects:
            self._effects.put(effect)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="effects", daemon=True)
                self._thread.start()

    def finish(self, seconds: float = 5.0) -> None:
        """Carry out the taken effects before a clean stop, as far as the time allows."""
        if self._thread is not None:
            self._effects.put(None)
            self._thread.join(seconds)

    def _work(self) -> None:
        while (effect := self._effects.get()) is not None:
            try:
                effect()
            except Exception as error:
                # The poll finds a failed effect again in the rows.
                log.error("an effect failed: %s", error, exc_info=not isinstance(error, DATABASE_AWAY))


class JobIds:
    """Job ids: FATE's digits (local time to the microsecond, a counter) and four random digits; at most 25.

    The ids of one process increase, even if its clock is set back; the random digits distinguish those of two
    processes."""

    def __init__(self, clock: Callable[[], datetime] = datetime.now) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last = datetime.min

    def __call__(self) -> str:
        with self._lock:
            self._last = max(self._clock(), self._last + timedelta(microseconds=1))
            return f"{self._last:%Y%m%d%H%M%S%f}0{secrets.randbelow(10_000):04d}"


def wake_scheduler(wakeup: Wakeup) -> Wake:
    """Return the function with which other processes notify the scheduler of written rows and received notices."""

    def wake(
        job_ids: Sequence[str], outbox: bool, queue: bool, informed_party: str, notices: Sequence[CapacityNotice]
    ) -> None:
        if outbox:
            wakeup.wake(b'{"outbox":1}')
        for start in range(0, len(job_ids), 64):
            wakeup.wake(json.dumps({"jobs": list(job_ids[start : start + 64])}).encode())
        if queue:
            wakeup.wake(json.dumps({"queue": informed_party}).encode())
        for some in _in_parts(notices):
            wakeup.wake(json.dumps({"room": [astuple(one) for one in some]}).encode())

    return wake


def _in_parts(notices: Sequence[CapacityNotice]) -> Iterator[list[CapacityNotice]]:
    """Yield the notices in parts that a wake-up can carry."""
    part, engines = list[CapacityNotice](), 0
    for one in notices:
        engines += len(one.places)
        if part and (len(part) == 16 or engines > MOST_PLACES):
            yield part
            part, engines = [], len(one.places)
        part.append(one)
    if part:
        yield part


class SenderLog:
    """The log of requests between parties, in the operators' audit log."""

    def __init__(self, record: OperatorLog) -> None:
        self._record = record

    def requested(self, job_id: str, url: str) -> None:
        self._record.emit(Event.HTTP_REQUEST, job_id=job_id, url=url)

    def answered(self, job_id: str, endpoint: str, body: Mapping[str, Any]) -> None:
        self._record.http_response(job_id, endpoint, json.dumps(body, separators=(",", ":")), body)


class Forwarder:
    """Forward a chunk of this party's worker to the server of another party, over kept-alive connections."""

    def __init__(
        self, settings: Settings, auth: SiteSignature | None, pinned: PinnedParties | None = None,
        measures: Measures | None = None,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._measures = measures or Unmeasured()
        self._http = PeerHttp(auth, settings.worker_threads, pinned, settings.dialed_socket, self._measures)

    def __call__(
        self, session: Session, role: str, party_id: str, chunk: Chunk, data: bytes
    ) -> ForwardReply:  # fmt: skip
        route = self._settings.routes.get(party_id)
        if route is None:
            return ForwardReply(404, f"party {party_id} has no route here")
        path = deliver_path(
            session.job_id, session.task_id, session.version, session.incarnation,
            Party(session.role, session.party_id), Party(role, party_id),
        )  # fmt: skip
        head = {**headers(self._settings.party_id, party_id), "Content-Type": "application/octet-stream"}
        try:
            response = self._http.post(
                f"{route.url}/v1{path}", data, head, seconds=_FORWARD_SECONDS, most_bytes=_LONGEST_REFUSAL,
                ca_file=route.ca_file, query=chunk.as_query(),
            )
        except (requests.RequestException, ValueError) as error:
            return ForwardReply(502, f"party {party_id} does not answer: {describe_network_error(error)}")
        self._measures.count(EXCHANGE_BYTES, party_id, SENT, by=len(data))
        return _forward_answer(response, party_id)


def stream_calls(settings: Settings) -> StreamCalls:
    """Return the check whether this party can open the streams of a job; without a gateway, others refuse them."""
    calls = GatewayCalls(settings.streams_socket) if settings.has_gateway else opens_all
    return StreamCalls(calls, call_backs_at_once(settings.http_threads))


def _forward_answer(response: PeerResponse, party_id: str) -> ForwardReply:
    """Return the result for a chunk. FATE's server lacks the path, and answers with HTTP status 200 and a retcode."""
    if response.status != HTTPStatus.OK:
        is_redirect = response.status < HTTPStatus.BAD_REQUEST
        return ForwardReply(response.status, "" if is_redirect else _refusal_text(response))
    try:
        answer = read_answer(response.document())
    except ValueError as error:
        return ForwardReply(HTTPStatus.BAD_GATEWAY, f"party {party_id} does not confirm the chunk: {error}")
    if answer.is_ok:
        return ForwardReply(HTTPStatus.OK)
    return ForwardReply(HTTPStatus.NOT_IMPLEMENTED, f"party {party_id} accepts no messages: {answer.retmsg[:200]}")


def _refusal_text(response: PeerResponse) -> str:
    """Return the reason in a refusal: that of a server like this one, or the beginning of any other body."""
    try:
        text = read_answer(response.document()).retmsg
    except ValueError:
        text = response.body.decode("utf-8", "replace")
    return text[:300]


def prepare_home(settings: Settings) -> None:
    """Make the folders of a home; only this user may read them and the database.

    Raise BadSettings if that fails. Later files of the server's processes are private by their umask. A log folder
    outside the home keeps its mode."""
    own = [settings.run_dir, settings.jobs_dir, settings.data_dir, settings.spool_dir, settings.uploads_dir]
    own += [settings.streams_dir, settings.models_dir, settings.shared_run_dir]
    for logs in (settings.log_dir, settings.server_log_dir):
        if logs.is_relative_to(settings.shared) or logs.is_relative_to(settings.home):
            own.append(logs)
    try:
        for folder in (settings.home, settings.log_dir, *own):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in own:
            # Programs of another user pass to their worker folders, also while the server starts again.
            is_passed = folder == settings.jobs_dir and settings.commands.user
            folder.chmod(PASSES if is_passed else 0o700)
        for file in settings.home.glob("fate_flow.sqlite*"):
            file.chmod(0o600)
    except OSError as error:
        raise BadSettings(f"home: {os_error_text(error)}") from error


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(value), encoding="utf-8")
    os.replace(draft, path)
