"""Tables: one SQLite file each, which exists completely or not at all.

A writer fills a file under a temporary name, syncs it and renames it. From then on the file never changes, so readers
open it as immutable, without locks or journal. During the writing, the writer holds a lock on the file (`flock`, which
the kernel releases when the process dies), so that a sweep recognises the files of killed writers. `rows` keeps the
order of insertion (rowid) and is indexed by `sid`. Its value columns are called v0, v1, ..., because names in a header
may differ only in case, and SQLite treats these as the same column. `meta` has the real names, the number of rows that
were replaced by a later one with the same id, and what the columns are in a data frame.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from fate_flow.components.base.errors import ComponentError, shown
from fate_flow.components.tables.table_uri import parse_uri, table_in

log = logging.getLogger(__name__)

UNFINISHED = ".tmp"         # no file of a table ends with this, so an unfinished one is never taken for a table
MAX_COLUMNS = 1999          # SQLite's limit is 2000; one column is the sid
LOOKUP_CHUNK = 500          # ids in a query; SQLite allows 32766 variables, but more ids are not faster

Row = tuple[str, ...]
"""A sid (the id of the row) and its values, in the order of the header."""


class NoSuchTable(ComponentError):
    """There is no such table."""


class TableExists(ComponentError):
    """The table exists already."""


class DuplicateId(ComponentError):
    """An id occurs twice. The id itself is kept out of the message: it belongs to the party."""

    def __init__(self, sid: str) -> None:
        self.sid = sid
        super().__init__("an id occurs twice")


@dataclass(frozen=True)
class Schema:
    """The names of the value columns and of the id column, and what they are in a data frame (`frame_meta.py`)."""

    header: tuple[str, ...] = ()
    sid: str = "id"
    meta: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return {"header": list(self.header), "sid": self.sid, **({"meta": dict(self.meta)} if self.meta else {})}


def table_exists(uri: str) -> bool:
    return parse_uri(uri).path.exists()


def drop(data_dir: Path, uri: str, before: int | None = None) -> bool:
    """Remove the table; False if there was none, or if its file was changed since `before` (milliseconds since the
    epoch). Readers that have it open can read on.

    Raises BadTableUri if it does not lie in the data folder."""
    path = table_in(data_dir, uri).path
    try:
        # Removed by the descriptor of its folder, so that a link that has replaced the folder is not followed.
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if _is_changed(os.stat(path.name, dir_fd=folder, follow_symlinks=False), before):
                return False
            os.unlink(path.name, dir_fd=folder)
        finally:
            os.close(folder)
    except FileNotFoundError:
        return False
    return True


def sweep(data_dir: Path) -> int:
    """Remove the unfinished files of killed writers, and return their number; files of living writers stay."""
    return sum(remove_unless_written(path) for path in data_dir.glob(f"*/.*{UNFINISHED}"))


def remove_unless_written(path: Path, before: int | None = None) -> bool:
    """Remove an unfinished file; False if its writer lives, or if it was changed since `before`."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)      # NFS locks only what may be written
    except FileNotFoundError:       # finished meanwhile
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        if _is_changed(os.fstat(handle), before):
            return False
        path.unlink(missing_ok=True)
        return True
    finally:
        os.close(handle)


def _is_changed(found: os.stat_result, since: int | None) -> bool:
    return since is not None and found.st_ctime_ns // 1_000_000 >= since


def _new_file(path: Path) -> int:
    """Make the file, and lock it against the sweep until the descriptor is closed."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)            # a sweep removed it between open and lock


class Table:
    """A finished table, open for reading; for use by one thread."""

    def __init__(self, uri: str) -> None:
        address = parse_uri(uri)
        if not address.path.is_file():      # SQLite would wait for a pipe
            raise NoSuchTable(f"there is no table {shown(address.name)} in namespace {shown(address.namespace)}")
        self.uri = uri
        self.namespace = address.namespace
        self.name = address.name
        self._connection = sqlite3.connect(f"file:{quote(str(address.path))}?mode=ro&immutable=1", uri=True)
        meta = dict(self._connection.execute("SELECT key, value FROM meta"))
        self.schema = Schema(tuple(json.loads(meta["header"])), meta["sid"], json.loads(meta.get("meta", "{}")))
        self.count = int(meta["count"])
        self.replaced = int(meta.get("replaced", 0))     # rows that a later one with the same id replaced
        self.made_by: str = meta["made_by"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def __iter__(self) -> Iterator[Row]:
        """Yield all rows, in the order of their insertion."""
        return iter(self._connection.execute("SELECT * FROM rows ORDER BY rowid"))

    def page(self, after: int, limit: int) -> list[tuple[int, Row]]:
        """Return rows in the order of their insertion, behind the one with the number `after`, each with its number."""
        query = "SELECT rowid, * FROM rows WHERE rowid > ? ORDER BY rowid LIMIT ?"
        return [(number, tuple(row)) for number, *row in self._connection.execute(query, (after, limit))]

    def __contains__(self, sid: object) -> bool:
        return self._connection.execute("SELECT 1 FROM rows WHERE sid = ?", (sid,)).fetchone() is not None

    def ids(self) -> Iterator[str]:
        """Yield all ids, in the order of their insertion."""
        return (sid for (sid,) in self._connection.execute("SELECT sid FROM rows ORDER BY rowid"))

    def column(self, name: str) -> Iterator[str]:
        """Yield the values of one column, in the order of the rows. Raises ComponentError for an unknown column."""
        if name not in self.schema.header:
            table = f"table {self.namespace}.{self.name}"
            log.error("%s has the columns %s", table, ", ".join(self.schema.header) or "none")
            # Other parties read this message, so the names of the table and its columns are only in this party's log.
            raise ComponentError(f"the table has no column {shown(name)}; that party's log names it and its columns")
        query = f"SELECT v{self.schema.header.index(name)} FROM rows ORDER BY rowid"  # noqa: S608  # a number
        return (value for (value,) in self._connection.execute(query))

    def rows_of(self, ids: Iterable[str]) -> Iterator[Row]:
        """Yield the rows of these ids, in the order of the ids; unknown ids are left out."""
        for chunk in _chunks(ids, LOOKUP_CHUNK):
            marks = ",".join("?" * len(chunk))
            query = f"SELECT * FROM rows WHERE sid IN ({marks})"  # noqa: S608  # question marks
            found = {row[0]: row for row in self._connection.execute(query, chunk)}
            yield from (found[sid] for sid in chunk if sid in found)

    def metadata(self) -> dict[str, object]:
        """Return the description of this table for a result file."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "count": self.count,
            "replaced": self.replaced,
            "schema": self.schema.as_json(),
        }


class TableWriter:
    """Fills a new table, which is complete after the `with` block; if the block raises, there is no table.

    With `keeps_last`, the last of several rows with one id is kept, in its place; without, they raise DuplicateId."""

    def __init__(
        self, uri: str, schema: Schema, *, made_by: str = "", overwrite: bool = False, keeps_last: bool = False
    ) -> None:
        if len(schema.header) > MAX_COLUMNS:
            raise ComponentError(f"{len(schema.header)} columns are too many, a table takes {MAX_COLUMNS}")
        self._address = parse_uri(uri)
        self._schema = schema
        self._made_by = made_by
        self._overwrite = overwrite
        self._keeps_last = keeps_last
        self._replaced = 0
        self._is_closed = False
        self._path = self._address.path.with_name(f".{secrets.token_hex(8)}{UNFINISHED}")

    def __enter__(self) -> Self:
        if not self._overwrite and self._address.path.exists():
            raise self._exists()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _new_file(self._path)
        self._connection = sqlite3.connect(self._path)
        try:
            _prepare(self._connection, self._schema)
            _sort_in(self._connection, self._path.parent)
        except BaseException:
            self._abandon()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._abandon()

    def add(self, rows: Iterable[Sequence[str]]) -> None:
        """Append rows one by one, without keeping them in memory."""
        marks = ",".join("?" * (len(self._schema.header) + 1))
        with _write_errors():
            self._connection.executemany(f"INSERT INTO rows VALUES ({marks})", rows)  # noqa: S608  # marks

    def close(self) -> None:
        """Check the ids after the last row. Raises DuplicateId. Without this call, the end of the block does it."""
        if not self._is_closed:
            self._is_closed = True
            with _write_errors():
                if self._keeps_last:
                    self._keep_last()
                else:
                    self._index_ids()

    def _index_ids(self) -> None:
        """Make the index at the end: sorting all ids once costs a fraction of inserting each of them."""
        try:
            self._connection.execute("CREATE UNIQUE INDEX ids ON rows (sid)")
        except sqlite3.IntegrityError as error:
            twice = "SELECT sid FROM rows GROUP BY sid HAVING count(*) > 1 ORDER BY min(rowid) LIMIT 1"
            raise DuplicateId(self._connection.execute(twice).fetchone()[0]) from error

    def _keep_last(self) -> None:
        """Delete all but the last row of each id. This uses only the sorted index, so it needs little memory."""
        self._connection.execute("CREATE INDEX ids ON rows (sid)")
        self._replaced = self._connection.execute(
            "DELETE FROM rows WHERE rowid IN (SELECT earlier.rowid FROM "
            "(SELECT sid, max(rowid) AS last FROM rows GROUP BY sid HAVING count(*) > 1) AS kept "
            "JOIN rows AS earlier ON earlier.sid = kept.sid AND earlier.rowid < kept.last)"
        ).rowcount

    def _finish(self) -> None:
        self.close()
        with _write_errors():
            self._write_meta()
            self._connection.commit()
            self._connection.close()
        _sync(self._path)
        self._publish()
        for folder in (self._path.parent, self._path.parent.parent):   # the namespace may be new as well
            _sync(folder)

    def _write_meta(self) -> None:
        (count,) = self._connection.execute("SELECT count(*) FROM rows").fetchone()
        self._connection.executemany("INSERT INTO meta VALUES (?, ?)", [
            ("format", "1"),
            ("header", json.dumps(self._schema.header)),
            ("sid", self._schema.sid),
            ("meta", json.dumps(self._schema.meta)),
            ("count", str(count)),
            ("replaced", str(self._replaced)),
            ("made_by", self._made_by),
        ])

    def _publish(self) -> None:
        if self._overwrite:
            self._path.replace(self._address.path)
            return
        try:
            os.link(self._path, self._address.path)   # unlike a rename, fails if another writer was first
        except FileExistsError as error:
            raise self._exists() from error

    def _abandon(self) -> None:
        self._connection.close()
        self._path.unlink(missing_ok=True)
        os.close(self._lock)

    def _exists(self) -> TableExists:
        namespace, name = shown(self._address.namespace), shown(self._address.name)
        return TableExists(f"table {name} in namespace {namespace} exists already")


def _prepare(connection: sqlite3.Connection, schema: Schema) -> None:
    # The file is not visible before it is complete and synced, so it needs no journal.
    with _write_errors():
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -16384")
        values = "".join(f", v{index} TEXT NOT NULL" for index in range(len(schema.header)))
        connection.execute(f"CREATE TABLE rows (sid TEXT NOT NULL{values})")
        connection.execute("CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)")


def _sort_in(connection: sqlite3.Connection, folder: Path) -> None:
    """Sort ids on the disk of the table, for the whole process: the disk of temporary files may be small."""
    quoted = str(folder).replace("'", "''")
    with _write_errors():
        connection.execute(f"PRAGMA temp_store_directory = '{quoted}'")


@contextmanager
def _write_errors() -> Iterator[None]:
    """Turn SQLite's errors into ComponentError; the most common one is a full disk."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise ComponentError(f"the table could not be written: {error}") from error


def _chunks(values: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(values)
    while chunk := list(islice(rest, size)):
        yield chunk


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
