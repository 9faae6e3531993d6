"""A real Kubernetes of a test: etcd, an API server, and controllers for Jobs, garbage and ended Jobs.

The programs are those of `bin/_kubernetes.py`. It has no scheduler and no kubelet: a test says how a pod is (`play`),
or `kubelet.py` runs its containers. What the API answers, whom it refuses and what the controllers do is Kubernetes.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import requests
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from fate_flow.cli.server.cluster_plan import Ports
from tests.kit.servers.party_servers import BASE_PORT
from tests.kit.tls import Authority
from tests.kit.waiting import SECONDS, eventually

Object = dict[str, Any]

NODE = "node1"
_HOST = "127.0.0.1"
_GATES = "TTLAfterFinished=true"         # needs no gate in any release of today
_CONTROLLERS = "job,garbagecollector,ttl-after-finished,serviceaccount,resourcequota,namespace,nodelifecycle"
_SILENT = ("--node-monitor-period=500ms", "--node-monitor-grace-period=3s")     # after that, a node does not answer
_MERGE = "application/merge-patch+json"
_PATHS = {
    "pods": "/api/v1", "secrets": "/api/v1", "jobs": "/apis/batch/v1", "serviceaccounts": "/api/v1",
    "resourcequotas": "/api/v1",
}  # fmt: skip


class RealKubernetes:
    """One control plane. All that it writes is in a folder; its ports are on loopback."""

    def __init__(self, programs: Mapping[str, str], folder: Path) -> None:
        self._programs = programs
        self.folder = folder
        self._admin = secrets.token_hex(16)
        self._ports = Ports()
        self._etcd, self._peer, self._api = islice(filter(self._ports.is_free, range(BASE_PORT + 310, 65536)), 3)
        self.url = f"https://{_HOST}:{self._api}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._session = requests.Session()
        self._session.trust_env = False                   # a machine may name another authority there

    # ------------------------------------------------------------------ its processes

    def start(self) -> None:
        authority = Authority(self.folder)
        authority.server_context(_HOST)                   # writes server.pem
        self._authority = authority.file
        self._session.verify = str(authority.file)
        self._session.headers["Authorization"] = f"Bearer {self._admin}"
        (self.folder / "tokens.csv").write_text(f"{self._admin},admin,admin,system:masters\n")
        self._write_account_keys()
        self._run("etcd", [
            f"--data-dir={self.folder / 'etcd'}", f"--listen-client-urls=http://{_HOST}:{self._etcd}",
            f"--advertise-client-urls=http://{_HOST}:{self._etcd}", f"--listen-peer-urls=http://{_HOST}:{self._peer}",
            f"--initial-advertise-peer-urls=http://{_HOST}:{self._peer}",
            f"--initial-cluster=default=http://{_HOST}:{self._peer}",
        ])  # fmt: skip
        server = self.folder / "server.pem"
        self._run("kube-apiserver", [
            f"--etcd-servers=http://{_HOST}:{self._etcd}", f"--bind-address={_HOST}", f"--secure-port={self._api}",
            f"--tls-cert-file={server}", f"--tls-private-key-file={server}",
            f"--token-auth-file={self.folder}/tokens.csv",
            "--authorization-mode=RBAC", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder}/accounts.pub",
            f"--service-account-signing-key-file={self.folder}/accounts.pem",
            f"--feature-gates={_GATES}", f"--cert-dir={self.folder}",
        ])  # fmt: skip
        eventually(lambda: self._why_not_ready() == "", lambda: self._why_not_ready() + self.said("kube-apiserver"))
        self._run("kube-controller-manager", [
            f"--kubeconfig={self.kubeconfig(self._admin)}", f"--controllers={_CONTROLLERS}", "--leader-elect=false",
            "--port=0", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=500", f"--feature-gates={_GATES}",
            *_SILENT,
        ])  # fmt: skip

    def stop(self) -> None:
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait()
        self._ports.close()
        self._session.close()

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def _run(self, name: str, options: Sequence[str]) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [self._programs[name], *options], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, env={"PATH": os.environ["PATH"], "TMPDIR": str(self.folder)},
            )  # fmt: skip

    def _why_not_ready(self) -> str:
        for name, process in self._processes.items():
            assert process.poll() is None, self.said(name)
        try:
            answer = self._session.get(f"{self.url}/readyz?verbose", timeout=SECONDS)
        except requests.RequestException as error:
            return str(error)
        return "" if answer.status_code == 200 else answer.text

    def _write_account_keys(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        (self.folder / "accounts.pem").write_bytes(private)
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (self.folder / "accounts.pub").write_bytes(public)

    # ------------------------------------------------------------------ its users

    def kubeconfig(self, token: str = "", namespace: str = "default") -> Path:
        """A kubeconfig for a token; that of the administrator by default."""
        token = token or self._admin
        path = self.folder / f"kubeconfig-{secrets.token_hex(4)}"
        path.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "users": [{"name": "u", "user": {"token": token}}],
            "clusters": [{"name": "k", "cluster": {"server": self.url, "certificate-authority": str(self._authority)}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": namespace}}],
        }))  # fmt: skip
        return path

    def token_of(self, namespace: str, name: str) -> str:
        """A token of this service account."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        made = self.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body)
        return str(made["status"]["token"])

    def account(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a token of this service account alone."""
        return self.kubeconfig(self.token_of(namespace, name), namespace)

    def kubectl(self, *arguments: str) -> str:
        """What kubectl prints for the administrator."""
        done = subprocess.run(
            [self._programs["kubectl"], f"--kubeconfig={self.kubeconfig()}", f"--cache-dir={self.folder / 'cache'}",
             *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    # ------------------------------------------------------------------ its objects

    def ask(self, method: str, path: str, body: Object | None = None, kind: str = "application/json") -> Object:
        """The answer to a request of the administrator, which has to succeed."""
        status, found = self.asked(method, path, body, kind)
        assert status < 300, (method, path, status, found)
        return found

    def asked(
        self, method: str, path: str, body: Object | None, kind: str = "application/json", token: str = ""
    ) -> tuple[int, Object]:
        """The status and the answer. `token`: of whoever asks; of the administrator by default."""
        answer = self._session.request(
            method, f"{self.url}{path}", data=None if body is None else json.dumps(body), timeout=SECONDS,
            headers={"Content-Type": kind, **({"Authorization": f"Bearer {token}"} if token else {})},
        )  # fmt: skip
        return answer.status_code, answer.json()

    def at(self, kind: str, namespace: str, name: str = "") -> str:
        return f"{_PATHS[kind]}/namespaces/{namespace}/{kind}{f'/{name}' if name else ''}"

    def all(self, kind: str, namespace: str) -> list[Object]:
        found: list[Object] = self.ask("GET", self.at(kind, namespace))["items"]
        return found

    def has_namespace(self, name: str) -> None:
        """A new namespace, which pods may be made in."""
        self.ask("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        eventually(lambda: self.all("serviceaccounts", name), lambda: self.said("kube-controller-manager"))

    def pod_of(self, namespace: str, job: str) -> str:
        """The name of the pod of a Job, once the Job has one."""
        def found() -> list[str]:
            return [one["metadata"]["name"] for one in self.all("pods", namespace)
                    if one["metadata"]["labels"].get("job-name") == job]

        return eventually(found, lambda: self.said("kube-controller-manager"))[0]

    def bind(self, namespace: str, pod: str, node: str = NODE) -> None:
        """What a scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        self.ask("POST", f"{self.at('pods', namespace, pod)}/binding", binding)

    def play(self, namespace: str, pod: str, status: Object) -> None:
        """What a kubelet says of a pod."""
        self.ask("PATCH", f"{self.at('pods', namespace, pod)}/status", {"status": status}, _MERGE)


    def has_node(self, name: str) -> None:
        """A new node, whose kubelet has said once that it is ready."""
        self.ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        self.answers(name)

    def answers(self, node: str) -> None:
        """What the kubelet of a node says while it lives."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }  # fmt: skip
        self.ask("PATCH", f"/api/v1/nodes/{node}/status", {"status": {"conditions": [ready]}}, _MERGE)


def state_of(container: str, state: Mapping[str, Any]) -> Object:
    """What a kubelet says of one container."""
    return {"name": container, "state": state, "ready": False, "restartCount": 0, "image": "", "imageID": ""}


@contextmanager
def running_kubernetes(programs: Mapping[str, str], folder: Path) -> Iterator[RealKubernetes]:
    found = RealKubernetes(programs, folder)
    try:
        found.start()
        yield found
    finally:
        found.stop()
