"""A small and strict API server of Kubernetes, with a Job controller and a kubelet that runs containers as processes.

What it takes has to be what the published schemas say; what is there already is answered 409, what is not there 404. It
is no Kubernetes: docs/guides/kubernetes.md lists what tests with it cannot show.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import yaml

from tests.kit.engines.custom_schemas import problems_of
from tests.kit.engines.fake_gangs import FakeGangs
from tests.kit.engines.fake_kueue import FakeKueue

VERSION = "1.33"
_PREFIXES = {"jobs": "/apis/batch/v1", "pods": "/api/v1", "secrets": "/api/v1"}
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

Object = dict[str, Any]


@dataclass
class FakeKubernetes:
    """The objects of one namespace. `folder`: for the volumes of its pods; `env`: of every container."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    namespace: str = "fate"
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    fails: Callable[[str, str], int] = lambda *_: 0            # the status with which a request fails, before or
    is_done: bool = False                                      # after it was carried out
    asked: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    has_nodes: bool = True
    gangs: FakeGangs = field(default_factory=FakeGangs)
    kueue: FakeKueue = field(default_factory=FakeKueue)
    lock: threading.RLock = field(default_factory=threading.RLock)
    _processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)

    @contextmanager
    def serving(self) -> Iterator[Path]:
        """Yield a kubeconfig."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                content_type = self.headers.get("Content-Type") or ""
                status, answer = fake.answer(self.command, self.path, json.loads(body) if body else None, content_type)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = do_PATCH = _serve

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        kubeconfig = self.folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
            "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        }))  # fmt: skip
        try:
            yield kubeconfig
        finally:
            server.shutdown()
            server.server_close()
            for process in self._processes.values():
                process.kill()
            for thread in self._threads:
                thread.join(30)

    # ------------------------------------------------------------------ the API

    def answer(self, method: str, target: str, body: Object | None, content_type: str) -> tuple[int, Object]:
        parts = urlsplit(target)
        with self.lock:
            of_kueue = self.kueue.answer(method, parts.path, content_type, body)
        if of_kueue is not None:
            return of_kueue
        kind, name = self._place(parts.path)
        self.asked.append(f"{method} {kind}")
        status = self.fails(method, kind)
        if status and not self.is_done:
            return _failure(status, "fails")
        with self.lock:
            found = self._answer(method, kind, name, parse_qs(parts.query), body)
        return _failure(status, "the answer is lost") if status else found

    def _place(self, path: str) -> tuple[str, str]:
        prefixes = {**_PREFIXES, **({"podgroups": f"/apis/{self.gangs.version}"} if self.gangs.version else {})}
        for kind, prefix in prefixes.items():
            top = f"{prefix}/namespaces/{self.namespace}/{kind}"
            if path == top or path.startswith(f"{top}/"):
                return kind, path[len(top) + 1 :]
        return path, ""

    def _answer(
        self, method: str, kind: str, name: str, query: Mapping[str, list[str]], body: Object | None
    ) -> tuple[int, Object]:  # fmt: skip
        if kind == _REVIEWS and body is not None:
            is_allowed = body["spec"]["resourceAttributes"]["verb"] in self.gangs.may
            return 201, {"kind": "SelfSubjectAccessReview", "status": {"allowed": is_allowed}}
        if kind == "/apis/":
            return 200, {"kind": "APIGroupList", "groups": self.kueue.group()}
        if self.gangs.version and kind == f"/apis/{self.gangs.version}":
            return 200, {"kind": "APIResourceList", "resources": [{"name": "podgroups"}]}
        if kind not in (*_PREFIXES, "podgroups"):
            return _failure(404, "the server could not find the requested resource")
        if method == "POST" and body is not None:
            return self._create(kind, body)
        if method == "GET" and not name:
            [selector] = query.get("labelSelector", [""])
            return 200, {"kind": "List", "metadata": {}, "items": self._selected(kind, selector)}
        found = self.objects.get((kind, name))
        if found is None:
            return _failure(404, f'{kind} "{name}" not found')
        if method == "DELETE":
            self._delete(kind, found, query)
        return 200, found

    def _create(self, kind: str, body: Object) -> tuple[int, Object]:
        try:
            if kind == "podgroups":
                assert not (problems := problems_of(body)), problems
            else:
                kubernetes_validate.validate(body, VERSION, strict=True)
        except (kubernetes_validate.ValidationError, AssertionError) as error:
            return _failure(422, str(error))
        meta = body["metadata"]
        if (kind, meta["name"]) in self.objects:
            return _failure(409, f'{kind} "{meta["name"]}" already exists')
        meta.update(uid=str(uuid.uuid4()), creationTimestamp=f"2026-01-01T00:00:{len(self.objects):02d}Z")
        self.objects[kind, meta["name"]] = {**body, "status": {}}
        if kind == "jobs":
            self._run_job(body)
        return 201, self.objects[kind, meta["name"]]

    def _selected(self, kind: str, selector: str) -> list[Object]:
        wanted = dict(one.split("=") for one in selector.split(",") if one)
        every = [one for (found, _), one in self.objects.items() if found == kind]
        return [one for one in every if wanted.items() <= one["metadata"].get("labels", {}).items()]

    def _delete(self, kind: str, job: Object, query: Mapping[str, list[str]]) -> None:
        if kind == "podgroups":
            del self.objects[kind, job["metadata"]["name"]]
            return
        assert query.get("propagationPolicy") == ["Background"], "its pods would stay"
        name = job["metadata"]["name"]
        del self.objects["jobs", name]
        self.objects.pop(("secrets", name), None)             # as its owner says
        process = self._processes.get(name)
        if process is not None and process.poll() is None:
            process.terminate()
        self.objects.pop(("pods", f"{name}-pod"), None)

    # ------------------------------------------------------------------ the Job controller and the kubelet

    def _run_job(self, job: Object) -> None:
        if job["spec"].get("suspend"):
            return
        template, name = job["spec"]["template"], job["metadata"]["name"]
        meta = {**template["metadata"], "name": f"{name}-pod", "creationTimestamp": "2026-01-01T00:00:00Z"}
        pod = {"metadata": meta, "spec": {**template["spec"]}, "status": {"phase": "Pending"}}
        self.objects["pods", f"{name}-pod"] = pod
        if not self.has_nodes:
            pod["status"]["conditions"] = [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes fit",
            }]  # fmt: skip
            return
        self.gangs.waiting.append((pod, lambda: self._start(name, pod)))
        self.schedule()

    def schedule(self) -> None:
        """What the scheduler does when a pod has come, or there are more places."""
        with self.lock:
            self.gangs.schedule({name: one for (kind, name), one in self.objects.items() if kind == "podgroups"})

    def _start(self, job: str, pod: Object) -> None:
        thread = threading.Thread(target=self._run_pod, args=(job, pod), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run_pod(self, job: str, pod: Object) -> None:
        volume = self.folder / job
        volume.mkdir()
        spec, status = pod["spec"], pod["status"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            env = self._environment(job, container, volume)
            while env is None:
                status["containerStatuses"] = [_state(container, waiting={"reason": "CreateContainerConfigError"})]
                threading.Event().wait(0.05)
                env = self._environment(job, container, volume)
            is_main = container in spec["containers"]
            key = "containerStatuses" if is_main else "initContainerStatuses"
            status.update({"phase": "Running" if is_main else "Pending", key: [_state(container, running={})]})
            command = [sys.executable if one == "python3" else one for one in container["command"]]
            process = subprocess.Popen(
                command, env=env, cwd=volume, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            self._processes[job] = process
            out, _ = process.communicate()
            self.output.append(out)
            ended = {"exitCode": abs(process.returncode), "reason": "Error" if process.returncode else "Completed"}
            status[key] = [_state(container, terminated=ended)]
            if process.returncode:
                break
        has_failed = bool(process.returncode)
        with self.lock:
            status["phase"] = "Failed" if has_failed else "Succeeded"
            if ("jobs", job) in self.objects:
                condition = {"type": "Failed" if has_failed else "Complete", "status": "True"}
                self.objects["jobs", job]["status"] = {"conditions": [condition]}

    def _environment(self, job: str, container: Object, volume: Path) -> dict[str, str] | None:
        """Return the variables of a container; None while a Secret is missing."""
        found = dict(self.env)
        for one in container["env"]:
            if "value" in one:
                found[one["name"]] = str(volume) if one["value"] == "/fate-flow" else one["value"]
                continue
            ref = one["valueFrom"]["secretKeyRef"]
            secret = self.objects.get(("secrets", ref["name"]))
            if secret is None:
                return None
            found[one["name"]] = secret["stringData"][ref["key"]]
        return found


def _state(container: Object, **state: Object) -> Object:
    return {"name": container["name"], "state": state}


def _failure(status: int, message: str) -> tuple[int, Object]:
    return status, {"kind": "Status", "status": "Failure", "message": message, "code": status}
