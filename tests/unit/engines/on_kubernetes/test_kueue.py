"""The AdmissionCheck of a server: a Job whose quota is reserved begins when the others of its gang have a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fate_flow.engines.kubernetes.api import ClientApi
from fate_flow.engines.kubernetes.cluster import KubernetesCluster
from fate_flow.engines.kubernetes.kueue import JOB_UID, RESERVED, Admission
from fate_flow.engines.kubernetes.manifests import FOLDER, QUEUE_LABEL, PodSettings
from fate_flow.engines.kubernetes.problem import ApiProblem
from fate_flow.engines.local.worker import ARRIVED, claim, release
from fate_flow.engines.placed.cluster import Stage
from tests.kit.engines.custom_schemas import KUEUE_VERSIONS, patched, problems_of
from tests.kit.engines.fake_cluster import PlacedWorld
from tests.kit.engines.fake_kubernetes import FakeKubernetes

CHECK = "fate-flow"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SAID_AT = "2026-01-02T03:04:05Z"
EARLIER = "2026-01-01T00:00:00Z"
API = "kueue.x-k8s.io/v1beta2"
READY = {"state": "Ready", "message": "all parties have a place for their workers", "lastTransitionTime": SAID_AT}


def a_job(name: str, *, suspended: bool = True, queue: str = "q") -> dict[str, Any]:
    meta = {"name": name, "uid": f"uid-of-{name}", "labels": {QUEUE_LABEL: queue}}
    return {"metadata": {**meta, "annotations": {FOLDER: f"/jobs/{name}"}}, "spec": {"suspend": suspended}}


def a_workload(job: str, reserved: str = "True", **states: str) -> dict[str, Any]:
    checks = [a_check(name.replace("_", "-"), state) for name, state in states.items()]
    meta = {"name": f"job-{job}-12", "resourceVersion": "7", "labels": {JOB_UID: f"uid-of-{job}"}}
    status = {"conditions": [a_condition("QuotaReserved", reserved)], "admissionChecks": checks}
    return {"apiVersion": API, "kind": "Workload", "metadata": meta, "spec": {}, "status": status}


def a_check(name: str, state: str) -> dict[str, Any]:
    return {"name": name, "state": state, "message": "", "lastTransitionTime": EARLIER}


def a_condition(kind: str, status: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": "Tested", "message": "", "lastTransitionTime": EARLIER}


@dataclass
class FakeKueue:
    """The requests of the engine, with the Jobs and Workloads that it finds."""

    jobs: list[dict[str, Any]]
    workloads: Sequence[dict[str, Any]] = ()
    conditions: list[dict[str, Any]] | None = None        # of the AdmissionCheck
    status: int = 0                                         # with which requests to Kueue fail
    patched: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def list_jobs(self, *_: str) -> Sequence[dict[str, Any]]:
        return self.jobs

    def list_pods(self, *_: str) -> Sequence[dict[str, Any]]:
        return []

    def list_workloads(self, namespace: str) -> Sequence[dict[str, Any]]:
        assert namespace == "fate"
        self._ask("list")
        return self.workloads

    def patch_workload_status(self, namespace: str, name: str, patch: dict[str, Any]) -> None:
        self._ask("patch")
        [workload] = [one for one in self.workloads if one["metadata"]["name"] == name]
        assert problems_of(patched(workload, patch)) == []
        self.patched.append((f"{namespace}/{name}", patch))

    def read_check(self, name: str) -> dict[str, Any]:
        self._ask("read")
        status = {} if self.conditions is None else {"status": {"conditions": self.conditions}}
        spec = {"controllerName": "fate-flow/parties"}
        meta = {"resourceVersion": "3", "name": name}
        return {"apiVersion": API, "kind": "AdmissionCheck", "metadata": meta, "spec": spec, **status}

    def patch_check_status(self, name: str, patch: dict[str, Any]) -> None:
        assert problems_of(patched(self.read_check(name), patch)) == []
        self.patched.append((name, patch))
        self.conditions = patch["status"]["conditions"]

    def offers_pod_groups(self, *_: str) -> bool:
        return False

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.status:
            raise ApiProblem(self.status, "no")


def a_cluster(kueue: Any) -> KubernetesCluster:
    pods = PodSettings("i", namespace="fate")
    return KubernetesCluster(kueue, "h", pods, None, admission=Admission(kueue, "fate", CHECK, lambda: NOW))


ACTIVE = [a_condition("Active", "True")]


@pytest.mark.parametrize(("workload", "is_reserved"), [
    (a_workload("a", fate_flow="Pending"), True),
    (a_workload("a", other="Pending", fate_flow="Pending"), True),
    (a_workload("a", reserved="False", fate_flow="Pending"), False),
    (a_workload("a", fate_flow="Ready"), False),
    (a_workload("a", fate_flow="Retry"), False),
    (a_workload("a", other="Pending"), False),
    (a_workload("b", fate_flow="Pending"), False),
    ({"metadata": {"name": "x"}}, False),
])  # fmt: skip
def test_whether_a_place_is_kept_for_a_job(workload: dict[str, Any], is_reserved: bool) -> None:
    [one] = a_cluster(FakeKueue([a_job("a")], [workload], ACTIVE)).listing()
    assert (one.stage, one.is_reserved) == (Stage.PENDING, is_reserved)
    assert (one.waiting == RESERVED) == is_reserved


@pytest.mark.parametrize("job", [a_job("a", suspended=False), a_job("a", queue="")])
def test_kueue_is_asked_only_while_a_job_waits_there(job: dict[str, Any]) -> None:
    kueue = FakeKueue([job], [], ACTIVE)
    [one] = a_cluster(kueue).listing()
    assert (one.is_reserved, kueue.asked) == (None, [])


def test_a_job_that_may_begin_is_admitted_and_other_checks_stay() -> None:
    kueue = FakeKueue([a_job("a"), a_job("b")], [a_workload("a", other="Pending", fate_flow="Pending")], ACTIVE)
    cluster = a_cluster(kueue)
    cluster.listing()
    cluster.admit("a")
    cluster.admit("b")
    [(name, patch)] = kueue.patched
    assert name == "fate/job-a-12"
    assert patch == {
        "metadata": {"resourceVersion": "7"},
        "status": {"admissionChecks": [
            a_check("other", "Pending"), {"name": CHECK, **READY},
        ]},
    }  # fmt: skip


@pytest.mark.parametrize("status", [404, 409, 500, 0])
def test_what_cannot_be_admitted_now_is_looked_at_again(status: int) -> None:
    kueue = FakeKueue([a_job("a")], [a_workload("a", fate_flow="Pending")], ACTIVE)
    cluster = a_cluster(kueue)
    cluster.listing()
    kueue.status = status or 503
    cluster.admit("a")
    kueue.status = 0
    [one] = cluster.listing()
    assert one.is_reserved
    cluster.admit("a")
    assert len(kueue.patched) == 1


@pytest.mark.parametrize("conditions", [
    None, [], [a_condition("Active", "False"), a_condition("X", "True")],
])  # fmt: skip
def test_the_check_is_kept_active(conditions: list[dict[str, Any]] | None) -> None:
    kueue = FakeKueue([a_job("a")], [], conditions)
    cluster = a_cluster(kueue)
    cluster.listing()
    cluster.listing()
    [(name, patch)] = kueue.patched
    *others, active = patch["status"]["conditions"]
    assert (name, patch["metadata"]["resourceVersion"]) == (CHECK, "3")
    assert (active["type"], active["status"], active["lastTransitionTime"]) == ("Active", "True", SAID_AT)
    assert [one["type"] for one in others] == [one["type"] for one in conditions or () if one["type"] != "Active"]


@pytest.mark.parametrize(("status", "advice"), [
    (403, "the account of the server may not use the AdmissionCheck fate-flow: apply deploy/kubernetes/kueue"),
    (404, "there is no AdmissionCheck fate-flow, or no Kueue: correct kueue_check of the engine"),
    (503, "if this lasts, look into the log of the server there"),
])  # fmt: skip
def test_why_a_check_cannot_be_answered(status: int, advice: str) -> None:
    [one] = a_cluster(FakeKueue([a_job("a")], status=status)).listing()
    assert one.waiting is not None
    assert (one.stage, one.is_reserved, one.waiting.advice) == (Stage.PENDING, None, advice)


# ---------------------------------------------------------------------- the requests of the official client


def kueue_of(fake: FakeKubernetes, *served: str) -> None:
    fake.kueue.served = served
    fake.kueue.has(f"admissionchecks/{CHECK}", "AdmissionCheck", {"controllerName": "fate-flow/parties"})
    found = a_workload("a", other="Pending", fate_flow="Pending")
    meta = found["metadata"]
    path = f"namespaces/fate/workloads/{meta['name']}"
    fake.kueue.has(path, "Workload", {}, metadata=meta, status=found["status"])


@pytest.mark.parametrize("version", KUEUE_VERSIONS)
def test_kueue_takes_what_the_client_sends_in_the_version_that_it_prefers(version: str, tmp_path: Path) -> None:
    fake = FakeKubernetes(tmp_path)
    kueue_of(fake, version, "v1beta1")
    with fake.serving() as kubeconfig:
        admission = Admission(ClientApi(kubeconfig, ""), "fate", CHECK, lambda: NOW)
        for _ in range(2):
            workload = admission.workloads().reserved("uid-of-a")
            assert workload is not None
        admission.admit(workload)
        assert admission.workloads().reserved("uid-of-a") is None
        with pytest.raises(ApiProblem) as refused:
            admission.admit(workload)        # as it was: it has changed meanwhile
    assert refused.value.status == 409
    [active] = fake.kueue.objects[f"admissionchecks/{CHECK}"]["status"]["conditions"]
    assert (active["type"], active["status"]) == ("Active", "True")
    checks = fake.kueue.objects["namespaces/fate/workloads/job-a-12"]["status"]["admissionChecks"]
    assert checks == [a_check("other", "Pending"), {"name": CHECK, **READY}]
    assert {one.split()[1] for one in fake.kueue.asked} == {version}


def test_a_version_that_an_upgrade_of_kueue_has_taken_away_is_not_asked_for_again(tmp_path: Path) -> None:
    fake = FakeKubernetes(tmp_path)
    kueue_of(fake, "v1beta2")
    with fake.serving() as kubeconfig:
        admission = Admission(ClientApi(kubeconfig, ""), "fate", CHECK, lambda: NOW)
        assert admission.workloads().of_job
        fake.kueue.served = ("v1",)
        with pytest.raises(ApiProblem):
            admission.workloads()
        assert admission.workloads().of_job


# ---------------------------------------------------------------------- the engine


def show(world: PlacedWorld, folder: Path, *, is_reserved: bool | None) -> None:
    [name] = [one for one, job in world.cluster.jobs.items() if job.folder == str(folder)]
    world.cluster.jobs[name] = replace(world.cluster.jobs[name], is_reserved=is_reserved)
    world.look()


def test_a_worker_without_a_gang_is_let_in_at_once(tmp_path: Path) -> None:
    world = PlacedWorld(tmp_path)
    folder = world.place()
    world.look()
    show(world, folder, is_reserved=False)
    assert world.cluster.admitted == []
    show(world, folder, is_reserved=True)
    assert world.cluster.admitted == list(world.cluster.jobs)
    assert not (folder / ARRIVED).exists()


def test_a_worker_of_a_gang_is_let_in_when_the_others_have_a_place(tmp_path: Path) -> None:
    world = PlacedWorld(tmp_path)
    folder = world.place(gathers=True)
    world.look()
    show(world, folder, is_reserved=True)
    seen = world.engine.observe(folder)
    assert (seen.state, seen.has_arrived, world.cluster.admitted) == ("created", True, [])
    show(world, folder, is_reserved=False)               # another one has preempted it
    assert not world.engine.observe(folder).has_arrived
    show(world, folder, is_reserved=True)
    assert world.engine.observe(folder).has_arrived
    release(folder)
    show(world, folder, is_reserved=True)
    assert world.cluster.admitted == list(world.cluster.jobs)


def test_a_worker_that_a_runner_has_claimed_is_not_let_in_again(tmp_path: Path) -> None:
    world = PlacedWorld(tmp_path)
    folder = world.place(gathers=True)
    world.look()
    assert claim(folder)
    (folder / ARRIVED).touch()
    show(world, folder, is_reserved=False)
    assert world.engine.observe(folder).has_arrived
