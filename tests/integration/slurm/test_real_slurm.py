"""A job of two parties, one of which runs its workers on Slurm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.servers.lending import a_root
from tests.kit.servers.party_servers import GUEST, HOST, Cluster, running_cluster, toy
from tests.kit.servers.slurm import SlurmCluster


@pytest.fixture(scope="module")
def cluster(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    engine = {
        "kind": "slurm", "default": True, "cores": 20, "commands": str(slurm.bin), "poll_seconds": 0.3,
        "settle_seconds": 2, "partition": "main",
    }
    overlays = {HOST: {"engines": {"cluster": engine}}}
    with running_cluster(a_root(tmp_path_factory), (GUEST, HOST), overlays=overlays) as found:
        yield found


def test_a_job_of_two_parties_succeeds_with_one_of_them_on_slurm(cluster: Cluster) -> None:
    job_id = cluster.run(toy())
    [row] = cluster.host.rows("SELECT * FROM t_worker WHERE f_job_id = ?", job_id)
    assert row["f_engine"] == "cluster"
    cluster.check_idle()
