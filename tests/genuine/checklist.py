"""The lines of checklist-v1: what clients and other servers may ask of a server of FATE Flow 1.11."""

from __future__ import annotations

import json
import re
from pathlib import Path

LINES: list[dict[str, str]] = json.loads(Path(__file__).with_name("checklist-v1.json").read_text(encoding="utf-8"))
CHECKLIST = {line["command"]: line["priority"] for line in LINES}

JOB_ID = "202601011200000000000"
_PIECES = {
    "job_id": JOB_ID, "component_name": "a_0", "task_id": f"{JOB_ID}_a_0", "task_version": "0", "role": "guest",
    "party_id": "9999", "status": "success", "stop_status": "canceled", "content_type": "table", "name": "fate_flow",
}


def paths_of(line: dict[str, str]) -> list[str]:
    """The paths that this line is about, below `/v1/`; none for what the client does alone."""
    found = re.findall(r"/v1/(\S+)", line["path"])
    return [re.sub(r"<(\w+)>", lambda piece: _PIECES[piece[1]], path) for path in found]


OFFERED = (
    "flow table disable-delete", "flow table tracking-source", "flow table tracking-job",
    "flow component metric-delete", "flow template download", "flow key save", "flow key query", "flow key delete",
)  # fmt: skip
"""Lines that are `later`, and are there."""
