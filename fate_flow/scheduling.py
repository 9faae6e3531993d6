"""The scheduler process: a loop over news, with APScheduler's polls as the net below.

News come from the bell (other processes of this server, runners), from the lanes (answers of other parties) and from
the poll; the loop takes all that is there at once, so that a burst costs one transaction.
"""

from __future__ import annotations

import json
import logging
import secrets
import signal
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler

from fate_flow.coordinator.initiator import endpoint_of
from fate_flow.coordinator.scheduler import (
    Answered,
    HeartbeatAnswered,
    JobChanged,
    News,
    OutboxFilled,
    PartySilent,
    QueueChanged,
    Scheduler,
    WorkerChanged,
)
from fate_flow.core.job import Answer, Command
from fate_flow.federation.lanes import Ears, Lane, Lanes, PartyState
from fate_flow.federation.wake import Bell
from fate_flow.runtime import Bells, Hands, LaneLog, build_context, open_log, open_store, write_json
from fate_flow.settings import Settings

log = logging.getLogger(__name__)

_MOST_NEWS = 24
_ALIVE_SECONDS = 5.0


class SchedulerLoop:
    """Owns the scheduler of a server and feeds it."""

    def __init__(self, settings: Settings, bells: Bells, worker_url: str, lineage: str) -> None:
        self._settings = settings
        self._bell: Bell = bells.scheduler
        self._news: deque[News] = deque()
        self._record = open_log(settings)
        store = open_store(settings, self._record)
        self._hands = Hands()
        context = build_context(settings, bells, worker_url, self._record, store, self._hands)
        ears = Ears(self._heard_answers, self._heard_heartbeat, self._heard_silence)
        self._lanes = Lanes(self._lane, ears)
        self._ears = ears
        owner = f"{lineage}-{secrets.token_hex(8)}"
        self._scheduler = Scheduler(context, self._lanes, owner, lineage, time.monotonic)
        self._is_poll_due = True
        self._is_beat_due = False
        self._is_stopping = False
        self._alive_count = 0

    # ------------------------------------------------------------------ what wakes it

    def _lane(self, party_id: str) -> Lane | None:
        route = self._settings.routes.get(party_id)
        if route is None:
            return None
        limits = self._settings.limits
        return Lane(
            party_id, route.url, self._settings.party_id, endpoint_of, self._ears, LaneLog(self._record),
            limits.remote_request_timeout, limits.party_silence,
        )  # fmt: skip

    def _heard_answers(self, answers: list[tuple[Command, Answer]]) -> None:
        self._news.extend(Answered(command, answer) for command, answer in answers)
        self._bell.ring()

    def _heard_heartbeat(self, party_id: str, ended: Mapping[str, str]) -> None:
        if ended:
            self._news.append(HeartbeatAnswered(party_id, ended))
            self._bell.ring()

    def _heard_silence(self, party_id: str, seconds: float) -> None:
        self._news.append(PartySilent(party_id, seconds))
        self._bell.ring()

    def _poll_due(self) -> None:
        self._is_poll_due = True
        self._bell.ring()

    def _beat_due(self) -> None:
        self._is_beat_due = True
        self._bell.ring()

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        timer = self._timer()
        timer.start()
        try:
            while not self._is_stopping:
                self._round()
        finally:
            timer.shutdown(wait=False)
            self._lanes.close()
            self._scheduler.resign()
            self._hands.finish()
            self._record.close()

    def _timer(self) -> BackgroundScheduler:
        limits = self._settings.limits
        timer = BackgroundScheduler(timezone="UTC", job_defaults={"coalesce": True, "misfire_grace_time": None})
        timer.add_job(self._poll_due, "interval", seconds=limits.poll_interval)
        timer.add_job(self._beat_due, "interval", seconds=limits.heartbeat_interval)
        timer.add_job(self._show_alive, "interval", seconds=_ALIVE_SECONDS)
        return timer

    def _stop(self, _number: int, _frame: object) -> None:
        self._is_stopping = True
        self._bell.ring()

    def _round(self) -> None:
        try:
            self._take_news(self._bell.wait(self._patience()))
            if self._scheduler.is_chosen():
                self._work()
            else:
                self._stand_by()
        except Exception:
            # The loop must survive whatever one round runs into; what was missed is found by the poll.
            log.exception("a round of the scheduler failed")
            self._is_poll_due = True
            time.sleep(0.2)

    def _patience(self) -> float:
        if self._news or self._is_poll_due:
            return 0.0
        alarm = self._scheduler.next_alarm()
        return 5.0 if alarm is None else max(0.0, min(5.0, alarm / 1000 - time.time()))

    def _stand_by(self) -> None:
        """Another process schedules: nothing to do until the next poll looks whether it still does."""
        self._news.clear()
        self._is_poll_due = self._is_beat_due = False

    def _work(self) -> None:
        while self._news:
            some = [self._news.popleft() for _ in range(min(len(self._news), _MOST_NEWS))]
            self._scheduler.step(some)
        is_alarm = self._scheduler.ring_alarms(time.time_ns() // 1_000_000)
        if self._is_poll_due or is_alarm:
            self._is_poll_due = False
            self._scheduler.poll()
        if self._is_beat_due:
            self._is_beat_due = False
            self._scheduler.beat()
            self._show_peers()

    def _take_news(self, payloads: list[bytes]) -> None:
        fresh: dict[News, None] = {}
        for payload in payloads:
            for one in _read(payload):
                fresh[one] = None
        self._news.extend(fresh)

    # ------------------------------------------------------------------ what it shows

    def _show_alive(self) -> None:
        """Workers' runners watch this file stand still when the server is gone."""
        self._alive_count += 1
        (self._settings.run_dir / "alive").write_text(f"{time.time_ns()} {self._alive_count}", encoding="ascii")

    def _show_peers(self) -> None:
        """The state of the ways to other parties, for `flow party list`."""
        states = {state.party_id: _shown(state) for state in self._lanes.states()}
        write_json(self._settings.run_dir / "peers.json", states)


def _shown(state: PartyState) -> dict[str, Any]:
    return {
        "party_id": state.party_id,
        "url": state.url,
        "is_answering": state.is_answering,
        "silent_seconds": round(state.silent_seconds, 1),
        "commands_waiting": state.waiting,
    }


def _read(payload: bytes) -> list[News]:
    try:
        message = json.loads(payload)
    except ValueError:
        return []
    if not isinstance(message, dict):
        return []
    if "worker" in message:
        return [WorkerChanged(Path(str(message["worker"])).name)]
    news: list[News] = [JobChanged(str(job_id)) for job_id in message.get("jobs", ())]
    if "outbox" in message:
        news.append(OutboxFilled())
    if "queue" in message:
        news.append(QueueChanged())
    return news

