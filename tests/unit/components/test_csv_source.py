"""Reading a CSV file, and writing one that reads the same."""

from __future__ import annotations

import traceback
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fate_flow.components.base.errors import ComponentError
from fate_flow.components.tables import csv_source
from fate_flow.components.tables.csv_source import BadCsv, CsvFormat, CsvSource, lines_of
from fate_flow.components.tables.csv_target import write_csv
from fate_flow.components.tables.table import Schema, Table, TableWriter
from fate_flow.components.tables.table_uri import format_uri


@pytest.fixture
def read(tmp_path):
    def read(content: bytes, **layout: object):
        path = tmp_path / "a.csv"
        path.write_bytes(content)
        with CsvSource(path, CsvFormat(**layout)) as source:
            return source.schema, list(source.rows())
    return read


@pytest.mark.parametrize("content", [
    b"id,x,y\n1,2,3\n4,5,6\n",
    b"id,x,y\r\n1,2,3\r\n4,5,6\r\n",
    b"\xef\xbb\xbfid,x,y\n1,2,3\n4,5,6",
    b'"id","x",y\n"1",2,"3"\n4,5,6\n\n',
    b"id,x,y\n\n1,2,3\n\r\n4,5,6\n",
])
def test_the_usual_ways_to_write_a_file_give_the_same_rows(read, content):
    assert read(content) == (Schema(("x", "y"), "id"), [("1", "2", "3"), ("4", "5", "6")])


def test_quoted_fields_hold_delimiters_quotes_and_lines(read):
    _, rows = read(b'id,x\n"a,b","c ""d"" \n e"\n')
    assert rows == [("a,b", 'c "d" \n e')]


def test_another_delimiter(read):
    assert read(b"id|x\n1|a,b\n", delimiter="|") == (Schema(("x",), "id"), [("1", "a,b")])


def test_without_a_header_columns_get_names(read):
    assert read(b"1,2,3\n", has_header=False) == (Schema(("x0", "x1"), "sid"), [("1", "2", "3")])


def test_ids_alone_are_enough(read):
    assert read("id\nä\nb\n".encode()) == (Schema((), "id"), [("ä",), ("b",)])


def test_made_up_ids_leave_every_column_a_value(read):
    schema, rows = read(b"id,x\n7,8\n7,9\n", generates_sid=True)
    assert schema == Schema(("id", "x"), "sid")
    assert [row[1:] for row in rows] == [("7", "8"), ("7", "9")]
    assert len({row[0] for row in rows}) == 2


def test_made_up_ids_can_be_counted(read):
    schema, rows = read(b"7,8\n7,9\n", has_header=False, generates_sid=True, counts_sid=True)
    assert (schema, rows) == (Schema(("x0", "x1"), "sid"), [("0", "7", "8"), ("1", "7", "9")])


@pytest.mark.parametrize(("content", "problem"), [
    (b"", "the file has no rows"),
    (b"\n\n", "the file has no rows"),
    (b"id,x\n", "the file has no rows"),
    (b"id,x\n1,2\n3\n", "line 3: 1 field, where 2 are expected"),
    (b"id,x\n1,2,3\n", "line 2: 3 fields, where 2 are expected"),
    (b"id,x\n1,2\n,3\n", "line 3: the id is missing"),
    (b"id,x\n  ,3\n", "line 2: the id is missing"),
    (b"id,x,x\n1,2,3\n", "line 1: columns 2 and 3 have the same name"),
    (b"\nid,y,x,x\n1,2,3,4\n", "line 2: columns 3 and 4 have the same name"),
    (b"id,id,x\n1,2,3\n", "line 1: column 2 has the name of the id column"),
    (b"id,x,id\n1,2,3\n", "line 1: column 3 has the name of the id column"),
    (b"id,x\n1,\xff\n", "line 2: byte 3 is not UTF-8"),
    (b'id,x\n1,"2\n3,4\n', "line 2: a field begins with a quote that is not closed"),
    (b'id,x\n1,"2\n3"\n4,"5\n6",7\n', "line 4: 3 fields, where 2 are expected"),
    (b"id,x\r1,2\r", "line 1: a carriage return outside of quotes: lines end with LF or with CR LF"),
    (b"id,x\n1,a\0b\n", "line 2: byte 4 is NUL: the file is not text in UTF-8"),
    ("id,x\n1,2\n".encode("utf-16"), "line 1: the file is UTF-16: save it as UTF-8"),
    ("id,x\n1,2\n".encode("utf-16-le"), "line 1: byte 2 is NUL"),
    (b'id,x\n1,"2"3\n', "line 2: ',' expected after '\"'"),
])
def test_an_error_names_the_line(read, content, problem):
    with pytest.raises(BadCsv) as error:
        read(content)
    assert problem in error.value.message


@pytest.mark.parametrize(("content", "layout"), [
    (b"PRIVATE;x\n1;2\n", {}),
    (b"PRIVATE,x,x\n1,2,3\n", {}),
    (b"id,PRIVATE,PRIVATE\n1,2,3\n", {}),
    (b"PRIVATE,PRIVATE\n1,2\n", {}),
    (b"sid,PRIVATE\n1,2\n", {"generates_sid": True}),
    (b"id,x\nPRIVATE,1,2\n", {}),
    (b"id,x\nPRIVATE\r,1\n", {}),
    (b'id,x\n1,"PRIVATE"x\n', {}),
    (b'id,x\n1,"PRIVATE\n', {}),
    (b"id,x\nPRIVATE,\xff\n", {}),
    (b"id,x\nPRIVATE,\0\n", {}),
])
def test_an_error_and_its_causes_contain_nothing_from_the_file(read, content, layout):
    with pytest.raises(BadCsv, match=r"^line \d+: ") as refused:
        read(content, **layout)
    shown = "".join(traceback.format_exception_only(refused.value)) + repr(refused.value.__cause__)
    assert "PRIVATE" not in shown
    assert "0xff" not in shown


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(csv_source, "MAX_RECORD", 100)
    monkeypatch.setattr(csv_source, "MAX_DELIMITERS", 20)


@pytest.mark.parametrize(("record", "problem"), [
    (b"1," + b"2" * 99, "the row has more than 100 bytes"),
    (b'1,"' + b"2\n" * 50, "the row has more than 100 bytes"),
    (b"1" + b',"\n2"' * 20, "the row has more than 100 bytes"),
    (b"," * 21, "the row has more than 20 delimiters"),
    (b'1,"' + b",\n" * 20, "the row has more than 20 delimiters"),
])
@pytest.mark.usefixtures("small")
def test_a_row_that_is_too_large_is_refused_before_it_is_read_further(tmp_path, record, problem):
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,x\n1,2\n" + record + b"\n" * 1000)
    with CsvSource(path, CsvFormat()) as source:
        with pytest.raises(BadCsv, match=f"^line 3: {problem}"):
            list(source.rows())
        assert source._file.tell() <= len(b"id,x\n1,2\n") + 101


@pytest.mark.usefixtures("small")
def test_the_limits_are_those_of_a_row_not_of_a_file(read):
    longest = b'1,"' + b"2\n" * 47 + b'"'
    assert len(longest + b"\n") == 99
    assert len(read(b"id,x\n" + (longest + b"\n\n") * 9)[1]) == 9
    assert read(b"id\n" + b'"' + b"," * 20 + b'"\n')[1] == [("," * 20,)]


def test_a_field_may_be_longer_than_the_csv_module_takes_by_default(read):
    assert read(b"id,x\n1," + b"2" * 200_000 + b"\n")[1] == [("1", "2" * 200_000)]


ODD = st.text("a\r\n,;\"' \ufeff\t\u2028", max_size=4)


@given(
    names=st.lists(ODD.filter(bool), min_size=1, max_size=3, unique=True), values=st.lists(ODD, min_size=2, max_size=2),
    sid=ODD.filter(str.strip), delimiter=st.sampled_from(",;\t "),
)
@example(["i\rd", "x\r"], ["a\rb", ""], "\r1", ",")
@example(["id", "x\r\ny"], ["\r\n", ""], "1\r", ",")
@example(["\ufeffid"], ["", ""], "1", ",")
@example(["a;b"], ["", ""], "1", ",")
@settings(max_examples=30, deadline=None)
def test_a_table_reads_as_it_was_written(names, values, sid, delimiter):
    with TemporaryDirectory() as folder:
        schema, row = Schema(tuple(names[1:]), names[0]), (sid, *values[:len(names) - 1])
        uri, path = format_uri(Path(folder), "it", "odd"), Path(folder) / "odd.csv"
        with TableWriter(uri, schema) as writer:
            writer.add([row])
        with Table(uri) as table:
            write_csv(table, path, delimiter, replaces=False)
        with CsvSource(path, CsvFormat(delimiter=delimiter)) as source:
            assert (source.schema, list(source.rows())) == (schema, [row])


def test_an_empty_file_without_header_has_no_rows_either(read):
    with pytest.raises(BadCsv, match="no rows"):
        read(b"", has_header=False)


def test_a_file_that_is_not_there_is_refused_without_its_path(tmp_path):
    with pytest.raises(BadCsv, match=r"^the file cannot be read: No such file or directory$"):
        CsvSource(tmp_path / "gone.csv", CsvFormat())


def test_the_rows_of_an_id_are_found_where_they_begin(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,x\n1,"a\nb"\n2,c\n\n1,d\n')
    assert list(lines_of(path, CsvFormat(), "1")) == [2, 6]


FOUR = b"y,the id,x,z\n1,a,2,3\n4,b,5,6\n"


@pytest.mark.parametrize(("layout", "schema", "rows"), [
    ({"id_column": "the id"}, Schema(("y", "x", "z"), "the id"), [("a", "1", "2", "3"), ("b", "4", "5", "6")]),
    ({"id_column": "the id", "feature_column": "z, x"}, Schema(("z", "x"), "the id"),
     [("a", "3", "2"), ("b", "6", "5")]),
    ({"feature_column": "z"}, Schema(("z",), "y"), [("1", "3"), ("4", "6")]),
    ({"id_column": "y"}, Schema(("the id", "x", "z"), "y"), [("1", "a", "2", "3"), ("4", "b", "5", "6")]),
    ({"has_header": False, "id_column": "x0", "feature_column": "x2"}, Schema(("x2",), "x0"),
     [("the id", "z"), ("a", "3"), ("b", "6")]),
])
def test_columns_are_chosen_by_name_in_the_order_that_is_asked_for(read, layout, schema, rows):
    assert read(FOUR, **layout) == (schema, rows)


def test_columns_are_chosen_beside_ids_that_are_made_up(read):
    schema, rows = read(FOUR, generates_sid=True, counts_sid=True, feature_column="z,y")
    assert (schema, rows) == (Schema(("z", "y"), "sid"), [("0", "3", "1"), ("1", "6", "4")])


@pytest.mark.parametrize(("layout", "says"), [
    ({"id_column": "id"}, "id_column: 'id' is not one of the columns y, the id, x, z"),
    ({"feature_column": "x,w"}, "feature_column: 'w' is not one of the columns y, the id, x, z"),
    ({"feature_column": "x,x"}, "feature_column: 'x,x' names a column twice, or that of the ids"),
    ({"feature_column": "x,y"}, "feature_column: 'x,y' names a column twice, or that of the ids"),
])
def test_columns_that_are_not_there_or_there_twice(read, layout, says):
    with pytest.raises(ComponentError, match=f"^{says}$"):
        read(FOUR, **layout)


def test_a_row_of_chosen_columns_is_looked_at_as_a_whole(read):
    with pytest.raises(BadCsv, match="line 2: 3 fields, where 2 are expected"):
        read(b"a,b\n1,2,3\n", id_column="b")
    with pytest.raises(BadCsv, match="line 2: the id is missing"):
        read(b"a,b\n1,\n", id_column="b")


def test_the_lines_of_an_id_in_a_chosen_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n1,x\n2,y\n3,x\n")
    assert list(lines_of(path, CsvFormat(id_column="b"), "x")) == [2, 4]


@pytest.mark.parametrize(("content", "layout", "other"), [
    (b"id;x;y\n1;2;3\n", {}, ";"), (b"id\tx\n1\t2\n", {}, "\\t"), (b"id|x\n1|2\n", {}, "|"),
    (b"id,x\n1,2\n", {"delimiter": ";"}, ","), (b"1;2\n3;4\n", {"has_header": False}, ";"),
    (b"\n\nid;x\n1;2\n", {"generates_sid": True}, ";"),
])
def test_a_file_with_another_delimiter_is_not_taken_for_one_column(read, content, layout, other):
    with pytest.raises(BadCsv, match="set id_delimiter") as refused:
        read(content, **layout)
    assert f"if '{other}' is the delimiter" in refused.value.message


@pytest.mark.parametrize("before", [b"", b"\n\r\n"])
def test_quotes_say_that_one_column_is_meant(read, before):
    assert read(before + b'"id;x"\n1;2\n') == (Schema((), "id;x"), [("1;2",)])


def test_another_delimiter_in_one_of_several_columns_is_part_of_it(read):
    assert read(b"id,x;y\n1,2;3\n") == (Schema(("x;y",), "id"), [("1", "2;3")])
