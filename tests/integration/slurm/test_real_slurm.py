"""Jobs of two parties, one of which runs its workers on Slurm: how they end, and what may die meanwhile."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from fate_flow.engines.local.worker import ARRIVED, RUNNER
from tests.kit.servers.party_servers import HOST, Cluster, toy
from tests.kit.servers.programs import PYTHON, printed, python, workers
from tests.kit.slurm.cluster import CONTROLLER, CORES, NODE, OTHER_NODE, SlurmCluster
from tests.kit.slurm.jobs import (
    ONCE_MORE,
    POLITE,
    at_host,
    names,
    running,
    share,
    slurm_name,
    with_host_parameters,
)
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)


def test_a_job_of_two_parties_succeeds_with_one_of_them_on_slurm(cluster: Cluster) -> None:
    job_id = cluster.run(toy())
    [row] = workers(cluster.host, job_id)
    assert row["f_engine"] == "cluster"
    home, [config] = cluster.host.home, cluster.host.home.glob(f"jobs/{job_id}/**/{row['f_worker_id']}/config.yaml")
    used = yaml.safe_load(config.read_text())["conf"]["federation"]["metadata"]["exchange"]["url"]
    assert used != json.loads((home / "run" / "server.json").read_text())["worker_url"], "over worker_listen"
    cluster.check_idle()


def test_workers_begin_on_nodes_with_their_labels_and_on_the_engine_of_their_queue(
    cluster: Cluster, slurm: SlurmCluster
) -> None:
    brief = ["/bin/sleep", "0"]
    second = cluster.submit(with_host_parameters(at_host(brief), labels=["second", "here"]))
    nowhere = cluster.submit(with_host_parameters(at_host(brief), labels=["gone"]))
    beside = cluster.submit(with_host_parameters(at_host(brief), task_conf={"train": {"queue": "beside"}}))
    cluster.wait(second, "success")
    listed = slurm.run("squeue", "--noheader", "--states=all", "--format=%j %N").splitlines()
    nodes = dict(line.split(maxsplit=1) for line in listed if " " in line.strip())
    assert nodes[slurm_name(cluster, slurm, second)] == OTHER_NODE
    cluster.wait(nowhere, "failed")
    assert "Invalid feature specification" in share(cluster, nowhere)["f_message"]
    cluster.wait(beside, "success")
    assert [row["f_engine"] for row in workers(cluster.host, beside)] == ["local"]
    cluster.check_idle()


def test_each_rank_has_the_exit_code_of_its_program_and_its_output(cluster: Cluster) -> None:
    code = "import os, sys; rank = int(os.environ['FATE_FLOW_PARTY_RANK']); print('rank', rank); sys.exit(3 * rank)"
    job_id = cluster.submit(at_host(python(code), here={"replicas": 2}))
    cluster.wait(job_id, "failed")
    assert share(cluster, job_id)["f_exit_code"] == 3
    found = {row["f_rank"]: row["f_exit_status"] for row in workers(cluster.host, job_id)}
    assert found[1] == "exit code 3"
    assert printed(cluster.host, job_id, worker=1) == "rank 1\n"


def test_a_stop_gives_the_program_its_grace(cluster: Cluster, tmp_path: Path) -> None:
    job_id = running(cluster, tmp_path / "never")
    cluster.guest.ask("job/stop", {"job_id": job_id})
    cluster.wait(job_id, "canceled")
    assert printed(cluster.host, job_id) == "here\nbye\n"
    cluster.check_idle()


@pytest.mark.heavy
def test_what_an_operator_cancels_in_slurm_was_killed_and_begins_again(
    cluster: Cluster, slurm: SlurmCluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    job_id = running(cluster, go, job={"retry": ONCE_MORE})
    slurm.run("scancel", f"--name={slurm_name(cluster, slurm, job_id)}")
    eventually(lambda: len(names(cluster, job_id)) == 2)
    go.touch()
    cluster.wait(job_id, "success")
    assert [row["f_reason"] for row in cluster.host.tasks(job_id, "train")] == ["worker_killed", "done"]


def test_a_worker_that_takes_too_much_memory_says_so(cluster: Cluster) -> None:
    code = "import time; kept = b'1' * 300_000_000; time.sleep(60)"
    job_id = cluster.submit(with_host_parameters(at_host(python(code)), task_memory=100))
    cluster.wait(job_id, "failed")
    assert share(cluster, job_id)["f_reason"] == "out_of_memory"


@pytest.mark.heavy
def test_a_worker_that_makes_place_for_another_job_was_preempted(
    cluster: Cluster, slurm: SlurmCluster, tmp_path: Path
) -> None:
    job_id = running(cluster, tmp_path / "never")
    other = ["--partition=urgent", "--nodes=2", "--exclusive", "--job-name=urgent", f"--output={tmp_path}/other"]
    slurm.run("sbatch", *other, "--wrap=sleep 600")
    cluster.wait(job_id, "failed")
    assert share(cluster, job_id)["f_reason"] == "preempted"
    slurm.run("scancel", "--name=urgent")


def test_every_party_sees_why_a_worker_waits_and_the_job_goes_back_to_the_queue(
    cluster: Cluster, slurm: SlurmCluster
) -> None:
    with slurm.drained():
        job_id = cluster.submit(with_host_parameters(toy(), longest_pending=10))

        def said() -> str:
            return str(cluster.guest.ask("job/explain", {"job_id": job_id})["wait_reason"])

        # In one look: at the next one it may be given up.
        eventually(lambda: re.match("host 10000: waits in Slurm (.* )?since ", said()), said)
        eventually(lambda: cluster.guest.job(job_id)["f_status"] == "waiting", said)
        assert cluster.host.tasks(job_id, "toy_0")[0]["f_reason"] == "not_placed"
    cluster.wait(job_id, "success")
    cluster.check_idle()


def test_the_ranks_of_a_gang_begin_when_the_last_of_them_has_a_place(
    cluster: Cluster, slurm: SlurmCluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    go.touch()
    with slurm.drained(OTHER_NODE):
        job_id = cluster.submit(with_host_parameters(
            at_host([*python(POLITE), str(go)], here={"replicas": 2}), task_cores=2 * CORES      # a node for each
        ))  # fmt: skip
        first = eventually(lambda: next(iter(cluster.host.home.glob(f"jobs/{job_id}/**/{ARRIVED}")), None))
        eventually(lambda: "PENDING" in [one.state for one in slurm.jobs() if "fate-flow" in one.name])
        assert not (first.parent / RUNNER).exists()
        assert {row["f_status"] for row in workers(cluster.host, job_id)} == {"created"}
    cluster.wait(job_id, "success")
    assert [printed(cluster.host, job_id, worker=rank) for rank in (0, 1)] == ["here\n"] * 2


@pytest.mark.heavy
def test_a_node_that_fails_is_an_interruption(cluster: Cluster, slurm: SlurmCluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job_id = running(cluster, go, job={"retry": ONCE_MORE})
    node = slurm.run("squeue", "--noheader", f"--name={slurm_name(cluster, slurm, job_id)}", "--format=%N")
    slurm.kill(node)
    slurm.set_nodes("down", node)
    eventually(lambda: len(names(cluster, job_id)) == 2)
    slurm.start(node)
    eventually(lambda: slurm.is_up(node))
    go.touch()
    cluster.wait(job_id, "success")
    assert [row["f_reason"] for row in cluster.host.tasks(job_id, "train")] == ["node_lost", "done"]


@pytest.mark.heavy
def test_the_limit_of_time_of_slurm_is_a_timeout(cluster: Cluster, slurm: SlurmCluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    rule = {**ONCE_MORE, "on_events": ["timeout"], "max_attempts": 2}
    job_id = running(cluster, go, job={"retry": rule})
    number = slurm.run("squeue", "--noheader", f"--name={slurm_name(cluster, slurm, job_id)}", "--format=%i")
    slurm.end_time_of(number)
    eventually(lambda: len(names(cluster, job_id)) == 2, lambda: cluster.host.tasks(job_id, "train"))
    go.touch()
    cluster.wait(job_id, "success")
    assert [row["f_reason"] for row in cluster.host.tasks(job_id, "train")] == ["task_timeout", "done"]
    assert printed(cluster.host, job_id, task_version=0) == "here\nbye\n"


def test_an_answer_of_sbatch_that_was_lost_runs_the_worker_once(cluster: Cluster, commands: Path) -> None:
    (commands / "lose").touch()
    job_id = cluster.run(toy())
    assert not (commands / "lose").exists()
    assert len(names(cluster, job_id)) == 1


@pytest.mark.heavy
def test_a_server_inside_an_allocation_runs_jobs_and_ends_when_slurm_asks_it_to(
    cluster: Cluster, slurm: SlurmCluster, tmp_path: Path
) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "slurm.md").read_text(encoding="utf-8")
    [script] = re.findall(r"^```sh\n(#!/bin/sh\n#SBATCH.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    conf, program = cluster.root / HOST / "conf" / "service_conf.yaml", Path(PYTHON).with_name("fate_flow")
    for there, here in (("/home/fed/serve.out", tmp_path / "out"), ("/home/fed/service_conf.yaml", conf)):
        assert there in script
        script = script.replace(there, f'"{here}"')
    serve = tmp_path / "serve.sh"
    serve.write_text(script.replace("exec fate_flow", f'exec "{program}"'))
    address = cluster.host.home / "run" / "server.json"
    cluster.kill(HOST)
    address.unlink(missing_ok=True)
    try:
        number = slurm.run("sbatch", "--parsable", "--partition=main", "--time=10", "--mem=1000", str(serve))
        eventually(address.exists, lambda: (tmp_path / "out").read_text())
        cluster.run(toy())
        slurm.run("scancel", "--batch", "--signal=TERM", number)
        eventually(lambda: slurm.states()["fate-flow-server"] in ("COMPLETED", "FAILED"), slurm.states)
        assert not address.exists(), "it has ended by itself"
    finally:
        slurm.run("scancel", "--name=fate-flow-server")
        cluster.start(HOST)
    cluster.check_idle()


@pytest.mark.heavy
def test_server_and_daemons_may_be_killed_while_a_worker_runs(
    cluster: Cluster, slurm: SlurmCluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    job_id = running(cluster, go)
    cluster.kill(HOST)
    for daemon in (CONTROLLER, NODE, OTHER_NODE):
        slurm.kill(daemon)
    cluster.start(HOST)
    for daemon in (NODE, OTHER_NODE):
        slurm.start(daemon)
    go.touch()
    cluster.wait(job_id, "success")      # the folder says so, while nobody answers for Slurm
    assert len(names(cluster, job_id)) == 1
    slurm.start(CONTROLLER)
    eventually(slurm.answers)
    # It may come back with a state from before the start; what is over is not left there to start again.
    [worker_id] = names(cluster, job_id)
    eventually(lambda: not is_open(slurm, worker_id), slurm.states)


def is_open(slurm: SlurmCluster, worker_id: str) -> bool:
    states = {name.rpartition("-")[2]: state for name, state in slurm.states().items()}
    return states.get(worker_id) in ("PENDING", "RUNNING")
