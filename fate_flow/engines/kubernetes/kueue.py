"""Kueue: a Job whose quota is reserved begins when all parties have a place for their workers.

Between the reservation of its quota and its admission, Kueue asks the AdmissionChecks of a queue. One of them is this
server's: it says Ready for the Workload of a Job when its worker may begin. Until then the quota is kept, and no pod
runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from fate_flow.engines.kubernetes.problem import ApiProblem
from fate_flow.engines.placed.cluster import Waiting

log = logging.getLogger(__name__)

JOB_UID = "kueue.x-k8s.io/job-uid"            # the label of a Workload with the Job that it is of
_ACTIVE = "Active"

Manifest = dict[str, Any]


class KueueApi(Protocol):
    """The requests that are needed. Each ends in time, and raises ApiProblem if it does not succeed."""

    def list_workloads(self, namespace: str) -> Sequence[Manifest]: ...

    def patch_workload_status(self, namespace: str, name: str, patch: Manifest) -> None: ...

    def read_check(self, name: str) -> Manifest: ...

    def patch_check_status(self, name: str, patch: Manifest) -> None: ...


@dataclass(frozen=True)
class Workloads:
    """The Workloads of one listing, by the uid of their Job, as one AdmissionCheck sees them."""

    check: str
    of_job: Mapping[str, Manifest]

    def reserved(self, job_uid: str) -> Manifest | None:
        """Return the Workload of a Job if its quota is reserved, and this check is open."""
        found = self.of_job.get(job_uid)
        if found is None or not _is_true(found, "QuotaReserved"):
            return None
        is_open = any(one.get("name") == self.check and one.get("state") == "Pending" for one in _checks(found))
        return found if is_open else None


@dataclass
class Admission:
    """The AdmissionCheck of this server."""

    api: KueueApi
    namespace: str
    check: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def workloads(self) -> Workloads:
        """List the Workloads; the check is active afterwards. Raises ApiProblem."""
        self._keep_active()
        found = self.api.list_workloads(self.namespace)
        return Workloads(self.check, {str(_labels(one)[JOB_UID]): one for one in found if JOB_UID in _labels(one)})

    def admit(self, workload: Manifest) -> None:
        """Say Ready for a Workload. Raises ApiProblem: 409 if it has changed since it was listed."""
        at = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        said = {"state": "Ready", "message": "all parties have a place for their workers", "lastTransitionTime": at}
        checks = [{**one, **said} if one.get("name") == self.check else one for one in _checks(workload)]
        meta = workload["metadata"]
        self.api.patch_workload_status(self.namespace, str(meta["name"]), {
            "metadata": {"resourceVersion": meta["resourceVersion"]}, "status": {"admissionChecks": checks},
        })  # fmt: skip

    def _keep_active(self) -> None:
        """Say that this check is looked after: without it, Kueue takes its queues out of service."""
        found = self.api.read_check(self.check)
        if _is_true(found, _ACTIVE):
            return
        condition = {
            "type": _ACTIVE, "status": "True", "reason": "Served", "message": "a server of fate_flow decides",
            "lastTransitionTime": self.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }  # fmt: skip
        others = [one for one in _conditions(found) if one.get("type") != _ACTIVE]
        meta = {"resourceVersion": found["metadata"]["resourceVersion"]}
        self.api.patch_check_status(self.check, {"metadata": meta, "status": {"conditions": [*others, condition]}})
        log.info("Kueue: the AdmissionCheck %s is active", self.check)


RESERVED = Waiting(
    "gang", "has its quota in Kueue, and waits for the others of its gang",
    "it begins when they have a place at all parties, without a step of anybody",
)  # fmt: skip


def unread(check: str, problem: ApiProblem) -> Waiting:
    """Return why a Job waits whose Workload cannot be looked at."""
    known = {
        403: f"the account of the server may not use the AdmissionCheck {check}: apply deploy/kubernetes/kueue",
        404: f"there is no AdmissionCheck {check}, or no Kueue: correct kueue_check of the engine",
    }
    advice = known.get(problem.status, "if this lasts, look into the log of the server there")
    return Waiting("held", "waits in Kueue, whose admission check cannot be answered", advice)


def _is_true(found: Mapping[str, Any], kind: str) -> bool:
    return any(one.get("type") == kind and one.get("status") == "True" for one in _conditions(found))


def _conditions(found: Mapping[str, Any]) -> list[Manifest]:
    return list((found.get("status") or {}).get("conditions") or ())


def _checks(workload: Mapping[str, Any]) -> list[Manifest]:
    return list((workload.get("status") or {}).get("admissionChecks") or ())


def _labels(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return found["metadata"].get("labels") or {}
