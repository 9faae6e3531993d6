"""The queue of one party: what is sent next, and when; without a thread, a clock or a network.

Commands are sent in order, several at once if the peer understands batches. A heartbeat goes before them; only the
newest one is sent. A command that must arrive goes back to the front if it got no answer, and is sent again after
pauses that double. A command that may fail fails at once; while the party does not answer, it fails without being
sent. Only `create`, for which a user waits, is sent anyway once `probe_pause` has passed: the party may be back. What
goes ahead with a `create` (`is_ahead`) is sent in the same request, or not at all.

`now` is in seconds on a monotonic clock. The sender of a server (peer_senders.py) and that of the simulation use the
same queue; calls from several threads need a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.wire.v1.job_bodies import is_ahead

MAY_FAIL = frozenset(
    {
        CommandKind.CREATE, CommandKind.CHECK, CommandKind.APPLY, CommandKind.TASK_COLLECT, CommandKind.LOOK_AGAIN,
        CommandKind.CAPACITY, CommandKind.ALIGN, CommandKind.STANDING, CommandKind.COMPARE,
    }
)
MOST_AT_ONCE = 64
LONGEST_PAUSE = 5.0

CLOSED, OPEN, PROBING = "closed", "open", "probing"
"""The circuit to a party: the party answers; it does not, and gets no requests for a pause; it is being asked again."""

_LATE = "is sent only in one request with create"

Jobs = tuple[tuple[str, int], ...]
"""The content of a heartbeat: job ids with their runs."""


@dataclass(frozen=True)
class Work:
    """What a sender does next: it answers `hopeless` without sending it, and sends the heartbeat before the batch."""

    hopeless: tuple[Command, ...] = ()
    batch: tuple[Command, ...] = ()
    heartbeat: Jobs | None = None
    why: str = ""                    # why it is hopeless; empty: the party does not answer


@dataclass(frozen=True)
class Failure:
    """What follows from a request without an answer."""

    lost: tuple[Command, ...]        # commands of the batch that are not sent again
    silent_seconds: float
    pause: float                     # until the next request
    is_new: bool                     # whether to log it: the first failure, another error, or growing pauses


@dataclass
class Health:
    """Since when a party has not answered, and when the next request is sent."""

    silent_since: float | None = None
    last_try: float = 0.0
    next_try: float = 0.0
    pause: float = 0.0
    error: str = ""                  # of the last request
    failures: int = 0                # failed requests since it answered last


@dataclass
class SendQueue:
    """The commands and the heartbeat for one party, and its circuit."""

    party_silence: float             # seconds after which the party counts as lost
    first_pause: float = 0.25        # seconds until the first retry
    probe_pause: float = 1.0         # seconds after a failed request in which not even `create` is sent
    longest_exchange: float = inf    # seconds after which a request has failed, unless this process stood still
    longest_gap: float = inf         # seconds between checks of the silence, unless this process stood still
    understands_batches: bool = False
    health: Health = field(default_factory=Health)
    _commands: deque[Command] = field(default_factory=deque)
    _heartbeat: Jobs | None = None
    _is_asking: bool = False
    _asked_at: float = 0.0
    _is_given_up: bool = False       # the batch that is being sent must not be sent again
    _looked_at: float = inf          # when the silence was checked last

    def __len__(self) -> int:
        return len(self._commands)

    # ------------------------------------------------------------------ filling the queue

    def post(self, commands: Iterable[Command]) -> None:
        self._commands.extend(commands)

    def beat(self, jobs: Jobs) -> None:
        """Send a heartbeat; it replaces an older one that has not been sent yet."""
        self._heartbeat = jobs

    def forget(self) -> None:
        """Drop all that waits, and do not repeat the batch that is being sent."""
        self._commands.clear()
        self._heartbeat = None
        self._is_given_up = True

    # ------------------------------------------------------------------ taking from the queue

    def has_work(self, now: float) -> bool:
        if self._is_pausing(now):
            return any(command.kind in MAY_FAIL for command in self._commands)
        return bool(self._commands) or self._heartbeat is not None

    def patience(self, now: float) -> float | None:
        """Return the seconds until there is work, if nothing is posted meanwhile; None if there is none."""
        if not self._commands and self._heartbeat is None:
            return None
        return max(0.01, self.health.next_try - now)

    def take(self, now: float) -> Work:
        """Return what to do next. After sending, call `answered` or `failed`, then `done`."""
        self._find(now)
        if self._is_pausing(now):
            hopeless = tuple(command for command in self._commands if command.kind in MAY_FAIL)
            self._commands = deque(command for command in self._commands if command.kind not in MAY_FAIL)
            return Work(hopeless)
        if late := self._take_late():
            return Work(late, why=_LATE)
        most = MOST_AT_ONCE if self.understands_batches else 1
        batch = tuple(self._commands.popleft() for _ in range(min(most, len(self._commands))))
        heartbeat, self._heartbeat = self._heartbeat, None
        self._is_asking, self._asked_at, self._is_given_up = True, now, False
        return Work(batch=batch, heartbeat=heartbeat)

    def _take_late(self) -> tuple[Command, ...]:
        """Take the commands that were to go with a `create` which has gone without them."""
        ahead = [command for command in self._commands if is_ahead(command.body)]
        if not ahead:
            return ()
        invited = {command.job_id for command in self._commands if command.kind is CommandKind.CREATE}
        late = tuple(command for command in ahead if command.job_id not in invited)
        self._commands = deque(command for command in self._commands if command not in late)
        return late

    def _is_pausing(self, now: float) -> bool:
        """Return whether the party did not answer, and the pause is not over."""
        is_probe_due = now >= self.health.last_try + self.probe_pause
        if is_probe_due and any(command.kind is CommandKind.CREATE for command in self._commands):
            return False
        return now < self.health.next_try

    # ------------------------------------------------------------------ results

    def answered(self) -> Health:
        """Note that the party has answered; return its health before."""
        before, self.health = self.health, Health()
        return before

    def failed(self, batch: Iterable[Command], error: str, now: float) -> Failure:
        """Note that the party did not answer; `batch` was sent, or was to follow the heartbeat."""
        self._find(now)
        health = self.health
        is_new = health.silent_since is None or health.pause < LONGEST_PAUSE or error != health.error
        if health.silent_since is None:
            # The silence begins with the request, not with its timeout, because the party counts from when it heard
            # from us. If the request took longer than it may, this process slept, which is not the party's silence.
            health.silent_since = max(self._asked_at or now, now - self.longest_exchange)
        health.error, health.failures = error, health.failures + 1
        health.pause = min(health.pause * 2 or self.first_pause, LONGEST_PAUSE)
        health.last_try, health.next_try = now, now + health.pause
        self._is_asking = False
        kept = [command for command in batch if command.kind not in MAY_FAIL]
        self.put_back(kept)
        lost = tuple(command for command in batch if command.kind in MAY_FAIL)
        return Failure(lost, now - health.silent_since, health.pause, is_new)

    def put_back(self, batch: Iterable[Command]) -> None:
        """Put commands back to the front, unless all were dropped meanwhile."""
        if not self._is_given_up:
            self._commands.extendleft(reversed(list(batch)))

    def done(self) -> None:
        """Note that the work that was taken is done."""
        self._is_asking = False

    # ------------------------------------------------------------------ state of the party

    def silence(self, now: float) -> float | None:
        """Return the seconds of silence if they are too many, else None. Call it at least every `longest_gap`."""
        self._find(now)
        since = self.health.silent_since
        seconds = now - since if since is not None else 0.0
        return seconds if seconds > self.party_silence else None

    def _find(self, now: float) -> None:
        """Leave out of the silence the time while this process stood still: the party may have come back meanwhile, but
        no request was sent."""
        gap, self._looked_at = now - self._looked_at, now
        if gap > self.longest_gap and self.health.silent_since is not None:
            self.health.silent_since += gap

    def circuit(self, now: float) -> str:
        if self.health.silent_since is None:
            return CLOSED
        return PROBING if self._is_asking or now >= self.health.next_try else OPEN
