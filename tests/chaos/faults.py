"""What is done to servers, workers, ways and databases, and when: drawn from the seed before it begins."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from fate_flow.cli.server import service
from fate_flow.engines.local.engine import living_workers
from fate_flow.engines.local.worker import ProcessId, Started
from tests.chaos.parties import Keeper, MariaDb, Party
from tests.chaos.proxy import CALM, DEAF, RAIN, REFUSING, SILENT, Proxy

SHORT_STOP, LONG_STOP = (0.5, 4.0), (11.0, 14.0)     # seconds; the lock of a scheduler lives ten
DOWN_SECONDS = (0.0, 5.0)
LEASE_SECONDS = 120.0                                # of a running job, by default; the initiator waits 90
LONG_RUN = 180.0                                     # seconds; from here on there is time to outlive the leases
OUTLIVING_FROM, OUTLIVING = (2.0, 20.0), (140.0, 160.0)
SPARED = ("kill server", "kill process", "kill supervisor", "stop process", "stop server")
WEIGHTS = {
    "kill server": 5, "kill process": 4, "kill supervisor": 1, "kill worker": 4, "stop process": 4,
    "stop server": 2, "stop worker": 2, "partition": 4, "one way": 4, "rain": 6, "kill database": 3,
}


@dataclass(frozen=True)
class Fault:
    """One thing to do; all chances in it are drawn already."""

    at: float              # seconds after the beginning
    kind: str
    party_id: str
    other: str
    seconds: float         # how long it lasts
    pick: float            # which of the processes there are then: a share from 0 to 1

    @property
    def outlives_leases(self) -> bool:
        return self.seconds > LEASE_SECONDS

    def spares(self, other: Fault) -> bool:
        """Whether `other` is not to happen during this one: a scheduler that begins anew counts the silence anew."""
        is_meanwhile = self.at <= other.at < self.at + self.seconds
        return is_meanwhile and other.kind in SPARED and other.party_id in (self.party_id, self.other)


def draw(seed: int, duration: float, party_ids: Sequence[str], with_database: bool) -> list[Fault]:
    """The faults of a run, in their order. All of them are over at its end.

    In a long run one partition outlives the leases, and nothing is done to the servers of its parties meanwhile."""
    others = _draw_short(seed, duration, party_ids, with_database)
    if duration < LONG_RUN:
        return others
    longest = _draw_longest(seed, party_ids)
    return sorted([longest, *(one for one in others if not longest.spares(one))], key=lambda fault: fault.at)


def _draw_longest(seed: int, party_ids: Sequence[str]) -> Fault:
    rng = random.Random(f"{seed} longest")
    party_id, other = rng.sample(list(party_ids), 2)
    kind = rng.choice(["partition", "one way"])
    at, seconds = round(rng.uniform(*OUTLIVING_FROM), 2), round(rng.uniform(*OUTLIVING), 2)
    return Fault(at, kind, party_id, other, seconds, rng.random())


def _draw_short(seed: int, duration: float, party_ids: Sequence[str], with_database: bool) -> list[Fault]:
    rng = random.Random(f"{seed} faults")
    weights = {kind: weight for kind, weight in WEIGHTS.items() if with_database or kind != "kill database"}
    found: list[Fault] = []
    at = rng.uniform(0.5, 1.5)
    while at < duration - 1.0:
        [kind] = rng.choices(list(weights), list(weights.values()))
        party_id, other = rng.sample(list(party_ids), 2)
        seconds = min(_lasting(rng, kind), duration - at)
        found.append(Fault(round(at, 2), kind, party_id, other, round(seconds, 2), rng.random()))
        at += rng.uniform(0.3, 2.5)
    return found


def _lasting(rng: random.Random, kind: str) -> float:
    if kind in ("stop process", "stop server", "stop worker"):
        return rng.uniform(*(SHORT_STOP if rng.random() < 0.7 else LONG_STOP))
    if kind in ("partition", "one way"):
        return rng.uniform(1.0, 12.0)
    if kind == "rain":
        return rng.uniform(3.0, 15.0)
    return rng.uniform(*DOWN_SECONDS)


class Storm:
    """Carries the faults out, each at its time, and undoes it when it is over."""

    def __init__(
        self, parties: Mapping[str, Party], keepers: Mapping[str, Keeper], proxy: Proxy, database: MariaDb | None,
        tell: Callable[[str], None],
    ) -> None:
        self._parties, self._keepers, self._proxy = parties, keepers, proxy
        self._database = database
        self._tell = tell
        self._threads: list[threading.Thread] = []
        self._stopped: set[ProcessId] = set()
        self._weather_of: dict[tuple[str, str], Fault] = {}      # by way: the fault that made it
        self._is_over = threading.Event()       # what lasts is to end
        self.counts: Counter[str] = Counter()

    def blow(self, faults: Sequence[Fault], duration: float) -> None:
        """Returns when all are over and undone."""
        begun = time.monotonic()
        try:
            for fault in faults:
                self._is_over.wait(max(0.0, begun + fault.at - time.monotonic()))
                thread = threading.Thread(target=self._one, args=(fault,), name=fault.kind)
                self._threads.append(thread)
                thread.start()
            self._is_over.wait(max(0.0, begun + duration - time.monotonic()))
        finally:
            self._is_over.set()
            for thread in self._threads:
                thread.join()
            self.calm()

    def calm(self) -> None:
        """Nothing is held back, stopped or down any more."""
        self._proxy.calm()
        for process in self._stopped:
            process.send(signal.SIGCONT)
        for keeper in self._keepers.values():
            keeper.not_before = 0.0
        if self._database:
            self._database.start()

    def _one(self, fault: Fault) -> None:
        act = {
            "kill server": self._kill_server, "kill process": self._kill_process,
            "kill supervisor": self._kill_supervisor, "kill worker": self._kill_worker,
            "stop process": self._stop_process, "stop server": self._stop_server, "stop worker": self._stop_worker,
            "partition": self._partition, "one way": self._one_way, "rain": self._rain,
            "kill database": self._kill_database,
        }[fault.kind]  # fmt: skip
        with suppress(psutil.Error, OSError):     # what was to suffer has gone meanwhile
            what = act(fault)
            if what:
                self.counts[f"{fault.kind}{what}"] += 1

    def _note(self, fault: Fault, text: str) -> None:
        self._tell(f"{fault.at:6.2f} {fault.kind}: {text}")

    # ------------------------------------------------------------------ servers and their processes

    def _kill_server(self, fault: Fault) -> str:
        self._keepers[fault.party_id].not_before = time.monotonic() + fault.seconds
        if not self._parties[fault.party_id].kill():
            return ""
        self._note(fault, f"party {fault.party_id}, down for {fault.seconds} s")
        return " "

    def _kill_supervisor(self, fault: Fault) -> str:
        running = service.find(self._parties[fault.party_id].home)
        if running is None or not running.supervisor.send(signal.SIGKILL):
            return ""
        self._keepers[fault.party_id].not_before = time.monotonic() + fault.seconds
        self._note(fault, f"party {fault.party_id}, the others live on for {fault.seconds} s")
        return " "

    def _kill_process(self, fault: Fault) -> str:
        found = self._process(fault)
        if found is None or not found[1].send(signal.SIGKILL):
            return ""
        self._note(fault, f"party {fault.party_id}, {found[0]}")
        return f": {found[0]}"

    def _stop_process(self, fault: Fault) -> str:
        found = self._process(fault)
        if found is None:
            return ""
        self._note(fault, f"party {fault.party_id}, {found[0]} for {fault.seconds} s")
        self._hold([found[1]], fault.seconds)
        return f": {found[0]} {_length(fault)}"

    def _stop_server(self, fault: Fault) -> str:
        processes = service.server_processes(self._parties[fault.party_id].home)
        if not processes:
            return ""
        self._note(fault, f"party {fault.party_id} for {fault.seconds} s")
        self._hold(processes, fault.seconds)
        return f" {_length(fault)}"

    def _process(self, fault: Fault) -> tuple[str, ProcessId] | None:
        """One of the processes of a server, but for its supervisor: what it is, and which."""
        running = service.find(self._parties[fault.party_id].home)
        if running is None:
            return None
        members = psutil.Process(running.pid).children(recursive=True)
        found = sorted((_role(one, running.pid), one.pid) for one in members)
        if not found:
            return None
        role, pid = found[int(fault.pick * len(found))]
        return role, ProcessId.of(pid)

    def _hold(self, processes: Sequence[ProcessId], seconds: float) -> None:
        self._stopped.update(processes)
        for process in processes:
            process.send(signal.SIGSTOP)
        self._is_over.wait(seconds)
        for process in processes:
            process.send(signal.SIGCONT)

    # ------------------------------------------------------------------ workers

    def _kill_worker(self, fault: Fault) -> str:
        started = self._worker(fault)
        if started is None:
            return ""
        name, process = ("runner", started.runner) if fault.pick < 0.3 else ("worker", started.worker)
        if not process.send(signal.SIGKILL):
            return ""
        self._note(fault, f"a {name} at party {fault.party_id}")
        return f": {name}"

    def _stop_worker(self, fault: Fault) -> str:
        started = self._worker(fault)
        if started is None:
            return ""
        self._note(fault, f"at party {fault.party_id} for {fault.seconds} s")
        self._hold([started.worker], fault.seconds)
        return " "

    def _worker(self, fault: Fault) -> Started | None:
        """A worker that lives at this party; waits a while for one."""
        deadline = time.monotonic() + 2.0
        while time.monotonic() < deadline:
            folders = living_workers(self._parties[fault.party_id].home / "jobs")
            found = [started for started in map(Started.read, folders) if started]
            if found:
                return found[int(fault.pick * len(found))]
            time.sleep(0.02)
        return None

    # ------------------------------------------------------------------ ways and databases

    def _partition(self, fault: Fault) -> str:
        weather = SILENT if fault.pick < 0.5 else REFUSING
        self._note(fault, f"{fault.party_id} and {fault.other} for {fault.seconds} s, {weather}")
        self._weather(fault, {(fault.party_id, fault.other): weather, (fault.other, fault.party_id): weather})
        return f" {weather}{_beyond(fault)}"

    def _one_way(self, fault: Fault) -> str:
        """Nothing comes from the one to the other: no request, and no reply to the other's."""
        self._note(fault, f"from {fault.party_id} to {fault.other} for {fault.seconds} s")
        if fault.pick < 0.5:
            self._weather(fault, {(fault.party_id, fault.other): SILENT, (fault.other, fault.party_id): DEAF})
            return _beyond(fault) or " "
        self._weather(fault, {(fault.other, fault.party_id): DEAF})
        return f": replies only{_beyond(fault)}"

    def _rain(self, fault: Fault) -> str:
        self._note(fault, f"on all ways for {fault.seconds} s")
        self._weather(fault, dict.fromkeys(self._proxy.links, RAIN))
        return " "

    def _weather(self, fault: Fault, weathers: Mapping[tuple[str, str], str]) -> None:
        links = [self._proxy.links[pair] for pair in weathers]
        changed = [link for link in links if link.weather == CALM or fault.outlives_leases]
        for link in changed:
            link.weather = weathers[link.frm, link.to]
            self._weather_of[link.frm, link.to] = fault
        self._is_over.wait(fault.seconds)
        for link in changed:
            if self._weather_of[link.frm, link.to] is fault:
                link.weather = CALM

    def _kill_database(self, fault: Fault) -> str:
        assert self._database is not None
        self._note(fault, f"away for {fault.seconds} s")
        self._database.kill()
        self._is_over.wait(fault.seconds)
        self._database.start()
        return " "


def _role(process: psutil.Process, supervisor: int) -> str:
    if process.name() == "fate-spawner":
        return "spawner"
    is_listening = any(one.status == psutil.CONN_LISTEN for one in process.net_connections("tcp"))
    return "http" if is_listening else "scheduler"


def _length(fault: Fault) -> str:
    return "long" if fault.seconds >= LONG_STOP[0] else "short"


def _beyond(fault: Fault) -> str:
    return ", longer than the leases" if fault.outlives_leases else ""
