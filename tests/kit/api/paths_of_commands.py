"""The path of each command between parties, about one job of guest 10000 at host 9999, or of guest 9999."""

from __future__ import annotations

from fate_flow.core.model.job import CommandKind

K = CommandKind


def paths_of_commands(job_id: str) -> dict[CommandKind, str]:
    """Return a path below `/v1` for each kind. Those to the initiator of a job are sent to guest 9999, for host 10000;
    the task is `toy_0`, in version 0."""
    task = f"{job_id}/toy_0/{job_id}_toy_0/0"
    return {
        K.CREATE: f"party/{job_id}/host/9999/create",
        K.STATUS: f"party/{job_id}/host/9999/status/canceled",
        K.CHECK: f"party/{job_id}/host/9999/dependence/check",
        K.APPLY: f"party/{job_id}/host/9999/resource/apply",
        K.RETURN: f"party/{job_id}/host/9999/resource/return",
        K.START: f"party/{job_id}/host/9999/start",
        K.UPDATE: f"party/{job_id}/host/9999/update",
        K.PARAMETERS: f"party/{job_id}/host/9999/parameter/update",
        K.ALIGN: f"party/{job_id}/host/9999/align",
        K.COMPARE: f"party/{job_id}/host/9999/document/compare",
        K.STOP: f"party/{job_id}/host/9999/stop/canceled",
        K.CLEAN: f"party/{job_id}/host/9999/clean",
        K.MODEL: f"party/{job_id}/host/9999/model",
        K.FIND_REUSABLE: f"party/{job_id}/host/9999/component/inheritance/check",
        K.TASK_CREATE: f"party/{task}/host/9999/create",
        K.TASK_START: f"party/{task}/host/9999/start",
        K.TASK_STATUS: f"party/{task}/host/9999/status/failed",
        K.TASK_STOP: f"party/{task}/host/9999/stop/canceled",
        K.TASK_COLLECT: f"party/{task}/host/9999/collect",
        K.REPORT: f"initiator/{task}/host/10000/report",
        K.ASK_STOP: f"initiator/{job_id}/guest/9999/stop/canceled",
        K.ASK_RERUN: f"initiator/{job_id}/guest/9999/rerun",
        K.CAPACITY: f"initiator/{job_id}/host/10000/room",
        K.STANDING: f"initiator/{job_id}/guest/9999/standing",
        K.LOOK_AGAIN: f"initiator/{job_id}/guest/9999/ready",
    }
