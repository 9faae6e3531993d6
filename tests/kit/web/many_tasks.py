"""Jobs with many tasks, written at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fate_flow.core.model.job import Task, TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.store.values import Document
from tests.kit.api.client_world import GUEST, HOST, START, TOY, TOY_CONF, World


def add_tasks(
    world: World, job_id: str, names: Iterable[str], parties: Sequence[Party] = (GUEST, HOST), version: int = 0,
    **columns: Any,
) -> None:  # fmt: skip
    """Add a version of each of these tasks at each party; `columns` are written as they are."""
    waiting = TaskStatus.WAITING
    tasks = [
        Task(TaskKey(job_id, name, version, party), waiting, waiting, party == GUEST, "a1b2", "Toy",
             create_time=START + version)
        for name in names for party in parties
    ]  # fmt: skip
    with world.store.transaction() as tx:
        tx.add_tasks(tasks, tx.jobs_here(job_id)[0], TOY)
    if columns:
        world.write("t_task", {"f_job_id": job_id, "f_task_version": version}, **columns)


def add_restarting_job(world: World, count: int) -> str:
    """A running job of so many tasks, each of which has failed at both parties and waits to begin again; its id."""
    job_id = world.add_job(status=JobStatus.RUNNING, document=chain(count), f_start_time=START)
    names = [f"toy_{number}" for number in range(count)]
    add_tasks(
        world, job_id, names, f_status="failed", f_party_status="failed", f_message="out of memory",
        f_reason="worker_error", f_federated_reason="worker_error", f_federated_end_time=START, f_end_time=START,
    )  # fmt: skip
    add_tasks(world, job_id, names, version=1)
    return job_id


def fill_shares(world: World, job_id: str, count: int, parties: Sequence[Party]) -> None:
    """Add the running tasks toy_0, toy_1 and so on to a job, each at all these parties; by few statements."""
    add_tasks(
        world, job_id, ["toy_0"], parties, f_status="running", f_party_status="running", f_start_time=START,
        f_component_module="Intersection",
    )  # fmt: skip
    database = world.store.database
    columns = [row[1] for row in database.execute_sql("PRAGMA table_info(t_task)").fetchall()]
    changed = {"f_task_id": "f_job_id || '_toy_' || i", "f_component_name": "'toy_' || i"}
    database.execute_sql(
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1}) "
        f"INSERT INTO t_task ({', '.join(columns)}) "
        f"SELECT {', '.join(changed.get(name, name) for name in columns)} FROM n, t_task WHERE f_job_id = ?", (job_id,),
    )  # fmt: skip


def chain(count: int, hosts: Sequence[int] = (10000,)) -> Document:
    """A job of so many tasks, one after the other."""
    components: dict[str, Any] = {"toy_0": {"module": "Reader", "output": {"data": ["data"]}}}
    for number in range(1, count):
        before = {"data": {"data": [f"toy_{number - 1}.data"]}}
        components[f"toy_{number}"] = {"module": "Intersection", "input": before, "output": {"data": ["data"]}}
    table = {"toy_0": {"table": {"name": "a", "namespace": "b"}}}
    conf = {**TOY_CONF, "role": {"guest": [9999], "host": list(hosts)}, "component_parameters": {"common": table}}
    return Document({"components": components}, conf, {})
