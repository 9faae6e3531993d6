"""What both sides of a staged worker say to each other: files by their places, with sizes and digests.

A *place* is a path relative to the home of the server, and on the other host relative to the root of the worker there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fate_flow.core.model.grammar import shown

PIECE = 1024 * 1024              # bytes of a file in one request or answer
MOST_FILES = 50_000              # of one worker, in one direction: their list has less than 64 MB
_LONGEST = 1_000

ADDRESS, PIN, WORKER, TOKEN, ROOT = (
    f"FATE_FLOW_STAGED_{name}" for name in ("ADDRESS", "PIN", "WORKER", "TOKEN", "ROOT")
)
"""The variables with which an engine starts `agent.py`."""
CLAIM = "FATE_FLOW_STAGED_CLAIM"
"""Instead of TOKEN where others may read it: the server gives the token for it, once, and only to the process that has
printed its sign into the output of its job."""
INDEX, WORKERS, TOKENS = "JOB_COMPLETION_INDEX", "FATE_FLOW_STAGED_WORKERS", f"{TOKEN}_"
"""Instead of WORKER and TOKEN where several agents are started alike: the number of this one, the ids of all workers by
their numbers, and what the names of the variables begin with that have their tokens."""


def sign_of(runner: str) -> str:
    """Return the line by which an agent shows that it is the job of its worker. It does not tell its name."""
    return f"the agent of this job is sha256:{hashlib.sha256(runner.encode()).hexdigest()}"


class BadPlace(ValueError):
    """A path is no place."""


def checked_place(at: object) -> str:
    """Return a place that names a file below a root, in its one spelling. Raises BadPlace."""
    parts = at.split("/") if isinstance(at, str) else [""]
    if not isinstance(at, str) or len(at) > _LONGEST or "\0" in at or any(one in ("", ".", "..") for one in parts):
        raise BadPlace(f"{shown(at)} is not the place of a file")
    return at


@dataclass(frozen=True)
class StagedFile:
    """A file, and what it contains."""

    at: str
    size: int
    sha256: str
    mode: int = 0o600

    def as_json(self) -> dict[str, Any]:
        return {"at": self.at, "size": self.size, "sha256": self.sha256, "mode": self.mode}

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Self:
        """Read what `as_json` returned. Raises ValueError, KeyError or TypeError for anything else."""
        size, mode, sha256 = value["size"], value.get("mode", 0o600), value["sha256"]
        if isinstance(size, bool) or not isinstance(size, int) or size < 0 or not isinstance(mode, int):
            raise ValueError(f"size: {shown(size)} is not a number of bytes")
        if not isinstance(sha256, str) or len(sha256) != 64:
            raise ValueError(f"sha256: {shown(sha256)} is not a SHA-256 in hexadecimal")
        return cls(checked_place(value["at"]), size, sha256, mode & 0o700)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex digits. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_at(path: Path, at: str) -> StagedFile:
    """Return what a file contains. Raises OSError."""
    mode = 0o700 if os.access(path, os.X_OK) else 0o600
    return StagedFile(at, path.stat().st_size, digest_of(path), mode)
