"""Artifacts: what a task reads and makes, such as a table or a file, whatever its kind.

What a kind is on disk: components/artifacts/on_disk.py. What this party stores about it: services/artifacts/kinds.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TABLE, FILE, METRIC = "table", "file", "json_metric"
"""The kinds, as `type_name` in a task configuration and in a result file. A METRIC is a file with a task's metrics."""

FILE_SCHEME = "file://"


@dataclass(frozen=True)
class Artifact:
    """A thing that a task reads or makes: its kind, where it is, and what its kind says about it."""

    kind: str
    uri: str                                                      # empty: its content was removed
    metadata: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""                                                 # of the input or the output of the task

    @property
    def place(self) -> dict[str, Any]:
        """Its form in files before it exists: `{uri, type_name}`."""
        return {"uri": self.uri, "type_name": self.kind}

    def as_json(self) -> dict[str, Any]:
        """Its form in task configurations and result files: `{uri, type_name, metadata}`."""
        return {**self.place, "metadata": dict(self.metadata)}


def file_at(path: str) -> Artifact:
    """Return the file at an absolute path."""
    return Artifact(FILE, f"{FILE_SCHEME}{path}")
