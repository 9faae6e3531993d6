"""What was recorded: one request and its answer at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_flow.core.model.job import Command
from fate_flow.core.wire.v1.paths import read_command

_FOLDER = Path(__file__).parent / "traffic"


@dataclass(frozen=True)
class Exchange:
    """One request, who made it, and what it was answered."""

    is_from_fate: bool
    path: str                        # without `/v1`
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    answer: Mapping[str, Any]

    @property
    def command(self) -> Command:
        return read_command(self.path, self.body)

    @property
    def verb(self) -> str:
        """The path without ids: `resource/apply`, `reader_0 1 status/running`."""
        parts = self.path.strip("/").split("/")
        if parts[2] in ("guest", "host"):
            return "/".join(parts[4:])
        return f"{parts[2]} {parts[4]} {'/'.join(parts[7:])}"


def recorded(name: str) -> list[Exchange]:
    """All that is in one file, in its order."""
    lines = (_FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [_exchange(json.loads(line)) for line in lines]


def _exchange(one: Mapping[str, Any]) -> Exchange:
    path = str(one["path"]).removeprefix("/v1")
    return Exchange(one["from"] == "FATE", path, one["headers"], one["body"], one["answer"])
