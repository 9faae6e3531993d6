"""The calls of a job's streams: whether the servers of other parties carry streams of workers here, before this party
takes part in a job whose workers would find out otherwise.

A call is as short as the call back to an initiator (`call_back.py`), and has the same limits: only a few handlers make
calls at once, outside of any transaction, and a success is remembered for a while. A call causes no call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from fate_flow.core.model.job import Answer, Command
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.streams.pairs import pairs_from

Seats = tuple[Party, Party]
Call = Callable[[Sequence[Seats]], Sequence[str]]
"""Given pairs of a party here and another one, returns for each why no stream can be opened; empty if one can."""

_MOST_NAMED = 5


def opens_all(pairs: Sequence[Seats]) -> Sequence[str]:
    return [""] * len(pairs)


class StreamCalls:
    """Calls each pair of a job once."""

    def __init__(
        self, call: Call = opens_all, most: int = 4, seconds: float = 10.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`most`: handlers that make calls at the same time; a success is remembered for `seconds`."""
        self._call, self._seconds, self._monotonic = call, seconds, monotonic
        self._slots = threading.Semaphore(most)
        self._opened: dict[Seats, float] = {}         # when a stream could be opened last

    def why_not(self, spec: JobSpec, seats: Collection[Party]) -> str:
        """Return text about the streams of the job that workers of these seats cannot open now; empty if they can, or
        if too many calls are under way."""
        pairs = tuple(pairs_from(spec, seats))
        self._forget_old()
        asked = tuple(dict.fromkeys(key for one in pairs if (key := (one.caller, one.to)) not in self._opened))
        if not asked or not self._slots.acquire(blocking=False):
            return ""
        try:
            found = dict(zip(asked, self._call(asked), strict=True))
        finally:
            self._slots.release()
        self._opened.update((key, self._monotonic()) for key, why in found.items() if not why)
        return _text([one.not_reached(why) for one in pairs if (why := found.get((one.caller, one.to)))])

    def _forget_old(self) -> None:
        until = self._monotonic() - self._seconds
        for key, at in list(self._opened.items()):
            if at <= until:
                self._opened.pop(key, None)


def _text(problems: list[str]) -> str:
    more = len(problems) - _MOST_NAMED
    return "; ".join((*problems[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])))


def not_opened(
    commands: Sequence[Command], parsed: Mapping[int, JobSpec], calls: StreamCalls
) -> dict[int, Answer]:  # fmt: skip
    """Return the refusals of creates whose streams cannot be opened, by the place of the command.

    `parsed`: the jobs of new creates with streams, by the same place."""
    found = {place: calls.why_not(spec, (commands[place].to,)) for place, spec in parsed.items()}
    return {place: Answer(103, why) for place, why in found.items() if why}
