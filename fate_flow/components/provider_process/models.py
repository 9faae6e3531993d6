"""The models of a worker: what it reads of this party's store is unpacked, what it makes is packed for the store."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fate_flow.components.artifacts.packed_model import PACKED, TAR, BadModel, Packed, pack, unpack

UNPACKED = "inputs"          # the folder, in that of the worker, with the models that it reads from the store
_SCHEME = "file://"


def with_unpacked(inputs: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the input artifacts with the stored models in files and folders of the worker.

    Raises OSError; BadModel if the file in the store is not what was stored."""
    found: dict[str, Any] = {}
    for key, given in inputs.items():
        every = given if isinstance(given, list) else [given]
        ready = [_unpacked(one, folder / UNPACKED / f"{key}_{number}") for number, one in enumerate(every)]
        found[key] = ready if isinstance(given, list) else ready[0]
    return found


def _unpacked(artifact: Mapping[str, Any], place: Path) -> dict[str, Any]:
    stored = artifact.get("stored")
    if not stored:
        return dict(artifact)
    expected = Packed(stored["sha256"], stored["bytes"])
    path = Path(artifact["uri"].removeprefix(_SCHEME))
    try:
        content = unpack(path, place, expected)
    except BadModel as error:
        raise BadModel(f"{path}: {error}") from error
    kept = {key: value for key, value in artifact.items() if key != "stored"}
    return {**kept, "uri": f"{_SCHEME}{content}"}


def pack_made(result: Mapping[str, Any], task: Mapping[str, Any], folder: Path) -> None:
    """Pack the models that our result file lists, each with its digest in a file beside it.

    Raises OSError; BadModel for a model that no reader would take."""
    for key, entries in result["io_meta"]["outputs"].get("model", {}).items():
        for place, entry in enumerate(entries):
            content = Path(entry["uri"].removeprefix(_SCHEME))
            meta = {
                "metadata": entry["metadata"], "type_name": entry["type_name"], "model_key": key,
                "index": place if len(entries) > 1 else None, "component": task["component"],
                "source": {"task_id": task["task_id"], "party_task_id": task["party_task_id"], "output_key": key},
            }  # fmt: skip
            packed = pack(content, folder / PACKED / f"{content.name}{TAR}", meta)
            _write(folder / PACKED / f"{content.name}.json", json.dumps(packed.as_json()))


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)
