"""Upgrading a database to the schema of this release: it applies the numbered files of `sql/migrations` in order.

`t_migration` records the digest of each applied migration. A released migration never changes
(tests/unit/store/test_migrations.py pins its digest); a change of the schema is a new file. A database with another
recorded digest is refused. Version 0.1.0 before 22 November 2026 recorded no digest: such a database is accepted if its
tables are those of migration 1, and refused otherwise.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import peewee
from peewee import Database

from fate_flow.core.model.errors import StorageFailed
from fate_flow.store.database.opening import open_database

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_CREATE_TABLE = re.compile(r"CREATE TABLE (\w+)")
_AUTO_SQLITE = "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"
_DROP_INDEX = re.compile(r"^(DROP INDEX \w+) ON \w+$")        # SQLite takes no table
_AUTO_MYSQL = "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY"
_MYSQL_OPTIONS = ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"


@dataclass(frozen=True)
class Migration:
    number: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        """The digest of its statements, without comments, so that comments may change."""
        text = ";\n".join(map(_without_layout, statements(self.sql, is_sqlite=False)))
        return hashlib.sha256(text.encode()).hexdigest()


def migrations() -> tuple[Migration, ...]:
    """Return all migrations of this release, by number."""
    found = []
    for file in files("fate_flow_sql").joinpath("migrations").iterdir():
        match = _FILE.fullmatch(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda one: one.number))


def version(database: Database) -> int:
    """Return the number of the newest applied migration; 0 if the database is empty."""
    _prepare(database)
    row = database.execute_sql("SELECT MAX(f_number) FROM t_migration WHERE f_left = 0").fetchone()
    return int(row[0] or 0)


def upgrade(database: Database) -> tuple[Migration, ...]:
    """Apply the missing migrations and return them. Raises StorageFailed if the schema is newer, or another one."""
    with _alone(database):
        known = migrations()
        have = version(database)
        if known and have > known[-1].number:
            raise StorageFailed(
                f"the database has schema {have}, this release knows up to {known[-1].number}: "
                "install the newer release"
            )
        _record_missing_digest(database, known)
        check_digests(database)
        missing = tuple(one for one in known if one.number > have)
        for migration in missing:
            _apply(database, migration)
    return missing


def check_digests(database: Database) -> None:
    """Check the applied migrations. Raises StorageFailed if one differs from that of this release."""
    known = {one.number: one for one in migrations()}
    for number, digest in database.execute_sql("SELECT f_number, f_digest FROM t_migration ORDER BY f_number"):
        if number in known and digest != known[number].digest:
            raise _another_schema(database, f"its migration {number:04} is not the one of this release")


def bind_party(database: Database, party_id: str) -> None:
    """Mark an empty database as this party's. Raises StorageFailed if it belongs to another party."""
    with _alone(database):
        database.execute_sql("CREATE TABLE IF NOT EXISTS t_owner (f_party_id VARCHAR(10) NOT NULL PRIMARY KEY)")
        row = database.execute_sql("SELECT f_party_id FROM t_owner").fetchone()
        if row is None:
            _execute(database, "INSERT INTO t_owner (f_party_id) VALUES (?)", party_id)
        elif row[0] != party_id:
            raise StorageFailed(
                f"the database belongs to party {row[0]}, this server is party {party_id} (key party_id)"
            )


@contextmanager
def _alone(database: Database) -> Iterator[None]:
    """Let one server at a time run the block; on SQLite in one transaction."""
    try:
        with _locked(database):
            yield
    except (peewee.DatabaseError, peewee.InterfaceError) as error:
        raise StorageFailed(f"the database refused: {error}") from error


@contextmanager
def _locked(database: Database) -> Iterator[None]:
    if database.is_sqlite:
        with database.atomic("IMMEDIATE"):
            yield
        return
    lock = "CONCAT('fate_flow.', MD5(DATABASE()))"
    if database.execute_sql(f"SELECT GET_LOCK({lock}, 60)").fetchone()[0] != 1:
        raise StorageFailed("another server has been upgrading this database for a minute")
    try:
        yield
    finally:
        database.execute_sql(f"SELECT RELEASE_LOCK({lock})").fetchone()


def _prepare(database: Database) -> None:
    database.execute_sql(
        "CREATE TABLE IF NOT EXISTS t_migration"
        " (f_number INTEGER NOT NULL PRIMARY KEY, f_name VARCHAR(100) NOT NULL, f_left INTEGER NOT NULL,"
        " f_digest VARCHAR(64) NOT NULL DEFAULT '')"
    )


def _record_missing_digest(database: Database, known: tuple[Migration, ...]) -> None:
    """Recognise a database without digests by its tables. Raises StorageFailed if they differ."""
    if "f_digest" not in _columns(database, "t_migration"):
        database.execute_sql("ALTER TABLE t_migration ADD COLUMN f_digest VARCHAR(64) NOT NULL DEFAULT ''")
    find = "SELECT f_number, f_left FROM t_migration WHERE f_digest = ''"
    for number, left in database.execute_sql(find).fetchall():
        migration = next((one for one in known if one.number == number == 1), None)
        if migration is None or left:
            raise _another_schema(database, f"its migration {number:04} is unknown or incomplete")
        _check_tables(database, migration)
        _execute(database, "UPDATE t_migration SET f_digest = ? WHERE f_number = ?", migration.digest, number)


def _check_tables(database: Database, migration: Migration) -> None:
    expected = open_database("sqlite:///:memory:", Path())
    todo = list(statements(migration.sql, is_sqlite=True))
    try:
        for statement in todo:
            expected.execute_sql(statement)
        for table in _made_tables(todo):
            difference = _difference(database, expected, table)
            if difference:
                raise _another_schema(database, difference)
    finally:
        expected.close()


def _difference(database: Database, expected: Database, table: str) -> str:
    """Return text about the first difference of the table; empty if there is none."""
    if table not in database.get_tables():
        return f"table {table} is missing"
    for kind, read in (("column", _columns), ("index", _indexes)):
        have, wanted = read(database, table), read(expected, table)
        for name in sorted(wanted - have):
            return f"{kind} {name} of table {table} is missing"
        for name in sorted(have - wanted):
            return f"{kind} {name} of table {table} is unknown to this release"
    if database.is_sqlite and _made_by(database, table) != _made_by(expected, table):
        return f"table {table} has other types or checks"
    return ""


def _columns(database: Database, table: str) -> set[str]:
    return {one.name for one in database.get_columns(table)}


def _indexes(database: Database, table: str) -> set[str]:
    """Return the indexes that a migration names; those of primary keys are named by the database."""
    return {one.name for one in database.get_indexes(table) if one.name.startswith("ix_")}


def _made_by(database: Database, table: str) -> str:
    find = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?"
    return _without_layout(_execute(database, find, table).fetchone()[0])


def _without_layout(statement: str) -> str:
    return re.sub(r"\s*([(),])\s*", r"\1", " ".join(statement.split()))


def _another_schema(database: Database, why: str) -> StorageFailed:
    return StorageFailed(
        f"the database {database.database} was made by an unreleased version and cannot be upgraded: {why}. "
        "Start with an empty database: set another folder as home, or name another database in database.url"
    )


def _apply(database: Database, migration: Migration) -> None:
    """Apply a migration by statements. MySQL commits each one separately; an interrupted migration is continued."""
    todo = list(statements(migration.sql, is_sqlite=database.is_sqlite))
    find = "SELECT f_left FROM t_migration WHERE f_number = ?"
    begun = _execute(database, find, migration.number).fetchone()
    if begun is None:
        _check_is_free(database, todo)
        insert = "INSERT INTO t_migration (f_number, f_name, f_left, f_digest) VALUES (?, ?, ?, ?)"
        _execute(database, insert, migration.number, migration.name, len(todo), migration.digest)
    left = len(todo) if begun is None else int(begun[0])
    for statement in todo[len(todo) - left :]:
        try:
            database.execute_sql(statement)
        except peewee.OperationalError as error:
            was_cut_off_after_it = begun is not None and left == begun[0] and _was_done_before(error)
            if not was_cut_off_after_it:
                raise
        left -= 1
        _execute(database, "UPDATE t_migration SET f_left = ? WHERE f_number = ?", left, migration.number)


def _check_is_free(database: Database, todo: list[str]) -> None:
    """Check that no table has a name of ours: it may be FATE's own, and must be neither used nor changed."""
    taken = sorted(set(_made_tables(todo)).intersection(database.get_tables()))
    if taken:
        raise StorageFailed(f"the database has tables of another program: {', '.join(taken)}; name an empty database")


def _made_tables(todo: list[str]) -> list[str]:
    return [match[1] for match in map(_CREATE_TABLE.match, todo) if match]


_DONE_BEFORE = (1050, 1060, 1061, 1054, 1091)
"""MySQL's error codes for an existing table, column or index, and for one to rename or drop that does not exist."""


def _was_done_before(error: peewee.OperationalError) -> bool:
    return any(code in _DONE_BEFORE for code in error.args)


def _execute(database: Database, sql: str, *params: Any) -> Any:
    return database.execute_sql(sql if database.is_sqlite else sql.replace("?", "%s"), params)


def statements(sql: str, is_sqlite: bool) -> Iterator[str]:
    """Yield the statements of a migration in the SQL dialect of this database."""
    text = re.sub(r"--[^\n]*", "", sql)
    for statement in text.split(";"):
        one = statement.strip()
        if not one:
            continue
        if is_sqlite:
            yield _DROP_INDEX.sub(r"\1", one.replace(_AUTO_MYSQL, _AUTO_SQLITE))
        else:
            yield re.sub(r"\)$", _MYSQL_OPTIONS, one) if one.startswith("CREATE TABLE") else one
