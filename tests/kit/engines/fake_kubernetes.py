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
_INDEX = "batch.kubernetes.io/job-completion-index"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

Object = dict[str, Any]


@dataclass
class FakeKubernetes:
    """The objects of one namespace. `folder`: for the volumes of its pods; `env`: of every container."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    namespace: str = "fate"
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    made: list[tuple[str, str]] = field(default_factory=list)  # kind and name, also of those that are gone
    fails: Callable[[str, str], int] = lambda *_: 0            # the status with which a request fails, before or
    is_done: bool = False                                      # after it was carried out
    asked: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    has_nodes: bool = True
    minor: str = "33+"                                         # of its release, as a provider of clusters writes it
    keeps_index_limit: bool = True                             # whether backoffLimitPerIndex is switched on
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
        if kind == "/version/":
            return 200, {"major": "1", "minor": self.minor}
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
        if kind == "jobs" and not self.keeps_index_limit:
            body["spec"].pop("backoffLimitPerIndex", None)
        self.objects[kind, meta["name"]] = {**body, "status": {}}
        self.made.append((kind, meta["name"]))
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
        name = job["metadata"]["name"]
        if kind == "pods":
            self._delete_pod(name)
            return
        assert query.get("propagationPolicy") == ["Background"], "its pods would stay"
        del self.objects["jobs", name]
        self.objects.pop(("secrets", name), None)             # as its owner says
        for pod in self._pods_of(name):
            self._delete_pod(pod)

    def _pods_of(self, job: str) -> list[str]:
        return [name for kind, name in self.objects if kind == "pods" and self.objects[kind, name]["job"] == job]

    def _delete_pod(self, name: str) -> None:
        """Delete a pod: it counts as failed, as it does for the Job controller, which does not wait for its end."""
        pod = self.objects.pop(("pods", name))
        self.gangs.waiting = [one for one in self.gangs.waiting if one[0] is not pod]
        self._ended(pod, has_failed=True)
        process = self._processes.get(name)
        if process is not None and process.poll() is None:
            process.terminate()

    # ------------------------------------------------------------------ the Job controller and the kubelet

    def _run_job(self, job: Object) -> None:
        if job["spec"].get("suspend"):
            return
        spec, name = job["spec"], job["metadata"]["name"]
        assert (spec.get("completionMode") == "Indexed") == ("backoffLimit" not in spec), "its pods would end together"
        numbers = range(spec["completions"]) if spec.get("completionMode") == "Indexed" else [None]
        for number in numbers:
            self._make_pod(name, spec["template"], number)
        self.schedule()

    def _make_pod(self, job: str, template: Object, number: int | None) -> None:
        name = f"{job}-pod" if number is None else f"{job}-{number}-pod"
        index = {} if number is None else {_INDEX: str(number)}
        said = template["metadata"]
        meta = {
            "name": name, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {**said["labels"], **index}, "annotations": {**said["annotations"], **index},
        }  # fmt: skip
        pod = {"metadata": meta, "spec": {**template["spec"]}, "status": {"phase": "Pending"}, "job": job}
        self.objects["pods", name] = pod
        self.made.append(("pods", name))
        if not self.has_nodes:
            pod["status"]["conditions"] = [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes fit",
            }]  # fmt: skip
            return
        self.gangs.waiting.append((pod, lambda: self._start(pod)))

    def schedule(self) -> None:
        """What the scheduler does when a pod has come, or there are more places."""
        with self.lock:
            self.gangs.schedule({name: one for (kind, name), one in self.objects.items() if kind == "podgroups"})

    def _start(self, pod: Object) -> None:
        thread = threading.Thread(target=self._run_pod, args=(pod,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run_pod(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        volume = self.folder / name
        volume.mkdir()
        spec, status = pod["spec"], pod["status"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            env = self._environment(pod, container, volume)
            while env is None:
                status["containerStatuses"] = [_state(container, waiting={"reason": "CreateContainerConfigError"})]
                threading.Event().wait(0.05)
                if self.objects.get(("pods", name)) is not pod:
                    return       # it was deleted
                env = self._environment(pod, container, volume)
            is_main = container in spec["containers"]
            key = "containerStatuses" if is_main else "initContainerStatuses"
            status.update({"phase": "Running" if is_main else "Pending", key: [_state(container, running={})]})
            command = [sys.executable if one == "python3" else one for one in container["command"]]
            process = subprocess.Popen(
                command, env=env, cwd=volume, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            self._processes[name] = process
            out, _ = process.communicate()
            self.output.append(out)
            ended = {"exitCode": abs(process.returncode), "reason": "Error" if process.returncode else "Completed"}
            status[key] = [_state(container, terminated=ended)]
            if process.returncode:
                break
        has_failed = bool(process.returncode)
        with self.lock:
            status["phase"] = "Failed" if has_failed else "Succeeded"
            self._ended(pod, has_failed=has_failed)

    def _ended(self, pod: Object, *, has_failed: bool) -> None:
        """Note the end of a pod in its Job: of its index, and of the Job if no other index is left."""
        job = self.objects.get(("jobs", pod["job"]))
        if job is None:
            return
        status, number = job["status"], pod["metadata"]["labels"].get(_INDEX)
        if number is not None:
            if number in {*_listed(status, "failedIndexes"), *_listed(status, "completedIndexes")}:
                return
            key = "failedIndexes" if has_failed else "completedIndexes"
            status[key] = ",".join([*_listed(status, key), number])
            has_failed = "failedIndexes" in status
            if sum(len(_listed(status, one)) for one in ("failedIndexes", "completedIndexes")) < (
                job["spec"]["completions"]
            ):
                return
        status["conditions"] = [{"type": "Failed" if has_failed else "Complete", "status": "True"}]

    def _environment(self, pod: Object, container: Object, volume: Path) -> dict[str, str] | None:
        """Return the variables of a container; None while a Secret is missing."""
        found = dict(self.env)
        for one in container.get("envFrom", ()):
            secret = self.objects.get(("secrets", one["secretRef"]["name"]))
            if secret is None:
                return None
            found.update({f"{one['prefix']}{key}": value for key, value in secret["stringData"].items()})
        for one in container["env"]:
            if "value" in one:
                found[one["name"]] = str(volume) if one["value"] == "/fate-flow" else one["value"]
                continue
            ref = one["valueFrom"]["secretKeyRef"]
            secret = self.objects.get(("secrets", ref["name"]))
            if secret is None:
                return None
            found[one["name"]] = secret["stringData"][ref["key"]]
        if (number := pod["metadata"]["labels"].get(_INDEX)) is not None:
            found["JOB_COMPLETION_INDEX"] = number
        return found


def _listed(status: Object, key: str) -> list[str]:
    return [one for one in status.get(key, "").split(",") if one]


def _state(container: Object, **state: Object) -> Object:
    return {"name": container["name"], "state": state}


def _failure(status: int, message: str) -> tuple[int, Object]:
    return status, {"kind": "Status", "status": "Failure", "message": message, "code": status}
