"""A scheduler and a kubelet of a test, which runs the containers of pods of a real API server as processes.

A pod gets a folder instead of its volume, and Python instead of its image.
"""

from __future__ import annotations

import base64
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit.engines.real_kubernetes import Object, RealKubernetes, state_of
from tests.kit.waiting import SECONDS

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1


@dataclass
class Kubelet:
    """Runs the pods of a namespace. `env`: of every container."""

    api: RealKubernetes
    namespace: str
    folder: Path
    env: Mapping[str, str]
    has_space: bool = True                     # whether pods that come find a node
    output: list[str] = field(default_factory=list)
    _processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    _threads: dict[str, threading.Thread] = field(default_factory=dict)
    _signalled: set[str] = field(default_factory=set)
    _ends: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join(SECONDS)
            for process in self._processes.values():
                process.kill()
            for one in self._threads.values():
                one.join(SECONDS)

    def _serve(self) -> None:
        while not self._ends.wait(_LOOK_SECONDS):
            try:
                for pod in self.api.all("pods", self.namespace):
                    self._look_at(pod)
            except (OSError, AssertionError):         # it goes on, and what it has not done fails the test
                log.exception("the kubelet")

    def _look_at(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            self._end(name)
        elif name not in self._threads and self.has_space:
            self.api.bind(self.namespace, name)
            self._threads[name] = threading.Thread(target=self._run, args=(pod,), daemon=True)
            self._threads[name].start()

    def _end(self, name: str) -> None:
        process, thread = self._processes.get(name), self._threads.get(name)
        if process is not None and process.poll() is None:
            if name not in self._signalled:
                self._signalled.add(name)
                process.terminate()
        elif thread is None or not thread.is_alive():
            self.api.asked("DELETE", self.api.at("pods", self.namespace, name), {"gracePeriodSeconds": 0})

    # ------------------------------------------------------------------ one pod

    def _run(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        try:
            self._run_containers(name, pod["spec"])
        except (OSError, AssertionError):
            log.exception("pod %s", name)

    def _run_containers(self, name: str, spec: Object) -> None:
        volume = self.folder / name
        volume.mkdir(parents=True)
        code = 0
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            is_main = container in spec["containers"]
            key = "containerStatuses" if is_main else "initContainerStatuses"
            env = self._environment(container, volume)
            while env is None:
                self._say(name, "Pending", key, container, waiting={"reason": "CreateContainerConfigError"})
                if self._ends.wait(_LOOK_SECONDS):
                    return
                env = self._environment(container, volume)
            self._say(name, "Running" if is_main else "Pending", key, container, running={})
            command = [sys.executable if one == "python3" else one for one in container["command"]]
            process = subprocess.Popen(
                command, env=env, cwd=volume, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            self._processes[name] = process
            out, _ = process.communicate()
            self.output.append(out)
            code = process.returncode if process.returncode >= 0 else 128 - process.returncode
            ended = {"exitCode": code, "reason": "Error" if code else "Completed"}
            phase = "Failed" if code else "Succeeded" if is_main else "Pending"
            if self._ends.is_set():
                return
            self._say(name, phase, key, container, terminated=ended)
            if code:
                return

    def _say(self, pod: str, phase: str, key: str, container: Object, **state: Any) -> None:
        self.api.play(self.namespace, pod, {"phase": phase, key: [state_of(container["name"], state)]})

    def _environment(self, container: Object, volume: Path) -> dict[str, str] | None:
        """The variables of a container; None while a Secret is missing."""
        found = dict(self.env)
        for one in container["env"]:
            if "value" in one:
                found[one["name"]] = str(volume) if one["value"] == "/fate-flow" else one["value"]
                continue
            ref = one["valueFrom"]["secretKeyRef"]
            status, secret = self.api.asked("GET", self.api.at("secrets", self.namespace, ref["name"]), None)
            if status == 404:
                return None
            found[one["name"]] = base64.b64decode(secret["data"][ref["key"]]).decode()
        return found
