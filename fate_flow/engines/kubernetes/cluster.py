"""Kubernetes as a cluster of placed workers: a Job is found by its name, and all of a home by one label.

The ranks that one start brings are one Indexed Job, which has the name of the start (`ranks.py`). A request without an
answer is repeated for the same Job, whichever ranks have come or gone meanwhile: no worker has two.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from fate_flow.core.model.resources import Need
from fate_flow.engines.kubernetes.gangs import AUTO, NONE, GangApi, Gangs, GangScheduler
from fate_flow.engines.kubernetes.kueue import RESERVED, Admission, KueueApi, Manifest, Workloads, unread
from fate_flow.engines.kubernetes.manifests import (
    FOLDER,
    HOME_LABEL,
    MANAGED,
    START_LABEL,
    PodSettings,
    WorkerAt,
    WorkerJob,
    job_manifest,
    pod_group,
    script_of,
    secret_manifest,
    tokens_of,
)
from fate_flow.engines.kubernetes.problem import ApiProblem
from fate_flow.engines.kubernetes.ranks import CANCELLED, Ranks, is_per_index, ranks_of
from fate_flow.engines.kubernetes.status import has_node, listed, waits_for_secret, waits_in_kueue
from fate_flow.engines.placed.cluster import Listed, Placement, Stage, Submission, Taken, Unreadable, Waiting

log = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_MOST_CAUSES = 10_000
_MOST_RANKS = 1000                   # of one Job: the names of all are in its annotations, and their tokens in a Secret
_MOST_SCRIPT = 100_000               # characters of one argument; Linux takes 131,071
_LATE_SECONDS = 60.0                 # after the grace of a pod that is to end, before its node counts as lost
_PER_INDEX_MINOR = 29                # the release of Kubernetes that has backoffLimitPerIndex without a switch

_NOTHING = Need()


class Api(KueueApi, GangApi, Protocol):
    """The requests that are needed. Each ends in time, and raises ApiProblem if it does not succeed."""

    def create_job(self, namespace: str, job: Manifest) -> Manifest: ...

    def read_job(self, namespace: str, name: str) -> Manifest: ...

    def list_jobs(self, namespace: str, selector: str) -> Sequence[Manifest]: ...

    def list_pods(self, namespace: str, selector: str) -> Sequence[Manifest]: ...

    def delete_job(self, namespace: str, name: str) -> None: ...

    def delete_pod(self, namespace: str, name: str) -> None: ...

    def minor_version(self) -> int: ...

    def create_secret(self, namespace: str, secret: Manifest) -> None: ...


class KubernetesCluster:
    """The Jobs of one home. `reach`: how the agent of a worker reaches the server; None: on a volume with the home;
    `partners`: by party, what the pods of its jobs have; those of other parties have `pods`. `admission`: the
    AdmissionCheck of this server; None: Kueue alone decides when a Job begins. `gang_scheduler`: the choice of `Gangs`,
    where `auto` is `none` if the pods name a scheduler; `now`: the clock of this process.
    """

    title = "Kubernetes"

    def __init__(
        self, api: Api, home_id: str, pods: PodSettings, reach: Callable[[str], WorkerAt] | None,
        partners: Mapping[str, PodSettings] = MappingProxyType({}), admission: Admission | None = None,
        gang_scheduler: str = AUTO, now: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._api = api
        self._home_id = home_id
        self._pods = pods
        self._partners = partners
        self._reach = reach
        self._admission = admission
        labels = {MANAGED: "fate-flow", HOME_LABEL: home_id}
        # Nobody knows whether a scheduler that somebody has named looks at the PodGroups that the cluster offers.
        choice = NONE if pods.scheduler and gang_scheduler == AUTO else gang_scheduler
        self._now = now
        self._gangs = Gangs(api, pods.namespace, labels, f"{HOME_LABEL}={home_id}", choice, now)
        self._prefix = f"fate-flow-{home_id}-"
        self._ranks = Ranks(self._prefix)
        self._alone: set[str] = set()                         # workers whose own Job may be there: no answer has come
        self._mended: set[str] = set()                        # Jobs by uid whose Secret this listing has made again
        self._takes_ranks: bool | None = None                 # whether there is backoffLimitPerIndex; None: not asked
        self._ends_since: dict[str, float] = {}               # by the uid of a pod that is to end: when that was seen
        self._reserved: dict[str, Manifest] = {}              # Workloads by the name of a worker, of the last listing
        self._causes: dict[str, tuple[str, str]] = {}         # by folder, of ends that Kubernetes has caused

    def submit(self, placement: Placement) -> Submission:
        """Make the Job. One that is there already is ours if it says so: its name is that of one worker."""
        if not _NAME.fullmatch(placement.name):
            return Submission(Taken.REFUSED, f"{placement.name} cannot name a Job")
        job = self._job(placement)
        try:
            if not self._is_in_job_of_start(placement):
                made = self._make(job, placement.partner)
                self._give_tokens(job, str(made["metadata"]["uid"]))
        except ApiProblem as problem:
            if not problem.is_final:
                self._alone.add(placement.name)
            return _refusal(job, problem)
        self._alone.discard(placement.name)
        return Submission(Taken.ACCEPTED)

    def submit_together(self, placements: Sequence[Placement]) -> Submission:
        """Make one Indexed Job of them. One that is there already is theirs if it names all of them."""
        job = self._job_of_start(placements)
        if job is None or any(one.name in self._alone for one in placements):
            return Submission(Taken.TOO_MANY)
        try:
            if not self._can_take_ranks():
                return Submission(Taken.TOO_MANY)
            made = self._make(job, placements[0].partner)
            if not {*job.ranks} <= {*ranks_of(made)}:
                return Submission(Taken.TOO_MANY)       # of others of this start alone
            if not is_per_index(made):
                # A switch of the cluster is off: it would make pods again, and end all with one.
                self._api.delete_job(self._pods.namespace, job.name)
                self._takes_ranks = False
                return Submission(Taken.TOO_MANY)
            self._give_tokens(replace(job, ranks=ranks_of(made)), str(made["metadata"]["uid"]))
        except ApiProblem as problem:
            return _refusal(job, problem)
        return Submission(Taken.ACCEPTED)

    def listing(self) -> Sequence[Listed]:
        selector, namespace = f"{HOME_LABEL}={self._home_id}", self._pods.namespace
        try:
            jobs, pods = self._api.list_jobs(namespace, selector), self._api.list_pods(namespace, selector)
        except ApiProblem as problem:
            raise Unreadable(problem.text) from problem
        found = self._ranks.split(jobs, pods)
        self._mended.clear()
        overdue = self._overdue(pods)
        said = [listed(job, own, overdue) for job, own in found]
        for one in said:
            self._ranks.note(one.name, one.stage)
        every = [job for job, _ in found]
        kueue = self._look_in_kueue(every)
        groups = self._gangs.look(every, {one.name for one in said if one.stage is not Stage.ENDED})
        return [self._listed(job, own, one, kueue, groups) for (job, own), one in zip(found, said, strict=True)]

    def _overdue(self, pods: Sequence[Manifest]) -> set[str]:
        """Return the uids of pods that had to end long ago. By the clock of this process: the time that Kubernetes
        says is that of another host."""
        at, graces = self._now(), {}
        for pod in pods:
            meta = pod["metadata"]
            if meta.get("deletionTimestamp"):
                graces[str(meta.get("uid"))] = float(meta.get("deletionGracePeriodSeconds") or 0)
        self._ends_since = {uid: self._ends_since.get(uid, at) for uid in graces}
        return {uid for uid, grace in graces.items() if at - self._ends_since[uid] > grace + _LATE_SECONDS}

    def signal(self, name: str) -> None:
        """Nothing: the agent of the worker hears of a stop with the next answer of the server."""

    def cancel(self, name: str) -> None:
        """Delete the Job of a worker; its pod has the grace of its worker. Of an Indexed Job, the pod is deleted."""
        job, pods = self._ranks.cancel(name)
        if job:
            self._delete("Job", self._api.delete_job, job)
        for pod in pods:
            self._delete("pod", self._api.delete_pod, pod)

    def admit(self, name: str) -> None:
        workload = self._reserved.get(name)
        if workload is None or self._admission is None or not self._ranks.may_begin(name):
            return
        try:
            self._admission.admit(workload)
        except ApiProblem as problem:
            if problem.status not in (404, 409):         # it is gone, or has changed: the next listing tells
                log.warning("Kubernetes: the Workload of %s is not admitted now: %s", name, problem.text)

    def cause_in(self, folder: Path) -> tuple[str, str]:
        return self._causes.get(str(folder), ("", ""))

    # ------------------------------------------------------------------ parts

    def _job(self, placement: Placement) -> WorkerJob:
        return WorkerJob(
            placement.name, placement.folder.name, str(placement.folder), self._home_id, placement.need,
            placement.grace_seconds, tuple(placement.argv), placement.gang,
        )  # fmt: skip

    def _job_of_start(self, placements: Sequence[Placement]) -> WorkerJob | None:
        """Return the Indexed Job of ranks; None if they cannot be one."""
        one = placements[0]
        name, ranks = self._name_of_start(one), tuple(placed.folder.name for placed in placements)
        is_named = all(placed.name == f"{self._prefix}{placed.folder.name}" for placed in placements)
        # Kueue would let those begin that have quota; as one Job, it lets all begin, or none.
        is_divided = one.gang is None and bool(one.need.queue or self._pods_for(one.partner).queue)
        if len(ranks) > _MOST_RANKS or not is_named or not _NAME.fullmatch(name) or is_divided:
            return None
        argv = script_of([placed.argv for placed in placements]) if self._reach is None else ()
        if argv and len(argv[-1]) > _MOST_SCRIPT:
            return None
        folder = str(one.folder.parent)
        return WorkerJob(name, "", folder, self._home_id, one.need, one.grace_seconds, argv, one.gang, ranks)

    def _name_of_start(self, placement: Placement) -> str:
        return f"{self._prefix}b{placement.batch.name}" if placement.batch is not None else ""

    def _can_take_ranks(self) -> bool:
        """Return whether the end of one index is not that of all. Raises ApiProblem."""
        if self._takes_ranks is None:
            try:
                self._takes_ranks = self._api.minor_version() >= _PER_INDEX_MINOR
            except ApiProblem as problem:
                if not problem.is_final:
                    raise
                log.info("Kubernetes: the release is not known, so each worker has a Job: %s", problem.text)
                self._takes_ranks = False
        return self._takes_ranks

    def _is_in_job_of_start(self, placement: Placement) -> bool:
        """Return whether a worker is a rank in a Job whose request had no answer. Raises ApiProblem."""
        if placement.batch is None or not self._takes_ranks:
            return False
        try:
            found = self._api.read_job(self._pods.namespace, self._name_of_start(placement))
        except ApiProblem as problem:
            if problem.status == 404:
                return False
            raise
        if placement.folder.name not in ranks_of(found) or not is_per_index(found):
            return False
        self._mend(found)
        return True

    def _pods_for(self, partner: str) -> PodSettings:
        return self._partners.get(partner, self._pods)

    def _make(self, job: WorkerJob, partner: str) -> Manifest:
        pods = self._pods_for(partner)
        scheduler = self._scheduler_of(job, pods)
        at = self._reach(job.worker_id) if self._reach is not None else None
        return self._create(job_manifest(job, pods, at, scheduler), job)

    def _scheduler_of(self, job: WorkerJob, pods: PodSettings) -> GangScheduler | None:
        """Return the scheduler for gangs that places a worker; the PodGroup of its gang is there. Raises ApiProblem."""
        if job.gang is None:
            return self._gangs.of_one_alone()
        scheduler = self._gangs.scheduler()
        try:
            self._make_group(job, pods, scheduler)
        except ApiProblem as problem:
            scheduler = self._gangs.instead(problem)
            self._make_group(job, pods, scheduler)
        return scheduler

    def _make_group(self, job: WorkerJob, pods: PodSettings, scheduler: GangScheduler | None) -> None:
        if group := pod_group(job, pods, scheduler):
            self._gangs.make(group)

    def _create(self, manifest: Manifest, job: WorkerJob) -> Manifest:
        try:
            return self._api.create_job(self._pods.namespace, manifest)
        except ApiProblem as problem:
            if problem.status != 409:
                raise
        found = self._api.read_job(self._pods.namespace, job.name)
        if not job.ranks and found["metadata"].get("annotations", {}).get(FOLDER) != job.folder:
            raise ApiProblem(422, f"a Job {job.name} exists that is not of this worker: delete it")
        return found

    def _give_tokens(self, job: WorkerJob, job_uid: str) -> None:
        if self._reach is None:
            return
        secret = secret_manifest(job, self._pods, tokens_of(job, self._reach), job_uid)
        try:
            self._api.create_secret(self._pods.namespace, secret)
        except ApiProblem as problem:
            if problem.status != 409:
                raise

    def _delete(self, kind: str, call: Callable[[str, str], None], name: str) -> None:
        try:
            call(self._pods.namespace, name)
        except ApiProblem as problem:
            if problem.status != 404:
                log.warning("Kubernetes: the %s %s is not deleted now: %s", kind, name, problem.text)

    def _listed(
        self, job: Manifest, pods: Sequence[Manifest], one: Listed, kueue: Workloads | Waiting | None,
        groups: Mapping[str, Manifest] | None,
    ) -> Listed:  # fmt: skip
        if one.stage is Stage.PENDING and self._ranks.is_over(one.name):
            return Listed(one.name, one.folder, Stage.ENDED, word=CANCELLED)
        uid = str(job["metadata"].get("uid"))
        if uid not in self._mended and waits_for_secret(pods):
            self._mended.add(uid)
            self._mend(job)
        found = self._in_gang(job, pods, self._in_kueue(job, one, kueue), groups)
        if found.cause:
            self._note(found)
        return found

    def _mend(self, job: Mapping[str, Any]) -> None:
        """Make the Secret of a Job whose server was killed in between. `job`: a rank is as good as its Job."""
        meta = job["metadata"]
        ranks = ranks_of(job)
        folder = Path(str(meta.get("annotations", {}).get(FOLDER, "")))
        name = str(meta["labels"][START_LABEL] if ranks else meta["name"])
        ours = WorkerJob(name, "" if ranks else folder.name, "", self._home_id, _NOTHING, 0.0, ranks=ranks)
        try:
            self._give_tokens(ours, str(meta["uid"]))
        except ApiProblem as problem:
            log.warning("Kubernetes: the Secret %s is not made now: %s", name, problem.text)

    def _look_in_kueue(self, jobs: Sequence[Manifest]) -> Workloads | Waiting | None:
        """Return the Workloads, or why they cannot be listed; None if no Job waits for this server's AdmissionCheck."""
        self._reserved = {}
        if self._admission is None or not any(waits_in_kueue(one) for one in jobs):
            return None
        try:
            return self._admission.workloads()
        except ApiProblem as problem:
            log.warning("Kueue: the AdmissionCheck %s cannot be answered now: %s", self._admission.check, problem.text)
            return unread(self._admission.check, problem)

    def _in_kueue(self, job: Manifest, one: Listed, kueue: Workloads | Waiting | None) -> Listed:
        if kueue is None or one.stage is not Stage.PENDING or not waits_in_kueue(job):
            return one
        if isinstance(kueue, Waiting):
            return replace(one, waiting=kueue)
        workload = kueue.reserved(str(job["metadata"]["uid"]))
        if workload is None:
            return replace(one, is_reserved=False)
        self._reserved[one.name] = workload
        return replace(one, is_reserved=True, waiting=RESERVED)

    def _in_gang(
        self, job: Manifest, pods: Sequence[Manifest], one: Listed, groups: Mapping[str, Manifest] | None
    ) -> Listed:
        waits = bool(pods) and not has_node(pods) and not waits_in_kueue(job)
        if groups is None or one.stage is not Stage.PENDING or not waits:
            return one
        waiting = self._gangs.waiting(job, groups, one.word)
        return one if waiting is None else replace(one, waiting=waiting)

    def _note(self, one: Listed) -> None:
        while len(self._causes) >= _MOST_CAUSES:
            self._causes.pop(next(iter(self._causes)))
        self._causes[one.folder] = one.cause, f"Kubernetes says {one.word}"


def _refusal(job: WorkerJob, problem: ApiProblem) -> Submission:
    log.warning("Kubernetes: the Job %s: %s", job.name, problem.text)
    # Other parties read the text of a submission: the words of Kubernetes name accounts, quotas and hosts.
    return Submission(_taken(problem), f"status {problem.status}" if problem.status else "no answer")


def _taken(problem: ApiProblem) -> Taken:
    """Return what became of a submission. It may be repeated whenever no answer says no: the name is that of one
    worker, so a second Job cannot be made, and the claim of the worker is one."""
    return Taken.REFUSED if problem.is_final else Taken.NOT_REACHED
