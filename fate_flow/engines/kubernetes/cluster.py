"""Kubernetes as a cluster of placed workers: a Job is found by its name, and all of a home by one label."""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
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
    WORKER_LABEL,
    PodSettings,
    WorkerAt,
    WorkerJob,
    job_manifest,
    pod_group,
    secret_manifest,
)
from fate_flow.engines.kubernetes.problem import ApiProblem
from fate_flow.engines.kubernetes.status import has_node, listed, waits_for_secret, waits_in_kueue
from fate_flow.engines.placed.cluster import Listed, Placement, Stage, Submission, Taken, Unreadable, Waiting

log = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_MOST_CAUSES = 10_000

_NOTHING = Need()


class Api(KueueApi, GangApi, Protocol):
    """The requests that are needed. Each ends in time, and raises ApiProblem if it does not succeed."""

    def create_job(self, namespace: str, job: Manifest) -> Manifest: ...

    def read_job(self, namespace: str, name: str) -> Manifest: ...

    def list_jobs(self, namespace: str, selector: str) -> Sequence[Manifest]: ...

    def list_pods(self, namespace: str, selector: str) -> Sequence[Manifest]: ...

    def delete_job(self, namespace: str, name: str) -> None: ...

    def create_secret(self, namespace: str, secret: Manifest) -> None: ...


class KubernetesCluster:
    """The Jobs of one home. `reach`: how the agent of a worker reaches the server; None: on a volume with the home;
    `partners`: by party, what the pods of its jobs have; those of other parties have `pods`. `admission`: the
    AdmissionCheck of this server; None: Kueue alone decides when a Job begins. `gang_scheduler`: the choice of `Gangs`,
    where `auto` is `none` if the pods name a scheduler; `now`: their clock.
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
        self._gangs = Gangs(api, pods.namespace, labels, f"{HOME_LABEL}={home_id}", choice, now)
        self._reserved: dict[str, Manifest] = {}              # Workloads by the name of their Job, of the last listing
        self._causes: dict[str, tuple[str, str]] = {}         # by folder, of ends that Kubernetes has caused

    def submit(self, placement: Placement) -> Submission:
        """Make the Job. One that is there already is ours if it says so: its name is that of one worker."""
        if not _NAME.fullmatch(placement.name):
            return Submission(Taken.REFUSED, f"{placement.name} cannot name a Job")
        job = self._job(placement)
        try:
            pods = self._partners.get(placement.partner, self._pods)
            scheduler = self._scheduler_of(job, pods)
            made = self._create(job_manifest(job, pods, self._at(job.worker_id), scheduler), job)
            self._give_token(job, str(made["metadata"]["uid"]))
        except ApiProblem as problem:
            log.warning("Kubernetes: the Job %s: %s", job.name, problem.text)
            # Other parties read the text of a submission: the words of Kubernetes name accounts, quotas and hosts.
            return Submission(_taken(problem), f"status {problem.status}" if problem.status else "no answer")
        return Submission(Taken.ACCEPTED)

    def listing(self) -> Sequence[Listed]:
        selector, namespace = f"{HOME_LABEL}={self._home_id}", self._pods.namespace
        try:
            jobs, pods = self._api.list_jobs(namespace, selector), self._api.list_pods(namespace, selector)
        except ApiProblem as problem:
            raise Unreadable(problem.text) from problem
        of: dict[str, list[Manifest]] = defaultdict(list)
        for pod in pods:
            of[pod["metadata"].get("labels", {}).get(WORKER_LABEL, "")].append(pod)
        pods_of = [of[job["metadata"].get("labels", {}).get(WORKER_LABEL, "")] for job in jobs]
        said = [listed(job, own) for job, own in zip(jobs, pods_of, strict=True)]
        found = []
        kueue = self._look_in_kueue(jobs)
        groups = self._gangs.look(jobs, {one.name for one in said if one.stage is not Stage.ENDED})
        for job, own, alone in zip(jobs, pods_of, said, strict=True):
            one = self._in_gang(job, own, self._in_kueue(job, alone, kueue), groups)
            if waits_for_secret(own):
                self._mend(job)
            if one.cause:
                self._note(one)
            found.append(one)
        return found

    def signal(self, name: str) -> None:
        """Nothing: the agent of the worker hears of a stop with the next answer of the server."""

    def cancel(self, name: str) -> None:
        """Delete the Job; its pod has the grace of its worker."""
        try:
            self._api.delete_job(self._pods.namespace, name)
        except ApiProblem as problem:
            if problem.status != 404:
                log.warning("Kubernetes: the Job %s is not deleted now: %s", name, problem.text)

    def admit(self, name: str) -> None:
        workload = self._reserved.get(name)
        if workload is None or self._admission is None:
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

    def _at(self, worker_id: str) -> WorkerAt | None:
        return self._reach(worker_id) if self._reach is not None else None

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
        if found["metadata"].get("annotations", {}).get(FOLDER) != job.folder:
            raise ApiProblem(422, f"a Job {job.name} exists that is not of this worker: delete it")
        return found

    def _give_token(self, job: WorkerJob, job_uid: str) -> None:
        at = self._at(job.worker_id)
        if at is None:
            return
        try:
            self._api.create_secret(self._pods.namespace, secret_manifest(job, self._pods, at, job_uid))
        except ApiProblem as problem:
            if problem.status != 409:
                raise

    def _mend(self, job: Mapping[str, Any]) -> None:
        """Make the Secret of a Job whose server was killed in between."""
        meta = job["metadata"]
        folder = str(meta.get("annotations", {}).get(FOLDER, ""))
        ours = Placement(str(meta["name"]), Path(folder), (), _NOTHING, 0.0)
        try:
            self._give_token(self._job(ours), str(meta["uid"]))
        except ApiProblem as problem:
            log.warning("Kubernetes: the Secret %s is not made now: %s", meta["name"], problem.text)

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


def _taken(problem: ApiProblem) -> Taken:
    """Return what became of a submission. It may be repeated whenever no answer says no: the name is that of one
    worker, so a second Job cannot be made, and the claim of the worker is one."""
    return Taken.REFUSED if problem.is_final else Taken.NOT_REACHED
