"""Workers on nodes that do not see the home: staged over the listener for workers, alone and as an array."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from fate_flow.engines.placed.folder import OUTPUT
from tests.kit.servers.party_servers import Cluster, toy
from tests.kit.servers.programs import printed, python, workers
from tests.kit.slurm.cluster import SlurmCluster
from tests.kit.slurm.jobs import POLITE, at_host, is_here, jobs_of, names, share, slurm_name, with_host_parameters
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

TOKEN = re.compile(r"\b[0-9a-f]{64}\b")
FAR = {"task_conf": {"train": {"queue": "far"}}}
SAYS = "import os; print(os.environ['FATE_FLOW_PARTY_RANK'], os.getcwd(), flush=True)"


def of_its_nodes(commands: Path) -> Path:
    """Where the nodes have their folders of workers."""
    return commands.with_name("far") / "scratch"


def left_on(scratch: Path) -> list[Path]:
    return [one for one in scratch.rglob("*") if one.parent != scratch or one.is_file()]


def test_the_ranks_of_an_array_run_there_and_slurm_shows_no_token(
    cluster: Cluster, slurm: SlurmCluster, commands: Path
) -> None:
    asked = [str(commands.with_name("far") / "python"), "-c", "import os, sys; os.listdir(sys.argv[1] + '/jobs')"]
    done = subprocess.run([*asked, str(cluster.host.home)], capture_output=True, text=True, check=False)
    assert "PermissionError: this host has no " in done.stderr, "its agents see the home"
    document = at_host(python(SAYS), here={"replicas": 2})
    job_id = cluster.run(with_host_parameters(document, task_cores=2, task_memory=200, **FAR))
    assert [row["f_engine"] for row in workers(cluster.host, job_id)] == ["far", "far"]
    scratch = of_its_nodes(commands)
    for rank in (0, 1):
        assert printed(cluster.host, job_id, worker=rank).startswith(f"{rank} {scratch}/")
    eventually(lambda: not left_on(scratch), lambda: left_on(scratch))
    listed = jobs_of(cluster.host, slurm, job_id)
    assert len({one.name for one in listed}) == 1, "one array"
    [number] = {one.number.partition("_")[0] for one in listed}
    said = [one.read_text() for one in cluster.host.home.glob(f"jobs/{job_id}/**/{OUTPUT}")]
    assert len(said) == 2
    for shown in (slurm.run("scontrol", "--details", "show", "job", number), *said):
        assert not TOKEN.search(shown), shown
    cluster.check_idle()


def test_a_component_that_exchanges_messages_runs_there(cluster: Cluster) -> None:
    job_id = cluster.run(with_host_parameters(toy(), task_conf={"toy_0": {"queue": "far"}}))
    assert [row["f_engine"] for row in workers(cluster.host, job_id)] == ["far"]
    cluster.check_idle()


def test_what_slurm_kills_with_its_agent_leaves_its_output_and_the_next_agent_removes_its_folder(
    cluster: Cluster, commands: Path
) -> None:
    """This Slurm has no control groups: it looks at the memory of all processes of a job, and kills them together."""
    code = "import time; kept = b'1' * 300_000_000; time.sleep(60)"
    job_id = cluster.submit(with_host_parameters(at_host(python(code)), task_memory=100, **FAR))
    cluster.wait(job_id, "failed")
    assert share(cluster, job_id)["f_reason"] == "worker_killed"
    scratch = of_its_nodes(commands)
    [output] = scratch.glob("*.out")
    assert "memory limit" in output.read_text()
    output.unlink()
    assert left_on(scratch) != []
    cluster.run(with_host_parameters(at_host(["/bin/sleep", "0"]), **FAR))
    eventually(lambda: not left_on(scratch), lambda: left_on(scratch))
    cluster.check_idle()


def test_what_slurm_does_to_it_is_the_reason_of_its_end(
    cluster: Cluster, slurm: SlurmCluster, tmp_path: Path
) -> None:
    def begun() -> tuple[str, str]:
        job_id = cluster.submit(with_host_parameters(at_host([*python(POLITE), str(tmp_path / "never")]), **FAR))
        eventually(lambda: is_here(cluster, job_id), lambda: cluster.host.post("job/explain", {"job_id": job_id}))
        return job_id, slurm_name(cluster, slurm, job_id)

    (late, name), (cancelled, other) = begun(), begun()
    number = slurm.run("squeue", "--noheader", f"--name={name}", "--format=%i")
    slurm.end_time_of(number)
    slurm.run("scancel", f"--name={other}")
    for job_id, status, reason in ((late, "timeout", "task_timeout"), (cancelled, "failed", "worker_killed")):
        cluster.wait(job_id, status)
        assert share(cluster, job_id)["f_reason"] == reason
        assert printed(cluster.host, job_id) == "here\nbye\n"


@pytest.mark.heavy
def test_one_that_makes_place_for_another_job_was_preempted(
    cluster: Cluster, slurm: SlurmCluster, tmp_path: Path
) -> None:
    job_id = cluster.submit(with_host_parameters(at_host([*python(POLITE), str(tmp_path / "never")]), **FAR))
    eventually(lambda: is_here(cluster, job_id), lambda: cluster.host.post("job/explain", {"job_id": job_id}))
    urgent = ["--partition=urgent", "--nodes=2", "--exclusive", "--job-name=urgent", f"--output={tmp_path}/other"]
    slurm.run("sbatch", *urgent, "--wrap=sleep 600")
    try:
        cluster.wait(job_id, "failed")
        assert share(cluster, job_id)["f_reason"] == "preempted"
    finally:
        slurm.run("scancel", "--name=urgent")


def test_a_stop_gives_it_its_grace_and_nothing_of_it_stays_there(
    cluster: Cluster, commands: Path, tmp_path: Path
) -> None:
    job_id = cluster.submit(with_host_parameters(at_host([*python(POLITE), str(tmp_path / "never")]), **FAR))
    eventually(lambda: is_here(cluster, job_id), lambda: cluster.host.post("job/explain", {"job_id": job_id}))
    cluster.guest.ask("job/stop", {"job_id": job_id})
    cluster.wait(job_id, "canceled")
    assert printed(cluster.host, job_id) == "here\nbye\n"
    assert len(names(cluster, job_id)) == 1
    scratch = of_its_nodes(commands)
    eventually(lambda: not left_on(scratch), lambda: left_on(scratch))
    cluster.check_idle()
