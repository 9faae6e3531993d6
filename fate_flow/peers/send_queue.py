"""What is sent to one party next, and when: the decisions of a sender, without a thread, a clock or a network.

Commands leave in order, several at once when the peer understands that, and a heartbeat before them, the newest alone.
What must arrive goes back to the front when it had no answer and is tried again after pauses that double. What may fail
fails at once, and while the party does not answer, without being sent. Only `create`, for which a user waits, is sent
all the same once `probe_pause` has passed: the party may be back since it was asked last.

`now` is a number of seconds on a clock that only goes forward. The sender of a server (peer_senders.py) and the one of
the simulation drive the same queue; whoever calls it from several threads holds a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from fate_flow.core.model.job import Command, CommandKind

MAY_FAIL = frozenset(
    {
        CommandKind.CREATE, CommandKind.CHECK, CommandKind.APPLY, CommandKind.TASK_COLLECT, CommandKind.LOOK_AGAIN,
        CommandKind.CAPACITY, CommandKind.ALIGN, CommandKind.STANDING,
    }
)
MOST_AT_ONCE = 64
LONGEST_PAUSE = 5.0

CLOSED, OPEN, PROBING = "closed", "open", "probing"
"""The circuit to a party: it answers; it does not and is left alone for a pause; it is asked whether it is back."""

Jobs = tuple[tuple[str, int], ...]
"""What a heartbeat names: job ids with their runs."""


@dataclass(frozen=True)
class Work:
    """What a sender does next: `hopeless` is answered without being sent; the heartbeat goes before the batch."""

    hopeless: tuple[Command, ...] = ()
    batch: tuple[Command, ...] = ()
    heartbeat: Jobs | None = None


@dataclass(frozen=True)
class Failure:
    """What follows from a try that had no answer."""

    lost: tuple[Command, ...]        # of the batch: not tried again
    silent_seconds: float
    pause: float                     # until the next try
    is_new: bool                     # the first one, or another error, or the pauses still grow


@dataclass
class Health:
    """Since when a party has not answered, and when it is asked again."""

    silent_since: float | None = None
    last_try: float = 0.0
    next_try: float = 0.0
    pause: float = 0.0
    error: str = ""                  # of the last try
    failures: int = 0                # tries since it answered last


@dataclass
class SendQueue:
    """The commands and the heartbeat for one party, and its circuit."""

    party_silence: float             # seconds after which the party counts as lost
    first_pause: float = 0.25        # seconds until the first retry
    probe_pause: float = 1.0         # seconds after a failed try in which not even `create` is tried
    longest_exchange: float = inf    # seconds after which a request has failed, unless this process stood still
    longest_gap: float = inf         # seconds from one look at the silence to the next, unless this process stood still
    understands_batches: bool = False
    health: Health = field(default_factory=Health)
    _commands: deque[Command] = field(default_factory=deque)
    _heartbeat: Jobs | None = None
    _is_asking: bool = False
    _asked_at: float = 0.0
    _is_given_up: bool = False       # what is being sent is not to be sent again
    _looked_at: float = inf          # when the silence was looked at last

    def __len__(self) -> int:
        return len(self._commands)

    # ------------------------------------------------------------------ what is to be sent

    def post(self, commands: Iterable[Command]) -> None:
        self._commands.extend(commands)

    def beat(self, jobs: Jobs) -> None:
        """An older heartbeat that has not left yet is replaced."""
        self._heartbeat = jobs

    def forget(self) -> None:
        """Nothing of what waits is sent, nor what is being sent now a second time."""
        self._commands.clear()
        self._heartbeat = None
        self._is_given_up = True

    # ------------------------------------------------------------------ what is sent when

    def has_work(self, now: float) -> bool:
        if self._is_pausing(now):
            return any(command.kind in MAY_FAIL for command in self._commands)
        return bool(self._commands) or self._heartbeat is not None

    def patience(self, now: float) -> float | None:
        """Seconds until there is work, if nothing is posted meanwhile; None for ever."""
        if not self._commands and self._heartbeat is None:
            return None
        return max(0.01, self.health.next_try - now)

    def take(self, now: float) -> Work:
        """What is done next. Of what is to be sent, `answered` or `failed` has to be called."""
        self._find(now)
        if self._is_pausing(now):
            hopeless = tuple(command for command in self._commands if command.kind in MAY_FAIL)
            self._commands = deque(command for command in self._commands if command.kind not in MAY_FAIL)
            return Work(hopeless)
        most = MOST_AT_ONCE if self.understands_batches else 1
        batch = tuple(self._commands.popleft() for _ in range(min(most, len(self._commands))))
        heartbeat, self._heartbeat = self._heartbeat, None
        self._is_asking, self._asked_at, self._is_given_up = True, now, False
        return Work(batch=batch, heartbeat=heartbeat)

    def _is_pausing(self, now: float) -> bool:
        """It did not answer, and it is not yet time to ask again."""
        is_probe_due = now >= self.health.last_try + self.probe_pause
        if is_probe_due and any(command.kind is CommandKind.CREATE for command in self._commands):
            return False
        return now < self.health.next_try

    # ------------------------------------------------------------------ what came of it

    def answered(self) -> Health:
        """The party answers; how it was before."""
        before, self.health = self.health, Health()
        return before

    def failed(self, batch: Iterable[Command], error: str, now: float) -> Failure:
        """It did not answer, and this had been sent, or was to follow what was."""
        self._find(now)
        health = self.health
        is_new = health.silent_since is None or health.pause < LONGEST_PAUSE or error != health.error
        if health.silent_since is None:
            # Since it was asked, not since that was given up: the party counts from when it heard from us. A request
            # that took longer was cut off by our own sleep, for which the party is not to blame.
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
        """It is the next to be sent, unless everything was forgotten meanwhile."""
        if not self._is_given_up:
            self._commands.extendleft(reversed(list(batch)))

    def done(self) -> None:
        """What was taken has been carried out."""
        self._is_asking = False

    # ------------------------------------------------------------------ what is known of the party

    def silence(self, now: float) -> float | None:
        """The seconds for which it has not answered, once that is too long; asked for at least every `longest_gap`."""
        self._find(now)
        since = self.health.silent_since
        seconds = now - since if since is not None else 0.0
        return seconds if seconds > self.party_silence else None

    def _find(self, now: float) -> None:
        """The time for which this process stood still is no silence of the party: it may have come back meanwhile, and
        nobody has asked it."""
        gap, self._looked_at = now - self._looked_at, now
        if gap > self.longest_gap and self.health.silent_since is not None:
            self.health.silent_since += gap

    def circuit(self, now: float) -> str:
        if self.health.silent_since is None:
            return CLOSED
        return PROBING if self._is_asking or now >= self.health.next_try else OPEN
