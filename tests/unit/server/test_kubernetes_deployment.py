"""A server that runs in Kubernetes: what kustomize makes of the overlay in the guide, and the namespace of its Jobs."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPResponse, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from fate_flow.api.http.client_auth import OF_PARTIES
from fate_flow.core.model.errors import BadSettings
from fate_flow.server.engines import kubernetes_workers
from fate_flow.settings.engines.kubernetes import KubernetesSettings
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings
from tests.kit.engines.custom_schemas import problems_of
from tests.kit.tls import Authority
from tests.kit.waiting import eventually

CHECKOUT = Path(__file__).parents[3]
KUSTOMIZE, NGINX = "FATE_FLOW_TEST_KUSTOMIZE", "FATE_FLOW_TEST_NGINX"
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
    container = server_of(rendered)
    assert container["image"] == IMAGE
    assert ("ServiceAccount", pod["spec"]["serviceAccountName"]) in rendered
    mounts = {one["name"]: Path(one["mountPath"]) for one in container["volumeMounts"]}
    assert mounts["home"] == settings.home
    assert Path(container["command"][-1]).parent == mounts["conf"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert settings.worker_listen is not None
    [port] = service["spec"]["ports"]
    assert settings.worker_listen.address == f"{service['metadata']['name']}:{port['port']}"
    assert settings.worker_listen.port == ports_of(container)[port["targetPort"]]


def server_of(rendered: dict[tuple[str, str], Object], name: str = "server") -> Object:
    """The container of this name in the pod of the server."""
    containers = rendered["StatefulSet", "fate-flow"]["spec"]["template"]["spec"]["containers"]
    [found] = [one for one in containers if one["name"] == name]
    return dict(found)


def ports_of(container: Object) -> dict[str, int]:
    return {one["name"]: one["containerPort"] for one in container["ports"]}


def test_other_parties_reach_their_listener_and_nobody_reaches_the_port_of_clients(
    rendered: dict[tuple[str, str], Object], tmp_path: Path
) -> None:
    pod, settings = rendered["StatefulSet", "fate-flow"]["spec"]["template"], conf_of(rendered, tmp_path)
    ports = ports_of(server_of(rendered))
    service = rendered["Service", "fate-flow-parties"]["spec"]
    assert service["selector"].items() <= pod["metadata"]["labels"].items()
    assert settings.parties_listen is not None
    assert [ports[one["targetPort"]] for one in service["ports"]] == [settings.parties_listen.port]
    assert (settings.host, settings.http_port in ports.values()) == ("127.0.0.1", False)


def test_clients_come_by_a_name_of_the_server_to_nginx(rendered: dict[tuple[str, str], Object], tmp_path: Path) -> None:
    service, container = rendered["Service", "fate-flow"], server_of(rendered, "clients")
    [port] = service["spec"]["ports"]
    assert port["targetPort"] in ports_of(container)
    assert f"fate-flow.{service['metadata']['namespace']}.svc" in conf_of(rendered, tmp_path).allowed_hosts
    volumes = {one["name"] for one in rendered["StatefulSet", "fate-flow"]["spec"]["template"]["spec"]["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} <= volumes


@pytest.mark.parametrize("name", ["fate-flow-workers", "fate-flow-parties"])
def test_a_server_that_takes_no_new_jobs_is_reached_for_those_that_run(
    rendered: dict[tuple[str, str], Object], name: str
) -> None:
    assert rendered["Service", name]["spec"]["publishNotReadyAddresses"] is True


@pytest.mark.parametrize(("probe", "path"), [
    ("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz"),
])  # fmt: skip
def test_the_container_asks_its_server_how_it_is(
    rendered: dict[tuple[str, str], Object], probe: str, path: str, tmp_path: Path
) -> None:
    container = server_of(rendered)
    python, *command = container[probe]["exec"]["command"]
    said: list[tuple[str, int]] = []

    def asked(port: int) -> int:
        of_server = f'"127.0.0.1", {conf_of(rendered, tmp_path).http_port}'
        assert of_server in command[1]
        here = [one.replace(of_server, f'"127.0.0.1", {port}') for one in command]
        return subprocess.run([sys.executable, *here], check=False, timeout=60, capture_output=True).returncode

    assert python == "python3"
    for status, code in ((200, 0), (503, 1)):
        with answering(status, said) as port:
            assert asked(port) == code
    assert said == [(path, 200), (path, 503)]
    assert asked(port) == 1, "nobody listens there any more"


@contextmanager
def answering(status: int, said: list[tuple[str, int]]) -> Iterator[int]:
    """Yield the port of a server that answers everything with this status, and the key that signs the request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said.append((self.path, status))
            self.send_response(status)
            self.send_header("Signed-With", self.headers.get("APP_KEY", ""))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_the_keys_of_the_party_are_made_once(rendered: dict[tuple[str, str], Object], tmp_path: Path) -> None:
    settings = conf_of(rendered, tmp_path)
    [container] = rendered["StatefulSet", "fate-flow"]["spec"]["template"]["spec"]["initContainers"]
    conf = tmp_path / "service_conf.yaml"
    conf.write_text(conf.read_text("utf-8").replace(str(settings.home), f"{tmp_path}/home"), "utf-8")
    shim = tmp_path / "fate_flow"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fate_flow.cli.server.main "$@"\n', "utf-8")
    shim.chmod(0o755)
    *shell, script = container["command"]
    # Relative, since the path of a test may have spaces, which those of the pod do not have.
    script = script.replace(str(settings.home), "home").replace("/etc/fate_flow/", "")
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(CHECKOUT)}
    made = []
    for _ in range(2):
        subprocess.run([*shell, script], check=True, env=env, cwd=tmp_path, capture_output=True, timeout=180)
        made.append((tmp_path / "home" / "keys" / "tls.pem").read_bytes())
    assert made[0] == made[1]


NOT_FOR_CLIENTS = (
    *(f"{path}x" for path in OF_PARTIES), "/v1/./party/x", "/v1//exchange/x", "/v1/%70arty/x", "/v1/x/../party/list/x",
)  # fmt: skip


@pytest.mark.parametrize(("path", "status"), [
    *((path, 403) for path in NOT_FOR_CLIENTS), ("/v1/party/list", 200), ("/v1/job/submit", 200), ("/board/", 200),
    ("/v1/partyx/x", 200),
])  # fmt: skip
def test_clients_reach_with_tls_what_is_not_for_other_parties(clients: Clients, path: str, status: int) -> None:
    clients.said.clear()
    answer = clients.get(path)
    assert (answer.status, answer.headers["Signed-With"]) == (status, "k" if status == 200 else None)
    assert [one for one, _ in clients.said] == ([path] if status == 200 else [])


@dataclass
class Clients:
    """nginx with the configuration of the overlay; `said`: the paths that it has passed on, and their answers."""

    port: int
    context: ssl.SSLContext
    said: list[tuple[str, int]]

    def get(self, path: str) -> HTTPResponse:
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=30, context=self.context)
        connection.request("GET", path, headers={"Host": "fate-flow.federated.svc", "APP_KEY": "k"})
        return connection.getresponse()

    def answers(self) -> bool:
        with suppress(OSError):
            return self.get("/").status == 200
        return False


@pytest.fixture(scope="module")
def clients(
    rendered: dict[tuple[str, str], Object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clients]:  # fmt: skip
    nginx, tmp_path = os.environ.get(NGINX), tmp_path_factory.mktemp("nginx")
    if not nginx:
        pytest.skip(f"{NGINX} names no nginx (bin/test gets one)")
    container, settings = server_of(rendered, "clients"), conf_of(rendered, tmp_path)
    [port] = ports_of(container).values()
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    program, *options, conf = container["command"]
    authority = Authority(tmp_path)
    authority.server_context()
    for name in ("tls.crt", "tls.key"):                      # the certificate and the key are in one file
        shutil.copy(tmp_path / "server.pem", tmp_path / name)
    found: list[tuple[str, int]] = []
    with answering(200, found) as of_server, socket.socket() as holder:
        # The port is held, and nobody listens there: no other process gets it before nginx does.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        mine = holder.getsockname()[1]
        text = rendered["ConfigMap", "fate-flow-clients"]["data"][Path(conf).name]
        for there, here in (
            # Relative, since the path of a test may have spaces, which those of the pod do not have.
            (f"{mounts['clients-tmp']}/", ""), (f"{mounts['clients-tls']}/", ""),
            (f"listen {port} ", f"listen 127.0.0.1:{mine} "),
            (f"http://127.0.0.1:{settings.http_port};", f"http://127.0.0.1:{of_server};"),
        ):  # fmt: skip
            assert there in text
            text = text.replace(there, here)
        (tmp_path / "nginx.conf").write_text(text, "utf-8")
        assert (program, Path(conf).parent) == ("nginx", Path(mounts["clients-conf"]))
        context = ssl.create_default_context(cafile=str(authority.file))
        command = [nginx, "-p", f"{tmp_path}/", *options, "nginx.conf"]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            world = Clients(mine, context, found)
            try:
                eventually(world.answers, "nginx")
                yield world
            finally:
                process.terminate()


def test_the_base_has_the_ports_of_the_overlay(rendered: dict[tuple[str, str], Object], tmp_path: Path) -> None:
    base = yaml.safe_load((CHECKOUT / "deploy" / "kubernetes" / "conf.yaml").read_text("utf-8"))
    of_base, of_overlay = conf_of({("ConfigMap", "fate-flow"): base}, tmp_path), conf_of(rendered, tmp_path)
    assert of_base.worker_listen == of_overlay.worker_listen
    assert of_base.parties_listen == of_overlay.parties_listen
    assert (of_base.home, of_base.http_port) == (of_overlay.home, of_overlay.http_port)


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
