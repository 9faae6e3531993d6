"""Models in the store of a world without servers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from fate_flow.components.artifacts.packed_model import pack
from fate_flow.core.model.spec import ModelReference
from fate_flow.server.model_store import ModelStore
from fate_flow.services.context.model_files import ModelFiles
from fate_flow.store.values import StoredModel
from tests.kit.api.client_world import GUEST, START, World


def put_file(store: ModelFiles, model: StoredModel, packed: Path) -> None:
    """Store the file of a model, without its row."""
    with packed.open("rb") as file:
        draft = store.draft(model, file)
    store.place({draft: model})
    store.drop(draft)


def add_model(
    world: World, job_id: str, version: int = 0, task: str = "fit_0", content: Any = None, **more: Any
) -> StoredModel:
    """A model that a task of this job has made, with its file."""
    folder = world.home / "made" / job_id / str(version) / task
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model").write_text(json.dumps({"mean": version} if content is None else content), encoding="utf-8")
    packed = pack(folder / "model", folder / "packed.tar", {"type_name": "json_model"})
    model = replace(StoredModel(
        ModelReference(job_id, version, task, "model"), GUEST, "json_model", packed.sha256, packed.size, job_id, "9999",
        version, "Fit", {"guest": [9999]}, {"rows": 3}, START + version,
    ), **more)  # fmt: skip
    put_file(ModelStore(world.home / "models"), model, folder / "packed.tar")
    with world.store.transaction() as tx:
        tx.save_model(model)
    return model
