"""The PodGroups of gangs: which scheduler places them, what they say, when they are made and deleted."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kubernetes_validate
import pytest
from kubernetes import client

from fate_flow.core.model.resources import Need
from fate_flow.engines.kubernetes.api import ClientApi
from fate_flow.engines.kubernetes.cluster import KubernetesCluster
from fate_flow.engines.kubernetes.gangs import (
    COSCHEDULING,
    GANG_LABEL,
    SCHEDULERS,
    VOLCANO,
    GangScheduler,
)
from fate_flow.engines.kubernetes.manifests import PodSettings
from fate_flow.engines.kubernetes.problem import ApiProblem
from fate_flow.engines.placed.cluster import Gang, Listed, Placement, Submission, Taken
from fate_flow.settings.engines.kubernetes import GANG_SCHEDULERS
from tests.kit.engines.custom_schemas import SCHEMAS, problems_of

GANG = Gang("ab" * 16, 3)
NAME = f"fate-flow-h-g{GANG.name}"
PODS = PodSettings("i", namespace="fate")
VERSIONS = {f"{one.group}/{one.version}": one for one in SCHEDULERS}
NEED = Need(2, 512, gpus=1)


@dataclass
class FakeApi:
    """The requests of the engine, of a cluster that offers these PodGroups."""

    offers: tuple[GangScheduler, ...] = ()
    allows: tuple[GangScheduler, ...] = SCHEDULERS
    fails: dict[str, int] = field(default_factory=dict)              # the status with which a request fails
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: list[dict[str, Any]] = field(default_factory=list)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)            # by API group, with which status
    asked: list[str] = field(default_factory=list)

    def offers_pod_groups(self, group: str, version: str) -> bool:
        self._ask("offers")
        return any((one.group, one.version) == (group, version) for one in self.offers)

    def may_keep_pod_groups(self, namespace: str, group: str) -> bool:
        self._ask("may make")
        assert namespace == "fate"
        return any(one.group == group for one in self.allows)

    def create_pod_group(self, namespace: str, group: str, version: str, manifest: dict[str, Any]) -> None:
        self._ask("create group")
        if group in self.refused:
            raise ApiProblem(self.refused[group], "the group is refused")
        assert (manifest["apiVersion"], manifest["metadata"]["namespace"]) == (f"{group}/{version}", namespace)
        assert problems_of(manifest) == []
        if manifest["metadata"]["name"] in self.groups:
            raise ApiProblem(409, "exists")
        self.groups[manifest["metadata"]["name"]] = manifest

    def list_pod_groups(self, namespace: str, group: str, version: str, selector: str) -> list[dict[str, Any]]:
        self._ask("list groups")
        key, _, value = selector.partition("=")
        return [one for one in self.groups.values() if one["metadata"]["labels"][key] == value]

    def delete_pod_group(self, namespace: str, group: str, version: str, name: str) -> None:
        self._ask("delete group")
        del self.groups[name]

    def create_job(self, _: str, manifest: dict[str, Any]) -> dict[str, Any]:
        self._ask("create job")
        kubernetes_validate.validate(manifest, "1.33", strict=True)
        manifest["metadata"]["uid"] = "u"
        self.jobs[manifest["metadata"]["name"]] = manifest
        return manifest

    def list_jobs(self, *_: str) -> list[dict[str, Any]]:
        return list(self.jobs.values())

    def list_pods(self, *_: str) -> list[dict[str, Any]]:
        return self.pods

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what in self.fails:
            raise ApiProblem(self.fails[what], "no")


@dataclass
class Clock:
    at: float = 0.0

    def __call__(self) -> float:
        return self.at


def a_cluster(api: Any, choice: str = "auto", now: Clock | None = None, **pods: Any) -> KubernetesCluster:
    return KubernetesCluster(api, "h", replace(PODS, **pods), None, gang_scheduler=choice, now=now or Clock())


def placement(number: int = 0, gang: Gang | None = GANG) -> Placement:
    return Placement(f"fate-flow-h-{number}", Path(f"/jobs/{number}"), ("run",), NEED, 1.0, gang=gang)


def placed(api: FakeApi, cluster: KubernetesCluster, count: int = GANG.size) -> None:
    for number in range(count):
        assert cluster.submit(placement(number)) == Submission(Taken.ACCEPTED)


def has_ended(api: FakeApi, number: int) -> None:
    api.jobs[f"fate-flow-h-{number}"]["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}


def seen(cluster: KubernetesCluster) -> Listed:
    return next(one for one in cluster.listing() if one.name == "fate-flow-h-0")


# ---------------------------------------------------------------------- which scheduler


@pytest.mark.parametrize(("choice", "offers", "allows", "is_used"), [
    ("auto", (), SCHEDULERS, ""),
    ("auto", SCHEDULERS, SCHEDULERS, "scheduling.volcano.sh/v1beta1"),
    ("auto", SCHEDULERS, (COSCHEDULING,), "scheduling.x-k8s.io/v1alpha1"),
    ("auto", (COSCHEDULING,), SCHEDULERS, "scheduling.x-k8s.io/v1alpha1"),
    ("auto", SCHEDULERS, (), ""),
    ("none", SCHEDULERS, SCHEDULERS, ""),
    ("volcano", (), (), "scheduling.volcano.sh/v1beta1"),
    ("coscheduling", SCHEDULERS, SCHEDULERS, "scheduling.x-k8s.io/v1alpha1"),
])  # fmt: skip
def test_which_scheduler_places_a_gang(
    choice: str, offers: tuple[GangScheduler, ...], allows: tuple[GangScheduler, ...], is_used: str
) -> None:
    api = FakeApi(offers, allows)
    placed(api, a_cluster(api, choice))
    assert {one["apiVersion"] for one in api.groups.values()} == ({is_used} if is_used else set())
    pod = api.jobs["fate-flow-h-0"]["spec"]["template"]
    meta = {**pod["metadata"]["annotations"], **pod["metadata"]["labels"]}
    expected = {VOLCANO.annotation: NAME} if "volcano" in is_used else {COSCHEDULING.label: NAME} if is_used else {}
    assert {key: value for key, value in meta.items() if key in (VOLCANO.annotation, COSCHEDULING.label)} == expected
    assert pod["spec"].get("schedulerName") == ("volcano" if "volcano" in is_used else None)


def test_the_words_of_the_configuration_are_the_schedulers() -> None:
    assert ("auto", "none", *(one.word for one in SCHEDULERS)) == GANG_SCHEDULERS
    assert {version for version, kind in SCHEMAS if kind == "PodGroup"} == VERSIONS.keys()


@pytest.mark.parametrize("gang", [None, GANG])
@pytest.mark.parametrize("what", ["offers", "may make"])
def test_a_cluster_that_does_not_say_what_it_has_or_allows_places_workers_one_by_one(
    what: str, gang: Gang | None
) -> None:
    api = FakeApi(SCHEDULERS, fails={what: 403})
    assert a_cluster(api).submit(placement(gang=gang)) == Submission(Taken.ACCEPTED)
    [job] = api.jobs.values()
    assert "schedulerName" not in job["spec"]["template"]["spec"]
    assert api.groups == {}


@pytest.mark.parametrize("status", [0, 401, 403, 503])
def test_a_worker_without_a_gang_is_placed_whoever_places_gangs(status: int) -> None:
    api = FakeApi((VOLCANO,), fails={"offers": status})
    assert a_cluster(api).submit(placement(gang=None)) == Submission(Taken.ACCEPTED)
    api = FakeApi((VOLCANO,), fails={"may make": status})
    assert a_cluster(api).submit(placement(gang=None)) == Submission(Taken.ACCEPTED)


@pytest.mark.parametrize(("status", "offers", "allows", "is_used"), [
    (403, SCHEDULERS, (), ""),
    (404, (), SCHEDULERS, ""),
    (403, SCHEDULERS, (COSCHEDULING,), "scheduling.x-k8s.io/v1alpha1"),
])  # fmt: skip
def test_auto_looks_again_when_rights_or_the_kind_are_taken_away(
    status: int, offers: tuple[GangScheduler, ...], allows: tuple[GangScheduler, ...], is_used: str
) -> None:
    api = FakeApi(SCHEDULERS)
    cluster = a_cluster(api)
    placed(api, cluster)
    api.groups.clear()
    api.offers, api.allows = offers, allows
    api.refused = {VOLCANO.group: status}
    placed(api, cluster)
    assert [one["apiVersion"] for one in api.groups.values()] == ([is_used] if is_used else [])


@pytest.mark.parametrize("choice", ["auto", "volcano"])
def test_what_a_webhook_says_of_a_group_is_in_the_log_and_the_next_gang_is_placed(
    choice: str, caplog: pytest.LogCaptureFixture
) -> None:
    api = FakeApi((VOLCANO,), refused={VOLCANO.group: 403})
    cluster = a_cluster(api, choice)
    assert cluster.submit(placement()) == Submission(Taken.REFUSED, "status 403")
    assert "PodGroup of volcano: the group is refused: if the account" in caplog.text
    api.refused = {}
    placed(api, cluster)
    assert NAME in api.groups


@pytest.mark.parametrize("status", [0, 401, 503])
def test_a_worker_waits_while_nobody_can_say_which_scheduler_there_is(status: int) -> None:
    api = FakeApi((VOLCANO,), fails={"offers": status})
    cluster = a_cluster(api)
    assert cluster.submit(placement()).taken is Taken.NOT_REACHED
    assert api.jobs == {}
    api.fails = {}
    placed(api, cluster)
    assert NAME in api.groups


# ---------------------------------------------------------------------- what is made


@pytest.mark.parametrize(("scheduler", "more"), [
    (VOLCANO, {"queue": "fl", "priorityClassName": "low"}), (COSCHEDULING, {}),
])  # fmt: skip
def test_a_group_is_made_once_and_before_the_first_job(scheduler: GangScheduler, more: dict[str, str]) -> None:
    api = FakeApi((scheduler,))
    placed(api, a_cluster(api, volcano_queue="fl", priority_class="low"))
    assert [one for one in api.asked if one.startswith("create")][:2] == ["create group", "create job"]
    [group] = api.groups.values()
    least = {"cpu": "6", "memory": "1536Mi", "nvidia.com/gpu": "3"}
    assert group["spec"] == {"minMember": 3, "minResources": least, **more}
    assert {one["metadata"]["labels"][GANG_LABEL] for one in api.jobs.values()} == {NAME}


def test_a_worker_without_a_gang_has_no_group_and_volcano_places_it_in_its_queue() -> None:
    api = FakeApi((VOLCANO,))
    assert a_cluster(api, volcano_queue="fl").submit(placement(gang=None)).taken is Taken.ACCEPTED
    [job] = api.jobs.values()
    pod = job["spec"]["template"]
    assert (api.groups, pod["spec"]["schedulerName"]) == ({}, "volcano")
    assert pod["metadata"]["annotations"][VOLCANO.queue_annotation] == "fl"
    assert GANG_LABEL not in job["metadata"]["labels"]


def test_the_configured_scheduler_is_that_of_all_pods() -> None:
    api = FakeApi((COSCHEDULING,))
    cluster = a_cluster(api, "coscheduling", scheduler="second")
    placed(api, cluster, 1)
    assert NAME in api.groups
    assert cluster.submit(placement(1, None)).taken is Taken.ACCEPTED
    assert {one["spec"]["template"]["spec"]["schedulerName"] for one in api.jobs.values()} == {"second"}


@pytest.mark.parametrize("offers", SCHEDULERS)
def test_auto_makes_no_group_that_the_configured_scheduler_may_not_look_at(offers: GangScheduler) -> None:
    api = FakeApi((offers,))
    cluster = a_cluster(api, scheduler="other")
    placed(api, cluster)
    assert len(cluster.listing()) == GANG.size
    assert (api.groups, set(api.asked)) == ({}, {"create job"})
    template = api.jobs["fate-flow-h-0"]["spec"]["template"]
    assert template["spec"]["schedulerName"] == "other"
    assert VOLCANO.annotation not in template["metadata"]["annotations"]
    assert COSCHEDULING.label not in template["metadata"]["labels"]


@pytest.mark.parametrize(("status", "taken"), [
    (403, Taken.REFUSED), (404, Taken.REFUSED), (422, Taken.REFUSED), (503, Taken.NOT_REACHED), (0, Taken.NOT_REACHED),
])  # fmt: skip
def test_no_worker_of_a_gang_is_placed_without_its_group(
    status: int, taken: Taken, caplog: pytest.LogCaptureFixture
) -> None:
    api = FakeApi(fails={"create group": status})
    assert a_cluster(api, "volcano").submit(placement()).taken is taken
    assert api.jobs == {}
    assert ("apply deploy/kubernetes/gangs, or set gang_scheduler" in caplog.text) == (status == 403)
    assert ("install its scheduler, or set gang_scheduler" in caplog.text) == (status == 404)


# ---------------------------------------------------------------------- when it is deleted, and made again


def test_a_group_goes_when_the_last_job_of_its_gang_has_ended() -> None:
    api = FakeApi((VOLCANO,))
    cluster = a_cluster(api)
    placed(api, cluster)
    for number in range(GANG.size):
        for _ in range(3):
            cluster.listing()
        assert NAME in api.groups
        has_ended(api, number)
    cluster.listing()
    assert NAME in api.groups, "a Job that is being made now may not be in this listing"
    cluster.listing()
    assert api.groups == {}
    cluster.listing()
    api.asked.clear()
    cluster.listing()
    assert api.asked == [], "while there is no gang, there is one list less"


def test_a_new_server_deletes_what_an_earlier_one_has_left_and_nothing_of_others() -> None:
    api = FakeApi((VOLCANO,))
    placed(api, a_cluster(api))
    api.jobs.clear()
    foreign = json.loads(json.dumps(api.groups[NAME]).replace("-h-g", "-x-g").replace('"h"', '"x"'))
    api.groups["foreign"] = foreign
    cluster = a_cluster(api)
    for _ in range(3):
        cluster.listing()
    assert list(api.groups) == ["foreign"]


def test_a_group_whose_job_was_refused_goes_a_minute_later_also_in_another_process() -> None:
    api, clock = FakeApi((VOLCANO,)), Clock()
    lists, submits = a_cluster(api, now=clock), a_cluster(api)
    assert lists.listing() == []
    api.fails = {"create job": 403}
    assert submits.submit(placement()).taken is Taken.REFUSED
    lists.listing()
    assert NAME in api.groups, "the PodGroups are not listed each time while there is no gang"
    clock.at = 61.0
    for _ in range(2):
        lists.listing()
    assert api.groups == {}
    assert [one for one in api.asked if "list" in one] == ["list groups"] * 3


@pytest.mark.parametrize("what", ["list groups", "delete group"])
def test_the_log_says_once_that_groups_cannot_be_kept_and_once_that_they_can(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    api, clock = FakeApi((VOLCANO,)), Clock()
    placed(api, a_cluster(api))
    api.jobs.clear()
    cluster = a_cluster(api, "volcano", clock)

    def said_in_listings() -> list[str]:
        caplog.clear()
        for _ in range(5):
            clock.at += 61.0
            cluster.listing()
        return [one.getMessage() for one in caplog.records if "made again" in one.getMessage()]

    api.fails = {what: 403}
    cannot = "Kubernetes: PodGroups cannot be listed, made again or deleted now: PodGroup of volcano: no: "
    [said] = said_in_listings()
    assert said.startswith(f"{cannot}if the account of the server lacks the right, apply deploy/kubernetes/gangs")
    api.fails = {what: 404 if what == "list groups" else 500}
    assert len(said_in_listings()) == 1, "the reason is another one"
    api.fails = {}
    assert said_in_listings() == ["Kubernetes: PodGroups can be listed, made again and deleted again"]
    assert (said_in_listings(), api.groups) == ([], {})


@pytest.mark.parametrize("without", ["create", "list", "delete"])
def test_the_account_has_to_have_all_rights_that_groups_need(
    without: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }))  # fmt: skip
    lacking = {without}

    def review(_: object, body: dict[str, Any], **__: object) -> SimpleNamespace:
        asked = body["spec"]["resourceAttributes"]
        assert (asked["namespace"], asked["group"], asked["resource"]) == ("fate", VOLCANO.group, "podgroups")
        return SimpleNamespace(data=json.dumps({"status": {"allowed": asked["verb"] not in lacking}}))

    monkeypatch.setattr(client.AuthorizationV1Api, "create_self_subject_access_review", review)
    api = ClientApi(kubeconfig, "")
    assert not api.may_keep_pod_groups("fate", VOLCANO.group)
    lacking.clear()
    assert api.may_keep_pod_groups("fate", VOLCANO.group)


def test_auto_looks_again_when_groups_cannot_be_listed_any_more() -> None:
    api = FakeApi((VOLCANO,))
    cluster = a_cluster(api)
    placed(api, cluster)
    api.offers, api.fails = (), {"list groups": 404}
    for _ in range(3):
        assert len(cluster.listing()) == GANG.size
    api.asked.clear()
    cluster.listing()
    assert api.asked == []


def test_a_group_that_somebody_has_deleted_is_made_again_as_it_was() -> None:
    api = FakeApi((COSCHEDULING,))
    placed(api, a_cluster(api))
    spec = api.groups.pop(NAME)["spec"]
    a_cluster(api).listing()
    assert api.groups[NAME]["spec"] == spec


def test_jobs_are_listed_while_groups_cannot_be() -> None:
    api = FakeApi((VOLCANO,))
    cluster = a_cluster(api)
    placed(api, cluster)
    api.fails = {"list groups": 503}
    assert len(cluster.listing()) == GANG.size
    assert NAME in api.groups


# ---------------------------------------------------------------------- why it waits


def a_pod(**spec: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "node-7 is full"}
    return {"metadata": {"labels": {"fate-flow/worker": "0"}}, "spec": spec,
            "status": {"phase": "Pending", "conditions": [condition]}}


SHORT = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "node-7 is full"}


@pytest.mark.parametrize(("scheduler", "status", "text"), [
    (VOLCANO, {}, "waits in Volcano until its queue has capacity for all 3 workers of its gang"),
    (VOLCANO, {"phase": "Pending", "conditions": [SHORT]},
     "waits in Volcano until its queue has capacity for all 3 workers of its gang"),
    (VOLCANO, {"phase": "Inqueue", "conditions": [SHORT]},
     "waits in Volcano for nodes for all 3 workers of its gang: NotEnoughResources"),
    (VOLCANO, {"phase": "Inqueue"}, "waits in Volcano for nodes for all 3 workers of its gang: Unschedulable"),
    (COSCHEDULING, {"phase": "Pending"},
     "waits in Kubernetes for nodes for all 3 workers of its gang: Unschedulable"),
])  # fmt: skip
def test_people_read_for_what_a_gang_waits(scheduler: GangScheduler, status: dict[str, Any], text: str) -> None:
    api = FakeApi((scheduler,))
    cluster = a_cluster(api)
    placed(api, cluster)
    api.groups[NAME]["status"] = status
    api.pods = [a_pod()]
    waiting = seen(cluster).waiting
    assert waiting is not None
    assert (waiting.kind, waiting.text) == ("resources", text)
    assert waiting.advice.startswith("kubectl describe ")


def test_a_pod_with_a_node_says_itself_why_it_waits() -> None:
    api = FakeApi((VOLCANO,))
    cluster = a_cluster(api)
    placed(api, cluster)
    api.pods = [a_pod(nodeName="node-7")]
    api.pods[0]["status"] = {"phase": "Pending", "containerStatuses": [
        {"name": "worker", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
    ]}  # fmt: skip
    waiting = seen(cluster).waiting
    assert waiting is not None
    assert waiting.text == "waits in Kubernetes: ImagePullBackOff"
