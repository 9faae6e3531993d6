"""The call-back test: whether this party reaches an initiator, before it takes part in a job that it must report on.

The test is one short request to the configured route of the caller, outside of any transaction; it causes no request
back. Only a few handlers may wait for it at once, and a success is remembered for a while. So neither many callers nor
two parties that send `create` to each other can use up the handlers of a server. A success does not count any more
once the scheduler's own requests to that party fail: what the answers to heartbeats say, the test says as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.wire.v1.queries import wants_call_back
from fate_flow.services.context.ports import Context

Reach = Callable[[str], str]
"""Given a party id, returns why this party does not reach that party's server; empty if it does, or if unknown."""


def reaches_all(_: str) -> str:
    return ""


def is_silent_to(context: Context) -> Callable[[str], bool]:
    """Return whether a party has not answered the latest request of this party's scheduler, by its party id."""
    def is_silent(party_id: str) -> bool:
        trouble = context.read(lambda tx: tx.peer_troubles()).get(party_id)
        return trouble is not None and trouble.silent_since > 0

    return is_silent


class CallBack:
    def __init__(
        self, ask: Reach, is_silent: Callable[[str], bool], most: int = 4, seconds: float = 10.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`most`: tests at the same time. A success is remembered for `seconds`, as long as the party with this id
        is not `is_silent`."""
        self._ask, self._is_silent, self._seconds, self._monotonic = ask, is_silent, seconds, monotonic
        self._slots = threading.Semaphore(most)
        self._reached: dict[str, float] = {}      # by party id: when it was reached last

    def __call__(self, party_id: str) -> str:
        reached = self._reached.get(party_id)
        is_recent = reached is not None and self._monotonic() - reached < self._seconds
        if is_recent and not self._is_silent(party_id):
            return ""
        if not self._slots.acquire(blocking=False):
            return ""
        try:
            problem = self._ask(party_id)
        finally:
            self._slots.release()
        if problem:
            self._reached.pop(party_id, None)
        else:
            self._reached[party_id] = self._monotonic()
        return problem


def refused(commands: Iterable[Command], caller: str, reach: Reach) -> dict[int, Answer]:
    """Return the refusals of commands whose caller cannot be reached, by the place of the command."""
    creates = ((place, one) for place, one in enumerate(commands) if one.kind is CommandKind.CREATE)
    wanting = [place for place, create in creates if wants_call_back(create.body)]
    problem = reach(caller) if wanting else ""
    return dict.fromkeys(wanting, Answer(103, cannot_reach(caller, problem))) if problem else {}


def cannot_reach(caller: str, problem: str) -> str:
    return f"cannot reach party {caller}: {problem}"
