"""Upload, Download, Writer and Reader: what happens at one party alone."""

from __future__ import annotations

import pytest

from fate_flow.components.base.errors import ComponentError
from fate_flow.components.builtin import download, reader, upload, writer
from fate_flow.components.tables.csv_source import BadCsv
from fate_flow.components.tables.table import NoSuchTable, Table, TableExists, TableWriter
from fate_flow.components.tables.table_uri import parse_uri
from fate_flow.core.model.spec import Party
from tests.kit.components.memory_channel import GUEST, a_table, a_task

LOCAL = Party("local", "0")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,x\nb,1\na,2\n")
    return path


@pytest.fixture
def an_upload(tmp_path, source):
    def an_upload(task_id="job_upload_0", **parameters):
        given = {"file": str(source), "namespace": "demo", "name": "a", "head": 1, "partition": 2, **parameters}
        return a_task("upload", LOCAL, task_id=task_id, parameters=given, data_dir=tmp_path)
    return an_upload


def test_upload_makes_a_table_and_counts_it(tmp_path, source, an_upload):
    outcome = upload.run(an_upload())
    with Table(outcome.tables["data"]) as table:
        assert list(table) == [("b", "1"), ("a", "2")]
    assert outcome.summary == {
        "table_name": "a", "namespace": "demo", "partition": 2, "upload_count": 2, "replaced_rows": 0,
        "schema": {"header": ["x"], "sid": "id"},
    }
    (metric,) = outcome.metrics
    assert (metric.namespace, metric.name) == ("upload", "data_access")
    assert ("upload_count", 2) in metric.data
    assert source.exists()


def test_upload_removes_its_source_when_told_so(source, an_upload):
    upload.run(an_upload(remove_source=True))
    assert not source.exists()


def test_upload_keeps_its_source_when_it_fails(source, an_upload):
    source.write_text("id,x\n")
    with pytest.raises(BadCsv):
        upload.run(an_upload(remove_source=True))
    assert source.exists()


def test_upload_overwrites_only_with_destroy(an_upload, source):
    upload.run(an_upload())
    source.write_text("id,x\nc,3\n")
    with pytest.raises(TableExists, match="table 'a' in namespace 'demo' exists already; with destroy"):
        upload.run(an_upload(task_id="job2_upload_0"))
    outcome = upload.run(an_upload(task_id="job2_upload_0", destroy=1))
    with Table(outcome.tables["data"]) as table:
        assert list(table) == [("c", "3")]


def test_a_second_attempt_of_an_upload_may_find_the_table_of_the_first(an_upload):
    upload.run(an_upload(remove_source=False))
    assert upload.run(an_upload(remove_source=True)).summary["upload_count"] == 2
    assert upload.run(an_upload(remove_source=True)).summary["upload_count"] == 2, "even without the source"


@pytest.mark.parametrize("said", [{}, {"duplicate_ids": None}, {"duplicate_ids": "last"}])
def test_the_last_row_of_an_id_is_kept_and_the_others_are_counted(source, an_upload, caplog, said):
    source.write_text("id,x\na,1\nb,2\na,3\nc,4\na,5\nb,6\nd,7\n")
    with caplog.at_level("WARNING"):
        outcome = upload.run(an_upload(**said))
    with Table(outcome.tables["data"]) as table:
        assert list(table) == [("c", "4"), ("a", "5"), ("b", "6"), ("d", "7")]
        assert (table.count, table.replaced, table.metadata()["replaced"]) == (4, 3, 3)
        assert list(table.rows_of(["b", "x", "a"])) == [("b", "6"), ("a", "5")]
    assert (outcome.summary["upload_count"], outcome.summary["replaced_rows"]) == (4, 3)
    assert "3 rows were replaced by a later one with the same id" in caplog.text


def test_a_duplicate_id_is_named_with_its_line_and_leaves_nothing(tmp_path, source, an_upload):
    source.write_text("id,x\na,1\nb,2\na,3\nc,4\n")
    with pytest.raises(BadCsv, match="lines 2 and 4: both have the same id; with duplicate_ids: last the later row"):
        upload.run(an_upload(duplicate_ids="refuse"))
    assert not list(tmp_path.rglob("*.sqlite"))


def test_ids_that_are_made_up_replace_nothing(source, an_upload):
    source.write_text("id,x\na,1\na,2\n")
    assert upload.run(an_upload(extend_sid=1)).summary["replaced_rows"] == 0


def test_a_long_upload_is_followed_in_the_log(source, an_upload, monkeypatch, caplog):
    monkeypatch.setattr(upload, "ROWS_PER_LOG_LINE", 2)
    with caplog.at_level("INFO"):
        upload.run(an_upload())
    assert "uploaded 2 rows" in caplog.text


def test_download_writes_header_and_rows(tmp_path):
    a_table(tmp_path, "a", [("b", "1,5"), ("a", 'x"y')], ["x"])
    path = tmp_path / "new" / "out.csv"
    task = a_task(
        "download", LOCAL, data_dir=tmp_path,
        parameters={"namespace": "demo", "name": "a", "output_path": str(path)},
    )
    assert download.run(task).summary == {"download_count": 2}
    assert path.read_text() == 'id,x\nb,"1,5"\na,"x""y"\n'
    assert [one.name for one in path.parent.iterdir()] == ["out.csv"]


def test_download_does_not_touch_the_file_when_there_is_no_table(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    parameters = {"namespace": "demo", "name": "gone", "output_path": str(path)}
    with pytest.raises(NoSuchTable):
        download.run(a_task("download", LOCAL, data_dir=tmp_path, parameters=parameters))
    assert path.read_text() == "old"


def test_download_into_a_folder_is_refused(tmp_path, an_upload):
    upload.run(an_upload())
    parameters = {"namespace": "demo", "name": "a", "output_path": str(tmp_path)}
    with pytest.raises(ComponentError, match=r"output_path: .* is a folder"):
        download.run(a_task("download", LOCAL, data_dir=tmp_path, parameters=parameters))


def test_a_table_comes_back_from_download_as_it_went_into_upload(tmp_path, source, an_upload):
    upload.run(an_upload())
    path = tmp_path / "out.csv"
    parameters = {"namespace": "demo", "name": "a", "output_path": str(path)}
    download.run(a_task("download", LOCAL, data_dir=tmp_path, parameters=parameters))
    assert path.read_text() == source.read_text()


def test_reader_hands_on_the_table_itself(tmp_path):
    uri = a_table(tmp_path, "a", [("b", "1")], ["x"])
    parameters = {"table": {"namespace": "demo", "name": "a"}}
    outcome = reader.run(a_task("reader", GUEST, data_dir=tmp_path, parameters=parameters))
    assert outcome.tables == {"data": uri}
    assert outcome.metrics[0].data == [("count", 1)]


def test_reader_names_a_table_that_is_not_there(tmp_path):
    """The document names it, and every party has the document."""
    parameters = {"table": {"namespace": "demo", "name": "gone"}}
    with pytest.raises(NoSuchTable, match="no table 'gone' in namespace 'demo'"):
        reader.run(a_task("reader", GUEST, data_dir=tmp_path, parameters=parameters))


def test_an_input_that_is_not_there_is_named_in_the_log_of_its_own_party_alone(tmp_path, caplog):
    uri = a_table(tmp_path, "a", [("b", "1")], ["x"])
    task = a_task("reader", GUEST, data_dir=tmp_path, inputs={"data": (uri,)})
    parse_uri(uri).path.unlink()
    with pytest.raises(NoSuchTable, match=r"^input data: the table is no longer here; that party's log names it$"):
        task.input_table()
    assert "input data: there is no table 'a'" in caplog.text


def test_a_disk_that_is_full_is_said_as_text(tmp_path, an_upload, monkeypatch):
    task = an_upload()

    def tiny(self):
        self._connection.execute("PRAGMA max_page_count = 6")
        return self

    real = TableWriter.__enter__
    monkeypatch.setattr(TableWriter, "__enter__", lambda self: tiny(real(self)))
    with open(task.parameters["file"], "a") as file:
        file.writelines(f"{number},{'x' * 100}\n" for number in range(1000))
    with pytest.raises(ComponentError, match="the table could not be written: database or disk is full"):
        upload.run(task)
    assert not list(tmp_path.rglob("*.sqlite")) + list(tmp_path.rglob("*.tmp"))


# ---------------------------------------------------------------------- Writer


@pytest.fixture
def a_writer(tmp_path, an_upload):
    upload.run(an_upload())

    def a_writer(task_id="job_writer_0", **parameters):
        given = {"namespace": "demo", "name": "a", **parameters}
        return a_task("writer", LOCAL, task_id=task_id, parameters=given, data_dir=tmp_path)
    return a_writer


def test_a_writer_makes_another_table_and_a_file_of_the_same_rows(tmp_path, a_writer):
    path = tmp_path / "new folder" / "b.csv"
    outcome = writer.run(a_writer(output_namespace="copies", output_name="b", output_path=str(path), delimiter=";"))
    with Table(outcome.tables["data"]) as table:
        assert (table.namespace, table.name, list(table)) == ("copies", "b", [("b", "1"), ("a", "2")])
    assert path.read_text() == "id;x\nb;1\na;2\n"
    assert outcome.summary == {"count": 2}


def test_a_writer_may_write_a_file_alone(tmp_path, a_writer):
    assert writer.run(a_writer(output_path=str(tmp_path / "b.csv"))).tables == {}


def test_a_writer_overwrites_what_is_its_own_or_with_destroy(a_writer):
    target = {"output_namespace": "copies", "output_name": "b"}
    for _ in range(2):
        writer.run(a_writer(**target))
    with pytest.raises(TableExists, match="table 'b' in namespace 'copies' exists already"):
        writer.run(a_writer(task_id="job2_writer_0", **target))
    assert writer.run(a_writer(task_id="job2_writer_0", destroy=1, **target)).tables


def test_a_writer_overwrites_a_file_of_the_same_rows_or_with_destroy(a_writer, tmp_path):
    path = tmp_path / "b.csv"
    for _ in range(2):              # a second attempt finds what the first one wrote
        writer.run(a_writer(output_path=str(path)))
    path.write_text("of somebody\n")
    with pytest.raises(ComponentError, match=r"b.csv' is there already and holds something else; .*\"drop\": 1"):
        writer.run(a_writer(output_path=str(path)))
    assert (path.read_text(), list(tmp_path.glob(".*"))) == ("of somebody\n", [])
    writer.run(a_writer(output_path=str(path), destroy=1))
    assert path.read_text() == "id,x\nb,1\na,2\n"


def test_a_writer_of_a_table_that_is_not_there(a_writer, tmp_path):
    with pytest.raises(NoSuchTable):
        writer.run(a_writer(name="b", output_path=str(tmp_path / "b.csv")))
    assert not (tmp_path / "b.csv").exists()
