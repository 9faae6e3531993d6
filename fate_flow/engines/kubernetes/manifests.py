"""The objects of workers: a Job that runs each of them once, and a Secret with their tokens.

The ranks that one start brings are one Indexed Job; a worker that comes later has a Job of its own. Ranks are
restarted, replaced and stopped one by one, by rules of the job that Kubernetes does not have, so nothing is left for it
to retry: restartPolicy Never, and the end of a pod is that of its index, and of no other one. The runner holds the time
limit of its worker, as everywhere: `activeDeadlineSeconds` would also count how long the image is pulled and the inputs
are fetched.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fate_flow.core.model.resources import Need
from fate_flow.engines.kubernetes.gangs import GANG_LABEL, GROUP_SPEC, VOLCANO, GangScheduler, PodGroup
from fate_flow.engines.placed.cluster import Gang
from fate_flow.engines.staged.places import ADDRESS, INDEX, PIN, ROOT, TOKEN, TOKENS, WORKER, WORKERS

HOME_LABEL, WORKER_LABEL, MANAGED = "fate-flow/home", "fate-flow/worker", "app.kubernetes.io/managed-by"
FOLDER = "fate-flow/folder"                  # the annotation with the folder of the worker at the server, or of all
RANKS = "fate-flow/workers"                  # the annotation of an Indexed Job: the ids of its workers by their index
START_LABEL = "fate-flow/start"              # of an Indexed Job and its pods: its name
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GPU = "nvidia.com/gpu"

_STAGED = "/fate-flow"
_END_SECONDS = 120                           # after the grace of a worker: to send back what it has made
_AGENT = "fate_flow.engines.staged.agent"


@dataclass(frozen=True)
class PodSettings:
    """What every pod of an engine has."""

    image: str
    namespace: str = "default"
    python: str = "python3"                          # in the image
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()
    service_account: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    run_as_user: int | None = None
    volume_claim: str = ""                           # of a volume with the home of the server; empty: staged
    home: str = ""                                   # of the server, with a volume
    queue: str = ""                                  # of Kueue; empty: Jobs begin at once
    scheduler: str = ""                              # by name; empty: that of the cluster, or the one for gangs
    volcano_queue: str = ""                          # empty: the default one of Volcano
    priority_class: str = ""
    keep_seconds: int = 3600                         # of a Job that has ended
    node_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)       # by the label of jobs


@dataclass(frozen=True)
class WorkerAt:
    """How the agent of one worker reaches its server."""

    address: str
    pin: str
    token: str = field(repr=False)


@dataclass(frozen=True)
class WorkerJob:
    """What is to be placed: a worker, or the `ranks` of a start; these have no `worker_id`, and `folder` is that of
    theirs."""

    name: str
    worker_id: str
    folder: str
    home_id: str
    need: Need
    grace_seconds: float
    argv: tuple[str, ...] = ()                       # of the runner on a volume with the home
    gang: Gang | None = None
    ranks: tuple[str, ...] = ()                      # the ids of workers, by their index


def pod_group(job: WorkerJob, pods: PodSettings, scheduler: GangScheduler | None) -> PodGroup | None:
    """Return the PodGroup of the gang of a worker; None without a gang, or a scheduler for gangs.

    All workers of a gang need the same, so each of them says the same of it."""
    if job.gang is None or scheduler is None:
        return None
    spec: dict[str, Any] = {"minMember": job.gang.size}
    if least := _requests(job.need, job.gang.size):
        spec["minResources"] = least
    if scheduler is VOLCANO:
        optional = {"queue": pods.volcano_queue, "priorityClassName": pods.priority_class}
        spec.update({key: value for key, value in optional.items() if value})
    return PodGroup(f"fate-flow-{job.home_id}-g{job.gang.name}", spec)


def job_manifest(
    job: WorkerJob, pods: PodSettings, at: WorkerAt | None, scheduler: GangScheduler | None = None
) -> dict[str, Any]:
    """Return the Job of a worker, or of ranks. `at`: None if its pods have a volume with the home; `scheduler`: for
    gangs."""
    labels, annotations = _labels(job), {FOLDER: job.folder}
    if job.ranks:
        annotations[RANKS] = " ".join(job.ranks)
    group = pod_group(job, pods, scheduler)
    if group is not None:
        labels[GANG_LABEL] = group.name
        annotations[GROUP_SPEC] = json.dumps(group.spec)
    of_pod = _of_scheduler(scheduler, group, pods)
    template = {"labels": {**labels, **of_pod["labels"]}, "annotations": {FOLDER: job.folder, **of_pod["annotations"]}}
    spec: dict[str, Any] = {
        **_completion(job),
        "ttlSecondsAfterFinished": pods.keep_seconds,
        "template": {"metadata": template, "spec": _pod(job, pods, at, scheduler)},
    }
    queue = job.need.queue or pods.queue
    if queue:
        spec["suspend"] = True               # Kueue lets it begin
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.name, "namespace": pods.namespace,
            "labels": {**labels, **({QUEUE_LABEL: queue} if queue else {})}, "annotations": annotations,
        },
        "spec": spec,
    }  # fmt: skip


def script_of(commands: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the command of all pods of an Indexed Job, which execute these by their index."""
    cases = (f"{number}) exec {shlex.join(argv)} ;;\n" for number, argv in enumerate(commands))
    return "/bin/sh", "-c", f'case "${INDEX}" in\n{"".join(cases)}esac\n'


def tokens_of(job: WorkerJob, reach: Callable[[str], WorkerAt]) -> dict[str, str]:
    """Return the contents of the Secret of a Job."""
    if not job.ranks:
        return {"token": reach(job.worker_id).token}
    return {str(number): reach(worker_id).token for number, worker_id in enumerate(job.ranks)}


def secret_manifest(job: WorkerJob, pods: PodSettings, tokens: Mapping[str, str], job_uid: str) -> dict[str, Any]:
    """Return the Secret of a Job, with which it goes."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job.name, "uid": job_uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": job.name, "namespace": pods.namespace, "labels": _labels(job), "ownerReferences": [owner],
        },
        "type": "Opaque",
        "immutable": True,
        "stringData": dict(tokens),
    }  # fmt: skip


def _labels(job: WorkerJob) -> dict[str, str]:
    own = {START_LABEL: job.name} if job.ranks else {WORKER_LABEL: job.worker_id}
    return {MANAGED: "fate-flow", HOME_LABEL: job.home_id, **own}


def _completion(job: WorkerJob) -> dict[str, Any]:
    if not job.ranks:
        return {"backoffLimit": 0, "completions": 1, "parallelism": 1}
    # Without a podFailurePolicy, a pod counts as failed as soon as it is deleted: so none is made for its index again.
    # With a backoffLimit, too, the end of some pods would be that of all.
    number = len(job.ranks)
    return {"completionMode": "Indexed", "backoffLimitPerIndex": 0, "completions": number, "parallelism": number}


def _of_scheduler(
    scheduler: GangScheduler | None, group: PodGroup | None, pods: PodSettings
) -> Mapping[str, Mapping[str, str]]:
    """Return the labels and annotations by which a scheduler for gangs knows a pod."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    if scheduler is not None and group is not None:
        labels.update({scheduler.label: group.name} if scheduler.label else {})
        annotations.update({scheduler.annotation: group.name} if scheduler.annotation else {})
    elif scheduler is VOLCANO and pods.volcano_queue:
        annotations[scheduler.queue_annotation] = pods.volcano_queue
    return {"labels": labels, "annotations": annotations}


def _pod(
    job: WorkerJob, pods: PodSettings, at: WorkerAt | None, scheduler: GangScheduler | None
) -> dict[str, Any]:
    base = {"image": pods.image, "imagePullPolicy": pods.pull_policy, "securityContext": _CONTAINER}
    resources = {"resources": _resources(job.need)}
    if at is None:
        mount = [{"name": "home", "mountPath": pods.home}]
        containers = [{**base, **resources, "name": "worker", "command": list(job.argv), "volumeMounts": mount}]
        volumes: list[dict[str, Any]] = [{"name": "home", "persistentVolumeClaim": {"claimName": pods.volume_claim}}]
        first: list[dict[str, Any]] = []
    else:
        staged = {**base, **_env(job, at), "volumeMounts": [{"name": "staged", "mountPath": _STAGED}]}
        command = [pods.python, "-P", "-m", _AGENT]
        first = [{**staged, **resources, "name": "fetch", "command": [*command, "fetch"]}]
        containers = [{**staged, **resources, "name": "worker", "command": [*command, "run"]}]
        volumes = [{"name": "staged", "emptyDir": {}}]
    found: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": int(job.grace_seconds) + _END_SECONDS,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, **_user(pods)},
        "containers": containers,
        "volumes": volumes,
    }
    optional = {
        "initContainers": first,
        "serviceAccountName": pods.service_account,
        "imagePullSecrets": [{"name": one} for one in pods.pull_secrets],
        "nodeSelector": {
            **pods.node_selector,
            **{key: value for one in job.need.labels for key, value in pods.node_labels[one].items()},
        },
        "tolerations": [dict(one) for one in pods.tolerations],
        "priorityClassName": pods.priority_class,
        # Volcano places pods without a gang, too: two schedulers do not know what the other one gives away.
        "schedulerName": pods.scheduler or (scheduler.scheduler_name if scheduler is not None else ""),
    }
    return {**found, **{key: value for key, value in optional.items() if value}}


_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _user(pods: PodSettings) -> dict[str, Any]:
    if pods.run_as_user is None:
        return {}
    return {"runAsUser": pods.run_as_user, "runAsGroup": pods.run_as_user, "fsGroup": pods.run_as_user}


def _resources(need: Need) -> dict[str, Any]:
    """Requests as the worker needs; memory and GPUs have to be limits, too. Cores that nobody uses may be used."""
    requests = _requests(need, 1)
    found = {"requests": requests, "limits": {key: value for key, value in requests.items() if key != "cpu"}}
    return {key: value for key, value in found.items() if value}


def _requests(need: Need, workers: int) -> dict[str, str]:
    found = {"cpu": str(need.cores * workers)} if need.cores else {}
    if need.memory_mb:
        found["memory"] = f"{need.memory_mb * workers}Mi"
    if need.gpus:
        found[GPU] = str(need.gpus * workers)
    return found


def _env(job: WorkerJob, at: WorkerAt) -> dict[str, Any]:
    """Return what the environment of the agent is made of. A Secret cannot be read by the index of a pod, so that of
    ranks is in the environment as a whole, which the agent empties; a program could read a volume."""
    worker = {WORKERS: " ".join(job.ranks)} if job.ranks else {WORKER: job.worker_id}
    plain = {ADDRESS: at.address, PIN: at.pin, **worker, ROOT: _STAGED, "HOME": _STAGED}
    env: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in plain.items()]
    if job.ranks:
        return {"env": env, "envFrom": [{"prefix": TOKENS, "secretRef": {"name": job.name}}]}
    return {"env": [*env, {"name": TOKEN, "valueFrom": {"secretKeyRef": {"name": job.name, "key": "token"}}}]}
