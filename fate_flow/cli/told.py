"""`job explain` and `job validate` for people: what the server answered, as lines and tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import click

from fate_flow.cli.display import one_line, print_table
from fate_flow.cli.watch import party_name, reason_of, why_it_waits


def print_explanation(job_id: str, data: Mapping[str, Any]) -> None:
    """How a job stands, why, and what each party and task has to do with it."""
    reason = _why(data)
    click.echo(one_line(f"job {job_id}: {data.get('status')}" + (f": {reason}" if reason else "")))
    if waits_for := why_it_waits(data):
        click.echo(f"why it waits: {waits_for}")
    if unconfirmed := data.get("unconfirmed_parties"):
        click.echo(one_line(f"never confirmed its end: {', '.join(map(party_name, unconfirmed))}"))
    if missing := data.get("missing_parties"):
        click.echo(one_line(f"succeeded without: {', '.join(map(party_name, missing))}"))
    for pending in data.get("pending_policies") or ():
        click.echo(one_line(_pending(pending)))
    if seats := data.get("parties"):
        click.echo("")
        print_table(("party", "seat", "cores asked", "cores free", "message"), map(_seat, seats))
    if tasks := data.get("tasks"):
        click.echo("")
        print_table(("task", "version", "status", "party", "there", "why"), _task_rows(tasks))


def print_plan(data: Mapping[str, Any]) -> None:
    """What each party would run, with which parameters and cores."""
    for party in data.get("parties") or ():
        memory = f", {party['memory']} MB" if party.get("memory") else ""
        cores = "1 core" if party.get("cores") == 1 else f"{party.get('cores')} cores"
        click.echo(one_line(f"{party_name(party)}: {cores}{memory}"))
        if party.get("asked") not in (None, "accepts"):
            click.echo(one_line(f"{party['asked']}: {party.get('message')}"))
        print_table(("task", "module", "parameters"), map(_planned, party.get("tasks") or ()))
        click.echo("")
        if values := list(_values(party)):
            print_table(("value", "of", "is", "from"), values)
            click.echo("")
    if values := [_value(key, "the job", one) for key, one in (data.get("values") or {}).items()]:
        print_table(("value", "of", "is", "from"), values)
        click.echo("")
    for warning in data.get("warnings") or ():
        click.echo(one_line(f"warning: {warning}"))


def print_queue(data: Mapping[str, Any]) -> None:
    """The queue as a table, with what people have to decide around it."""
    if hold := data.get("hold"):
        click.echo(one_line(f"this party is on hold by {hold.get('by')}: {hold.get('message')}"))
    jobs = data.get("jobs") or ()
    click.echo(f"{len(jobs)} of {data.get('count')} jobs that wait")
    if jobs:
        headers = ("place", "job", "priority", "cores asked", "passed by", "starts in", "waits for")
        print_table(headers, map(_in_queue, jobs))
    if unapproved := data.get("unapproved"):
        click.echo("jobs of others that await an approval here (flow job approve, flow job reject):")
        print_table(("job", "initiator", "as", "cores asked"), map(_unapproved, unapproved))


def _in_queue(job: Mapping[str, Any]) -> tuple[object, ...]:
    cores = ", ".join(f"{party_name(party)}: {party.get('asked_cores')}" for party in job.get("parties") or ())
    estimate = job.get("estimate_seconds")
    starts = "nobody can say" if estimate is None else "its turn is now" if estimate == 0 else f"{estimate} s"
    return (
        job.get("place_in_queue"), job.get("job_id"), job.get("priority"), cores, job.get("passed_by"), starts,
        job.get("wait_reason"),
    )


def _unapproved(job: Mapping[str, Any]) -> tuple[object, ...]:
    return job.get("job_id"), party_name(job.get("initiator")), party_name(job), job.get("asked_cores")


def _pending(policy: Mapping[str, Any]) -> str:
    task = f" of {policy['component_name']}" if policy.get("component_name") else ""
    where = f" on {party_name(policy)}" if policy.get("role") else ""
    return f"{policy.get('action')} in {policy.get('seconds', 0):.0f} s, after {policy.get('event')}{task}{where}"


def _seat(seat: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        party_name(seat), seat.get("status"), seat.get("asked_cores"), seat.get("free_cores"),
        "; ".join(filter(None, (seat.get("message"), seat.get("approval")))),
    )


def _task_rows(tasks: Any) -> Iterator[tuple[object, ...]]:
    for task in tasks:
        head: tuple[object, ...] = (task.get("component_name"), task.get("task_version"), task.get("status"))
        if (why := _why(task)) or not task.get("parties"):
            yield (*head, "", "", why)
            head = ("", "", "")
        for party in task.get("parties") or ():
            yield (*head, party_name(party), party.get("status"), _why(party))
            head = ("", "", "")
            yield from _worker_rows(party)
        if last := task.get("last_version"):
            status = last.get("status")
            yield "", last.get("task_version"), status, party_name(last), status, _why(last)


def _why(data: Mapping[str, Any]) -> str:
    """The reason and the message, and whose doing it is, where that is somebody else than whom it is said of."""
    why, cause = reason_of(data), data.get("caused_by")
    is_own = cause == f"{data.get('role')} {data.get('party_id')}"
    by = str(cause).replace(" ", "-")
    return f"{why} (by {by})" if why and cause and not is_own else why


def _worker_rows(share: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Of the workers of a share those that ended otherwise than well or took the place of others, and how many elastic
    ones there are."""
    if elastic := share.get("elastic"):
        words = f"{elastic.get('running')} of {elastic.get('most')} run, {elastic.get('lent')} lent"
        yield "", "", "", "  elastic workers", "", words
    for worker in share.get("workers") or ():
        why = _why(worker | {"role": share.get("role"), "party_id": share.get("party_id")})
        if why or worker.get("attempt"):
            rank = worker.get("rank")
            which = f"worker {worker.get('worker')}" + ("" if rank is None else f" (rank {rank})")
            which += f", attempt {worker['attempt']}" if worker.get("attempt") else ""
            name = which if worker.get("worker") is not None else "collects the outputs"
            yield "", "", "", f"  {name}", worker.get("status"), ": ".join(filter(None, (why, worker["exit_status"])))


def _planned(task: Mapping[str, Any]) -> tuple[object, ...]:
    does_not_run = task.get("need_run") is False
    parameters = json.dumps(task.get("parameters") or {}, ensure_ascii=False)
    return task.get("component_name"), task.get("module"), "does not run" if does_not_run else parameters


def _values(party: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """What holds at a party and where it comes from; tasks for which it is the same stand in one line."""
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
    return key, of, _plain(value), source


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def print_history(data: Mapping[str, Any]) -> None:
    """A line for each move, with the party that has seen it where several were asked, and who was not."""
    moves, parties = data.get("moves") or (), data.get("parties") or ()
    if parties:
        rows = ((*_move(one), one.get("seen_by")) for one in moves)
        print_table(("time", "what", "from", "to", "why", "by", "seen by"), rows)
    else:
        print_table(("time", "what", "from", "to", "why", "by"), map(_move, moves))
    for party in parties:
        if party.get("asked") != "answered" or party.get("message"):
            click.echo(one_line(f"party {party.get('party_id')}: {party.get('asked')}: {party.get('message')}"))


def _move(move: Mapping[str, Any]) -> tuple[object, ...]:
    task = move.get("component_name")
    where = party_name(move) if move.get("role") else ""
    what = " ".join(filter(None, (str(move.get("level")), task and f"{task} v{move.get('task_version')}", where)))
    why = ": ".join(str(move[key]) for key in ("reason", "exit_status", "message") if move.get(key))
    return _clock(move.get("time")), what, move.get("old") or "", move.get("new"), why, move.get("caused_by") or ""


def _clock(milliseconds: object) -> str:
    """Local time of day, to the millisecond."""
    if not isinstance(milliseconds, (int, float)):
        return ""
    moment = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}"
