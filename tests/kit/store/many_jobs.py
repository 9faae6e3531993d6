"""Many jobs in a database: copies of the rows of a real one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from peewee import Database

COPIED = ("t_job", "t_seat", "t_task", "t_tracking_output_data_info")
INSERTED_AT_ONCE = 1_000


@contextmanager
def without_indexes(database: Database) -> Iterator[None]:
    """Leave out the indexes of these tables until the end of the block: SQLite makes them in a fraction of the time."""
    marks = ", ".join("?" * len(COPIED))
    made = database.execute_sql(
        "SELECT name, sql FROM sqlite_master"
        f" WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN ({marks})", COPIED,
    ).fetchall()
    for name, _ in made:
        database.execute_sql(f"DROP INDEX {name}")
    yield
    for _, sql in made:
        database.execute_sql(sql)


def fill(database: Database, job_id: str, numbers: range, *, with_special: bool) -> None:
    """Copy the rows of this job, a second older for each number; of the special ones every fifth is failed, and every
    fifth local."""
    database.connect(reuse_if_open=True)
    database.execute_sql(
        "CREATE TABLE IF NOT EXISTS bench_copy (n INTEGER PRIMARY KEY, job_id VARCHAR(25), elapsed INTEGER,"
        " is_failed INTEGER, is_local INTEGER)"
    )
    database.execute_sql("DELETE FROM bench_copy")
    with database.atomic():
        for begin in range(numbers.start, numbers.stop, INSERTED_AT_ONCE):
            block = range(begin, min(numbers.stop, begin + INSERTED_AT_ONCE))
            _insert(database, [
                (n, f"2020{n:017d}", n * 7919 % 100_003,
                 int(with_special and n % 5 == 0), int(with_special and n % 5 == 1))
                for n in block
            ])  # fmt: skip
    mark = "?" if database.is_sqlite else "%s"
    for table in COPIED:
        names = [column.name for column in database.get_columns(table)]
        values = ", ".join(_copied(name, table) for name in names)
        database.execute_sql(
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM bench_copy b, {table} t"
            f" WHERE t.f_job_id = {mark}", (job_id,),
        )


def add_tasks(database: Database, copies: int) -> None:
    """Give each job so many copies of its tasks."""
    names = [column.name for column in database.get_columns("t_task")]
    task_id = "f_task_id || '_' || n" if database.is_sqlite else "CONCAT(f_task_id, '_', n)"
    numbers = " UNION ALL ".join(f"SELECT {number} AS n" for number in range(copies))
    values = ", ".join(task_id if name == "f_task_id" else name for name in names)
    database.execute_sql(f"INSERT INTO t_task ({', '.join(names)}) SELECT {values} FROM t_task, ({numbers}) number")


def _insert(database: Database, rows: Sequence[tuple[object, ...]]) -> None:
    mark = "?" if database.is_sqlite else "%s"
    marks = ",".join([f"({','.join([mark] * len(rows[0]))})"] * len(rows))
    database.execute_sql(f"INSERT INTO bench_copy VALUES {marks}", [value for row in rows for value in row])


def _copied(column: str, table: str) -> str:
    """What a column of a copy holds: `t` is the row it is a copy of, `b` says what differs."""
    if column in ("f_create_time", "f_start_time", "f_end_time"):
        return f"t.{column} - 1000 * (b.n + 1)"
    if column in ("f_status", "f_party_status") and table != "t_seat":
        return f"CASE WHEN b.is_failed = 1 THEN 'failed' ELSE t.{column} END"
    return {
        "f_job_id": "b.job_id",
        "f_task_id": "REPLACE(t.f_task_id, t.f_job_id, b.job_id)",
        "f_elapsed": "b.elapsed",
        "f_role": "CASE WHEN b.is_local = 1 AND t.f_role = 'guest' THEN 'local' ELSE t.f_role END",
    }.get(column, f"t.{column}")
