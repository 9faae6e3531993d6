"""`bin/cluster`: one server per party on this machine, for the demo, the tests and whoever develops.

What a cluster consists of is written once, in `DIR/cluster.json`: parties, ports and options. The servers'
configurations follow from it and are written from it, but only when it changes: an edit by hand survives
`down` and `up`. Whether a party runs is never written down, it is asked of its home (`cli/service.py`).

Ports are chosen for all parties before the first configuration is written, since each names the ports of the
others. While they are being chosen and until the servers hold them, their numbers are claimed as names of
abstract sockets: those are one per machine, leave no file and vanish with the process, so two commands that
make clusters at the same time do not choose the same ones.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Self

import click
import yaml

from fate_flow.cli import service
from fate_flow.cli.service import ServiceFailed
from fate_flow.core.errors import BadRequest, FlowError
from fate_flow.core.grammar import check_party_id
from fate_flow.core.os_errors import os_error_text
from fate_flow.engine.local import LocalEngine, living_workers
from fate_flow.engine.spawner import SPAWNER
from fate_flow.engine.worker import ProcessId, Started, read_json, write_atomically

HOST = "127.0.0.1"
DEFAULT_CORES = 20
DEFAULT_BASE_PORT = 9380
WORKER_PORTS_ABOVE = 100    # workers' ports begin so far above the base port
WORKER_SECONDS = 10.0       # for runners to end their workers, before both are killed
NOT_ALL_RUNNING = 3


class ClusterError(FlowError):
    """The cluster cannot be made or changed as asked."""


@dataclass(frozen=True)
class Options:
    """What the servers of a cluster have in common."""

    cores: int = DEFAULT_CORES
    memory: int | None = None        # MB a party; None: what the server takes by default
    database: str | None = None      # URL with {party_id}; None: SQLite in the home
    base_port: int = DEFAULT_BASE_PORT


@dataclass(frozen=True)
class Member:
    """A party of the cluster and the ports of its server."""

    party_id: str
    http_port: int
    worker_port: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.http_port}"


@dataclass(frozen=True)
class Cluster:
    """What `DIR/cluster.json` says."""

    root: Path
    options: Options
    members: tuple[Member, ...]

    @classmethod
    def read(cls, root: Path) -> Self | None:
        """None when there is no cluster in this folder."""
        path = root / "cluster.json"
        if not path.exists():
            return None
        try:
            document = read_json(path) or {}
            members = tuple(Member(**member) for member in document["parties"])
            return cls(root, Options(**document["options"]), members)
        except (KeyError, TypeError) as error:
            raise ClusterError(f"{path}: is damaged; take the folder away or name another one") from error

    def write(self) -> None:
        document = {"parties": [asdict(member) for member in self.members], "options": asdict(self.options)}
        write_atomically(self.root / "cluster.json", json.dumps(document, indent=1) + "\n", mode=0o600)

    @property
    def party_ids(self) -> tuple[str, ...]:
        return tuple(member.party_id for member in self.members)

    def home(self, party_id: str) -> Path:
        return self.root / party_id

    def conf_path(self, party_id: str) -> Path:
        return self.home(party_id) / "conf" / "service_conf.yaml"

    def conf(self, member: Member) -> dict[str, Any]:
        """The server configuration of one party."""
        options = self.options
        engine: dict[str, int] = {"cores_per_node": options.cores, "nodes": 1}
        if options.memory is not None:
            engine["memory_per_node"] = options.memory
        conf: dict[str, Any] = {
            "party_id": member.party_id,
            "home": str(self.home(member.party_id)),
            "fateflow": {"host": HOST, "http_port": member.http_port, "worker_port": member.worker_port},
        }
        if options.database is not None:
            conf["database"] = {"url": options.database.replace("{party_id}", member.party_id)}
        conf["fate_on_standalone"] = {"standalone": engine}
        conf["routes"] = {other.party_id: {"url": other.url} for other in self.members if other != member}
        return conf

    def write_conf(self, member: Member) -> None:
        path = self.conf_path(member.party_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        head = "# Written by bin/cluster; what the keys mean is told in the checkout's conf/service_conf.yaml.\n"
        # It may hold a password.
        write_atomically(path, head + yaml.safe_dump(self.conf(member), sort_keys=False), mode=0o600)


def plan(
    root: Path,
    before: Cluster | None,
    party_ids: Sequence[str],
    wishes: dict[str, Any],
    running: Sequence[str],
    is_free: Callable[[int], bool],
) -> Cluster:
    """The cluster that `up` has to bring about: what is there and what is asked for, made one.

    Running parties keep everything; the others keep their ports as long as nobody else took them.
    """
    if before is None and not party_ids:
        raise click.UsageError("--party: name at least one, as in --party 9999 --party 10000")
    if before and party_ids and set(party_ids) != set(before.party_ids):
        raise ClusterError(
            f"--party: {', '.join(party_ids)} asked, but the cluster in {root} has {', '.join(before.party_ids)};"
            " take down and remove that one, or name another --dir"
        )
    known = before.options if before else Options()
    options = replace(known, **{name: value for name, value in wishes.items() if value is not None})
    if before and running and options != before.options:
        changed = next(name for name, value in asdict(options).items() if value != getattr(known, name))
        raise ClusterError(
            f"--{changed.replace('_', '-')}: the running cluster in {root} has {getattr(known, changed)};"
            f" take it down first (bin/cluster down --dir {root})"
        )
    names = before.party_ids if before else tuple(party_ids)
    _check_database(options.database, names)
    if before and options.base_port == before.options.base_port:
        return replace(before, options=options, members=_kept_members(before, running, is_free))
    return Cluster(root, options, _new_members(names, options.base_port, is_free))


def choose_ports(count: int, base: int, is_free: Callable[[int], bool]) -> list[int]:
    """The first free ports from the base on."""
    found: list[int] = []
    for port in range(base, 65536):
        if len(found) == count:
            break
        if is_free(port):
            found.append(port)
    if len(found) < count:
        raise ClusterError(f"--base-port: {count} free ports are needed from {base} on, there are {len(found)}")
    return found


def _check_database(template: str | None, party_ids: Sequence[str]) -> None:
    if template and len(party_ids) > 1 and "{party_id}" not in template:
        raise click.UsageError(
            f"--database: {len(party_ids)} parties cannot share one database; put {{party_id}} into the URL,"
            " as in mysql://root@127.0.0.1:3306/flow_{party_id}"
        )


def _new_members(
    party_ids: Sequence[str], base: int, is_free: Callable[[int], bool]
) -> tuple[Member, ...]:
    http_ports = choose_ports(len(party_ids), base, is_free)
    worker_ports = choose_ports(len(party_ids), max(base + WORKER_PORTS_ABOVE, http_ports[-1] + 1), is_free)
    return tuple(map(Member, party_ids, http_ports, worker_ports))


def _kept_members(
    before: Cluster, running: Sequence[str], is_free: Callable[[int], bool]
) -> tuple[Member, ...]:
    for member in before.members:
        if member.party_id in running:
            continue
        taken = next((port for port in (member.http_port, member.worker_port) if not is_free(port)), None)
        if taken is None:
            continue
        if not running:
            return _new_members(before.party_ids, before.options.base_port, is_free)
        raise ClusterError(
            f"party {member.party_id}: port {taken} is taken by another program, and the running parties"
            f" {', '.join(running)} have it in their routes; take the cluster down to give it other ports"
        )
    return before.members


class Ports:
    """Ports of this machine that are free, and claimed until this is closed."""

    def __init__(self) -> None:
        self._claims: dict[int, socket.socket] = {}

    def is_free(self, port: int) -> bool:
        """Whether nobody listens there and no other command has chosen it; claims it when so."""
        if port in self._claims:
            return True
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0fate_flow/port/{port}")
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((HOST, port))
        except OSError as error:
            claim.close()
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
        self._claims[port] = claim
        return True

    def close(self) -> None:
        for claim in self._claims.values():
            claim.close()


def bring_up(root: Path, party_ids: Sequence[str], wishes: dict[str, Any]) -> Cluster:
    """Every party of the cluster runs and answers, or what was started here is ended again."""
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root), closing(Ports()) as ports:
        before = Cluster.read(root)
        running = [name for name in before.party_ids if service.find(before.home(name))] if before else []
        cluster = plan(root, before, party_ids, wishes, running, ports.is_free)
        if cluster != before:
            cluster.write()
        try:
            for member in cluster.members:
                if cluster != before or not cluster.conf_path(member.party_id).exists():
                    cluster.write_conf(member)
            _start(cluster, [name for name in cluster.party_ids if name not in running])
        except BaseException:
            if before is None:
                (root / "cluster.json").unlink(missing_ok=True)
            raise
        return cluster


def _start(cluster: Cluster, party_ids: Sequence[str]) -> None:
    """Starts these side by side; all answer in the end, or none runs."""
    begun = time.monotonic()
    # Workers that outlived an earlier server are not ours to end.
    with_workers = {name for name in party_ids if living_workers(cluster.home(name) / "jobs")}
    with ExitStack() as open_launches:
        try:
            launches = {}
            for name in party_ids:
                _tell(f"party {name}: starting ...")
                launched = service.launch(cluster.conf_path(name), cluster.home(name))
                launches[name] = open_launches.enter_context(launched)
            for name, launched in launches.items():
                with _naming(name):
                    running = launched.wait()
                _tell(f"party {name}: {running.url} (pid {running.pid}, {time.monotonic() - begun:.1f} s)")
        except BaseException:
            _take_down(cluster, party_ids, spare_workers_of=with_workers)
            raise


@contextmanager
def _naming(party_id: str) -> Iterator[None]:
    try:
        yield
    except ServiceFailed as error:
        raise ServiceFailed(f"party {party_id}: {error.message}") from error


def _take_down(cluster: Cluster, party_ids: Sequence[str], spare_workers_of: Collection[str] = ()) -> None:
    """Ends these servers side by side, then their workers."""
    homes = {name: cluster.home(name) for name in party_ids}
    asked = [name for name, home in homes.items() if service.ask_to_stop(home)]
    deadline = time.monotonic() + service.STOP_SECONDS
    for name in asked:
        service.await_end(homes[name], max(0.0, deadline - time.monotonic()))
        _tell(f"party {name}: the server has ended")
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


def _document(cluster: Cluster | None, *, with_running: bool) -> dict[str, Any]:
    """What is printed on stdout."""
    parties = []
    for member in cluster.members if cluster else ():
        home = cluster.home(member.party_id) if cluster else Path()
        running = service.find(home)
        party: dict[str, Any] = {
            "party_id": member.party_id,
            "url": running.url if running else member.url,
            "home": str(home),
            "pid": running.pid if running else None,
        }
        parties.append({**party, "running": running is not None} if with_running else party)
    return {"parties": parties}


def _show(cluster: Cluster | None, *, with_running: bool = True) -> None:
    click.echo(json.dumps(_document(cluster, with_running=with_running)))


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _existing(root: Path) -> Cluster:
    cluster = Cluster.read(root)
    if cluster is None:
        raise ClusterError(f"{root}: there is no cluster here; bin/cluster up makes one")
    return cluster


def _chosen(cluster: Cluster, party_ids: Sequence[str]) -> list[str]:
    """The named parties, all when none is named; each has to be in the cluster."""
    for name in party_ids:
        if name not in cluster.party_ids:
            raise click.UsageError(
                f"--party: {name} is not in {cluster.root}, which has {', '.join(cluster.party_ids)}"
            )
    return [name for name in cluster.party_ids if name in party_ids or not party_ids]


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One command at a time changes the cluster of a folder."""
    with service.lock_file(root / "cluster.lock"):
        yield


def _party_option(text: str) -> str:
    try:
        party_id = check_party_id(text, "--party")
    except BadRequest as error:
        raise click.UsageError(error.message) from error
    if party_id == "0":
        raise click.UsageError("--party: 0 is not a party id; every server takes it for itself")
    return party_id


def _parties(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    party_ids = tuple(_party_option(value) for value in values)
    twice = next((name for name in party_ids if party_ids.count(name) > 1), None)
    if twice:
        raise click.UsageError(f"--party: {twice} is named twice")
    return party_ids


def _resolved(_context: click.Context, _option: click.Parameter, value: Path) -> Path:
    return value.resolve()


def _end_on(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


class _Group(click.Group):
    """Turns our errors into one line and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        # So that a half-made cluster is taken down again.
        before = {number: signal.signal(number, _end_on) for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            return super().invoke(ctx)
        except FlowError as error:
            raise click.ClickException(error.message) from error
        except OSError as error:
            raise click.ClickException(os_error_text(error)) from error
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


dir_option = click.option(
    "--dir", "root", required=True, callback=_resolved,
    type=click.Path(file_okay=False, path_type=Path), help="Folder of the cluster; one home per party in it.",
)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Runs one server per party on this machine.

    Every command prints one JSON document on stdout, and what it is doing on stderr.
    """


@main.command()
@dir_option
@click.option("--party", "party_ids", multiple=True, callback=_parties, metavar="ID", help="A party; repeat it.")
@click.option("--cores", type=click.IntRange(0), help=f"Cores of each party; {DEFAULT_CORES} unless given.")
@click.option("--memory", type=click.IntRange(0), metavar="MB", help="Memory of each party.")
@click.option("--database", metavar="URL", help="Such as mysql://root@127.0.0.1:3306/flow_{party_id}; or SQLite.")
@click.option("--base-port", type=click.IntRange(1, 65535), help=f"{DEFAULT_BASE_PORT} unless given.")
def up(root: Path, party_ids: tuple[str, ...], **wishes: Any) -> None:
    """Starts a server per party; returns when all answer.

    Parties that run are left alone. Without --party: the parties that DIR has.

    Example: bin/cluster up --dir /tmp/c --party 9999 --party 10000
    """
    _show(bring_up(root, party_ids, wishes), with_running=False)


@main.command()
@dir_option
def status(root: Path) -> None:
    """Says which parties run; exit code 0 when all do, 3 otherwise.

    Example: bin/cluster status --dir /tmp/c
    """
    cluster = Cluster.read(root)
    if cluster is None:
        _tell(f"{root}: there is no cluster here")
    _show(cluster)
    is_complete = cluster is not None and all(service.find(cluster.home(name)) for name in cluster.party_ids)
    raise SystemExit(0 if is_complete else NOT_ALL_RUNNING)


@main.command()
@dir_option
def down(root: Path) -> None:
    """Ends every server and every worker; data and logs stay.

    Example: bin/cluster down --dir /tmp/c
    """
    if not root.is_dir():
        raise ClusterError(f"{root}: there is no such folder")
    with _locked(root):
        cluster = Cluster.read(root)
        if cluster is None:
            _tell(f"{root}: there is no cluster here, nothing to take down")
        else:
            _take_down(cluster, cluster.party_ids)
        _show(cluster)


@main.command()
@dir_option
@click.option("--party", "party_ids", multiple=True, required=True, callback=_parties, metavar="ID")
def kill(root: Path, party_ids: tuple[str, ...]) -> None:
    """kill -9 of a party's server, all its processes; its workers live on.

    Example: bin/cluster kill --dir /tmp/c --party 10000
    """
    cluster = _existing(root)
    with _locked(root):
        for name in _chosen(cluster, party_ids):
            with _naming(name):
                was_running = service.kill(cluster.home(name))
            _tell(f"party {name}: {'killed' if was_running else 'was not running'}")
        _show(cluster)


@main.command()
@dir_option
@click.option("--party", "party_ids", multiple=True, callback=_parties, metavar="ID", help="All unless given.")
def start(root: Path, party_ids: tuple[str, ...]) -> None:
    """Brings a party's server back on the same home and port; one that runs is left alone.

    Example: bin/cluster start --dir /tmp/c --party 10000
    """
    with _locked(_existing(root).root):
        cluster = _existing(root)
        _start(cluster, [name for name in _chosen(cluster, party_ids) if not service.find(cluster.home(name))])
        _show(cluster)


if __name__ == "__main__":
    main(prog_name="bin/cluster")
