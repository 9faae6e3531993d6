"""What clients of FATE Flow 2 see of a table: its metadata, its rows as files of an archive."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

from fate_flow.api.http.archive import Member, text_member
from fate_flow.api.http.json_text import to_json
from fate_flow.api.v1.jobs.board_data import columns_of
from fate_flow.api.v2.errors import TableNotFound, not_found
from fate_flow.components.tables.table import NoSuchTable, Table
from fate_flow.store.values import TableMeta

_ROWS_PER_CHUNK = 500
_IS_QUOTED = re.compile(r'"[^"]*"')
_TO_QUOTE = re.compile(r'[",\r\n]')
_PROPERTIES = {"label_name": "label", "weight_name": "weight", "match_id_name": "match_id"}


def meta_of(table: TableMeta) -> dict[str, Any]:
    """Return the metadata: the names of the columns, as text and as a list with what each is for, and what the upload
    has said about them."""
    said = table.schema.get("meta") or {}
    names = {said[key]: what for key, what in _PROPERTIES.items() if key in said}
    ids, *others = columns_of(table)
    fields = [{"name": ids, "property": "sample_id"}, *({"name": one, "property": "value"} for one in others)]
    return {
        **said, "delimiter": table.id_delimiter, "header": table.id_delimiter.join([ids, *others]),
        "schema_meta": {"fields": [{**one, "property": names.get(one["name"], one["property"])} for one in fields]},
    }  # fmt: skip


def members_of(table: TableMeta, folder: str, number: int) -> Iterator[Member]:
    """Yield the rows as a CSV file, and a file with the names of the columns. Raise TableNotFound if they are gone."""
    try:
        yield _csv_of(table, f"{folder}/{number}.csv")
    except NoSuchTable as error:
        raise not_found(TableNotFound, name=table.name, namespace=table.namespace) from error
    yield text_member(f"{folder}/{number}.meta", to_json({"header": columns_of(table)}))


def _csv_of(table: TableMeta, name: str) -> Member:
    """Return the rows below a header. Raise NoSuchTable."""

    def chunks() -> Iterator[bytes]:
        with Table(table.uri) as rows:
            lines = (_line(row) for row in chain([columns_of(table)], rows))
            while batch := "".join(islice(lines, _ROWS_PER_CHUNK)):
                yield batch.encode("utf-8", "surrogatepass")

    # A table never changes, so the size counted now is that of the rows sent later.
    return Member(name, sum(len(chunk) for chunk in chunks()), chunks)


def _line(row: Sequence[str]) -> str:
    return ",".join(map(_field, row)) + "\n"


def _field(text: str) -> str:
    """Return the text of a field. FATE's predictions have a field that is quoted already; its pipeline reads that one
    as it is, without the rules of CSV."""
    if _IS_QUOTED.fullmatch(text) or not _TO_QUOTE.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'
