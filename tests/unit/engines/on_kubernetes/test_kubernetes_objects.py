"""The objects of Kubernetes for a worker, and what is read from what Kubernetes says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.resources import Need
from fate_flow.engines.kubernetes.cluster import KubernetesCluster
from fate_flow.engines.kubernetes.manifests import (
    FOLDER,
    QUEUE_LABEL,
    PodSettings,
    WorkerAt,
    WorkerJob,
    job_manifest,
    script_of,
    secret_manifest,
    tokens_of,
)
from fate_flow.engines.kubernetes.problem import ApiProblem
from fate_flow.engines.kubernetes.status import FATAL_WAITING, WAITING, listed, waits_for_secret
from fate_flow.engines.placed.cluster import Placement, Stage, Taken, Unreadable
from fate_flow.settings.engines.kubernetes import KubernetesSettings, PodShare
from fate_flow.settings.reader import load_settings

VERSIONS = ("1.29", "1.33", "1.36")
JOB = WorkerJob("fate-flow-0123456789ab-" + "c" * 32, "c" * 32, "/home/f/jobs/w", "0123456789ab", Need(2, 512), 10.0)
PODS = PodSettings("registry/fate_flow:1", namespace="fate")
AT = WorkerAt("flow.example:9390", "sha256:" + "0" * 64, "secret token")
FULL = replace(
    PODS, pull_secrets=("registry",), service_account="fate", node_selector={"disk": "ssd"}, run_as_user=1000,
    tolerations=({"key": "fate", "operator": "Exists", "effect": "NoSchedule"},), queue="fate", priority_class="low",
)  # fmt: skip
RANKS = replace(JOB, worker_id="", ranks=("a" * 32, "b" * 32))
LARGE = replace(JOB, need=Need(4, 4096, gpus=2, time_limit_seconds=3600, queue="gpus"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("job", "pods", "at"), [
    (JOB, PODS, AT), (LARGE, FULL, AT), (replace(JOB, argv=("python3", "-m", "x")), replace(PODS, volume_claim="h",
     home="/home/f"), None), (RANKS, FULL, AT),
    (replace(RANKS, argv=script_of([["python3", "a b"], ["true"]])), replace(PODS, volume_claim="h"), None),
])  # fmt: skip
def test_objects_are_what_the_published_schemas_ask_for(
    version: str, job: WorkerJob, pods: PodSettings, at: WorkerAt | None
) -> None:
    kubernetes_validate.validate(job_manifest(job, pods, at), version, strict=True)
    kubernetes_validate.validate(secret_manifest(job, pods, tokens_of(job, lambda _: AT), "uid"), version, strict=True)


def test_labels_of_a_job_select_nodes_beside_those_of_the_engine() -> None:
    pods = replace(FULL, node_labels={"big": {"memory": "512"}, "a100": {"gpu": "a100", "disk": "nvme"}})
    job = replace(LARGE, need=replace(LARGE.need, labels=("a100",)))
    made = job_manifest(job, pods, AT)
    assert made["spec"]["template"]["spec"]["nodeSelector"] == {"disk": "nvme", "gpu": "a100"}
    kubernetes_validate.validate(made, VERSIONS[0], strict=True)


def test_a_job_runs_once_and_its_token_is_in_a_secret_that_goes_with_it() -> None:
    made = job_manifest(LARGE, FULL, AT)
    pod = made["spec"]["template"]["spec"]
    assert (made["spec"]["backoffLimit"], pod["restartPolicy"]) == (0, "Never")
    assert made["spec"]["ttlSecondsAfterFinished"] == 3600
    assert (made["spec"]["suspend"], made["metadata"]["labels"][QUEUE_LABEL]) == (True, "gpus")
    assert "activeDeadlineSeconds" not in {*pod, *made["spec"]}, "it would count the fetching of inputs"
    assert pod["nodeSelector"] == {"disk": "ssd"}
    [worker] = pod["containers"]
    assert worker["resources"] == {
        "requests": {"cpu": "4", "memory": "4096Mi", "nvidia.com/gpu": "2"},
        "limits": {"memory": "4096Mi", "nvidia.com/gpu": "2"},
    }
    [fetch] = pod["initContainers"]
    assert (fetch["command"][-1], worker["command"][-1]) == ("fetch", "run")
    assert AT.token not in str(made)
    secret = secret_manifest(LARGE, FULL, tokens_of(LARGE, lambda _: AT), "the uid")
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "the uid"
    assert worker["env"][-1]["valueFrom"]["secretKeyRef"] == {"name": LARGE.name, "key": "token"}
    assert secret["stringData"] == {"token": AT.token}


# ---------------------------------------------------------------------- what Kubernetes says


def a_job(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": JOB.name, "annotations": {FOLDER: JOB.folder}}, "spec": {}, "status": status}


def a_pod(phase: str, *containers: dict[str, Any], **status: Any) -> dict[str, Any]:
    states = [{"name": "worker", "state": one} for one in containers]
    return {"metadata": {}, "status": {"phase": phase, "containerStatuses": states, **status}}


NOT_SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: cpu"}


@pytest.mark.parametrize(("pod", "stage", "cause", "text"), [
    (a_pod("Running"), Stage.ALIVE, "", "Running"),
    (a_pod("Running", reason="NodeLost"), Stage.ENDED, "node_lost", "NodeLost"),
    (a_pod("Succeeded"), Stage.ENDED, "", "Succeeded"),
    (a_pod("Unknown"), Stage.UNKNOWN, "", "Unknown"),
    (a_pod("Rosy"), Stage.UNKNOWN, "", "Rosy"),
    (a_pod("Failed", {"terminated": {"reason": "OOMKilled", "exitCode": 137}}), Stage.ENDED, "out_of_memory",
     "OOMKilled in the container worker"),
    (a_pod("Failed", {"terminated": {"reason": "Error", "exitCode": 3}}), Stage.ENDED, "",
     "Error with exit code 3 in the container worker"),
    (a_pod("Failed", reason="Evicted", message="low on memory"), Stage.ENDED, "preempted", "Evicted"),
    (a_pod("Failed", reason="DeadlineExceeded"), Stage.ENDED, "timeout", "DeadlineExceeded"),
    (a_pod("Failed", reason="NodeLost"), Stage.ENDED, "node_lost", "NodeLost"),
    (a_pod("Failed", reason="Sunburnt"), Stage.ENDED, "", "Sunburnt"),
    (a_pod("Failed", conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]),
     Stage.ENDED, "preempted", "PreemptionByScheduler"),
    (a_pod("Pending", conditions=[NOT_SCHEDULED]), Stage.PENDING, "", "Unschedulable"),
    (a_pod("Pending"), Stage.PENDING, "", "Pending"),
    (a_pod("Pending", {"waiting": {"reason": "ContainerCreating"}}), Stage.PENDING, "", "Pending"),
    (a_pod("Pending", initContainerStatuses=[{"name": "fetch", "state": {"running": {}}}]), Stage.ALIVE, "", "fetches"),
    *((a_pod("Pending", {"waiting": {"reason": one}}), Stage.ENDED, "not_placed", f"{one}; ") for one in FATAL_WAITING),
    *((a_pod("Pending", {"waiting": {"reason": one}}), Stage.PENDING, "", one) for one in WAITING if WAITING[one]),
])  # fmt: skip
def test_what_a_pod_says(pod: dict[str, Any], stage: Stage, cause: str, text: str) -> None:
    found = listed(a_job(), [pod])
    assert (found.name, found.folder, found.stage, found.cause) == (JOB.name, JOB.folder, stage, cause)
    assert found.word.startswith(text)
    assert (found.waiting is not None) == (stage is Stage.PENDING)
    assert found.waiting is None or found.waiting.advice


@pytest.mark.parametrize(("job", "stage", "cause"), [
    (a_job(), Stage.PENDING, ""),
    (a_job(conditions=[{"type": "Complete", "status": "True"}]), Stage.ENDED, ""),
    (a_job(conditions=[{"type": "Complete", "status": "False"}]), Stage.PENDING, ""),
    (a_job(conditions=[{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]), Stage.ENDED, "timeout"),
    (a_job(conditions=[{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]), Stage.ENDED, ""),
    ({**a_job(), "spec": {"suspend": True}}, Stage.PENDING, ""),
])  # fmt: skip
def test_what_a_job_without_a_pod_says(job: dict[str, Any], stage: Stage, cause: str) -> None:
    found = listed(job, [])
    assert (found.stage, found.cause) == (stage, cause)


# ---------------------------------------------------------------------- requests that fail


class Broken:
    """An API where each request fails in this way."""

    def __init__(self, status: int) -> None:
        self.status = status

    def __getattr__(self, name: str) -> Any:
        def fails(*_: Any) -> None:
            raise ApiProblem(self.status, f"{name} failed")

        return fails


@pytest.mark.parametrize(("status", "taken"), [
    (400, Taken.REFUSED), (403, Taken.REFUSED), (404, Taken.REFUSED), (422, Taken.REFUSED), (401, Taken.NOT_REACHED),
    (429, Taken.NOT_REACHED), (500, Taken.NOT_REACHED), (503, Taken.NOT_REACHED), (0, Taken.NOT_REACHED),
])  # fmt: skip
def test_a_submission_is_repeated_unless_it_was_refused(status: int, taken: Taken) -> None:
    cluster = KubernetesCluster(Broken(status), "h", PODS, lambda _: AT)
    answer = cluster.submit(Placement("fate-flow-h-w", Path("/jobs/w"), (), Need(), 1.0))
    assert answer.taken is taken
    with pytest.raises(Unreadable):
        cluster.listing()
    cluster.cancel("fate-flow-h-w")


def test_a_name_that_kubernetes_does_not_take_is_refused() -> None:
    cluster = KubernetesCluster(Broken(0), "h", PODS, lambda _: AT)
    assert cluster.submit(Placement("Fate_Flow", Path("/jobs/w"), (), Need(), 1.0)).taken is Taken.REFUSED


def test_a_pod_that_waits_for_its_secret_is_recognised() -> None:
    assert waits_for_secret([a_pod("Pending", {"waiting": {"reason": "CreateContainerConfigError"}})])
    assert not waits_for_secret([a_pod("Pending", {"waiting": {"reason": "ImagePullBackOff"}}), a_pod("Running")])


# ---------------------------------------------------------------------- what an operator applies


DEPLOY = Path(__file__).parents[4] / "deploy" / "kubernetes"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifests_for_operators_are_valid_and_complete(version: str) -> None:
    kinds = []
    for folder in (DEPLOY, DEPLOY / "kueue", DEPLOY / "gangs"):
        listed_files = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
        files = {one.name for one in folder.glob("*.yaml") if one.name != "kustomization.yaml"}
        assert sorted(listed_files) == sorted(files)
        for name in listed_files:
            for found in yaml.safe_load_all((folder / name).read_text()):
                kinds.append(found["kind"])
                if found["kind"] != "AdmissionCheck":           # Kueue's
                    kubernetes_validate.validate(found, version, strict=True)
    assert {"Role", "RoleBinding", "ServiceAccount", "StatefulSet", "Service", "ConfigMap", "ClusterRole"} <= set(kinds)


def test_the_configuration_for_operators_is_one(tmp_path: Path) -> None:
    found = yaml.safe_load((DEPLOY / "conf.yaml").read_text())["data"]["service_conf.yaml"]
    (tmp_path / "service_conf.yaml").write_text(found)
    settings = load_settings(tmp_path / "service_conf.yaml")
    assert list(settings.engines) == ["local", "kubernetes"]
    assert settings.worker_listen is not None
    one = settings.engines["kubernetes"]
    assert isinstance(one, KubernetesSettings)
    assert (one.image, one.service_account, one.size.cores) == ("fate_flow", "fate-flow-worker", 16)


def test_a_partner_has_what_the_party_has_unless_it_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "service_conf.yaml"
    theirs = "partners: {'10000': {node_selector: {pool: guests}, priority_class: low}}"
    text = f"image: i, node_selector: {{pool: fl}}, kueue_queue: fate, {theirs}"
    path.write_text(f'party_id: "9999"\nengines: {{kubernetes: {{{text}}}}}\n')
    one = load_settings(path).engines["kubernetes"]
    assert isinstance(one, KubernetesSettings)
    assert one.own == PodShare({"pool": "fl"}, kueue_queue="fate")
    assert one.partners == {"10000": PodShare({"pool": "guests"}, kueue_queue="fate", priority_class="low")}


class Keeping:
    """An API that keeps the Jobs that are made."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []

    def create_job(self, _: str, manifest: dict[str, Any]) -> dict[str, Any]:
        self.jobs.append(manifest)
        return {"metadata": {"uid": "u"}}

    def __getattr__(self, name: str) -> Any:
        return lambda *_: {}


@pytest.mark.parametrize(("partner", "pool"), [("", "fl"), ("10000", "guests"), ("10001", "fl")])
def test_the_pods_of_a_partner_are_on_its_nodes(partner: str, pool: str) -> None:
    api = Keeping()
    own, theirs = replace(PODS, node_selector={"pool": "fl"}), replace(PODS, node_selector={"pool": "guests"})
    cluster = KubernetesCluster(api, "h", own, lambda _: AT, {"10000": theirs})
    placed = Placement(JOB.name, Path(JOB.folder), ("python3",), JOB.need, 10.0, partner)
    assert cluster.submit(placed).taken is Taken.ACCEPTED
    [made] = api.jobs
    assert made["spec"]["template"]["spec"]["nodeSelector"] == {"pool": pool}


@pytest.mark.parametrize(("text", "why"), [
    ("{}", "engines.kubernetes.image: is missing: the image of workers"),
    ("{image: i, volcano_queue: fl, gang_scheduler: none}",
     "engines.kubernetes.volcano_queue: 'fl' has no effect, since Volcano places no pods with "
     "engines.kubernetes.gang_scheduler 'none': leave it out"),
    ("{image: i, partners: {'10000': {volcano_queue: fl}}, gang_scheduler: coscheduling}",
     "engines.kubernetes.partners.10000.volcano_queue: 'fl' has no effect"),
    ("{image: i, volcano_queue: fl, scheduler: second}",
     "engines.kubernetes.gang_scheduler 'auto' and engines.kubernetes.scheduler 'second': leave it out"),
    ("{image: i, scheduler: second, gang_scheduler: volcano}",
     "engines.kubernetes.scheduler: 'second' would place the pods instead of Volcano, which "
     "engines.kubernetes.gang_scheduler names: set one of both"),
    ("{image: i, pull_policy: Sometimes}", "pull_policy: 'Sometimes' is not one of IfNotPresent, Always, Never"),
    ("{image: i, namespace: My_Space}", "namespace: 'My_Space' is not a name of Kubernetes"),
    ("{image: i, pull_secrets: registry}", "pull_secrets: 'registry' is not a list of names"),
    ("{image: i, partners: {bank: {}}}", "partners.bank: is not the id of a party"),
    ("{image: i, partners: {'10000': {image: j}}}", "partners.10000.image: no such key"),
    ("{image: i, labels: {big: ssd}}", "labels.big: 'ssd' is not a mapping of labels to texts"),
    ("{image: i, labels: {big: {}}}", "labels.big: names no label of nodes"),
    ("{image: i, node_selector: [ssd]}", "node_selector: .* is not a mapping of labels to texts"),
    ("{image: i, tolerations: [x]}", "tolerations: .* is not a list of tolerations"),
    ("{image: i, imgae: j}", "engines.kubernetes.imgae: no such key"),
])  # fmt: skip
def test_what_is_wrong_in_the_section_is_named(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "service_conf.yaml"
    path.write_text(f'party_id: "9999"\nengines: {{kubernetes: {text}}}\n')
    with pytest.raises(BadSettings, match=why):
        load_settings(path)


def test_the_role_allows_what_the_engine_asks_and_nothing_else() -> None:
    documents = list(yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text()))
    [role] = [one for one in documents if one["kind"] == "Role"]
    allowed = {(group, kind): set(rule["verbs"]) for rule in role["rules"] for group in rule["apiGroups"]
               for kind in rule["resources"]}
    assert allowed == {
        ("batch", "jobs"): {"create", "get", "list", "delete"}, ("", "pods"): {"list", "delete"},
        ("", "secrets"): {"create"},
    }
