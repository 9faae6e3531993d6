"""What a worker finds on its node: its GPUs, and perhaps no network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.servers.party_servers import Cluster
from tests.kit.servers.programs import printed, python, workers
from tests.kit.slurm.cluster import GPUS, SlurmCluster
from tests.kit.slurm.jobs import at_host, jobs_of, share, with_host_parameters
from tests.kit.slurm.silent_node import why_not

pytestmark = pytest.mark.timeout(900)


def test_each_rank_sees_the_gpus_that_slurm_has_given_it(cluster: Cluster, slurm: SlurmCluster) -> None:
    code = "import os, time; print(os.environ.get('CUDA_VISIBLE_DEVICES'), flush=True)"
    document = with_host_parameters(at_host(python(code), here={"replicas": 2}), task_gpus=2 * GPUS, task_memory=200)
    job_id = cluster.run(document)
    assert [printed(cluster.host, job_id, worker=rank) for rank in range(2)] == ["0,1\n"] * 2
    assert {(one.gpus, one.node) for one in jobs_of(cluster.host, slurm, job_id)} == {
        (f"gres:gpu:{GPUS}", "node1"), (f"gres:gpu:{GPUS}", "node2")
    }  # fmt: skip
    without = cluster.run(with_host_parameters(at_host(python(code)), task_memory=100))
    assert printed(cluster.host, without) in ("None\n", "\n", "NoDevFiles\n")
    cluster.check_idle()


def test_more_gpus_than_a_node_has_are_refused_by_slurm(cluster: Cluster) -> None:
    job_id = cluster.submit(with_host_parameters(at_host(["/bin/sleep", "0"]), task_gpus=GPUS + 1))
    cluster.wait(job_id, "failed")
    row = share(cluster, job_id)
    assert (row["f_reason"], row["f_message"]) == (
        "launch_failed", "Slurm refused it: Requested node configuration is not available"
    )  # fmt: skip
    cluster.check_idle()


def test_a_program_on_a_node_without_a_network_needs_the_folder_alone(cluster: Cluster, commands: Path) -> None:
    if why := why_not(commands.with_name("silent")):
        pytest.skip(why)
    code = """
import os, pathlib, socket, sys
print(sorted(name for _, name in socket.if_nameindex()))
pathlib.Path("made.txt").write_text(os.environ["FATE_FLOW_PARTY_RANK"])
sys.exit(4)
"""
    parameters = {"task_memory": 100, "task_conf": {"train": {"queue": "silent"}}}
    job_id = cluster.submit(with_host_parameters(at_host(python(code)), **parameters))
    cluster.wait(job_id, "failed")
    [row] = workers(cluster.host, job_id)
    assert (row["f_engine"], row["f_exit_status"]) == ("silent", "exit code 4")
    assert printed(cluster.host, job_id) == "['lo']\n"
    cluster.check_idle()
