"""The scheduler process: a loop over events, with APScheduler's polls as a fallback for lost events.

Events come from wake-ups (other processes of this server, runners), from the peer senders (answers of other parties)
and from the poll. The loop takes all pending events at once, so that a burst costs one transaction.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler

from fate_flow.core.metrics.measures import SCHEDULER_SECONDS
from fate_flow.core.model.errors import DATABASE_AWAY
from fate_flow.core.model.job import Answer, Command, TaskKey
from fate_flow.core.wire.v1.heartbeat import HeartbeatReply
from fate_flow.core.wire.v1.paths import endpoint_of
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.peers.peer_senders import PartyState, PeerListener, PeerSender, PeerSenders
from fate_flow.peers.signature import SiteSignature
from fate_flow.records.measures.kept_measures import KeptMeasures
from fate_flow.records.operator_log.operator_log import SERVER_FOLDER
from fate_flow.relay.wakeup import Wakeup
from fate_flow.server.exporting.parts import export_work
from fate_flow.server.home_disk import LOOK_SECONDS, DiskWatch
from fate_flow.server.notifying.parts import notifying_work
from fate_flow.server.other_parties.answer_keys import expecting_answers
from fate_flow.server.other_parties.inquirers import inquirer_of
from fate_flow.server.other_parties.party_routes import RouteUrls, with_joined_routes
from fate_flow.server.party_disk import PartyDisk
from fate_flow.server.peer_tls import pinned_parties
from fate_flow.server.periodic.describer import Describer
from fate_flow.server.periodic.key_watch import LOOK_SECONDS as KEY_SECONDS
from fate_flow.server.periodic.key_watch import KeyWatch
from fate_flow.server.periodic.list_fetcher import ListFetcher
from fate_flow.server.periodic.log_keeper import LogKeeper
from fate_flow.server.periodic.periodic_work import PeriodicWork, stop_all
from fate_flow.server.periodic.record_keeping import record_keeper
from fate_flow.server.periodic.record_witnesses import record_work
from fate_flow.server.periodic.server_steps import ServerSteps, own_server
from fate_flow.server.periodic.stream_watch import StreamWatch
from fate_flow.server.periodic.warm_providers import WarmProviders
from fate_flow.server.runtime import (
    EffectRunner,
    SenderLog,
    Wakeups,
    build_context,
    keep_of,
    open_log,
    open_store,
    reserve_of,
    write_json,
)
from fate_flow.server.tracing.process_spans import ProcessSpans
from fate_flow.services.context.counted_record import RequestRecord
from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.context.ports import Context
from fate_flow.services.context.stopwatch import AwakeClock
from fate_flow.services.scheduling.events import (
    Answered,
    HeartbeatAnswered,
    JobChanged,
    OutboxFilled,
    PartyFails,
    PartySilent,
    QueueChanged,
    SchedulerEvent,
    WorkerChanged,
)
from fate_flow.services.scheduling.scheduler import Scheduler
from fate_flow.services.upkeep.maintenance import sweep_exchange
from fate_flow.services.upkeep.retention import RetentionSweeper
from fate_flow.settings.settings import Settings

log = logging.getLogger(__name__)

_MOST_EVENTS = 24
_MOST_PATIENCE = 5.0
_LONGEST_WORK = 10.0      # the longest time between two readings of the clock in a round, on a slow disk
_STAND_BY_SECONDS = 1.0   # between two looks whether the process that schedules still does
_SHARE_OF_POLLS = 0.05    # of a core: after a poll that took more, one is left out
_CLOCK_STEP = 1.0
ALIVE_SECONDS = 5.0
_TIDY_SECONDS, _TIDY_STAND_BY, _TIDY_PAUSE = 60.0, 2.0, 0.1


class SchedulerLoop:
    """The loop that owns a server's scheduler and passes events to it."""

    def __init__(
        self, settings: Settings, wakeups: Wakeups, worker_url: str, home_id: str, spans: ProcessSpans,
        auth: SiteSignature | None = None,
    ) -> None:  # fmt: skip
        self._wakeup: Wakeup = wakeups.scheduler
        self._events: deque[SchedulerEvent] = deque()
        self._record = open_log(settings)
        store = open_store(settings, self._record, wakeups)
        self._settings = settings = with_joined_routes(settings, store)
        self._effect_runner = EffectRunner()
        self._measures = measures = KeptMeasures(settings.measures_dir)
        self._spans = spans
        self._context = context = replace(
            build_context(settings, wakeups, worker_url, self._record, store, self._effect_runner, measures),
            spans=spans.start("scheduler"),
        )
        self._requests = RequestRecord(replace(context, specs={})) if context.keeps_record else None
        sent = self._requests.sent if self._requests else None
        listener = PeerListener(self._on_answers, self._on_heartbeat, self._on_silence, self._on_failure)
        self._senders = PeerSenders(self._sender, listener)
        self._listener = listener
        self._auth = expecting_answers(auth, settings, store)
        self._pinned = pinned_parties(settings, store)
        owner = f"{home_id}-{secrets.token_hex(8)}"
        self._clock = AwakeClock(time.monotonic)
        self._scheduler = Scheduler(context, self._senders, owner, home_id, self._clock)
        self._is_poll_due = True
        self._leaves_out_a_poll = False
        self._is_beat_due = False
        self._is_stopping = False
        self._alive_count = 0
        limits = settings.limits
        self._ticks = Ticks()
        self._ticks.every(limits.poll_interval, self._poll_due)
        self._ticks.every(limits.heartbeat_interval, self._beat_due)
        self._ticks.every(ALIVE_SECONDS, self._show_alive)
        self._ticks.every(LOOK_SECONDS, DiskWatch(settings.party_id, context.disk).look)
        self._ticks.every(LOOK_SECONDS, reserve_of(settings).keep)
        own = OwnKeys(settings.party_id, settings.keys_dir, settings.private_key, context.clock)
        self._ticks.every(KEY_SECONDS, KeyWatch(context, own.last_list, time.monotonic).look)
        # With its own cache of parsed documents: another thread must not change that of the scheduler.
        tidying = replace(context, specs={})
        retention, disk = _sweeper(settings, tidying), PartyDisk(settings, tidying)
        inquirer = inquirer_of(settings, self._auth, self._pinned, measures, on_request=sent)
        self._record_work = record_work(
            settings, replace(context, specs={}), inquirer, lambda: self._scheduler.is_in_charge, store.close,
            wakeups.sealer, store.without_sync,
        ) if context.keeps_record else None
        self._beside: tuple[PeriodicWork, ...] = (
            Tidier(retention, disk.measure, lambda: self._scheduler.is_in_charge, store.close),
            LogKeeper(settings, self._at_work, store.close),
            ListFetcher(context, inquirer.ask, lambda: self._scheduler.is_in_charge, store.close),
            *((StreamWatch(replace(context, specs={}), store.close),) if settings.has_gateway else ()),
            *(self._record_work.threads if self._record_work else ()),
            *export_work(settings, replace(context, specs={}), lambda: self._scheduler.is_in_charge, store.close),
            *(_of_providers(settings, store.close) if settings.providers else ()),
            *notifying_work(
                settings, replace(context, specs={}), lambda: self._scheduler.is_in_charge, store.close
            ),
        )

    # ------------------------------------------------------------------ events

    def _sender(self, party_id: str) -> PeerSender | None:
        route = self._settings.routes.get(party_id)
        if route is None:
            return None
        limits, record = self._settings.limits, SenderLog(self._record)
        return PeerSender(
            party_id, route.url, self._settings.party_id, endpoint_of, self._listener, record,
            limits.longest_answer, limits.party_silence, auth=self._auth,
            says_who=self._scheduler.context.read(lambda tx: tx.says_who(party_id)),
            longest_gap=limits.heartbeat_interval + min(_LONGEST_WORK, limits.party_silence / 2), ca_file=route.ca_file,
            pinned=self._pinned, dialed=self._settings.dialed_socket, measures=self._measures,
            spans=self._context.spans, heads=self._record_work.heads if self._record_work else None,
            on_request=self._requests.sent if self._requests else None,
        )  # fmt: skip

    def _on_answers(self, answers: list[tuple[Command, Answer]]) -> None:
        self._events.extend(Answered(command, answer) for command, answer in answers)
        self._wakeup.wake()

    def _on_heartbeat(self, party_id: str, reply: HeartbeatReply, runs: Mapping[str, int]) -> None:
        if reply.is_new or self._scheduler.is_unsure_of(party_id):
            self._events.append(HeartbeatAnswered(party_id, reply.ended, runs, reply.way_back, reply.reports))
            self._wakeup.wake()

    def _on_silence(self, party_id: str, seconds: float) -> None:
        self._events.append(PartySilent(party_id, seconds))
        self._wakeup.wake()

    def _on_failure(self, party_id: str, seconds: float, error: str) -> None:
        self._events.append(PartyFails(party_id, seconds, error))
        self._wakeup.wake()

    def _poll_due(self) -> None:
        self._is_poll_due = True
        self._wakeup.wake()

    def _beat_due(self) -> None:
        self._is_beat_due = True
        self._wakeup.wake()

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._ticks.start()
        if self._record_work is None:
            ServerSteps(self._context, own_server(self._settings)).is_off()
        for work in self._beside:
            work.start()
        try:
            while not self._is_stopping:
                self._round()
        finally:
            self._ticks.stop()
            stop_all(self._beside)
            self._senders.close()
            self._scheduler.release_scheduler_lease()
            if self._requests:
                self._requests.finish()
            self._effect_runner.finish()
            self._spans.finish()
            self._record.close()

    def _stop(self, _number: int, _frame: object) -> None:
        self._is_stopping = True
        self._wakeup.wake()

    def _round(self) -> None:
        try:
            self._ticks.keep_going()
            patience = self._patience()
            self._clock.expect(patience)
            payloads = self._wakeup.wait(patience)
            self._clock.expect(_LONGEST_WORK)
            self._take_events(payloads)
            if self._scheduler.is_chosen():
                begin = time.monotonic()
                self._work()
                self._measures.observe(SCHEDULER_SECONDS, value=time.monotonic() - begin)
            else:
                self._stand_by()
        except Exception as error:
            # The loop must survive every error of a round; the poll finds what was missed.
            log.error("a round of the scheduler failed: %s", error, exc_info=not isinstance(error, DATABASE_AWAY))
            self._is_poll_due = True
            time.sleep(0.2)

    def _patience(self) -> float:
        if self._events or self._is_poll_due:
            return 0.0
        if not self._scheduler.is_in_charge:
            return _STAND_BY_SECONDS
        alarm = self._scheduler.seconds_to_alarm()
        return _MOST_PATIENCE if alarm is None else min(_MOST_PATIENCE, alarm)

    def _stand_by(self) -> None:
        """Wait while another process schedules."""
        self._events.clear()
        self._senders.forget()
        if self._is_poll_due:
            # Sweep the spool of this home: a scheduling process of a home that shares nothing does not see it.
            self._context.read(lambda tx: sweep_exchange(self._context, tx))
        self._is_poll_due = self._is_beat_due = False

    def _work(self) -> None:
        while self._events:
            some = [self._events.popleft() for _ in range(min(len(self._events), _MOST_EVENTS))]
            self._scheduler.step(some)
        self._scheduler.fire_alarms()
        if self._is_poll_due:
            self._is_poll_due = False
            self._poll()
        if self._is_beat_due:
            self._is_beat_due = False
            self._scheduler.beat()
            self._senders.report_silence()
            self._show_peers()

    def _poll(self) -> None:
        if self._leaves_out_a_poll:
            self._leaves_out_a_poll = False
            self._scheduler.stay_in_charge()
            return
        begun = time.thread_time()
        self._scheduler.poll()
        took = time.thread_time() - begun
        self._leaves_out_a_poll = took > _SHARE_OF_POLLS * self._settings.limits.poll_interval

    def _take_events(self, payloads: list[bytes]) -> None:
        fresh: dict[SchedulerEvent, None] = {}
        for payload in payloads:
            for one in read_wakeup(payload):
                fresh[one] = None
        self._events.extend(fresh)

    def _at_work(self) -> set[TaskKey]:
        return {worker.task for worker in self._context.read(lambda tx: tx.unfinished_workers())}

    # ------------------------------------------------------------------ published state

    def _show_alive(self) -> None:
        """Rewrite the file that runners watch: if it stops changing, the server is gone."""
        self._alive_count += 1
        for path in dict.fromkeys((self._settings.alive_file, self._settings.lease_file)):
            # The same length each time, over the old content: this works on a full disk, too.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.pwrite(descriptor, b"%020d %010d" % (time.time_ns(), self._alive_count), 0)
            finally:
                os.close(descriptor)

    def _show_peers(self) -> None:
        """Write the state of the connections to other parties, for `flow party list`."""
        self._senders.follow(RouteUrls(self._settings.routes))
        states = {state.party_id: _shown(state) for state in self._senders.states()}
        try:
            write_json(self._settings.shared_run_dir / "peers.json", states)
        except OSError as error:
            log.warning("the state of other parties cannot be shown: %s", error)


class Ticks:
    """APScheduler's intervals. They depend on the wall clock: setting it back would stop them for that time."""

    def __init__(
        self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._offset = wall() - monotonic()
        self._timer = BackgroundScheduler(timezone="UTC", job_defaults={"coalesce": True, "misfire_grace_time": None})

    def every(self, seconds: float, act: Callable[[], None]) -> None:
        self._timer.add_job(act, "interval", seconds=seconds)

    def start(self) -> None:
        self._timer.start()

    def stop(self) -> None:
        self._timer.shutdown(wait=False)

    def keep_going(self) -> None:
        """Restart every interval if the clock was set; call this every few seconds."""
        offset = self._wall() - self._monotonic()
        if abs(offset - self._offset) < _CLOCK_STEP:
            return
        log.warning("the clock was set by %+.0f s", offset - self._offset)
        self._offset = offset
        for job in self._timer.get_jobs():
            job.modify(next_run_time=datetime.now(UTC))


def _sweeper(settings: Settings, context: Context) -> RetentionSweeper:
    return RetentionSweeper(context, keep_of(settings), record_keeper(settings, context))


class Tidier(PeriodicWork):
    """A thread that removes old data and measures the rest, so that no tick waits for it."""

    def __init__(
        self, retention: RetentionSweeper, measure: Callable[[], None], may_work: Callable[[], bool],
        close: Callable[[], None],
    ) -> None:  # fmt: skip
        """`measure` is called once all that is due was removed."""
        failure = "removing old data failed; it is tried again later"
        super().__init__("tidier", failure, close, first=_TIDY_PAUSE, again=_TIDY_SECONDS)
        self._retention, self._measure, self._may_work = retention, measure, may_work

    def step(self) -> float:
        """Remove a few pieces."""
        if not self._may_work():
            return _TIDY_STAND_BY
        if self._retention.step():
            return _TIDY_PAUSE
        self._measure()
        return _TIDY_SECONDS


def _shown(state: PartyState) -> dict[str, Any]:
    return {
        "party_id": state.party_id,
        "url": state.url,
        "circuit": state.circuit,
        "silent_seconds": round(state.silent_seconds, 1),
        "commands_waiting": state.waiting,
        "error": state.error,
        "failures": state.failures,
        "next_try_seconds": round(state.next_try_seconds, 1),
        "round_trip_ms": state.round_trip_ms,
        "back_ms": state.back_ms,
        "answered_at": None if state.answered_seconds is None else round((time.time() - state.answered_seconds) * 1000),
    }


def read_wakeup(payload: bytes) -> list[SchedulerEvent]:
    """Return the events that `wake_scheduler` has put into a datagram; none if it has put none there."""
    try:
        message = json.loads(payload)
    except ValueError:
        return []
    if not isinstance(message, dict):
        return []
    if "worker" in message:
        return [WorkerChanged(str(message["worker"]))]
    events: list[SchedulerEvent] = [JobChanged(str(job_id)) for job_id in message.get("jobs", ())]
    if "outbox" in message:
        events.append(OutboxFilled())
    if "queue" in message:
        events.append(QueueChanged(str(message["queue"])))
    for job_id, party_id, cores, places in message.get("room", ()):
        events.append(CapacityNotice(job_id, party_id, cores, tuple((tag, free) for tag, free in places)))
    return events


def _of_providers(settings: Settings, close: Callable[[], None]) -> tuple[PeriodicWork, ...]:
    places, folder = settings.providers, settings.providers_dir
    logs = settings.server_log_dir / SERVER_FOLDER
    return Describer(places, folder, close), WarmProviders(places, folder, logs, close)
