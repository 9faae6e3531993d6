"""A server that runs in Kubernetes: what kustomize makes of the overlay in the guide, and the namespace of its Jobs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from fate_flow.core.model.errors import BadSettings
from fate_flow.server.engines import kubernetes_workers
from fate_flow.settings.engines.kubernetes import KubernetesSettings
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings
from tests.kit.engines.custom_schemas import problems_of

CHECKOUT = Path(__file__).parents[3]
KUSTOMIZE = "FATE_FLOW_TEST_KUSTOMIZE"
IMAGE = "registry.bank.example/fate_flow:1.12"
OTHERS = {"AdmissionCheck"}                  # kinds that Kubernetes does not publish
SPACELESS = {"ClusterRole", "ClusterRoleBinding"}
"""kustomize does not know that an AdmissionCheck is of no namespace; an API server removes what it writes there."""

Object = dict[str, Any]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Object]:
    """The objects of the overlay, by kind and name."""
    program = os.environ.get(KUSTOMIZE)
    if not program:
        pytest.skip(f"{KUSTOMIZE} names no kustomize (bin/test gets one)")
    overlay = tmp_path_factory.mktemp("overlay")
    shutil.copytree(CHECKOUT / "deploy" / "kubernetes", overlay / "kubernetes")
    guide = (CHECKOUT / "docs" / "guides" / "kubernetes.md").read_text("utf-8")
    [text] = [one for one in re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL) if "kind: Kustomization" in one]
    (overlay / "kustomization.yaml").write_text(text, "utf-8")
    done = subprocess.run(
        [program, "build", str(overlay)], capture_output=True, text=True, check=False, timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": str(overlay)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(done.stdout)}


def conf_of(rendered: dict[tuple[str, str], Object], folder: Path) -> Settings:
    path = folder / "service_conf.yaml"
    path.write_text(rendered["ConfigMap", "fate-flow"]["data"]["service_conf.yaml"], "utf-8")
    return load_settings(path)


@pytest.mark.parametrize("version", ["1.29", "1.33", "1.36"])
def test_what_is_applied_is_what_the_published_schemas_ask_for(
    rendered: dict[tuple[str, str], Object], version: str
) -> None:
    for (kind, _), found in rendered.items():
        if kind in OTHERS:
            assert problems_of(found) == []
        else:
            kubernetes_validate.validate(found, version, strict=True)
    assert {kind for kind, _ in rendered} == {
        "AdmissionCheck", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Role", "RoleBinding", "Service",
        "ServiceAccount", "StatefulSet",
    }  # fmt: skip


def test_all_is_in_the_namespace_of_the_overlay(rendered: dict[tuple[str, str], Object]) -> None:
    spaces = {kind: found["metadata"].get("namespace") for (kind, _), found in rendered.items()}
    assert {kind for kind, space in spaces.items() if space != "federated"} == SPACELESS
    bindings = [found for (kind, _), found in rendered.items() if kind.endswith("RoleBinding")]
    subjects = [one for found in bindings for one in found["subjects"]]
    assert [(one["name"], one["namespace"]) for one in subjects] == [("fate-flow", "federated")] * len(bindings)
    roles = {(found["roleRef"]["kind"], found["roleRef"]["name"]) for found in bindings}
    assert roles == {(kind, name) for kind, name in rendered if kind in ("Role", "ClusterRole")}


def test_the_server_has_what_its_pod_names(rendered: dict[tuple[str, str], Object], tmp_path: Path) -> None:
    server, service = rendered["StatefulSet", "fate-flow"], rendered["Service", "fate-flow-workers"]
    settings = conf_of(rendered, tmp_path)
    pod = server["spec"]["template"]
    [container] = pod["spec"]["containers"]
    assert container["image"] == IMAGE
    assert ("ServiceAccount", pod["spec"]["serviceAccountName"]) in rendered
    mounts = {one["name"]: Path(one["mountPath"]) for one in container["volumeMounts"]}
    assert mounts["home"] == settings.home
    assert Path(container["command"][-1]).parent == mounts["conf"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert settings.worker_listen is not None
    [port] = service["spec"]["ports"]
    assert settings.worker_listen.address == f"{service['metadata']['name']}:{port['port']}"
    assert settings.worker_listen.port == container["ports"][0]["containerPort"]


def test_workers_have_the_image_and_the_account_of_the_overlay(
    rendered: dict[tuple[str, str], Object], tmp_path: Path
) -> None:
    one = conf_of(rendered, tmp_path).engines["kubernetes"]
    assert isinstance(one, KubernetesSettings)
    assert (one.image, one.namespace) == (IMAGE, "")
    assert ("ServiceAccount", one.service_account) in rendered


# ---------------------------------------------------------------------- the namespace of Jobs


@pytest.mark.parametrize(("one", "space"), [
    (KubernetesSettings("engines.k", namespace="fate"), "fate"),
    (KubernetesSettings("engines.k", kubeconfig=Path("/kubeconfig")), "default"),
    (KubernetesSettings("engines.k"), "federated"),
])  # fmt: skip
def test_jobs_are_where_the_server_is(
    one: KubernetesSettings, space: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "namespace").write_text("federated\n", "utf-8")
    monkeypatch.setattr(kubernetes_workers, "NAMESPACE", tmp_path / "namespace")
    assert kubernetes_workers.namespace_of(one) == space


def test_a_server_that_is_no_pod_has_to_say_where_its_jobs_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_workers, "NAMESPACE", tmp_path / "namespace")
    with pytest.raises(BadSettings, match=r"engines\.k\.namespace: is missing, and .*/namespace cannot be read"):
        kubernetes_workers.namespace_of(KubernetesSettings("engines.k"))
