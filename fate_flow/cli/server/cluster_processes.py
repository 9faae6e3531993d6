"""Start the servers of a cluster in parallel, and end them together with their workers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from fate_flow.cli.server import service
from fate_flow.cli.server.cluster_plan import Cluster, Ports, plan
from fate_flow.cli.server.service import ServiceFailed
from fate_flow.engines.local.engine import LocalEngine, living_workers
from fate_flow.engines.local.spawner import SPAWNER
from fate_flow.engines.local.worker import ProcessId, Started

WORKER_SECONDS = 10.0       # time for runners to end their workers, before both are killed


def bring_up(root: Path, party_ids: Sequence[str], pending_requests: dict[str, Any]) -> Cluster:
    """Start every party of the cluster and wait until all answer; on an error, end those started here."""
    root.mkdir(parents=True, exist_ok=True)
    with locked(root), closing(Ports()) as ports:
        before = Cluster.read(root)
        running = [name for name in before.party_ids if service.find(before.home(name))] if before else []
        cluster = plan(root, before, party_ids, pending_requests, running, ports.is_free)
        if before and cluster != before:
            cluster.write()
        try:
            new = [one for one in cluster.members if cluster != before or not cluster.conf_path(one.party_id).exists()]
            for member in new:
                cluster.write_conf(member)
            if new and not cluster.options.plain:
                _exchange_keys(cluster)
            if before is None:           # last: a command that was killed before is repeated from the beginning
                cluster.write()
            start_parties(cluster, [name for name in cluster.party_ids if name not in running])
        except BaseException:
            if before is None:
                (root / "cluster.json").unlink(missing_ok=True)
            raise
        return cluster


def _exchange_keys(cluster: Cluster) -> None:
    # Imported here, since the other commands need neither cryptography nor a database.
    from fate_flow.cli.server.cluster_keys import exchange_keys

    exchange_keys(cluster)


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the lock of a folder: only one command at a time changes its cluster."""
    with service.lock_file(root / "cluster.lock"):
        yield


def start_parties(cluster: Cluster, party_ids: Sequence[str]) -> None:
    """Start these parties in parallel and wait until all answer; on an error, end them all."""
    begun = time.monotonic()
    # Workers of an earlier server stay alive on an error: they are not started here.
    with_workers = {name for name in party_ids if living_workers(cluster.home(name) / "jobs")}
    with ExitStack() as open_launches:
        try:
            launches = {}
            for name in party_ids:
                tell(f"party {name}: starting ...")
                launched = service.launch(cluster.conf_path(name), cluster.home(name))
                launches[name] = open_launches.enter_context(launched)
            for name, launched in launches.items():
                with naming(name):
                    running = launched.wait()
                tell(f"party {name}: {running.url} (pid {running.pid}, {time.monotonic() - begun:.1f} s)")
        except BaseException:
            take_down(cluster, party_ids, spare_workers_of=with_workers)
            raise


@contextmanager
def naming(party_id: str) -> Iterator[None]:
    try:
        yield
    except ServiceFailed as error:
        raise ServiceFailed(f"party {party_id}: {error.message}") from error


def take_down(cluster: Cluster, party_ids: Sequence[str], spare_workers_of: Collection[str] = ()) -> None:
    """End these servers in parallel, then their workers."""
    homes = {name: cluster.home(name) for name in party_ids}
    asked = [name for name, home in homes.items() if service.ask_to_stop(home)]
    deadline = time.monotonic() + service.STOP_SECONDS
    for name in asked:
        service.await_end(homes[name], max(0.0, deadline - time.monotonic()))
        tell(f"party {name}: the server has ended")
    for name in party_ids:
        if name not in spare_workers_of:
            _end_workers(cluster, name)


def _end_workers(cluster: Cluster, party_id: str) -> None:
    """End every worker, runner and half-forked process of this party. Its server must have ended before."""
    jobs = cluster.home(party_id) / "jobs"
    deadline = time.monotonic() + WORKER_SECONDS
    seen: set[Path] = set()
    while True:
        folders = living_workers(jobs)
        # A stray may claim a worker and start it before it is killed: so this looks for workers again.
        strays = [] if folders else [*_strays(cluster, party_id), *_runners_of(seen)]
        if not folders and not strays:
            return
        seen.update(folders)
        for folder in folders:
            _end_worker(folder, by_force=time.monotonic() > deadline)
        for stray in strays:
            stray.send(signal.SIGKILL)
        time.sleep(service.POLL_SECONDS)


def _end_worker(folder: Path, *, by_force: bool) -> None:
    """Ask the runner to kill its worker: only the runner finds all processes of the worker. `by_force` kills both."""
    LocalEngine().stop(folder, grace_seconds=0)
    started = Started.read(folder)
    if started is None:
        return
    started.runner.send(signal.SIGCONT)    # a stopped runner would not react
    if by_force:
        started.runner.send(signal.SIGKILL)
        for stat in started.survivors():
            ProcessId.seen(stat).send(signal.SIGKILL)


def _runners_of(folders: Collection[Path]) -> list[ProcessId]:
    """Return the runners that are still alive: a runner first records the end of its worker, then exits."""
    found = [Started.read(folder) for folder in folders]
    return [started.runner for started in found if started is not None and started.runner.is_alive()]


def _strays(cluster: Cluster, party_id: str) -> list[ProcessId]:
    """Return the processes of this party that no record names.

    A runner that the spawner forked just before its end has no folder yet, but has the spawner's command line. Child
    processes of a worker whose runner was killed still have the worker's log open.
    """
    spawner = b"\0".join((SPAWNER.encode(), os.fsencode(cluster.home(party_id)), b""))
    logs = str(cluster.home(party_id) / "logs") + "/"
    found = []
    for stat in service.running_processes():
        with suppress(OSError):
            if _command_line(stat.pid).endswith(spawner) or _writes_worker_log(stat.pid, logs):
                found.append(ProcessId.seen(stat))
    return found


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _writes_worker_log(pid: int, logs: str) -> bool:
    targets = [os.readlink(f"/proc/{pid}/fd/{number}") for number in (1, 2)]
    return any(target.startswith(logs) and "/task_executor_" in target for target in targets)


def tell(text: str) -> None:
    click.echo(text, err=True)
