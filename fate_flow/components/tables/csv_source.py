"""A CSV file as a stream of rows, with errors that name the line.

An error names lines and columns by their numbers. It contains nothing from the file, because other parties read it if
the file is an output of a `Command`. It does not contain names of columns either: if the header is missing, the first
line is data.

The file is read as bytes and decoded line by line, because a decoder of the whole stream reads ahead and could not name
the line that is not UTF-8.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO, Self
from uuid import uuid4

from fate_flow.components.base.errors import ComponentError
from fate_flow.components.tables.columns import chosen_columns
from fate_flow.components.tables.table import Row, Schema
from fate_flow.core.text.phrases import counted

BOM = b"\xef\xbb\xbf"
MAX_RECORD = 16 * 1024 * 1024       # bytes; a record with quoted fields may have many lines
MAX_DELIMITERS = 1_000_000          # of a record, those in quotes included: it bounds the fields before they are made
GENERATED_SID = "sid"
DELIMITERS = (";", "\t", ",", "|")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

csv.field_size_limit(MAX_RECORD)    # for the whole process, which is a worker; the default is 128 KB


class BadCsv(ComponentError):
    """The file is not the CSV it should be; the message names the line."""


@dataclass(frozen=True)
class CsvFormat:
    delimiter: str = ","
    has_header: bool = True
    generates_sid: bool = False         # `extend_sid`: every column is a value, the ids are generated
    counts_sid: bool = False            # `auto_increasing_sid`: generated ids are 0, 1, 2, ...
    id_column: str | None = None        # a name in the complete file; None: the first column
    feature_column: str | None = None   # names in the complete file, separated by commas; None: all others


class CsvSource:
    """An open CSV file: its schema is read at once, its rows on demand."""

    def __init__(self, path: Path, layout: CsvFormat) -> None:
        self._layout = layout
        self._file = _open(path)
        self.line = 0               # the first line of the record that was read last
        try:
            self._lines = _Lines(self._file, layout.delimiter)
            self._reader = csv.reader(self._lines, delimiter=layout.delimiter, strict=True)
            self._first = self._next_record()
            self._check_delimiter()
            self.schema = self._read_schema()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def rows(self) -> Iterator[Row]:
        """Yield every row, its id first. Call this once."""
        if self._first is None:
            raise BadCsv("the file has no rows")
        prefix = "" if self._layout.counts_sid else uuid4().hex
        yield self._row(self._first, f"{prefix}0")
        for number in count(1):
            record = self._next_record()
            if record is None:
                return
            yield self._row(record, f"{prefix}{number}")

    def _check_delimiter(self) -> None:
        """Check that a file with a single column was not written with another delimiter. Raises BadCsv.

        A quoted column may contain a delimiter."""
        first = self._first or []
        if len(first) != 1 or self._lines.begins_with_quote:
            return
        other = next((one for one in DELIMITERS if one != self._layout.delimiter and one in first[0]), None)
        if other is not None:
            raise BadCsv(
                f"line {self.line}: there is one column, and {other!r} is in it; the delimiter is "
                f"{self._layout.delimiter!r}; if {other!r} is the delimiter, set id_delimiter of the upload; otherwise "
                "put the column into quotes"
            )

    def _read_schema(self) -> Schema:
        """Read the header, if there is one, and leave the first row in `_first`."""
        first, line = self._first or [], self.line
        if self._layout.has_header:
            self._first = self._next_record()
            sid, *header = first if first and not self._layout.generates_sid else [GENERATED_SID, *first]
        else:
            values = len(first) - (0 if self._layout.generates_sid else 1)
            sid, header = GENERATED_SID, [f"x{index}" for index in range(values)]
        sid = sid or GENERATED_SID
        self._check_names(line, sid, header)
        return self._choose((sid, *header))

    def _choose(self, columns: tuple[str, ...]) -> Schema:
        """Return the schema of the chosen columns, and set `_places`; it is None if all columns are used in order."""
        self._width = len(columns)
        schema = chosen_columns(columns, self._layout.id_column, self._layout.feature_column)
        chosen = (schema.sid, *schema.header)
        place_of = {name: place for place, name in enumerate(columns)}
        self._places = None if chosen == columns else [place_of[name] for name in chosen]
        return schema

    def _check_names(self, line: int, sid: str, header: Sequence[str]) -> None:
        seen: dict[str, int] = {}
        for column, name in enumerate(header, 1 if self._layout.generates_sid else 2):
            if name == sid:
                raise BadCsv(f"line {line}: column {column} has the name of the id column: rename it")
            if name in seen:
                raise BadCsv(f"line {line}: columns {seen[name]} and {column} have the same name")
            seen[name] = column

    def _row(self, record: Sequence[str], made_up_sid: str) -> Row:
        row = (made_up_sid, *record) if self._layout.generates_sid else tuple(record)
        if len(row) != self._width:
            extra = len(row) - len(record)
            fields = counted(len(record), "field")
            raise BadCsv(f"line {self.line}: {fields}, where {self._width - extra} are expected")
        if self._places is not None:
            row = tuple(row[place] for place in self._places)
        if not row[0].strip():
            raise BadCsv(f"line {self.line}: the id is missing")
        return row

    def _next_record(self) -> list[str] | None:
        """Return the next record that is not blank; None at the end."""
        try:
            while True:
                self.line = self._reader.line_num + 1
                self._lines.begin_record()
                record = next(self._reader, None)
                if record is None or record:
                    return record
        except csv.Error as error:
            raise BadCsv(f"line {self.line}: {_as_text(error)}") from error


def lines_of(path: Path, layout: CsvFormat, sid: str) -> Iterator[int]:
    """Yield the line numbers at which the rows with this id begin."""
    with CsvSource(path, layout) as source:
        yield from (source.line for row in source.rows() if row[0] == sid)


def _as_text(error: csv.Error) -> str:
    text = str(error)
    if "unexpected end of data" in text:
        return "a field begins with a quote that is not closed"
    if "new-line character" in text:
        return "a carriage return outside of quotes: lines end with LF or with CR LF"
    return text


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise BadCsv(f"the file cannot be read: {error.strerror}") from error


class _Lines:
    """The decoded lines of a file. The lines of a record are limited together, before the record is made of them."""

    def __init__(self, file: BinaryIO, delimiter: str) -> None:
        self._file, self._delimiter = file, delimiter
        self.begin_record()

    def begin_record(self) -> None:
        """Count anew. The CSV reader takes no line before it needs it, so the next line is the first of a record."""
        self._bytes = self._delimiters = 0
        self.begins_with_quote = False

    def __iter__(self) -> Iterator[str]:
        number = first = 0
        while raw := self._file.readline(MAX_RECORD - self._bytes + 1):
            number += 1
            is_first, self._bytes = not self._bytes, self._bytes + len(raw)
            first = number if is_first else first
            if self._bytes > MAX_RECORD:
                raise BadCsv(f"line {first}: the row has more than {MAX_RECORD} bytes (is a quote not closed?)")
            text = _text_of(raw, number)
            self._delimiters += text.count(self._delimiter)
            if self._delimiters > MAX_DELIMITERS:
                raise BadCsv(
                    f"line {first}: the row has more than {MAX_DELIMITERS} delimiters, those in quotes included "
                    "(is a quote not closed?)"
                )
            if is_first:
                self.begins_with_quote = text.startswith('"')
            yield text


def _text_of(raw: bytes, number: int) -> str:
    if number == 1:
        if raw.startswith(_UTF_16):
            raise BadCsv("line 1: the file is UTF-16: save it as UTF-8")
        raw = raw.removeprefix(BOM)
    if 0 in raw:
        raise BadCsv(f"line {number}: byte {raw.index(0) + 1} is NUL: the file is not text in UTF-8")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadCsv(f"line {number}: byte {error.start + 1} is not UTF-8") from None     # its text has the byte
