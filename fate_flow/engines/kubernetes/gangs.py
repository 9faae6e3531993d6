"""Gangs of workers on one cluster: a scheduler that knows PodGroups places all pods of a gang, or none of them.

Volcano and the plugin Coscheduling have a kind PodGroup each, in an API group of their own; what is the same in both is
enough here. A PodGroup is there before the first Job of its gang: without it, Coscheduling places a pod by itself. It
is made again if somebody has deleted it, and is deleted when no Job of its gang is left that has not ended.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from fate_flow.core.text.phrases import sanitized
from fate_flow.engines.kubernetes.kueue import Manifest
from fate_flow.engines.kubernetes.problem import ApiProblem
from fate_flow.engines.placed.cluster import Waiting

log = logging.getLogger(__name__)

GANG_LABEL = "fate-flow/gang"                # of a Job, its pod and its PodGroup: the name of the PodGroup
GROUP_SPEC = "fate-flow/pod-group"           # the annotation of a Job with the spec of its PodGroup
AUTO, NONE = "auto", "none"
_ENOUGH_LISTINGS = 2                         # without a Job, one after the other: the Job is made after its PodGroup
_LOOK_SECONDS = 60.0                         # between two lists of PodGroups while no Job needs one
_APPLY = "apply deploy/kubernetes/gangs, or set gang_scheduler of the engine to none"
_IF_IT_LASTS = "if this lasts, look into the log of the server there"
_FULL_QUEUE = "kubectl describe queues.scheduling.volcano.sh there says what it may use"
_NO_NODES = "kubectl describe podgroup there says what is missing"
_ADVICE = {
    403: f"if the account of the server lacks the right, {_APPLY}",
    404: "if the cluster has no such kind, install its scheduler, or set gang_scheduler of the engine to none",
}


@dataclass(frozen=True)
class GangScheduler:
    """A scheduler that knows PodGroups, and how a pod says of which one it is."""

    word: str                                # in the configuration
    title: str                               # for people
    group: str                               # of the API, with `version`
    version: str
    label: str = ""                          # of a pod, with the name of its PodGroup
    annotation: str = ""
    scheduler_name: str = ""                 # of all pods of the engine; empty: that of the cluster
    queue_annotation: str = ""               # of a pod without a PodGroup of this server


VOLCANO = GangScheduler(
    "volcano", "Volcano", "scheduling.volcano.sh", "v1beta1", annotation="scheduling.k8s.io/group-name",
    scheduler_name="volcano", queue_annotation="scheduling.volcano.sh/queue-name",
)  # fmt: skip
COSCHEDULING = GangScheduler(
    "coscheduling", "Kubernetes", "scheduling.x-k8s.io", "v1alpha1", label="scheduling.x-k8s.io/pod-group"
)
SCHEDULERS = (VOLCANO, COSCHEDULING)
"""In the order in which one is looked for."""


class GangApi(Protocol):
    """The requests that are needed. Each ends in time, and raises ApiProblem if it does not succeed."""

    def offers_pod_groups(self, group: str, version: str) -> bool:
        """Return whether the API server has a kind PodGroup in this version of this API group."""
        ...

    def may_keep_pod_groups(self, namespace: str, group: str) -> bool:
        """Return whether the account of this server may make, list and delete them."""
        ...

    def create_pod_group(self, namespace: str, group: str, version: str, manifest: Manifest) -> None: ...

    def list_pod_groups(self, namespace: str, group: str, version: str, selector: str) -> Collection[Manifest]: ...

    def delete_pod_group(self, namespace: str, group: str, version: str, name: str) -> None: ...


@dataclass(frozen=True)
class PodGroup:
    """The PodGroup of a gang that is to be placed."""

    name: str
    spec: Mapping[str, Any]


@dataclass
class Gangs:
    """The PodGroups of one home. `choice`: the word of a scheduler, `none`, or `auto`: the one whose PodGroups the API
    server offers, and this server may keep. It is looked for when it is first needed, and again after a PodGroup was
    refused."""

    api: GangApi
    namespace: str
    labels: Mapping[str, str]                # of every PodGroup of this home
    selector: str                            # by which they are found
    choice: str = AUTO
    now: Callable[[], float] = time.monotonic                    # seconds
    _found: GangScheduler | None = None
    _is_sought: bool = False
    _named: str = ""                         # that was last found, in the log
    _without: dict[str, int] = field(default_factory=dict)       # by name: in how many listings it had no Job
    _look_at: float = 0.0                    # when no Job needs one: a Job may have been refused, say
    _trouble: str = ""                       # why the PodGroups cannot be kept, in the log

    def scheduler(self) -> GangScheduler | None:
        """Return the scheduler for gangs; None if there is none. Raises ApiProblem."""
        if not self._is_sought:
            self._found = self._seek()
            self._is_sought = True
            named = f"{self._found.title} ({self._found.group})" if self._found else "nobody as one: one by one"
            if named != self._named:
                log.info("Kubernetes: the pods of a gang are placed by %s", named)
            self._named = named
        return self._found

    def of_one_alone(self) -> GangScheduler | None:
        """Return the scheduler for a worker without a gang. It needs no PodGroup: while nobody can say which scheduler
        there is for gangs, that of the cluster places it."""
        try:
            return self.scheduler()
        except ApiProblem as problem:
            log.info("Kubernetes: the scheduler for gangs is not known now: %s", problem.text)
            return None

    def instead(self, problem: ApiProblem) -> GangScheduler | None:
        """Return the scheduler that is found after a PodGroup was refused: rights, or the kind, may have been taken
        away. Raises the problem if it is the same one, or the configured one; ApiProblem if it cannot be looked for."""
        if self.choice != AUTO or problem.status not in _ADVICE:
            raise problem
        before, self._is_sought = self._found, False
        if self.scheduler() is before:
            raise problem
        log.warning("Kubernetes: the scheduler for gangs is another one now: %s", problem.text)
        return self._found

    def make(self, one: PodGroup) -> None:
        """Make a PodGroup, unless it is there. Raises ApiProblem."""
        scheduler = self.scheduler()
        if scheduler is None:
            return
        try:
            with _advising(scheduler):
                self.api.create_pod_group(self.namespace, scheduler.group, scheduler.version, {
                    "apiVersion": f"{scheduler.group}/{scheduler.version}",
                    "kind": "PodGroup",
                    "metadata": {
                        "name": one.name, "namespace": self.namespace, "labels": {**self.labels, GANG_LABEL: one.name},
                    },
                    "spec": dict(one.spec),
                })  # fmt: skip
        except ApiProblem as problem:
            if problem.status != 409:
                raise

    def look(self, jobs: Iterable[Manifest], unfinished: Collection[str]) -> Mapping[str, Manifest] | None:
        """Return the PodGroups by name, after this has made what is missing and deleted what nobody needs; None if they
        are not known now. `jobs`: of a listing; `unfinished`: the names of those that have not ended.

        While no Job needs one they are listed, too, once a minute: another process may have made one whose Job was
        refused."""
        wanted = {name: job for job in jobs if job["metadata"]["name"] in unfinished and (name := gang_of(job))}
        if not wanted and self.now() < self._look_at:
            return {}
        self._look_at = self.now() + _LOOK_SECONDS
        try:
            scheduler = self.scheduler()
            if scheduler is None:
                self._trouble = ""
                return {}
            with _advising(scheduler):
                listed = self.api.list_pod_groups(self.namespace, scheduler.group, scheduler.version, self.selector)
            found = {str(one["metadata"]["name"]): one for one in listed}
            if found or wanted:
                self._look_at = 0.0
            for name in wanted.keys() - found.keys():
                if spec := _spec_in(wanted[name]):
                    self.make(PodGroup(name, spec))
            self._delete_unused(scheduler, found.keys() - wanted.keys())
        except ApiProblem as problem:
            self._note(problem.text if problem.status else "no answer")
            if self.choice == AUTO and problem.status in _ADVICE:
                self._is_sought = False
            return None
        self._note("")
        return found

    def waiting(self, job: Manifest, groups: Mapping[str, Manifest], word: str) -> Waiting | None:
        """Return why a pod without a node waits; None if it is of no gang. `word`: what its pod says."""
        name, scheduler = gang_of(job), self._found
        if not name or scheduler is None:
            return None
        found = groups.get(name)
        if found is None:
            return Waiting("other", f"waits in {scheduler.title} for its PodGroup, which is made again", _IF_IT_LASTS)
        every = f"all {(found.get('spec') or {}).get('minMember')} workers of its gang"
        status = found.get("status") or {}
        phase = str(status.get("phase") or "Pending")
        if scheduler is VOLCANO and phase == "Pending":
            return Waiting("resources", f"waits in Volcano until its queue has capacity for {every}", _FULL_QUEUE)
        said = sanitized(_unschedulable(status) or word or phase, 60)
        return Waiting("resources", f"waits in {scheduler.title} for nodes for {every}: {said}", _NO_NODES)

    # ------------------------------------------------------------------ parts

    def _seek(self) -> GangScheduler | None:
        if self.choice != AUTO:
            return next((one for one in SCHEDULERS if one.word == self.choice), None)
        return next((one for one in SCHEDULERS if self._is_usable(one)), None)

    def _is_usable(self, one: GangScheduler) -> bool:
        try:
            if not self.api.offers_pod_groups(one.group, one.version):
                return False
            if self.api.may_keep_pod_groups(self.namespace, one.group):
                return True
            said = "its account may not make, list and delete them"
        except ApiProblem as problem:
            if not problem.is_final:
                raise
            said = problem.text              # a hardened cluster does not even say what an account may do
        log.info("Kubernetes: this server does not use the PodGroups of %s: %s: %s", one.word, said, _APPLY)
        return False

    def _note(self, trouble: str) -> None:
        """Write into the log why the PodGroups cannot be kept, once for each reason; empty: they can be."""
        if trouble == self._trouble:
            return
        self._trouble = trouble
        if trouble:
            log.warning("Kubernetes: PodGroups cannot be listed, made again or deleted now: %s", trouble)
        else:
            log.info("Kubernetes: PodGroups can be listed, made again and deleted again")

    def _delete_unused(self, scheduler: GangScheduler, names: Collection[str]) -> None:
        self._without = {name: self._without.get(name, 0) + 1 for name in names}
        for name in [name for name, often in self._without.items() if often >= _ENOUGH_LISTINGS]:
            try:
                with _advising(scheduler):
                    self.api.delete_pod_group(self.namespace, scheduler.group, scheduler.version, name)
            except ApiProblem as problem:
                if problem.status != 404:
                    raise


@contextmanager
def _advising(scheduler: GangScheduler) -> Iterator[None]:
    """Let a refusal say what may be done, after the words of Kubernetes."""
    try:
        yield
    except ApiProblem as problem:
        advice = _ADVICE.get(problem.status)
        if advice is None:
            raise
        said = f"PodGroup of {scheduler.word}: {problem.text}: {advice}"
        raise ApiProblem(problem.status, said, most=len(said)) from problem


def gang_of(job: Mapping[str, Any]) -> str:
    """Return the name of the PodGroup of a Job; empty if it has none."""
    return str((job["metadata"].get("labels") or {}).get(GANG_LABEL, ""))


def _spec_in(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec of the PodGroup of a Job; empty if somebody has changed what the Job says of it."""
    try:
        found = json.loads(job["metadata"].get("annotations", {}).get(GROUP_SPEC, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _unschedulable(status: Mapping[str, Any]) -> str:
    """Return the last reason of Volcano for which it has not placed a gang; empty if it says none."""
    found = [one for one in status.get("conditions") or () if one.get("type") == "Unschedulable"]
    return str(found[-1].get("reason") or "") if found and found[-1].get("status") == "True" else ""
