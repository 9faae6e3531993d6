"""What is printed of the measurements of many parties and jobs."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def show_simulated(medians: Document) -> None:
    for name, value in medians["load"].items():
        print(f"{name:<36}{value:>9.2f}")
    print(f"{'virtual seconds':<36}{medians['virtual_seconds']:>9.0f}       {medians['part_of_a_day']:.2%} of a day")
    print(f"{'jobs arrived, ended':<36}{medians['arrived']:>9.0f}{medians['ended']:>8.0f}")
    _row("start after the submit, virtual ms", medians["start_ms"])
    _row("jobs in all queues", medians["queue"])
    _row("commands a job", medians["commands_per_job"])
    print(f"{'requests a job, with heartbeats':<36}{medians['requests_per_job']:>9.2f}")
    _row("sender to a party busy, %", medians["sender_busy_percent"])
    _row("statements a job", medians["statements_per_job"])
    print(f"{'statements a second, all parties':<36}{medians['statements_per_s']:>9.1f}")
    _row("rows a job, all parties", medians["rows_per_job"])
    _row("processor ms a job", medians["cpu_ms_per_job"])
    _row("scheduler of a party busy, %", medians["scheduler_loop_percent"])
    for kind, functions in medians["profile_percent"].items():
        for name, value in functions.items():
            print(f"    {kind + ' ' + name:<80}{value:>6.1f} %")


def show_servers(medians: Document) -> None:
    for name, what in (
        ("submits_per_s", "accepted per second"), ("finished_per_s", "finished per second"),
        ("all_finished_s", "all finished after, s"), ("busy_percent", "servers, workers, client, % of all"),
        ("others_percent", "others on this machine, %"), ("seats_succeeded", "jobs that succeeded, at both parties"),
    ):  # fmt: skip
        print(f"{what:<36}{medians[name]:>9.1f}")
    _row("start after the submit, ms", medians["start_ms"])
    _row("processor ms a job", medians["cpu_ms_per_job"])
    _row("PSS of all servers, MB", medians["pss_mb"])
    _row("left over", medians["left"])


def show_million(medians: Document) -> None:
    print(f"    {'milliseconds':<48}{'small':>8}{'large':>9}{'ratio':>7}{'first':>10}")
    for name, one in medians["answers"].items():
        small, large = one["small"], one["large"]
        numbers = f"{small['median']:>8.1f}{large['median']:>9.1f}{one['ratio']:>7.2f}{large['first']:>10.1f}"
        print(f"    {name:<48}{numbers}")
    print(f"{'the large database, MB':<36}{medians['large_mb']:>9.0f}")


def show_long_record(medians: Document) -> None:
    for name in ("short", "long"):
        one = medians[name]
        append, show = one["append_ms"], one["show_ms"]
        print(f"    {name + ' record: append a job':<36}{append['median']:>9.2f} ms    at most {append['max']:.2f}")
        print(f"    {name + ' record: show a job':<36}{show['median']:>9.2f} ms    at most {show['max']:.2f}")
    print(f"{'append, long : short':<36}{medians['ratio_of_append']:>9.3f}")
    print(f"{'verified in a second of a core':<36}{medians['verified_per_cpu_s']:>9.0f}")
    each = medians["bytes_per_entry"]
    print(f"{'the database, GB':<36}{medians['database_gb']:>9.2f}       {each:.0f} bytes an entry")


def _row(what: str, values: Document) -> None:
    print(f"{what:<36}" + ", ".join(f"{name} {value:.1f}" for name, value in values.items()))


def show_failover(medians: Document) -> None:
    _row("until the other one schedules, s", medians["seconds"])
    print(f"{'this machine was busy, %':<36}{medians['busy_percent']:>9.1f}")
