"""What `federation/lanes.py` promises, on virtual time.

Commands in order, one request at a time, several in one once the peer is known to understand that; what must arrive
is tried again with growing pauses, what may fail fails at once, and while the party does not answer without being
sent, but for `create`; a heartbeat goes before all, the newest alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from fate_flow.coordinator.desk import Desk
from fate_flow.coordinator.scheduler import Answered, HeartbeatAnswered, PartySilent
from fate_flow.core.job import UNREACHABLE, Answer, Command, CommandKind
from fate_flow.federation.lanes import MAY_FAIL
from tests.simulation.network import Call

if TYPE_CHECKING:
    from tests.simulation.party import Server

_FIRST_PAUSE, _LONGEST_PAUSE, _PROBE_PAUSE = 250, 5_000, 1_000
_MOST_AT_ONCE = 64

Jobs = tuple[tuple[str, int], ...]


class SimLane:
    """The way from a scheduler process to one party; it ends with the process."""

    def __init__(self, server: Server, to: str) -> None:
        self.to = to
        self._server = server
        self._world = server.party.world
        self._process = server.scheduling
        self._queue: deque[Command] = deque()
        self._heartbeat: Jobs | None = None
        self._is_busy = False
        self._understands_batches = False
        self._asked_at = 0
        self._answers_again()

    def post(self, command: Command) -> None:
        self._queue.append(command)
        self._pump()

    def beat(self, jobs: Jobs) -> None:
        self._heartbeat = jobs
        self._pump()

    def tell_silence(self) -> None:
        """At every heartbeat, whether or not something was tried since."""
        silent = self._world.now - self._silent_since if self._silent_since is not None else 0
        if silent > self._world.rules.party_silence:
            self._server.hear(PartySilent(self.to, silent / 1000))

    # ------------------------------------------------------------------ what is sent when

    def _pump(self) -> None:
        if self._is_busy:
            return
        if self._is_pausing():
            self._give_up_what_may_fail()
            self._pump_later()
        elif self._heartbeat is not None:
            jobs, self._heartbeat = self._heartbeat, None
            self._send_heartbeat(jobs)
        elif self._queue:
            most = _MOST_AT_ONCE if self._understands_batches else 1
            self._send([self._queue.popleft() for _ in range(min(most, len(self._queue)))])

    def _is_pausing(self) -> bool:
        now = self._world.now
        if now >= self._last_try + _PROBE_PAUSE and any(one.kind is CommandKind.CREATE for one in self._queue):
            return False
        return now < self._next_try

    def _give_up_what_may_fail(self) -> None:
        hopeless = [one for one in self._queue if one.kind in MAY_FAIL]
        self._queue = deque(one for one in self._queue if one.kind not in MAY_FAIL)
        self._unreachable(hopeless)

    def _pump_later(self) -> None:
        if self._queue or self._heartbeat is not None:
            self._process.at(self._next_try, self._pump)

    # ------------------------------------------------------------------ requests

    def _send(self, batch: list[Command]) -> None:
        def answered(answers: list[Answer]) -> None:
            for command, answer in zip(batch, answers, strict=True):
                if command.kind is CommandKind.CREATE and answer.is_ok:
                    self._understands_batches = True
            self._succeeded()
            self._hear(batch, answers)

        def failed(_: str) -> None:
            self._failed(batch)

        words = ", ".join(f"{one.kind.value} {one.task}" for one in batch)
        self._call(words, lambda desk: self._serve(desk, batch), answered, failed, lambda _: self._hear(batch, _))

    def _serve(self, desk: Desk, batch: list[Command]) -> list[Answer]:
        """At the other party."""
        with self._world.invariants.touches_only_what_it_means(self._world.parties[self.to], batch):
            return desk.carry_out(batch, self._server.party.party_id)

    def _send_heartbeat(self, jobs: Jobs) -> None:
        own = self._server.party.party_id

        def answered(ended: dict[str, str]) -> None:
            self._understands_batches = True
            self._succeeded()
            if ended or self._server.scheduler.is_unsure_of(self.to):
                self._server.hear(HeartbeatAnswered(self.to, ended, dict(jobs)))

        def failed(_: str) -> None:
            self._failed([])

        self._call("heartbeat", lambda desk: desk.heartbeat(own, jobs), answered, failed, lambda _: None)

    def _call(
        self, words: str, serve: Callable[[Desk], object], answered: Callable, failed: Callable, stray: Callable
    ) -> None:
        self._is_busy, self._asked_at = True, self._world.now
        own = self._server.party.party_id
        Call(self._world, self._process, own, self.to, words, serve, answered, failed, stray).start()

    def _hear(self, batch: list[Command], answers: list[Answer]) -> None:
        for command, answer in zip(batch, answers, strict=True):
            if command.kind is CommandKind.ROOM:
                self._world.hints["heeded" if answer.is_ok else "declined"] += 1
        self._server.hear(*(Answered(one, answer) for one, answer in zip(batch, answers, strict=True)))

    # ------------------------------------------------------------------ health

    def _answers_again(self) -> None:
        self._silent_since: int | None = None
        self._last_try = self._next_try = self._pause = 0

    def _succeeded(self) -> None:
        self._is_busy = False
        self._answers_again()
        self._pump()

    def _failed(self, batch: list[Command]) -> None:
        now = self._world.now
        self._is_busy = False
        self._silent_since = self._silent_since if self._silent_since is not None else self._asked_at
        self._pause = min(self._pause * 2 or _FIRST_PAUSE, _LONGEST_PAUSE)
        self._last_try, self._next_try = now, now + self._pause
        self._queue.extendleft(reversed([one for one in batch if one.kind not in MAY_FAIL]))
        self._unreachable([one for one in batch if one.kind in MAY_FAIL])
        self.tell_silence()
        self._pump_later()

    def _unreachable(self, lost: list[Command]) -> None:
        if lost:
            self._server.hear(*(Answered(one, Answer(UNREACHABLE, f"party {self.to}: silence")) for one in lost))
