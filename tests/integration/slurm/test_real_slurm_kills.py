"""kill -9 of the server, of slurmctld and of nodes at random moments, while an array and a single worker run on Slurm.

What is killed follows from a seed, always the same unless FATE_FLOW_TEST_SEED=N says another one, so that a run that
failed can be tried again. The moments differ from run to run by milliseconds."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.kit.servers.party_servers import HOST, Cluster
from tests.kit.servers.programs import python, workers
from tests.kit.slurm.cluster import CONTROLLER, NODE, OTHER_NODE, SlurmCluster
from tests.kit.slurm.jobs import at_host, jobs_of, with_host_parameters
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.timeout(900), pytest.mark.heavy]

SEED = "FATE_FLOW_TEST_SEED"
KILLS = 6
NOTES_ITS_START = """
import os, sys, time
started, go = sys.argv[1:]
number = os.open(started, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(number, (os.path.basename(os.environ["FATE_FLOW_WORKER"]) + "\\n").encode())
while not os.path.exists(go):
    time.sleep(0.02)
"""
ENDED = ("success", "failed", "canceled")
REASONS = {
    "done", "worker_killed", "node_lost", "launch_failed", "preempted", "stopped", "not_placed", "worker_error",
}


class Faults:
    """What is killed, and comes back a while later."""

    def __init__(self, cluster: Cluster, slurm: SlurmCluster, chance: random.Random) -> None:
        self.cluster, self.slurm, self.chance = cluster, slurm, chance
        self.done: list[str] = []

    def happen(self) -> None:
        for _ in range(KILLS):
            self._pass(self.chance.uniform(0, 1.5))
            self._kill(some := self.chance.sample((HOST, CONTROLLER, NODE, OTHER_NODE), self.chance.choice((1, 1, 2))))
            self._pass(self.chance.uniform(0, 2))
            for one in some:
                self._start(one)

    def _kill(self, some: list[str]) -> None:
        for one in some:
            self.done.append(one)
            if one == HOST:
                self.cluster.kill(one)
            else:
                self.slurm.kill(one)

    def _start(self, one: str) -> None:
        if one == HOST:
            self.cluster.start(one)
        else:
            self.slurm.start(one)

    def _pass(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        eventually(lambda: time.monotonic() >= until)


def test_whatever_is_killed_each_rank_runs_once_and_none_is_unseen(
    cluster: Cluster, slurm: SlurmCluster, tmp_path: Path
) -> None:
    seed = os.environ.get(SEED, "31")
    go, faults = tmp_path / "go", Faults(cluster, slurm, random.Random(seed))
    submitted = {}
    for count in (3, 1):
        started = tmp_path / f"started-{count}"
        document = at_host([*python(NOTES_ITS_START), str(started), str(go)], here={"replicas": count})
        job_id = cluster.submit(with_host_parameters(document, task_cores=count, task_memory=100 * count))
        submitted[job_id] = started
    faults.happen()
    slurm.heal()
    go.touch()
    for job_id, started in submitted.items():
        eventually(lambda one=job_id: cluster.guest.job(one)["f_status"] in ENDED, lambda: faults.done, seconds=240)
        check(cluster, slurm, job_id, started)
    cluster.check_idle()


def check(cluster: Cluster, slurm: SlurmCluster, job_id: str, started: Path) -> None:
    """A worker ran at most once, and where the job has succeeded, each rank did. None of them is left anywhere."""
    rows = workers(cluster.host, job_id)
    runs = Counter(started.read_text().split()) if started.exists() else Counter[str]()
    assert set(runs.values()) <= {1}, runs
    assert set(runs) <= {row["f_worker_id"] for row in rows}, "each of them is known"
    assert {row["f_status"] for row in rows} == {"exited"}
    assert {row["f_reason"] for row in rows} <= REASONS, rows
    if cluster.guest.job(job_id)["f_status"] == "success":
        last = max(row["f_task_version"] for row in rows)
        assert all(runs[row["f_worker_id"]] for row in rows if row["f_task_version"] == last)
    else:
        assert cluster.host.tasks(job_id, "train")[-1]["f_reason"] in REASONS - {"done"}
    # A controller that was killed may list again what is over: the server cancels it.
    eventually(
        lambda: not [one for one in jobs_of(cluster.host, slurm, job_id) if one.state in ("PENDING", "RUNNING")],
        slurm.jobs,
    )
