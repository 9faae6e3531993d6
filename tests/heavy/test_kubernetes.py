"""A real API server of Kubernetes with its controllers: what the engine relies on, and jobs of two parties.

One of them runs its workers in pods. A kubelet of the kit, or the test itself, says how pods are.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from fate_flow.core.model.resources import Need
from fate_flow.engines.kubernetes.api import ClientApi
from fate_flow.engines.kubernetes.cluster import KubernetesCluster
from fate_flow.engines.kubernetes.gangs import SCHEDULERS
from fate_flow.engines.kubernetes.manifests import FOLDER, PodSettings, WorkerAt
from fate_flow.engines.kubernetes.problem import ApiProblem
from fate_flow.engines.local.worker import ARRIVED, GO
from fate_flow.engines.placed.cluster import Listed, Placement, Stage, Submission, Taken, Unreadable
from tests.kit.engines.kubelet import Kubelet
from tests.kit.engines.real_kubernetes import Object, RealKubernetes, running_kubernetes, state_of
from tests.kit.servers.engine_site import POLITE
from tests.kit.servers.lending import a_root
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, running_cluster, toy
from tests.kit.servers.programs import PYTHON, command, printed, python, workers
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
ROLES = {"guest": [GUEST], "host": [HOST]}
OWN = "fate"                     # the namespace to which the manifests for operators are applied
AT = WorkerAt("flow.example:9390", "sha256:" + "0" * 64, "secret token")
HOME = "0123456789ab"
PODS = PodSettings("fate_flow", OWN, service_account="fate-flow-worker")


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKubernetes]:
    programs = os.environ.get("FATE_FLOW_TEST_KUBERNETES")
    if not programs:
        pytest.skip("FATE_FLOW_TEST_KUBERNETES names no programs (bin/test --kubernetes builds them)")
    with running_kubernetes(json.loads(programs), tmp_path_factory.mktemp("kubernetes")) as found:
        yield found


@pytest.fixture(scope="module")
def applied(kubernetes: RealKubernetes, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `kubectl apply` says of an overlay of the base for operators, in its namespace."""
    overlay = tmp_path_factory.mktemp("overlay")
    shutil.copytree(DEPLOY, overlay / "base")
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump({
        "bases": ["base"], "namespace": OWN, "images": [{"name": "fate_flow", "newName": "registry.example/fate_flow"}],
    }))  # fmt: skip
    kubernetes.has_namespace(OWN)
    rendered = kubernetes.kubectl("kustomize", str(overlay))
    assert {one["metadata"]["namespace"] for one in yaml.safe_load_all(rendered)} == {OWN}
    return kubernetes.kubectl("apply", "--validate=true", "-k", str(overlay))


@dataclass
class Site:
    """The engine's cluster with no right but those of the account of the manifests."""

    kubernetes: RealKubernetes
    token: str
    api: ClientApi
    namespace: str = OWN
    numbers: Iterator[int] = field(default_factory=count)

    def cluster(self, **pods: Any) -> KubernetesCluster:
        return KubernetesCluster(self.api, HOME, replace(PODS, **pods), lambda _: AT)

    def placement(self, **need: Any) -> Placement:
        worker = f"{next(self.numbers):032x}"
        return Placement(f"fate-flow-{HOME}-{worker}", Path(f"/home/f/jobs/{worker}"), (), Need(1, 100, **need), 5.0)

    def submitted(self, **pods: Any) -> str:
        """The name of a Job that was made."""
        placement = self.placement()
        assert self.cluster(**pods).submit(placement) == Submission(Taken.ACCEPTED)
        return placement.name

    def seen(self, name: str) -> Listed | None:
        """What another process of the server sees of a Job."""
        return next((one for one in self.cluster().listing() if one.name == name), None)

    def left(self, name: str) -> list[str]:
        """What there is of a Job: itself, its pod and its Secret."""
        kept = self.kubernetes.all("jobs", self.namespace) + self.kubernetes.all("secrets", self.namespace)
        kept += self.kubernetes.all("pods", self.namespace)
        return [one["metadata"]["name"] for one in kept if one["metadata"]["name"].startswith(name)]


@pytest.fixture(scope="module")
def site(kubernetes: RealKubernetes, applied: str) -> Site:
    assert applied
    token = kubernetes.token_of(OWN, "fate-flow")
    return Site(kubernetes, token, ClientApi(kubernetes.kubeconfig(token, OWN), ""))


# ---------------------------------------------------------------------- the manifests


def test_the_manifests_for_operators_are_applied(kubernetes: RealKubernetes, applied: str) -> None:
    made = {line.partition(" ")[0] for line in applied.splitlines() if line.endswith("created")}
    assert made == {
        "configmap/fate-flow", "service/fate-flow-parties", "service/fate-flow-workers", "serviceaccount/fate-flow",
        "serviceaccount/fate-flow-worker", "role.rbac.authorization.k8s.io/fate-flow",
        "rolebinding.rbac.authorization.k8s.io/fate-flow",
        "statefulset.apps/fate-flow",
    }  # fmt: skip
    found = kubernetes.ask("GET", f"/apis/apps/v1/namespaces/{OWN}/statefulsets/fate-flow")
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/fate_flow"


@pytest.mark.parametrize(("method", "path"), [
    ("GET", "/api/v1/namespaces/fate/secrets"), ("GET", "/api/v1/namespaces/fate/configmaps/fate-flow"),
    ("GET", "/apis/batch/v1/namespaces/default/jobs"), ("GET", "/api/v1/nodes"), ("GET", "/api/v1/namespaces"),
    ("POST", "/api/v1/namespaces/fate/pods"), ("DELETE", "/apis/batch/v1/namespaces/fate/jobs"),
    ("DELETE", "/api/v1/namespaces/fate/secrets/x"),
    ("POST", "/api/v1/namespaces/fate/serviceaccounts/fate-flow/token"),
])  # fmt: skip
def test_the_account_of_the_server_may_do_nothing_else(site: Site, method: str, path: str) -> None:
    status, _ = site.kubernetes.asked(method, path, {}, token=site.token)
    assert status == 403


# ---------------------------------------------------------------------- what the engine relies on


def test_whether_there_are_pod_groups_and_the_server_may_make_them(site: Site) -> None:
    assert not any(site.api.offers_pod_groups(one.group, one.version) for one in SCHEDULERS)
    assert not site.api.offers_pod_groups("batch", "v1"), "the group is there, the kind is not"
    assert not any(site.api.may_keep_pod_groups(OWN, one.group) for one in SCHEDULERS)
    for made in yaml.safe_load_all((DEPLOY / "gangs" / "rbac.yaml").read_text()):
        for subject in made.get("subjects", ()):
            subject["namespace"] = OWN                     # as kustomize does
        kinds = f"{made['kind'].lower()}s"
        site.kubernetes.ask("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OWN}/{kinds}", made)
    may = lambda: all(site.api.may_keep_pod_groups(OWN, one.group) for one in SCHEDULERS)  # noqa: E731
    eventually(may, "the component gives the rights")
    assert not site.api.may_keep_pod_groups("default", SCHEDULERS[0].group)


def test_a_job_is_made_once_however_often_it_is_submitted(site: Site) -> None:
    placement = site.placement()
    for _ in range(2):
        assert site.cluster().submit(placement) == Submission(Taken.ACCEPTED)
    assert len([one for one in site.left(placement.name) if one == placement.name]) == 2, "a Job and a Secret"
    foreign = replace(placement, folder=placement.folder.with_name("other"))
    assert site.cluster().submit(foreign) == Submission(Taken.REFUSED, "status 422")
    seen = site.seen(placement.name)
    assert seen is not None
    assert (seen.folder, seen.stage) == (str(placement.folder), Stage.PENDING)


def test_what_is_refused_and_what_may_be_tried_again(site: Site, kubernetes: RealKubernetes) -> None:
    def submits(cluster: KubernetesCluster) -> Submission:
        return cluster.submit(site.placement())

    assert submits(site.cluster(namespace="default")) == Submission(Taken.REFUSED, "status 403")
    assert submits(site.cluster(image="")) == Submission(Taken.REFUSED, "status 422")
    assert submits(site.cluster(run_as_user=-5)) == Submission(Taken.REFUSED, "status 422")
    stranger = KubernetesCluster(ClientApi(kubernetes.kubeconfig("no token"), ""), HOME, PODS, lambda _: AT)
    assert submits(stranger) == Submission(Taken.NOT_REACHED, "status 401")
    with pytest.raises(Unreadable, match="Unauthorized"):
        stranger.listing()
    quota: Object = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }  # fmt: skip
    kubernetes.ask("POST", kubernetes.at("resourcequotas", OWN), quota)
    at = kubernetes.at("resourcequotas", OWN, "q")
    try:
        eventually(lambda: kubernetes.ask("GET", at)["status"].get("hard"), "the quota is counted")
        assert submits(site.cluster()) == Submission(Taken.REFUSED, "status 403")
    finally:
        kubernetes.ask("DELETE", at)
    site.cluster().cancel("not-there")                     # 404 is no problem
    with pytest.raises(ApiProblem) as caught:
        site.api.read_job(OWN, "not-there")
    assert caught.value.status == 404


def of_worker(phase: str, *, of: str = "containerStatuses", conditions: Any = (), **state: Any) -> Object:
    return {"phase": phase, of: [state_of("worker", state)], "conditions": list(conditions)}


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


@pytest.mark.parametrize(("status", "stage", "cause", "word"), [
    ({"phase": "Pending", "conditions": [UNSCHEDULABLE]}, Stage.PENDING, "", "Unschedulable"),
    (of_worker("Pending", waiting={"reason": "ImagePullBackOff"}), Stage.PENDING, "", "ImagePullBackOff"),
    (of_worker("Pending", waiting={"reason": "InvalidImageName"}), Stage.ENDED, "not_placed", "InvalidImageName; "),
    (of_worker("Pending", of="initContainerStatuses", running={}), Stage.ALIVE, "", "fetches its inputs"),
    (of_worker("Running", running={}), Stage.ALIVE, "", "Running"),
    (of_worker("Succeeded", terminated={"exitCode": 0, "reason": "Completed"}), Stage.ENDED, "", "Succeeded"),
    (of_worker("Failed", terminated={"exitCode": 137, "reason": "OOMKilled"}), Stage.ENDED, "out_of_memory", "OOMKill"),
    (of_worker("Failed", terminated={"exitCode": 3, "reason": "Error"}), Stage.ENDED, "", "Error with exit code 3"),
    ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, Stage.ENDED, "preempted", "Evicted"),
    ({"phase": "Failed", "reason": "NodeLost"}, Stage.ENDED, "node_lost", "NodeLost"),
    (of_worker("Failed", conditions=[DISRUPTED], terminated={"exitCode": 143}), Stage.ENDED, "preempted", "Preemption"),
])  # fmt: skip
def test_the_stages_of_a_pod(site: Site, status: Object, stage: Stage, cause: str, word: str) -> None:
    name = site.submitted()
    pod = site.kubernetes.pod_of(OWN, name)
    site.kubernetes.play(OWN, pod, status)

    def said() -> bool:
        seen = site.seen(name)
        return seen is not None and (seen.stage, seen.cause) == (stage, cause) and seen.word.startswith(word)

    eventually(said, lambda: str(site.seen(name)))
    if status["phase"] in ("Succeeded", "Failed"):
        condition = "Complete" if status["phase"] == "Succeeded" else "Failed"

        def conditions() -> list[str]:
            found = site.kubernetes.ask("GET", site.kubernetes.at("jobs", OWN, name))["status"].get("conditions", [])
            return [one["type"] for one in found if one["status"] == "True"]

        eventually(lambda: conditions() == [condition], conditions)
        site.kubernetes.ask("DELETE", site.kubernetes.at("pods", OWN, pod))
        eventually(lambda: pod not in site.left(name))
        seen = site.seen(name)
        assert seen is not None
        assert seen.stage is Stage.ENDED, "the Job tells it when its pod is gone"


def test_the_pod_of_a_node_that_does_not_answer_is_lost(site: Site) -> None:
    """Kubernetes deletes it when its toleration is over, and nobody ever says that it has ended. Without a node that
    answers, it would delete none."""
    kubernetes, now = site.kubernetes, [0.0]
    for node in ("answers", "silent"):
        kubernetes.has_node(node)
    for_a_second = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": 1}  # fmt: skip
    name = site.submitted(tolerations=(for_a_second,))
    pod = kubernetes.pod_of(OWN, name)
    kubernetes.bind(OWN, pod, "silent")
    kubernetes.play(OWN, pod, of_worker("Running", running={}))

    def is_to_end() -> bool:
        kubernetes.answers("answers")
        return "deletionTimestamp" in kubernetes.ask("GET", kubernetes.at("pods", OWN, pod))["metadata"]

    eventually(is_to_end, lambda: kubernetes.said("kube-controller-manager"))
    cluster = KubernetesCluster(site.api, HOME, PODS, lambda _: AT, now=lambda: now[0])

    def seen() -> tuple[Stage, str]:
        [one] = [one for one in cluster.listing() if one.name == name]
        return one.stage, one.cause

    assert seen()[0] in (Stage.ALIVE, Stage.PENDING), "it has its grace; this release makes another one"
    assert kubernetes.ask("GET", kubernetes.at("pods", OWN, pod))["status"]["phase"] == "Running"
    now[0] += 120 + 5 + 60
    assert seen()[1] == ""
    now[0] += 1
    assert seen() == (Stage.ENDED, "node_lost")
    kubernetes.ask("DELETE", kubernetes.at("pods", OWN, pod), {"gracePeriodSeconds": 0})
    for node in ("answers", "silent"):
        kubernetes.ask("DELETE", f"/api/v1/nodes/{node}")


def test_a_job_goes_with_its_pod_and_its_secret(site: Site) -> None:
    name = site.submitted()
    site.kubernetes.pod_of(OWN, name)
    assert len(site.left(name)) == 3
    site.cluster().cancel(name)
    eventually(lambda: not site.left(name), lambda: str(site.left(name)))
    assert site.seen(name) is None
    site.cluster().cancel(name)


def test_a_job_that_has_ended_goes_after_its_time(site: Site) -> None:
    name = site.submitted(keep_seconds=1)
    site.kubernetes.play(OWN, site.kubernetes.pod_of(OWN, name), {"phase": "Succeeded"})
    eventually(lambda: not site.left(name), lambda: str(site.left(name)))


def test_a_secret_that_was_not_made_is_made_when_its_pod_waits_for_it(site: Site) -> None:
    """The server was killed in between."""
    name = site.submitted()
    secret = site.kubernetes.at("secrets", OWN, name)
    before = site.kubernetes.ask("GET", secret)
    site.kubernetes.ask("DELETE", secret)
    pod = site.kubernetes.pod_of(OWN, name)
    site.kubernetes.play(OWN, pod, of_worker("Pending", waiting={"reason": "CreateContainerConfigError"}))
    site.cluster().listing()
    after = site.kubernetes.ask("GET", secret)
    assert (after["data"], after["immutable"]) == (before["data"], True)
    assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]


# ---------------------------------------------------------------------- two parties


@dataclass(frozen=True)
class Parties:
    """A guest with workers on its own machine and a host with workers in pods."""

    cluster: Cluster
    kubelet: Kubelet

    def worker(self, job_id: str) -> Mapping[str, Any]:
        """The row of the only worker of the host."""
        [row] = workers(self.cluster.host, job_id)
        assert row["f_engine"] == "pods"
        return row

    def job_of(self, job_id: str) -> Object | None:
        """The Job of the only worker of the host."""
        rows = workers(self.cluster.host, job_id)
        found = self.kubelet.api.all("jobs", OWN) if rows else []
        return next((one for one in found if one["metadata"]["annotations"][FOLDER] == rows[0]["f_handle"]), None)

    def running(self, code: str) -> str:
        """The id of a job with this program at the host, once that has printed a line."""
        job_id = self.cluster.submit(command(ROLES, {
            "guest": {"0": {"command": ["/bin/true"]}}, "host": {"0": {"command": python(code)}},
        }))  # fmt: skip
        self.cluster.host.worker_of(job_id, "train")
        eventually(lambda: printed(self.cluster.host, job_id) == "ready\n", lambda: "\n".join(self.kubelet.output))
        return job_id


@pytest.fixture(scope="module")
def parties(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parties]:
    for one in site.kubernetes.all("jobs", OWN):            # those of other tests
        site.cluster().cancel(one["metadata"]["name"])
    eventually(lambda: not site.kubernetes.all("pods", OWN))
    far = tmp_path_factory.mktemp("far")
    rules = {"commands": {"enabled": True, "allow": [PYTHON, "/bin/true"], "share_logs": True}}
    engine = {
        "kind": "kubernetes", "default": True, "cores": 20, "memory": 8000, "image": "fate_flow", "namespace": OWN,
        "service_account": "fate-flow-worker", "kubeconfig": str(site.kubernetes.account(OWN, "fate-flow")),
        "poll_seconds": 0.3, "settle_seconds": 2,
    }  # fmt: skip
    overlays = {
        GUEST: {**rules, "engines": {"local": {"cores": 20, "memory": 8000}}, "fate_on_standalone": None},
        HOST: {
            **rules, "engines": {"pods": engine}, "limits": {"poll_interval": 1},
            "fateflow": {"worker_listen": {"host": "127.0.0.1", "port": BASE_PORT + 309}},
        },
    }  # fmt: skip
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(far),
        "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    kubelet = Kubelet(site.kubernetes, OWN, far, env)
    root = a_root(tmp_path_factory)
    with kubelet.running(), running_cluster(root, (GUEST, HOST), base_port=BASE_PORT + 240, overlays=overlays) as found:
        yield Parties(found, kubelet)


def test_a_job_of_two_parties_succeeds_with_one_of_them_in_pods(parties: Parties) -> None:
    job_id = parties.cluster.run(toy())
    assert parties.worker(job_id)["f_exit_status"] == "exit code 0"
    parties.cluster.check_idle()


def test_a_gang_begins_when_its_pod_has_found_a_node(parties: Parties) -> None:
    parties.kubelet.has_space = False
    try:
        job_id = parties.cluster.submit(command(ROLES, command=python("print('begun')")))
        eventually(lambda: parties.job_of(job_id))
    finally:
        parties.kubelet.has_space = True
    parties.cluster.wait(job_id, "success")
    folder = Path(parties.worker(job_id)["f_handle"])
    assert all((folder / name).exists() for name in (ARRIVED, GO))


def test_a_worker_survives_kill_9_of_its_server_and_is_stopped_with_grace(parties: Parties) -> None:
    job_id = parties.running(POLITE)
    parties.cluster.kill(HOST)
    parties.cluster.start(HOST)
    parties.cluster.guest.ask("job/stop", {"job_id": job_id})
    parties.cluster.wait(job_id, "canceled")
    assert printed(parties.cluster.host, job_id) == "ready\ndone\n"
    assert parties.worker(job_id)["f_exit_status"] == "exit code 5"
    parties.cluster.check_idle()


def test_a_pod_that_is_evicted_by_the_api_is_not_run_twice(parties: Parties) -> None:
    """The controller makes another pod of the Job: if its agent comes to run, it finds the claim."""
    job_id = parties.running(POLITE)
    job, api = parties.job_of(job_id), parties.kubelet.api
    assert job is not None
    pod = api.pod_of(OWN, job["metadata"]["name"])
    eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": pod, "namespace": OWN}}
    api.ask("POST", f"{api.at('pods', OWN, pod)}/eviction", eviction)
    parties.cluster.wait(job_id, "failed")
    assert printed(parties.cluster.host, job_id) == "ready\ndone\n", "it had its grace"
    parties.cluster.check_idle()
