"""What a party does at one moment, on one screen: its engines, what runs, what waits and why, what failed lately, and
which parties do not answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fate_flow.cli.connection.client import CallFailed, Client, NoAnswer
from fate_flow.cli.connection.job_lists import ask_for_jobs
from fate_flow.cli.console.display import one_line
from fate_flow.cli.console.reply import ServerReply
from fate_flow.cli.console.table_layout import lay_out
from fate_flow.cli.console.wording import duration, party_name, reason_of, short_moment
from fate_flow.cli.output.lists import free_lines, hold_lines, status_in_list, unprefixed
from fate_flow.cli.output.queue_table import WAITING, count_of_reviews, needs_approval, waiting_row
from fate_flow.core.text.phrases import counted

_MOST_JOBS = 100               # are asked for; a screen has space for fewer
_MOST_FAILED = 5
_LATELY_HOURS = 24
_PARTIES_MS = 10_000           # between two requests to all parties
_INDENT = "  "

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Overview:
    """The answers of one look. `parties` is None until the parties have been asked once."""

    resources: Row
    running: Row
    queue: Row
    failed: Row                # `job/failed`; without `count` if the server is older
    parties: Row | None


class Looks:
    """Looks at one server. The parties are asked beside: one that does not answer holds up nothing."""

    def __init__(self, client: Client, now: Callable[[], int]) -> None:
        """`now`: the wall clock in ms."""
        self._client = client
        self._now = now
        self._beside = ThreadPoolExecutor(1)
        self._asked: Future[Row] | None = None
        self._parties: Row | None = None
        self._ask_again = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._beside.shutdown(wait=False, cancel_futures=True)

    def take(self, *, waits: bool) -> Overview:
        """Return what the server says now; if this `waits`, also for the parties. Raise CallFailed if it refuses."""
        if self._asked is None and self._now() >= self._ask_again:
            self._asked = self._beside.submit(self._data, "party/list", {})
        resources = self._data("resource/query", {})
        running, _ = self._jobs("job/search", {"status": "running", "limit": _MOST_JOBS}, "running")
        lately = {"hours": _LATELY_HOURS, "limit": _MOST_FAILED}
        failed, knows_all = self._jobs("job/failed", lately, "failed", "timeout")
        queue = self._data("queue/list", {"limit": _MOST_JOBS})
        if self._asked is not None and (waits or self._asked.done()):
            asked, self._asked, self._ask_again = self._asked, None, self._now() + _PARTIES_MS
            self._parties = asked.result()
        now = self._now()
        jobs = [{**one, "elapsed": now - (one.get("start_time") or now)} for one in map(unprefixed, running["jobs"])]
        failed = {**failed, "jobs": list(map(unprefixed, failed["jobs"]))}
        if not knows_all:
            since = now - _LATELY_HOURS * 3_600_000
            failed = {"jobs": [one for one in failed["jobs"] if (one.get("end_time") or 0) >= since]}
        return Overview(resources, {**running, "jobs": jobs}, queue, failed, self._parties)

    def _data(self, path: str, body: Row) -> Row:
        return _data_in(self._client.post(path, body))

    def _jobs(self, path: str, body: Row, *statuses: str) -> tuple[Row, bool]:
        """Return the data of the route, and whether the server has it; an older one has a list by status."""
        older = {"status": list(statuses), "limit": body["limit"]}
        answer, is_there = ask_for_jobs(self._client, path, body, older)
        return _data_in(answer), is_there


def _data_in(answer: ServerReply) -> Row:
    if not answer.is_success or not isinstance(answer.data, Mapping):
        raise CallFailed(answer.message, answer.envelope)
    return answer.data


@dataclass(frozen=True)
class Line:
    text: str
    style: str = ""            # of rich


def show_live(looks: Looks, seconds: float, pause: Callable[[float], None]) -> None:
    """Show one look after the other on the terminal, until Ctrl-C. While no server answers, the last one stays. Raise
    CallFailed if the server refuses."""
    console, last = Console(), list[Line]()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                shown = last = lines_of(looks.take(waits=False), console.width, console.height - 1)
            except NoAnswer as error:
                shown = [Line(f"{error.message}; trying again", "bold red"), *last]
            head = Line(f"{time.strftime('%H:%M:%S')}, again in {seconds:g} s; Ctrl-C ends", "dim")
            lines = (Text(one.text, style=one.style) for one in [head, *shown][:console.height])
            live.update(Text("\n", no_wrap=True, overflow="ellipsis").join(lines), refresh=True)
            pause(seconds)


def lines_of(view: Overview, width: int | None, height: int | None) -> list[Line]:
    """Return the screen. `width`: characters in a line, `height`: lines; None: as many as there are.

    What does not fit is counted, not dropped: the numbers above the tables are those of the server."""
    above = [*_parties(view.parties), *map(Line, free_lines(view.resources))]
    failed = list(_failed(view.failed, width))
    running, waiting = view.running["jobs"], view.queue.get("jobs") or ()
    left = None if height is None else height - len(above) - len(failed) - len(_needs_review(view.queue)) - 4
    most_running, most_waiting = _shares(len(running), len(waiting), left)
    shown = running[:most_running]
    return [
        *above,
        Line(_count(view.running.get("count") or 0, "job runs", "jobs run", len(shown)), "bold"),
        *_table(("job", "name", "party", "started", "for", "waits for"), map(_running, shown), width),
        Line(_count(view.queue.get("count") or 0, "job waits", "jobs wait", len(waiting[:most_waiting])), "bold"),
        *_table(WAITING, map(waiting_row, waiting[:most_waiting]), width),
        *_needs_review(view.queue),
        *failed,
    ]  # fmt: skip


def _shares(running: int, waiting: int, left: int | None) -> tuple[int, int]:
    """Return how many running and waiting jobs are shown in as many lines: each has half, and what the other leaves."""
    if left is None:
        return running, waiting
    half = max(1, left // 2)
    first = min(running, max(half, left - waiting))
    return first, max(1, min(waiting, left - first))


def _parties(data: Row | None) -> Iterator[Line]:
    """Yield what is wrong with a party, and what is on hold."""
    if data is None:
        yield Line("the other parties are being asked", "dim")
        return
    yield from (Line(text, "yellow") for text in hold_lines(data))
    parties = data.get("parties") or ()
    bad = [one for one in parties if one.get("status") not in ("answers", "not asked")]
    for one in bad:
        what = f"{one.get('status')} ({problem})" if (problem := one.get("problem")) else one.get("status")
        yield Line(one_line(f"party {one.get('party_id')}: {what}: {one.get('message')}"), "bold red")
    if parties and not bad:
        yield Line(f"{counted(len(parties), 'other party', 'other parties')}, all answer", "green")


def _count(count: int, one: str, more: str, shown: int) -> str:
    text = counted(count, one, more) if count else f"no {one}"
    return text if shown >= count else f"{text}, {shown} of them shown"


def _running(job: Row) -> tuple[object, ...]:
    """Return the row of a running job; `stopping` and `restarting` stand before what it waits for."""
    status = status_in_list(job, "status")
    waits_for = "; ".join(filter(None, (str(status) if status != "running" else "", job.get("wait_reason"))))
    return (
        job.get("job_id"), job.get("name"), party_name(job), short_moment(job.get("start_time")),
        duration(job.get("elapsed")), waits_for,
    )


def _needs_review(queue: Row) -> list[Line]:
    count = count_of_reviews(queue)
    if not count:
        return []
    return [Line(f"{needs_approval(count)} here: flow queue list, flow job approve, flow job reject", "yellow")]


def _failed(failed: Row, width: int | None) -> Iterator[Line]:
    jobs, count = failed["jobs"], failed.get("count")
    if not jobs:
        return
    if count is None:
        text = f"the newest of those that failed in the last {_LATELY_HOURS} hours"
    else:
        more = "" if failed.get("is_counted") else "at least "
        text = f"{more}{counted(count, 'job')} failed in the last {_LATELY_HOURS} hours"
        text += "" if len(jobs) >= count else f", the newest {len(jobs)} of them shown"
    yield Line(text, "bold")
    rows = ((job.get("job_id"), job.get("name"), short_moment(job.get("end_time")), reason_of(job)) for job in jobs)
    yield from _table(("job", "name", "ended", "why"), rows, width, style="red")


def _table(
    headers: Sequence[str], rows: Iterator[tuple[object, ...]], width: int | None, style: str = ""
) -> Iterator[Line]:
    cells = [["" if cell is None else one_line(cell) for cell in row] for row in rows]
    if cells:
        layout = lay_out(headers, cells, width and max(1, width - len(_INDENT)))
        yield from (Line(f"{_INDENT}{line}", "dim") for line in layout.head)
        yield from (Line(f"{_INDENT}{line}".rstrip(), style) for line in layout.body)
