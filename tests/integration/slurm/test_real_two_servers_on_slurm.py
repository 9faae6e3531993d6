"""A party with two servers whose workers run on Slurm: kill -9 of either, and the other one adopts them."""

from __future__ import annotations

import secrets
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.engines.staged_host import python_that_opens_nothing_below
from tests.kit.servers.lending import a_root
from tests.kit.servers.mariadb import dropped_databases, mariadb_url
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, toy
from tests.kit.servers.programs import PYTHON, command, python, workers
from tests.kit.several_servers.two_servers import FIRST, SECOND, TwoServers, two_servers
from tests.kit.slurm.cluster import SlurmCluster, running_slurm
from tests.kit.slurm.jobs import ONCE_MORE
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.heavy, pytest.mark.mariadb, pytest.mark.timeout(900)]

RANKS = 3
NOTES_ITSELF = """
import os, sys, time
go, said = sys.argv[1:]
with open(said, "a") as file:
    print("begins", os.environ["FATE_FLOW_PARTY_RANK"], file=file)
while not os.path.exists(go):
    time.sleep(0.02)
with open(said, "a") as file:
    print("ends", os.environ["FATE_FLOW_PARTY_RANK"], file=file)
"""
EACH_ONCE = Counter(f"{what} {rank}" for what in ("begins", "ends") for rank in range(RANKS))


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    """One of its own: in that of the other tests, slurmctld was killed and gives numbers again, and Slurm cancels a job
    whose number a node knows from before. Its attempt is made again, rightly."""
    with running_slurm() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def commands(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of Slurm. If the file `hold` is there, the next sbatch makes `held`, and submits when `free` is
    there, also if who has called it is dead; then it makes `came`."""
    folder = slurm.commands_that_may_fail(tmp_path_factory.mktemp("commands") / "bin")
    hold, held, free, came = (shlex.quote(str(folder / name)) for name in ("hold", "held", "free", "came"))
    real = shlex.quote(str(slurm.bin / "sbatch"))
    late = f'touch {held}; until [ -e {free} ]; do sleep 0.05; done; {real} "$@"; touch {came}'
    (folder / "sbatch").write_text(
        f"#!/bin/sh\nif [ -e {hold} ]; then rm {hold}; exec setsid sh -c {shlex.quote(late)} sbatch \"$@\"; fi\n"
        f'exec {real} "$@"\n'
    )
    return folder


@pytest.fixture(scope="module")
def running(commands: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoServers]:
    engine = {
        "kind": "slurm", "default": True, "cores": 20, "memory": 4000, "commands": str(commands),
        "partition": "main", "poll_seconds": 0.3, "settle_seconds": 2, "longest_pending": 600,
    }  # fmt: skip
    root, away, apart = a_root(tmp_path_factory), commands.with_name("far"), commands.with_name("apart")
    (away / "scratch").mkdir(parents=True)
    far = {"shared_home": False, "scratch": str(away / "scratch"),
           "python": str(python_that_opens_nothing_below(root, away))}  # fmt: skip
    # Its nodes see the home, but no server of their own machine in it.
    on_another = {"python": str(python_that_opens_nothing_below(root / "shared" / "servers", apart))}
    beside = {"far": {**engine, "default": False, **far}, "apart": {**engine, "default": False, **on_another}}
    more: dict[str, Any] = {
        "engines": {"cluster": engine, **beside}, "queues": {name: {"engine": name} for name in beside},
        "commands": {"enabled": True, "allow": [PYTHON], "as_root": True},
        "limits": {"long_backoff": 1, "poll_interval": 1, "retry_wait": 1},
    }  # fmt: skip
    template = f"{mariadb_url()}/flow_{secrets.token_hex(4)}_{{party_id}}"
    with dropped_databases(template, (GUEST, HOST)), two_servers(root, template, BASE_PORT + 280, more) as found:
        yield found


@pytest.fixture
def servers(running: TwoServers) -> Iterator[TwoServers]:
    running.run_everywhere()
    yield running
    running.run_everywhere()
    running.cluster.check_idle()


class Job:
    """A job of three workers on Slurm, which note when they begin and end, and end when they may."""

    def __init__(self, servers: TwoServers, folder: Path, queue: str = "") -> None:
        self._servers, self._go, self._said = servers, folder / "go", folder / "said"
        program = [*python(NOTES_ITSELF), str(self._go), str(self._said)]
        job: dict[str, Any] = {"retry": ONCE_MORE, "task_cores": 1, "task_memory": 300}
        job |= {"queue": queue} if queue else {}
        self.id = servers.cluster.submit(command({"guest": [GUEST]}, command=program, replicas=RANKS, job=job))

    def notes(self) -> Counter[str]:
        return Counter(self._said.read_text().splitlines() if self._said.exists() else ())

    def runs(self) -> None:
        eventually(lambda: self.notes().total() == RANKS, lambda: f"{self.notes()} {self.explained()}")

    def explained(self) -> object:
        return self._servers.guest.post("job/explain", {"job_id": self.id})

    def may_end(self) -> None:
        self._go.touch()
        self._servers.cluster.wait(self.id, "success")

    def workers(self) -> int:
        return len(workers(self._servers.guest, self.id))

    def ends(self) -> list[tuple[str, str]]:
        return [(row["f_reason"], row["f_message"]) for row in workers(self._servers.guest, self.id)]


def open_in_slurm(slurm: SlurmCluster, job_id: str) -> int:
    """How many workers of a job wait or run there; a slurmctld that was killed may list what is over of others."""
    command = ("squeue", "--noheader", "--array", "--states=PENDING,RUNNING", "--format=%k")
    return sum(f"/jobs/{job_id}/" in comment for comment in slurm.run(*command).splitlines())


def kill_the_one_that_schedules(servers: TwoServers) -> str:
    killed = servers.chosen
    servers.kill(killed)
    assert servers.chosen == servers.other(killed)
    return killed


@pytest.mark.parametrize("queue", ["", "far"])
def test_workers_that_wait_in_slurm_and_workers_that_run_are_adopted_by_the_other_server(
    servers: TwoServers, slurm: SlurmCluster, tmp_path: Path, queue: str
) -> None:
    """Also those on nodes without the home, whose agents then speak with the other server at the same address."""
    with slurm.drained():
        job = Job(servers, tmp_path, queue)
        eventually(lambda: open_in_slurm(slurm, job.id) == RANKS, job.explained)
        killed = [kill_the_one_that_schedules(servers)]
        eventually(lambda: "waits in Slurm" in str(job.explained()), job.explained)
    job.runs()
    servers.start(killed[0])
    killed.append(kill_the_one_that_schedules(servers))
    job.may_end()
    assert set(killed) == {FIRST, SECOND}
    assert (job.notes(), job.workers()) == (EACH_ONCE, RANKS), job.ends()
    assert [task["f_task_version"] for task in servers.guest.tasks(job.id)] == [0]


@pytest.mark.parametrize("queue", ["apart", "far"])
def test_workers_on_nodes_exchange_messages_whichever_server_lives(servers: TwoServers, queue: str) -> None:
    document, killed = toy(), set()
    there = {"task_conf": {"toy_0": {"queue": queue}}}
    document["job_runtime_conf"]["job_parameters"]["role"] = {"guest": {"0": there}}
    for _ in range(2):
        last = kill_the_one_that_schedules(servers)
        job_id = servers.cluster.run(document)
        assert [row["f_engine"] for row in workers(servers.guest, job_id)] == [queue]
        servers.start(last)
        killed.add(last)
    assert killed == {FIRST, SECOND}


def test_a_submission_that_comes_after_the_death_of_its_server_runs_nothing_twice(
    servers: TwoServers, slurm: SlurmCluster, commands: Path, tmp_path: Path
) -> None:
    """The server dies while its sbatch stands still. The other one gives up this attempt, and makes another one. Then
    the first one comes to Slurm after all."""
    (commands / "hold").touch()
    job = Job(servers, tmp_path)
    eventually((commands / "held").exists, job.explained)
    kill_the_one_that_schedules(servers)
    job.runs()
    (commands / "free").touch()
    eventually((commands / "came").exists)
    eventually(lambda: open_in_slurm(slurm, job.id) == RANKS, slurm.states)
    job.may_end()
    assert job.notes() == EACH_ONCE
    assert job.workers() > RANKS, "the first attempt was given up"
    # The job ended by the word of the workers' folders; Slurm hears of an end from its node a moment later.
    eventually(lambda: open_in_slurm(slurm, job.id) == 0, slurm.states)
