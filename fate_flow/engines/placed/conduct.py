"""How an engine that places runners behaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


def _no_secrets(_worker_id: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class Conduct:
    """Times are in seconds."""

    poll_seconds: float
    longest_pending: float                   # 0: for ever
    settle: float
    runner: Callable[[Path], Sequence[str]]      # the command that runs the worker of a folder
    jobs_dir: Path
    prefix: str                              # of the names of this home
    gathers: bool = False                    # its runners can wait for their gang
    env: Mapping[str, str] = field(default_factory=dict)     # of each job
    secrets: Callable[[str], Mapping[str, str]] = _no_secrets     # variables of the job of one worker alone, by its id
    hint: str = "a host that does not see the home of the server says so in its output"   # if no process starts
