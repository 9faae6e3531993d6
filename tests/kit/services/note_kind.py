"""A kind of artifact that the package does not have: a note, which tasks read and which retention removes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fate_flow.components.artifacts.attempt import ArtifactError, Attempt
from fate_flow.core.access.permission import Kind, Thing
from fate_flow.core.model.artifact import Artifact
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party, TaskSpec
from fate_flow.services.artifacts.kind import ArtifactKind, Kept, Maker, Removed
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import Scope

NOTE = "note"


def a_note(text: str, key: str = "data") -> Artifact:
    """A note as a worker reports it."""
    return Artifact(NOTE, f"memory:{text}", {"text": text}, key)


@dataclass
class Notes(ArtifactKind):
    """Notes by the party task and output that made them, with the times."""

    rows: dict[tuple[TaskKey, str], tuple[Artifact, int]] = field(default_factory=dict)
    port = "data"
    noun = "note"
    has_rows = True

    def publish(self, tx: Transaction, maker: Maker, artifacts: Sequence[Artifact]) -> None:
        self.rows |= {(maker.task, one.key): (one, maker.at) for one in artifacts}

    def in_summary(self, artifacts: Sequence[Artifact]) -> Mapping[str, Any]:
        return {"notes": len(artifacts)} if artifacts else {}

    def is_of_attempt(self, tx: Transaction, task: TaskKey, artifact: Artifact) -> bool:
        return True

    def is_published(self, tx: Transaction, task: TaskKey) -> bool:
        return any(key == task for key, _ in self.rows)

    def published(self, tx: Transaction, job_id: str, task: str, party: Party, name: str) -> tuple[Artifact, ...]:
        wanted = (job_id, task, party, name)
        found = [one for (key, out), (one, _) in self.rows.items() if (key.job_id, key.name, key.party, out) == wanted]
        return tuple(found[-1:])

    def why_unreadable(self, tx: Transaction, task: TaskSpec, party: Party, is_own: bool, may_come: bool) -> str:
        wanted = task.parameters.get(party, {}).get("note")
        known = {one.metadata["text"] for one, _ in self.rows.values()}
        return "" if wanted in (None, *known) or may_come else f"there is no note {wanted}"

    def parameters(self, tx: Transaction, task: TaskSpec, party: Party, given: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**given, "note": f"memory:{given['note']}"} if "note" in given else given

    def grants(self, task: TaskSpec, party: Party) -> Iterator[Thing]:
        if "note" in task.parameters.get(party, {}):
            yield Thing(Kind.DATASET, task.parameters[party]["note"], "notes")

    def made(self, tx: Transaction, scope: Scope) -> tuple[Kept, ...]:
        return tuple(_kept(key, *row) for (key, _), row in self.rows.items() if scope.has(key))

    def older(self, tx: Transaction, before: int, after: tuple[Any, ...] | None, limit: int) -> tuple[Kept, ...]:
        every = sorted((_kept(key, *row) for (key, _), row in self.rows.items()), key=lambda one: one.age)
        return tuple(one for one in every if (after or (0, "")) < one.age and one.age[0] < before)[:limit]

    def forget(self, tx: Transaction, kept: Kept) -> bool:
        before = len(self.rows)
        self.rows = {key: row for key, row in self.rows.items() if row[0] != kept.artifact}
        return len(self.rows) < before

    def clear(self, tx: Transaction, scope: Scope) -> Removed:
        found = self.made(tx, scope)
        for one in found:
            self.forget(tx, one)
        return Removed(tuple(one.artifact for one in found), len(found))


def _kept(task: TaskKey, note: Artifact, at: int) -> Kept:
    text = note.metadata["text"]
    return Kept(note, task.job_id, text, frozenset({text}), (at, text))


class NoteFiles:
    """Notes in the folder of their worker, one file each."""

    section = "data"

    def planned(self, attempt: Attempt, key: str) -> Artifact:
        return Artifact(NOTE, str(attempt.folder / f"{key}.note"), key=key)

    def reported(self, attempt: Attempt, key: str, entry: Mapping[str, Any]) -> Artifact:
        if entry["uri"] != self.planned(attempt, key).uri:
            raise ArtifactError(f"uri: {entry['uri']} is no note")
        return Artifact(NOTE, entry["uri"], {"text": Path(entry["uri"]).read_text(encoding="utf-8")}, key)

    def remove(self, artifact: Artifact) -> None:
        Path(artifact.uri).unlink(missing_ok=True)
