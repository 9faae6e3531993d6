"""When what happened to a job: a track for each of its parties and for each attempt of a task at a party, on one scale.

A track has phases. Those of a party are of its seat, as the initiator saw it, with its silences; elsewhere
they are of the job's row alone, and the track of another party only says that nothing of it is known here. Large jobs
are folded: a track for all tasks of one component at a party.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fate_flow.core.model.history import HistoryEntry, HistoryLevel, Silence
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, TASK_END
from fate_flow.core.text.phrases import counted
from fate_flow.store.views.times.job_times import FoldedShares, JobTimes, ShareTimes

WIDTH, NAMES, ROW, HEAD = 1000, 250, 20, 26
"""Of the drawing: its width, that of the names of tracks, the height of a track, and that of the axis."""
SIZES = {"width": WIDTH, "names": NAMES, "head": HEAD, "row": ROW}
_LEAST = 3                   # units of the width: a bar is always to be seen
_LONGEST_NAME = 34

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

    @property
    def height(self) -> int:
        return HEAD + len(self.tracks) * ROW + 4


def timeline_of(times: JobTimes, now: int, others: Iterable[Party] = ()) -> Timeline:
    """Return the tracks, in the order of parties and then of tasks. `now`: to where what goes on is drawn, at least.
    `others`: parties of which nothing is known here."""
    unknown = (Track(str(one), None, "not known here", (), is_known=False) for one in others)
    tracks = [*_of_parties(times), *unknown, *_of_shares(times), *map(_of_fold, times.folded)]
    moments = [at for track in tracks for one in track.phases for at in (one.start, one.end)]
    if not moments:
        return Timeline((), 0, 0, ())
    goes_on = any(one.goes_on for track in tracks for one in track.phases)
    first, last = min(moments), max(*moments, now if goes_on else 0)
    scale = (WIDTH - NAMES) / max(1, last - first)
    placed = tuple(
        replace(track, phases=tuple(_placed(one, first, last, scale) for one in track.phases)) for track in tracks
    )
    return Timeline(placed, first, last, tuple(_ticks(last - first, scale)))


# ---------------------------------------------------------------------- parties


def _of_parties(times: JobTimes) -> Iterator[Track]:
    begin = times.phases[0].at if times.phases else 0
    has_seats = any(one.level is HistoryLevel.SEAT for one in times.phases)
    level, kinds = (HistoryLevel.SEAT, _OF_SEATS) if has_seats else (HistoryLevel.JOB, _OF_JOBS)
    by_party: dict[str, list[HistoryEntry]] = {}
    for one in times.phases:
        if one.level is level and one.old != one.new and one.party is not None:
            by_party.setdefault(str(one.party), []).append(one)
    end = next((one.at for one in reversed(times.phases) if one.level is HistoryLevel.JOB and one.new in _JOB_ENDS), 0)
    last = max((one.at for one in times.phases), default=0)
    for party, entries in by_party.items():
        phases = [*_phases(entries, kinds, begin, last), *_silences(times.phases, party, end, last)]
        yield Track(party, None, entries[-1].new, tuple(phases))


def _phases(entries: Sequence[HistoryEntry], kinds: Mapping[str, str], begin: int, last: int) -> Iterator[Phase]:
    """Yield a phase for each run of statuses that belong to the same one."""
    kind, start = kinds.get(entries[0].old, ""), begin
    for one in entries:
        following = kinds.get(one.new, "")
        if following != kind:
            if kind:
                yield Phase(kind, start, max(one.at, start))
            kind, start = following, one.at
    if kind:
        yield Phase(kind, start, max(last, start), goes_on=True)


def _silences(entries: Iterable[HistoryEntry], party: str, end: int, last: int) -> Iterator[Phase]:
    begun = 0
    for one in entries:
        if one.level is not HistoryLevel.SILENCE or str(one.party) != party:
            continue
        if one.new == Silence.BEGUN.value:
            begun = begun or one.at
        elif begun:
            yield Phase(SILENCE, begun, max(begun, one.at))
            begun = 0
    if begun:
        yield Phase(SILENCE, begun, max(begun, end or last), goes_on=not end)


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
