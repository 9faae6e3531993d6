"""The metrics of a server in the form of Prometheus, made anew for each scrape.

States are gauges, read in the database at the scrape. What happened is in counters and histograms, added up over the
processes of the server. Nothing of it is kept in this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fate_flow.api.monitoring.peer_states import answered_at, problems_of
from fate_flow.core.metrics.measures import Measure
from fate_flow.core.model.status import JOB_UNFINISHED
from fate_flow.core.quotas.disk_space import DiskSpace
from fate_flow.records.measures.kept_measures import Series
from fate_flow.store.views.server_state import INADMISSIBLE, ServerState

CIRCUITS = ("closed", "open", "probing")
TO_IT, FROM_IT = "to", "from"
_MB = 1024 * 1024


@dataclass(frozen=True)
class Scrape:
    """Everything that one scrape shows."""

    version: str
    party_id: str
    state: ServerState
    peers: Mapping[str, Mapping[str, Any]]       # by party id: what the scheduler says of the connection
    routes: tuple[str, ...]                      # the ids of the parties whose address is known
    measured: tuple[tuple[Measure, tuple[Series, ...]], ...]
    spool_bytes: int | None                      # None: this process has no spool
    spool_limit: int
    disk: DiskSpace
    exports: Mapping[str, tuple[int, bool]]      # of the record, by name: what it has not sent, whether it fails


class ScrapeCollector(Collector):
    """Gives the client library the families of one scrape."""

    def __init__(self, scrape: Scrape) -> None:
        self._scrape = scrape

    def collect(self) -> Iterable[Metric]:
        yield from _gauges(self._scrape)
        yield from _peers(self._scrape)
        for measure, series in self._scrape.measured:
            yield _family(measure, series)


def _gauge(name: str, meaning: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]) -> Metric:
    found = GaugeMetricFamily(f"fate_flow_{name}", meaning, labels=labels)
    for key, value in values:
        found.add_metric(key, value)
    return found


def _gauges(scrape: Scrape) -> Iterator[Metric]:
    state = scrape.state
    build = {(scrape.version, scrape.party_id): 1.0}
    about = "Always 1; the version and the party are labels."
    yield _gauge("build_info", about, ("version", "party_id"), build.items())
    yield _gauge(
        "jobs", "Seats of this party in jobs that have not ended, by status.", ("role", "status"), _jobs(state).items()
    )
    yield _gauge(
        "pending_workloads",
        "Jobs of this coordinator that wait, by reason; inadmissible: free capacity does not help.",
        ("status", "reason"), _by_reason(state.pending),
    )
    yield _gauge(
        "oldest_pending_seconds", "How long the job of this coordinator waits that waits longest, by reason.",
        ("status", "reason"), _by_reason({why: passed / 1000 for why, passed in state.oldest_pending.items()}),
    )  # fmt: skip
    numbers: dict[str, tuple[str, float]] = {
        "reserving_active_workloads": ("Jobs for which this party has reserved cores.", state.reserving),
        "jobs_awaiting_approval": ("Jobs of other parties that wait for the approval of this party.",
                                   state.awaiting_approval),
        "intake_held": ("1 if this party takes no new reservations.", state.is_on_hold),
        "disk_free_bytes": ("Free space of the disk that limits this server.", scrape.disk.free),
        "disk_least_free_bytes": ("With less free space than this, nothing new is taken.", scrape.disk.least),
        "spool_limit_bytes": ("What the messages between workers may take.", scrape.spool_limit),
        **({} if scrape.spool_bytes is None else
           {"spool_bytes": ("What the messages between workers take.", scrape.spool_bytes)}),
    }  # fmt: skip
    for name, (meaning, value) in numbers.items():
        yield _gauge(name, meaning, (), [((), float(value))])
    workers = (((status,), count) for status, count in state.workers.items())
    yield _gauge("workers", "Workers that have not ended.", ("status",), workers)
    cores = {(one.name, "total"): one.cores for one in state.engines}
    cores |= {(one.name, "free"): one.free_cores for one in state.engines}
    yield _gauge("engine_cores", "Cores of an engine: all, and those that are free.", ("engine", "kind"), cores.items())
    memory = {(one.name, "total"): one.memory * _MB for one in state.engines}
    memory |= {(one.name, "free"): one.free_memory * _MB for one in state.engines}
    about = "Memory of an engine: all, and what is free."
    yield _gauge("engine_memory_bytes", about, ("engine", "kind"), memory.items())
    gpus = {(one.name, "total"): one.gpus for one in state.engines}
    gpus |= {(one.name, "free"): one.free_gpus for one in state.engines}
    yield _gauge("engine_gpus", "GPUs of an engine: all, and those that are free.", ("engine", "kind"), gpus.items())
    yield from _record(scrape)
    awake = CounterMetricFamily(
        "fate_flow_scheduler_awake_seconds", "Time for which schedulers of this party were awake, all together."
    )
    awake.add_metric((), state.steady / 1000)
    yield awake


def _by_reason(values: Mapping[str, float]) -> Iterator[tuple[tuple[str, str], float]]:
    return ((("inadmissible" if why in INADMISSIBLE else "active", why), value) for why, value in values.items())


def _record(scrape: Scrape) -> Iterator[Metric]:
    state = scrape.state
    about = "Entries of the record with an index, since the newest epoch of their log began."
    yield _gauge("record_entries", about, ("log",), (((log,), count) for log, count in state.recorded.items()))
    about = "Entries of the record that are not sealed yet."
    yield _gauge("record_unsealed_entries", about, ("log",), (((log,), n) for log, n in state.unsealed.items()))
    about = "Entries of the record that an export has not sent yet."
    left = (((name,), left) for name, (left, _) in scrape.exports.items())
    yield _gauge("record_export_waiting", about, ("export",), left)
    about = "1 if an export of the record does not get on: the receiver takes nothing, or nothing can be read."
    failing = (((name,), float(fails)) for name, (_, fails) in scrape.exports.items())
    yield _gauge("record_export_failing", about, ("export",), failing)


def _jobs(state: ServerState) -> dict[tuple[str, str], float]:
    """Return also the statuses of a role that no job has at the moment, so that a sum over time has no gaps."""
    roles = {role for role, _ in state.seats}
    empty = {(role, status.value): 0.0 for role in sorted(roles) for status in sorted(JOB_UNFINISHED, key=str)}
    return empty | {key: float(count) for key, count in state.seats.items()}


def _peers(scrape: Scrape) -> Iterator[Metric]:
    state, steady = scrape.state, scrape.state.steady
    peers = scrape.routes
    circuits = {
        (peer, circuit): float(scrape.peers.get(peer, {}).get("circuit", "closed") == circuit)
        for peer in peers for circuit in CIRCUITS
    }  # fmt: skip
    about = "1 for the present state of the circuit to a party."
    yield _gauge("peer_circuit", about, ("peer", "circuit"), circuits.items())
    silence: dict[tuple[str], float] = {}
    cut_off: dict[tuple[str], float] = {}
    for peer in peers:
        trouble = state.troubles.get(peer)
        silent = trouble.silent_since if trouble else 0
        away = trouble.cut_off_since if trouble else 0
        silence[peer,] = max(0, steady - silent) / 1000 if silent else 0.0
        cut_off[peer,] = max(0, steady - away) / 1000 if away else 0.0
    about = "1 for what is wrong with requests to a party, or from it, as one word; absent: nothing, or not known."
    wrong = (
        (peer, way, problem) for peer in peers
        for way, problem in zip((TO_IT, FROM_IT), _problems(scrape, peer), strict=True) if problem
    )
    yield _gauge("peer_problem", about, ("peer", "direction", "problem"), ((key, 1.0) for key in wrong))
    about = "How long a party has not answered; 0: it answers, or is not asked."
    yield _gauge("peer_silence_seconds", about, ("peer",), silence.items())
    about = "Time of the last answer of a party, since 1970; absent: none since the scheduler started."
    answered = ((peer, answered_at(scrape.peers.get(peer, {}))) for peer in peers)
    yield _gauge(
        "peer_last_answer_timestamp_seconds", about, ("peer",),
        (((peer,), at / 1000) for peer, at in answered if at is not None),
    )  # fmt: skip
    yield _gauge(
        "peer_cut_off_seconds", "How long a party has said that it cannot reach this one.", ("peer",), cut_off.items()
    )
    outbox = {peer: state.outbox.get(peer, (0, 0)) for peer in peers}
    yield _gauge(
        "outbox_commands", "Commands to a party without an answer yet.", ("peer",),
        (((peer,), count) for peer, (count, _) in outbox.items()),
    )  # fmt: skip
    yield _gauge(
        "outbox_oldest_seconds", "The age of the oldest of them; 0: there is none.", ("peer",),
        (((peer,), age / 1000) for peer, (_, age) in outbox.items()),
    )  # fmt: skip
    yield _gauge(
        "notifications_waiting", "Notifications that are not sent yet.", ("channel",),
        (((kind,), count) for kind, count in state.notifications.items()),
    )  # fmt: skip


def _problems(scrape: Scrape, peer: str) -> tuple[str, str]:
    return problems_of(scrape.peers.get(peer), scrape.state.troubles.get(peer))


def _family(measure: Measure, series: Iterable[Series]) -> Metric:
    if not measure.buckets:
        counter = CounterMetricFamily(measure.name, measure.meaning, labels=measure.labels)
        for one in series:
            counter.add_metric(one.labels, one.value)
        return counter
    histogram = HistogramMetricFamily(measure.name, measure.meaning, labels=measure.labels)
    for one in series:
        histogram.add_metric(one.labels, one.buckets, one.value)
    return histogram
