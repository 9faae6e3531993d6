"""`job explain` and `job validate` for people: the server's answer as lines and tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from fate_flow.cli.console.display import one_line, print_line, print_table
from fate_flow.cli.console.wording import (
    clock,
    duration,
    job_title,
    moment,
    party_name,
    passers,
    reason_of,
    short_digest,
    status_of,
)
from fate_flow.cli.output.watch import why_it_waits
from fate_flow.core.text.phrases import counted


def print_explanation(job_id: str, data: Mapping[str, Any]) -> None:
    """Print the state of a job, its times and its reason, and the state of each party and task."""
    reason = _why(data)
    print_line(f"{job_title(job_id, data.get('name'))}: {status_of(data)}" + (f": {reason}" if reason else ""))
    if times := _times(data):
        print_line(times)
    for line in _why_it_waits(data):
        print_line(line)
    if approval := _approval(job_id, data.get("approval")):
        print_line(approval)
    if unconfirmed := data.get("unconfirmed_parties"):
        print_line(f"parties that did not confirm the end: {', '.join(map(party_name, unconfirmed))}")
    if no_space := data.get("no_space"):
        print_line(one_line(no_space))
    if missing := data.get("missing_parties"):
        print_line(f"succeeded without: {', '.join(map(party_name, missing))}")
    for pending in data.get("pending_policies") or ():
        print_line(_pending(pending))
    if seats := data.get("parties"):
        click.echo("")
        _print_seats(seats)
    if tasks := data.get("tasks"):
        click.echo("")
        _print_tasks(tasks, data)


def _why_it_waits(data: Mapping[str, Any]) -> Iterator[str]:
    if waits_for := why_it_waits(data):
        yield f"why it waits: {waits_for}"
    if data.get("status") == "waiting" and (passed_by := passers(data)):
        yield f"passed by: {passed_by}"


def _approval(job_id: str, approval: Any) -> str:
    """Return the digest of the document that this party has to approve, with the command; "" if none is pending."""
    if not isinstance(approval, Mapping) or approval.get("status") != "pending":
        return ""
    return f"document: {short_digest(approval.get('digest'))} (flow job approve -j {job_id} --digest DOCUMENT)"


def _times(data: Mapping[str, Any]) -> str:
    """Return when the job was submitted, started and ended, and how long it has waited or run."""
    created, started, ended = (data.get(f"{key}_time") for key in ("create", "start", "end"))
    if not created:
        return ""
    parts = [f"submitted {moment(created)}"]
    if started:
        parts.append(f"started {clock(started, created)}")
    if ended:
        took = f" after {duration(ended - started)}" if started else ""
        parts.append(f"ended {clock(ended, created)}{took}")
        if removed := data.get("removed_after"):
            parts.append(f"removed {clock(removed, created)} (ttl {duration(data.get('ttl', 0) * 1000)})")
    elif (waited := data.get("waiting_seconds")) is not None:
        parts.append(f"waiting for {duration(waited * 1000)}")
    elif started and data.get("time"):
        parts.append(f"running for {duration(max(0, data['time'] - started))}")
    return ", ".join(parts)


def _print_seats(seats: Sequence[Mapping[str, Any]]) -> None:
    """Print the parties. Only parties that refused say how much is free; without any, that column is left out."""
    shows_free = any(seat.get("free_cores") is not None for seat in seats)
    headers = ("party", "state", "cores asked", *(("cores free",) if shows_free else ()), "message")
    print_table(headers, (_seat(seat, shows_free) for seat in seats))


    for seat in seats:
        if len(engines := seat.get("engines") or ()) > 1:
            print_line(f"{party_name(seat)} asks for {', '.join(map(_of_engine, engines))}")


def _of_engine(asked: Mapping[str, Any]) -> str:
    parts = [counted(asked.get("cores") or 0, "core")]
    if asked.get("memory"):
        parts.append(f"{asked['memory']} MB of memory")
    if asked.get("gpus"):
        parts.append(counted(asked["gpus"], "GPU"))
    return f"{' and '.join(parts)} of engine {asked.get('engine')}"


def _print_tasks(tasks: Sequence[Mapping[str, Any]], job: Mapping[str, Any]) -> None:
    """Print the tasks. If this party has them on more than one engine, a column names the engine of each share here."""
    used = {share.get("engine") for task in tasks for share in task.get("parties") or ()} - {None}
    rows = _task_rows(tasks, job)
    if len(used) < 2:
        print_table(_TASKS, (row[:4] + row[5:] for row in rows))
    else:
        print_table((*_TASKS[:4], "engine", *_TASKS[4:]), rows)


_TASKS = ("task", "status", "party", "there", "started", "took", "why")


def print_plan(data: Mapping[str, Any]) -> None:
    """Print what each party would run, with which parameters and cores."""
    for party in data.get("parties") or ():
        memory = f", {party['memory']} MB" if party.get("memory") else ""
        click.echo(one_line(f"{party_name(party)}: {counted(party.get('cores') or 0, 'core')}{memory}"))
        if party.get("asked") not in (None, "accepts"):
            click.echo(one_line(f"{party['asked']}: {party.get('message')}"))
        tasks = party.get("tasks") or ()
        shows_stage = any(task.get("stage") not in (None, "default") for task in tasks)
        headers = ("task", "module", *(("stage",) if shows_stage else ()), "parameters")
        print_table(headers, (_planned(task, shows_stage) for task in tasks))
        click.echo("")
        if values := list(_values(party)):
            print_table(("value", "of", "is", "from"), values)
            click.echo("")
    if values := [_value(key, "the job", one) for key, one in (data.get("values") or {}).items()]:
        print_table(("value", "of", "is", "from"), values)
        click.echo("")
    for warning in data.get("warnings") or ():
        click.echo(one_line(f"warning: {warning}"))


def _pending(policy: Mapping[str, Any]) -> str:
    task = f" of {policy['component_name']}" if policy.get("component_name") else ""
    where = f" on {party_name(policy)}" if policy.get("role") else ""
    return f"{policy.get('action')} in {policy.get('seconds', 0):.0f} s, after {policy.get('event')}{task}{where}"


_STATES = {
    "joining": "asked to accept", "joined": "accepted", "checking": "being checked", "applying": "asked for cores",
    "held": "cores reserved", "started": "running", "draining": "stopping", "leaving": "ending", "left": "ended",
    "unconfirmed": "end not confirmed",
}  # fmt: skip
"""The text to show for a party's state: the server's own names are internal."""


def _seat(seat: Mapping[str, Any], shows_free: bool) -> tuple[object, ...]:
    free = (seat.get("free_cores"),) if shows_free else ()
    message = "; ".join(filter(None, (seat.get("trouble") or seat.get("message"), seat.get("approval"))))
    state = str(seat.get("status"))
    return party_name(seat), _STATES.get(state, state), seat.get("asked_cores"), *free, message


def _task_rows(tasks: Any, job: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield the rows of the tasks, with their engines; a reason that is already shown for the job is not repeated."""
    now, known = job.get("time"), (job,) if job.get("reason") else ()
    for task in tasks:
        name, version = task.get("component_name"), task.get("task_version")
        head: tuple[object, ...] = (f"{name} #{version}" if version else name, status_of(task))
        shares = task.get("parties") or ()
        if not shares or (_why(task) and not _is_said(task, (*known, *shares))):
            yield (*head, "", "", "", "", "", _why(task))
            head = ("", "")
        for share in shares:
            there = party_name(share), share.get("status"), share.get("engine") or ""
            yield (*head, *there, _started(share, job), _took(share, now), _share_why(share, job))
            head = ("", "")
            yield from _worker_rows(share, job)
        if last := task.get("last_version"):
            status, before = last.get("status"), last.get("task_version")
            times = _started(last, job), _took(last, now)
            yield f"{name} #{before}", status, party_name(last), status, "", *times, _why(last)


def _share_why(share: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    is_of_job = share.get("reason") == job.get("reason") and share.get("message") in ("", None, job.get("message"))
    return "" if is_of_job else _why(share)


def _is_said(one: Mapping[str, Any], parts: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether one of the parts has the same reason and message."""
    return any(all(one.get(key) == part.get(key) for key in ("reason", "message")) for part in parts)


def _started(one: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    """Return the time of day, with the date unless the job began on the same day."""
    return clock(one.get("start_time"), job.get("start_time"))


def _took(one: Mapping[str, Any], now: object) -> str:
    """Return how long a share ran, or has run so far."""
    start, end = one.get("start_time"), one.get("end_time")
    if not start:
        return ""
    if end:
        return duration(max(0, end - start))
    if one.get("status") != "running" or not isinstance(now, (int, float)):
        return ""
    return f"{duration(max(0, now - start))} so far"


def _why(data: Mapping[str, Any]) -> str:
    """Return the reason and the message, and the party that caused it unless it is the subject itself."""
    why, cause = reason_of(data), str(data.get("caused_by") or "")
    is_said = cause == f"{data.get('role')} {data.get('party_id')}" or cause in why
    by = cause.replace(" ", "-")
    return f"{why} (by {by})" if why and cause and not is_said else why


def _worker_rows(share: Mapping[str, Any], job: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield rows for the number of elastic workers, and for the workers of a share that failed or replaced others."""
    if elastic := share.get("elastic"):
        text = f"{elastic.get('running')} of {elastic.get('most')} run, {elastic.get('lent')} lent"
        yield "", "", "  elastic workers", "", "", "", "", text
    for worker in share.get("workers") or ():
        why = _why(worker | {"role": share.get("role"), "party_id": share.get("party_id")})
        if (why and not _is_said(worker, (share,))) or worker.get("attempt"):
            rank = worker.get("rank")
            which = f"worker {worker.get('worker')}" + ("" if rank is None else f" (rank {rank})")
            which += f", attempt {worker['attempt']}" if worker.get("attempt") else ""
            name = which if worker.get("worker") is not None else "output collector"
            said = ": ".join(filter(None, (why, worker["exit_status"])))
            yield "", "", f"  {name}", worker.get("status"), "", _started(worker, job), "", said


def _planned(task: Mapping[str, Any], shows_stage: bool) -> tuple[object, ...]:
    parameters = json.dumps(task.get("parameters") or {}, ensure_ascii=False)
    stage = (task.get("stage"),) if shows_stage else ()
    does = "does not run" if task.get("need_run") is False else parameters
    return task.get("component_name"), task.get("module"), *stage, does


def _values(party: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield the effective values at a party and their sources; tasks with the same value share a line."""
    for key, one in (party.get("values") or {}).items():
        yield _value(key, "each task", one)
    names: dict[tuple[object, ...], list[str]] = {}
    for task in party.get("tasks") or ():
        for key, one in (task.get("values") or {}).items():
            names.setdefault(_value(key, "", one), []).append(str(task.get("component_name")))
    for (key, _, value, source), tasks in sorted(names.items(), key=lambda item: str(item[0][0])):
        yield key, ", ".join(tasks), value, source


def _value(key: str, of: str, one: Mapping[str, Any]) -> tuple[object, ...]:
    value, where = one.get("value"), one.get("where")
    source = {"document": where, "party": where}.get(str(one.get("from")), f"{one.get('from')} {where or ''}".strip())
    return key, of, _displayed(value), source


def _displayed(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
