"""Data frames that the worker of a provider makes of tables, and tables that it makes of data frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from fate_flow.components.artifacts.attempt import Attempt
from fate_flow.components.artifacts.data_frames import input_of
from fate_flow.components.base.errors import ComponentError
from fate_flow.components.provider_process import frames, task_files
from fate_flow.components.tables.frame_meta import frame_columns, problems_of, text_of
from fate_flow.components.tables.table import Schema, Table, TableWriter
from fate_flow.components.tables.table_uri import format_uri
from fate_flow.core.model.artifact import DATAFRAME, TABLE, Artifact
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.core.text.yaml_text import yaml_text
from tests.kit.components.frame_provider import make_environment, packages_in
from tests.kit.jobspec.hard_for_yaml import HARD_FOR_YAML

GUEST = Party("guest", "9999")
ROWS = [(f"id{number}", str(number % 2), f"{number}.5", "") for number in range(40)]
META = {"label_name": "y", "dtype": "float64", "label_type": "int64"}


# ---------------------------------------------------------------------- what the columns are


@pytest.mark.parametrize(("meta", "why"), [
    ({"label": "y"}, "label: is not known; known here: sample_id_name, "),
    ({"label_name": 1}, "label_name: 1 is not the name of a column"),
    ({"dtype": "float"}, "dtype: 'float' is not one of float32, float64, int32, int64, object"),
    ({"dtype": {"x0": "double"}}, "dtype.x0: 'double' is not one of float32, "),
    ({"label_type": "bool"}, "label_type: 'bool' is not one of "),
    ({"match_id_list": {"a": 1}}, "match_id_list: {'a': 1} is not a list of texts"),
    ({"input_format": "sparse"}, "input_format: only dense is read"),
    ({"tag_with_value": True}, "input_format: only dense is read"),
])
def test_a_wrong_meta_is_named_with_its_key(meta: dict[str, Any], why: str) -> None:
    [problem] = problems_of(meta)
    assert problem.startswith(why)


def test_a_meta_of_fates_examples_is_right() -> None:
    meta = {"delimiter": ",", "dtype": "float64", "input_format": "dense", "label_type": "int64", "label_name": "y",
            "match_id_name": "id", "match_id_range": 0, "tag_value_delimiter": ":", "tag_with_value": False,
            "weight_type": "float64"}  # fmt: skip
    assert list(problems_of(meta)) == []


def test_rows_are_matched_by_the_id_of_the_table_unless_a_column_is_named() -> None:
    plain = frame_columns("id", ("y", "x"), {})
    assert (plain.sample_id, plain.match_id.name, plain.match_id.place) == ("sample_id", "id", 0)
    assert [(one.name, one.place, one.type) for one in plain.others] == [("y", 1, "float32"), ("x", 2, "float32")]
    meta = {"match_id_name": "id", "label_name": "y", "dtype": {"x": "float64"}}
    extended = frame_columns("extend_sid", ("id", "y", "x", "z"), meta)
    assert (extended.sample_id, extended.match_id.name, extended.match_id.place) == ("sample_id", "id", 1)
    assert [(one.name, one.type) for one in extended.others] == [("y", "int32"), ("x", "float64"), ("z", "float32")]
    ids = {"match_id_name": "mail", "match_id_list": ["phone", "mail"]}
    several = frame_columns("sid", ("phone", "mail", "x"), ids)
    assert several.options["match_id_list"] == ["mail", "phone"], "FATE takes the first"
    assert [(one.name, one.type) for one in several.others] == [("phone", "object"), ("x", "float32")]
    assert frame_columns("sample_id", ("sample_id_", "x"), {}).sample_id == "sample_id__", "every name is there once"


@pytest.mark.parametrize("meta", [{"label_name": "z"}, {"match_id_name": "z"}, {"label_name": "id"}])
def test_a_meta_that_does_not_fit_the_table_is_refused(meta: dict[str, str]) -> None:
    [(key, name)] = meta.items()
    with pytest.raises(ComponentError, match=f"{key} of the table's meta: '{name}' is none of its columns"):
        frame_columns("id", ("y", "x"), meta)


# ---------------------------------------------------------------------- the worker


class Seat:
    """The folders of a seat, with a table, and what its workers find."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.table = self.a_table("rows", Schema(("y", "x", "w"), "id", META), ROWS)
        self.attempt = self.an_attempt("2026010112000000000001234")
        self.folder = self.attempt.folder
        self.folder.mkdir(parents=True)

    def a_table(self, name: str, schema: Schema, rows: list[tuple[str, ...]]) -> Artifact:
        uri = format_uri(self.home / "data", "bank", name)
        with TableWriter(uri, schema) as writer:
            writer.add(rows)
        return Artifact(TABLE, uri, {"namespace": "bank", "name": name}, "input_data")

    def an_attempt(self, job_id: str) -> Attempt:
        key = TaskKey(job_id, "psi", 0, GUEST)
        return Attempt(key, self.home / "jobs" / job_id / "guest" / "9999" / "psi" / key.task_id / "0" / "t" / "w1")

    def run(self, *inputs: dict[str, Any], is_list: bool = False, **options: Any) -> int:
        config = {
            "parameters": HARD_FOR_YAML,
            "input_artifacts": {"input_data": list(inputs) if is_list else inputs[0]}, "output_artifacts": {},
            "conf": {"computing": {"metadata": {"computing_id": "c1", "options": {"partitions": 4, **options}}},
                     "federation": {"metadata": {}}},
        }  # fmt: skip
        theirs = task_files.provider_config(config, self.folder, None, "")
        assert "made_from" not in json.dumps(theirs)
        (self.folder / task_files.CONFIG).write_text(yaml_text(theirs), encoding="utf-8")
        (self.folder / task_files.INPUTS).write_text(json.dumps(task_files.inputs_to_make(config)))
        return frames.make_inputs("framed", str(self.folder))

    def written(self, made: list[dict[str, Any]], tables: dict[str, str]) -> int:
        """Let the worker write tables of the data frames that its component has made."""
        conf = {"computing": {"metadata": {"computing_id": "c", "options": {}}}}
        config = {"task_id": "j_psi", "parameters": HARD_FOR_YAML, "conf": conf}
        said = {"status": {"code": 0}, "io_meta": {"outputs": {"data": {"output_data": made}}}}
        (self.folder / task_files.CONFIG).write_text(yaml_text(config), encoding="utf-8")
        for name, content in ((task_files.RESULT, said), (task_files.TABLES, tables)):
            (self.folder / name).write_text(json.dumps(content))
        return frames.write_tables("framed", str(self.folder))

    @property
    def config(self) -> Any:
        """As FATE reads it."""
        return yaml.safe_load((self.folder / task_files.CONFIG).read_text(encoding="utf-8"))

    @property
    def input(self) -> Any:
        return self.config["input_artifacts"]["input_data"]

    @property
    def failure(self) -> str:
        found = task_files.failure_of_inputs(self.folder)
        return "" if found is None else found["status"]["exceptions"]

    def rows(self, made: dict[str, Any]) -> list[Any]:
        pairs = json.loads(Path(made["uri"].removeprefix("standalone://"), "pairs.json").read_text())
        return [row for _, rows in pairs for row in rows]


@pytest.fixture
def seat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seat:
    make_environment(tmp_path / "env")
    monkeypatch.syspath_prepend(str(packages_in(tmp_path / "env")))
    return Seat(tmp_path)


def test_a_table_becomes_a_data_frame_in_a_namespace_of_the_worker(seat: Seat) -> None:
    assert seat.run(input_of(seat.attempt, seat.table, DATAFRAME)) == 0
    made = seat.input
    frames_of_seat = seat.home / "jobs" / seat.attempt.task.job_id / "guest" / "9999" / "frames"
    assert made["uri"] == f"standalone://{frames_of_seat}/psi_0_w1_inputs/input_data_0"
    assert made["type_name"] == DATAFRAME
    fields = made["metadata"]["metadata"]["schema"]["schema_meta"]["fields"]
    assert [(one["name"], one["dtype"]) for one in fields] == [
        ("sample_id", "index"), ("id", "index"), ("y", "int64"), ("x", "float64"), ("w", "float64"),
    ]  # fmt: skip
    assert made["metadata"]["metadata"]["options"] == {"partitions": 2}, "no partition has fewer than 16 rows"
    rows = seat.rows(made)
    assert [row[:4] for row in rows] == [[sid, sid, int(y), float(x)] for sid, y, x, _ in ROWS]
    assert all(row[4] != row[4] for row in rows), "a missing value is no number"
    assert yaml_text(seat.config["parameters"]) == yaml_text(HARD_FOR_YAML)


def test_several_tables_become_several_data_frames(seat: Seat) -> None:
    other = seat.a_table("other", Schema(("x",), "id"), [("a", "1")])
    inputs = [input_of(seat.attempt, one, DATAFRAME, index) for index, one in enumerate((seat.table, other))]
    assert seat.run(*inputs, is_list=True) == 0
    first, second = seat.input
    assert (len(seat.rows(first)), seat.rows(second)) == (40, [["a", "a", 1.0]])


def test_a_table_of_fates_has_what_its_reader_needs(seat: Seat) -> None:
    assert seat.run(input_of(seat.attempt, seat.table, TABLE)) == 0
    schema = seat.input["metadata"]["metadata"]["schema"]
    assert schema["header"].split(schema["delimiter"]) == ["sample_id", "id", "y", "x", "w"]
    assert (schema["label_name"], schema["dtype"], schema["match_id_name"]) == ("y", "float64", "id")


@pytest.mark.parametrize(("rows", "meta", "why"), [
    ([("a", "1"), ("ann", "secret")], {}, "input input_data: a value in row 2 of the table is no float32;"),
    ([("a", "1.5")], {"label_name": "y"}, "input input_data: a value in row 1 of the table is no int32;"),
    ([("a", "")], {"label_name": "y"}, "input input_data: a value in row 1 of the table is no int32;"),
    ([("a", "x\x1fy")], {"dtype": "object"}, "input input_data: a value in row 1 of the table is no object;"),
])
def test_a_value_that_does_not_fit_is_told_without_the_value(
    seat: Seat, rows: list[tuple[str, ...]], meta: dict[str, str], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = seat.a_table("odd", Schema(("y",), "id", meta), rows)
    assert seat.run(input_of(seat.attempt, table, DATAFRAME)) == 1
    assert seat.failure.startswith(why)
    assert seat.failure.endswith("that party's log names the column")
    assert "column y" in caplog.text


def test_a_table_that_was_removed_is_told_without_its_name(seat: Seat) -> None:
    gone = input_of(seat.attempt, seat.a_table("gone", Schema(), []), DATAFRAME)
    Path(seat.home / "data" / "bank" / "gone.sqlite").unlink()
    assert seat.run(gone) == 1
    assert seat.failure == "input input_data: the table is no longer here; that party's log names it"


def test_a_provider_without_fates_code_for_frames_says_so(seat: Seat) -> None:
    seat.run(input_of(seat.attempt, seat.table, DATAFRAME))
    assert frames.make_inputs("json", str(seat.folder)) == 1
    assert seat.failure == "this provider makes no data frames of tables: it has no json.arch"


def test_a_data_frame_is_read_in_its_place(seat: Seat) -> None:
    frame = Artifact(DATAFRAME, "standalone:///home/frames/ns/name", {"metadata": {}}, "input_data")
    assert input_of(seat.attempt, frame, DATAFRAME) == frame.as_json()
    assert input_of(seat.attempt, seat.table, "") == seat.table.as_json(), "its component reads tables"


def test_the_meta_stays_with_a_table(seat: Seat) -> None:
    with Table(seat.table.uri) as table:
        assert table.schema == Schema(("y", "x", "w"), "id", META)
        assert table.metadata()["schema"] == {"header": ["y", "x", "w"], "sid": "id", "meta": META}


# ---------------------------------------------------------------------- tables of data frames


def test_a_data_frame_becomes_a_table_that_becomes_the_same_data_frame(seat: Seat) -> None:
    rows = [(f"id{number}", str(number % 2), repr(number / 7), "") for number in range(40)]
    source = seat.a_table("source", Schema(("y", "x", "w"), "id", {"label_name": "y"}), rows)
    assert seat.run(input_of(seat.attempt, source, DATAFRAME)) == 0
    frame, first = seat.input, seat.rows(seat.input)
    uri = format_uri(seat.home / "data", "output_j", "psi_{index}").replace("%7B", "{").replace("%7D", "}")
    assert seat.written([frame], {"output_data": uri}) == 0
    [made] = json.loads((seat.folder / task_files.TABLES_MADE).read_text())["output_data"]
    assert (made["uri"], made["type_name"]) == (uri.replace("{index}", "0"), TABLE)
    with Table(made["uri"]) as table:
        assert (table.made_by, table.count) == ("j_psi", 40)
        assert table.schema.header == ("id", "y", "x", "w")
        assert table.schema.meta == {
            "match_id_name": "id", "label_name": "y", "label_type": "int32", "dtype": {"x": "float32", "w": "float32"},
        }  # fmt: skip
        assert next(iter(table)) == ("id0", "id0", "0", "0.0", "")
    again = input_of(seat.an_attempt("2026010112000000000009999"), Artifact(TABLE, made["uri"], {}, "x"), DATAFRAME)
    assert seat.run(again) == 0
    assert str(seat.rows(seat.input)) == str(first)
    assert seat.input["metadata"]["metadata"]["schema"] == frame["metadata"]["metadata"]["schema"]


def test_a_data_frame_that_cannot_be_written_as_a_table_is_logged(
    seat: Seat, caplog: pytest.LogCaptureFixture
) -> None:
    assert seat.run(input_of(seat.attempt, seat.table, DATAFRAME)) == 0
    (seat.home / "data" / "full").write_text("no folder")
    unused = {**seat.input, "consumed": False}
    assert seat.written([unused, seat.input], {"output_data": format_uri(seat.home / "data", "full", "a")}) == 1
    assert "output output_data has no table" in caplog.text
    assert json.loads((seat.folder / task_files.TABLES_MADE).read_text()) == {}


class SmallDisk(TableWriter):
    """A table for which there is no more room than for its first rows."""

    def __enter__(self) -> Self:
        super().__enter__()
        self._connection.execute("PRAGMA max_page_count = 4")
        return self


def test_a_table_that_finds_the_disk_full_leaves_nothing(
    seat: Seat, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [(f"id{number}", "0", "1.5", "") for number in range(4_000)]
    table = seat.a_table("many", Schema(("y", "x", "w"), "id", META), rows)
    assert seat.run(input_of(seat.attempt, table, DATAFRAME)) == 0
    monkeypatch.setattr(frames, "TableWriter", SmallDisk)
    assert seat.written([seat.input], {"output_data": format_uri(seat.home / "data", "output_j", "a")}) == 1
    assert "output output_data has no table" in caplog.text
    assert "full" in caplog.text
    assert list((seat.home / "data" / "output_j").iterdir()) == []
    assert json.loads((seat.folder / task_files.TABLES_MADE).read_text()) == {}


@pytest.mark.parametrize(("value", "kind", "text"), [
    (0.10000000149011612, "float32", "0.1"), (1 / 3, "float64", repr(1 / 3)), (float("nan"), "float32", ""),
    (3, "int64", "3"), ("a", "index", "a"), (None, "np_object", ""), ({"0": 0.5}, "np_object", '{"0": 0.5}'),
    (16777216.0, "float32", "16777216.0"), (1.401298464324817e-45, "float32", "1.4013e-45"),
])  # fmt: skip
def test_a_value_of_a_frame_as_the_text_of_a_table(value: object, kind: str, text: str) -> None:
    assert text_of(value, kind) == text
