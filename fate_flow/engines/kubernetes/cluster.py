"""Kubernetes as a cluster of placed workers: a Job is found by its name, and all of a home by one label."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from fate_flow.core.model.resources import Need
from fate_flow.core.text.phrases import sanitized
from fate_flow.engines.kubernetes.manifests import (
    FOLDER,
    HOME_LABEL,
    WORKER_LABEL,
    PodSettings,
    WorkerAt,
    WorkerJob,
    job_manifest,
    secret_manifest,
)
from fate_flow.engines.kubernetes.status import listed, waits_for_secret
from fate_flow.engines.placed.cluster import Listed, Placement, Submission, Taken, Unreadable

log = logging.getLogger(__name__)

_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_MOST_CAUSES = 10_000

_NOTHING = Need()

Manifest = dict[str, Any]


class ApiProblem(Exception):
    """A request that has not succeeded. `status`: that of HTTP; 0: no answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = sanitized(text, 300)


class Api(Protocol):
    """The requests that are needed. Each ends in time, and raises ApiProblem if it does not succeed."""

    def create_job(self, namespace: str, job: Manifest) -> Manifest: ...

    def read_job(self, namespace: str, name: str) -> Manifest: ...

    def list_jobs(self, namespace: str, selector: str) -> Sequence[Manifest]: ...

    def list_pods(self, namespace: str, selector: str) -> Sequence[Manifest]: ...

    def delete_job(self, namespace: str, name: str) -> None: ...

    def create_secret(self, namespace: str, secret: Manifest) -> None: ...


class KubernetesCluster:
    """The Jobs of one home. `reach`: how the agent of a worker reaches the server; None: on a volume with the home;
    `partners`: by party, what the pods of its jobs have; those of other parties have `pods`."""

    title = "Kubernetes"

    def __init__(
        self, api: Api, home_id: str, pods: PodSettings, reach: Callable[[str], WorkerAt] | None,
        partners: Mapping[str, PodSettings] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self._api = api
        self._home_id = home_id
        self._pods = pods
        self._partners = partners
        self._reach = reach
        self._causes: dict[str, tuple[str, str]] = {}         # by folder, of ends that Kubernetes has caused

    def submit(self, placement: Placement) -> Submission:
        """Make the Job. One that is there already is ours if it says so: its name is that of one worker."""
        if not _NAME.fullmatch(placement.name):
            return Submission(Taken.REFUSED, f"{placement.name} cannot name a Job")
        job = self._job(placement)
        try:
            pods = self._partners.get(placement.partner, self._pods)
            made = self._create(job_manifest(job, pods, self._at(job.worker_id)), job)
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
        found = []
        for job in jobs:
            own = of[job["metadata"].get("labels", {}).get(WORKER_LABEL, "")]
            one = listed(job, own)
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

    def cause_in(self, folder: Path) -> tuple[str, str]:
        return self._causes.get(str(folder), ("", ""))

    # ------------------------------------------------------------------ parts

    def _job(self, placement: Placement) -> WorkerJob:
        return WorkerJob(
            placement.name, placement.folder.name, str(placement.folder), self._home_id, placement.need,
            placement.grace_seconds, tuple(placement.argv),
        )  # fmt: skip

    def _at(self, worker_id: str) -> WorkerAt | None:
        return self._reach(worker_id) if self._reach is not None else None

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

    def _note(self, one: Listed) -> None:
        while len(self._causes) >= _MOST_CAUSES:
            self._causes.pop(next(iter(self._causes)))
        self._causes[one.folder] = one.cause, f"Kubernetes says {one.word}"


def _taken(problem: ApiProblem) -> Taken:
    """Return what became of a submission. It may be repeated whenever no answer says no: the name is that of one
    worker, so a second Job cannot be made, and the claim of the worker is one."""
    is_final = 400 <= problem.status < 500 and problem.status not in (401, 408, 429)
    return Taken.REFUSED if is_final else Taken.NOT_REACHED
