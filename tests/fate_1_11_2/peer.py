"""A host that answers as FATE Flow 1.11.2 does, and is as strict: what it needs and does not get is an error.

It holds rows as FATE does and moves them by FATE's tables. Its workers end when a test says so. What it says by itself,
reports above all, waits in `said`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Envelope = dict[str, Any]

_ENDS = frozenset({"canceled", "timeout", "failed", "pass", "success"})
JOB_MOVES: Mapping[str, frozenset[str]] = {
    "ready": frozenset({"waiting", "canceled", "timeout", "failed"}),
    "waiting": frozenset({"running", "canceled", "timeout", "failed", "success", "pass"}),
    "running": frozenset({"canceled", "timeout", "failed", "success"}),
    "canceled": frozenset({"waiting"}),
    "timeout": frozenset({"failed", "success", "waiting"}),
    "failed": frozenset({"waiting"}),
    "success": frozenset({"waiting"}),
}
TASK_MOVES: Mapping[str, frozenset[str]] = {
    "waiting": frozenset({"running", "success", "pass"}),
    "running": frozenset({"canceled", "timeout", "failed", "pass", "success"}),
    "canceled": frozenset({"waiting"}),
    "timeout": frozenset({"failed", "success"}),
    "failed": frozenset(),
    "pass": frozenset(),
    "success": frozenset(),
}
_START, _END = 1_795_338_070_958, 1_795_338_071_947


@dataclass
class FateTask:
    task_id: str
    version: int
    can_run: bool                    # what it needs to begin is in its row and in its job
    status: str = "waiting"
    party_status: str = "waiting"
    start_time: int | None = None
    end_time: int | None = None


@dataclass
class FateJob:
    """One row of t_job, with its tasks by component and version."""

    job_id: str
    initiator: tuple[str, str]
    roles: Mapping[str, Any]
    conf: Mapping[str, Any]
    on_party: Mapping[str, Any]
    status: str = "ready"
    holds: bool = False
    progress: float = 0
    tasks: dict[tuple[str, int], FateTask] = field(default_factory=dict)

    def newest(self) -> list[FateTask]:
        return list({name: task for (name, _), task in sorted(self.tasks.items())}.values())


class FatePeer:
    """`refuses`: by the end of a path, how often it is still refused (103). `cores`: those that are free."""

    def __init__(self, party_id: str, role: str = "host", reports: bool = True) -> None:
        self.party_id, self.role, self.reports = party_id, role, reports
        self.jobs: dict[str, FateJob] = {}
        self.asked: list[str] = []               # what it was asked, without ids
        self.tracebacks: list[str] = []          # what stands in its log
        self.said: list[tuple[str, Envelope]] = []
        self.refuses: dict[str, int] = {}
        self.does_not_run: frozenset[str] = frozenset()      # components that its role does not support

    # ------------------------------------------------------------------ what it is asked

    def answer(self, path: str, body: Mapping[str, Any]) -> Envelope:
        """What FATE's server says at this path below `/v1`, with HTTP status 200."""
        parts = path.strip("/").split("/")
        try:
            if parts[0] == "party" and len(parts) >= 5 and parts[2] == self.role:
                return self._of_job(parts[1], "/".join(parts[4:]), body)
            if parts[0] == "party" and len(parts) >= 8:
                return self._of_task(parts, "/".join(parts[7:]), body)
            raise _NotFound("<NotFound '404: Not Found'>")
        except Exception as error:  # noqa: BLE001  # as FATE, whatever it is
            self.tracebacks.append(f"{path}: {type(error).__name__}: {error}")
            return {"retcode": 100, "retmsg": str(error) if isinstance(error, _NotFound) else repr(error)}

    def _of_job(self, job_id: str, verb: str, body: Mapping[str, Any]) -> Envelope:
        self.asked.append(verb)
        if self.refuses.get(verb, 0) > 0:
            self.refuses[verb] -= 1
            return {"retcode": 103, "retmsg": f"{verb} refused", "data": {"job_id": job_id}}
        if verb == "create":
            return self._create(job_id, body)
        known: Mapping[str, Callable[[FateJob, Mapping[str, Any]], Envelope]] = {
            "dependence/check": _nothing, "align": _nothing, "model": _nothing, "clean": _nothing,
            "resource/apply": _apply, "resource/return": _give_back, "start": _start_job, "update": _update,
            "parameter/update": _parameters,
        }  # fmt: skip
        if verb in known:
            return known[verb](self._job(job_id), body)
        word, _, argument = verb.partition("/")
        if word == "status" and argument in JOB_MOVES:
            return _job_status(self._job(job_id), argument)
        if word == "stop" and argument in JOB_MOVES:
            return self._stop(self._job(job_id), argument)
        raise _NotFound("<NotFound '404: Not Found'>")

    def _job(self, job_id: str) -> FateJob:
        if job_id not in self.jobs:
            raise RuntimeError(f"can not found job {job_id}")
        return self.jobs[job_id]

    def _create(self, job_id: str, body: Mapping[str, Any]) -> Envelope:
        on_party, common = body["runtime_conf_on_party"], body["runtime_conf"]["job_parameters"]["common"]
        initiator = (body["initiator_role"], str(body["initiator_party_id"]))
        _ = on_party["component_parameters"], on_party["role"], on_party["initiator"], body["train_runtime_conf"]
        assert "common" not in on_party["job_parameters"], "the parameters of this party are flat"
        has_model = bool(common.get("model_id")) and common.get("model_version") == job_id
        if job_id not in self.jobs:
            job = FateJob(job_id, initiator, body["roles"], body["runtime_conf"], on_party)
            for name in set(body["dsl"]["components"]) - self.does_not_run:
                job.tasks[name, 0] = FateTask(f"{job_id}_{name}", 0, has_model)
            self.jobs[job_id] = job
        runs = {name: {"need_run": name not in self.does_not_run} for name in body["dsl"]["components"]}
        return _ok({"components": runs})

    def _stop(self, job: FateJob, status: str) -> Envelope:
        """The tasks first, one after the other, then the job."""
        killed = [task for task in job.newest() if task.party_status not in ("success", "waiting", "pass")]
        for task in killed:
            self._kill(job, task, status)
        _job_status(job, status)
        return _ok({job.job_id: {task.task_id: "success" for task in killed}})

    def _kill(self, job: FateJob, task: FateTask, status: str) -> None:
        self._report(job, task)
        _move_task(task, "party_status", status)
        self._report(job, task)

    def _of_task(self, parts: list[str], verb: str, body: Mapping[str, Any]) -> Envelope:
        job_id, name, version = parts[1], parts[2], int(parts[4])
        self.asked.append(f"task {verb}")
        if verb == "create":
            return self._create_task(job_id, body)
        task = self.jobs[job_id].tasks.get((name, version)) if job_id in self.jobs else None
        if verb == "collect":
            return _ok(_row(self, job_id, task)) if task else {"retcode": 103, "retmsg": "query task failed"}
        if verb == "start" and task is None:
            return {"retcode": 102, "retmsg": "no found task"}
        job = self._job(job_id)
        if task is None:
            raise RuntimeError(f"can not found task {parts[3]} {version}")
        return self._with_task(job, task, verb)

    def _with_task(self, job: FateJob, task: FateTask, verb: str) -> Envelope:
        word, _, argument = verb.partition("/")
        if verb == "start":
            self._begin(job, task)
            return _ok()
        if word == "status" and argument in TASK_MOVES:
            is_moved = _move_task(task, "status", argument)
            self._report(job, task)
            return _ok() if is_moved else _unchanged()
        if word == "stop" and argument in TASK_MOVES:
            self._kill(job, task, argument)
            return _ok()
        if word == "clean" or verb == "update":
            return _ok()
        raise _NotFound("<NotFound '404: Not Found'>")

    def _create_task(self, job_id: str, body: Mapping[str, Any]) -> Envelope:
        """The row as it is sent; the version is that of the body."""
        job, name, version = self._job(job_id), body["component_name"], body["task_version"]
        for key in ("task_id", "initiator_role", "initiator_party_id", "federated_mode", "auto_retries",
                    "federated_status_collect_type", "run_on_this_party", "auto_retry_delay"):  # fmt: skip
            _ = body[key]
        has_model = bool(job.conf["job_parameters"]["common"].get("model_id"))
        job.tasks.setdefault((name, version), FateTask(body["task_id"], version, has_model))
        return _ok()

    def _begin(self, job: FateJob, task: FateTask) -> None:
        """It answers that all is well, whatever becomes of it."""
        if task.party_status != "waiting":
            return
        task.start_time = _START
        self._report(job, task)
        _move_task(task, "party_status", "running")
        self._report(job, task)
        if not task.can_run:
            self.tracebacks.append("TypeError: unsupported operand type(s) for /: 'PosixPath' and 'NoneType'")
            self._end(job, task, "failed")

    # ------------------------------------------------------------------ what it says

    def _report(self, job: FateJob, task: FateTask) -> None:
        if self.reports:
            name = task.task_id.removeprefix(f"{job.job_id}_")
            place = f"{job.job_id}/{name}/{task.task_id}/{task.version}/{self.role}/{self.party_id}"
            row = {key: value for key, value in _row(self, job.job_id, task).items() if key != "status"}
            self.said.append((f"/initiator/{place}/report", {**row, "error_report": ""}))

    def ends(self, job_id: str, name: str, status: str = "success") -> None:
        """The worker of the newest version of a task ends so."""
        job = self.jobs[job_id]
        task = next(one for one in job.newest() if one.task_id == f"{job_id}_{name}")
        assert task.party_status == "running", task
        self._end(job, task, status)

    def _end(self, job: FateJob, task: FateTask, status: str) -> None:
        self._report(job, task)
        task.end_time = _END
        self._report(job, task)
        _move_task(task, "party_status", status)
        self._report(job, task)

    def is_stopped_by_its_client(self, job_id: str) -> None:
        """First its own rows, then the initiator is asked."""
        job = self.jobs[job_id]
        self._stop(job, "canceled")
        self.asks_to_stop(job_id, "canceled")

    def asks_to_stop(self, job_id: str, status: str) -> None:
        role, party_id = self.jobs[job_id].initiator
        body = {"f_job_id": job_id, "f_role": self.role, "f_party_id": self.party_id}
        self.said.append((f"/initiator/{job_id}/{role}/{party_id}/stop/{status}", body))

    def aligns(self, job_id: str) -> None:
        """Its heartbeat, to the initiator of a job that it sees running."""
        role, party_id = self.jobs[job_id].initiator
        body = {"job_id": job_id, "role": self.role, "party_id": self.party_id}
        self.said.append((f"/party/{job_id}/{role}/{party_id}/align", body))

    def headers(self, to: str) -> dict[str, str]:
        return {
            "SERVICE": "fateflow", "SRC-FATE-VER": "1.11.4", "SRC-PARTY-ID": self.party_id, "DEST-PARTY-ID": to,
            "SRC-ROLE": self.role,
        }  # fmt: skip


class _NotFound(Exception):
    """No such path."""


def _nothing(_: FateJob, __: Mapping[str, Any]) -> Envelope:
    return _ok()


def _apply(job: FateJob, _: Mapping[str, Any]) -> Envelope:
    if job.holds:
        return {"retcode": 103, "retmsg": f"apply for job {job.job_id} resource failed"}
    job.holds = True
    return _ok()


def _give_back(job: FateJob, _: Mapping[str, Any]) -> Envelope:
    if not job.holds:
        return {"retcode": 103, "retmsg": f"apply for job {job.job_id} resource failed"}
    job.holds = False
    return _ok()


def _start_job(job: FateJob, _: Mapping[str, Any]) -> Envelope:
    _job_status(job, "running")
    return _ok()


def _update(job: FateJob, body: Mapping[str, Any]) -> Envelope:
    job.progress = max(job.progress, body["progress"])
    return _ok()


def _parameters(job: FateJob, body: Mapping[str, Any]) -> Envelope:
    _ = body["components"]
    new = {key: body[key] for key in ("job_parameters", "component_parameters")}
    job.conf = {**job.conf, **new}
    return _ok()


def _job_status(job: FateJob, status: str) -> Envelope:
    if status not in JOB_MOVES[job.status]:
        return _unchanged()
    job.status = status
    job.holds = job.holds and status not in _ENDS
    return _ok()


def _move_task(task: FateTask, which: str, status: str) -> bool:
    if status not in TASK_MOVES[getattr(task, which)]:
        return False
    setattr(task, which, status)
    return True


def _unchanged() -> Envelope:
    return {"retcode": 10, "retmsg": "update job status does not take effect"}


def _row(peer: FatePeer, job_id: str, task: FateTask) -> Envelope:
    is_timed = task.start_time is not None and task.end_time is not None
    return {
        "job_id": job_id, "task_id": task.task_id, "task_version": task.version, "role": peer.role,
        "party_id": peer.party_id, "status": task.status, "party_status": task.party_status,
        "start_time": task.start_time, "update_time": _END, "end_time": task.end_time,
        "elapsed": _END - _START if is_timed else None,
    }  # fmt: skip


def _ok(data: Any = None) -> Envelope:
    return {"retcode": 0, "retmsg": "success", **({"data": data} if data is not None else {})}
