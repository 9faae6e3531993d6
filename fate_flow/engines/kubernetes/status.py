"""What Kubernetes says about the Job of a worker and its pod, as the engine for placed workers reads it.

A word that is not known here decides nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fate_flow.core.text.phrases import sanitized
from fate_flow.engines.kubernetes.manifests import FOLDER, QUEUE_LABEL
from fate_flow.engines.placed.cluster import Listed, Stage, Waiting

Object = Mapping[str, Any]

FATAL_WAITING: Mapping[str, str] = {
    "InvalidImageName": "the name of the image is wrong: correct image in the section of the engine",
    "ErrImageNeverPull": "the image is not on the node, and pull_policy is Never",
    "CreateContainerError": "the container cannot be made: look at the events of the pod",
    "RunContainerError": "the container cannot be started: look at the events of the pod, and at python of the engine",
}
"""Reasons for which a container waits that do not go away by waiting, and what to do."""

WAITING: Mapping[str, str] = {
    "ErrImagePull": "the image cannot be pulled: check image, pull_secrets and the registry",
    "ImagePullBackOff": "the image cannot be pulled: check image, pull_secrets and the registry",
    "RegistryUnavailable": "the registry of the image does not answer",
    "CreateContainerConfigError": "a Secret or a ConfigMap of the pod is missing",
    "ContainerCreating": "",
    "PodInitializing": "",
}

_UNANSWERED = "Terminating"                  # as kubectl shows a pod that is to end
_NO_NODE = "kubectl describe pod there says what the nodes lack"
_BEGINS = "if this lasts, kubectl describe pod there says why"

_CAUSES: Mapping[str, str] = {
    "OOMKilled": "out_of_memory",
    "DeadlineExceeded": "timeout",
    "Evicted": "preempted",
    "Preempting": "preempted",
    "Preempted": "preempted",
    "NodeLost": "node_lost",
    "NodeShutdown": "node_lost",
    "Terminated": "node_lost",               # by the shutdown of its node
}


def listed(job: Object, pods: Sequence[Object], overdue: Collection[str] = ()) -> Listed:
    """Return what is known of the worker of a Job; `pods`: those of the Job, `overdue`: the uids of those that had to
    end long ago, and of whose end no node has said anything."""
    meta = job["metadata"]
    name, folder = str(meta["name"]), str(meta.get("annotations", {}).get(FOLDER, ""))
    if pod := _newest(pods):
        stage, cause, word, waiting = _of_pod(pod)
        # Kubernetes deletes the pods of a node that does not answer, and leaves their phase as it was. Old releases
        # make another one, which waits: it is not the one that may have begun.
        of_worker = pods if stage is Stage.PENDING else [pod] if stage is not Stage.ENDED else []
        if any(one["metadata"].get("uid") in overdue for one in of_worker):
            stage, cause, word, waiting = Stage.ENDED, "node_lost", _UNANSWERED, None
        if stage is not Stage.PENDING or not _has_failed(job):
            return Listed(name, folder, stage, cause, word, waiting)
    for condition in _true(job):
        if condition["type"] in ("Failed", "FailureTarget"):
            reason = str(condition.get("reason", "Failed"))
            return Listed(name, folder, Stage.ENDED, _CAUSES.get(reason, ""), _word(reason))
        if condition["type"] in ("Complete", "SuccessCriteriaMet"):
            return Listed(name, folder, Stage.ENDED, "", "Complete")
    if meta.get("deletionTimestamp"):
        return Listed(name, folder, Stage.ENDED, "", "Deleted")
    if job.get("spec", {}).get("suspend"):
        queue = waits_in_kueue(job)
        text = "waits in Kueue" if queue else "is suspended"
        advice = "kubectl describe workload there says why" if queue else "resume the Job, or delete it"
        return Listed(name, folder, Stage.PENDING, waiting=Waiting("priority" if queue else "held", text, advice))
    waiting = Waiting("other", "waits until Kubernetes has made its pod", "look at the events and quotas of the Job")
    return Listed(name, folder, Stage.PENDING, waiting=waiting)


def waits_in_kueue(job: Object) -> bool:
    """Return whether Kueue decides when this Job begins, or begins again."""
    has_queue = bool(job["metadata"].get("labels", {}).get(QUEUE_LABEL))
    return has_queue and bool(job.get("spec", {}).get("suspend"))


def has_node(pods: Sequence[Object]) -> bool:
    """Return whether a scheduler has placed the pod of a Job; `pods`: those of the Job."""
    newest = _newest(pods)
    return newest is not None and bool(newest.get("spec", {}).get("nodeName"))


def _of_pod(pod: Object) -> tuple[Stage, str, str, Waiting | None]:
    status = pod.get("status", {})
    phase = status.get("phase")
    if phase in ("Succeeded", "Failed"):
        cause, word = _end_of(status)
        return Stage.ENDED, cause, word, None
    if phase == "Running":
        is_lost = status.get("reason") == "NodeLost"
        return (Stage.ENDED, "node_lost", "NodeLost", None) if is_lost else (Stage.ALIVE, "", "Running", None)
    if phase != "Pending":
        return Stage.UNKNOWN, "", str(phase), None
    for container in _containers(status):
        reason = str(container.get("state", {}).get("waiting", {}).get("reason", ""))
        said = _word(reason)
        if reason in FATAL_WAITING:
            return Stage.ENDED, "not_placed", f"{said}; {FATAL_WAITING[reason]}", None
        if WAITING.get(reason):
            return Stage.PENDING, "", said, Waiting("image", f"waits in Kubernetes: {said}", WAITING[reason])
        if "running" in container.get("state", {}):
            return Stage.ALIVE, "", "fetches its inputs", None
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            said = _word(condition.get("reason"))
            return Stage.PENDING, "", said, Waiting("resources", f"waits in Kubernetes for a node: {said}", _NO_NODE)
    return Stage.PENDING, "", "Pending", Waiting("other", "waits in Kubernetes for its node to begin", _BEGINS)


def _end_of(status: Object) -> tuple[str, str]:
    """Return the cause and the word of a pod that has ended."""
    reason = str(status.get("reason") or "")
    if reason:
        return _CAUSES.get(reason, ""), _word(reason)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return "preempted", _word(condition.get("reason"))
    found = []
    for container in _containers(status):
        ended = container.get("state", {}).get("terminated") or {}
        word = str(ended.get("reason", ""))
        if word in _CAUSES:
            return _CAUSES[word], f"{word} in the container {container.get('name')}"
        if ended.get("exitCode"):
            found.append(f"{word} with exit code {ended['exitCode']} in the container {container.get('name')}")
    return "", "; ".join(found) or str(status.get("phase"))


def _containers(status: Object) -> Iterator[Object]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _newest(pods: Sequence[Object]) -> Object | None:
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), default=None)


def _true(job: Object) -> Iterator[Object]:
    conditions = job.get("status", {}).get("conditions") or ()
    yield from (one for one in conditions if one.get("status") == "True")


def _has_failed(job: Object) -> bool:
    return any(one["type"] == "Failed" for one in _true(job))


def waits_for_secret(pods: Sequence[Object]) -> bool:
    """Return whether a pod waits for a Secret: the server was killed between the Job and its Secret."""
    return any(
        one.get("state", {}).get("waiting", {}).get("reason") == "CreateContainerConfigError"
        for pod in pods for one in _containers(pod.get("status", {}))
    )


def _word(reason: object) -> str:
    """Return the one word of a reason. Other parties read it; messages name nodes, registries and quotas of this one,
    and stay in the events of Kubernetes."""
    return sanitized(str(reason or "no reason"), 60)
