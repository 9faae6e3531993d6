"""Two displays of a job's progress: a live table on a terminal, a line per change elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fate_flow.cli.console.display import one_line, printable, tell
from fate_flow.cli.console.wording import RESTARTING
from fate_flow.cli.output.curves import Curve, sparkline, value_text
from fate_flow.cli.output.watch import JobView, PartyTask, Screen, changes, unchanged

_STYLES = {
    "waiting": "dim", "running": "bold cyan", "stopping": "yellow", "success": "green", "pass": "dim green",
    "failed": "bold red", "canceled": "yellow", "timeout": "bold red", RESTARTING: "yellow",
}  # fmt: skip
_FIRST_REMINDER = 5.0             # seconds without a change before a reminder; the next one takes twice as long
_TROUBLES = 3                     # at most this many failures are shown below the table
_CURVES = 4                       # at most this many curves
_FRAME_LINES = 8 + _TROUBLES + _CURVES      # lines around the rows of tasks


def open_screen() -> Screen:
    """Return the display that suits stderr."""
    console = Console(stderr=True)
    return LiveScreen(console) if sys.stderr.isatty() and not console.is_dumb_terminal else PlainScreen()


class PlainScreen:
    """A line on stderr for each change, and a reminder from time to time if nothing changes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shown: JobView | None = None
        self._changed = clock()
        self._patience = _FIRST_REMINDER

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def show(self, view: JobView) -> None:
        lines, quiet = list(changes(self._shown, view)), self._clock() - self._changed
        if lines:
            self._changed, self._patience = self._clock(), _FIRST_REMINDER
        elif quiet >= self._patience and not view.is_final:
            lines, self._patience = [unchanged(view, int(quiet))], self._patience * 2
        for line in lines:
            self.tell(line)
        self._shown = view

    def tell(self, text: str) -> None:
        tell(text)


class LiveScreen:
    """A table with a row per component and a column per party, updated in place."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._begun = clock()
        self._view: JobView | None = None
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=4)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def show(self, view: JobView) -> None:
        self._view = view
        self._live.refresh()

    def tell(self, text: str) -> None:
        self._console.print(Text(printable(text), style="yellow"))

    def _render(self) -> RenderableType:
        if self._view is None:
            return Text("")
        seconds = int(self._clock() - self._begun)
        return render(self._view, seconds, max(3, self._console.height - _FRAME_LINES))


def render(view: JobView, seconds: int, height: int) -> RenderableType:
    """Return the job as a table of at most `height` components."""
    head = Table.grid(padding=(0, 2))
    done = sum(task.is_final for task in view.tasks)
    head.add_row(
        Text(f"job {view.job_id}"), _status(view.status), ProgressBar(max(1, len(view.tasks)), done, width=24),
        Text(f"{done}/{len(view.tasks)}"), Text(f"{seconds // 60}:{seconds % 60:02}", style="dim"),
    )
    parts: list[RenderableType] = [Text(view.name, style="bold"), head] if view.name else [head]
    if view.waits_for:
        parts.append(Text(one_line(view.waits_for), style="yellow"))
    if view.tasks:
        parts.append(_table(view.tasks, height))
    troubled = [task for task in view.tasks if task.status in ("failed", "timeout") and task.message]
    lines = (one_line(f"{task.component} {task.party}: {task.message}") for task in troubled[:_TROUBLES])
    parts += [_curve_line(curve) for curve in view.curves[-_CURVES:]]
    return Group(*parts, *(Text(line, style="red") for line in lines))


def _curve_line(curve: Curve) -> Text:
    """Return a curve in a line: its course, and its last value."""
    step, value = curve.points[-1][:2]
    line = Text(f"{curve.component} {curve.party} {curve.name} ", no_wrap=True, overflow="ellipsis")
    line.append(f"{sparkline(curve.points)} ", style="cyan")
    return line.append(f"{value_text(value)} ({curve.axis} {step})")


def chosen(tasks: Sequence[PartyTask], height: int) -> list[str]:
    """Return the components to show: all if they fit; else failed ones first, then running, then waiting ones."""
    names = list(dict.fromkeys(task.component for task in tasks))
    if len(names) <= height:
        return names
    urgency = Counter[str]()
    for task in tasks:
        urgency[task.component] = max(urgency[task.component], _urgency(task.status))
    first = sorted(names, key=lambda name: -urgency[name])[:height]
    return [name for name in names if name in first]


def _table(tasks: Sequence[PartyTask], height: int) -> Table:
    parties = list(dict.fromkeys(task.party for task in tasks))
    names = chosen(tasks, height)
    left_out = len({task.component for task in tasks}) - len(names)
    cells = {(task.component, task.party): task for task in tasks}
    table = Table("task", caption=f"and {left_out} more" if left_out else None)
    for party in parties:
        table.add_column(Text(one_line(party)))
    for name in names:
        row = (cells.get((name, party)) for party in parties)
        table.add_row(Text(one_line(name)), *(_cell(task) for task in row))
    return table


def _cell(task: PartyTask | None) -> Text:
    if task is None:
        return Text("")
    status = _status(task.status)
    return status.append(f" #{task.version}", style="dim") if task.version else status


def _status(status: str) -> Text:
    return Text(one_line(status), style=_STYLES.get(status, ""))


def _urgency(status: str) -> int:
    if status in ("failed", "timeout", "canceled"):
        return 3
    if status in ("running", "stopping", RESTARTING):
        return 2
    return int(status == "waiting")
