"""The servers of a cluster: started side by side, and ended together with their workers."""

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

WORKER_SECONDS = 10.0       # for runners to end their workers, before both are killed


def bring_up(root: Path, party_ids: Sequence[str], pending_requests: dict[str, Any]) -> Cluster:
    """Every party of the cluster runs and answers, or what was started here is ended again."""
    root.mkdir(parents=True, exist_ok=True)
    with locked(root), closing(Ports()) as ports:
        before = Cluster.read(root)
        running = [name for name in before.party_ids if service.find(before.home(name))] if before else []
        cluster = plan(root, before, party_ids, pending_requests, running, ports.is_free)
        if cluster != before:
            cluster.write()
        try:
            for member in cluster.members:
                if cluster != before or not cluster.conf_path(member.party_id).exists():
                    cluster.write_conf(member)
            start_parties(cluster, [name for name in cluster.party_ids if name not in running])
        except BaseException:
            if before is None:
                (root / "cluster.json").unlink(missing_ok=True)
            raise
        return cluster


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """One command at a time changes the cluster of a folder."""
    with service.lock_file(root / "cluster.lock"):
        yield


def start_parties(cluster: Cluster, party_ids: Sequence[str]) -> None:
    """Starts these side by side; all answer in the end, or none runs."""
    begun = time.monotonic()
    # Workers that outlived an earlier server are not ours to end.
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
    """Ends these servers side by side, then their workers."""
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
    """No worker of this party, no runner and no half-forked process is left. Its server must have ended."""
    jobs = cluster.home(party_id) / "jobs"
    deadline = time.monotonic() + WORKER_SECONDS
    seen: set[Path] = set()
    while folders := living_workers(jobs):
        seen.update(folders)
        for folder in folders:
            _end_worker(folder, by_force=time.monotonic() > deadline)
        time.sleep(service.POLL_SECONDS)
    while strays := [*_strays(cluster, party_id), *_runners_of(seen)]:
        for stray in strays:
            stray.send(signal.SIGKILL)
        time.sleep(service.POLL_SECONDS)


def _end_worker(folder: Path, *, by_force: bool) -> None:
    """Has the runner kill its worker, since it alone finds whatever the worker left; kills both by force."""
    LocalEngine().stop(folder, grace_seconds=0)
    started = Started.read(folder)
    if started is None:
        return
    started.runner.send(signal.SIGCONT)    # a stopped one would not hear
    if by_force:
        started.runner.send(signal.SIGKILL)
        for stat in started.survivors():
            ProcessId(stat.pid, stat.started).send(signal.SIGKILL)


def _runners_of(folders: Collection[Path]) -> list[ProcessId]:
    """Those that are still there: a runner writes down the end of its worker before it goes itself."""
    found = [Started.read(folder) for folder in folders]
    return [started.runner for started in found if started is not None and started.runner.is_alive()]


def _strays(cluster: Cluster, party_id: str) -> list[ProcessId]:
    """What no record of this party leads to any more.

    A runner that was forked in the last moment of the spawner has no folder yet, but the spawner's command
    line. What a worker left behind whose runner was killed still writes to the worker's log.
    """
    spawner = b"\0".join((SPAWNER.encode(), os.fsencode(cluster.home(party_id)), b""))
    logs = str(cluster.home(party_id) / "logs") + "/"
    found = []
    for stat in service.running_processes():
        with suppress(OSError):
            if _command_line(stat.pid).endswith(spawner) or _writes_worker_log(stat.pid, logs):
                found.append(ProcessId(stat.pid, stat.started))
    return found


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def _writes_worker_log(pid: int, logs: str) -> bool:
    targets = [os.readlink(f"/proc/{pid}/fd/{number}") for number in (1, 2)]
    return any(target.startswith(logs) and "/task_executor_" in target for target in targets)


def tell(text: str) -> None:
    click.echo(text, err=True)
