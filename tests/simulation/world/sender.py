"""The sender of `peers/peer_senders.py` on virtual time: the same decisions (send_queue.py), without its
thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from fate_flow.core.access.authority import TO_INITIATORS
from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.wire.v1.heartbeat import HeartbeatReply
from fate_flow.peers.send_queue import Jobs, SendQueue, Work
from fate_flow.services.scheduling.events import Answered, HeartbeatAnswered, PartyFails, PartySilent
from fate_flow.services.use_cases.use_cases import UseCases
from tests.simulation.world.network import Call

if TYPE_CHECKING:
    from tests.simulation.world.party import Server


class SimSender:
    """The way from a scheduler process to one party; it ends with the process."""

    def __init__(self, server: Server, to: str) -> None:
        self.to = to
        self._server = server
        self._world = server.party.world
        self._process = server.scheduling
        knows_it = self._world.seed % 3 > 0      # from a job or a heartbeat before
        self._queue = SendQueue(self._world.rules.party_silence / 1000, understands_batches=knows_it)
        self._is_busy = False

    def post(self, commands: Sequence[Command]) -> None:
        self._queue.post(commands)
        self._pump()

    def beat(self, jobs: Jobs) -> None:
        self._queue.beat(jobs)
        self._pump()

    def forget(self) -> None:
        self._queue.forget()

    def report_silence(self) -> None:
        """At every heartbeat, whether or not something was tried since."""
        seconds = self._queue.silence(self._now)
        if seconds is not None:
            self._server.record_heartbeat(PartySilent(self.to, seconds))

    @property
    def _now(self) -> float:
        return self._world.now / 1000

    # ------------------------------------------------------------------ what is sent when

    def _pump(self) -> None:
        if self._is_busy:
            return
        if not self._queue.has_work(self._now):
            self._pump_later()
            return
        self._do(self._queue.take(self._now))

    def _pump_later(self) -> None:
        patience = self._queue.patience(self._now)
        if patience is not None:
            self._process.at(self._world.now + max(1, round(patience * 1000)), self._pump)

    def _do(self, work: Work) -> None:
        if work.hopeless:
            self._unreachable(work.hopeless)
            self._pump()
        elif work.heartbeat is not None:
            self._send_heartbeat(work.heartbeat, work.batch)
        else:
            self._send(work.batch)

    # ------------------------------------------------------------------ requests

    def _send(self, batch: Sequence[Command]) -> None:
        def answered(answers: list[Answer]) -> None:
            for command, answer in zip(batch, answers, strict=True):
                if command.kind is CommandKind.CREATE and answer.is_ok:
                    self._queue.understands_batches = True
            self._queue.answered()
            self._receive(batch, answers)
            self._is_done()

        def failed(why: str) -> None:
            self._failed(batch, why)

        self._world.sent[self._server.party.party_id, self.to] += 1
        text = ", ".join(f"{one.kind.value} {one.task}" for one in batch)
        self._call(
            text, lambda use_cases: self._serve(use_cases, batch), answered, failed, lambda _: self._receive(batch, _)
        )

    def _serve(self, use_cases: UseCases, batch: Sequence[Command]) -> list[Answer]:
        """At the other party."""
        own = self._server.party.party_id
        for one in batch:
            if one.kind not in TO_INITIATORS:       # an initiator gets all
                self._world.check_notes(self.to, one.job_id, one.body)
        with self._world.invariants.touches_only_what_it_means(self._world.parties[self.to], batch):
            answers = use_cases.commands.carry_out([self._world.as_sent(own, self.to, one) for one in batch], own)
        for one, answer in zip(batch, answers, strict=True):
            if one.kind in TO_INITIATORS:
                self._world.check_notes(own, one.job_id, answer)
        return answers

    def _send_heartbeat(self, jobs: Jobs, batch: Sequence[Command]) -> None:
        """And the batch once it was answered."""
        own = self._server.party.party_id

        def answered(reply: HeartbeatReply) -> None:
            self._queue.understands_batches = True
            self._queue.answered()
            if reply.is_new or self._server.scheduler.is_unsure_of(self.to):
                events = HeartbeatAnswered(self.to, reply.ended, dict(jobs), reply.way_back, reply.reports)
                self._server.record_heartbeat(events)
            if batch:
                self._send(batch)
            else:
                self._is_done()

        def failed(why: str) -> None:
            self._failed([], why, follows=batch)

        self._call("heartbeat", lambda asked: asked.commands.heartbeat(own, jobs), answered, failed, lambda _: None)

    def _call(
        self, text: str, serve: Callable[[UseCases], object], answered: Callable, failed: Callable, stray: Callable
    ) -> None:
        self._is_busy = True
        own = self._server.party.party_id
        Call(self._world, self._process, own, self.to, text, serve, answered, failed, stray).start()

    def _receive(self, batch: Sequence[Command], answers: list[Answer]) -> None:
        for command, answer in zip(batch, answers, strict=True):
            if command.kind is CommandKind.CAPACITY:
                self._world.hints["heeded" if answer.is_ok else "declined"] += 1
        self._server.record_heartbeat(*(Answered(one, answer) for one, answer in zip(batch, answers, strict=True)))

    # ------------------------------------------------------------------ what came of it

    def _is_done(self) -> None:
        self._queue.done()
        self._is_busy = False
        self._pump()

    def _failed(self, batch: Sequence[Command], why: str, follows: Sequence[Command] = ()) -> None:
        failure = self._queue.failed(batch, why, self._now)
        self._queue.put_back(follows)
        self._unreachable(failure.lost)
        self._server.record_heartbeat(PartyFails(self.to, failure.silent_seconds, why))
        self.report_silence()
        self._is_done()

    def _unreachable(self, lost: Iterable[Command]) -> None:
        heartbeats = [Answered(one, Answer(UNREACHABLE, f"party {self.to}: silence")) for one in lost]
        if heartbeats:
            self._server.record_heartbeat(*heartbeats)
