"""Where processor time goes, by looking at the stack every few milliseconds of it: costs next to nothing."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

EVERY = 0.005               # seconds of processor time
_PRODUCT = "/fate_flow/"


class Samples:
    """How often a function of the product was seen at work: by itself, with the libraries that it calls, and also with
    the functions of the product that it calls."""

    def __init__(self) -> None:
        self.own: Counter[str] = Counter()
        self.all: Counter[str] = Counter()
        self.seen = 0
        self.elsewhere = 0

    def take(self, _number: int, frame: FrameType | None) -> None:
        self.seen += 1
        names = [_name_of(one) for one in _frames(frame) if _PRODUCT in one.f_code.co_filename]
        if not names:
            self.elsewhere += 1
            return
        self.own[names[0]] += 1
        self.all.update(set(names))

    def shares(self, count: int) -> dict[str, dict[str, float]]:
        """The percent of all samples of those functions with the most, by themselves and in all."""
        return {
            kind: {name: round(100 * times / max(1, self.seen), 1) for name, times in found.most_common(count)}
            for kind, found in (("own", self.own), ("all", self.all))
        }


@contextmanager
def sampled() -> Iterator[Samples]:
    """Look at the main thread of this process until the end of the block."""
    samples = Samples()
    before = signal.signal(signal.SIGPROF, samples.take)
    signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
    try:
        yield samples
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _name_of(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    return f"{path.parent.name}/{path.name} {frame.f_code.co_qualname}"
