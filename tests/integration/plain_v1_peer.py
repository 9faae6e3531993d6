"""A party that speaks only what party-api-v1 says: no batches, no heartbeats of ours, no incarnations, no `stopping`.

As a host it takes the commands of an initiator and keeps a task running until the test, or a stop, ends it. As an
initiator it says what a FATE Flow 1.11 scheduler says, in its order. What it gets and does not know it answers as Flask
does, with 404, and remembers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests

KNOWN = {"waiting", "ready", "running", "canceled", "timeout", "failed", "pass", "success"}
ENDED = {"canceled", "timeout", "failed", "pass", "success"}
Envelope = dict[str, Any]


@dataclass
class PlainTask:
    status: str = "waiting"
    party_status: str = "waiting"
    body: dict[str, Any] = field(default_factory=dict)


@dataclass
class PlainJob:
    status: str = "ready"
    holds: bool = False
    tasks: dict[tuple[str, int], PlainTask] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)     # as they were changed last


class PlainV1Peer:
    """`ends_as`: how its tasks end by themselves, as soon as somebody asks or at once when it reports; "" for never."""

    def __init__(self, party_id: str, server_url: str = "") -> None:
        self.party_id, self.server_url = party_id, server_url
        self.jobs: dict[str, PlainJob] = {}
        self.asked: list[str] = []
        self.unknown: list[str] = []
        self.reported: list[dict[str, Any]] = []
        self.refuses: dict[str, int] = {}       # by verb: how often it is still refused
        self.ends_as, self.reports, self.is_silent = "success", False, False
        self._lock = threading.RLock()
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                if peer.is_silent:
                    self.close_connection = True
                    return
                found = peer.answer(self.path.removeprefix("/v1/").split("/"), body)
                text = b"<h1>Not Found</h1>" if found is None else json.dumps(found).encode()
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    # ------------------------------------------------------------------ what it answers

    def answer(self, path: list[str], body: dict[str, Any]) -> Envelope | None:
        """The envelope, or None for a route that v1 does not have."""
        with self._lock:
            if path[0] == "initiator" and path[-1] == "report" and len(path) == 8:
                assert body["party_status"] in KNOWN, body
                self.reported.append(body)
                return _ok()
            if path[0] != "party" or len(path) < 5:
                self.unknown.append("/".join(path))
                return None
            if path[2] in ("guest", "host", "arbiter"):
                return self._job_command(path[1], "/".join(path[4:]), body)
            return self._task_command(path, body)

    def _job_command(self, job_id: str, verb: str, body: dict[str, Any]) -> Envelope | None:
        self.asked.append(verb)
        if self.refuses.get(verb, 0) > 0:
            self.refuses[verb] -= 1
            return {"retcode": 103, "retmsg": f"{verb} refused", "data": {"job_id": job_id}}
        if verb == "create":
            return self._create(job_id, body)
        job = self.jobs.get(job_id)
        if job is None:
            return {"retcode": 100, "retmsg": f"no found job {job_id}"}
        if verb in ("resource/apply", "resource/return"):
            job.holds = verb == "resource/apply"
        elif verb == "start":
            job.status = "running"
        elif verb == "parameter/update":
            job.parameters = {key: body[key] for key in ("job_parameters", "component_parameters", "components")}
        elif verb.startswith("status/"):
            return self._set_status(job, verb.removeprefix("status/"))
        elif verb.startswith("stop/"):
            return self._stop(job_id, job, verb.removeprefix("stop/"))
        elif verb not in ("dependence/check", "align", "update", "model", "clean"):
            self.unknown.append(verb)
            return None
        return _ok()

    def _create(self, job_id: str, body: dict[str, Any]) -> Envelope:
        names = list(body["dsl"]["components"])
        if job_id not in self.jobs:
            self.jobs[job_id] = PlainJob(tasks={(name, 0): PlainTask() for name in names})
        return _ok({"components": {name: {"need_run": True} for name in names}})

    def _set_status(self, job: PlainJob, status: str) -> Envelope:
        assert status in KNOWN, status
        if job.status == status or (job.status in ENDED and status != "waiting"):      # which is a rerun
            return {"retcode": 10, "retmsg": "update job status does not take effect"}
        job.status = status
        job.holds = job.holds and status not in ENDED
        return _ok()

    def _stop(self, job_id: str, job: PlainJob, status: str) -> Envelope:
        for task in job.tasks.values():
            if task.party_status == "running":
                task.party_status = status
        job.status, job.holds = status, False
        return _ok({job_id: {f"{job_id}_{name}": "success" for name, _ in job.tasks}})

    def _task_command(self, path: list[str], body: dict[str, Any]) -> Envelope | None:
        job_id, name, version, verb = path[1], path[2], int(path[4]), "/".join(path[7:])
        self.asked.append(f"task {verb}")
        if verb == "create":
            self.jobs[job_id].tasks[(name, version)] = PlainTask(body=body)
            return _ok()
        task = self.jobs[job_id].tasks.get((name, version))
        if task is None:
            return {"retcode": 102, "retmsg": "no found task"}
        if verb == "start":
            task.party_status = "running"
            if self.reports:
                self._report(path, task)
        elif verb == "collect":
            return _ok(self._collected(path, task))
        elif verb.startswith("status/"):
            task.status = verb.removeprefix("status/")
            assert task.status in KNOWN, verb
        elif verb.startswith("stop/"):
            task.party_status = verb.removeprefix("stop/") if task.party_status == "running" else task.party_status
        elif not verb.startswith("clean"):
            self.unknown.append(verb)
            return None
        return _ok()

    def _collected(self, path: list[str], task: PlainTask) -> dict[str, Any]:
        found = {
            "job_id": path[1], "task_id": path[3], "task_version": int(path[4]), "role": path[5], "party_id": path[6],
            "status": task.status, "party_status": task.party_status, "start_time": 1_700_000_000_000,
            "update_time": 1_700_000_000_500, "end_time": None, "elapsed": None,
        }  # fmt: skip
        if task.party_status == "running" and self.ends_as:
            task.party_status = self.ends_as
        return found

    def _report(self, path: list[str], task: PlainTask) -> None:
        """As a v1 worker's reports reach the initiator: twice for each status, and never again."""

        def tell() -> None:
            for status in ("running", self.ends_as):
                for _ in range(2):
                    place = {"job_id": path[1], "task_id": path[3], "task_version": int(path[4])}
                    body = {**place, "role": path[5], "party_id": path[6], "party_status": status, "error_report": ""}
                    self.post(f"initiator/{'/'.join(path[1:7])}/report", body)
                task.party_status = status

        threading.Thread(target=tell, daemon=True).start()

    # ------------------------------------------------------------------ what it says as an initiator

    def post(self, endpoint: str, body: object = None) -> Envelope:
        head = {"src-party-id": self.party_id, "src-role": "guest", "service": "fateflow", "SRC-FATE-VER": "1.11.2"}
        answer = requests.post(f"{self.server_url}/v1/{endpoint}", json=body or {}, headers=head, timeout=30)
        document = answer.json()
        assert isinstance(document, dict), document
        return document

    @contextmanager
    def aligning(self, endpoint: str, seconds: float = 0.2) -> Iterator[None]:
        """FATE's heartbeat, all the while."""
        done = threading.Event()

        def align() -> None:
            while not done.wait(seconds):
                self.post(endpoint, {"job_id": endpoint.split("/")[1], "role": "guest", "party_id": self.party_id})

        thread = threading.Thread(target=align, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _ok(data: Any = None) -> Envelope:
    return {"retcode": 0, "retmsg": "success", **({"data": data} if data is not None else {})}
