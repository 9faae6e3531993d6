"""Ranks in one Indexed Job: each is listed, admitted and cancelled by its own name, as if it had a Job of its own.

Which worker an index is stands in an annotation of the Job, which is made with it. What is asked for one rank here may
concern all: Kueue admits the whole Job, and a rank without a pod can be cancelled with the last of the others alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fate_flow.engines.kubernetes.kueue import Manifest
from fate_flow.engines.kubernetes.manifests import FOLDER, RANKS, START_LABEL, WORKER_LABEL
from fate_flow.engines.placed.cluster import Stage

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"       # of a pod; as an annotation, too, as it was at first
CANCELLED = "Cancelled"
_PER_INDEX = "backoffLimitPerIndex"


def ranks_of(job: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of the workers of an Indexed Job, by their index; none if it is no such Job."""
    return tuple(str((job["metadata"].get("annotations") or {}).get(RANKS, "")).split())


def is_per_index(job: Mapping[str, Any]) -> bool:
    """Return whether the API server has kept that the end of one pod is not that of all."""
    return (job.get("spec") or {}).get(_PER_INDEX) == 0


@dataclass
class Ranks:
    """What one process knows of the ranks in Indexed Jobs, from the last listing. One thread uses it.

    `prefix`: of the names of workers."""

    prefix: str
    _job: dict[str, str] = field(default_factory=dict)               # by the name of a rank
    _pods: dict[str, list[str]] = field(default_factory=dict)        # by the name of a rank, those of it
    _open: dict[str, set[str]] = field(default_factory=dict)         # by Job: its ranks that have not ended
    _cancelled: set[str] = field(default_factory=set)
    _ready: set[str] = field(default_factory=set)                    # ranks that may begin

    def split(self, jobs: Sequence[Manifest], pods: Sequence[Manifest]) -> list[tuple[Manifest, list[Manifest]]]:
        """Return the Jobs with their pods; each rank of an Indexed Job as a Job with its name, its folder and its
        end."""
        of: dict[tuple[str, str], list[Manifest]] = defaultdict(list)
        for pod in pods:
            of[_place(pod)].append(pod)
        self._job, self._pods, self._open, self._ready = {}, {}, {}, set()
        found: list[tuple[Manifest, list[Manifest]]] = []
        for job in jobs:
            name, labels = str(job["metadata"]["name"]), job["metadata"].get("labels") or {}
            if not ranks_of(job):
                found.append((job, of[str(labels.get(WORKER_LABEL, "")), ""]))
                continue
            for number, rank in enumerate(self._ranks(job)):
                own, rank_name = of[name, str(number)], str(rank["metadata"]["name"])
                self._job[rank_name] = name
                self._pods[rank_name] = [str(pod["metadata"]["name"]) for pod in own]
                found.append((rank, own))
        self._cancelled &= self._job.keys()
        return found

    def note(self, name: str, stage: Stage) -> None:
        """Take in how far a Job or a rank is."""
        if name in self._job and stage is not Stage.ENDED:
            self._open.setdefault(self._job[name], set()).add(name)

    def is_over(self, name: str) -> bool:
        """Return whether a rank counts as ended that waits without a pod: it was cancelled, and others were not."""
        return name in self._cancelled and not self._pods[name] and bool(self._left(self._job[name]))

    def cancel(self, name: str) -> tuple[str, Sequence[str]]:
        """Return the Job that has to be deleted so that a worker ends, or else the pods."""
        job = self._job.get(name)
        if job is None:
            return name, ()
        self._cancelled.add(name)
        return ("", self._pods[name]) if self._left(job) else (job, ())

    def may_begin(self, name: str) -> bool:
        """Return whether the Job of a worker may begin now that this worker may: all its other ranks may, too."""
        job = self._job.get(name)
        self._ready.add(name)
        return job is None or self._left(job) <= self._ready

    def _left(self, job: str) -> set[str]:
        """Return the ranks of a Job that somebody wants."""
        return self._open.get(job, set()) - self._cancelled

    def _ranks(self, job: Manifest) -> Iterator[Manifest]:
        meta, status = job["metadata"], job.get("status") or {}
        failed, done = _numbers(status.get("failedIndexes")), _numbers(status.get("completedIndexes"))
        for number, worker_id in enumerate(ranks_of(job)):
            annotations = {**meta["annotations"], FOLDER: str(Path(meta["annotations"].get(FOLDER, ""), worker_id))}
            own = [{"type": "Failed", "status": "True", "reason": "FailedIndex"}] if _has(failed, number) else []
            own += [{"type": "Complete", "status": "True"}] if _has(done, number) else []
            yield {
                **job,
                "metadata": {**meta, "name": f"{self.prefix}{worker_id}", "annotations": annotations},
                "status": {**status, "conditions": [*own, *(status.get("conditions") or ())]},
            }


def _place(pod: Manifest) -> tuple[str, str]:
    """Return the worker of a pod, or its Indexed Job and its index."""
    labels, annotations = pod["metadata"].get("labels") or {}, pod["metadata"].get("annotations") or {}
    if START_LABEL in labels:
        return str(labels[START_LABEL]), str(labels.get(INDEX_LABEL) or annotations.get(INDEX_LABEL, ""))
    return str(labels.get(WORKER_LABEL, "")), ""


def _numbers(text: object) -> list[tuple[int, int]]:
    """Return the first and last numbers of intervals such as `1,3-5`; what is no interval says nothing."""
    found = []
    for one in str(text or "").split(","):
        first, _, last = one.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.append((int(first), int(last or first)))
    return found


def _has(intervals: Sequence[tuple[int, int]], number: int) -> bool:
    return any(first <= number <= last for first, last in intervals)
