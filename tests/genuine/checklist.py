"""The lines of checklist-v1: what clients and other servers may ask of a server of FATE Flow 1.11."""

from __future__ import annotations

import json
from pathlib import Path

LINES: list[dict[str, str]] = json.loads(Path(__file__).with_name("checklist-v1.json").read_text(encoding="utf-8"))
CHECKLIST = {line["command"]: line["priority"] for line in LINES}

NOT_OFFERED = ("flow job parameter-update", "flow privilege grant", "flow privilege delete", "flow privilege query")
"""Lines that are not `later`, and are not there yet."""
