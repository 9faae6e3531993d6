"""The table that is printed; everything in it stands in the JSON file as well."""

from __future__ import annotations

from typing import Any

from tests.bench.processes import KINDS
from tests.bench.scale.report import (
    show_failover,
    show_long_record,
    show_million,
    show_servers,
    show_simulated,
)

Document = dict[str, Any]


def show_machine(machine: Document) -> None:
    flush = machine["fsync_ms"]
    print(f"machine    {machine['cores']} x {machine['cpu']}, {machine['memory_gb']} GB, Linux {machine['kernel']}")
    print(f"disk       {machine['filesystem'].split(' ')[0]}, fsync {flush['median']} ms (p90 {flush['p90']})")
    print(f"software   commit {machine['commit']}, Python {machine['python']}, SQLite {machine['sqlite']}")
    print(f"load       {machine['load_before'][0]:.2f} before we began", flush=True)


def show_measurement(number: int, found: Document) -> None:
    sizes = ", ".join(f"{name} {value:g}" for name, value in found["sizes"].items())
    runs = found["runs"]
    _line()
    _line(f"({number}) {found['title'].upper()} ({sizes}; median of {len(runs)} runs)")
    _SHOWN[number](found["medians"])
    print("", end="", flush=True)


def _show_latency(medians: Document) -> None:
    for name, what in (("start_ms", "submit -> running at both"), ("success_ms", "submit -> success")):
        one = medians[name]
        _line(f"{what:<36}{one['median']:>9.1f} ms    p90 {one['p90']:.1f}, {one['min']:.1f} to {one['max']:.1f}")
    _line(f"{'first job of a fresh server':<36}{medians['first_job_ms']:>9.1f} ms")
    _others(medians)
    _line(f"    {'moment':<34}{'at ms':>8}{'p90':>8}{'step':>8}")
    for name, one in medians["steps"].items():
        _line(f"    {name:<34}{one['median']:>8.1f}{one['p90']:>8.1f}{one['step']:>8.1f}")


def _show_burst(medians: Document) -> None:
    until = medians["seconds_until"]
    for name, what, end in (
        ("submits_per_s", "accepted per second", "all_submitted"),
        ("starts_per_s", "started per second", "all_started"),
        ("finished_per_s", "finished per second", "all_finished"),
    ):
        _line(f"{what:<36}{medians[name]:>9.1f}       {end.replace('_', ' ')} after {until[end]:.2f} s")
    _line(f"{'answers 503':<36}{medians['refused_with_503']:>9.0f}")
    _others(medians)
    for name, value in medians["cpu_ms_per_job"].items():
        _line(f"    {'CPU per job, ' + name:<34}{value:>8.1f} ms")
    for party_id, value in medians["scheduler_transactions_per_job"].items():
        _line(f"    {'scheduler transactions per job, ' + party_id:<40}{value:>6.2f}")
    for party_id, value in medians["server_pss_mb_afterwards"].items():
        _line(f"    {'PSS of the server afterwards, ' + party_id:<34}{value:>8.1f} MB")


def _show_load(medians: Document) -> None:
    _line(f"    {'':<26}{'start ms':>9}{'p90':>8}{'success':>9}{'scheduler %':>13}{'others %':>10}")
    for name, one in medians["stages"].items():
        start, success = one["start_ms"], one["success_ms"]
        _line(
            f"    {name:<26}{start['median']:>9.1f}{start['p90']:>8.1f}{success['median']:>9.1f}"
            f"{one['scheduler_percent_of_a_core']:>13.1f}{one['others_percent']:>10.1f}"
        )
    _line(f"{'start, loaded : empty':<36}{medians['ratio']:>9.3f}")
    _line(f"{'start, only finished jobs : empty':<36}{medians['ratio_of_finished_alone']:>9.3f}")
    _line(f"{'success, loaded : empty':<36}{medians['ratio_until_success']:>9.3f}")
    _line(f"{'jobs queued per second':<36}{medians['queued_per_s']:>9.1f}")


def _show_silence(medians: Document) -> None:
    _line(f"    {'the third party':<26}{'start ms':>9}{'p90':>8}{'success':>9}{'ratio':>8}{'others %':>10}")
    for name, one in medians["stages"].items():
        start, success, ratio = one["start_ms"], one["success_ms"], medians["ratios"].get(name, 1.0)
        _line(
            f"    {name:<26}{start['median']:>9.1f}{start['p90']:>8.1f}{success['median']:>9.1f}"
            f"{ratio:>8.3f}{one['others_percent']:>10.1f}"
        )


def _show_trust(medians: Document) -> None:
    _line(f"    {'':<26}{'start ms':>9}{'p90':>8}{'success':>9}{'p90':>8}")
    for name, one in medians["stages"].items():
        _line(_times_of(name, one))
    _line(f"{'start, on : off':<36}{medians['ratio']:>9.3f}")
    _line(f"{'success, on : off':<36}{medians['ratio_until_success']:>9.3f}")
    for kind in KINDS:
        off, on = (one["cpu_ms_per_job"][kind] for one in medians["stages"].values())
        _line(f"    {'CPU per job, ' + kind:<34}{off:>8.1f} ms, {on:.1f} ms")


def _show_record(medians: Document) -> None:
    _show_trust(medians)
    for name, value in medians["starts_per_s"].items():
        _line(f"{'started per second, ' + name:<36}{value:>9.1f}")
    _line(f"{'started per second, on : off':<36}{medians['ratio_of_starts']:>9.3f}")
    for name, value in medians["cpu_ms_per_job_at_once"].items():
        _line(f"{'CPU per job at once, ' + name:<36}{value:>9.1f} ms")
    _line(f"{'CPU per job at once, on : off':<36}{medians['ratio_of_cpu']:>9.3f}")


def _show_flood(medians: Document) -> None:
    _line(f"    {'milliseconds':<22}{'client':>8}{'slowest':>9}{'peer':>8}{'slowest':>9}{'plain':>8}{'slowest':>9}")
    for name, one in medians["floods"].items():
        times = "".join(f"{each['median']:>8.1f}{each['max']:>9.1f}" for each in one["ms"].values())
        _line(f"    {name:<22}{times}    {one['failed']:.0f} failed, flood {one['flood_per_s']:.0f} a second")


def _show_streams(medians: Document) -> None:
    for name, one in medians["streams"].items():
        _line(
            f"{name:<36}{one['mb_per_s']:>9.1f} MB/s    {one['gateways_cpu_s_per_gb']:.2f} s of processor a GB in both"
            " gateways"
        )


def _show_queries(medians: Document) -> None:
    for name, what in (("one_client_ms", "one client"), ("many_clients_ms", f"each of {medians['clients']:g} clients")):
        one = medians[name]
        _line(f"{what:<36}{one['median']:>9.2f} ms    p90 {one['p90']:.2f}, {one['min']:.2f} to {one['max']:.2f}")
    _line(f"{'answered a second, many clients':<36}{medians['requests_per_s']:>9.1f}")
    for name, what in (("cpu_ms_of_one", "one client"), ("cpu_ms_of_one_of_many", "many clients")):
        _line(f"    {'CPU of the server, ' + what:<34}{medians[name]:>8.2f} ms a request")
    _others(medians)


def _show_exchange(medians: Document) -> None:
    trip = medians["there_and_back_ms"]
    _line(
        f"{'1 KiB there and back':<36}{trip['median']:>9.2f} ms    p90 {trip['p90']:.2f}, {trip['min']:.2f} to"
        f" {trip['max']:.2f}"
    )
    _line(f"{'8 topics of 1 MiB':<36}{medians['mib_per_s']:>9.1f} MiB/s")
    for name, what in (("servers_cpu_ms_per_mib", "both servers"), ("workers_cpu_ms_per_mib", "both workers")):
        _line(f"    {'CPU, ' + what:<34}{medians[name]:>8.2f} ms a MiB")
    _others(medians)


def _show_databases(medians: Document) -> None:
    _line(f"    {'':<26}{'start ms':>9}{'p90':>8}{'success':>9}{'p90':>8}{'CPU ms':>9}")
    for name, one in medians["stages"].items():
        _line(f"{_times_of(name, one)}{one['cpu_ms_per_job']:>9.1f}")
    for name, what in (("ratio", "start"), ("ratio_until_success", "success"), ("ratio_of_cpu", "processor time")):
        _line(f"{what + ', MariaDB : SQLite':<36}{medians[name]:>9.3f}")
    _others(medians)


def _show_starts(medians: Document) -> None:
    _line(f"    {'':<40}{'s':>8}{'p90':>8}{'cpu s':>8}{'p90':>8}")
    for name, one in medians.items():
        if isinstance(one, dict):
            took, cpu = one["s"], one["cpu_s"]
            _line(f"    {name:<40}{took['median']:>8.2f}{took['p90']:>8.2f}{cpu['median']:>8.2f}{cpu['p90']:>8.2f}")


def _show_spans(medians: Document) -> None:
    for name, one in medians["collectors"].items():
        took = one["ms"]
        _line(
            f"{'a span, the collector ' + name:<40}{took['median']:>7.3f} ms    p90 {took['p90']:.3f}, p99"
            f" {took['p99']:.3f}; CPU {one['cpu_ms']:.3f} ms, {one['cpu_ms_with_sender']:.3f} with the sender's"
        )


def _show_idle(medians: Document) -> None:
    memory, later = medians["memory_mb"], medians["memory_mb_after_10_jobs"]
    _line(f"{'memory, PSS of all processes':<36}{memory['pss']:>9.1f} MB    {later['pss']:.1f} after 10 jobs")
    _line(f"{'memory, RSS added up':<36}{memory['rss']:>9.1f} MB    {later['rss']:.1f} after 10 jobs")
    _line(f"{'CPU':<36}{medians['cpu_percent_of_a_core']:>9.2f} % of a core")
    boards = medians["boards"]
    _line(f"{'CPU, ' + str(boards['boards']) + ' open boards':<36}{boards['cpu_percent_of_a_core']:>9.2f} % of a core")
    partners = medians["partners"]
    _line(
        f"{'CPU, ' + str(partners['partners']) + ' partners':<36}{partners['cpu_percent_of_a_core']:>9.2f} % of a core"
        f"    {partners['cpu_percent_while_all_are_down']:.2f} % while all are down"
    )
    _others(medians)
    for name, one in memory["processes"].items():
        _line(f"    {name:<34}{one['pss']:>8.1f} MB PSS{one['rss']:>8.1f} MB RSS")
    for kind in KINDS:
        _line(f"    {'CPU, ' + kind:<34}{medians['cpu_percent_by_kind'].get(kind, 0):>8.2f} %")


def _show_paging(medians: Document) -> None:
    for database in (name for name, found in medians.items() if isinstance(found, dict)):
        found = medians[database]
        _line(f"    {database:<50}{'small ms':>9}{'large ms':>9}{'ratio':>7}")
        for name, one in found["answers"].items():
            small, large = one["small"]["median"], one["large"]["median"]
            _line(f"    {name:<50}{small:>9.1f}{large:>9.1f}{one['ratio']:>7.2f}")
        _others(found)


def _show_upload(medians: Document) -> None:
    _line(f"{'rows':<36}{medians['rows']:>9.0f}")
    flow_peak = medians["flow_peak_mb"]
    _line(f"{'flow data upload, until its answer':<36}{medians['sent_s']:>9.2f} s     peak {flow_peak:.1f} MB")
    _line(f"{'the server grew by at most':<36}{medians['server_grew_mb']:>9.1f} MB")
    for name in ("upload", "download"):
        one = medians[name]
        _line(
            f"{name + ' in the worker':<36}{one['took_s']:>9.2f} s     peak {one['worker_peak_mb']:.1f} MB,"
            f" {one['worker_cpu_s']:.1f} s of processor"
        )
    _others(medians)


def _times_of(name: str, stage: Document) -> str:
    start, success = stage["start_ms"], stage["success_ms"]
    return f"    {name:<26}{start['median']:>9.1f}{start['p90']:>8.1f}{success['median']:>9.1f}{success['p90']:>8.1f}"


def _others(medians: Document) -> None:
    _line(f"{'others on this machine':<36}{medians['others_percent']:>9.1f} % of all cores")


def _line(text: str = "") -> None:
    print(text)


_SHOWN = {
    1: _show_latency, 2: _show_burst, 3: _show_load, 4: _show_idle, 5: _show_silence, 6: _show_paging, 7: _show_upload,
    8: _show_trust, 9: _show_flood, 10: _show_streams,
    11: _show_record, 12: show_simulated, 13: show_servers, 14: show_million, 15: show_long_record, 16: show_failover,
    17: _show_spans,
    18: _show_starts,
    19: _show_queries,
    20: _show_exchange,
    21: _show_databases,
}  # fmt: skip
