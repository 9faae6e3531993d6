"""Commands on their way to other parties: one lane a party, so that a slow one delays nobody else.

A lane sends in order, one request at a time, several commands in one when the peer understands that. What must
arrive is kept and tried again with growing pauses until it has an answer; what may fail (`create`, `check`,
`apply`) fails at once, and while a party does not answer, without being sent. Answers go back as news.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from fate_flow.core.job import UNREACHABLE, Answer, Command, CommandKind
from fate_flow.federation.wire import body_of, headers, read_answer

log = logging.getLogger(__name__)

MAY_FAIL = frozenset({CommandKind.CREATE, CommandKind.CHECK, CommandKind.APPLY})
_MOST_AT_ONCE = 64
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 15.0
_CONNECT_TIMEOUT = 5.0

OnAnswers = Callable[[list[tuple[Command, Answer]]], None]
OnHeartbeat = Callable[[str, Mapping[str, str]], None]
OnSilence = Callable[[str, float], None]
Endpoint = Callable[[Command], str]


class ExchangeLog:
    """What the lanes tell the audit log."""

    def requested(self, job_id: str, url: str) -> None: ...

    def answered(self, job_id: str, endpoint: str, body: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class Ears:
    """Who is told what."""

    answers: OnAnswers
    heartbeat: OnHeartbeat
    silence: OnSilence


@dataclass
class PartyState:
    """What is known of a party's server, for `flow party list`."""

    party_id: str
    url: str
    is_answering: bool = True
    silent_seconds: float = 0.0
    waiting: int = 0
    extensions: tuple[str, ...] = ()


@dataclass
class _Health:
    silent_since: float | None = None
    next_try: float = 0.0
    pause: float = _FIRST_PAUSE
    error: str = ""


@dataclass
class Lane:
    """The way to one party: a thread, a queue, a kept-alive connection."""

    party_id: str
    url: str
    own_party_id: str
    endpoint_of: Endpoint
    ears: Ears
    record: ExchangeLog
    timeout: float
    party_silence: float
    _queue: deque[Command] = field(default_factory=deque)
    _heartbeat: tuple[tuple[str, int], ...] | None = None
    _wake: threading.Condition = field(default_factory=threading.Condition)
    _health: _Health = field(default_factory=_Health)
    _understands_batches: bool = False
    _is_closed: bool = False

    def __post_init__(self) -> None:
        self._session = requests.Session()
        self._session.trust_env = False          # a proxy of the environment is not between parties
        adapter = HTTPAdapter(pool_connections=1, pool_maxsize=1)
        self._session.mount("http://", adapter)
        self._session.mount("https://", adapter)
        self._thread = threading.Thread(target=self._run, name=f"lane-{self.party_id}", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------ from the scheduler

    def post(self, commands: list[Command]) -> None:
        with self._wake:
            self._queue.extend(commands)
            self._wake.notify()

    def beat(self, jobs: tuple[tuple[str, int], ...]) -> None:
        """Send a sign of life; an older one that has not left yet is replaced."""
        with self._wake:
            self._heartbeat = jobs
            self._wake.notify()

    def close(self) -> None:
        with self._wake:
            self._is_closed = True
            self._wake.notify()

    def state(self) -> PartyState:
        silent = self._health.silent_since
        return PartyState(
            self.party_id, self.url, silent is None, time.monotonic() - silent if silent else 0.0, len(self._queue)
        )

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._is_closed and not self._has_work():
                    self._wake.wait(self._patience())
                if self._is_closed:
                    return
                batch, heartbeat = self._take()
            try:
                self._work(batch, heartbeat)
            except Exception:    # noqa: BLE001  # a lane must survive whatever one answer does to it
                log.exception("lane to party %s", self.party_id)
                self._failed(batch, "internal error")

    def _has_work(self) -> bool:
        if not self._queue and self._heartbeat is None:
            return False
        return time.monotonic() >= self._health.next_try or self._first_may_fail()

    def _first_may_fail(self) -> bool:
        return any(command.kind in MAY_FAIL for command in self._queue)

    def _patience(self) -> float | None:
        if not self._queue and self._heartbeat is None:
            return None
        return max(0.01, self._health.next_try - time.monotonic())

    def _take(self) -> tuple[list[Command], tuple[tuple[str, int], ...] | None]:
        if time.monotonic() < self._health.next_try:
            return self._take_hopeless(), None
        most = _MOST_AT_ONCE if self._understands_batches else 1
        batch = [self._queue.popleft() for _ in range(min(most, len(self._queue)))]
        heartbeat, self._heartbeat = self._heartbeat, None
        return batch, heartbeat

    def _take_hopeless(self) -> list[Command]:
        """While the party is known not to answer, what may fail fails without waiting for it."""
        hopeless = [command for command in self._queue if command.kind in MAY_FAIL]
        kept = [command for command in self._queue if command.kind not in MAY_FAIL]
        self._queue.clear()
        self._queue.extend(kept)
        return hopeless

    def _work(self, batch: list[Command], heartbeat: tuple[tuple[str, int], ...] | None) -> None:
        if batch and time.monotonic() < self._health.next_try:
            self.ears.answers([(command, self._unreachable()) for command in batch])
            return
        if heartbeat is not None:
            self._send_heartbeat(heartbeat)
        if batch:
            self._send(batch)

    def _unreachable(self) -> Answer:
        return Answer(UNREACHABLE, f"Federated schedule error, party {self.party_id}: {self._health.error}")

    # ------------------------------------------------------------------ requests

    def _send(self, batch: list[Command]) -> None:
        try:
            answers = self._exchange(batch)
        except (requests.RequestException, ValueError) as error:
            self._failed(batch, _words(error))
            return
        self._answered()
        self._learn(batch, answers)
        self.ears.answers(list(zip(batch, answers, strict=True)))

    def _exchange(self, batch: list[Command]) -> list[Answer]:
        for command in batch:
            self.record.requested(command.job_id, f"{self.url}/v1{self.endpoint_of(command)}")
        if len(batch) == 1:
            documents = [self._post(self.endpoint_of(batch[0]), body_of(batch[0]))]
        else:
            commands = [{"endpoint": self.endpoint_of(one), "body": body_of(one)} for one in batch]
            documents = self._batch_answers(self._post("/party/batch", {"commands": commands}), len(batch))
        for command, document in zip(batch, documents, strict=True):
            self.record.answered(command.job_id, f"/v1{self.endpoint_of(command)}", document)
        return [read_answer(document) for document in documents]

    def _batch_answers(self, document: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
        data = document.get("data")
        if not isinstance(data, list) or len(data) != count:
            raise ValueError(f"the answer to a batch of {count} is {str(document)[:200]}")
        return data

    def _post(self, endpoint: str, body: Mapping[str, Any]) -> dict[str, Any]:
        data = json.dumps(body, separators=(",", ":"))
        head = {**headers(self.own_party_id, self.party_id), "Content-Type": "application/json"}
        timeout = (_CONNECT_TIMEOUT, self.timeout)
        url = f"{self.url}/v1{endpoint}"
        try:
            response = self._session.post(url, data=data, headers=head, timeout=timeout)
        except requests.exceptions.ConnectionError as error:
            if isinstance(error, requests.exceptions.Timeout):
                raise
            # A kept-alive connection that the peer closed in between; every command may come twice.
            response = self._session.post(url, data=data, headers=head, timeout=timeout)
        if not response.ok:
            raise ValueError(f"HTTP {response.status_code}: {response.text[:200]}")
        document = response.json()
        if not isinstance(document, dict):
            raise ValueError(f"the answer is not an object: {response.text[:200]}")
        return document

    def _send_heartbeat(self, jobs: tuple[tuple[str, int], ...]) -> None:
        try:
            document = self._post("/party/heartbeat", {"jobs": [list(one) for one in jobs]})
        except (requests.RequestException, ValueError) as error:
            self._failed([], _words(error))
            return
        self._answered()
        data = document.get("data")
        if not isinstance(data, dict):
            return      # a plain v1 peer has no such route and says so; that it answered is all we learn
        self._learn_extensions(data)
        ended = data.get("ended", {})
        self.ears.heartbeat(self.party_id, {str(k): str(v) for k, v in ended.items()})

    # ------------------------------------------------------------------ health

    def _answered(self) -> None:
        if self._health.silent_since is not None:
            log.warning("party %s answers again after %.0f s", self.party_id, time.monotonic() - self._health.silent_since)
        self._health = _Health()

    def _failed(self, batch: list[Command], error: str) -> None:
        health, now = self._health, time.monotonic()
        if health.silent_since is None:
            log.warning("party %s does not answer: %s", self.party_id, error)
            health.silent_since = now
        health.error = error
        health.next_try = now + health.pause
        health.pause = min(health.pause * 2, _LONGEST_PAUSE)
        with self._wake:
            self._queue.extendleft(reversed([one for one in batch if one.kind not in MAY_FAIL]))
        lost = [(one, self._unreachable()) for one in batch if one.kind in MAY_FAIL]
        if lost:
            self.ears.answers(lost)
        if now - health.silent_since > self.party_silence:
            self.ears.silence(self.party_id, now - health.silent_since)

    def _learn(self, batch: list[Command], answers: list[Answer]) -> None:
        """Extensions are announced in the answer to `create`, and by a heartbeat's, for who was restarted since."""
        for command, answer in zip(batch, answers, strict=True):
            if command.kind is CommandKind.CREATE and answer.is_ok and isinstance(answer.data, dict):
                self._learn_extensions(answer.data)

    def _learn_extensions(self, data: Mapping[str, Any]) -> None:
        extensions = data.get("extensions")
        self._understands_batches = isinstance(extensions, dict) and "batch" in extensions


def _words(error: Exception) -> str:
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return "no connection in time"
    if isinstance(error, requests.exceptions.Timeout):
        return "no answer in time"
    if isinstance(error, requests.exceptions.ConnectionError):
        return "connection refused or lost"
    return str(error)[:300]


class Lanes:
    """All lanes of one server; the transport of its scheduler."""

    def __init__(self, make_lane: Callable[[str], Lane | None], ears: Ears) -> None:
        self._make_lane = make_lane
        self._ears = ears
        self._lanes: dict[str, Lane] = {}

    def post(self, commands: tuple[Command, ...]) -> None:
        by_party: dict[str, list[Command]] = {}
        for command in commands:
            by_party.setdefault(command.to.party_id, []).append(command)
        for party_id, its in by_party.items():
            lane = self._lane(party_id)
            if lane is None:
                answer = Answer(UNREACHABLE, f"party {party_id} has no route here")
                self._ears.answers([(command, answer) for command in its])
            else:
                lane.post(its)

    def heartbeat(self, party_id: str, jobs: tuple[tuple[str, int], ...]) -> None:
        lane = self._lane(party_id)
        if lane is not None:
            lane.beat(jobs)

    def states(self) -> list[PartyState]:
        return [lane.state() for lane in self._lanes.values()]

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()

    def _lane(self, party_id: str) -> Lane | None:
        if party_id not in self._lanes:
            lane = self._make_lane(party_id)
            if lane is None:
                return None
            self._lanes[party_id] = lane
        return self._lanes[party_id]
