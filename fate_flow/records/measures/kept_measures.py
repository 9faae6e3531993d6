"""The measures of a process in its file, and the sums over all processes."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fate_flow.core.metrics.measures import MEASURES, Measure
from fate_flow.records.measures.count_file import CountFile, read_counts

log = logging.getLogger(__name__)

_BETWEEN = "\x1f"
_COUNT, _SUM = "count", "sum"
INFINITY = "+Inf"


class KeptMeasures:
    """Counts in a file of the folder. A disk that refuses the file costs the counts of this process and nothing else.

    Make it after the fork: each process needs its own."""

    def __init__(self, folder: Path) -> None:
        self._file: CountFile | None = None
        try:
            self._file = CountFile(folder)
        except OSError as error:
            log.warning("%s: what this process does is not counted: %s", folder, error.strerror)

    def count(self, measure: Measure, *labels: str, by: float = 1.0) -> None:
        self._add((measure.name, *labels, _COUNT), by)

    def observe(self, measure: Measure, *labels: str, value: float) -> None:
        place = bisect_left(measure.buckets, value)
        bound = f"{measure.buckets[place]:g}" if place < len(measure.buckets) else INFINITY
        self._add((measure.name, *labels, bound), 1.0)
        self._add((measure.name, *labels, _SUM), value)

    def _add(self, key: tuple[str, ...], amount: float) -> None:
        if self._file is not None:
            with suppress(OSError):          # a full disk: a lost count ends nothing of what is counted
                self._file.add(_BETWEEN.join(key), amount)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


@dataclass(frozen=True)
class Series:
    """The numbers of one measure and one choice of labels; of a histogram, the cumulated counts by bound."""

    labels: tuple[str, ...]
    value: float                                 # of a histogram: the sum of all values
    buckets: tuple[tuple[str, float], ...] = ()


def read_measures(folder: Path) -> Iterator[tuple[Measure, tuple[Series, ...]]]:
    """Yield each measure with its series, added up over all processes of the server."""
    by_measure: dict[str, dict[tuple[str, ...], dict[str, float]]] = {one.name: {} for one in MEASURES}
    for key, number in read_counts(folder).items():
        name, *labels, part = key.split(_BETWEEN)
        if name in by_measure:               # not one of an earlier release
            by_measure[name].setdefault(tuple(labels), {})[part] = number
    for measure in MEASURES:
        found = by_measure[measure.name].items()
        yield measure, tuple(_series(measure, labels, parts) for labels, parts in sorted(found))


def _series(measure: Measure, labels: tuple[str, ...], parts: Mapping[str, float]) -> Series:
    if not measure.buckets:
        return Series(labels, parts.get(_COUNT, 0.0))
    total, buckets = 0.0, []
    for bound in (*(f"{one:g}" for one in measure.buckets), INFINITY):
        total += parts.get(bound, 0.0)
        buckets.append((bound, total))
    return Series(labels, parts.get(_SUM, 0.0), tuple(buckets))
