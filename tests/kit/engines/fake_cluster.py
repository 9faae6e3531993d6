"""A cluster of placed runners without machines: a test says what it answers, lists and runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fate_flow.core.model.resources import Need
from fate_flow.engines.local.worker import Exit, ProcessId, WorkerSpec, claim, write_atomically
from fate_flow.engines.placed.cluster import (
    Batch,
    Listed,
    Placement,
    Stage,
    Submission,
    Taken,
    Unreadable,
    Waiting,
)
from fate_flow.engines.placed.conduct import Conduct
from fate_flow.engines.placed.engine import PlacedEngine
from fate_flow.engines.placed.submitting import Submitter

PREFIX = "fate-flow-home-"
ACCEPTED = Submission(Taken.ACCEPTED, "1")
RESOURCES = Waiting("resources", "waits in Slurm for 2 nodes: Resources", "squeue --start there says when it may begin")


@dataclass
class FakeCluster:
    """What was submitted, and what the listing shows."""

    title: str = "Slurm"
    answer: Submission = ACCEPTED
    takes: bool = True                     # what is submitted appears in the listing, whatever the answer
    is_away: bool = False
    submitted: list[Placement] = field(default_factory=list)
    jobs: dict[str, Listed] = field(default_factory=dict)
    signals: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    admitted: list[str] = field(default_factory=list)
    noted: tuple[str, str] = ("", "")
    most: int = 1000                       # placements that it takes at once
    arrays: list[list[str]] = field(default_factory=list)      # the names of each submission of several
    twins: list[Listed] = field(default_factory=list)      # are listed, too

    def submit(self, placement: Placement) -> Submission:
        self.submitted.append(placement)
        if self.takes and self.answer.taken in (Taken.ACCEPTED, Taken.IN_DOUBT):
            self.show(placement.name, placement.folder, Stage.PENDING, waiting=RESOURCES)
        return self.answer

    def submit_together(self, placements: Sequence[Placement]) -> Submission:
        if len(placements) > self.most:
            return Submission(Taken.TOO_MANY, "Invalid job array specification")
        self.arrays.append([one.name for one in placements])
        return [self.submit(one) for one in placements][-1]

    def show(self, name: str, folder: Path, stage: Stage, cause: str = "", waiting: Waiting | None = None) -> None:
        self.jobs[name] = Listed(name, str(folder), stage, cause, cause.upper() or stage.name, waiting)

    def listing(self) -> Sequence[Listed]:
        if self.is_away:
            raise Unreadable("Unable to contact slurm controller (connect failure)")
        return [*self.jobs.values(), *self.twins]

    def signal(self, name: str) -> None:
        self.signals.append(name)

    def cancel(self, name: str) -> None:
        self.cancelled.append(name)

    def admit(self, name: str) -> None:
        self.admitted.append(name)

    def cause_in(self, folder: Path) -> tuple[str, str]:
        return self.noted


@dataclass
class FakeProcess:
    """One process of a server, as the others see it."""

    number: int
    all: dict[int, bool | None]            # whether each process lives; None: nobody can know

    def own(self) -> Submitter:
        return Submitter(ProcessId(self.number, 0), "here")

    def is_alive(self, submitter: Submitter) -> bool | None:
        return self.all[submitter.process.pid]


class FakeProcesses:
    """Processes that a test starts and kills."""

    def __init__(self) -> None:
        self._all: dict[int, bool | None] = {}

    def start(self) -> FakeProcess:
        number = len(self._all) + 1
        self._all[number] = True
        return FakeProcess(number, self._all)

    def end(self, process: FakeProcess, is_known: bool = True) -> None:
        """Kill a process. `is_known`: others can see that it is gone."""
        self._all[process.number] = False if is_known else None


class PlacedWorld:
    """A placed engine without a thread, on virtual time: `look` is one round of its thread."""

    def __init__(self, home: Path, longest_pending: float = 600, settle: float = 30) -> None:
        self.cluster = FakeCluster()
        self.jobs = home / "jobs"
        self.now = 1000.0
        self.ended: list[str] = []
        self._conduct = Conduct(
            5, longest_pending, settle, lambda folder: ["run", str(folder)], self.jobs, PREFIX, gathers=True
        )  # fmt: skip
        self.processes = FakeProcesses()
        self.process = self.processes.start()
        self.engine = self.engine_of(self.process)

    def new_engine(self) -> PlacedEngine:
        """As after a restart of the server."""
        self.processes.end(self.process)
        self.process = self.processes.start()
        return self.engine_of(self.process)

    def engine_of(self, process: FakeProcess) -> PlacedEngine:
        """The engine as one process of the server has it."""
        def ended(folder: Path) -> None:
            self.ended.append(folder.name)

        return PlacedEngine(
            self.cluster, self._conduct, ended, lambda: self.now, has_thread=False, processes=process
        )  # fmt: skip

    def place(
        self, name: str = "w", by: PlacedEngine | None = None, longest_pending: float = 0, time_limit_seconds: int = 0,
        *, gathers: bool = False, batch: int = 1, cores: int = 2,
    ) -> Path:  # fmt: skip
        """`by`: the engine in the process that gets the order, where that is another one than lists; `batch`: how many
        workers come with the start of this one."""
        folder = self.jobs / "job" / name
        spec = WorkerSpec(name, folder, "mine", "exec", ("true",), folder, folder / "out", folder / "err",
                          grace_seconds=10, lease_seconds=60)
        need = Need(cores, time_limit_seconds=time_limit_seconds, longest_pending_seconds=longest_pending)
        come = Batch("start", batch) if batch > 1 else None
        (by or self.engine).launch(spec, need, gathers=gathers, batch=come)
        self.engine.observe(folder)              # as the scheduler does
        return folder

    def look(self, seconds: float = 5) -> None:
        self.now += seconds
        self.engine.work(polls=True)

    def looks(self, count: int, seconds: float = 5) -> None:
        for _ in range(count):
            self.look(seconds)

    def show(self, folder: Path, stage: Stage, cause: str = "") -> None:
        self.cluster.show(PREFIX + folder.name, folder, stage, cause, RESOURCES if stage is Stage.PENDING else None)

    def forget(self, folder: Path) -> None:
        self.cluster.jobs.pop(PREFIX + folder.name, None)

    def begin(self, folder: Path) -> None:
        """The runner of a folder starts its worker, on another machine."""
        assert claim(folder)
        write_atomically(folder / "runner.json", '{"runner_pid": 1, "runner_started": 2, "pid": 3, "pid_started": 4}')
        self.show(folder, Stage.ALIVE)

    def end(self, folder: Path, end: Exit) -> None:
        write_atomically(folder / "exit.json", end.to_json())

    def end_of(self, folder: Path) -> Exit | None:
        return self.engine.observe(folder).exit

    def cause_of(self, folder: Path) -> str | None:
        end = self.end_of(folder)
        return end.cause if end else None


def submitted(cluster: FakeCluster) -> list[str]:
    """The names that were submitted, as often as they were."""
    return [one.name for one in cluster.submitted]
