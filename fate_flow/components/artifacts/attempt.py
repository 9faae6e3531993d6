"""The worker whose artifacts are meant, and what every kind of artifact does on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fate_flow.core.model.artifact import Artifact
from fate_flow.core.model.job import TaskKey


@dataclass(frozen=True)
class Attempt:
    """One worker of a party task, and its folder."""

    task: TaskKey
    folder: Path
    incarnation: str = ""


class KindOnDisk(Protocol):
    """One kind of artifact on the disk of this party."""

    @property
    def section(self) -> str:
        """Where result files list it: `io_meta.outputs.<section>`."""

    def planned(self, attempt: Attempt, key: str) -> Artifact:
        """Return the output that the worker may make under this key, in a place that no other attempt uses."""

    def reported(self, attempt: Attempt, key: str, entry: Mapping[str, Any]) -> Artifact:
        """Return the artifact that an entry `{uri, metadata}` of the worker's result file describes.

        A worker may write anything, so the place and each value are checked, and links in the path are resolved.
        Raises ArtifactError, BadRequest, or what a value of a wrong type raises."""

    def remove(self, artifact: Artifact) -> None:
        """Remove the content, if it lies where this party keeps such artifacts; anything else stays."""


class ArtifactError(ValueError):
    """A result file describes an artifact wrongly. The text names places of this party: only for its own log."""
