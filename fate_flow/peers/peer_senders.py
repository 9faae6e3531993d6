"""The senders of commands to other parties: one for each party, so that a slow party delays no other.

A sender sends one request at a time; send_queue.py decides which and when. Answers go back as events.

Only an answer of the party itself counts. Each answer of a server of ours names its party. If the answer names another
party, or none although the party has named itself before, another server answers at the address, and the party counts
as silent.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Protocol

import requests

from fate_flow.core.metrics.command_spans import sent_span
from fate_flow.core.metrics.measures import Measures
from fate_flow.core.metrics.spans import NoSpans, Spans
from fate_flow.core.model.errors import NOT_AUTHENTICATED, UNREACHABLE
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.text.trace import TRACEPARENT, traceparent
from fate_flow.core.wire.v1.envelope import (
    MOST_VALUES,
    Asked,
    batch_of,
    body_of,
    headers,
    read_answer,
    read_batch_answers,
    stranger,
    to_json,
    values_in,
)
from fate_flow.core.wire.v1.extensions import understands_batches
from fate_flow.core.wire.v1.heartbeat import (
    HeartbeatReply,
    cosigned_in,
    heartbeat_of,
    read_heartbeat_reply,
    round_trip_in,
)
from fate_flow.core.wire.v1.paths import BATCH, HEARTBEAT
from fate_flow.core.wire.v1.plain_v1 import NO_SUCH_ROUTE, body_for_unknown
from fate_flow.peers.network_errors import (
    BadStatus,
    Nameless,
    NotBelieved,
    class_of_error,
    describe_network_error,
    may_know_no_batches,
)
from fate_flow.peers.peer_http import OnRequest, PeerHttp, PeerResponse
from fate_flow.peers.pinned import PinnedParties
from fate_flow.peers.send_queue import CLOSED, Jobs, SendQueue, Work
from fate_flow.peers.signature import SiteSignature

log = logging.getLogger(__name__)

_LONGEST_ANSWER = 16 * 1024 * 1024
_NEWEST = 0.2                # the weight of one request in the mean of the times that they take
_MOST_REQUEST = 16 * 1024 * 1024        # bytes of all documents in a request
_WITH_DOCUMENTS = frozenset({CommandKind.CREATE, CommandKind.PARAMETERS, CommandKind.STATUS})
_NO_ANSWER = (requests.RequestException, ValueError)
"""Errors for an answer that cannot be used: no connection, an error status, or unexpected JSON."""

OnAnswers = Callable[[list[tuple[Command, Answer]]], None]
OnHeartbeat = Callable[[str, HeartbeatReply, Mapping[str, int]], None]
"""Called with the party id, its answer, and by job id the run in the heartbeat."""
OnSilence = Callable[[str, float], None]
OnFailure = Callable[[str, float, str], None]
"""Called after each failed request: the party id, the seconds for which it has not answered, and the error."""
Endpoint = Callable[[Command], str]


class RequestLog(Protocol):
    """What the peer senders write into the audit log."""

    def requested(self, job_id: str, url: str) -> None: ...

    def answered(self, job_id: str, endpoint: str, body: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class HeartbeatHead:
    """The newest checkpoint of this party's record for a peer as a witness, and the question that it follows from."""

    text: str
    question: str
    take: Callable[[int, str], None]     # called with status and text of the answer


class Heads(Protocol):
    def for_heartbeat(self, party_id: str) -> HeartbeatHead | None:
        """Return what the next heartbeat takes along; None if there is nothing new."""


@dataclass(frozen=True)
class PeerListener:
    """The callbacks of a peer sender."""

    answers: OnAnswers
    heartbeat: OnHeartbeat
    silence: OnSilence
    failure: OnFailure


@dataclass
class PartyState:
    """What is known of a party's server, for `flow party list`."""

    party_id: str
    url: str
    circuit: str = CLOSED
    silent_seconds: float = 0.0
    waiting: int = 0                 # commands
    error: str = ""                  # of the last request, while the party does not answer
    failures: int = 0                # failed requests since it answered last
    next_try_seconds: float = 0.0
    round_trip_ms: int | None = None     # of requests to it; None: none was answered since it fell silent
    back_ms: int | None = None           # of its requests to this party, as it says; None: it does not say
    answered_seconds: float | None = None    # since its last answer; None: there was none

    @property
    def is_answering(self) -> bool:
        return self.circuit == CLOSED


@dataclass
class PeerSender:
    """The sender for one party: a thread, a queue, a kept-alive connection."""

    party_id: str
    url: str
    own_party_id: str
    endpoint_of: Endpoint
    listener: PeerListener
    record: RequestLog
    timeout: float                   # seconds an answer may take
    party_silence: float             # seconds after which the party counts as lost
    first_pause: float = 0.25        # seconds until the first retry; each further one waits twice as long
    probe_pause: float = 1.0         # seconds after a failed request in which not even `create` is sent
    auth: SiteSignature | None = None     # signs each request
    says_who: bool = False           # whether its answers are known to name its party
    longest_gap: float = inf         # seconds between calls of `report_silence`, unless this process stood still
    ca_file: str = ""                # certificates for its https server instead of the usual authorities
    pinned: PinnedParties | None = None      # recognises https servers by keys
    dialed: Path | None = None       # the socket for parties that dial this one
    measures: Measures | None = None     # where requests are counted
    spans: Spans = field(default_factory=NoSpans)        # where each try to send a command leaves one
    heads: Heads | None = None       # None: nothing is recorded here
    on_request: OnRequest | None = None
    _wake: threading.Condition = field(default_factory=threading.Condition)
    _is_closed: bool = False
    _round_trip: float | None = None     # seconds, a moving mean
    _back_ms: int | None = None
    _answered_at: float | None = None
    _is_plain: bool = False          # it has answered a heartbeat without its name

    def __post_init__(self) -> None:
        self._queue = SendQueue(self.party_silence, self.first_pause, self.probe_pause, self.timeout, self.longest_gap)
        self._http = PeerHttp(
            self.auth, connections=1, pinned=self.pinned, dialed=self.dialed, measures=self.measures,
            on_request=self.on_request,
        )
        self._thread = threading.Thread(target=self._run, name=f"lane-{self.party_id}", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------ from the scheduler

    def post(self, commands: list[Command]) -> None:
        with self._wake:
            self._queue.post(commands)
            self._wake.notify()

    def beat(self, jobs: Jobs) -> None:
        """Send a heartbeat; it replaces an older one that has not been sent yet.

        A plain v1 server, which does not know it, gets none without jobs while it answers: FATE logs a traceback."""
        with self._wake:
            if jobs or not self._is_plain or self.says_who or self._queue.health.silent_since is not None:
                self._queue.beat(jobs)
                self._wake.notify()

    def forget(self) -> None:
        """Drop the waiting commands, because another process sends them now."""
        with self._wake:
            self._queue.forget()

    def report_silence(self) -> None:
        """Call `listener.silence` if the party has not answered for too long. To be called every few seconds."""
        with self._wake:
            seconds = self._queue.silence(time.monotonic())
        if seconds is not None:
            self.listener.silence(self.party_id, seconds)

    def close(self) -> None:
        with self._wake:
            self._is_closed = True
            self._wake.notify()

    def state(self) -> PartyState:
        health, answered, now = self._queue.health, self._answered_at, time.monotonic()
        ago = None if answered is None else now - answered
        if health.silent_since is None:
            seconds = self._round_trip
            return PartyState(
                self.party_id, self.url, waiting=len(self._queue),
                round_trip_ms=None if seconds is None else round(seconds * 1000), back_ms=self._back_ms,
                answered_seconds=ago,
            )  # fmt: skip
        return PartyState(
            self.party_id, self.url, self._queue.circuit(now), now - health.silent_since, len(self._queue),
            health.error, health.failures, max(0.0, health.next_try - now), answered_seconds=ago,
        )  # fmt: skip

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._is_closed and not self._queue.has_work(time.monotonic()):
                    self._wake.wait(self._queue.patience(time.monotonic()))
                if self._is_closed:
                    self._http.close()
                    return
                work = self._queue.take(time.monotonic())
            try:
                self._do(work)
            except Exception:
                # No answer may end the thread of a sender.
                log.exception("sender to party %s", self.party_id)
                self._failed(work.batch, "internal error")

    def _do(self, work: Work) -> None:
        if work.hopeless:
            self.listener.answers([(command, self._unreachable(work.why)) for command in work.hopeless])
        if work.heartbeat is not None and not self._is_answered(work.heartbeat):
            with self._wake:
                self._queue.put_back(work.batch)
        elif work.batch:
            batch = _in_one_request(work.batch)
            with self._wake:
                self._queue.put_back(work.batch[len(batch):])
            self._send(batch)
        self._queue.done()

    def _unreachable(self, why: str = "") -> Answer:
        why = why or self._queue.health.error
        return Answer(UNREACHABLE, f"Federated schedule error, party {self.party_id}: {why}")

    # ------------------------------------------------------------------ requests

    def _send(self, batch: Sequence[Command]) -> None:
        own = [secrets.token_hex(8) for _ in batch]
        begun = time.time_ns()
        try:
            answers = self._request(batch, own)
        except _NO_ANSWER as error:
            self._add_spans(batch, own, begun, [None] * len(batch), class_of_error(error))
            if len(batch) > 1 and may_know_no_batches(error):
                self._send_one_by_one(batch)
                return
            self._failed(batch, describe_network_error(error))
            return
        self._add_spans(batch, own, begun, answers)
        self._answered()
        self._learn(batch, answers)
        self.listener.answers(list(zip(batch, answers, strict=True)))

    def _send_one_by_one(self, batch: Sequence[Command]) -> None:
        """Send the commands of a batch that was not carried out one by one: the party may have become a plain v1
        server, which does not know batches, and is known as such once it accepts a job."""
        with self._wake:
            self._queue.understands_batches = False
            self._queue.put_back(batch)

    def _add_spans(
        self, batch: Sequence[Command], own: Sequence[str], begun: int, answers: Sequence[Answer | None],
        error: str = "",
    ) -> None:  # fmt: skip
        if self.spans.is_on:
            now = time.time_ns()
            for command, span, answer in zip(batch, own, answers, strict=True):
                if command.trace:
                    self.spans.add(
                        sent_span(command, span, self.party_id, self.own_party_id, begun, now, answer, error)
                    )

    def _request(self, batch: Sequence[Command], own: Sequence[str]) -> list[Answer]:
        """`own`: the ids of the spans of these commands, which the party is told."""
        for command in batch:
            self.record.requested(command.job_id, f"{self.url}/v1{self.endpoint_of(command)}")
        if len(batch) == 1:
            documents = [self._ask(batch[0], own[0])]
        else:
            asked = [
                Asked(self.endpoint_of(one), one, _traceparent_of(one, span))
                for one, span in zip(batch, own, strict=True)
            ]
            documents = read_batch_answers(self._post(BATCH, batch_of(asked)), len(batch))
        answers = [read_answer(document) for document in documents]
        for command, document in zip(batch, documents, strict=True):
            self.record.answered(command.job_id, f"/v1{self.endpoint_of(command)}", document)
        return answers

    def _ask(self, command: Command, own: str) -> dict[str, Any]:
        try:
            return self._post(
                self.endpoint_of(command), self._body_of(command), command.kind is CommandKind.CREATE,
                _traceparent_of(command, own),
            )  # fmt: skip
        except BadStatus as error:
            if command.kind is CommandKind.COMPARE and error.is_unknown_route and not self.says_who:
                return {"retcode": NO_SUCH_ROUTE, "retmsg": str(error)}      # as a plain v1 server answers
            raise

    def _body_of(self, command: Command) -> dict[str, Any]:
        """Return the body; while a known party does not answer, it may have become a plain v1 server meanwhile."""
        is_known = self.says_who and self._queue.health.silent_since is None
        return body_of(command) if is_known else body_for_unknown(command)

    def _post(
        self, endpoint: str, body: Mapping[str, Any], is_create: bool = False, trace: str = ""
    ) -> dict[str, Any]:
        data = to_json(body).encode()
        head = {**headers(self.own_party_id, self.party_id), "Content-Type": "application/json"}
        if trace:
            head[TRACEPARENT] = trace
        url = f"{self.url}/v1{endpoint}"
        begin = time.monotonic()
        response = self._http.post(
            url, data, head, seconds=self.timeout, most_bytes=_LONGEST_ANSWER, ca_file=self.ca_file
        )
        seconds = time.monotonic() - begin
        if other := stranger(response.said_by, self.party_id, self.url):
            raise ValueError(other)
        if not 200 <= response.status < 300:
            raise BadStatus(response.status, response.said_by, _text_of(response))
        document = response.document()
        if not isinstance(document, dict):
            raise ValueError(f"the answer is not an object: {response.body[:200]!r}")
        if document.get("retcode") == NOT_AUTHENTICATED:
            raise NotBelieved(document.get("retmsg"))
        self._check_speaker(response.said_by, document, is_create)
        before = self._round_trip
        self._round_trip = seconds if before is None else before + (seconds - before) * _NEWEST
        return document

    def _check_speaker(self, said_by: str, document: Mapping[str, Any], is_create: bool) -> None:
        """Check that an answer names its party, if the party did so before. Raises Nameless.

        Only the acceptance of a job without a name shows that the party has become a plain v1 server."""
        if self.says_who and not said_by and not (is_create and document.get("retcode") == 0):
            raise Nameless(self.url, document.get("retmsg"))
        self.says_who = bool(said_by)

    def _is_answered(self, jobs: Jobs) -> bool:
        """Send a heartbeat; False if there was no answer."""
        head = self.heads.for_heartbeat(self.party_id) if self.heads else None
        try:
            along = (head.text, head.question) if head else ()
            data = read_answer(self._post(HEARTBEAT, heartbeat_of(jobs, *along))).data
        except _NO_ANSWER as error:
            if isinstance(error, BadStatus) and error.is_unknown_route and not self.says_who:
                self._is_plain = True
                self._answered()
                return True      # a plain v1 peer has no such route, but it has answered
            self._failed([], describe_network_error(error))
            return False
        self._is_plain = not self.says_who
        self._answered()
        if isinstance(data, dict):
            self._learn_extensions(data)
            self._back_ms = round_trip_in(data)
            self.listener.heartbeat(self.party_id, read_heartbeat_reply(data), dict(jobs))
            if head is not None and (cosigned := cosigned_in(data)):
                head.take(*cosigned)
        return True

    # ------------------------------------------------------------------ health

    def _answered(self) -> None:
        before = self._queue.answered()
        self._answered_at = time.monotonic()
        if before.silent_since is not None:
            seconds = time.monotonic() - before.silent_since
            message = "party %s answers again after %.0f s and %d tries; circuit closed"
            log.warning(message, self.party_id, seconds, before.failures)

    def _failed(self, batch: Sequence[Command], error: str) -> None:
        with self._wake:
            failure = self._queue.failed(batch, error, time.monotonic())
        self._round_trip = self._back_ms = None
        if failure.is_new:
            message = "party %s does not answer: %s; circuit open, asked again in %.2f s"
            log.warning(message, self.party_id, error, failure.pause)
        if failure.lost:
            self.listener.answers([(one, self._unreachable()) for one in failure.lost])
        self.listener.failure(self.party_id, failure.silent_seconds, error)
        self.report_silence()

    def _learn(self, batch: Sequence[Command], answers: list[Answer]) -> None:
        """Read the extensions in answers to `create`. A heartbeat's answer has them, too, for a restarted process."""
        for command, answer in zip(batch, answers, strict=True):
            if command.kind is CommandKind.CREATE and answer.is_ok and isinstance(answer.data, dict):
                self._learn_extensions(answer.data)

    def _learn_extensions(self, data: Mapping[str, Any]) -> None:
        self._queue.understands_batches = understands_batches(data)


def _traceparent_of(command: Command, own: str) -> str:
    """Return the header by which the party learns the trace of a command and this span; empty if it has no trace."""
    return traceparent(command.trace, own) if command.trace else ""


def _in_one_request(batch: Sequence[Command]) -> Sequence[Command]:
    """Return the first commands of a batch that fit into one request, at least one.

    Documents may be large, and a server refuses a request of more than its `limits.max_request_bytes`, or of more
    values than MOST_VALUES."""
    size = values = 0
    for count, command in enumerate(batch if len(batch) > 1 else ()):
        text = to_json(command.body).encode() if command.kind in _WITH_DOCUMENTS else b""
        size, values = size + len(text), values + values_in(text)
        if count and (size > _MOST_REQUEST or values > MOST_VALUES):
            return batch[:count]
    return batch


def _text_of(response: PeerResponse) -> object:
    """Return the text of a refusal; a proxy sends plain text or HTML."""
    try:
        document = response.document()
    except ValueError:
        return " ".join(response.body.decode("utf-8", "replace").split())
    return document.get("retmsg") if isinstance(document, dict) else ""


class PeerSenders:
    """All peer senders of one server; the transport of its scheduler."""

    def __init__(self, make_sender: Callable[[str], PeerSender | None], listener: PeerListener) -> None:
        self._make_sender = make_sender
        self._listener = listener
        self._senders: dict[str, PeerSender] = {}

    def post(self, commands: tuple[Command, ...]) -> None:
        by_party: dict[str, list[Command]] = {}
        for command in commands:
            by_party.setdefault(command.to.party_id, []).append(command)
        for party_id, its in by_party.items():
            sender = self._sender(party_id)
            if sender is None:
                answer = Answer(UNREACHABLE, f"party {party_id} has no route here")
                self._listener.answers([(command, answer) for command in its])
            else:
                sender.post(its)

    def heartbeat(self, party_id: str, jobs: Jobs) -> None:
        sender = self._sender(party_id)
        if sender is not None:
            sender.beat(jobs)

    def forget(self) -> None:
        """Drop all waiting commands, because another process schedules now."""
        for sender in self._senders.values():
            sender.forget()

    def report_silence(self) -> None:
        for sender in self._senders.values():
            sender.report_silence()

    def follow(self, urls: Mapping[str, str]) -> None:
        """Send to these addresses from now on; `urls` by party id. A party may have joined again under another one."""
        for party_id, sender in self._senders.items():
            sender.url = urls.get(party_id, sender.url)

    def states(self) -> list[PartyState]:
        return [sender.state() for sender in self._senders.values()]

    def close(self) -> None:
        for sender in self._senders.values():
            sender.close()

    def _sender(self, party_id: str) -> PeerSender | None:
        if party_id not in self._senders:
            sender = self._make_sender(party_id)
            if sender is None:
                return None
            self._senders[party_id] = sender
        return self._senders[party_id]
