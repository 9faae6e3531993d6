"""When what happened to a job: from the rows of both parties and from their log files, in ms since its submit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from tests.bench.cluster import GUEST, HOST, TASK, Server, Servers, Submitted

_TIME = re.compile(r"^\[[A-Z]+\] \[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")
_SCHEDULE_LINES = {
    "waiting at the initiator": "status to waiting",
    "applied at all parties": "resource successfully",
}
_WORKER_LINES = {
    "worker: python runs": "enter TaskExecutor worker",
    "worker: component begins": f"run {TASK} ",
    "worker: component done": f"finish {TASK} ",
}
_ROWS = """
    SELECT j.f_create_time AS created, j.f_apply_resource_time AS applied, j.f_start_time AS started,
      j.f_end_time AS ended, w.f_create_time AS ordered, t.f_start_time AS task_started, t.f_end_time AS task_ended
    FROM t_job j
    JOIN t_task t ON t.f_job_id = j.f_job_id AND t.f_run_on_this_party = 1
    JOIN t_worker w ON w.f_worker_id = t.f_worker_id
    WHERE j.f_job_id = ?
"""


def moments_of(servers: Servers, job: Submitted, seen: float) -> dict[str, float]:
    """Every moment that both parties have by now noted; `seen`: when the client saw the success."""
    guest, host = (_row(servers[party_id], job.job_id) for party_id in (GUEST, HOST))
    found = {
        "created at the guest": guest["created"],
        "created at the host": host["created"],
        "submit answered": job.answered * 1000,
        "cores held at the guest": guest["applied"],
        "cores held at the host": host["applied"],
        "running at the host": host["started"],
        "running at the guest": guest["started"],
        "RUNNING AT BOTH": max(guest["started"], host["started"]),
        "task ordered at both": max(guest["ordered"], host["ordered"]),
        "task running at both": max(guest["task_started"], host["task_started"]),
        "task done at both": max(guest["task_ended"], host["task_ended"]),
        "success at the guest": guest["ended"],
        "SUCCESS, as a client sees it": seen * 1000,
        "success at the host": host["ended"],
        **_logged(servers, job.job_id),
    }
    return {name: round(at - job.asked * 1000, 1) for name, at in found.items()}


def _row(server: Server, job_id: str) -> Mapping[str, float]:
    return dict(server.rows(_ROWS, job_id)[0])


def _logged(servers: Servers, job_id: str) -> dict[str, float]:
    logs = servers[GUEST].home / "logs" / job_id
    found = first_lines(logs / "fate_flow_schedule.log", {
        name: (f"apply job {job_id} {text}" if "resource" in text else f"job {job_id} {text}")
        for name, text in _SCHEDULE_LINES.items()
    })  # fmt: skip
    workers = [
        first_lines(servers[party_id].home / "logs" / job_id / role / party_id / TASK / "DEBUG.log", _WORKER_LINES)
        for role, party_id in (("guest", GUEST), ("host", HOST))
    ]
    for name in _WORKER_LINES:
        if all(name in one for one in workers):
            found[name] = max(one[name] for one in workers)
    return found


def first_lines(path: Path, wanted: Mapping[str, str]) -> dict[str, float]:
    """The time, in ms since the epoch, of the first line that holds the words, by name; what is missing is left out."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    times = {name: _time_of_first(lines, text) for name, text in wanted.items()}
    return {name: at for name, at in times.items() if at is not None}


def _time_of_first(lines: Iterable[str], text: str) -> float | None:
    for line in lines:
        if text in line and (match := _TIME.match(line)):
            return datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S").timestamp() * 1000 + int(match[2])
    return None
