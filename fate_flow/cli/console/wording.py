"""The text that `flow` prints for parties, reasons, times and durations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fate_flow.cli.console.display import one_line
from fate_flow.core.model.approval import SHORT_DIGEST
from fate_flow.core.model.reasons import Reason

RESTARTING = "restarting"
"""The `status_detail` of what is stopped to start again, or has not started again yet."""

_SAID_BY_THE_STATUS = frozenset({Reason.DONE.value})
_SAID_BY_THE_MESSAGE = frozenset({Reason.TASK_FAILED.value})    # the message names the task and its end


def party_name(value: object) -> str:
    """Return `guest-9999`."""
    if isinstance(value, Mapping):
        return f"{value.get('role')}-{value.get('party_id')}"
    return str(value)


def short_digest(digest: object) -> str:
    """Return the short form of a document's digest; "" if there is none."""
    return digest[:SHORT_DIGEST] if isinstance(digest, str) else ""


def passers(job: Mapping[str, Any]) -> str:
    """Return which later jobs have passed a waiting one, as far as it remembers them; "" if none has."""
    known = [one_line(job_title(one.get("job_id"), one.get("name"))) for one in job.get("passers") or ()]
    is_part = (job.get("passed_by") or 0) > len(known)
    return f"{job.get('passed_by')} later jobs, last {', '.join(known)}" if known and is_part else ", ".join(known)


def job_title(job_id: object, name: object) -> str:
    """Return `job 42 (monthly totals)`."""
    return one_line(f"job {job_id} ({name})" if name else f"job {job_id}")


def reason_text(reason: object, message: object) -> str:
    """Return why a job or task ended: the code of the reason, unless the message already says it, and the message."""
    is_said = reason in _SAID_BY_THE_STATUS or _says(str(message or ""), str(reason))
    return ": ".join(one_line(part) for part in ("" if is_said else reason, message) if part)


def _says(message: str, reason: str) -> bool:
    """Return whether the message has all words of the code: `stopped by a user at party 9999` has stopped_by_user."""
    return bool(message) and (reason in _SAID_BY_THE_MESSAGE or set(reason.split("_")) <= set(message.split()))


def reason_of(data: Mapping[str, Any]) -> str:
    return reason_text(data.get("reason"), data.get("message"))


def status_of(row: Mapping[str, Any]) -> object:
    """Return the status to show: `restarting` of this server is more precise than FATE's status."""
    return RESTARTING if row.get("status_detail") == RESTARTING else row.get("status")


def without_seconds(text: str) -> str:
    """Return the text without seconds: two texts that differ only in seconds count as equal."""
    return _SECONDS.sub("", text)


_SECONDS = re.compile(r"\d+ s\b")


def moment(milliseconds: object) -> str:
    """Return a local time; "" if the value is not a time."""
    found = _local(milliseconds)
    return f"{found:%Y-%m-%d %H:%M:%S}" if found else ""


def short_moment(milliseconds: object, now: datetime | None = None) -> str:
    """Return a short local time: `11-22 09:55`, or only the date if it is in another year."""
    found, now = _local(milliseconds), now or datetime.now().astimezone()
    if found is None:
        return ""
    return f"{found:%m-%d %H:%M}" if found.year == now.year else f"{found:%Y-%m-%d}"


def clock(milliseconds: object, other: object = None) -> str:
    """Return the local time of day, with the date unless the other moment is on the same day."""
    found, day = _local(milliseconds), _local(other)
    if found is None:
        return ""
    return f"{found:%H:%M:%S}" if day is not None and day.date() == found.date() else moment(milliseconds)


def duration(milliseconds: object) -> str:
    if not isinstance(milliseconds, (int, float)):
        return ""
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24:02} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def _local(milliseconds: object) -> datetime | None:
    if not isinstance(milliseconds, (int, float)) or not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000).astimezone()
