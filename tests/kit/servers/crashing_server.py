"""A server with crash points: `warm_process.py` calls `install` in a fork that becomes a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from fate_flow.server import http_processes, scheduling
from tests.kit.servers.crash_points import FILE, CrashPoints


def install(home: Path) -> None:
    """Put points around the store, the effects, the senders and the replies of the server that this process becomes.

    Each is replaced by its name in the module that builds it; a name that is gone is an AttributeError."""
    points = CrashPoints(home / "run" / FILE)
    for module in (http_processes, scheduling):
        _wrap(module, "build_context", points.around_context)
    _wrap(scheduling, "SenderLog", points.around_sender_log)
    _wrap(http_processes, "create_public_app", points.around_app)


def _wrap(module: ModuleType, name: str, around: Callable[[Any], Any]) -> None:
    made = getattr(module, name)
    setattr(module, name, lambda *args: around(made(*args)))
