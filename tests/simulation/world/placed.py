"""A simulated cluster under the real engine of placed workers: it delays, loses, doubles, preempts, forgets and lies.

Time is virtual, the folders of workers are real. `run` raises `Broken` as soon as a rule is broken:

- Who may have been submitted is not submitted again.
- A worker is not lost before it was submitted, while the process that has to submit it lives.
- A worker starts at most once, and never after its end was seen; none is given up that the cluster still has.
- A worker of a gang does not begin before the other one has arrived.
- When its end is seen, nothing of it computes any more.
- When the faults stop, each worker has an end, and no job of an ended worker is left in the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from zlib import crc32

from fate_flow.core.model.resources import Need
from fate_flow.engines.local.worker import (
    ARRIVED,
    EXIT,
    GO,
    LAUNCH,
    STOP,
    Exit,
    WorkerSpec,
    claim,
    release,
    write_atomically,
)
from fate_flow.engines.placed.cluster import Batch, Listed, Placement, Stage, Submission, Taken, Unreadable
from fate_flow.engines.placed.conduct import Conduct
from fate_flow.engines.placed.engine import PlacedEngine
from fate_flow.engines.placed.folder import PLACED, why_stopped
from tests.kit.engines.fake_cluster import FakeProcess, FakeProcesses

PREFIX = "fate-flow-sim-"
HELD = 1_000_000
WORKERS, FAULTY_STEPS, CALM_STEPS = 6, 60, 90
LEASE, GRACE, SETTLE, LONGEST_PENDING = 90.0, 10.0, 30.0, 200.0
BUSY = 0.9                             # of the rounds of the process that submits are not over in time


class Broken(BaseException):
    """A rule of the simulation does not hold. The engine, which goes on whatever a cluster raises, lets it through."""


@dataclass
class Job:
    """One job of the cluster, and its runner."""

    name: str
    folder: Path
    begins: float
    ends: float
    stage: Stage = Stage.PENDING
    cause: str = ""
    computes: bool = False
    appears: float = 0.0           # in the listing
    was_left_out: bool = False     # of the last listing
    is_blind: bool = False         # its node sees the home no more
    gathers_until: float = 0.0     # its runner waits for the other one of its gang
    gone_at: float = 0.0           # when its cluster lost its node
    forgotten_at: float = 0.0


class SimCluster:
    """A cluster whose commands and nodes fail by chance."""

    title = "Slurm"

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 1000.0
        self.is_calm = False
        self.jobs: list[Job] = []
        self.away_until = 0.0
        self.maybe_submitted: set[str] = set()
        self.started: dict[str, int] = {}
        self.over: set[str] = set()            # workers whose end was seen
        self.arrays = 0                        # submissions of several at once

    # what the engine calls

    def submit(self, placement: Placement) -> Submission:
        return self.submit_together([placement])

    def submit_together(self, placements: Sequence[Placement]) -> Submission:
        """All of them are there, or none is."""
        if again := {one.name for one in placements} & self.maybe_submitted:
            raise Broken(f"{again} were submitted again")
        if len(placements) > 1:
            if self.random.random() < 0.2:
                return Submission(Taken.TOO_MANY, "Invalid job array specification")
            self.arrays += 1
        chance = 1.0 if self.is_calm else self.random.random()
        if chance < 0.15:
            return Submission(Taken.NOT_REACHED, "connect failure")
        self.maybe_submitted.update(one.name for one in placements)
        if chance < 0.2:
            return Submission(Taken.REFUSED, "Invalid partition name specified")
        if chance < 0.3:
            return Submission(Taken.IN_DOUBT, "the request was lost")
        is_doubled = chance < 0.4
        for _ in range(2 if is_doubled else 1):
            late = self.random.choice((0, 0, 0, 60, 600)) if chance < 0.6 else 0
            for one in placements:
                waits = (1, 5, 30, 300) if is_doubled or self.is_calm else (1, 5, 30, 300, HELD)
                begins = self.now + late + self.random.choice(waits)
                ends = begins + self.random.choice((1, 20, 400))
                self.jobs.append(Job(one.name, one.folder, begins, ends, appears=self.now + late))
        return Submission(Taken.IN_DOUBT, "the answer was lost") if chance < 0.6 else Submission(Taken.ACCEPTED)

    def listing(self) -> Sequence[Listed]:
        if self.now < self.away_until:
            raise Unreadable("Unable to contact slurm controller")
        known = [job for job in self.jobs if job.appears <= self.now and not 0 < job.forgotten_at <= self.now]
        found = [self._listed(job) for job in known]
        return [one for one in found if one is not None]

    def _listed(self, job: Job) -> Listed | None:
        stage = job.stage
        if not self.is_calm and stage is Stage.ALIVE:
            # A state that we do not know, one from before the start, or a listing without this job.
            odd = self.random.random()
            job.was_left_out = odd < 0.03 and not job.was_left_out
            if job.was_left_out:
                return None
            stage = Stage.UNKNOWN if crc32(f"{job.name} {int(self.now / 150)}".encode()) % 4 == 0 else stage
            stage = Stage.PENDING if odd > 0.95 else stage
        return Listed(job.name, str(job.folder), stage, job.cause, job.cause or stage.name)

    def signal(self, name: str) -> None: ...

    def cancel(self, name: str) -> None:
        for job in self.jobs:
            if job.name == name and job.stage is not Stage.ENDED:
                self._end(job)

    def admit(self, name: str) -> None: ...

    def cause_in(self, folder: Path) -> tuple[str, str]:  # nothing is noted there
        return "", ""

    # what happens in it

    def advance(self, seconds: float) -> None:
        self.now += seconds
        if not self.is_calm and self.random.random() < 0.06:
            self.away_until = self.now + self.random.choice((20, 120, 900))
        for job in self.jobs:
            self._advance(job)

    def _advance(self, job: Job) -> None:
        if job.stage is Stage.PENDING and self.now >= job.begins:
            job.stage = Stage.ALIVE
            self._start(job)
        if job.computes:
            self._compute(job)
        elif job.stage is Stage.ALIVE:
            self._end(job)          # its runner has ended, or found the claim

    def _start(self, job: Job) -> None:
        with suppress(FileNotFoundError):
            if not claim(job.folder):
                return
            if job.name in self.over:
                raise Broken(f"{job.name} started after its end")
            self.started[job.name] = self.started.get(job.name, 0) + 1
            if self.started[job.name] > 1:
                raise Broken(f"{job.name} started twice")
            job.computes = True
            longest = json.loads((job.folder / LAUNCH).read_text())["gather_seconds"]
            if longest is None:
                self._begin(job)
            else:
                job.gathers_until = self.now + longest
                (job.folder / ARRIVED).touch()

    def _begin(self, job: Job) -> None:
        job.ends += self.now - job.begins          # it has waited
        write_atomically(
            job.folder / "runner.json", '{"runner_pid": 1, "runner_started": 2, "pid": 3, "pid_started": 4}'
        )

    def _gather(self, job: Job) -> None:
        if (job.folder / GO).exists():
            if not (other_of_gang(job.folder) / ARRIVED).exists():
                raise Broken(f"{job.name} began before its gang was there")
            job.gathers_until = 0
            self._begin(job)

    def _compute(self, job: Job) -> None:
        if not self.is_calm and job.stage is Stage.ALIVE:
            fault = self.random.random()
            if fault < 0.02:                      # killed with its runner, without a word in the folder
                job.computes = False
                self._end(job, self.random.choice(("preempted", "out_of_memory", "timeout", "")))
                return
            if fault < 0.06:                      # its node is lost to the cluster, and computes on
                job.gone_at, job.is_blind = self.now, self.random.random() < 0.5
                self._end(job, "node_lost", computes=True)
        is_silent = bool(job.gone_at) and self.now >= job.gone_at + LEASE
        is_stopped = (job.folder / STOP).exists() and not job.is_blind
        if is_stopped and why_stopped(job.folder) and job.stage is Stage.ALIVE:
            raise Broken(f"{job.name} was given up, although the cluster has it")
        if job.gathers_until and not job.is_blind:
            self._gather(job)
        is_alone = bool(job.gathers_until) and self.now >= job.gathers_until
        if self.now >= (job.gathers_until or job.ends) or is_stopped or is_silent:
            job.computes = False
            end = Exit(None, 15, "stopped") if is_stopped or is_silent else Exit(0, None, "exited")
            end = Exit(None, None, "not_placed", "waited for its gang") if is_alone else end
            if not job.is_blind:
                write_atomically(job.folder / EXIT, end.to_json())
            if job.stage is Stage.ALIVE:
                self._end(job)

    def _end(self, job: Job, cause: str = "", *, computes: bool = False) -> None:
        job.stage, job.cause = Stage.ENDED, cause
        job.computes = job.computes and computes
        job.forgotten_at = self.now + self.random.choice((10, 300))

    def is_computing(self, name: str) -> bool:
        return any(job.computes for job in self.jobs if job.name == name)


def number_in(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def other_of_gang(folder: Path) -> Path:
    """Workers 0 and 1 are a gang, and so on."""
    return folder.with_name(f"{folder.name.rpartition('-')[0]}-{number_in(folder) ^ 1}")


class Server:
    """A party's server of two processes, as when a gang starts: one submits, slowly, and another one lists."""

    def __init__(self, cluster: SimCluster, jobs: Path, random: Random) -> None:
        self.cluster, self.random = cluster, random
        self.processes = FakeProcesses()
        self._conduct = Conduct(
            5, LONGEST_PENDING, SETTLE, lambda folder: ["run", str(folder)], jobs, PREFIX, gathers=True
        )  # fmt: skip
        self.http, self.submits = self._start()
        self.lists = self._start()[1]
        self.alone = set[str]()          # names whose submitter died, or cannot be known
        self.together = set[Path]()      # folders of gangs that have been there, as the database has it
        self._orders: dict[str, FakeProcess] = {}

    def _start(self) -> tuple[FakeProcess, PlacedEngine]:
        process = self.processes.start()
        engine = PlacedEngine(
            self.cluster, self._conduct, lambda _: None, lambda: self.cluster.now, has_thread=False, processes=process
        )  # fmt: skip
        return process, engine

    def is_killed(self) -> None:
        """One of its processes is killed, and starts again."""
        if self.random.random() < 0.5:
            self.lists = self._start()[1]
            return
        self.processes.end(self.http, is_known=self.random.random() < 0.5)
        self.alone.update(name for name, process in self._orders.items() if process is self.http)
        self.http, self.submits = self._start()

    def launch(self, spec: WorkerSpec) -> None:
        self._orders[PREFIX + spec.worker_id] = self.http
        is_of_gang = number_in(spec.folder) < WORKERS
        gang = Batch(f"gang {number_in(spec.folder) // 2}", 2) if is_of_gang else None
        self.submits.launch(spec, Need(), gathers=is_of_gang, batch=gang)

    def gather(self, folder: Path) -> None:
        """Let the workers of a gang begin once both have arrived; what is lost of it now comes again."""
        if all(self.lists.observe(one).has_arrived for one in (folder, other_of_gang(folder))):
            self.together.update((folder, other_of_gang(folder)))
        if folder in self.together and self.random.random() < 0.7:
            release(folder)

    def work(self) -> None:
        if self.cluster.is_calm or self.random.random() > BUSY:
            self.submits.work(polls=True)
        if self.cluster.is_calm or self.random.random() < 0.9:
            self.lists.work(polls=True)

    def check_end(self, name: str, cause: str) -> None:
        """Raise Broken if this worker was lost although it may still be submitted."""
        if cause == "not_started" and not {name} & (self.cluster.maybe_submitted | self.alone):
            raise Broken(f"{name} was lost before it was submitted")


def run(seed: int, home: Path) -> int:
    """Place workers through faults of this seed, then let it become calm; return how often several were submitted at
    once. Raises Broken."""
    random = Random(seed)
    cluster, jobs = SimCluster(random), home / "jobs"
    server = Server(cluster, jobs, random)
    # The last one comes when all is calm: a server that was killed lists again for its next worker.
    folders = [jobs / "job" / f"w{seed}-{number}" for number in range(WORKERS + 1)]
    for step in range(FAULTY_STEPS + CALM_STEPS):
        cluster.is_calm = step >= FAULTY_STEPS
        if not cluster.is_calm and random.random() < 0.08:
            server.is_killed()
        for folder in folders if cluster.is_calm else folders[: 2 + step // 10 * 2][:WORKERS]:
            _follow(cluster, server, folder, random)
        server.work()
        cluster.advance(random.choice((5, 5, 10, 40)) if step < FAULTY_STEPS else 30)
    for folder in folders:
        if PREFIX + folder.name not in cluster.over:
            raise Broken(f"{folder.name} has no end that anybody sees")
    left = [job.name for job in cluster.jobs if job.stage is not Stage.ENDED or job.computes]
    if left:
        raise Broken(f"jobs that nobody wants are left: {left}")
    return cluster.arrays


def _follow(cluster: SimCluster, server: Server, folder: Path, random: Random) -> None:
    """Do what the services do about a worker: launch it again until it is placed, observe it, stop it now and then."""
    name = PREFIX + folder.name
    if name in cluster.over:
        return
    if not (folder / PLACED).exists():
        spec = WorkerSpec(folder.name, folder, "mine", "exec", ("true",), folder, folder / "out", folder / "err",
                          grace_seconds=GRACE, lease_seconds=LEASE)
        server.launch(spec)
    elif not cluster.is_calm and random.random() < 0.01:
        server.lists.stop(folder, GRACE)
    seen = server.lists.observe(folder)
    if seen.has_arrived:
        server.gather(folder)
    if seen.state == "exited":
        if cluster.is_computing(name):
            raise Broken(f"{name} computes after its end was seen")
        server.check_end(name, seen.exit.cause if seen.exit else "")
        cluster.over.add(name)
