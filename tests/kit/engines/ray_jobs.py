"""A Ray of one machine without Ray: its Jobs API, which runs the jobs as processes. The same checks
(`ray_checks.py`) run on this one and on a real head (`bin/test --heavy`).

A test may make it lose answers, be away, or forget all jobs as a head does that was started again.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import psutil

from fate_flow.core.model.program_scope import RAY_JOB_CONFIG
from tests.kit.waiting import eventually

TOKEN = "t0ken-of-the-cluster"
GCS_ADDRESS = "127.0.0.1:6379"
_PAUSE_SECONDS = 0.005
_STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
STOP_SECONDS = 0.5
"""Ray itself waits 3 s."""
_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "entrypoint": str, "submission_id": str, "job_id": str, "runtime_env": dict, "metadata": dict,
    "entrypoint_num_cpus": (int, float), "entrypoint_num_gpus": (int, float), "entrypoint_memory": int,
    "entrypoint_resources": dict, "entrypoint_label_selector": dict,
}  # fmt: skip
_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass
class Job:
    """One job, and what was asked of it."""

    asked: Mapping[str, Any]
    printed: Path
    status: str = "PENDING"
    message: str = ""
    error_type: str | None = None
    exit_code: int | None = None
    is_stopped: bool = False
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def cores(self) -> float:
        return float(self.asked.get("entrypoint_num_cpus", 0))

    def shown(self, name: str) -> dict[str, Any]:
        message = self.message or {
            "PENDING": "Job has not started yet. It may be waiting for resources (CPUs, GPUs, memory, custom resources)"
                       " to become available.",
            "RUNNING": "Job is currently running.", "STOPPED": "Job was intentionally stopped.",
            "SUCCEEDED": "Job finished successfully.", "FAILED": "Job failed.",
        }[self.status]  # fmt: skip
        return {
            "type": "SUBMISSION", "job_id": None, "submission_id": name, "driver_info": None, "status": self.status,
            "entrypoint": self.asked["entrypoint"], "message": message, "error_type": self.error_type,
            "metadata": self.asked.get("metadata"), "runtime_env": self.asked.get("runtime_env"),
            "driver_exit_code": self.exit_code,
        }  # fmt: skip


class FakeRay:
    """The jobs, and what becomes of requests."""

    def __init__(self, cores: int, folder: Path) -> None:
        self.token_file = folder / "ray_token"
        self.token_file.write_text(TOKEN)
        self.token_file.chmod(0o600)
        self.folder = folder
        self.jobs: dict[str, Job] = {}
        self.requests: list[tuple[str, str]] = []
        self.asks_for_token = True
        self.loses_answers = False         # it does what it is asked, and says nothing
        self.says: tuple[int, str] | None = None       # this, whatever it is asked, and does nothing
        self._cores = cores
        self._lock = threading.RLock()
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self._held: socket.socket | None = None        # the port, while nothing listens

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def open(self) -> None:
        handler = partial(_Handler, self)
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), handler)
        self._server.daemon_threads = True
        if self._held is not None:
            self._held.close()
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """From now on nothing listens; the jobs go on."""
        self._end_server()
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        eventually(self._holds_port, f"port {self._port} without a listener")     # a fork may have one until its exec

    def _holds_port(self) -> bool:
        assert self._held is not None
        with suppress(OSError):
            self._held.bind(("127.0.0.1", self._port))
            return True
        return False

    def _end_server(self) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def give(self, cores: int) -> None:
        """Have so many cores from now on."""
        self._cores = cores

    def forget(self) -> None:
        """Lose all jobs, whose processes go on, as those of a head that was killed and started again."""
        with self._lock:
            self.jobs.clear()

    def end(self) -> None:
        self._end_server()
        if self._held is not None:
            self._held.close()
        for job in list(self.jobs.values()):
            if job.process is not None and not job.over.is_set():
                _signal(job.process.pid, signal.SIGKILL)

    # ------------------------------------------------------------------ what is asked

    def answer(self, method: str, path: str, token: str | None, body: bytes) -> tuple[int, str]:
        with self._lock:
            self.requests.append((method, path))
        if self.says is not None:
            return self.says
        if self.asks_for_token and token != f"Bearer {TOKEN}":
            return _no_admission(token)
        if path == "/api/version":
            return 200, "{}"
        if path == "/api/jobs/":
            return self._submit(json.loads(body)) if method == "POST" else self._listed()
        name = path.removeprefix("/api/jobs/").removesuffix("/stop").removesuffix("/logs")
        if not path.startswith("/api/jobs/") or "/" in name or not name:
            return 404, "404: Not Found"
        with self._lock:
            job = self.jobs.get(name)
            if job is None:
                return 404, f"Job {name} does not exist"
            if method == "POST" and path.endswith("/stop"):
                return 200, json.dumps({"stopped": self._stop(job)})
            if method == "DELETE":
                return self._delete(name, job)
            if path.endswith("/logs"):
                return 200, json.dumps({"logs": job.printed.read_text() if job.printed.exists() else ""})
            return (200, json.dumps(job.shown(name))) if method == "GET" else (405, "405: Method Not Allowed")

    def _submit(self, asked: dict[str, Any]) -> tuple[int, str]:
        for key, value in asked.items():
            if key not in _FIELDS:
                return 400, f"Traceback\nTypeError: JobSubmitRequest.__init__() got an unexpected argument '{key}'"
            if not isinstance(value, _FIELDS[key]) or isinstance(value, bool):
                return 400, f"Traceback\nTypeError: {key} must be another type, got {type(value)}"
        if "entrypoint" not in asked:
            return 400, "Traceback\nTypeError: JobSubmitRequest.__init__() missing 1 required positional argument"
        name = str(asked.get("submission_id", f"raysubmit_{len(self.jobs)}"))
        with self._lock:
            if name in self.jobs:
                return 500, (
                    f"Traceback\nRuntimeError: Request failed with status code 500: ValueError: Job with submission_id "
                    f"{name} already exists. Please use a different submission_id.\n."
                )
            job = self.jobs[name] = Job(asked, self.folder / f"job-driver-{name}.log")
        threading.Thread(target=self._run, args=(job,), daemon=True).start()
        return 200, json.dumps({"job_id": name, "submission_id": name})

    def _listed(self) -> tuple[int, str]:
        with self._lock:
            return 200, json.dumps([job.shown(name) for name, job in self.jobs.items()])

    def _delete(self, name: str, job: Job) -> tuple[int, str]:
        if job.status not in _ENDED:
            return 500, f"Traceback\nRuntimeError: Attempted to delete job '{name}', but it is in a non-terminal state"
        del self.jobs[name]
        return 200, json.dumps({"deleted": True})

    def _stop(self, job: Job) -> bool:
        if job.status in _ENDED:
            return False
        if not job.is_stopped:
            job.is_stopped = True
            if job.process is not None:
                threading.Thread(target=self._end, args=(job,), daemon=True).start()
        return True

    # ------------------------------------------------------------------ the processes

    def _run(self, job: Job) -> None:
        while not self._has_started(job):
            time.sleep(_PAUSE_SECONDS)       # a busy cluster
            if self._server is None and job not in self.jobs.values():
                return
        assert job.process is not None
        code = job.process.wait()
        with self._lock:
            if job.status == "RUNNING" and not job.is_stopped:
                job.exit_code, job.status = code, "FAILED" if code else "SUCCEEDED"
                if code:
                    job.error_type = "JOB_ENTRYPOINT_COMMAND_ERROR"
                    job.message = f"Job entrypoint command failed with exit code {code}. No logs available."
        job.over.set()

    def _has_started(self, job: Job) -> bool:
        with self._lock:
            used = sum(one.cores for one in self.jobs.values() if one.status == "RUNNING")
            if used + job.cores > self._cores or job.asked.get("entrypoint_resources"):
                return False
            variables = (job.asked.get("runtime_env") or {}).get("env_vars") or {}
            config = {"runtime_env": job.asked.get("runtime_env"), "metadata": job.asked.get("metadata") or {}}
            devices = ",".join(str(number) for number in range(int(job.asked.get("entrypoint_num_gpus", 0))))
            job.status, job.starts = "RUNNING", job.starts + 1
            with job.printed.open("ab") as out:
                job.process = subprocess.Popen(
                    job.asked["entrypoint"], shell=True, start_new_session=True, cwd=self.folder,      # as Ray does
                    stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                    env={
                        **os.environ, **variables, "RAY_ADDRESS": GCS_ADDRESS, "CUDA_VISIBLE_DEVICES": devices,
                        RAY_JOB_CONFIG: json.dumps(config),
                    },
                )  # fmt: skip
            if job.is_stopped:
                threading.Thread(target=self._end, args=(job,), daemon=True).start()
            return True

    def _end(self, job: Job) -> None:
        assert job.process is not None
        variables = (job.asked.get("runtime_env") or {}).get("env_vars") or {}
        processes = _signal(job.process.pid, signal.SIGTERM)
        psutil.wait_procs(processes, timeout=float(variables.get(_STOP_WAIT, STOP_SECONDS)))
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        job.over.wait()
        with self._lock:
            job.status = "STOPPED"


def _no_admission(token: str | None) -> tuple[int, str]:
    if token is None:
        return 401, "Unauthorized: Missing authentication token"
    return 403, "Forbidden: Invalid authentication token"


def _signal(pid: int, number: signal.Signals) -> list[psutil.Process]:
    """Send a signal to a process and all that descend from it, and return them."""
    found: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        leader = psutil.Process(pid)
        found = [leader, *leader.children(recursive=True)]
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version: ClassVar[str] = "HTTP/1.1"

    def __init__(self, ray: FakeRay, *args: Any) -> None:
        self._ray = ray
        super().__init__(*args)

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, text = self._ray.answer(self.command, self.path, self.headers.get("Authorization"), body)
        if self._ray.loses_answers:
            self.close_connection = True
            return
        encoded = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if text[:1] in "[{" else "text/plain")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    do_GET = do_POST = do_DELETE = do_PUT = _answer

    def log_message(self, *_: object) -> None: ...


@contextmanager
def running_fake(folder: Path, cores: int = 4) -> Iterator[FakeRay]:
    ray = FakeRay(cores, folder)
    ray.open()
    try:
        yield ray
    finally:
        ray.end()
