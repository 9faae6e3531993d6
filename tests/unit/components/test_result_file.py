"""The result file of a worker: whatever it says, nothing outside of the places for artifacts is read or named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.components.artifacts.attempt import Attempt
from fate_flow.components.artifacts.on_disk import kept_file, kinds_on_disk
from fate_flow.components.artifacts.result_file import read_result
from fate_flow.components.tables.table import Schema, TableWriter
from fate_flow.components.tables.table_uri import format_uri, parse_uri
from fate_flow.core.model.artifact import DATAFRAME, FILE, JSON_MODEL, METRIC, MODEL_DIRECTORY, TABLE, Artifact, file_at
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party

KEY = TaskKey("2026010112000000000001234", "a", 0, Party("guest", "9999"))
SECRET = "secret-of-the-party"
WRONG = "result.json describes the outputs wrongly; that party's log has the details"
DIGEST = "0" * 64


class Disk:
    """A home and the folder of a worker, with links that lead to what is outside."""

    def __init__(self, root: Path) -> None:
        self.root, self.data, self.folder, self.uploads = root, root / "data", root / "w", root / "uploads"
        for folder in (self.uploads, self.folder / "outputs", root / "outside" / "ns"):
            folder.mkdir(parents=True)
        self._table(self.data, "inside")
        self._table(root / "outside", SECRET)
        metric = [{"namespace": "n", "name": SECRET, "data": [[SECRET, 1]], "meta": {}}]
        (root / "outside" / "metric.json").write_text(json.dumps(metric))
        (self.folder / "metric.json").write_text(json.dumps([{**metric[0], "name": "m", "data": [["k", 1]]}]))
        (self.folder / "outputs" / "x").write_text("kept")
        self.models = self.folder / "models"
        (self.models / "f_1").mkdir(parents=True)
        (self.models / "x").write_text("{}")
        for link, target in (
            (self.folder / "link", root / "outside" / "metric.json"), (self.folder / "sub", root / "outside"),
            (self.folder / "outputs" / "link", root / "outside" / "metric.json"),
            (self.models / "link", root / "outside" / "metric.json"), (self.models / "sub", root / "outside"),
            (self.data / "link", root / "outside" / "ns"),
            (self.data / "ns" / "link.sqlite", root / "outside" / "ns" / "t.sqlite"),
        ):  # fmt: skip
            link.symlink_to(target)
        os.mkfifo(self.folder / "pipe")
        os.mkfifo(self.data / "ns" / "pipe.sqlite")
        self.attempt, self.kinds = Attempt(KEY, self.folder), kinds_on_disk(self.data, self.uploads)

    @staticmethod
    def _table(data_dir: Path, column: str) -> None:
        with TableWriter(format_uri(data_dir, "ns", "t"), Schema((column,)), made_by=f"{KEY.job_id}_x_0") as writer:
            writer.add([("a", "1")])

    def read(self, outputs: Any) -> Any:
        result = {"status": {"code": 0}, "io_meta": {"outputs": outputs}, "summary": {"a": 1}}
        return read_result(result, self.attempt, self.kinds)

    def holds(self, one: Artifact) -> bool:
        """Whether the artifact lies where those of its kind may lie, with all links resolved."""
        if one.kind == TABLE:
            return _is_in(parse_uri(one.uri).path, self.data)
        path = Path(one.uri.partition("://")[2])
        folders = {FILE: "outputs", JSON_MODEL: "models", MODEL_DIRECTORY: "models", DATAFRAME: "frames"}
        return _is_in(path, self.folder / folders.get(one.kind, ""))


def _is_in(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    return Disk(tmp_path_factory.mktemp("home"))


def test_what_lies_where_it_may_is_read(disk: Disk) -> None:
    table = {"namespace": "ns", "name": "t", "count": 9}
    said = disk.read({
        "data": {
            "data": [{"uri": format_uri(disk.data, "ns", "t"), "type_name": TABLE, "metadata": table}],
            "x": [Artifact(FILE, f"file://{disk.folder}/outputs/x", {"bytes": 4, "sha256": DIGEST}).as_json()],
        },
        "model": {},
        "metric": {"metric": [{"uri": f"file://{disk.folder}/metric.json", "type_name": METRIC}]},
    })  # fmt: skip
    assert (said.succeeded, said.message, said.summary) == (True, "", {"a": 1})
    found = {one.kind: one for one in said.artifacts}
    assert found[TABLE].metadata == {
        "namespace": "ns", "name": "t", "count": 1, "replaced": 0, "schema": {"header": ["inside"], "sid": "id"},
        "job_id": KEY.job_id,
    }  # fmt: skip
    assert (found[FILE].key, found[FILE].metadata) == ("x", {"bytes": 4, "sha256": DIGEST})
    metric = {"namespace": "n", "name": "m", "data": [["k", 1]], "meta": {}}
    assert found[METRIC].metadata == {"metrics": [metric], "left_out": []}


def test_the_outputs_that_a_worker_is_to_make_are_where_they_may_lie(disk: Disk) -> None:
    attempt = Attempt(KEY, disk.folder, "c0ffee00" * 4)
    planned = {name: kind.planned(attempt, "x") for name, kind in disk.kinds.items()}
    assert all(one.kind == name and one.key == "x" and disk.holds(one) for name, one in planned.items())
    table = f"{KEY.task_id}_0_guest_9999_x_c0ffee00"
    assert planned[TABLE].uri == format_uri(disk.data, f"output_{KEY.job_id}", table)


def test_metrics_in_a_pipe_are_none(disk: Disk) -> None:
    [found] = disk.read({"metric": {"m": [{"uri": f"file://{disk.folder}/pipe", "type_name": METRIC}]}}).artifacts
    assert found.metadata["metrics"] == []
    assert "pipe" in found.metadata["left_out"][0]


@pytest.mark.parametrize(("text", "names", "why"), [
    ("{", [], "bad.json is not JSON"), ("7", [], "bad.json: 7 is not a list of metrics"),
    ('[{"name": "a", "data": {}}, {"name": 3, "data": []}, 5]', ["a"], "name: 3 is not a text; 5 is not an object"),
    ('[{"name": "a", "data": 1}]', [], "metric a: data: 1 is neither a list nor an object"),
    ('[{"namespace": "n", "name": "a", "data": [[1]]}]', [], "metric a: data: a list is not a list of [key, value]"),
])
def test_bad_metrics_are_left_out_and_fail_no_task(disk: Disk, text: str, names: list[str], why: str) -> None:
    path = disk.folder / "bad.json"
    path.write_text(text)
    said = disk.read({"metric": {"m": [{"uri": f"file://{path}", "type_name": METRIC}]}})
    path.unlink()
    [found] = said.artifacts
    assert (said.succeeded, [one["name"] for one in found.metadata["metrics"]]) == (True, names)
    assert "; ".join(found.metadata["left_out"]).startswith(why)


def test_models_are_files_and_folders_of_the_worker_that_are_there(disk: Disk) -> None:
    models = disk.models

    def said(key: str, kind: str, name: str = "") -> Any:
        entry = {"uri": f"file://{models}/{name or key}", "type_name": kind, "metadata": {"a": 1, "model_overview": {}}}
        return disk.read({"model": {key: entry if kind == JSON_MODEL else [entry]}})

    for found, uri in (
        (said("x", JSON_MODEL), f"file://{models}/x"), (said("f", MODEL_DIRECTORY, "f_1"), f"file://{models}/f_1"),
    ):  # fmt: skip
        [one] = found.artifacts
        assert (one.uri, one.metadata) == (uri, {"a": 1})
    for key, kind, name in (
        ("x", MODEL_DIRECTORY, ""), ("f", JSON_MODEL, "f_1"), ("link", JSON_MODEL, ""), ("sub", MODEL_DIRECTORY, ""),
        ("n", JSON_MODEL, "x"), ("x", JSON_MODEL, "../outputs/x"), ("gone", JSON_MODEL, ""), ("x", JSON_MODEL, "x_y"),
    ):  # fmt: skip
        assert said(key, kind, name).message == WRONG, (key, kind, name)


@pytest.mark.parametrize(("change", "text"), [
    ({"type_name": "model"}, "data.x: type_name: 'model' is not one of: table, file"),
    ({"type_name": METRIC}, "data.x: type_name: 'json_metric' is not one of: table, file"),
    ({"uri": "file:///etc/passwd"}, "uri: 'file:///etc/passwd' is not a file outputs/x in the folder of the worker"),
    ({"metadata": {"bytes": 4}}, "sha256: null is not a SHA-256 in hexadecimal"),
    ({"metadata": {"bytes": "4", "sha256": DIGEST}}, "bytes: '4' is not a number of bytes"),
])  # fmt: skip
def test_a_wrong_entry_is_named_in_the_log_alone(
    disk: Disk, caplog: pytest.LogCaptureFixture, change: Any, text: str
) -> None:
    meta = {"bytes": 4, "sha256": DIGEST}
    entry = {"uri": f"file://{disk.folder}/outputs/x", "type_name": FILE, "metadata": meta, **change}
    said = disk.read({"data": {"x": [entry]}})
    assert (said.succeeded, said.message, said.artifacts) == (False, WRONG, ())
    assert text in caplog.records[-1].getMessage()


PIECES = st.sampled_from([
    "..", ".", "", "data", "ns", "t", "link", "t.sqlite", "link.sqlite", "w", "outputs", "models", "x", "f_1",
    "metric.json", "sub", "outside", "pipe", "etc", "passwd", "%2e%2e", "\0", "\ud800", "n" * 300,
])  # fmt: skip
KINDS = kinds_on_disk(Path(), Path())
SCHEMES = st.sampled_from(["file://", "standalone://", "", "file:", "http://"])
STARTS = st.sampled_from(["root", "data", "folder", "uploads", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | PIECES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | PIECES, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def entries(draw: st.DrawFn) -> Any:
    """An entry as a hostile worker may write it: mostly of the right form, with any place."""
    if draw(st.integers(0, 9)) == 0:
        return draw(JSON)
    table = {"namespace": draw(PIECES), "name": draw(PIECES), "count": draw(st.integers(0, 9) | JSON)}
    meta = draw(st.sampled_from([table, {"bytes": 4, "sha256": DIGEST}]) | JSON)
    place = (draw(SCHEMES), draw(STARTS), tuple(draw(st.lists(PIECES, max_size=5))))
    return {"uri": place, "type_name": draw(st.sampled_from(sorted(KINDS)) | JSON), "metadata": meta}


@given(
    section=st.sampled_from(["data", "model", "metric"]) | PIECES, key=PIECES,
    listed=st.lists(entries(), max_size=2) | JSON,
)  # fmt: skip
def test_nothing_that_a_worker_writes_leads_outside(disk: Disk, section: str, key: str, listed: Any) -> None:
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and isinstance(one.get("uri"), tuple):
            scheme, start, pieces = one["uri"]
            one["uri"] = scheme + "/".join([str(getattr(disk, start)) if start else "", *pieces])
    said = disk.read({section: {key: listed}})
    assert said.succeeded or (said.message, said.artifacts) == (WRONG, ())
    assert all(disk.holds(one) for one in said.artifacts)
    assert SECRET not in repr(said)


@pytest.mark.parametrize("path", ["{root}/outside/ns/t", "{data}/link/t", "{data}/ns/link", "{folder}/../outside/ns/t"])
def test_a_link_to_a_table_elsewhere_is_no_table(disk: Disk, path: str) -> None:
    uri = f"standalone://{path.format(**vars(disk))}"
    namespace, name = uri.rsplit("/", 2)[1:]
    meta = {"namespace": namespace, "name": name, "count": 1}
    assert not disk.read({"data": {"data": [{"uri": uri, "type_name": TABLE, "metadata": meta}]}}).succeeded


def test_only_what_a_client_has_sent_is_removed_of_files(disk: Disk) -> None:
    sent, deeper = disk.uploads / "abc", disk.uploads / "sub" / "abc"
    deeper.parent.mkdir(exist_ok=True)
    for path in (sent, deeper):
        path.write_text("x")
    kept = disk.folder / "outputs" / "x"
    for path in (sent, deeper, kept, Path("relative"), Path()):
        disk.kinds[FILE].remove(file_at(str(path)))
    disk.kinds[METRIC].remove(Artifact(METRIC, f"file://{disk.folder}/metric.json"))
    assert [one.exists() for one in (sent, deeper, kept, disk.folder / "metric.json")] == [False, True, True, True]


def test_a_kept_file_is_one_in_its_folder_and_no_link(disk: Disk) -> None:
    assert kept_file(disk.folder, "x") == disk.folder / "outputs" / "x"
    assert [kept_file(disk.folder, key) for key in ("link", "missing")] == [None, None]
    with pytest.raises(BadRequest, match="is not an output name"):
        kept_file(disk.folder, "../metric")
