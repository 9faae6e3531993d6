"""kill -9 of a server in the middle of a job: nothing is lost, workers live on, and the job ends as it should."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from decimal import Decimal

import psutil
import pytest

from fate_flow.cli.server import service
from fate_flow.engines.local.worker import ProcessId
from tests.kit.servers.party_servers import (
    BASE_PORT,
    CORES,
    GUEST,
    HOST,
    READER,
    Cluster,
    csv_text,
    job_of,
    running_cluster,
    summing,
    table_named,
    taking_from,
    toy,
)
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

ROWS = 2_000
PEOPLE = {GUEST: range(ROWS), HOST: range(ROWS // 2, ROWS // 2 + ROWS)}


@pytest.fixture
def with_people(cluster: Cluster) -> Cluster:
    """Tables that are long enough for their intersection to be met in the middle of it."""
    for party_id, numbers in PEOPLE.items():
        party = cluster.parties[party_id]
        info = party.ask("table/table_info", {"namespace": "it", "table_name": "people"})
        if not info["exist"]:
            party.has_table("people", csv_text(["id", "x"], {f"p{number:06d}": [number] for number in numbers}))
    return cluster


def intersecting() -> dict[str, object]:
    return job_of(
        {
            "reader_0": READER,
            "intersection_0": {
                "module": "Intersection", "input": taking_from("reader_0.raw"), "output": {"data": ["common"]}
            },
            "sum_0": summing("intersection_0.common"),
        },
        {"guest": [GUEST], "host": [HOST]},
        common={"reader_0": table_named("people"), "sum_0": {"column": "x"}},
    )


@contextmanager
def stopped(worker: ProcessId) -> Iterator[None]:
    """The worker is where it is until the end of the block, or until the deadline of a stop has come."""
    os.killpg(worker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGCONT)


@pytest.mark.heavy
@pytest.mark.parametrize("killed", [GUEST, HOST], ids=["the initiator", "a host"])
def test_a_job_survives_the_death_of_a_server_in_its_middle(with_people: Cluster, killed: str) -> None:
    cluster = with_people
    job_id = cluster.submit(intersecting())
    first = cluster.parties[killed].worker_of(job_id, "intersection_0").worker
    with stopped(first):      # the other one goes on, and finds nobody to send to for a while
        other = HOST if killed == GUEST else GUEST
        workers = {killed: first, other: cluster.parties[other].worker_of(job_id, "intersection_0").worker}
        cluster.kill(killed)
        assert all(worker.is_alive() for worker in workers.values())
        cluster.start(killed)
        assert all(worker.is_alive() for worker in workers.values())
    cluster.wait(job_id, "success")
    common = set(PEOPLE[GUEST]) & set(PEOPLE[HOST])
    for party_id, worker in workers.items():
        party = cluster.parties[party_id]
        assert party.metrics(job_id, "intersection_0")["intersect_count"] == str(len(common))
        assert Decimal(party.metrics(job_id, "sum_0")["total"]) == 2 * sum(common)
        [row] = party.rows("SELECT * FROM t_worker WHERE f_job_id = ? AND f_component_name = 'intersection_0'", job_id)
        assert row["f_run_pid"] == worker.pid
        assert [task["f_task_version"] for task in party.tasks(job_id)] == [0, 0, 0]


def test_a_job_survives_the_death_of_all_servers_at_once(with_people: Cluster) -> None:
    cluster = with_people
    job_id = cluster.submit(intersecting())
    workers = {}
    with ExitStack() as all_stopped:
        for name in (GUEST, HOST):      # each at once: meanwhile they could come to their end
            workers[name] = cluster.parties[name].worker_of(job_id, "intersection_0").worker
            all_stopped.enter_context(stopped(workers[name]))
        for party_id in (GUEST, HOST):
            cluster.kill(party_id)
        for party_id in (GUEST, HOST):
            cluster.start(party_id)
        assert all(worker.is_alive() for worker in workers.values())
    cluster.wait(job_id, "success")
    for party_id in workers:
        assert [task["f_task_version"] for task in cluster.parties[party_id].tasks(job_id)] == [0, 0, 0]


@pytest.mark.heavy
def test_a_stop_that_was_under_way_is_completed_after_the_death_of_all_servers(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    with cluster.held(GUEST):
        job_id = cluster.submit(toy())
        worker = cluster.host.worker_of(job_id, "toy_0").worker
        with stopped(worker):
            assert cluster.guest.post("job/stop", {"job_id": job_id})["retcode"] == 0
            cluster.host.wait(job_id, "stopping")
            for party_id in (GUEST, HOST):
                cluster.kill(party_id)
            for party_id in (GUEST, HOST):
                cluster.start(party_id)
        rows = cluster.wait(job_id, "canceled")
    assert {row["f_reason"] for row in rows.values()} == {"stopped_by_user"}
    assert rows[GUEST]["f_unconfirmed_parties"] is None
    assert not worker.is_alive()


def test_a_worker_that_ends_while_its_server_is_dead_is_not_forgotten(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    with cluster.held(HOST):
        job_id = cluster.submit(toy())
        worker = cluster.guest.worker_of(job_id, "toy_0").worker
        cluster.kill(GUEST)
        os.killpg(worker.pid, signal.SIGKILL)
        eventually(lambda: not worker.is_alive(), "its death")
        cluster.start(GUEST)
        rows = cluster.wait(job_id, "failed")
    assert {row["f_reason"] for row in rows.values()} == {"task_failed"}
    assert "signal 9" in rows[GUEST]["f_message"]


def test_a_table_that_a_killed_worker_left_unfinished_goes_at_the_next_start(on_sqlite: Cluster) -> None:
    folder = on_sqlite.host.home / "data" / "left"
    folder.mkdir(exist_ok=True)
    abandoned, written = folder / ".0123456789abcdef.tmp", folder / ".fedcba9876543210.tmp"
    abandoned.touch()
    with written.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        on_sqlite.kill(HOST)
        on_sqlite.start(HOST)
        assert (abandoned.exists(), written.exists()) == (False, True)
    written.unlink()


def test_a_waiting_job_is_still_in_the_queue_of_a_server_that_was_killed(cluster: Cluster) -> None:
    with cluster.held(HOST):
        first = cluster.submit(toy(task_cores=12))
        cluster.wait(first, "running")
        second = cluster.submit(toy(task_cores=12))
        eventually(lambda: cluster.guest.job(second)["f_wait_reason"], "its refusal")
        cluster.kill(GUEST)
        cluster.start(GUEST)
        assert cluster.guest.job(second)["f_status"] == "waiting"
    for job_id in (first, second):
        cluster.wait(job_id, "success")


def test_a_job_is_stopped_although_a_party_is_down_and_that_party_learns_of_it(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    with cluster.held(GUEST):
        job_id = cluster.submit(toy())
        worker = cluster.host.worker_of(job_id, "toy_0").worker
        cluster.kill(HOST)
        assert cluster.guest.post("job/stop", {"job_id": job_id})["retcode"] == 0
        assert worker.is_alive()
        cluster.start(HOST)
        assert {row["f_reason"] for row in cluster.wait(job_id, "canceled").values()} == {"stopped_by_user"}
        eventually(lambda: not worker.is_alive(), "the end of its worker")


def test_a_process_of_a_server_that_dies_is_replaced(on_sqlite: Cluster) -> None:
    running = service.find(on_sqlite.guest.home)
    assert running is not None
    for child in psutil.Process(running.pid).children():
        with suppress(psutil.NoSuchProcess):
            child.kill()
    job_id = eventually(lambda: submitted(on_sqlite), "a server that takes jobs")
    on_sqlite.wait(job_id, "success")
    again = service.find(on_sqlite.guest.home)
    assert again is not None
    assert again.supervisor == running.supervisor


def submitted(cluster: Cluster) -> str:
    """The id of a job, nothing while the server cannot take one."""
    try:
        answer = cluster.guest.submit(toy())
    except OSError:      # what `requests` raises is one
        return ""
    return str(answer["jobId"]) if answer["retcode"] == 0 else ""


# ---------------------------------------------------------------------- a server that stays dead


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two parties that give each other up soon, but not for the pauses of a busy machine."""
    limits = {
        "poll_interval": 0.3, "heartbeat_interval": 0.3, "party_silence": 8, "initiator_silence": 16, "drain_timeout": 1
    }
    overlays = {party_id: {"limits": limits} for party_id in (GUEST, HOST)}
    root = tmp_path_factory.mktemp("impatient")
    with running_cluster(root, (GUEST, HOST), base_port=BASE_PORT + 30, overlays=overlays) as cluster:
        yield cluster


@pytest.mark.heavy
def test_a_host_that_stays_dead_ends_the_job_and_finds_it_ended_when_it_is_back(impatient: Cluster) -> None:
    cluster = impatient
    with cluster.held(GUEST):
        job_id = cluster.submit(toy())
        worker = cluster.host.worker_of(job_id, "toy_0").worker
        cluster.kill(HOST)
        row = cluster.guest.wait(job_id, "failed")
        assert (row["f_reason"], row["f_unconfirmed_parties"]) == ("party_unreachable", '["host 10000"]')
        assert "party 10000 has not answered" in row["f_message"]
        assert cluster.guest.free_cores == CORES
        cluster.start(HOST)
        cluster.host.wait(job_id, "failed")
    cluster.check_idle()
    assert not worker.is_alive()


@pytest.mark.heavy
def test_an_initiator_that_stays_dead_loses_its_job_at_the_host(impatient: Cluster) -> None:
    cluster = impatient
    with cluster.held(GUEST):
        job_id = cluster.submit(toy())
        worker = cluster.host.worker_of(job_id, "toy_0").worker
        cluster.kill(GUEST)
        row = cluster.host.wait(job_id, "failed")
        assert (row["f_reason"], row["f_resource_in_use"]) == ("initiator_lost", 0)
        assert "party 9999 was silent for 16 s" in row["f_message"]
        assert cluster.host.free_cores == CORES
        eventually(lambda: not worker.is_alive(), "the end of its worker")
    cluster.start(GUEST)
    assert cluster.wait(job_id, "failed")[GUEST]["f_reason"] in (
        "initiator_lost", "party_refused", "task_failed")  # fmt: skip
    cluster.check_idle()
