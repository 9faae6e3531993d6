"""Opening the database: SQLite or MySQL/MariaDB by one URL, one connection for each thread.

The settings of every connection are here: SQLite uses WAL with synchronous=FULL, and writes begin IMMEDIATE. MySQL uses
READ COMMITTED, and counts found rows, so that an UPDATE that matched but changed nothing counts, as in SQLite. A
snapshot is REPEATABLE READ there: all its queries see the same state, as in SQLite.
"""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
from peewee import Database, MySQLDatabase, OperationalError, SqliteDatabase, __exception_wrapper__
from pymysql.constants import CLIENT

from fate_flow.core.model.errors import BadSettings, StorageFailed
from fate_flow.store.database.fair_file_lock import FairFileLock
from fate_flow.store.database.read_memo import ReadMemo

LogSql = Callable[[str, Sequence[Any]], None]

LOCK_SECONDS = 15
"""How long to wait for a lock; shorter than another party waits for an answer."""

_KEPT_PARSED = 400
"""Statements that a connection of SQLite keeps parsed. A scheduler has more than Python's 128, and parsing one with all
columns of a job takes longer than running it."""


_SNAPSHOT = "REPEATABLE READ, READ ONLY"
LOWER_ALL = "lower_all"
"""A function of SQLite here: the text with all its letters in lower case. Its own LOWER knows A to Z alone."""


class _Logged:
    """Writes every statement into the database log before it runs."""

    log_sql: LogSql | None = None
    memo: ReadMemo | None = None         # of this thread's transaction, if it can have one

    def execute_sql(self, sql: str, params: Any = None, *args: Any, **kwargs: Any) -> Any:
        if self.log_sql is not None:
            self.log_sql(sql, params or ())
        if (memo := self.memo) is not None:
            memo.before(sql)
        return super().execute_sql(sql, params, *args, **kwargs)  # type: ignore[misc]

    def execute_unlogged(self, sql: str, params: Sequence[Any]) -> Any:
        """Run a statement whose values are in the record alone, and in no log: some of them may be erased there."""
        if (memo := self.memo) is not None:
            memo.before(sql)
        return super().execute_sql(sql, params)  # type: ignore[misc]


class _Sqlite(_Logged, SqliteDatabase):
    is_sqlite = True

    def __init__(self, file: str, **options: Any) -> None:
        super().__init__(file, **options)
        self._write_lock = FairFileLock(file) if file != ":memory:" else None
        self._threads = threading.local()

    @property
    def memo(self) -> ReadMemo | None:  # type: ignore[override]  # read alone
        memo: ReadMemo | None = getattr(self._threads, "memo", None)
        return memo

    def _execute_cursor(self, sql: str, params: Any, **options: Any) -> Any:
        """As peewee's, without what it looks up for each statement: its log, its hooks, whether there is a connection.
        """
        state = self._state
        if state.closed:
            return super()._execute_cursor(sql, params, **options)
        try:
            return state.conn.execute(sql, params or ())
        except sqlite3.Error:
            with __exception_wrapper__:
                raise

    def snapshot(self) -> Any:
        """Return a transaction that only reads: it sees one state of the database."""
        return self.atomic()

    def begin(self, lock_type: str | None = None) -> None:
        """Begin a transaction; before one that writes (`IMMEDIATE`), take the fair lock."""
        self._begin(lock_type)
        self._threads.memo = ReadMemo() if lock_type == "IMMEDIATE" else None

    def _begin(self, lock_type: str | None) -> None:
        if lock_type is None or self._write_lock is None:
            super().begin(lock_type)
            return
        try:
            self._write_lock.enter(LOCK_SECONDS)
        except TimeoutError as error:
            raise OperationalError(f"database is locked: no turn to write within {LOCK_SECONDS} s") from error
        except OSError as error:
            raise OperationalError(f"{error.filename}: {error.strerror}") from error
        try:
            super().begin(lock_type)
        except BaseException:
            self._write_lock.leave()
            raise

    def commit(self) -> Any:
        self._threads.memo = None
        done = super().commit()
        self._leave()
        return done

    def rollback(self) -> Any:
        self._threads.memo = None
        try:
            return super().rollback()
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._write_lock is not None:
            self._write_lock.leave()


class _MySqlConnection(pymysql.connections.Connection):
    """Offers TLS as every connection of pymysql does, with one context for all connections of the process.

    pymysql makes one for each, and reads all certificates of the system into it: 20 ms of processor time.
    """

    _context: Any = None

    def _create_ssl_ctx(self, sslp: Any) -> Any:
        if sslp:        # options of its own, such as an authority: a shared context would not have them
            return super()._create_ssl_ctx(sslp)  # type: ignore[misc]
        if _MySqlConnection._context is None:
            _MySqlConnection._context = super()._create_ssl_ctx(sslp)  # type: ignore[misc]
        return _MySqlConnection._context


class _MySql(_Logged, MySQLDatabase):
    is_sqlite = False

    def _connect(self) -> Any:
        connection = _MySqlConnection(database=self.database, autocommit=True, **self.connect_params)
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}")
        return connection

    def snapshot(self) -> Any:
        """Return a transaction that only reads: it sees one state of the database, that of its first query."""
        return self.atomic(_SNAPSHOT)

    def begin(self, isolation_level: str | None = None) -> None:
        """Begin a transaction. `isolation_level`: of this one alone; None: that of the connection."""
        if isolation_level is None:
            super().begin()
            return
        connection = self.connection()
        try:
            with __exception_wrapper__:
                connection.query(f"SET TRANSACTION ISOLATION LEVEL {isolation_level}")
                connection.query("BEGIN")
        except BaseException:
            self.close()         # or the next transaction would have this level
            raise


def open_database(url: str, home: Path, log_sql: LogSql | None = None) -> Database:
    """Return the database that the URL names, not connected yet; an empty URL means SQLite in the home folder."""
    parts = urlsplit(url)
    if parts.scheme in ("", "sqlite"):
        database: Database = _sqlite(url, home)
    elif parts.scheme in ("mysql", "mysql+pymysql"):
        database = _mysql(url)
    else:
        raise BadSettings("database.url: does not begin with sqlite:// or mysql://")
    database.log_sql = log_sql
    return database


def sqlite_file(url: str, home: Path) -> Path | None:
    """Return the file of the database that the URL names; None if it is none on this disk."""
    parts = urlsplit(url)
    name = unquote(parts.path[1:])
    if parts.scheme not in ("", "sqlite") or name == ":memory:":
        return None
    return home / (name or "fate_flow.sqlite")


def _sqlite(url: str, home: Path) -> Database:
    file = str(sqlite_file(url, home) or ":memory:")
    pragmas = {"journal_mode": "wal", "synchronous": "full", "busy_timeout": LOCK_SECONDS * 1000, "foreign_keys": 1}
    if file == ":memory:":
        pragmas = {}
    is_file = file != ":memory:"
    found = _Sqlite(
        file, pragmas=pragmas, timeout=LOCK_SECONDS, check_same_thread=is_file, cached_statements=_KEPT_PARSED
    )
    found.register_function(_lowered, LOWER_ALL, 1, deterministic=True)
    return found


def _lowered(text: str | None) -> str | None:
    return text if text is None else text.lower()


def _mysql(url: str) -> Database:
    parts = urlsplit(url)
    name = unquote(parts.path.strip("/"))
    if not name:
        raise BadSettings("database.url: names no database; write mysql://user:password@host:3306/name")
    return _MySql(
        name,
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        charset="utf8mb4",
        client_flag=CLIENT.FOUND_ROWS,
        connect_timeout=10,
        read_timeout=60,
        write_timeout=60,
        init_command="SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        sql_mode="STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ENGINE_SUBSTITUTION",
    )


def create_if_missing(url: str) -> None:
    """Make the MySQL database if the server does not have it; does nothing for SQLite."""
    parts = urlsplit(url)
    if not parts.scheme.startswith("mysql"):
        return
    name = unquote(parts.path.strip("/")).replace("`", "")
    try:
        connection = _MySqlConnection(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or 3306,
            user=unquote(parts.username or "root"),
            password=unquote(parts.password or ""),
            connect_timeout=10,
        )
    except pymysql.MySQLError as error:
        where = f"{parts.hostname or '127.0.0.1'}:{parts.port or 3306}"
        raise StorageFailed(f"database.url: {where} refuses the connection: {error.args[-1]}") from error
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    finally:
        connection.close()


# ---------------------------------------------------------------------- kinds of errors

_TRY_AGAIN = frozenset({
    1020,        # the record was changed since it was read
    1412,        # a table was altered since the snapshot
    1205, 1213,  # waited too long for a lock; a deadlock
})  # fmt: skip
_GONE = frozenset({
    0,                               # pymysql: the connection is closed
    1040, 1203,                      # too many connections
    1053, 1077, 1079,                # the server shuts down
    1158, 1159, 1160, 1161,          # the network, as the server saw it
    1317, 1927,                      # killed: the statement, the connection
    2002, 2003, 2006, 2013, 2055,    # the server cannot be reached, or has gone
})  # fmt: skip
_FULL = frozenset({1021, 1114})


def is_lost(error: BaseException) -> bool:
    """Return whether the error means that the connection to the database, or its server, is gone."""
    return _code(error) in _GONE


def is_passing(error: BaseException) -> bool:
    """Return whether a retry may succeed: after a lock, a deadlock or a lost connection."""
    code = _code(error)
    if code is None:
        return "locked" in str(error)
    return code in _TRY_AGAIN or code in _GONE


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether the error, or a cause of it, is a full disk of the database."""
    while error is not None:
        if _says_full(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _says_full(error: BaseException) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return "full" in str(error)
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return _code(error) in _FULL or any(text in str(error) for text in ("Errcode: 28", "error 28 from"))


def _code(error: BaseException) -> int | None:
    """Return the number of a MySQL error; None for SQLite, whose errors have no numbers."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else None
