"""What use cases ask about a kind of artifact."""
# ruff: noqa: ARG002  # the answers of the base class do not depend on what is asked

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.access.permission import Thing
from fate_flow.core.metrics.form import MOST_BYTES_OF_JOB
from fate_flow.core.model.artifact import Artifact
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.modules import ModuleInfo
from fate_flow.core.model.spec import Party, Stored, TaskSpec
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import Scope


@dataclass(frozen=True)
class Maker:
    """A party task that has succeeded at all parties, when its outputs are published."""

    task: TaskKey
    spec: TaskSpec | None                # None: its document is not known any more
    module: ModuleInfo | None
    at: int                              # milliseconds since the epoch
    most_metric_bytes: int = MOST_BYTES_OF_JOB      # of all metrics of the job

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.spec.parameters.get(self.task.party, {}) if self.spec is not None else {}


@dataclass(frozen=True)
class Kept:
    """An artifact that this party keeps until it is removed."""

    artifact: Artifact
    job_id: str                          # of the job that made it
    name: str                            # for people: "NAMESPACE NAME"
    names: frozenset[str]                # a document with all these texts names it
    age: tuple[Any, ...]                 # its place among those of its kind, the oldest first


@dataclass(frozen=True)
class Removed:
    """What a job has lost of one kind: artifacts whose content is still to be removed, and the number of rows."""

    artifacts: tuple[Artifact, ...] = ()
    rows: int = 0


class ArtifactKind:
    """A kind whose artifacts belong to their task alone: no task reads them, and they go with the folder of the job.

    A kind overrides what differs. `kinds.py` has the table of all kinds."""

    port = ""           # the kind of input that takes them ("data", as in a DSL); empty: no task reads them
    noun = "artifact"   # in messages
    has_rows = False    # it has rows of its own, which `clear` removes and counts
    is_stored = False   # the store of models keeps what the worker has packed
    stays_with_worker = False   # tasks read what the worker has reported, as long as its folder is there

    # ------------------------------------------------------------------ when a task has ended

    def publish(self, tx: Transaction, maker: Maker, artifacts: Sequence[Artifact]) -> str | None:
        """Store what a party task made. Every kind is called once for each task, also without artifacts.

        Returns what could not be stored, for the log of this party."""

    def in_summary(self, artifacts: Sequence[Artifact]) -> Mapping[str, Any]:
        """Return what the summary of the task says of them."""
        return {}

    def is_of_attempt(self, tx: Transaction, task: TaskKey, artifact: Artifact) -> bool:
        """Return whether only this attempt has the artifact, so that it is removed if the attempt does not count."""
        return False

    # ------------------------------------------------------------------ for the next task

    def is_published(self, tx: Transaction, task: TaskKey) -> bool:
        """Return whether outputs of this version of the party task are stored."""
        return False

    def published(self, tx: Transaction, job_id: str, task: str, party: Party, name: str) -> tuple[Artifact, ...]:
        """Return the output with this name in the document, of the newest version, or all of it if the component makes
        several; without a uri if its content was removed."""
        return ()

    def why_unreadable(self, tx: Transaction, task: TaskSpec, party: Party, is_own: bool, may_come: bool) -> str:
        """Return why the task cannot read what its parameters name; empty if it can, or if they name nothing.

        `is_own`: the job is one of this party, whose users may hear more. `may_come`: it need not be here yet."""
        return ""

    def parameters(self, tx: Transaction, task: TaskSpec, party: Party, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters for a worker, with the names that only this server can resolve replaced."""
        return given

    def grants(self, task: TaskSpec, party: Party) -> Iterator[Thing]:
        """Yield what a job of another party has to be granted in order to read what the parameters name."""
        return iter(())

    def stored(self, tx: Transaction, one: Stored, party: Party) -> Artifact | None:
        """Return what an input of this kind reads from the store of this party; None if it is not there."""
        return None

    # ------------------------------------------------------------------ removal

    def made(self, tx: Transaction, scope: Scope) -> tuple[Kept, ...]:
        """Return what these tasks made and what is kept apart from the folder of their job."""
        return ()

    def older(self, tx: Transaction, before: int, after: tuple[Any, ...] | None, limit: int) -> tuple[Kept, ...]:
        """Return what tasks made before a time, the oldest first, behind the one with the age `after` (None: all)."""
        return ()

    def forget(self, tx: Transaction, kept: Kept) -> bool:
        """Remove the row, unless another artifact was made with its name meanwhile; return whether it was removed."""
        return False

    def clear(self, tx: Transaction, scope: Scope) -> Removed:
        """Remove the rows about what these tasks made."""
        return Removed()
