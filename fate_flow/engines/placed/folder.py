"""What a placed worker has in its folder besides the files of every worker."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fate_flow.engines.local.worker import JOBS, STOP, Stop, draft_of, read_json, write_atomically
from fate_flow.engines.placed.cluster import Waiting
from fate_flow.engines.placed.submitting import Submitter

PLACED = "placed.json"          # the intent: whoever links it may submit, nobody else
PENDING = "pending.json"        # why it waits, and since when
_MOST_SHOWN = 500
OUTPUT = "cluster.out"          # what the cluster itself says into the output of the job
_MOST_OUTPUT = 64 * 1024        # bytes at its end that somebody reads


@dataclass(frozen=True)
class Placed:
    """`placed.json`: the name under which a worker was submitted, or may have been."""

    name: str
    longest_pending: float = 0.0
    submitter: Submitter | None = None      # None: not known

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        value = read_json(folder / PLACED) or {}
        name = value.get("name")
        if not isinstance(name, str):
            return None
        return cls(name, seconds_of(value.get("longest_pending")), Submitter.of(value.get("submitter")))


def intend(folder: Path, name: str, longest_pending: float, submitter: Submitter) -> bool:
    """Make the intent to submit; True only for the one process that may submit this worker.

    `longest_pending`: how many seconds the job lets it wait; 0: as long as the party does."""
    draft = draft_of(folder / PLACED)
    text = {"name": name, "longest_pending": longest_pending, "submitter": submitter.to_json()}
    draft.write_text(json.dumps(text))
    with draft.open() as file:
        os.fsync(file.fileno())      # after a power cut, a job must not run whose intent nobody knows
    try:
        os.link(draft, folder / PLACED)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


@dataclass(frozen=True)
class Pending:
    """`pending.json`: what people see of a placed worker that has not started."""

    kind: str
    text: str
    advice: str = ""
    seconds: float = 0.0        # for how long listings have shown it as pending

    @property
    def shown(self) -> str:
        """Return the text with what to do about it."""
        return (f"{self.text} ({self.advice})" if self.advice else self.text)[:_MOST_SHOWN]

    def write(self, folder: Path) -> None:
        text = json.dumps({"kind": self.kind, "text": self.text, "advice": self.advice, "seconds": self.seconds})
        write_atomically(folder / PENDING, text, is_durable=False)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        value = read_json(folder / PENDING)
        if value is None:
            return None
        kind, text, advice = (str(value.get(key, "")) for key in ("kind", "text", "advice"))
        return cls(kind, text, advice, seconds_of(value.get("seconds")))


def note(folder: Path, waiting: Waiting, seconds: float) -> None:
    """Write why a worker waits, and for how long listings have shown it so; nothing if its folder was removed."""
    with suppress(FileNotFoundError):
        Pending(waiting.kind, waiting.text, waiting.advice, seconds).write(folder)


def seconds_of(value: object) -> float:
    """Return a number of seconds that a file says; 0 for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else 0.0


def request_stop(folder: Path, grace_seconds: float, cause: str = "") -> None:
    """Write the request that a worker ends, for its runner on whatever machine; the shorter grace counts.

    It has no time: clocks of two machines are not compared. The runner counts the grace from when it sees it.
    `cause`: of its end, if the server asks because the cluster has lost the worker; not if somebody wants it to end."""
    earlier = read_json(folder / STOP)
    known = Stop.read(folder)
    if earlier is None or known is None or known.grace_seconds > grace_seconds:
        asked = {"grace_seconds": grace_seconds, "cause": cause if earlier is None else earlier.get("cause", "")}
        write_atomically(folder / STOP, json.dumps(asked))


def why_stopped(folder: Path) -> str | None:
    """Return the cause in the request to stop; empty if somebody wanted it to end, None if there is none."""
    value = read_json(folder / STOP)
    return None if value is None else str(value.get("cause", ""))


def is_below(folder: str, jobs_dir: Path) -> bool:
    """Return whether a path from outside names a folder of a worker below the folder of all jobs."""
    path = Path(folder)
    return path.is_absolute() and ".." not in path.parts and jobs_dir in path.parents and jobs_dir.name == JOBS


def end_of_output(path: Path) -> bytes:
    """Return what the cluster has said last into the output of a job; nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_OUTPUT))
            return file.read()
    except OSError:
        return b""
