"""The models of a task, and the store of models, as clients of FATE Flow 2 ask for them."""

from __future__ import annotations

import errno
import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fate_flow.components.artifacts.packed_model import digest_of
from fate_flow.core.model.spec import ModelReference
from fate_flow.server.model_store import ModelStore
from tests.kit.api.client_world import FORM_TYPE, World, form, make_world
from tests.kit.api.models import add_model, put_file
from tests.kit.components.tiny_provider import THREE

QUERY, DOWNLOAD = "output/model/query", "output/model/download"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path, modules=THREE.components, data_roots=(tmp_path / "shared",))
    (tmp_path / "uploads").mkdir(exist_ok=True)
    yield world
    world.store.close()


@pytest.fixture
def task(world: World) -> dict[str, str]:
    """A task that has stored a model in two versions, and another one."""
    job_id = world.add_job()
    for name in ("fit_0", "other_0"):
        world.add_task(job_id, f_component_name=name, f_status="success", f_party_status="success", f_end_time=1)
        add_model(world, job_id, task=name)
    add_model(world, job_id, 1)
    return {"job_id": job_id, "role": "guest", "party_id": "9999", "task_name": "fit_0"}


def post(world: World, path: str, /, **sent: Any) -> dict[str, Any]:
    found = world.client.post(f"/v2/{path}", json=sent).json
    assert isinstance(found, dict)
    return found


def named(task: dict[str, str], version: int = 0) -> dict[str, str]:
    return {"model_id": task["job_id"], "model_version": str(version)}


def stored(world: World) -> list[tuple[str, int]]:
    with world.store.transaction() as tx:
        return sorted((one.reference.task, one.reference.version) for one in tx.models())


def test_a_task_shows_what_its_newest_run_has_stored(world: World, task: dict[str, str]) -> None:
    found = world.client.get(f"/v2/{QUERY}", query_string=task).json
    assert found == {"code": 0, "message": "success", "data": {"model": {"mean": 1}}}


def test_a_task_without_models_shows_none(world: World) -> None:
    job_id = world.add_job()
    world.add_task(job_id)
    of = {"job_id": job_id, "role": "guest", "party_id": "9999", "task_name": "toy_0"}
    assert world.client.get(f"/v2/{QUERY}", query_string=of).json["data"] == {}
    text = ",".join(f"{key}[{one}]" for key, one in of.items())
    missing = {"code": 2005, "message": f"No found output model: {text}"}
    assert world.client.get(f"/v2/{DOWNLOAD}", query_string=of).json == missing
    assert post(world, "output/model/delete", **of) == missing


def test_models_of_a_task_are_downloaded_in_a_folder_of_their_output(world: World, task: dict[str, str]) -> None:
    response = world.client.get(f"/v2/{DOWNLOAD}", query_string=task)
    assert response.mimetype == "application/x-tar", response.data
    assert response.headers["Content-Disposition"].endswith(f"filename={task['job_id']}_guest_9999_fit_0")
    with tarfile.open(fileobj=io.BytesIO(response.data), mode="r:") as tar:
        files = {one.name: tar.extractfile(one).read() for one in tar}      # type: ignore[union-attr]
    assert set(files) == {"model/model", "model/model.meta.yaml"}
    assert json.loads(files["model/model"]) == {"mean": 1}
    assert json.loads(files["model/model.meta.yaml"])["type_name"] == "json_model"


def test_a_downloaded_model_has_its_names_whatever_heads_the_stored_one_has(world: World, task: dict[str, str]) -> None:
    """In the second model a `path` of PAX is the name that was checked; it must not leave the folder of its output."""
    one, data = add_model(world, world.add_job(), 7), b'{"type_name": "json_model"}'
    path = world.home / "pax.tar"
    with tarfile.open(path, "w") as tar:
        for name in ("model", "model/f\u00fcr", "model.meta.yaml"):
            head = tarfile.TarInfo("x")
            head.uid, head.uname, head.mode, head.mtime = 7, "ann", 0o4777, 9
            head.pax_headers = {"path": name, "linkpath": "/etc", "uid": "8", "mtime": "5.5", "SCHILY.xattr.x": "y"}
            head.type, head.size = (tarfile.DIRTYPE, 0) if name == "model" else (tarfile.REGTYPE, len(data))
            tar.addfile(head, None if head.isdir() else io.BytesIO(data))
    packed = digest_of(path)
    one = replace(one, reference=ModelReference(task["job_id"], 2, "fit_0", "model"), sha256=packed.sha256,
                  size=packed.size, job_id=task["job_id"], task_version=2)  # fmt: skip
    put_file(ModelStore(world.home / "models"), one, path)
    with world.store.transaction() as tx:
        tx.save_model(one)
    response = world.client.get(f"/v2/{DOWNLOAD}", query_string=task)
    with tarfile.open(fileobj=io.BytesIO(response.data), mode="r:") as found:
        heads = [(head.name, head.isdir(), head.mode, head.uid, head.uname, head.mtime) for head in found]
        assert [sorted(head.pax_headers) for head in found] == [[], ["path"], []]
    assert heads == [
        ("model/model", True, 0o755, 0, "", 0), ("model/model/f\u00fcr", False, 0o644, 0, "", 0),
        ("model/model.meta.yaml", False, 0o644, 0, "", 0),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["../model", "/model", ""])
def test_a_stored_file_that_is_no_packed_model_is_not_downloaded(
    world: World, task: dict[str, str], name: str
) -> None:  # fmt: skip
    stored_file = ModelStore(world.home / "models").path(add_model(world, task["job_id"], 2))
    with tarfile.open(stored_file, "w") as tar:
        if name:
            tar.addfile(tarfile.TarInfo(name))
    found = world.client.get(f"/v2/{DOWNLOAD}", query_string=task).json
    assert "the file of the output model cannot be copied into the tar" in found["message"], found


def test_models_of_a_task_are_deleted(world: World, task: dict[str, str]) -> None:
    assert post(world, "output/model/delete", **task)["data"] == {"count": 1}
    assert stored(world) == [("fit_0", 0), ("other_0", 0)]


def test_a_model_goes_from_one_home_to_another(world: World, task: dict[str, str], tmp_path: Path) -> None:
    asked = {**named(task), "role": "guest", "party_id": "9999", "path": str(tmp_path / "shared" / "new")}
    file = Path(post(world, "model/export", **asked)["data"]["file"])
    assert file == tmp_path / "shared" / "new" / f"{task['job_id']}_0_guest_9999.zip"
    again = post(world, "model/export", **asked)
    assert (again["code"], "exists" in again["message"]) == (5001, True), again
    assert post(world, "model/delete", **named(task))["data"] == {"count": 2}
    assert stored(world) == [("fit_0", 1)]
    assert taken(world, file.read_bytes())["data"] == {"count": 2}
    assert stored(world) == [("fit_0", 0), ("fit_0", 1), ("other_0", 0)]
    refused = taken(world, file.read_bytes())
    assert (refused["code"], "never overwritten" in refused["message"]) == (6000, True), refused
    assert list(world.uploads) == []


def test_an_export_that_is_cut_off_leaves_no_file(
    world: World, task: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shared" / "new"
    asked = {**named(task), "role": "guest", "party_id": "9999", "path": str(folder)}

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fate_flow.api.v2.outputs.models.os.fsync", full)
        found = post(world, "model/export", **asked)
    assert "cannot be written: the disk is full" in found["message"].lower(), found
    assert list(folder.iterdir()) == []
    assert post(world, "model/export", **asked)["code"] == 0


def taken(world: World, data: bytes) -> dict[str, Any]:
    found = world.client.post("/v2/model/import", data=form(data), content_type=FORM_TYPE).json
    assert isinstance(found, dict)
    return found


def test_an_import_names_what_is_wrong(world: World) -> None:
    for found, problem in (
        (taken(world, b"x"), "is not an exported model"), (post(world, "model/import"), "send a form with the file"),
    ):  # fmt: skip
        assert (found["code"], problem in found["message"]) == (5001, True), found


@pytest.mark.parametrize("path", ["/etc", "{home}/keys"])
def test_an_export_writes_only_below_opened_folders(world: World, task: dict[str, str], path: str) -> None:
    asked = {**named(task), "role": "guest", "party_id": "9999", "path": path.format(home=world.home)}
    found = post(world, "model/export", **asked)
    assert (found["code"], found["message"].startswith("path: ")) == (5001, True), found


def test_one_part_of_a_model_is_deleted(world: World, task: dict[str, str]) -> None:
    assert post(world, "model/delete", **named(task), task_name="other_0", output_key="model")["data"] == {"count": 1}
    assert stored(world) == [("fit_0", 0), ("fit_0", 1)]


def test_what_is_not_stored_is_named(world: World, task: dict[str, str], tmp_path: Path) -> None:
    asked = {"model_id": task["job_id"], "model_version": "7", "role": "guest", "party_id": "9999"}
    text = f"No found output model: model_id[{task['job_id']}],model_version[7],party_id[9999],role[guest]"
    assert post(world, "model/delete", **asked) == {"code": 2005, "message": text}
    assert post(world, "model/export", **asked, path=str(tmp_path / "shared")) == {"code": 2005, "message": text}
    assert post(world, "model/delete", model_id="m")["data"] == {
        "json": {"model_version": ["Missing data for required field."]}
    }  # fmt: skip
