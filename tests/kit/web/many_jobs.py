"""Many jobs at once: copies of one that is there."""

from __future__ import annotations

from tests.kit.api.client_world import World


def copy_job(world: World, job_id: str, count: int) -> list[str]:
    """Add copies of the row of a job, each a millisecond younger than the one before; the ids, in this order.

    The id of the job has 20 digits and ends with 00000: those are the numbers of the copies."""
    database = world.store.database
    columns = [row[1] for row in database.execute_sql("PRAGMA table_info(t_job)").fetchall()]
    changed = {"f_job_id": "substr(f_job_id, 1, 15) || printf('%05d', i)", "f_create_time": "f_create_time + i"}
    values = ", ".join(changed.get(name, name) for name in columns)
    database.execute_sql(
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) "
        f"INSERT INTO t_job ({', '.join(columns)}) SELECT {values} FROM n, t_job WHERE f_job_id = ?", (job_id,),
    )  # fmt: skip
    return [f"{job_id[:15]}{number:05}" for number in range(1, count + 1)]
