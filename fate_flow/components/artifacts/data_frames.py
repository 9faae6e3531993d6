"""FATE's data frames on disk: folders below one folder `frames` for each seat of a job.

FATE keeps a list of its tables, and what it needs meanwhile, in the same folder. So workers of one seat share it, and
it is removed with the folder of the job.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fate_flow.components.artifacts.attempt import ArtifactError, Attempt
from fate_flow.core.model.artifact import DATAFRAME, TABLE, Artifact
from fate_flow.core.model.grammar import check_output_name, shown

FRAMES = "frames"
_SCHEME = "standalone://"
_INDEXED = re.compile("_[0-9]+$")        # of several outputs under one key
_INPUTS = "_inputs"                      # ends the namespace of what a worker makes of its inputs
_KEPT = ("metadata", "name", "namespace", "source")


class DataFrames:
    """Data frames, as `standalone://<folder of the seat>/frames/<namespace>/<name>`. Metadata: what the component says
    (`metadata: {schema}`, `source`).

    They never leave their party, and are removed with the folder of their job."""

    section = "data"

    def planned(self, attempt: Attempt, key: str) -> Artifact:
        """Return a frame with a namespace of this worker's own."""
        return Artifact(DATAFRAME, f"{_SCHEME}{_folder_of(attempt)}/{_namespace_of(attempt)}/{key}", key=key)

    def reported(self, attempt: Attempt, key: str, entry: Mapping[str, Any]) -> Artifact:
        uri, name = str(entry["uri"]), str(entry["uri"]).rpartition("/")[2]
        expected = self.planned(attempt, check_output_name(key)).uri
        if key not in (name, _INDEXED.sub("", name)) or uri != expected.removesuffix(key) + name:
            raise ArtifactError(f"uri: {shown(uri)} is not {expected}")
        path = Path(uri.removeprefix(_SCHEME))
        real = Path(os.path.realpath(_folder_of(attempt))) / _namespace_of(attempt) / name
        if not path.is_dir() or Path(os.path.realpath(path)) != real:
            raise ArtifactError(f"uri: {shown(uri)} has no data frame")
        said = entry.get("metadata") or {}
        return Artifact(DATAFRAME, uri, {one: said[one] for one in _KEPT if one in said}, key)

    def remove(self, artifact: Artifact) -> None:
        """Leave the frame: it goes with the folder of its job."""


def input_of(attempt: Attempt, read: Artifact, converted_to: str, index: int = 0) -> dict[str, Any]:
    """Return an input of a task configuration. A table that its worker converts to a kind becomes a data frame of this
    worker's own; `made_from` has the table."""
    if read.kind != TABLE or not converted_to:
        return read.as_json()
    place = f"{_folder_of(attempt)}/{_namespace_of(attempt)}{_INPUTS}/{read.key}_{index}"
    return {"uri": f"{_SCHEME}{place}", "type_name": converted_to, "metadata": {}, "made_from": read.as_json()}


def _folder_of(attempt: Attempt) -> Path:
    """Return the folder for the frames of the seat; that of the worker if it lies elsewhere than jobs do."""
    party = attempt.task.party
    for folder in attempt.folder.parents:
        if folder.parts[-3:] == (attempt.task.job_id, party.role, party.party_id):
            return folder / FRAMES
    return attempt.folder / FRAMES


def _namespace_of(attempt: Attempt) -> str:
    return f"{attempt.task.name}_{attempt.task.version}_{attempt.folder.name}"
