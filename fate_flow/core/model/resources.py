"""How many cores and GPUs, and how much memory a job requests from a party (reference: scheduler-v1, section 6)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, floor
from typing import Any

from fate_flow.core.model.spec import JobParameters, Party

LOCAL = "local"
"""The name of the engine that runs workers as processes of the server's machine."""

_NAMES_IN_FATE = {LOCAL: "STANDALONE"}


def name_in_fate(engine: str) -> str:
    """Return the name of an engine in FATE's columns and log lines, which is another one for the local engine."""
    return _NAMES_IN_FATE.get(engine, engine)


def engine_named(in_fate: str) -> str:
    """Return the engine that has this name in FATE's columns."""
    return next((name for name, known in _NAMES_IN_FATE.items() if known == in_fate), in_fate)


@dataclass(frozen=True)
class EngineSize:
    """The capacity of one computing engine of a party."""

    nodes: int
    cores: int                              # over all nodes
    memory: int = 0                         # MB over all nodes
    max_cores_percent_per_job: float = 1.0
    gpus: int = 0                           # over all nodes

    @property
    def job_limit(self) -> int:
        """Return how many whole cores one job may hold."""
        # rounded before floor, because 0.29 of 100 cores is 28.999999999999996 as a float
        return floor(round(self.cores * self.max_cores_percent_per_job, 6))


@dataclass(frozen=True)
class UsageSample:
    """What a worker has used up to a moment."""

    seconds: float                          # since it was started
    processor_seconds: float                # of all its processes so far
    memory_mb: float                        # resident; at the end: of the largest process


@dataclass(frozen=True)
class WorkerUsage:
    """What a worker has used, as its runner has seen it. `end`: None: it lives, or its runner has not seen its end."""

    samples: tuple[UsageSample, ...]
    end: UsageSample | None

    @property
    def last(self) -> UsageSample | None:
        return self.end or (self.samples[-1] if self.samples else None)

    @property
    def peak_mb(self) -> float | None:
        """The most memory that was seen: of all processes together by a sample, or of one process at its end."""
        every = (*self.samples, *((self.end,) if self.end else ()))
        return max((one.memory_mb for one in every), default=None)

    def cores(self) -> tuple[tuple[float, float, float], ...]:
        """Return from when to when (seconds since the start) how many cores were busy, in the mean."""
        points = [UsageSample(0, 0, 0), *self.samples]
        if self.end and self.end.seconds > points[-1].seconds:
            points.append(self.end)
        spans = [(one.seconds, two.seconds, two.processor_seconds - one.processor_seconds)
                 for one, two in pairwise(points) if one.seconds < two.seconds]  # fmt: skip
        return tuple((start, end, max(0.0, busy) / (end - start)) for start, end, busy in spans)


@dataclass(frozen=True)
class Need:
    """What one worker needs of the engine that places it."""

    cores: int = 0               # 0: its job has reserved none for it
    memory_mb: int = 0           # 0: it does not say
    gpus: int = 0
    time_limit_seconds: int = 0  # 0: it may run for as long as its job
    queue: str = ""              # as the engine calls it; empty: the one that the engine has for this
    labels: tuple[str, ...] = () # words for its node, which the engine knows
    longest_pending_seconds: float = 0   # that its job lets it wait for a place; 0: as long as the party does

    def with_time_for(self, seconds: float) -> Need:
        """Return what a worker needs that waits for so long before it begins."""
        limit = self.time_limit_seconds
        return replace(self, time_limit_seconds=limit + ceil(seconds)) if limit else self


@dataclass(frozen=True)
class Request:
    """Cores, MB of memory and GPUs, for one task that states none of its own, and for the whole job."""

    task_cores: int
    task_memory: int
    cores: int
    memory: int
    task_gpus: int = 0
    gpus: int = 0


NOTHING = Request(0, 0, 0, 0)
CORES_PER_NODE = "eggroll.session.processors.per.node"


def request_of(
    party: Party, parameters: JobParameters, nodes: int, tasks: Iterable[JobParameters] = (), *, is_exact: bool = False
) -> Request:
    """Return what the job reserves at this party, on one engine of it. An arbiter takes nothing.

    `tasks`: the parameters of each task that runs there. As many run at once as `task_parallelism` says, whichever they
    are, so the job reserves the largest needs of so many tasks. If no task differs from the job, it reserves as FATE
    does: so many times the need of a task, also where there are fewer tasks; with `is_exact`, it does not."""
    if party.role == "arbiter":
        return NOTHING
    one, every = _of_one_task(parameters, nodes), [_of_one_task(own, nodes) for own in tasks]
    cores, memory, gpus = (
        _together(of_job, [own[place] for own in every], parameters.task_parallelism, is_exact)
        for place, of_job in enumerate(one)
    )
    return Request(one[0], one[1], cores, memory, one[2], gpus)


def _of_one_task(parameters: JobParameters, nodes: int) -> tuple[int, int, int]:
    """Return cores, memory and GPUs. Cores are whole ones of each node."""
    nodes = max(1, nodes)
    per_node = cores_per_node(parameters.extra) or max(1, parameters.task_cores // nodes)
    return per_node * nodes, parameters.task_memory, parameters.task_gpus


def _together(of_job: int, of_tasks: Collection[int], at_once: int, is_exact: bool) -> int:
    if not is_exact and all(own == of_job for own in of_tasks):
        return of_job * at_once
    return sum(sorted(of_tasks, reverse=True)[:at_once])


def cores_per_node(extra: Mapping[str, Any]) -> int:
    """Return `eggroll.session.processors.per.node`, which overrides `task_cores`; 0 if it is not given."""
    run = extra.get("eggroll_run")
    return int(run.get(CORES_PER_NODE) or 0) if isinstance(run, Mapping) else 0
