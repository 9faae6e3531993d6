"""Commands on their way to other parties: one lane a party, so that a slow one delays nobody else.

A lane sends in order, one request at a time, several commands in one when the peer understands that. What must
arrive is kept and tried again with growing pauses until it has an answer; what may fail (`create`, `check`, `apply`,
`collect`, `room`) fails at once, and while a party does not answer, without being sent. Only `create`, for which a
user waits, is sent all the same: the party may be back since it was asked last. Answers go back as news.

Only what the party itself says is an answer. A server of ours says with each whose it is; one that says another party,
or nothing where the party has said it before, is a stranger at its address, and the party counts as silent.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase

from fate_flow.core.job import NOT_AUTHENTICATED, UNREACHABLE, Answer, Command, CommandKind
from fate_flow.core.text import plain
from fate_flow.federation.wire import SRC_PARTY_ID, body_of, headers, read_answer, stranger

log = logging.getLogger(__name__)

MAY_FAIL = frozenset(
    {
        CommandKind.CREATE, CommandKind.CHECK, CommandKind.APPLY, CommandKind.TASK_COLLECT, CommandKind.LOOK_AGAIN,
        CommandKind.ROOM,
    }
)
_MOST_AT_ONCE = 64
_LONGEST_PAUSE = 5.0
_CONNECT_TIMEOUT = 5.0
_LONGEST_ANSWER = 16 * 1024 * 1024
_LONGEST_WORDS = 250         # of another server, in what is told of it
_NO_ANSWER = (requests.RequestException, ValueError, RecursionError)
"""None that can be used: nobody there, an error, or something that is not JSON as we know it."""

OnAnswers = Callable[[list[tuple[Command, Answer]]], None]
OnHeartbeat = Callable[[str, Mapping[str, str], Mapping[str, int]], None]
"""Called with the party, the jobs that are over there with the reason, and by job the run it was asked about."""
OnSilence = Callable[[str, float], None]
Endpoint = Callable[[Command], str]


class ExchangeLog(Protocol):
    """What the lanes tell the audit log."""

    def requested(self, job_id: str, url: str) -> None: ...

    def answered(self, job_id: str, endpoint: str, body: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class Ears:
    """Who is told what."""

    answers: OnAnswers
    heartbeat: OnHeartbeat
    silence: OnSilence


CLOSED, OPEN, PROBING = "closed", "open", "probing"
"""The circuit to a party: it answers; it does not and is left alone for a pause; it is asked whether it is back."""


@dataclass
class PartyState:
    """What is known of a party's server, for `flow party list`."""

    party_id: str
    url: str
    circuit: str = CLOSED
    silent_seconds: float = 0.0
    waiting: int = 0                 # commands
    error: str = ""                  # of the last try, while it does not answer
    failures: int = 0                # tries since it answered last
    next_try_seconds: float = 0.0

    @property
    def is_answering(self) -> bool:
        return self.circuit == CLOSED


@dataclass
class _Health:
    """Since when a party has not answered, and when it is asked again."""

    silent_since: float | None = None
    last_try: float = 0.0
    next_try: float = 0.0
    pause: float = 0.0
    error: str = ""
    failures: int = 0


@dataclass(frozen=True)
class _Work:
    """What a lane does next."""

    hopeless: list[Command] = field(default_factory=list)       # to be answered without being sent
    batch: list[Command] = field(default_factory=list)
    heartbeat: tuple[tuple[str, int], ...] | None = None


@dataclass
class Lane:
    """The way to one party: a thread, a queue, a kept-alive connection."""

    party_id: str
    url: str
    own_party_id: str
    endpoint_of: Endpoint
    ears: Ears
    record: ExchangeLog
    timeout: float                   # seconds an answer may take
    party_silence: float             # seconds after which the party counts as lost
    first_pause: float = 0.25        # seconds until the first retry; each further one waits twice as long
    probe_pause: float = 1.0         # seconds after a failed try in which not even `create` is tried
    auth: AuthBase | None = None     # signs each try
    says_who: bool = False           # it is known to say who it is when it answers
    _queue: deque[Command] = field(default_factory=deque)
    _heartbeat: tuple[tuple[str, int], ...] | None = None
    _wake: threading.Condition = field(default_factory=threading.Condition)
    _health: _Health = field(default_factory=_Health)
    _understands_batches: bool = False
    _is_asking: bool = False
    _asked_at: float = 0.0
    _is_given_up: bool = False       # what is being sent is not to be sent again
    _is_closed: bool = False

    def __post_init__(self) -> None:
        self._session = requests.Session()
        self._session.trust_env = False          # a proxy of the environment is not between parties
        self._session.auth = self.auth
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

    def forget(self) -> None:
        """Send nothing of what waits: it is another process's to send now."""
        with self._wake:
            self._queue.clear()
            self._heartbeat = None
            self._is_given_up = True

    def tell_silence(self) -> None:
        """Say so when the party has not answered for too long; to be called now and then."""
        since = self._health.silent_since
        seconds = time.monotonic() - since if since is not None else 0.0
        if seconds > self.party_silence:
            self.ears.silence(self.party_id, seconds)

    def close(self) -> None:
        with self._wake:
            self._is_closed = True
            self._wake.notify()

    def state(self) -> PartyState:
        health, now = self._health, time.monotonic()
        if health.silent_since is None:
            return PartyState(self.party_id, self.url, waiting=len(self._queue))
        circuit = PROBING if self._is_asking or now >= health.next_try else OPEN
        return PartyState(
            self.party_id, self.url, circuit, now - health.silent_since, len(self._queue), health.error,
            health.failures, max(0.0, health.next_try - now),
        )  # fmt: skip

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._is_closed and not self._has_work():
                    self._wake.wait(self._patience())
                if self._is_closed:
                    self._session.close()
                    return
                work = self._take_hopeless() if self._is_pausing() else self._take()
            try:
                self._do(work)
            except Exception:
                # A lane must survive whatever one answer does to it.
                log.exception("lane to party %s", self.party_id)
                self._failed(work.batch, "internal error")

    def _is_pausing(self) -> bool:
        """It did not answer, and it is not yet time to ask again."""
        now = time.monotonic()
        if now >= self._health.last_try + self.probe_pause and self._is_wanted_now():
            return False
        return now < self._health.next_try

    def _is_wanted_now(self) -> bool:
        return any(command.kind is CommandKind.CREATE for command in self._queue)

    def _has_work(self) -> bool:
        if self._is_pausing():
            return any(command.kind in MAY_FAIL for command in self._queue)
        return bool(self._queue) or self._heartbeat is not None

    def _patience(self) -> float | None:
        if not self._queue and self._heartbeat is None:
            return None
        return max(0.01, self._health.next_try - time.monotonic())

    def _take(self) -> _Work:
        most = _MOST_AT_ONCE if self._understands_batches else 1
        batch = [self._queue.popleft() for _ in range(min(most, len(self._queue)))]
        heartbeat, self._heartbeat = self._heartbeat, None
        self._is_asking, self._asked_at, self._is_given_up = True, time.monotonic(), False
        return _Work(batch=batch, heartbeat=heartbeat)

    def _take_hopeless(self) -> _Work:
        """While the party is known not to answer, what may fail fails without waiting for it."""
        hopeless = [command for command in self._queue if command.kind in MAY_FAIL]
        kept = [command for command in self._queue if command.kind not in MAY_FAIL]
        self._queue.clear()
        self._queue.extend(kept)
        return _Work(hopeless)

    def _do(self, work: _Work) -> None:
        if work.hopeless:
            self.ears.answers([(command, self._unreachable()) for command in work.hopeless])
        if work.heartbeat is not None and not self._is_heard(work.heartbeat):
            self._put_back(work.batch)
        elif work.batch:
            self._send(work.batch)
        self._is_asking = False

    def _unreachable(self) -> Answer:
        return Answer(UNREACHABLE, f"Federated schedule error, party {self.party_id}: {self._health.error}")

    # ------------------------------------------------------------------ requests

    def _send(self, batch: list[Command]) -> None:
        try:
            answers = self._exchange(batch)
        except _NO_ANSWER as error:
            self._failed(batch, _words(error))
            return
        self._answered()
        self._learn(batch, answers)
        self.ears.answers(list(zip(batch, answers, strict=True)))

    def _exchange(self, batch: list[Command]) -> list[Answer]:
        for command in batch:
            self.record.requested(command.job_id, f"{self.url}/v1{self.endpoint_of(command)}")
        if len(batch) == 1:
            is_create = batch[0].kind is CommandKind.CREATE
            documents = [self._post(self.endpoint_of(batch[0]), body_of(batch[0]), is_create)]
        else:
            commands = [{"endpoint": self.endpoint_of(one), "body": body_of(one)} for one in batch]
            documents = self._batch_answers(self._post("/party/batch", {"commands": commands}), len(batch))
        answers = [read_answer(document) for document in documents]
        for command, document in zip(batch, documents, strict=True):
            self.record.answered(command.job_id, f"/v1{self.endpoint_of(command)}", document)
        return answers

    def _batch_answers(self, document: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
        data = document.get("data")
        is_whole = isinstance(data, list) and len(data) == count and all(isinstance(one, dict) for one in data)
        if not isinstance(data, list) or not is_whole:
            raise ValueError(f"the answer to a batch of {count} is {str(document)[:200]}")
        return data

    def _post(self, endpoint: str, body: Mapping[str, Any], is_create: bool = False) -> dict[str, Any]:
        data = json.dumps(body, separators=(",", ":")).encode()
        head = {**headers(self.own_party_id, self.party_id), "Content-Type": "application/json"}
        url = f"{self.url}/v1{endpoint}"
        try:
            status, text, said_by = self._ask(url, data, head)
        except requests.exceptions.ConnectionError as error:
            if isinstance(error, requests.exceptions.Timeout):
                raise
            # A kept-alive connection that the peer closed in between; every command may come twice.
            status, text, said_by = self._ask(url, data, head)
        if other := stranger(said_by, self.party_id, self.url):
            raise ValueError(other)
        if not 200 <= status < 300:
            raise _BadStatus(status, text)
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError(f"the answer is not an object: {text[:200]!r}")
        if document.get("retcode") == NOT_AUTHENTICATED:
            raise _NotBelieved(document.get("retmsg"))
        self._check_speaker(said_by, document, is_create)
        return document

    def _check_speaker(self, said_by: str, document: Mapping[str, Any], is_create: bool) -> None:
        """Raises ValueError for whoever does not say who it is, at the address of a party that did before.

        Only who accepts a job shows that the party is another kind of server by now."""
        if self.says_who and not said_by and not (is_create and document.get("retcode") == 0):
            words = plain(document.get("retmsg"), _LONGEST_WORDS)
            raise ValueError(f"another server, which does not say whose it is, answers at {self.url}: {words}")
        self.says_who = bool(said_by)

    def _ask(self, url: str, data: bytes, head: Mapping[str, str]) -> tuple[int, bytes, str]:
        """Status, body and who answers; what lies elsewhere is not asked for, and what never ends is left."""
        timeout, deadline = (min(_CONNECT_TIMEOUT, self.timeout), self.timeout), time.monotonic() + self.timeout
        with self._session.post(
            url, data=data, headers=head, timeout=timeout, stream=True, allow_redirects=False
        ) as response:
            text, is_late = b"", False
            for piece in response.iter_content(65536):
                if is_late:
                    raise requests.exceptions.ReadTimeout
                text += piece
                if len(text) > _LONGEST_ANSWER:
                    raise ValueError(f"the answer is longer than {_LONGEST_ANSWER} bytes")
                # One that is all there counts, however late: it may be this process that stood still.
                is_late = time.monotonic() > deadline
            return response.status_code, text, response.headers.get(SRC_PARTY_ID, "")

    def _is_heard(self, jobs: tuple[tuple[str, int], ...]) -> bool:
        """Give a sign of life; False when nobody answered."""
        try:
            data = read_answer(self._post("/party/heartbeat", {"jobs": [list(one) for one in jobs]})).data
        except _NO_ANSWER as error:
            if isinstance(error, _BadStatus) and error.status in (404, 405) and not self.says_who:
                self._answered()
                return True      # a plain v1 peer has no such route; that it answered is all we learn
            self._failed([], _words(error))
            return False
        self._answered()
        if isinstance(data, dict):
            self._learn_extensions(data)
            ended = data.get("ended")
            listed = ended.items() if isinstance(ended, dict) else ()
            self.ears.heartbeat(self.party_id, {str(job_id): str(why) for job_id, why in listed}, dict(jobs))
        return True

    # ------------------------------------------------------------------ health

    def _answered(self) -> None:
        if self._health.silent_since is not None:
            seconds = time.monotonic() - self._health.silent_since
            words = "party %s answers again after %.0f s and %d tries; circuit closed"
            log.warning(words, self.party_id, seconds, self._health.failures)
        self._health = _Health()

    def _failed(self, batch: list[Command], error: str) -> None:
        health, now = self._health, time.monotonic()
        is_news = health.silent_since is None or health.pause < _LONGEST_PAUSE or error != health.error
        if health.silent_since is None:
            # Since it was asked, not since that was given up: the party counts from when it heard from us.
            health.silent_since = self._asked_at or now
        health.error, health.failures = error, health.failures + 1
        health.pause = min(health.pause * 2 or self.first_pause, _LONGEST_PAUSE)
        health.last_try, health.next_try = now, now + health.pause
        self._is_asking = False
        if is_news:
            words = "party %s does not answer: %s; circuit open, asked again in %.2f s"
            log.warning(words, self.party_id, error, health.pause)
        self._put_back([one for one in batch if one.kind not in MAY_FAIL])
        lost = [(one, self._unreachable()) for one in batch if one.kind in MAY_FAIL]
        if lost:
            self.ears.answers(lost)
        self.tell_silence()

    def _put_back(self, batch: list[Command]) -> None:
        with self._wake:
            if not self._is_given_up:
                self._queue.extendleft(reversed(batch))

    def _learn(self, batch: list[Command], answers: list[Answer]) -> None:
        """Extensions are announced in the answer to `create`, and by a heartbeat's, for who was restarted since."""
        for command, answer in zip(batch, answers, strict=True):
            if command.kind is CommandKind.CREATE and answer.is_ok and isinstance(answer.data, dict):
                self._learn_extensions(answer.data)

    def _learn_extensions(self, data: Mapping[str, Any]) -> None:
        extensions = data.get("extensions")
        self._understands_batches = isinstance(extensions, dict) and "batch" in extensions


class _BadStatus(ValueError):
    """An answer that says by its HTTP status that nothing was carried out."""

    def __init__(self, status: int, text: bytes) -> None:
        self.status = status
        super().__init__(f"HTTP {status}: {text[:200]!r}")


class _NotBelieved(ValueError):
    """The party does not believe that it is us. Nothing was carried out; it may be once the keys are right."""

    def __init__(self, why: object) -> None:
        words = "".join(one if one.isprintable() else "?" for one in plain(why, _LONGEST_WORDS))
        super().__init__(f"refuses our signature: {words}")


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

    def forget(self) -> None:
        """Send nothing more of what was posted: another process schedules now."""
        for lane in self._lanes.values():
            lane.forget()

    def tell_silence(self) -> None:
        for lane in self._lanes.values():
            lane.tell_silence()

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
