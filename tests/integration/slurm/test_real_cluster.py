"""The Slurm of the tests: it runs jobs, and its daemons may be killed and come back."""

from __future__ import annotations

from pathlib import Path

from tests.kit.slurm.cluster import CONTROLLER, NODE, SlurmCluster
from tests.kit.waiting import eventually


def test_it_runs_jobs_again_after_its_daemons_were_killed(slurm: SlurmCluster, tmp_path: Path) -> None:
    def ends(name: str) -> None:
        slurm.run("sbatch", f"--job-name={name}", f"--output={tmp_path}/{name}", "--wrap=echo done; exit 3")
        eventually(lambda: slurm.states().get(name) == "FAILED")
        assert (tmp_path / name).read_text() == "done\n"

    ends("before")
    for daemon in (CONTROLLER, NODE):
        slurm.kill(daemon)
        slurm.start(daemon)
    ends("after")
