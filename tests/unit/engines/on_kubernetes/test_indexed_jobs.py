"""The ranks of a start as one Indexed Job of Kubernetes: each is submitted once, listed, admitted and cancelled by its
own name."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.model.resources import Need
from fate_flow.engines.kubernetes.cluster import KubernetesCluster
from fate_flow.engines.kubernetes.kueue import JOB_UID, Admission
from fate_flow.engines.kubernetes.manifests import PodSettings, WorkerAt
from fate_flow.engines.kubernetes.problem import ApiProblem
from fate_flow.engines.kubernetes.ranks import INDEX_LABEL
from fate_flow.engines.placed.cluster import Batch, Gang, Listed, Placement, Stage, Taken
from fate_flow.engines.staged import agent
from fate_flow.engines.staged.places import INDEX, TOKENS, WORKER, WORKERS

PODS = PodSettings("i", namespace="fate")
START = "fate-flow-h-b" + "c" * 32


@dataclass
class Cluster:
    """The requests of the engine at an API server that keeps what is made."""

    minor: int | ApiProblem = 29
    keeps_index_limit: bool = True
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: list[dict[str, Any]] = field(default_factory=list)
    secrets: dict[str, dict[str, str]] = field(default_factory=dict)
    workloads: list[dict[str, Any]] = field(default_factory=list)
    admitted: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    loses: set[str] = field(default_factory=set)               # requests whose next answer is lost

    def minor_version(self) -> int:
        if isinstance(self.minor, ApiProblem):
            raise self.minor
        return self.minor

    def create_job(self, _: str, job: dict[str, Any]) -> dict[str, Any]:
        name = job["metadata"]["name"]
        if name in self.jobs:
            raise ApiProblem(409, "exists")
        spec = {**job["spec"]}
        if not self.keeps_index_limit:
            spec.pop("backoffLimitPerIndex", None)
        self.jobs[name] = {**job, "metadata": {**job["metadata"], "uid": f"uid-of-{name}"}, "spec": spec, "status": {}}
        self._answers("job")
        return self.jobs[name]

    def read_job(self, _: str, name: str) -> dict[str, Any]:
        if name not in self.jobs:
            raise ApiProblem(404, "none")
        return self.jobs[name]

    def create_secret(self, _: str, secret: dict[str, Any]) -> None:
        if secret["metadata"]["name"] in self.secrets:
            raise ApiProblem(409, "exists")
        self.secrets[secret["metadata"]["name"]] = secret["stringData"]
        self._answers("secret")

    def list_jobs(self, *_: str) -> Sequence[dict[str, Any]]:
        return list(self.jobs.values())

    def list_pods(self, *_: str) -> Sequence[dict[str, Any]]:
        return self.pods

    def delete_job(self, _: str, name: str) -> None:
        del self.jobs[name]

    def delete_pod(self, _: str, name: str) -> None:
        self.deleted.append(name)

    def read_check(self, _: str) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": "1"}, "status": {"conditions": [{"type": "Active", "status": "True"}]}}

    def list_workloads(self, _: str) -> Sequence[dict[str, Any]]:
        return self.workloads

    def patch_workload_status(self, _: str, name: str, __: dict[str, Any]) -> None:
        self.admitted.append(name)

    def offers_pod_groups(self, *_: str) -> bool:
        return False

    def _answers(self, what: str) -> None:
        if what in self.loses:
            self.loses.discard(what)
            raise ApiProblem(0, "lost")

    def has_pod(self, index: int, phase: str = "Running", **status: Any) -> None:
        labels = {**self.jobs[START]["spec"]["template"]["metadata"]["labels"], INDEX_LABEL: str(index)}
        meta = {"name": f"pod-{index}", "labels": labels, "annotations": {}}
        self.pods.append({"metadata": meta, "status": {"phase": phase, **status}})

    def is_deleted_later(self, index: int, grace_seconds: int) -> None:
        for pod in self.pods:
            if pod["metadata"]["name"] == f"pod-{index}":
                pod["metadata"].update(
                    uid=f"uid-{index}", deletionTimestamp="2026-01-01T00:00:00Z",
                    deletionGracePeriodSeconds=grace_seconds,
                )  # fmt: skip


def engine_on(api: Cluster, now: Callable[[], float] = time.monotonic, **pods: Any) -> KubernetesCluster:
    admission = Admission(api, "fate", "check", lambda: datetime(2026, 1, 1, tzinfo=UTC))  # type: ignore[arg-type]
    reach = lambda worker_id: WorkerAt("a:1", "pin", f"token of {worker_id}")  # noqa: E731
    own = replace(PODS, **pods)
    return KubernetesCluster(api, "h", own, reach, admission=admission, now=now)  # type: ignore[arg-type]


def ranks(names: Iterable[str] = "abc", *, gang: bool = True) -> list[Placement]:
    batch, begins = Batch("c" * 32, 3), Gang("d" * 32, 3) if gang else None
    return [Placement(f"fate-flow-h-{one}", Path("/jobs", one), ("run", one), Need(1), 1.0, gang=begins, batch=batch)
            for one in names]  # fmt: skip


def said(cluster: KubernetesCluster) -> dict[str, Listed]:
    found = {one.name.removeprefix("fate-flow-h-"): one for one in cluster.listing()}
    assert all(one.folder == f"/jobs/{name}" for name, one in found.items())
    return found


def test_the_ranks_of_a_start_are_one_job_where_the_end_of_one_is_not_that_of_all() -> None:
    api = Cluster()
    assert engine_on(api).submit_together(ranks()).taken is Taken.ACCEPTED
    [job] = api.jobs.values()
    spec = job["spec"]
    assert (job["metadata"]["name"], spec["completionMode"]) == (START, "Indexed")
    assert (spec["completions"], spec["parallelism"], spec["backoffLimitPerIndex"]) == (3, 3, 0)
    assert not {"backoffLimit", "podFailurePolicy", "podReplacementPolicy"} & spec.keys()
    assert api.secrets == {START: {str(number): f"token of {one}" for number, one in enumerate("abc")}}
    assert "token of" not in str(job)


@pytest.mark.parametrize("lost", ["job", "secret"])
def test_a_request_without_an_answer_is_repeated_for_the_same_job(lost: str) -> None:
    api = Cluster(loses={lost})
    cluster = engine_on(api)
    assert cluster.submit_together(ranks()).taken is Taken.NOT_REACHED
    assert cluster.submit_together(ranks("ab")).taken is Taken.ACCEPTED, "the third was stopped meanwhile"
    assert cluster.submit(ranks("c")[0]).taken is Taken.ACCEPTED
    assert (list(api.jobs), len(api.secrets[START])) == ([START], 3)
    assert cluster.submit_together(ranks("ad")).taken is Taken.TOO_MANY, "one has come late"
    assert cluster.submit(ranks("d")[0]).taken is Taken.ACCEPTED
    assert list(api.jobs) == [START, "fate-flow-h-d"]


def test_a_rank_whose_own_job_may_be_there_gets_no_other_one() -> None:
    api = Cluster(loses={"job"})
    cluster = engine_on(api)
    assert cluster.submit(ranks("a")[0]).taken is Taken.NOT_REACHED
    assert cluster.submit_together(ranks()).taken is Taken.TOO_MANY
    assert cluster.submit(ranks("a")[0]).taken is Taken.ACCEPTED
    assert list(api.jobs) == ["fate-flow-h-a"]


@pytest.mark.parametrize(("api", "taken"), [
    (Cluster(28), Taken.TOO_MANY), (Cluster(ApiProblem(403, "no")), Taken.TOO_MANY),
    (Cluster(ApiProblem(0, "away")), Taken.NOT_REACHED), (Cluster(keeps_index_limit=False), Taken.TOO_MANY),
])  # fmt: skip
def test_a_cluster_without_a_limit_for_each_index_gets_single_jobs(api: Cluster, taken: Taken) -> None:
    cluster = engine_on(api)
    assert cluster.submit_together(ranks()).taken is taken
    assert (api.jobs, api.secrets) == ({}, {})
    assert cluster.submit(ranks()[0]).taken is Taken.ACCEPTED
    assert list(api.jobs) == ["fate-flow-h-a"]


def test_with_a_volume_each_pod_executes_the_command_of_its_index() -> None:
    api = Cluster()
    some = [replace(one, argv=("printf", "%s", f"rank {one.folder.name}")) for one in ranks()]
    assert KubernetesCluster(api, "h", PODS, None).submit_together(some).taken is Taken.ACCEPTED  # type: ignore[arg-type]
    [job] = api.jobs.values()
    [container] = job["spec"]["template"]["spec"]["containers"]
    said = [subprocess.check_output(container["command"], env={**os.environ, INDEX: str(one)}) for one in range(3)]
    assert said == [b"rank a", b"rank b", b"rank c"]
    assert api.secrets == {}


def test_what_does_not_fit_into_one_job_is_divided() -> None:
    many = [ranks(f"{number:04d}" for number in range(1001)), [replace(one, argv=("x" * 50_000,)) for one in ranks()]]
    for some in many:
        api = Cluster()
        assert KubernetesCluster(api, "h", PODS, None).submit_together(some).taken is Taken.TOO_MANY  # type: ignore[arg-type]
        assert api.jobs == {}


@pytest.mark.parametrize("gang", [True, False])
def test_kueue_gets_one_job_only_of_ranks_that_begin_together(gang: bool) -> None:
    taken = engine_on(Cluster(), queue="q").submit_together(ranks(gang=gang)).taken
    assert taken is (Taken.ACCEPTED if gang else Taken.TOO_MANY)


def test_each_rank_is_listed_with_what_its_own_pod_says() -> None:
    api = Cluster()
    cluster = engine_on(api)
    cluster.submit_together(ranks("abcdefg"))
    image = {"name": "worker", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    memory = {"name": "worker", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
    api.has_pod(1, "Pending", containerStatuses=[image])
    api.has_pod(2, "Failed", containerStatuses=[memory])
    api.has_pod(3, "Failed", reason="Evicted")
    api.has_pod(4)
    api.jobs[START]["status"] = {"failedIndexes": "2,3", "completedIndexes": "5-6"}
    found = said(cluster)
    assert [found[one].stage for one in "abcdefg"] == [
        Stage.PENDING, Stage.PENDING, Stage.ENDED, Stage.ENDED, Stage.ALIVE, Stage.ENDED, Stage.ENDED,
    ]  # fmt: skip
    assert [found[one].cause for one in "cdf"] == ["out_of_memory", "preempted", ""]
    assert found["b"].waiting is not None
    assert found["b"].waiting.kind == "image"
    assert cluster.cause_in(Path("/jobs/c"))[0] == "out_of_memory"
    assert cluster.cause_in(Path("/jobs/b")) == ("", "")


def test_a_rank_whose_pod_was_deleted_has_ended() -> None:
    api = Cluster()
    cluster = engine_on(api)
    cluster.submit_together(ranks())
    api.jobs[START]["status"] = {"failedIndexes": "0-1"}
    assert [said(cluster)[one].stage for one in "abc"] == [Stage.ENDED, Stage.ENDED, Stage.PENDING]


def test_a_pod_of_whose_end_no_node_says_anything_was_lost_with_its_node() -> None:
    """Kubernetes deletes the pods of a node that does not answer. Their phase stays as it was, for as long as the node
    is away."""
    api, now = Cluster(), [0.0]
    cluster = engine_on(api, lambda: now[0])
    cluster.submit_together(ranks("abcd"))
    for index, phase in enumerate(("Running", "Pending", "Running", "Failed")):
        api.has_pod(index, phase)
    for index in (0, 1, 3):
        api.is_deleted_later(index, 30)
    assert said(cluster)["a"].stage is Stage.ALIVE
    now[0] = 90
    assert [said(cluster)[one].stage for one in "abc"] == [Stage.ALIVE, Stage.PENDING, Stage.ALIVE]
    now[0] = 91
    found = said(cluster)
    assert [(found[one].stage, found[one].cause) for one in "abcd"] == [
        (Stage.ENDED, "node_lost"), (Stage.ENDED, "node_lost"), (Stage.ALIVE, ""), (Stage.ENDED, ""),
    ]  # fmt: skip
    assert found["a"].may_compute, "its node may be away from the network alone"
    assert said(engine_on(api))["a"].stage is Stage.ALIVE, "a process that begins has seen nothing yet"
    for phase, stage in (("Pending", Stage.ENDED), ("Running", Stage.ALIVE)):
        api.has_pod(0, phase)                # old releases make another one for its index
        api.pods[-1]["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
        assert said(cluster)["a"].stage is stage, "the newer one may be the one that has begun, once it runs"
        api.pods.pop()


def test_the_pod_of_a_cancelled_rank_is_deleted_and_with_the_last_one_the_job() -> None:
    api = Cluster()
    cluster = engine_on(api)
    cluster.submit_together(ranks())
    api.has_pod(0)
    api.has_pod(1, "Succeeded")
    assert said(cluster)["c"].stage is Stage.PENDING
    cluster.cancel("fate-flow-h-c")
    assert api.deleted == []
    assert said(cluster)["c"].stage is Stage.ENDED, "it has no pod, and nobody wants one"
    api.has_pod(2)
    assert said(cluster)["c"].stage is Stage.ALIVE
    cluster.cancel("fate-flow-h-c")
    assert (api.deleted, list(api.jobs)) == (["pod-2"], [START])
    cluster.cancel("fate-flow-h-a")
    assert (api.deleted, list(api.jobs)) == (["pod-2"], [])


def test_the_secret_of_a_server_that_was_killed_is_made_once() -> None:
    api = Cluster()
    engine_on(api).submit_together(ranks())
    api.secrets.clear()
    waits = {"name": "worker", "state": {"waiting": {"reason": "CreateContainerConfigError"}}}
    for index in range(3):
        api.has_pod(index, "Pending", containerStatuses=[waits])
    engine_on(api).listing()
    assert api.secrets == {START: {str(number): f"token of {one}" for number, one in enumerate("abc")}}


def test_kueue_admits_the_job_when_all_its_ranks_may_begin() -> None:
    api = Cluster()
    cluster = engine_on(api, queue="q")
    cluster.submit_together(ranks())
    meta = {"name": "w", "resourceVersion": "1", "labels": {JOB_UID: f"uid-of-{START}"}}
    status = {"conditions": [{"type": "QuotaReserved", "status": "True"}]}
    checks = [{"name": "check", "state": "Pending"}]
    api.workloads = [{"metadata": meta, "status": {**status, "admissionChecks": checks}}]
    assert {one.is_reserved for one in said(cluster).values()} == {True}
    cluster.admit("fate-flow-h-a")
    cluster.admit("fate-flow-h-b")
    assert api.admitted == []
    said(cluster)
    cluster.admit("fate-flow-h-c")
    assert api.admitted == [], "what could begin before this listing may not be able to any more"
    cluster.admit("fate-flow-h-a")
    cluster.cancel("fate-flow-h-b")
    cluster.admit("fate-flow-h-c")
    assert api.admitted == ["w"]


# ---------------------------------------------------------------------- the agent in a pod


def test_the_agent_takes_the_token_of_its_index_and_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKERS, "w0 w1")
    monkeypatch.setenv(INDEX, "1")
    for number in range(2):
        monkeypatch.setenv(f"{TOKENS}{number}", f"token {number}")
    assert agent._worker_and_token() == ("w1", "token 1")
    assert not [name for name in agent.os.environ if name.startswith(TOKENS)]


@pytest.mark.parametrize(("number", "why"), [("2", "JOB_COMPLETION_INDEX: '2' is not the number of one of 2 workers"),
                                             ("-1", "JOB_COMPLETION_INDEX: '-1' is not the number")])  # fmt: skip
def test_an_index_without_a_worker_is_named(number: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WORKER, raising=False)
    monkeypatch.setenv(WORKERS, "w0 w1")
    monkeypatch.setenv(INDEX, number)
    with pytest.raises(ValueError, match=why):
        agent._worker_and_token()
