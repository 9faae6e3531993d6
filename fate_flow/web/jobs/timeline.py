"""When what happened to a job: a track for each of its parties in each run and for each attempt of a task at a party,
on one scale.

A track has phases. Those of a party are of its seat, as the initiator saw it, with its silences; elsewhere
they are of the job's row alone, and the track of another party only says that nothing of it is known here. Large jobs
are folded: a track for all tasks of one component at a party. So are many runs: the older ones of a party share one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fate_flow.core.model.history import HistoryEntry, HistoryLevel, Silence
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, TASK_END, JobStatus
from fate_flow.core.text.phrases import counted
from fate_flow.store.views.times.job_times import FoldedShares, JobTimes, ShareTimes

WIDTH, NAMES, ROW, HEAD = 1000, 250, 20, 26
"""Of the drawing: its width, that of the names of tracks, the height of a track, and that of the axis."""
SIZES = {"width": WIDTH, "names": NAMES, "head": HEAD, "row": ROW}
_LEAST = 3                   # units of the width: a bar is always to be seen
_LONGEST_NAME = 34
MOST_RUNS, MOST_TRACKS = 10, 100
"""Runs that have tracks of their own, the newest: so many, and so many tracks of parties in them, but one at least."""

INVITED, QUEUE, RESERVATION, START, RUN, END, SILENCE = (
    "invited", "queue", "reservation", "start", "run", "end", "silence"
)  # fmt: skip
PHASES: Mapping[str, str] = {
    INVITED: "asked to take part", QUEUE: "waits in the queue, or for other tasks", RESERVATION: "reserves cores",
    START: "starts", RUN: "runs", END: "is stopped, or hears of the end", SILENCE: "does not answer",
}  # fmt: skip
_OF_SEATS = {
    "joining": INVITED, "joined": QUEUE, "checking": RESERVATION, "applying": RESERVATION, "held": RESERVATION,
    "starting": START, "started": RUN, "stopping": END, "draining": END, "leaving": END,
}  # fmt: skip
_OF_JOBS = {"ready": INVITED, "waiting": QUEUE, "running": RUN, "stopping": END}
_BEGINS = re.compile(r"run ([0-9]{1,9}) begins")
_JOB_ENDS = {status.value for status in JOB_END}
_TASK_ENDS = {status.value for status in TASK_END}


@dataclass(frozen=True)
class Phase:
    kind: str                    # a key of PHASES
    start: int                   # milliseconds since 1970
    end: int
    goes_on: bool = False        # `end` is then the last time that is known
    x: int = 0                   # on the scale of the drawing
    width: int = 0


@dataclass(frozen=True)
class Track:
    name: str
    attempt: int | None          # from 1; None: the track is of no single attempt
    result: str                  # how it ended, or how far it is
    phases: tuple[Phase, ...]
    is_known: bool = True        # False: what this party did, or when, is not known here

    @property
    def label(self) -> str:
        text = self.name if self.attempt in (None, 1) else f"{self.name} #{self.attempt}"
        return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"


@dataclass(frozen=True)
class Timeline:
    tracks: tuple[Track, ...]
    start: int
    end: int
    ticks: tuple[tuple[int, str], ...]       # x, and the time since the begin
    runs: int = 1                            # of the job, as far as the changes are known that are drawn
    folded_runs: int = 0                     # the oldest of them, which share a track for each party

    @property
    def height(self) -> int:
        return HEAD + len(self.tracks) * ROW + 4


def timeline_of(times: JobTimes, now: int, others: Iterable[Party] = (), *, folds_runs: bool = True) -> Timeline:
    """Return the tracks, in the order of runs, of parties in them, and then of tasks. `now`: to where what goes on is
    drawn, at least. `others`: parties of which nothing is known here. `folds_runs`: whether many runs are folded."""
    unknown = (Track(str(one), None, "not known here", (), is_known=False) for one in others)
    runs = _runs(times)
    folded = _folded_runs(runs) if folds_runs else 0
    order = [str(party) for party in times.jobs[0].parties] if times.jobs else []
    of_parties = [track for one in _with_folded(runs, folded) for track in _of_run(one, order)]
    tracks = [*of_parties, *unknown, *_of_shares(times), *map(_of_fold, times.folded)]
    moments = [at for track in tracks for one in track.phases for at in (one.start, one.end)]
    if not moments:
        return Timeline((), 0, 0, ())
    goes_on = any(one.goes_on for track in tracks for one in track.phases)
    first, last = min(moments), max(*moments, now if goes_on else 0)
    scale = (WIDTH - NAMES) / max(1, last - first)
    placed = tuple(
        replace(track, phases=tuple(_placed(one, first, last, scale) for one in track.phases)) for track in tracks
    )
    return Timeline(placed, first, last, tuple(_ticks(last - first, scale)), len(runs), folded)


# ---------------------------------------------------------------------- parties


@dataclass(frozen=True)
class _Run:
    """What happened in one run of the job, or in several ones that are folded."""

    name: str                                # behind the name of a party; empty: the job has one run alone
    moves: Mapping[str, Sequence[HistoryEntry]]        # of each party, in order
    silences: Mapping[str, Sequence[HistoryEntry]]
    kinds: Mapping[str, str]                 # the phases of statuses
    start: int
    end: int                                 # of the job in this run; 0: it has not ended
    last: int                                # the last moment that is known of this run
    is_newest: bool

    def phases_of(self, party: str) -> tuple[Phase, ...]:
        moves = _phases(self.moves[party], self.kinds, self.start, self.last, goes_on=self.is_newest)
        silences = _silences(self.silences.get(party, ()), self.end or self.last, goes_on=not self.end)
        return (*moves, *silences)


def _runs(times: JobTimes) -> list[_Run]:
    """Return the runs, the oldest first. A run begins where the ended job waits again, in the order of writing."""
    entries = times.phases
    if not entries:
        return []
    has_seats = any(one.level is HistoryLevel.SEAT for one in entries)
    own = times.jobs[0].party if times.jobs else None
    begins = [
        place for place, one in enumerate(entries)
        if place and one.level is HistoryLevel.JOB and one.old in _JOB_ENDS and one.new == JobStatus.WAITING.value
        and (own is None or one.party == own)
    ]  # fmt: skip
    newest = times.jobs[0].run if times.jobs else len(begins)
    number = 0 if not entries[0].old else newest - len(begins)         # of the first run that is known
    found: list[_Run] = []
    silent = dict[str, HistoryEntry]()       # parties that are silent as the run begins
    for begin, behind in pairwise((0, *begins, len(entries))):
        some, is_newest = entries[begin:behind], behind == len(entries)
        if begin:                            # a party that was away for a run may not know of it
            said = _BEGINS.fullmatch(some[0].message)
            number = newest if is_newest else int(said[1]) if said else number + 1
        last = max(one.at for one in some) if is_newest else max(entries[begin].at, entries[behind].at)
        found.append(_run_of(some, f"run {number}" if newest else "", has_seats, last, silent, is_newest, not begin))
    return found


def _run_of(
    entries: Sequence[HistoryEntry], name: str, has_seats: bool, last: int, silent: dict[str, HistoryEntry],
    is_newest: bool, is_first: bool,
) -> _Run:  # fmt: skip
    """`silent`: which parties are silent, by their first entry about it; it is brought up to the end of this run."""
    level, kinds = (HistoryLevel.SEAT, _OF_SEATS) if has_seats else (HistoryLevel.JOB, _OF_JOBS)
    moves, silences = dict[str, list[HistoryEntry]](), dict[str, list[HistoryEntry]]()
    start = entries[0].at
    for party, one in silent.items():
        silences[party] = [replace(one, at=start)]
    for one in entries:
        party = str(one.party)
        if one.level is level and one.old != one.new and one.party is not None:
            # What it was at the end of the run before is no phase of this one.
            moves.setdefault(party, []).append(one if is_first or party in moves else replace(one, old=""))
        elif one.level is HistoryLevel.SILENCE:
            silences.setdefault(party, []).append(one)
            if one.new == Silence.BEGUN.value:
                silent.setdefault(party, one)
            else:
                silent.pop(party, None)
    end = next((one.at for one in reversed(entries) if one.level is HistoryLevel.JOB and one.new in _JOB_ENDS), 0)
    return _Run(name, moves, silences, kinds, start, end, last, is_newest)


def _folded_runs(runs: Sequence[_Run]) -> int:
    """Return how many runs are folded, the oldest; a single one is not."""
    parties = max((len(one.moves) for one in runs), default=0)
    shown = max(1, min(MOST_RUNS, MOST_TRACKS // max(1, parties)))
    return len(runs) - shown if len(runs) > shown + 1 else 0


def _with_folded(runs: Sequence[_Run], folded: int) -> Iterator[Sequence[_Run]]:
    if folded:
        yield runs[:folded]
    for one in runs[folded:]:
        yield (one,)


def _of_run(runs: Sequence[_Run], order: Sequence[str]) -> Iterator[Track]:
    """Yield a track for each party of a run, or of these runs. `order`: that of the parties in the job."""
    first, last = runs[0], runs[-1]
    name = first.name if first is last else f"{first.name.replace('run', 'runs')} to {last.name.removeprefix('run ')}"
    places = {party: place for place, party in enumerate(order)}
    parties = dict.fromkeys(party for one in runs for party in one.moves)
    for party in sorted(parties, key=lambda party: places.get(party, len(places))):
        of_party = [one for one in runs if party in one.moves]
        phases = tuple(phase for one in of_party for phase in one.phases_of(party))
        result = of_party[-1].moves[party][-1].new
        yield Track(f"{party}, {name}" if name else party, None, result, phases)


def _phases(
    entries: Sequence[HistoryEntry], kinds: Mapping[str, str], begin: int, last: int, *, goes_on: bool
) -> Iterator[Phase]:
    """Yield a phase for each run of statuses that belong to the same one. `goes_on`: the last one may."""
    kind, start = kinds.get(entries[0].old, ""), begin
    for one in entries:
        following = kinds.get(one.new, "")
        if following != kind:
            if kind:
                yield Phase(kind, start, max(one.at, start))
            kind, start = following, one.at
    if kind:
        yield Phase(kind, start, max(last, start), goes_on=goes_on)


def _silences(entries: Iterable[HistoryEntry], last: int, *, goes_on: bool) -> Iterator[Phase]:
    begun = 0
    for one in entries:
        if one.new == Silence.BEGUN.value:
            begun = begun or one.at
        elif begun:
            yield Phase(SILENCE, begun, max(begun, one.at))
            begun = 0
    if begun:
        yield Phase(SILENCE, begun, max(begun, last), goes_on=goes_on)


# ---------------------------------------------------------------------- tasks


def _of_shares(times: JobTimes) -> Iterator[Track]:
    begun = {(one.task, one.version): one.at for one in times.begun}
    last = max([one.at for one in times.phases] + [max(one.started, one.ended) for one in times.shares], default=0)
    for one in times.shares:
        phases = tuple(_of_share(one, begun.get((one.name, one.version), 0), last))
        yield Track(f"{one.name} at {one.party}", one.version + 1, one.status, phases)


def _of_share(one: ShareTimes, begun: int, last: int) -> Iterator[Phase]:
    """`begun`: when the initiator ordered its parties to begin."""
    until = one.started or one.ended or last
    goes_on = one.status not in _TASK_ENDS
    ordered = min(max(begun, one.created), until) if begun else until
    if ordered > one.created:
        yield Phase(QUEUE, one.created, ordered, goes_on=goes_on and not begun and not one.started)
    if begun and until > ordered:
        yield Phase(START, ordered, until, goes_on=goes_on and not one.started)
    if one.started:
        yield Phase(RUN, one.started, max(one.ended or last, one.started), goes_on=not one.ended)


def _of_fold(one: FoldedShares) -> Track:
    result = f"{one.count - one.unfinished} of {counted(one.count, 'share')} ended"
    if one.failed:
        result += f", {one.failed} not well"
    phases: tuple[Phase, ...] = ()
    if one.started:
        phases = (Phase(RUN, one.started, max(one.ended, one.started), goes_on=one.unfinished > 0),)
    return Track(f"{one.module} at {one.party}", None, result, phases)


# ---------------------------------------------------------------------- the drawing


def _placed(one: Phase, first: int, last: int, scale: float) -> Phase:
    end = last if one.goes_on else one.end
    width = max(_LEAST, round((end - one.start) * scale))
    x = min(NAMES + round((one.start - first) * scale), WIDTH - width)
    return Phase(one.kind, one.start, one.end, one.goes_on, x, width)


_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400)


def _ticks(span: int, scale: float) -> Iterator[tuple[int, str]]:
    """Yield five to nine round times since the begin; spans below five seconds have none but their begin."""
    seconds = span / 1000
    step = next((one for one in _STEPS if seconds / one <= 8), 0)
    if not step:
        step = 86_400 * (-(-int(seconds) // (86_400 * 8)))
    for number in range(int(seconds // step) + 1):
        yield NAMES + round(number * step * 1000 * scale), duration(number * step)


def duration(seconds: int) -> str:
    """Return a time as people say it: `90 s`, `5 min`, `3 h`, `2 d`, `1 h 30 min`."""
    for size, name, below in ((86_400, "d", (3_600, "h")), (3_600, "h", (60, "min")), (60, "min", (1, "s"))):
        if seconds >= size:
            rest = seconds % size // below[0]
            return f"{seconds // size} {name}" + (f" {rest} {below[1]}" if rest else "")
    return f"{seconds} s"
