"""Jobs of two parties, one of which runs its workers on Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.kit.servers.party_servers import GUEST, HOST, Cluster, PartyServer, Row
from tests.kit.servers.programs import command, printed, python, workers
from tests.kit.slurm.cluster import SlurmCluster, SlurmJob
from tests.kit.waiting import eventually

BOTH = {"guest": [GUEST], "host": [HOST]}
POLITE = """
import os, signal, sys, time
def leave(*_):
    print("bye", flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, leave)
print("here", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""
"""Ends when a file is there."""
ONCE_MORE = {"max_interruptions": 3, "backoff": {"first": 0.1, "factor": 1, "longest": 0.1, "jitter": 0}}


def at_host(program: list[str], **parameters: Any) -> dict[str, Any]:
    """A job whose program runs at the host alone for longer than a moment."""
    said = {"command": program, **parameters.pop("here", {})}
    return command(BOTH, {"host": {"0": said}}, command=["/bin/sleep", "0"], **parameters)


def with_host_parameters(document: dict[str, Any], **parameters: Any) -> dict[str, Any]:
    document["job_runtime_conf"]["job_parameters"]["role"] = {"host": {"0": parameters}}
    return document


def running(cluster: Cluster, go: Path, **parameters: Any) -> str:
    """A job whose program runs on Slurm until the file is there."""
    job_id = cluster.submit(at_host([*python(POLITE), str(go)], **parameters))
    eventually(lambda: is_here(cluster, job_id), lambda: cluster.host.post("job/explain", {"job_id": job_id}))
    return job_id


def is_here(cluster: Cluster, job_id: str) -> bool:
    return any(row["f_status"] == "running" for row in workers(cluster.host, job_id)) and "here" in printed(
        cluster.host, job_id
    )


def share(cluster: Cluster, job_id: str) -> Row:
    return cluster.host.tasks(job_id, "train")[-1]


def names(cluster: Cluster, job_id: str) -> list[str]:
    """The ids of the workers of a job on Slurm, with which their names there end."""
    return [row["f_worker_id"] for row in workers(cluster.host, job_id)]


def slurm_name(cluster: Cluster, slurm: SlurmCluster, job_id: str) -> str:
    """The name that Slurm has for the newest worker of a job."""
    [name] = [name for name in slurm.states() if name.endswith(names(cluster, job_id)[-1])]
    return name


def jobs_of(party: PartyServer, slurm: SlurmCluster, job_id: str, version: int | None = None) -> list[SlurmJob]:
    """What Slurm remembers of the workers of a job, or of one version of its task."""
    place = str(party.home / "jobs" / job_id) + "/"
    task = "" if version is None else f"/{version}/task_executor/"
    return [one for one in slurm.jobs() if place in one.comment and task in one.comment]
