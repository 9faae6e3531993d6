"""The store of models as clients see it: shown, exported, imported, deleted, tagged, deployed, and predicted with."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import pytest

from fate_flow.core.model.spec import ModelReference
from fate_flow.core.model.status import JobStatus
from fate_flow.server.model_store import ModelStore
from fate_flow.services.context.effects import RemoveModels, carry_out
from fate_flow.store.values import Document, StoredModel
from tests.kit.api.client_world import FORM_TYPE, GUEST, START, World, form, make_world
from tests.kit.api.models import add_model
from tests.kit.components.tiny_provider import THREE

DSL = {
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        "match_0": {
            "module": "Intersection", "input": {"data": {"data": ["reader_0.data"]}}, "output": {"data": ["data"]},
        },
        "fit_0": {
            "module": "Fit", "input": {"data": {"train_data": ["match_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
    },
}  # fmt: skip
TABLE = {"table": {"namespace": "it", "name": "numbers"}}
CONF = {
    "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999}, "role": {"guest": [9999]},
    "job_parameters": {"common": {"task_conf": {"fit_0": {"stage": "train"}}}},
    "component_parameters": {"common": {"match_0": {"join_role": "guest"}, "fit_0": {}},
                             "role": {"guest": {"0": {"reader_0": TABLE, "fit_0": {"of": "training"}}}}},
}  # fmt: skip
FATE_ID = "guest-9999#model"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path, modules=THREE.components)
    (tmp_path / "uploads").mkdir(exist_ok=True)
    yield world
    world.store.close()


def a_trained_job(world: World, status: JobStatus = JobStatus.SUCCESS) -> str:
    job_id = world.add_job(status=status, document=Document(DSL, CONF, {}))
    add_model(world, job_id)
    return job_id


# ---------------------------------------------------------------------- shown


def test_models_are_listed_by_version(world: World) -> None:
    assert world.ask("model/list", {})["data"] == []
    job_id = a_trained_job(world)
    newer = add_model(world, job_id, 1)
    second, first = world.ask("model/list", {"model_id": job_id})["data"]
    assert (first["model_version"], second["model_version"]) == (0, 1)
    assert second | {"models": []} == {
        "model_id": job_id, "model_version": 1, "fate_model_id": FATE_ID, "job_id": job_id,
        "initiator_party_id": "9999", "roles": {"guest": [9999]}, "create_time": START + 1, "tags": [],
        "deployed_as": [], "models": [],
    }  # fmt: skip
    assert second["models"] == [{
        "role": "guest", "party_id": "9999", "task_name": "fit_0", "output_key": "model", "type_name": "json_model",
        "component": "Fit", "sha256": newer.sha256, "bytes": newer.size, "task_version": 1,
    }]  # fmt: skip
    assert len(world.ask("model/list", {"limit": 1})["data"]) == 1


@pytest.mark.parametrize("named", [
    {"model_version": "{job}"}, {"model_id": FATE_ID, "model_version": "{job}"}, {"model_id": "{job}"},
    {"model_id": "{job}", "model_version": 1},
])  # fmt: skip
def test_a_model_is_found_by_its_own_name_and_by_that_of_fate(world: World, named: dict[str, Any]) -> None:
    job_id = a_trained_job(world)
    add_model(world, job_id, 1)
    asked = {key: one.format(job=job_id) if isinstance(one, str) else one for key, one in named.items()}
    shown = world.ask("model/show", asked)["data"]
    assert (shown["model_version"], shown["models"][0]["content"]) == (1, {"mean": 1})
    assert shown["models"][0]["metadata"] == {"rows": 3}


@pytest.mark.parametrize(("asked", "retcode", "says"), [
    ({}, 101, "model_id: is missing, and so is model_version"),
    ({"model_id": "nobody"}, 101, "is not in the store of this party"),
    ({"model_id": "guest-1#model", "model_version": "{job}"}, 101, "of model_id 'guest-1#model' is not in the store"),
    ({"model_id": "{job}", "model_version": "9"}, 101, "model_version '9'"),
    ({"model_id": "{job}", "task_name": "other"}, 101, "here is fit_0.model at guest 9999"),
    ({"model_id": "{job}", "role": "guest"}, 101, "party_id"),
    ({"model_id": ["x"]}, 101, "model_id: a list is not the name of a model"),
])  # fmt: skip
@pytest.mark.parametrize("route", ["show", "query", "delete"])
def test_what_is_not_there_is_named(world: World, route: str, asked: dict[str, Any], retcode: int, says: str) -> None:
    job_id = a_trained_job(world)
    filled = {key: one.format(job=job_id) if isinstance(one, str) else one for key, one in asked.items()}
    said = world.ask(f"model/{route}", filled)
    assert (said["retcode"], says in said["retmsg"]) == (retcode, True), said
    assert world.count("t_stored_model") == 1


def test_fates_clients_see_rows_with_f(world: World) -> None:
    job_id = a_trained_job(world)
    [row] = world.ask("model/query", {"model_version": job_id})["data"]
    assert (row["f_model_id"], row["f_model_version"], row["f_role"], row["f_party_id"]) == (
        FATE_ID, job_id, "guest", "9999")  # fmt: skip
    [row] = world.ask("model/query", {"model_version": job_id, "query_filters": ["role", "f_size"]})["data"]
    assert set(row) == {"f_role", "f_size"}
    assert world.ask("model/query", {"model_version": job_id, "query_filters": "role"})["retcode"] == 101


# ---------------------------------------------------------------------- removed


def test_a_version_is_deleted_with_its_files(world: World) -> None:
    job_id = a_trained_job(world)
    add_model(world, job_id, 1)
    said = world.ask("model/delete", {"model_id": job_id, "model_version": 0})["data"]
    assert said == {"count": 1, "models": [f"fit_0.model of model {job_id} version 0 at guest 9999"]}
    assert [str(one.relative_to(world.home / "models")) for one in (world.home / "models").rglob("*.tar")] == [
        f"{job_id}/1/guest/9999/fit_0/model.tar"]
    assert world.count("t_stored_model") == 1


def test_what_an_unfinished_job_reads_stays(world: World) -> None:
    job_id = a_trained_job(world)
    stored = {"model": {"id": job_id, "version": 0, "task": "fit_0", "output": "model"}}
    reading = {
        "components": {
            "reader_0": DSL["components"]["reader_0"],
            "score_0": {"module": "Fit", "input": {"data": {"test_data": ["reader_0.data"]}, "model": [stored]}},
        },
    }  # fmt: skip
    conf = {**CONF, "job_parameters": {"common": {"task_conf": {"score_0": {"stage": "predict"}}}},
            "component_parameters": {"common": {"reader_0": TABLE}}}
    world.add_job(status=JobStatus.WAITING, document=Document(reading, conf, {}))
    said = world.ask("model/delete", {"model_id": job_id})
    assert (said["retcode"], "which is not over" in said["retmsg"]) == (100, True), said
    assert world.count("t_stored_model") == 1


def test_a_component_shows_what_its_newest_run_has_stored(world: World) -> None:
    job_id = a_trained_job(world)
    newest = add_model(world, job_id, 1)
    add_model(world, job_id, 1, "other_0")
    named = {"job_id": job_id, "role": "guest", "party_id": 9999, "component_name": "fit_0"}
    said = world.ask("tracking/component/output/model", named)
    assert said["data"] == {"model": {"mean": 1}}
    assert said["meta"]["model"] == {
        "module_name": "Fit", "model_id": job_id, "model_version": 1, "type_name": "json_model",
        "sha256": newest.sha256, "bytes": newest.size, "metadata": {"rows": 3},
    }  # fmt: skip
    assert world.ask("tracking/component/output/model", {**named, "task_version": newest.task_version}) == said
    for nothing in ({"component_name": "match_0"}, {"role": "host", "party_id": 10000}, {"task_version": 9}):
        assert world.ask("tracking/component/output/model", named | nothing) == {
            "retcode": 0, "retmsg": "no data", "data": {}, "meta": {}}


def test_a_model_that_is_a_folder_is_named_without_its_content(world: World) -> None:
    job_id = a_trained_job(world)
    add_model(world, job_id, 0, "tree_0", kind="model_directory")
    named = {"job_id": job_id, "role": "guest", "party_id": 9999, "component_name": "tree_0"}
    said = world.ask("tracking/component/output/model", named)
    assert (said["data"], said["meta"]["model"]["type_name"]) == ({"model": None}, "model_directory")


def test_an_old_version_stays_in_reach_behind_many_new_ones(world: World) -> None:
    """More than a list has."""
    job_id = a_trained_job(world)
    first = world.ask("model/show", {"model_id": job_id, "model_version": 0})["data"]
    with world.store.transaction() as tx:
        [model] = tx.models_of_version(job_id, 0)
        for version in range(1, 1_001):
            reference = replace(model.reference, version=version)
            tx.save_model(replace(model, reference=reference, create_time=START + version))
    assert world.ask("model/show", {"model_id": job_id, "model_version": 0})["data"] == first
    huge = world.ask("model/show", {"model_id": job_id, "model_version": "9" * 30})
    assert "is not in the store" in huge["retmsg"]
    world.ask("model/delete", {"model_id": job_id, "model_version": "0"})
    assert world.count("t_stored_model") == 1_000
    without_file = world.ask("model/show", {"model_id": job_id})
    assert f"model {job_id} version 1000: its file cannot be read" in without_file["retmsg"]


# ---------------------------------------------------------------------- out and in


def exported(world: World, **named: Any) -> bytes:
    response = world.get("model/export", named)
    assert response.status_code == 200, response.data
    return response.data


def take(world: World, data: bytes, **fields: Any) -> dict[str, Any]:
    query = quote(json.dumps(fields), safe="")
    response = world.client.post(f"/v1/model/import?{query}", data=form(data), content_type=FORM_TYPE)
    found = response.json
    assert isinstance(found, dict)
    return found


def test_a_model_goes_into_a_zip_and_into_another_home(world: World, tmp_path: Path) -> None:
    job_id = a_trained_job(world)
    add_model(world, job_id, task="other_0")
    data = exported(world, model_id=FATE_ID, model_version=job_id, role="guest", party_id=9999, output_path="x")
    assert [one.compress_type for one in zipfile.ZipFile(io.BytesIO(data)).infolist()] == [zipfile.ZIP_STORED] * 3
    before = world.ask("model/show", {"model_id": job_id})["data"]
    (tmp_path / "other" / "uploads").mkdir(parents=True)
    other = make_world(tmp_path / "other", modules=THREE.components)
    said = take(other, data, model_id=FATE_ID, model_version=job_id, role="guest", party_id=9999, force_update=0)
    assert said["data"] == {
        "job_id": job_id, "role": "guest", "party_id": "9999", "model_id": job_id, "model_version": "0", "count": 2,
    }  # fmt: skip
    after = other.ask("model/show", {"model_id": job_id})["data"]
    assert [one["sha256"] for one in before["models"]] == [one["sha256"] for one in after["models"]]
    assert after["models"][0]["content"] == {"mean": 0}
    again = take(other, data, force_update=1)
    assert (again["retcode"], "never overwritten" in again["retmsg"]) == (100, True)
    assert list(other.uploads) == []
    other.store.close()


def test_an_export_names_its_file(world: World) -> None:
    job_id = a_trained_job(world)
    response = world.get("model/export", {"model_id": job_id})
    assert response.headers["Content-Disposition"] == f"attachment; filename={job_id}_0_guest_9999.zip"
    missing = world.get("model/export", {"model_id": "nobody"})
    assert (missing.status_code, "not in the store" in missing.json["retmsg"]) == (404, True)


def changed(data: bytes, **said: Any) -> bytes:
    """The zip with other values of its first model, and with the same files."""
    source, out = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    listed = json.loads(source.read("models.json"))
    listed["models"][0] |= said
    with zipfile.ZipFile(out, "w") as target:
        for one in source.infolist():
            target.writestr(one.filename, json.dumps(listed) if one.filename == "models.json" else source.read(one))
    return out.getvalue()


@pytest.mark.parametrize(("said", "problem"), [
    ({"sha256": "0" * 64}, "has not the digest and the size"), ({"bytes": 7}, "has not the digest and the size"),
    ({"party_id": "10000"}, "it has a model of guest 10000; this server is party 9999"),
    ({"task": "../evil"}, "task: '../evil' is not a component name"),
    ({"model_id": "../x"}, "is not the id of a model"),
    ({"output": "../../x"}, "output: '../../x'"), ({"model_version": -1}, "model_version: -1"),
    ({"type_name": "table"}, "type_name: 'table' is not json_model"),
    ({"bytes": "many"}, "has no digest or size"),
    ({"roles": {"guest": 9999}}, "roles.'guest': 9999 is not a list"), ({"job_id": "x"}, "job_id"),
])  # fmt: skip
def test_a_zip_that_says_something_else_is_refused_whole(world: World, said: dict[str, Any], problem: str) -> None:
    job_id = a_trained_job(world)
    data = exported(world, model_id=job_id)
    world.ask("model/delete", {"model_id": job_id})
    found = take(world, changed(data, **said))
    assert (found["retcode"], problem in found["retmsg"]) == (101, True), found
    assert world.count("t_stored_model") == 0
    assert [one for one in (world.home / "models").rglob("*") if one.is_file()] == []
    assert list(world.uploads) == []


@pytest.mark.parametrize(("data", "problem"), [
    (b"x", "is not an exported model"), (b"PK\x05\x06" + bytes(18), "models.json"),
])  # fmt: skip
def test_what_is_no_such_zip_is_refused(world: World, data: bytes, problem: str) -> None:
    found = take(world, data)
    assert (found["retcode"], problem in found["retmsg"]) == (101, True), found


def test_of_two_imports_of_one_model_the_second_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """One that is committed while the other one still reads its file, which has another content."""
    job_id = a_trained_job(world)
    first = exported(world, model_id=job_id)
    world.ask("model/delete", {"model_id": job_id})
    add_model(world, job_id, content={"mean": "another"})
    second = exported(world, model_id=job_id)
    world.ask("model/delete", {"model_id": job_id})
    keep = ModelStore.draft
    between = [lambda: take(world, first)["retcode"]]

    def draft(self: ModelStore, model: StoredModel, content: BinaryIO) -> Path:
        made = keep(self, model, content)
        if between:
            assert between.pop()() == 0
        return made

    monkeypatch.setattr(ModelStore, "draft", draft)
    found = take(world, second)
    assert (found["retcode"], "never overwritten" in found["retmsg"]) == (100, True), found
    shown = world.ask("model/show", {"model_id": job_id})["data"]["models"]
    assert [one["content"] for one in shown] == [{"mean": 0}]
    assert len([one for one in (world.home / "models").rglob("*") if one.is_file()]) == 1


def test_a_model_that_is_stored_while_one_of_its_name_is_deleted_keeps_its_file(world: World) -> None:
    """The file of a deleted model goes after the commit, and another process may store one of this name until then."""
    job_id = a_trained_job(world)
    context = world.services.context
    [model] = context.read(lambda tx: tx.models(job_id))
    carry_out(context, RemoveModels((model,)))
    assert context.models.has(model)
    context.write(lambda tx: tx.drop_model(model.reference, model.party), is_repeatable=True)
    carry_out(context, RemoveModels((model,)))
    assert not context.models.has(model)
    assert context.read(lambda tx: tx.models(job_id)) == ()


def test_a_damaged_zip_is_refused_whole_and_names_what_is_damaged(world: World) -> None:
    job_id = a_trained_job(world)
    data = exported(world, model_id=job_id)
    world.ask("model/delete", {"model_id": job_id})
    head = data.rindex(b"PK\x01\x02")            # of the last member, in the list at the end
    changed = [_flipped(data, one) for one in (2, data.index(b"mean"), data.index(b'"version"'))]
    for damaged in (
        *changed, _flipped(data, head + 42, 255), _flipped(data, head + 16),
        data[:-1], data[:len(data) // 2], data[:100],
    ):  # fmt: skip
        found = take(world, damaged)
        assert found["retcode"] == 101, found
        assert found["retmsg"].startswith("file: ") or "digest" in found["retmsg"], found
    assert world.count("t_stored_model") == 0
    assert [one for one in (world.home / "models").rglob("*") if one.is_file()] == []


def _flipped(data: bytes, place: int, bits: int = 1) -> bytes:
    return data[:place] + bytes([data[place] ^ bits]) + data[place + 1:]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_model_whose_file_is_damaged_is_not_exported(world: World, is_there: bool) -> None:
    job_id = a_trained_job(world)
    [file] = [one for one in (world.home / "models").rglob("*.tar") if one.is_file()]
    file.write_bytes(_flipped(file.read_bytes(), 600)) if is_there else file.unlink()
    found = world.get("model/export", {"model_id": job_id}).json
    problem = "its file is damaged: it has the digest" if is_there else "its file cannot be read"
    assert (found["retcode"] != 0, problem in found["retmsg"]) == (True, True), found


def test_an_import_names_what_it_expects(world: World) -> None:
    job_id = a_trained_job(world)
    data = exported(world, model_id=job_id)
    world.ask("model/delete", {"model_id": job_id})
    for wrong, problem in (
        ({"model_version": "7"}, "has version 0"), ({"role": "host", "party_id": 9999}, "a model of guest 9999"),
        ({"model_id": "other"}, f"has model {job_id}"),
    ):  # fmt: skip
        found = take(world, data, **wrong)
        assert (found["retcode"], problem in found["retmsg"]) == (101, True), found
    assert world.post("model/import", {}).json["retcode"] == 101


# ---------------------------------------------------------------------- tags


def test_tags_are_made_put_on_models_and_removed(world: World) -> None:
    job_id = a_trained_job(world)
    assert "created successfully" in world.ask("model/tag/create", {"tag_name": "good", "tag_desc": "x"})["retmsg"]
    assert world.ask("model/tag/create", {"tag_name": "good"})["retcode"] == 100
    assert world.ask("model/model_tag/create", {"job_id": job_id, "tag_name": "good"})["retcode"] == 0
    assert world.ask("model/model_tag/create", {"job_id": job_id, "tag_name": "new"})["retcode"] == 0
    assert [tag["name"] for tag in world.ask("model/model_tag/retrieve", {"job_id": job_id})["data"]["tags"]] == [
        "good", "new"]
    assert world.ask("model/list", {})["data"][0]["tags"] == ["good", "new"]
    found = world.ask("model/tag/retrieve", {"tag_name": "good", "with_model": True})["data"]
    assert (found["tags"][0]["description"], found["count"], found["models"]) == ("x", 1, [job_id])
    renamed = {"tag_name": "good", "new_tag_name": "best", "new_tag_desc": ""}
    assert world.ask("model/tag/update", renamed)["retcode"] == 0
    assert world.ask("model/tag/update", {"tag_name": "best", "new_tag_name": "new"})["retcode"] == 100
    assert world.ask("model/tag/list", {"limit": 10})["data"]["count"] == 2
    assert world.ask("model/model_tag/remove", {"job_id": job_id, "tag_name": "best"})["retcode"] == 0
    assert world.ask("model/model_tag/remove", {"job_id": job_id, "tag_name": "best"})["retcode"] == 101
    assert world.ask("model/tag/destroy", {"tag_name": "new"})["retcode"] == 0
    assert world.ask("model/tag/destroy", {"tag_name": "new"})["retcode"] == 101
    assert world.ask("model/model_tag/retrieve", {"job_id": job_id})["data"]["tags"] == []
    assert world.ask("model/model_tag/create", {"job_id": "20260101120000", "tag_name": "x"})["retcode"] == 101


# ---------------------------------------------------------------------- deployed


def deployed(world: World, job_id: str, **more: Any) -> dict[str, Any]:
    asked = {"model_id": FATE_ID, "model_version": job_id, "components_checkpoint": {}, **more}
    said = world.ask("model/deploy", asked)
    assert said["retcode"] == 0, said
    found = said["data"]
    assert isinstance(found, dict)
    return found


def test_a_deployed_model_has_a_version_a_dsl_and_a_conf(world: World) -> None:
    job_id = a_trained_job(world)
    made = deployed(world, job_id, cpn_list=["match_0", "fit_0"])
    version = made["model_version"]
    assert (made["model_id"], made["guest"]) == (FATE_ID, {"9999": 0})
    assert version != job_id
    named = {"model_id": FATE_ID, "model_version": version}
    dsl = world.ask("model/get/predict/dsl", named)["data"]
    assert dsl["components"]["fit_0"]["input"] == {
        "data": {"test_data": ["match_0.data"]}, "model": ["pipeline.fit_0.model"]}
    conf = world.ask("model/get/predict/conf", named)["data"]
    assert conf["job_parameters"]["common"] == {"job_type": "predict", "model_id": FATE_ID, "model_version": version}
    assert list(conf["component_parameters"]["role"]["guest"]["0"]) == ["reader_0"]
    attached = world.post("model/get/predict/dsl", {**named, "filename": "predict.json"})
    assert json.loads(attached.data) == dsl
    [row] = world.ask("model/query", named)["data"]
    assert (row["f_model_version"], row["f_parent"]) == (version, False)
    assert row["f_parent_info"] == {"parent_model_id": FATE_ID, "parent_model_version": job_id}
    assert world.ask("model/list", {})["data"][0]["deployed_as"] == [version]
    world.ask("model/delete", {"model_id": job_id})
    assert world.count("t_model_deployment") == 0
    assert world.post("model/get/predict/conf", named).status_code == 210


@pytest.mark.parametrize(("asked", "says"), [
    ({"cpn_list": ["nobody"]}, "'nobody' is not one of the components"),
    ({"cpn_list": "fit_0"}, "cpn_list: 'fit_0' is not a list"),
    ({"dsl": "{"}, "dsl: is not JSON"), ({"predict_dsl": {"components": []}}, "is not a DSL with components"),
    ({"predict_dsl": {"components": {"fit_0": {"module": "Fit", "input": {"model": ["pipeline.fit_0.other"]}}}}},
     "pipeline.fit_0.other was not made; fit_0 has made model"),
    ({"components_checkpoint": {"fit_0": {"step_index": 1}}}, "there are no checkpoints"),
    ({"model_version": "7"}, "is not in the store"), ({"model_id": "guest-1#model"}, "is not in the store"),
])  # fmt: skip
def test_a_wrong_deployment_has_its_reason_in_data_too(world: World, asked: dict[str, Any], says: str) -> None:
    job_id = a_trained_job(world)
    said = world.ask("model/deploy", {"model_id": FATE_ID, "model_version": job_id, **asked})
    assert (said["retcode"] in (100, 101, 103), says in said["retmsg"]) == (True, True), said
    assert said["data"] == said["retmsg"]
    assert world.count("t_model_deployment") == 0


def test_only_the_initiator_of_a_successful_job_deploys(world: World) -> None:
    failed = a_trained_job(world, JobStatus.FAILED)
    said = world.ask("model/deploy", {"model_id": FATE_ID, "model_version": failed})
    assert "only models of a successful job are deployed" in said["retmsg"]
    job_id = "20260101120000999999"
    add_model(world, job_id, initiator="10000")
    said = world.ask("model/deploy", {"model_id": FATE_ID, "model_version": job_id})
    assert "party 10000 has trained the model; it is deployed there" in said["retmsg"]
    gone = "20260101120000888888"
    add_model(world, gone)
    said = world.ask("model/deploy", {"model_id": FATE_ID, "model_version": gone})
    assert "was removed here: name the model in a job file" in said["retmsg"]


# ---------------------------------------------------------------------- predicted with


def prediction(version: str, **common: Any) -> dict[str, Any]:
    reader = {"role": {"guest": {"0": {"reader_0": {"table": {"namespace": "it", "name": "others"}}}}}}
    conf = {
        "dsl_version": 2, "initiator": CONF["initiator"], "role": CONF["role"], "component_parameters": reader,
        "job_parameters": {"common": {
            "job_type": "predict", "model_id": FATE_ID, "model_version": version, **common}},
    }  # fmt: skip
    return {"job_dsl": {}, "job_runtime_conf": conf}


def test_a_job_predicts_with_what_was_deployed(world: World) -> None:
    job_id = a_trained_job(world)
    world.add_table("it", "others", [("a", "1", "2")])
    version = deployed(world, job_id, cpn_list=["match_0", "fit_0"])["model_version"]
    submitted = world.ask("job/submit", prediction(version))
    assert submitted["retcode"] == 0, submitted
    [row] = world.ask("job/query", {"job_id": submitted["jobId"]})["data"]
    fit = row["f_dsl"]["components"]["fit_0"]
    assert fit["input"]["model"] == [{"model": {"id": job_id, "version": 0, "task": "fit_0", "output": "model"}}]
    common = row["f_runtime_conf"]["job_parameters"]["common"]
    assert (common["job_type"], common["model_version"]) == ("predict", version)
    assert common["task_conf"]["fit_0"]["stage"] == "predict"
    own = row["f_runtime_conf"]["component_parameters"]["role"]["guest"]["0"]
    assert own == {"reader_0": {"table": {"namespace": "it", "name": "others"}}, "fit_0": {"of": "training"}}
    assert submitted["data"]["model_info"]["model_id"] == FATE_ID


def test_a_job_whose_model_is_not_here_is_refused(world: World) -> None:
    job_id = a_trained_job(world)
    world.add_table("it", "others", [("a", "1", "2")])
    said = world.ask("job/submit", prediction(job_id))
    assert f"'{job_id}' is not a deployed model here; flow model deploy --model-id {FATE_ID}" in said["retmsg"]
    assert "model_version: is missing" in world.ask("job/submit", prediction(""))["retmsg"]
    version = deployed(world, job_id)["model_version"]
    with world.store.transaction() as tx:
        tx.drop_model(ModelReference(job_id, 0, "fit_0", "model"), GUEST)
    said = world.ask("job/submit", prediction(version))
    assert f"guest 9999 has no part of fit_0.model of model {job_id} version 0" in said["retmsg"]
