"""The ranks that a start brings are one job array, and everything holds for each of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.model.resources import Need
from fate_flow.engines.placed.cluster import Placement, Stage, Taken
from fate_flow.engines.placed.folder import OUTPUT
from fate_flow.engines.slurm.cluster import SlurmCluster as OnSlurm
from tests.kit.servers.party_servers import Cluster
from tests.kit.servers.programs import printed, python, workers
from tests.kit.slurm.cluster import CORES, ELEMENTS, OTHER_NODE, SlurmCluster, SlurmJob
from tests.kit.slurm.jobs import at_host, jobs_of, with_host_parameters
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

RANK = "import os, sys; rank = int(os.environ['FATE_FLOW_PARTY_RANK']); print('rank', rank, flush=True); "
REPLACED = {"max_failed_workers": 1}


def ranks(code: str, count: int, cores: int = 1, **here: Any) -> dict[str, Any]:
    """Each rank has so many cores."""
    document = at_host(python(RANK + code), here={"replicas": count, **here})
    return with_host_parameters(document, task_cores=count * cores, task_memory=count * 100)


def elements(cluster: Cluster, slurm: SlurmCluster, job_id: str) -> dict[int, SlurmJob]:
    """The elements of the only array of a job, by number."""
    found = jobs_of(cluster.host, slurm, job_id)
    assert len({(one.name, one.comment) for one in found}) <= 1, found
    return {int(one.number.partition("_")[2]): one for one in found}


def states(cluster: Cluster, job_id: str) -> list[str]:
    return [row["f_status"] for row in workers(cluster.host, job_id)]


def test_a_gang_is_one_array_and_each_rank_has_its_exit_code_and_its_output(
    cluster: Cluster, slurm: SlurmCluster
) -> None:
    job_id = cluster.submit(ranks("import time; time.sleep(rank == 1); sys.exit(3 * (rank == 1))", 3))
    cluster.wait(job_id, "failed")
    found = elements(cluster, slurm, job_id)
    assert sorted(found) == [0, 1, 2]
    ended = {row["f_rank"]: row["f_exit_status"] for row in workers(cluster.host, job_id)}
    assert ended[1] == "exit code 3"
    assert [printed(cluster.host, job_id, worker=rank) for rank in range(3)] == [f"rank {rank}\n" for rank in range(3)]
    cluster.check_idle()


def test_more_than_slurm_takes_at_once_are_several_arrays(cluster: Cluster, slurm: SlurmCluster) -> None:
    job_id = cluster.submit(ranks("", ELEMENTS + 1))
    cluster.wait(job_id, "success")
    found = jobs_of(cluster.host, slurm, job_id)
    assert len(found) == ELEMENTS + 1
    assert len({one.name for one in found}) == 2
    cluster.check_idle()


def test_a_rank_that_is_replaced_is_a_job_of_its_own(
    cluster: Cluster, slurm: SlurmCluster, tmp_path: Path
) -> None:
    once = repr(str(tmp_path / "once"))
    code = f"import time; time.sleep(2); first = rank == 1 and not os.path.exists({once}); "
    code += f"first and open({once}, 'w'); sys.exit(7 * first)"
    document = ranks(code, 2, **REPLACED)
    job_id = cluster.submit(document)
    cluster.wait(job_id, "success")
    of_array = [one for one in jobs_of(cluster.host, slurm, job_id) if "_" in one.number]
    alone = [one for one in jobs_of(cluster.host, slurm, job_id) if "_" not in one.number]
    assert [len(of_array), len(alone)] == [2, 1]
    assert [row["f_exit_status"] for row in workers(cluster.host, job_id)] == [f"exit code {one}" for one in (0, 7, 0)]


def test_an_array_whose_answer_was_lost_runs_each_rank_once(
    cluster: Cluster, slurm: SlurmCluster, commands: Path
) -> None:
    (commands / "lose").touch()
    job_id = cluster.submit(ranks("", 2))
    cluster.wait(job_id, "success")
    assert not (commands / "lose").exists()
    assert sorted(elements(cluster, slurm, job_id)) == [0, 1]
    assert len(states(cluster, job_id)) == 2


def test_each_element_is_signalled_and_cancelled_alone(slurm: SlurmCluster, tmp_path: Path) -> None:
    """One that waits, too: a scancel with a filter would take all that wait."""
    polite = "trap 'echo bye; exit 0' TERM; echo here; while true; do sleep 0.05; done"
    cluster = OnSlurm("test-", commands=slurm.bin)
    folders = [tmp_path / f"w{number}" for number in range(4)]
    for folder in folders:
        folder.mkdir()

    def stages() -> list[Stage | None]:
        found = {one.name: one.stage for one in cluster.listing()}
        return [found.get(f"test-{one.name}") for one in folders]

    with slurm.drained(OTHER_NODE):
        taken = cluster.submit_together([
            Placement(f"test-{one.name}", one, ("/bin/sh", "-c", polite), Need(CORES // 2, 100), 10) for one in folders
        ]).taken  # fmt: skip
        assert taken is Taken.ACCEPTED
        alive, pending, ended = Stage.ALIVE, Stage.PENDING, Stage.ENDED
        eventually(lambda: stages() == [alive, alive, pending, pending], stages)
        eventually(lambda: (folders[0] / OUTPUT).exists() and (folders[0] / OUTPUT).read_text() == "here\n")
        cluster.cancel("test-w2")
        eventually(lambda: stages() == [alive, alive, None, pending], stages)
        cluster.signal("test-w0")
        eventually(lambda: stages() == [ended, alive, None, alive], stages)
        said = (folders[0] / OUTPUT).read_text().splitlines()
        assert [line for line in said if not line.startswith("slurmstepd")] == ["here", "bye"]
        # Slurm says that a job runs before its node has begun with it.
        eventually(lambda: all((folders[number] / OUTPUT).exists() for number in (1, 3)))
        for one in ("test-w1", "test-w3"):
            cluster.cancel(one)
        eventually(lambda: stages() == [ended, ended, None, ended], stages)
        assert [(one / OUTPUT).exists() for one in folders] == [True, True, False, True]


def test_an_array_that_an_operator_cancels_ends_all_its_ranks(cluster: Cluster, slurm: SlurmCluster) -> None:
    with slurm.drained(OTHER_NODE):
        job_id = cluster.submit(ranks("", 3, CORES - 1))
        eventually(lambda: [one.state for one in elements(cluster, slurm, job_id).values()].count("PENDING") == 2)
        [one, *_] = jobs_of(cluster.host, slurm, job_id)
        slurm.run("scancel", f"--name={one.name}")
        cluster.wait(job_id, "failed")
    reasons = {row["f_reason"] for row in workers(cluster.host, job_id)}
    assert "worker_killed" in reasons <= {"worker_killed", "stopped"}
    cluster.check_idle()
