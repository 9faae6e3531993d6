"""Tables: whole or not there at all."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from fate_flow.components.base.errors import ComponentError
from fate_flow.components.tables import table_uri
from fate_flow.components.tables.table import (
    DuplicateId,
    NoSuchTable,
    Schema,
    Table,
    TableExists,
    TableWriter,
    drop,
    sweep,
    table_exists,
)
from fate_flow.components.tables.table_uri import BadTableUri, format_uri, parse_uri

ROWS = [("b", "1", "2"), ("a", "3", "4"), ("c", "5", "6")]
SCHEMA = Schema(("x", "X"), "key")


@pytest.fixture
def uri(tmp_path):
    return format_uri(tmp_path, "demo", "a")


@pytest.fixture
def table(uri):
    with TableWriter(uri, SCHEMA, made_by="job_upload_0") as writer:
        writer.add(ROWS[:2])
        writer.add(ROWS[2:])
    with Table(uri) as table:
        yield table


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_table_gives_back_what_was_written_in_order(table):
    assert list(table) == ROWS
    assert list(table.ids()) == ["b", "a", "c"]
    assert list(table.column("X")) == ["2", "4", "6"]


def test_a_table_says_what_it_is(table):
    assert (table.count, table.schema, table.made_by) == (3, SCHEMA, "job_upload_0")
    assert table.metadata() == {
        "namespace": "demo", "name": "a", "count": 3, "replaced": 0, "schema": {"header": ["x", "X"], "sid": "key"},
    }


def test_rows_are_looked_up_in_the_order_asked_for(table):
    assert list(table.rows_of(["c", "nobody", "b"])) == [ROWS[2], ROWS[0]]
    assert "a" in table
    assert "nobody" not in table


def test_many_rows_are_looked_up(tmp_path):
    uri = format_uri(tmp_path, "demo", "many")
    with TableWriter(uri, Schema()) as writer:
        writer.add((str(number),) for number in range(2000))
    wanted = [str(number) for number in range(1999, 0, -1)]
    with Table(uri) as table:
        assert [sid for (sid,) in table.rows_of(wanted)] == wanted


def test_a_table_may_be_empty(tmp_path):
    uri = format_uri(tmp_path, "demo", "empty")
    with TableWriter(uri, SCHEMA):
        pass
    with Table(uri) as table:
        assert (list(table), table.count) == ([], 0)


def test_nothing_is_seen_before_the_end_and_nothing_is_left_after_an_error(tmp_path, uri):
    def rows_that_fail():
        yield from ROWS
        assert not table_exists(uri)
        assert len(files_in(tmp_path)) == 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), TableWriter(uri, SCHEMA) as writer:
        writer.add(rows_that_fail())
    assert files_in(tmp_path) == []


def test_an_id_that_occurs_twice_is_named_to_the_caller_alone(tmp_path, uri):
    with pytest.raises(DuplicateId) as error, TableWriter(uri, Schema()) as writer:
        writer.add([("a",), ("secret",), ("b",), ("secret",), ("c",)])
    assert error.value.sid == "secret"
    assert "secret" not in error.value.message
    assert files_in(tmp_path) == []


def test_ids_are_sorted_on_the_disk_of_the_table(tmp_path):
    folder = tmp_path / "it's here"
    with TableWriter(format_uri(folder, "demo", "a"), Schema()) as writer:
        writer.add([("b",), ("a",)])
        writer.close()
        asked = writer._connection.execute("PRAGMA temp_store_directory").fetchone()
    assert asked == (str(folder / "demo"),)
    assert len(files_in(tmp_path)) == 1


def test_a_table_is_overwritten_only_on_request(tmp_path, uri, table):
    with pytest.raises(TableExists, match="table 'a' in namespace 'demo' exists already"), TableWriter(uri, Schema()):
        pass
    with TableWriter(uri, Schema(), overwrite=True) as writer:
        writer.add([("new",)])
    with Table(uri) as newer:
        assert list(newer) == [("new",)]
    assert list(table) == ROWS, "who had it open reads on"
    assert files_in(tmp_path) == ["demo/a.sqlite"]


def test_the_first_of_two_writers_wins(tmp_path, uri):
    def rows_of_the_slow_one():
        yield ("slow",)
        with TableWriter(uri, Schema()) as fast:
            fast.add([("fast",)])

    with pytest.raises(TableExists), TableWriter(uri, Schema()) as slow:
        slow.add(rows_of_the_slow_one())
    with Table(uri) as table:
        assert list(table) == [("fast",)]
    assert files_in(tmp_path) == ["demo/a.sqlite"]


def test_a_dropped_table_is_gone(tmp_path, uri, table):
    assert drop(tmp_path, uri)
    assert not drop(tmp_path, uri)
    with pytest.raises(NoSuchTable, match="there is no table 'a' in namespace 'demo'"):
        Table(uri)


def test_what_lies_elsewhere_is_not_dropped(tmp_path, uri, table):
    inside, outside = tmp_path / "data", tmp_path / "demo" / "a.sqlite"
    (inside / "real").mkdir(parents=True)
    (inside / "linked").symlink_to(tmp_path / "demo")
    (inside / "real" / "a.sqlite").symlink_to(outside)
    for namespace in ("linked", "real"):
        with pytest.raises(BadTableUri, match="does not lie in"):
            drop(inside, format_uri(inside, namespace, "a"))
    with pytest.raises(BadTableUri, match="does not lie in"):
        drop(inside, uri)
    assert outside.exists()
    (tmp_path / "link").symlink_to(tmp_path)
    assert drop(tmp_path, format_uri(tmp_path / "link", "demo", "a")), "the folder itself may be a link"


def test_what_a_killed_writer_left_is_swept(tmp_path, table):
    left = tmp_path / "demo" / ".0123456789abcdef.tmp"
    left.touch()
    assert (sweep(tmp_path), sweep(tmp_path)) == (1, 0)
    assert files_in(tmp_path) == ["demo/a.sqlite"]


def test_what_a_living_writer_fills_is_not_swept(tmp_path, uri):
    with TableWriter(uri, Schema()) as writer:
        writer.add([("u1",)])
        assert sweep(tmp_path) == 0
        writer.add([("u2",)])
    with Table(uri) as written:
        assert list(written.ids()) == ["u1", "u2"]


def test_a_new_file_that_is_swept_before_its_lock_is_made_again(tmp_path, uri, monkeypatch):
    taken = []

    def swept_first(handle, operation):
        if not taken:
            taken.append(handle)
            assert sweep(tmp_path) == 1
        flock(handle, operation)

    flock = fcntl.flock
    monkeypatch.setattr("fate_flow.components.tables.table.fcntl.flock", swept_first)
    with TableWriter(uri, Schema()) as writer:
        writer.add([("u1",)])
    with Table(uri) as written:
        assert list(written.ids()) == ["u1"]


def test_a_table_is_for_its_user_only(uri, table):
    assert parse_uri(uri).path.stat().st_mode & 0o077 == 0


def test_too_many_columns_are_refused(uri):
    with pytest.raises(ComponentError, match="2000 columns are too many"):
        TableWriter(uri, Schema(tuple(f"x{index}" for index in range(2000))))


def test_an_unknown_column_is_named_and_the_log_has_the_table_and_the_columns_that_there_are(table, caplog):
    with pytest.raises(ComponentError, match=r"^the table has no column 'z'; that party's log names it and its"):
        table.column("z")
    assert f"table {table.namespace}.a has the columns {', '.join(table.schema.header)}" in caplog.text


def test_the_whole_name_of_a_table_is_said(tmp_path, caplog):
    uri = format_uri(tmp_path, "output_" + "9" * 25, "n" * 100)
    with TableWriter(uri, Schema(("x",))):
        pass
    with Table(uri) as table, pytest.raises(ComponentError, match="has no column 'z'"):
        table.column("z")
    assert f"table output_{'9' * 25}.{'n' * 100} has the columns x" in caplog.text


@pytest.mark.parametrize(("namespace", "name", "path"), [
    ("demo", "a", "demo/a"),
    ("a/b", "../x", "a%2Fb/..%2Fx"),
    ("ü", "a b%~", "%C3%BC/a%20b%25%7E"),
    ("...", ".a", ".../.a"),
    ("\0\n", "a", "%00%0A/a"),
])
def test_a_uri_names_one_table_inside_the_data_folder(namespace, name, path):
    uri = format_uri(Path("/home/data"), namespace, name)
    assert uri == f"standalone:///home/data/{path}"
    address = parse_uri(uri)
    assert (address.data_dir, address.namespace, address.name) == (Path("/home/data"), namespace, name)
    assert address.path == Path(f"/home/data/{path}.sqlite")


@pytest.mark.parametrize("piece", ["", ".", "..", "n" * 201, "ü" * 40, "\udcff"])
def test_what_cannot_be_a_name_is_refused(piece):
    for namespace, name in ((piece, "a"), ("a", piece)):
        with pytest.raises(BadTableUri):
            format_uri(Path("/data"), namespace, name)


@pytest.mark.parametrize("uri", [
    "standalone:///data/../a",
    "standalone:///data/a/..",
    "standalone:///data/../../etc/a/b",
    "standalone:///data/%2e%2e/a",
    "standalone:///data/a/%41",
    "standalone:///data/a b/c",
    "standalone://data/a/b",
    "standalone:///a",
    "file:///data/a/b",
    "",
])
def test_a_uri_of_another_spelling_is_refused(uri):
    with pytest.raises(BadTableUri):
        parse_uri(uri)


def test_a_piece_fits_into_a_file_name():
    assert table_uri.MAX_PIECE + len(table_uri.SUFFIX) <= 255
