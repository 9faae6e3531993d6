"""A gang of two parties, one of which has its ranks on Slurm and the other one on its own machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fate_flow.engines.local.worker import ARRIVED, RUNNER
from tests.kit.servers.party_servers import Cluster
from tests.kit.servers.programs import command, printed, python, workers
from tests.kit.slurm.cluster import CORES, OTHER_NODE, SlurmCluster
from tests.kit.slurm.jobs import BOTH, ONCE_MORE, POLITE, jobs_of, with_host_parameters
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

OPEN = {"PENDING", "RUNNING", "COMPLETING"}


def gang(go: Path, job: dict[str, Any] | None = None, **at_host: Any) -> dict[str, Any]:
    """One rank at the guest, and two at the host, each of which needs a whole node."""
    document = command(BOTH, {"host": {"0": {"replicas": 2}}}, command=[*python(POLITE), str(go)], job=job or {})
    return with_host_parameters(document, task_cores=2 * CORES, **at_host)


def open_jobs(cluster: Cluster, slurm: SlurmCluster, job_id: str, version: int = 0) -> list[str]:
    """The states of the workers of a version that Slurm still has."""
    return sorted(one.state for one in jobs_of(cluster.host, slurm, job_id, version) if one.state in OPEN)


def statuses(cluster: Cluster, job_id: str) -> tuple[set[str], set[str]]:
    """Of the workers at the guest, and at the host."""
    guest, host = (workers(party, job_id) for party in (cluster.guest, cluster.host))
    return {row["f_status"] for row in guest}, {row["f_status"] for row in host}


def await_the_barrier(cluster: Cluster, slurm: SlurmCluster, job_id: str) -> None:
    """One rank of the host has its place, and none of the host begins."""
    [arrived] = eventually(lambda: [*cluster.host.home.glob(f"jobs/{job_id}/**/{ARRIVED}")])
    eventually(lambda: open_jobs(cluster, slurm, job_id) == ["PENDING", "RUNNING"], slurm.jobs)
    eventually(lambda: statuses(cluster, job_id)[0] == {"running"}, lambda: statuses(cluster, job_id))
    assert statuses(cluster, job_id)[1] == {"created"}
    assert not (arrived.parent / RUNNER).exists()


def test_ranks_on_slurm_begin_together_beside_a_party_without_slurm(
    cluster: Cluster, slurm: SlurmCluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    with slurm.drained(OTHER_NODE):
        job_id = cluster.submit(gang(go))
        await_the_barrier(cluster, slurm, job_id)

        def said() -> str:
            return str(cluster.guest.ask("job/explain", {"job_id": job_id})["wait_reason"])

        eventually(lambda: said().startswith("host 10000: waits in Slurm for "), said)
    eventually(lambda: statuses(cluster, job_id) == ({"running"}, {"running"}), lambda: statuses(cluster, job_id))
    go.touch()
    cluster.wait(job_id, "success")
    assert len(workers(cluster.host, job_id)) == 2
    eventually(lambda: not open_jobs(cluster, slurm, job_id), slurm.jobs)
    cluster.check_idle()


@pytest.mark.parametrize("goes_back", [True, False])
def test_the_limit_of_the_barrier_ends_the_placement_and_nothing_is_left_in_slurm(
    cluster: Cluster, slurm: SlurmCluster, tmp_path: Path, goes_back: bool
) -> None:
    """The job waits in the queue for its next attempt, unless its rules leave that out."""
    go = tmp_path / "go"
    job = {} if goes_back else {"retry": {**ONCE_MORE, "on_events": ["interruption"]}}
    with slurm.drained(OTHER_NODE):
        job_id = cluster.submit(gang(go, job, longest_pending=20))     # time to look at the barrier on a busy machine
        await_the_barrier(cluster, slurm, job_id)
        eventually(lambda: cluster.host.tasks(job_id, "train")[0]["f_reason"] == "not_placed")
        if goes_back:
            eventually(lambda: cluster.guest.job(job_id)["f_status"] == "waiting")
        else:
            cluster.wait(job_id, "failed")
        eventually(lambda: not open_jobs(cluster, slurm, job_id), slurm.jobs)
    [row, *_] = workers(cluster.guest, job_id)
    assert row["f_status"] == "exited", "its rank that ran alone was stopped"
    assert printed(cluster.guest, job_id, task_version=0) == "here\nbye\n"
    assert not [*cluster.host.home.glob(f"jobs/{job_id}/**/0/task_executor/*/{RUNNER}")]
    if goes_back:
        go.touch()
        cluster.wait(job_id, "success")
    cluster.check_idle()
