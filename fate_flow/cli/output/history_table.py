"""`job history` for people: a line for each change of state.

Every other party repeats the initiator's changes of a job and its tasks when the initiator's command arrives. Such a
change is one line, with the time of its first occurrence and the parties that have seen it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import click

from fate_flow.cli.console.display import one_line, print_table
from fate_flow.cli.console.wording import party_name, reason_text
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.reasons import Reason

_SAME = ("level", "role", "party_id", "component_name", "task_version", "old", "new", "reason", "message")

Move = Mapping[str, Any]


@dataclass
class _Line:
    move: Move
    seen_by: list[str] = field(default_factory=list)


def print_history(data: Mapping[str, Any]) -> None:
    """Print a line for each change; if several parties were asked, who has seen it, and which did not answer."""
    moves, parties = data.get("moves") or (), data.get("parties") or ()
    headers = ("time", "what", "from", "to", *(("seen by",) if parties else ()), "why")
    everybody = {str(party.get("party_id")) for party in parties} | {str(move.get("seen_by")) for move in moves}
    for day, lines in _by_day(_merged(moves)):
        click.echo(day)
        rows = (
            (*_cells(one.move), *((_seen(one, everybody),) if parties else ()), _why(one.move)) for one in lines
        )  # fmt: skip
        print_table(headers, rows)
    for party in parties:
        if party.get("asked") != "answered" or party.get("message"):
            click.echo(one_line(f"party {party.get('party_id')}: {party.get('asked')}: {party.get('message')}"))


def _seen(line: _Line, everybody: Collection[str]) -> str:
    is_all = len(everybody) > 1 and set(line.seen_by) >= set(everybody)
    return "all" if is_all else ", ".join(line.seen_by)


def _merged(moves: Iterable[Move]) -> list[_Line]:
    found: list[_Line] = []
    same: dict[tuple[object, ...], list[_Line]] = {}
    for move in moves:
        who, alike = str(move.get("seen_by") or ""), same.setdefault(tuple(map(move.get, _SAME)), [])
        line = next((one for one in alike if who not in one.seen_by), None)
        if line is None:
            line = _Line(move)
            alike.append(line)
            found.append(line)
        line.seen_by.append(who)
    return found


def _by_day(lines: list[_Line]) -> Iterator[tuple[str, list[_Line]]]:
    """Group the lines by day in their order; a day may occur twice if the parties' clocks differ."""
    days: list[tuple[str, list[_Line]]] = []
    for line in lines:
        day = f"{_time_of(line.move):%Y-%m-%d}"
        if not days or days[-1][0] != day:
            days.append((day, []))
        days[-1][1].append(line)
    yield from days


def _cells(move: Move) -> tuple[object, ...]:
    task = move.get("component_name")
    version = f"#{move['task_version']}" if move.get("task_version") else ""
    where = party_name(move) if move.get("role") else ""
    at = _time_of(move)
    time = f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"
    # "task" is enough: the line names the party
    level = "task" if move.get("level") == HistoryLevel.PARTY_TASK.value else str(move.get("level"))
    what = " ".join(filter(None, (level, task, version, where)))
    return time, what, move.get("old"), move.get("new")


def _why(move: Move) -> str:
    """Return the reason and who caused the change; "" for a normal success."""
    went_well = move.get("reason") == Reason.DONE.value
    status = "" if went_well and move.get("exit_status") == "exit code 0" else move.get("exit_status")
    message = ": ".join(str(one) for one in (status, move.get("message")) if one)
    why, cause = reason_text(move.get("reason"), message), str(move.get("caused_by") or "")
    return f"{why} (by {cause.replace(' ', '-')})" if why and cause and cause not in why else why


def _time_of(move: Move) -> datetime:
    at = move.get("time")
    return datetime.fromtimestamp(at / 1000 if isinstance(at, (int, float)) else 0).astimezone()
