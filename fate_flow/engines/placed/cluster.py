"""What an engine that places runners asks of the cluster: submit, list, signal, cancel. Slurm is one.

A cluster knows nothing of tasks. It runs `argv` somewhere, under a name that nobody else has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Protocol, runtime_checkable

from fate_flow.core.model.resources import Need


@dataclass(frozen=True)
class Gang:
    """The workers of one party for one task that begin together: a cluster may place all of them, or none."""

    name: str                          # the same for each of them, and for nobody else: 32 hex digits
    size: int                          # how many they are


@dataclass(frozen=True)
class Batch:
    """The workers that one start of a task brings to a party, whether or not they begin together."""

    name: str                          # the same for each of them, and for nobody else
    size: int                          # how many they are


@dataclass(frozen=True)
class Placement:
    """A runner that is to be placed."""

    name: str                          # unique over all homes and times
    folder: Path                       # of its worker
    argv: Sequence[str]                # the command that runs it
    need: Need
    grace_seconds: float               # that its worker has between the signal of its end and SIGKILL
    partner: str = ""                  # the party whose job it is, where that is another one
    env: Mapping[str, str] = field(default_factory=dict)
    gang: Gang | None = None           # None: it begins by itself
    batch: Batch | None = None         # None: it comes alone
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)      # variables of this runner alone


class Taken(Enum):
    """What became of a submission."""

    ACCEPTED = "accepted"
    REFUSED = "refused"                # it is not there, and will not be
    NOT_REACHED = "not reached"        # it is not there; it may be submitted again
    IN_DOUBT = "in doubt"              # it may be there: only a listing tells
    TOO_MANY = "too many"              # none of several is there; fewer at once may be submitted


@dataclass(frozen=True)
class Submission:
    taken: Taken
    text: str = ""                     # what the cluster said, one line


class Stage(Enum):
    """How far a listed job is. A word that we do not know is no stage that decides anything."""

    PENDING = "pending"
    ALIVE = "alive"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Waiting:
    """Why a placed runner has not begun."""

    kind: str                          # resources, priority, limit, held, begin, never or other
    text: str                          # for people: `waits in Slurm for 2 nodes: Resources`
    advice: str                        # what to do about it, or what says more; people of other parties read it, too


@dataclass(frozen=True)
class Listed:
    """One job of ours in a listing."""

    name: str
    folder: str                        # of its worker, as its comment says
    stage: Stage
    cause: str = ""                    # of an end that the cluster has caused: a cause of `Exit`
    word: str = ""                     # the cluster's own word, for people
    waiting: Waiting | None = None     # in stage PENDING
    is_reserved: bool | None = None    # in stage PENDING: a place is kept for it until `admit`; None: none ever is
    hides_lost_node: bool = False      # the cluster has lost the node of another job of this name

    @property
    def may_compute(self) -> bool:
        """Return whether it has ended for the cluster alone, which has lost its node."""
        return self.stage is Stage.ENDED and self.cause == "node_lost"


class Unreadable(Exception):
    """The cluster cannot be listed now."""


class Cluster(Protocol):
    """Each call ends within a limit of its own."""

    @property
    def title(self) -> str:
        """Return its name for people, such as Slurm."""
        ...

    def submit(self, placement: Placement) -> Submission: ...

    def listing(self) -> Sequence[Listed]:
        """Return all jobs of ours that the cluster knows. Raises Unreadable."""
        ...

    def signal(self, name: str) -> None:
        """Send SIGTERM to the runner of this name, if it runs."""

    def cancel(self, name: str) -> None:
        """End every job of this name."""

    def admit(self, name: str) -> None:
        """Let the job of this name begin, for which the last listing has shown a place that is kept."""

    def cause_in(self, folder: Path) -> tuple[str, str]:
        """Return cause and sentence of an end that the cluster has noted in the folder of the worker; empty if none."""
        ...


@runtime_checkable
class TakesSeveral(Protocol):
    """A cluster to which several runners can be submitted at once."""

    def submit_together(self, placements: Sequence[Placement]) -> Submission:
        """Submit runners whose folders have one parent, and which differ in nothing but name, folder, argv and secrets.

        The answer is that for each of them. Each is listed, signalled and cancelled by its own name."""
        ...
