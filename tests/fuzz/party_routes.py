"""Good requests of every route of other parties."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fuzz.values import JOB

OWN, CALLER = "9999", "10000"
HOLDER, PLAIN, PROXIED = "10006", "10004", "10008"
TASK = f"{JOB}/toy_0/{JOB}_toy_0/0"
COMPARE = "document/compare"
_JOB_TAILS = (
    "create", "status/canceled", "status/waiting", "dependence/check", "resource/apply", "resource/return", "start",
    "update", "parameter/update", "align", "stop/canceled", "clean", "model", "component/inheritance/check",
    "component/rerun/check", COMPARE,
)
_TASK_TAILS = (
    "create", "start", "status/failed", "status/running", "stop/canceled", "collect", "clean/metrics", "update",
    "report",
)
COMMANDS = (
    *(f"/party/{JOB}/host/{OWN}/{tail}" for tail in _JOB_TAILS),
    *(f"/party/{TASK}/host/{OWN}/{tail}" for tail in _TASK_TAILS),
    f"/initiator/{TASK}/host/{CALLER}/report",
    *(f"/initiator/{JOB}/guest/{OWN}/{tail}" for tail in ("stop/canceled", "rerun", "standing", "ready")),
    f"/initiator/{JOB}/host/{CALLER}/room",
)
QUESTIONS: dict[str, Any] = {
    "/party/heartbeat": {"jobs": [JOB]},
    "/party/validate": {"dsl": None, "runtime_conf": None, "role": "host", "party_id": OWN},
    "/party/history": {"job_id": JOB},
    "/party/intake": {},
    "/party/keys": {},
    "/party/list": {},
    "/party/join": {"invitation": "a" * 20, "message": {"party_id": CALLER}, "code": "b" * 64},
    "/party/task/log": {"job_id": JOB, "component_name": "toy_0", "role": "guest", "party_id": OWN},
    f"/tracker/{JOB}/toy_0/guest/{OWN}/output/table": {},
    "/tracker/else": {},
}
DELIVER = f"/exchange/deliver/{JOB}/{JOB}_toy_0/0/{'ab' * 16}/guest/{CALLER}/host/{OWN}?topic=t.0&seq=0&last=1"


def document(random: Random) -> dict[str, Any]:
    """The body of a command: the document of a job that the caller has, and all that other commands need."""
    parties = {"guest": [int(CALLER)], "host": [int(OWN)]}
    return {
        "dsl": {"components": {"toy_0": {"module": random.choice(("SecureAddExample", "Reader", "Intersection"))}}},
        "runtime_conf": {
            "dsl_version": 2, "initiator": {"role": "guest", "party_id": int(CALLER)}, "role": parties,
            "job_parameters": {"common": {"task_cores": 1}},
            "component_parameters": {"common": {"toy_0": {"data_num": 10}}},
        },
        "job_parameters": {"common": {"task_cores": 1}}, "component_parameters": {"common": {}},
        "free_cores": 1, "party_status": "failed", "status": "failed", "revision": random.randrange(3), "role": "host",
        "party_id": CALLER, "job_id": JOB, "task_version": 0, "reason": "stopped_by_user",
    }  # fmt: skip


def command(random: Random) -> tuple[str, Any]:
    """The path and the body of a command."""
    path = random.choice(COMMANDS)
    if not path.endswith(COMPARE):
        return path, document(random)
    name = random.choice(("", f"fate_v1:{'ab' * 32}"))
    return path, {
        "role": "guest", "party_id": CALLER, "revision": random.randrange(3), "document": name, "is_running": True,
    }  # fmt: skip


def good_request(random: Random) -> tuple[str, Any]:
    """The path, below `/v1`, and the body of a request; bytes for a chunk of a message."""
    way = random.random()
    if way < 0.6:
        return command(random)
    if way < 0.7:
        asked = [command(random) for _ in range(random.randrange(4))]
        return "/party/batch", {"commands": [{"endpoint": path, "body": body} for path, body in asked]}
    if way < 0.92:
        return random.choice(list(QUESTIONS.items()))
    return DELIVER, random.randbytes(random.randrange(300))
