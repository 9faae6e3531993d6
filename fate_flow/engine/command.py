"""A worker that becomes the user's own program: the order in its folder, and what is done before the program begins.

The server writes `command.json`; the worker process reads it between its fork and its `exec`, so that whatever is
missing or not allowed then is a launch that failed, with its reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fate_flow.engine.programs import check_allowed, find_program
from fate_flow.engine.worker import write_atomically

ORDER = "command.json"
PEERS = "peers.json"
WORK = "work"

_INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "HOME", "USER", "TMPDIR")
"""Of the server's environment; what else stands there is none of a stranger's business."""


@dataclass(frozen=True)
class Order:
    """What the worker is to become."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    allow: tuple[str, ...]

    def write(self, folder: Path) -> None:
        """Names tokens: for this user only."""
        text = json.dumps({"argv": self.argv, "env": dict(self.env), "allow": self.allow})
        write_atomically(folder / ORDER, text, mode=0o600, is_durable=False)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """None where the worker is something else. Raises ValueError or KeyError for what `write` never wrote."""
        try:
            value: dict[str, Any] = json.loads((folder / ORDER).read_text())
        except FileNotFoundError:
            return None
        return cls(tuple(value["argv"]), value["env"], tuple(value["allow"]))


@dataclass(frozen=True)
class Ready:
    """What is left is to become it."""

    program: Path
    argv: tuple[str, ...]
    env: Mapping[str, str]


def prepare(order: Order) -> Ready:
    """Raises NotAllowed for what this party does not run any more."""
    program = find_program(order.argv[0])
    check_allowed(program, order.allow)
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return Ready(program, order.argv, {**inherited, **order.env})


def is_command(folder: Path) -> bool:
    """Whether the worker of this folder is a program of the user's own."""
    return (folder / ORDER).exists()
