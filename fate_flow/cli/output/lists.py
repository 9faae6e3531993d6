"""Print answers that are lists or facts about one thing: JSON for scripts, tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import click

from fate_flow.cli.connection.client import CallFailed
from fate_flow.cli.console.display import one_line, print_table, printable, show
from fate_flow.cli.console.reply import ServerReply
from fate_flow.cli.console.wording import duration, party_name, reason_of, short_moment
from fate_flow.core.text.phrases import counted

_CLOCK_MS = 60_000            # by which clocks may differ where requests are signed
_SOME_COLUMNS = 20            # at most this many columns of a table are named
_JOBS = ("job", "name", "party", "status", "created", "took", "why")

Row = Mapping[str, Any]


def is_for_people(as_json: bool | None) -> bool:
    """Return whether to print a table: if neither form was chosen (None), only on a terminal."""
    return sys.stdout.isatty() if as_json is None else not as_json


def show_as(answer: ServerReply, as_json: bool | None, tell: Callable[[Any], None]) -> None:
    """Print the answer as JSON, or its data with `tell` (see `is_for_people`).

    Raise CallFailed if the output is for people and the server refused."""
    if not is_for_people(as_json):
        show(answer)
    elif not answer.is_success:
        raise CallFailed(answer.message, answer.envelope)
    elif answer.data:
        tell(answer.data)
    else:
        click.echo(one_line(answer.message if answer.message != "success" else "nothing found"))


# ---------------------------------------------------------------------- jobs and tasks


def print_jobs(data: Any) -> None:
    """Print the answer of `job list`, with the total number of jobs, or of `job query`."""
    rows = list(map(unprefixed, data["jobs"] if isinstance(data, Mapping) else data))
    print_count(len(rows), data, "job")
    print_table(_JOBS, map(_job, rows))
    if isinstance(data, Mapping) and (place := data.get("next")):
        searched = f"{data.get('looked_at'):,} jobs were searched; go on with" if data.get("is_cut") else "older:"
        click.echo(one_line(f"{searched} --from {place}"))


def print_count(shown: int, data: Any, what: str) -> None:
    count = data.get("count") if isinstance(data, Mapping) else None
    if count is None or (count <= shown and data.get("is_counted") is not False):
        click.echo(counted(shown, what))
    elif data.get("is_counted") is not False:
        click.echo(f"{shown} of {counted(count, what)}")
    elif count > shown:
        click.echo(f"{shown} of more than {counted(count, what)} (count them with --count)")
    else:
        click.echo(f"{counted(shown, what)}; more may fit (count them with --count)")


def unprefixed(row: Row) -> Row:
    """Return a row whose names have no `f_` in front, as those of another list."""
    return {name.removeprefix("f_"): value for name, value in row.items()}


def _job(row: Row) -> tuple[object, ...]:
    return (
        row.get("job_id"), row.get("name"), party_name(row), status_in_list(row, "status"),
        short_moment(row.get("create_time")), duration(row.get("elapsed")), why_in_list(row),
    )


def status_in_list(row: Row, name: str) -> object:
    return row.get(f"{name}_detail") or row.get(name)


def why_in_list(row: Row) -> object:
    """Return why the job waits, or why it failed."""
    if row.get("status") == "waiting" or (row.get("status") == "running" and row.get("wait_reason")):
        return row.get("wait_reason")
    if row.get("status") == "success":
        return ""
    return reason_of(row)


# ---------------------------------------------------------------------- tables


def print_table_info(data: Row) -> None:
    """Print the answer of `table info`."""
    name = f"table {data.get('table_name')} in namespace {data.get('namespace')}"
    if not data.get("exist"):
        click.echo(one_line(f"there is no {name}"))
        return
    schema = data.get("schema") or {}
    click.echo(one_line(name + ("" if data.get("enable", True) else ", disabled")))
    header = [str(one) for one in schema.get("header") or ()]
    print_facts({
        "rows": data.get("count"), "partitions": data.get("partition"), "id": schema.get("sid"),
        "columns": f"{len(header)}: {some_of(header)}", "origin": data.get("origin"), "address": data.get("address"),
    })


def print_rows(data: Row) -> None:
    """Print the answer of `table preview`."""
    rows = data.get("data") or ()
    click.echo(f"{len(rows)} of {counted(int(data.get('count') or 0), 'row')}")
    print_table(tuple(map(str, data.get("header") or ())), rows)


def print_sources(rows: Sequence[Row]) -> None:
    """Print the answer of `table tracking-source`."""
    columns = ("parent_table_namespace", "parent_table_name", "source_table_namespace", "source_table_name")
    headers = ("made from: namespace", "table", "original source: namespace", "table")
    print_table(headers, ([row.get(column) for column in columns] for row in rows))


def print_output_tables(rows: Sequence[Row]) -> None:
    """Print the answer of `component output-data-table`."""
    columns = ("data_name", "table_namespace", "table_name")
    print_table(("output", "namespace", "table"), ([row.get(column) for column in columns] for row in rows))


def some_of(names: Sequence[str]) -> str:
    return ", ".join(names[:_SOME_COLUMNS]) + (", ..." if len(names) > _SOME_COLUMNS else "")


# ---------------------------------------------------------------------- a component of a job


def print_components(data: Row) -> None:
    """Print the answer of `component list`."""
    print_table(("component",), ([name] for name in data.get("components") or ()))


def print_metrics(data: Mapping[str, Sequence[str]]) -> None:
    """Print the answer of `component metrics`."""
    print_table(("namespace", "metric"), ((space, name) for space, names in data.items() for name in names))


def print_metric_values(data: Mapping[str, Mapping[str, Row]]) -> None:
    """Print the answer of `component metric-all`."""
    print_table(("namespace", "metric", "key", "value"), (
        (space, name, *point)
        for space, metrics in data.items() for name, metric in metrics.items() for point in _points(metric)
    ))  # fmt: skip


def _points(metric: Row) -> Iterator[tuple[object, object]]:
    for point in metric.get("data") or ():
        key, *values = point if isinstance(point, list) else [point]
        yield key, ", ".join(map(_displayed, values))


def print_facts(data: Row) -> None:
    """Print a line for each key: for summaries, parameters, versions."""
    print_table(("what", "value"), ((name, _displayed(value)) for name, value in data.items()))


def _displayed(value: object) -> str:
    if isinstance(value, (dict, list, bool)):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


# ---------------------------------------------------------------------- the server and other parties


def print_sections(data: Mapping[str, Row]) -> None:
    """Print the answer of `service registry`."""
    print_table(("section", "what", "value"), (
        (section, name, _displayed(value)) for section, values in data.items() for name, value in values.items()
    ))  # fmt: skip


def print_parties(data: Row) -> None:
    """Print the answer of `party list`: first the parties on hold, then the routes to the other parties."""
    columns = ("party_id", "url", "status", "problem", "circuit", "message")
    parties = data.get("parties") or ()
    for line in hold_lines(data):
        click.echo(line)
    if parties:
        print_table(columns, ([one.get(column) for column in columns] for one in parties))
    else:
        click.echo("no other party has an address here: invite one, or join one (fate_flow party)")
    for one in parties:
        if keys := one.get("keys"):
            print_keys_of_party(str(one.get("party_id")), keys, one.get("clock_offset"), one.get("offers") or ())


def hold_lines(data: Row) -> Iterator[str]:
    """Yield a line for each party on hold, of an answer of `party/list`."""
    for one in (data.get("own") or {}, *(data.get("parties") or ())):
        if hold := one.get("hold"):
            yield one_line(f"party {one.get('party_id')} is on hold by {hold.get('by')}: {hold.get('message')}")


def print_keys_of_party(party_id: str, keys: Row, clock_now: int | None = None, offers: Iterable[str] = ()) -> None:
    """Print what is known of the keys of another party; `clock_now`, `offers`: from what it has just answered."""
    click.echo(one_line(f"party {party_id}: {keys.get('state')} since {_when(keys.get('since'))} by {keys.get('by')}"))
    offset, when = (keys.get("clock_offset"), " when it joined") if clock_now is None else (clock_now, "")
    until = keys.get("until")
    for name, value in (
        ("address", keys.get("address")),
        ("root key", keys.get("fingerprint")),
        ("tls keys", ", ".join(str(one)[:16] for one in keys.get("tls_keys") or ())),
        ("a key ends", _when(until) if until is not None else ""),
        ("six words", keys.get("phrase")),
        ("from it", _contact(keys, "from")),
        ("to it", _contact(keys, "to")),
        ("its clock", "" if offset is None else clock_offset(int(offset), when)),
        ("offers", ", ".join(map(str, offers))),
    ):
        if value:
            click.echo(f"  {name:<11}{one_line(value)}")
    for text in keys.get("warnings") or ():
        click.echo(f"  WARNING    {one_line(text)}")


def clock_offset(milliseconds: int, when: str = "") -> str:
    """Return by how much the clock of another party is ahead of ours, for people."""
    text = f"{duration(abs(milliseconds))} {'ahead of' if milliseconds >= 0 else 'behind'} ours{when}"
    is_off = abs(milliseconds) > _CLOCK_MS and not when        # of an earlier time, it is no more than a fact
    return f"{text}: correct the clocks, signed requests allow 60 s" if is_off else text


def _contact(keys: Row, direction: str) -> str:
    """Return when a party was last heard or reached, and what its connection was then."""
    found = (keys.get("contacts") or {}).get(direction)
    return f"{_when(found.get('at'))}, {found.get('tls')}, key {str(found.get('key_id'))[:16]}" if found else ""


def _when(at: object) -> str:
    return datetime.fromtimestamp(at / 1000).isoformat(" ", "seconds") if isinstance(at, int) else ""


def print_providers(data: Mapping[str, Mapping[str, Row]]) -> None:
    """Print the answer of `provider list`."""
    print_table(("provider", "version", "components"), (
        (name, version, ", ".join(one.get("components") or ()) or f"none: {one.get('why_not')}")
        for name, versions in data.items() for version, one in versions.items()
    ))  # fmt: skip


def print_offered_components(data: Row) -> None:
    """Print the answer of `provider list-components`."""
    print_table(("component", "module", "roles", "provider", "does"), (
        (
            name, ", ".join(one.get("alias") or ()), ", ".join(sorted(one.get("roles") or ())),
            one.get("default_provider"), one.get("description"),
        )
        for name, one in (data.get("components") or {}).items()
    ))  # fmt: skip


def print_key(key_id: object, pem: str) -> None:
    """Print the answer of `key query`."""
    click.echo(one_line(f"key_id {key_id}"))
    click.echo(printable(pem).strip())


def free_lines(data: Row) -> Iterator[str]:
    """Yield a line for each engine of an answer of `resource/query`, the default one first."""
    engine = data.get("computing_engine_resource") or {}
    named = engine.get("f_engine_name")
    others = [one for one in data.get("engines") or () if one.get("f_engine_name") != named]
    for one in (engine, *others):
        yield one_line(f"{one.get('f_engine_name')}: {_free_of(one)} are free")


def _free_of(engine: Row) -> str:
    free = f"{engine.get('f_remaining_cores')} of {engine.get('f_cores')} cores"
    if engine.get("f_memory"):
        free += f" and {engine.get('f_remaining_memory')} of {engine.get('f_memory')} MB of memory"
    if engine.get("f_gpus"):
        free += f" and {engine.get('f_remaining_gpus')} of {engine.get('f_gpus')} GPUs"
    return free


def print_reserved(data: Row) -> None:
    """Print the answer of `resource history`: a row for each time in which nothing changed."""
    rows = []
    for what, found in groupby(data.get("reserved") or (), lambda one: (one.get("cores"), one.get("memory"))):
        every = list(found)
        rows.append((short_moment(every[0].get("begin")), short_moment(every[-1].get("end")), *what))
    print_table(("from", "to", "cores", "MB"), rows)
    click.echo(one_line(f"of {data.get('cores')} cores and {data.get('memory') or 'unlimited'} MB of memory now"))


def print_granted(data: Row) -> None:
    """Print the answer of `privilege query`."""
    things: list[tuple[object, ...]] = [("component", "", name) for name in data.get("component") or ()]
    things += [
        ("dataset", "", one) if isinstance(one, str) else ("dataset", one.get("namespace"), one.get("name"))
        for one in data.get("dataset") or ()
    ]
    if things:
        print_table(("may be used", "namespace", "name"), things)
    else:
        click.echo("nothing is granted")
