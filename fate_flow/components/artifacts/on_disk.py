"""The table of kinds on disk, and the kinds that are files in the folder of a worker.

The kinds in the database: services/artifacts/kinds.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_flow.components.artifacts.attempt import ArtifactError, Attempt, KindOnDisk
from fate_flow.components.artifacts.data_frames import DataFrames
from fate_flow.components.artifacts.packed_model import PACKED, TAR, Packed
from fate_flow.components.artifacts.table_files import TableFiles
from fate_flow.components.base.regular_file import open_regular
from fate_flow.core.metrics.form import Kept, read_metrics
from fate_flow.core.model.artifact import (
    DATAFRAME,
    FILE,
    FILE_SCHEME,
    JSON_MODEL,
    METRIC,
    MODEL,
    MODEL_DIRECTORY,
    TABLE,
    Artifact,
)
from fate_flow.core.model.grammar import check_output_name, shown
from fate_flow.core.text.os_errors import os_error_text

OUTPUTS = "outputs"          # the folder, in that of the worker, with the files that are kept
MODELS = "models"            # the folder, in that of the worker, with the models that it makes
METRICS = "metric.json"
MOST_METRIC_BYTES = 32 * 1024 * 1024
_MOST_SAID = 1_000
_NOWHERE = Path("/nonexistent")
_SHA256 = re.compile("[0-9a-f]{64}")


def kinds_on_disk(data_dir: Path, uploads_dir: Path, models_dir: Path = _NOWHERE) -> Mapping[str, KindOnDisk]:
    """Return every kind of artifact by its name, for a party with these folders."""
    return {
        TABLE: TableFiles(data_dir), FILE: KeptFiles(uploads_dir), METRIC: MetricFiles(),
        JSON_MODEL: KeptModels(JSON_MODEL, models_dir), MODEL_DIRECTORY: KeptModels(MODEL_DIRECTORY, models_dir),
        DATAFRAME: DataFrames(),
    }  # fmt: skip


@dataclass(frozen=True)
class KeptFiles:
    """Files that are kept, one for each output, in the folder `outputs` of the worker that collects them.

    Metadata: bytes, sha256. They are removed with the folder of their job. A file in `uploads_dir`, which a client has
    sent, is removed by itself; a file anywhere else belongs to its owner and stays."""

    uploads_dir: Path
    section = "data"

    def planned(self, attempt: Attempt, key: str) -> Artifact:
        return Artifact(FILE, f"{FILE_SCHEME}{attempt.folder}/{OUTPUTS}/{key}", key=key)

    def reported(self, attempt: Attempt, key: str, entry: Mapping[str, Any]) -> Artifact:
        meta, uri, path = entry["metadata"], str(entry["uri"]), kept_file(attempt.folder, key)
        if uri != self.planned(attempt, key).uri or path is None:
            raise ArtifactError(f"uri: {shown(uri)} is not a file {OUTPUTS}/{key} in the folder of the worker")
        if not isinstance(meta.get("sha256"), str) or not _SHA256.fullmatch(meta["sha256"]):
            raise ArtifactError(f"sha256: {shown(meta.get('sha256'))} is not a SHA-256 in hexadecimal")
        if isinstance(meta.get("bytes"), bool) or not isinstance(meta.get("bytes"), int):
            raise ArtifactError(f"bytes: {shown(meta.get('bytes'))} is not a number of bytes")
        return Artifact(FILE, uri, {"bytes": meta["bytes"], "sha256": meta["sha256"]}, key)

    def remove(self, artifact: Artifact) -> None:
        path = Path(artifact.uri.removeprefix(FILE_SCHEME))
        if path.is_absolute() and path.parent == self.uploads_dir:
            path.unlink(missing_ok=True)


def kept_file(folder: Path, key: str) -> Path | None:
    """Return the file that a worker with this folder keeps for an output; None if there is none, or only a link.

    Raises BadRequest if the key is no name of an output."""
    path = folder / OUTPUTS / check_output_name(key)
    real = Path(os.path.realpath(folder)) / OUTPUTS / key
    return path if Path(os.path.realpath(path)) == real and path.is_file() else None


@dataclass(frozen=True)
class KeptModels:
    """Models, a file or a folder each, in the folder `models` of their worker. Metadata: what the component says.

    They never leave their party, and are removed with the folder of their job. Beside them, in the folder `packed`, the
    worker has packed each into one file, for the store in `models_dir`; only there they are removed by themselves."""

    kind: str
    models_dir: Path
    section = MODEL

    def planned(self, attempt: Attempt, key: str) -> Artifact:
        return Artifact(self.kind, f"{FILE_SCHEME}{attempt.folder}/{MODELS}/{key}", key=key)

    def reported(self, attempt: Attempt, key: str, entry: Mapping[str, Any]) -> Artifact:
        uri, name = str(entry["uri"]), str(entry["uri"]).rpartition("/")[2]
        is_planned = name == key or _INDEXED.sub("", name) == key
        if not is_planned or uri != self.planned(attempt, check_output_name(key)).uri[:-len(key)] + name:
            raise ArtifactError(f"uri: {shown(uri)} is not {MODELS}/{key} in the folder of the worker")
        path, real = attempt.folder / MODELS / name, Path(os.path.realpath(attempt.folder)) / MODELS / name
        is_there = path.is_dir() if self.kind == MODEL_DIRECTORY else path.is_file()
        if not is_there or Path(os.path.realpath(path)) != real:
            raise ArtifactError(f"uri: {shown(uri)} has no {self.kind}")
        said = entry.get("metadata") or {}
        packed = packed_in(attempt.folder, name) or Packed("", 0)
        kept = {name: one for name, one in said.items() if name not in _OVERVIEWS}
        return Artifact(self.kind, uri, kept, key, packed.sha256, packed.size)

    def remove(self, artifact: Artifact) -> None:
        path = Path(artifact.uri.removeprefix(FILE_SCHEME))
        if path.is_relative_to(self.models_dir) and path.suffix == TAR and ".." not in path.parts:
            path.unlink(missing_ok=True)
            _remove_empty(path.parent, self.models_dir)


def packed_in(folder: Path, name: str) -> Packed | None:
    """Return what a worker has said of the file into which it has packed a model; None if there is no such file."""
    place = folder / PACKED
    try:
        with open_regular(place / f"{name}.json") as file:
            said = json.loads(file.read(_MOST_SAID))
        found = Packed(str(said["sha256"]), said["bytes"])
        with open_regular(place / f"{name}{TAR}") as file:
            size = os.fstat(file.fileno()).st_size
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if _SHA256.fullmatch(found.sha256) and found.size == size else None


def _remove_empty(folder: Path, root: Path) -> None:
    """Remove a folder and those above it, up to the root, while they are empty."""
    with suppress(OSError):
        while folder != root:
            folder.rmdir()
            folder = folder.parent


_INDEXED = re.compile("_[0-9]+$")
_OVERVIEWS = frozenset({"model_overview", "data_overview"})      # FATE's, for people


@dataclass(frozen=True)
class MetricFiles:
    """The file with the metrics of a task, anywhere in the folder of its worker.

    Metadata: `metrics`, a list of `{namespace, name, data, meta}`, and `left_out`, what is wrong with the others: a bad
    metric fails no task. The file is removed with the folder of its job."""

    section = "metric"

    def planned(self, attempt: Attempt, key: str) -> Artifact:
        return Artifact(METRIC, f"{FILE_SCHEME}{attempt.folder}/{METRICS}", key=key)

    def reported(self, attempt: Attempt, key: str, entry: Mapping[str, Any]) -> Artifact:
        uri = str(entry["uri"])
        path = os.path.realpath(uri.removeprefix(FILE_SCHEME))
        if not Path(path).is_relative_to(os.path.realpath(attempt.folder)):
            raise ArtifactError(f"uri: {shown(uri)} is not in the folder of the worker")
        metrics, left_out = read_metric_file(Path(path))
        return Artifact(METRIC, uri, {"metrics": metrics, "left_out": left_out}, key)

    def remove(self, artifact: Artifact) -> None:
        """Leave the file: it goes with the folder of its job."""


def read_metric_file(path: Path) -> tuple[list[Kept], list[str]]:
    """Return the metrics of a file, and what is wrong with it, or with some of them."""
    try:
        with open_regular(path) as file:
            text = file.read(MOST_METRIC_BYTES + 1)
        said = json.loads(text) if len(text) <= MOST_METRIC_BYTES else None
    except (OSError, ValueError, RecursionError) as error:
        return [], [os_error_text(error, path) if isinstance(error, OSError) else f"{path.name} is not JSON"]
    if said is None:
        return [], [f"{path.name} has more than {MOST_METRIC_BYTES} bytes"]
    if not isinstance(said, list):
        return [], [f"{path.name}: {shown(said)} is not a list of metrics"]
    return read_metrics(said)
