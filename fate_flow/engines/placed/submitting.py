"""Whether the submission of a placed worker may still come: who makes it, what it says of it, and whether it lives.

Any process of a server may submit, and another one lists. A worker that was not submitted yet is in no listing, and is
not lost. So whoever submits says in the folder what the cluster has answered.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from fate_flow.components.base.own_servers import machine_of_processes
from fate_flow.engines.local.worker import ProcessId, read_json, write_atomically
from fate_flow.engines.placed.cluster import Taken

SUBMITTED = "submitted.json"     # what became of the submission
LONGEST_SECONDS = 600.0
"""For so long a process that nobody here can look at may submit after it was last heard of: its queue of submissions
may be long, and the cluster slow."""


@dataclass(frozen=True)
class Submitter:
    """The process that has made the intent to submit a worker; in `placed.json`."""

    process: ProcessId
    machine: str               # whose process number that is

    def to_json(self) -> dict[str, Any]:
        return {"pid": self.process.pid, "started": self.process.started, "machine": self.machine}

    @classmethod
    def of(cls, value: object) -> Self | None:
        """Read the object of `to_json`; None for anything else."""
        found = value if isinstance(value, Mapping) else {}
        pid, started, machine = found.get("pid"), found.get("started"), found.get("machine")
        if type(pid) is not int or type(started) is not int or not isinstance(machine, str):
            return None
        return cls(ProcessId(pid, started), machine)


class Processes(Protocol):
    """What can be known of the processes that submit."""

    def own(self) -> Submitter: ...

    def is_alive(self, submitter: Submitter) -> bool | None:
        """Return whether a process lives; None if that cannot be known here."""
        ...


class ProcessesHere:
    """The processes of this machine; of others nothing is known."""

    def own(self) -> Submitter:
        return Submitter(ProcessId.of(os.getpid()), machine_of_processes())

    def is_alive(self, submitter: Submitter) -> bool | None:
        return submitter.process.is_alive() if submitter.machine == machine_of_processes() else None


@dataclass(frozen=True)
class Submitted:
    """`submitted.json`: what the cluster has answered to the last try, and the number of tries."""

    taken: str
    tries: int

    @property
    def is_over(self) -> bool:
        """Return whether nobody submits it any more."""
        return self.taken != Taken.NOT_REACHED.value

    def write(self, folder: Path) -> None:
        text = json.dumps({"taken": self.taken, "tries": self.tries})
        write_atomically(folder / SUBMITTED, text, is_durable=False)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        value = read_json(folder / SUBMITTED)
        if value is None:
            return None
        taken, tries = value.get("taken"), value.get("tries")
        return cls(taken, tries) if isinstance(taken, str) and type(tries) is int else None


@dataclass
class Wait:
    """How long one process has waited for the submission that another one makes, in listings that could be read."""

    seen: Submitted | None = None
    at: float | None = None          # of the last listing that did not show the worker
    seconds: float = 0.0             # since `seen` has changed

    def may_come(
        self, submitted: Submitted | None, submitter: Submitter | None, processes: Processes, at: float
    ) -> bool:
        """Return whether a worker that is not in the listing of this moment may still be submitted."""
        if submitted is not None and submitted.is_over:
            return False
        lives = processes.is_alive(submitter) if submitter is not None else None
        if lives is not None:
            return lives
        since = at if self.at is None else self.at
        self.seconds = 0.0 if submitted != self.seen else self.seconds + at - since
        self.seen, self.at = submitted, at
        return self.seconds < LONGEST_SECONDS

    def stand(self) -> None:
        """Let the clock stand: the cluster could not be listed, so it could not be submitted to either."""
        self.at = None
