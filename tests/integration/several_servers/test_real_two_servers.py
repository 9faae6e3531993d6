"""A party with two servers on one database and one shared home: kill -9 of either at any moment loses nothing."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from decimal import Decimal

import pytest
import requests

from fate_flow.engines.local.worker import ProcessId
from tests.kit.servers.lending import a_root
from tests.kit.servers.mariadb import dropped_databases, mariadb_url
from tests.kit.servers.party_servers import (
    BASE_PORT,
    GUEST,
    HOST,
    READER,
    csv_text,
    job_of,
    summing,
    table_named,
    taking_from,
    toy,
)
from tests.kit.several_servers.two_servers import FIRST, SECOND, TwoServers, two_servers
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.timeout(900), pytest.mark.mariadb]

ROWS = 2_000
PEOPLE = {GUEST: range(ROWS), HOST: range(ROWS // 2, ROWS // 2 + ROWS)}
COMMON = set(PEOPLE[GUEST]) & set(PEOPLE[HOST])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoServers]:
    template = f"{mariadb_url()}/flow_{secrets.token_hex(4)}_{{party_id}}"
    root = a_root(tmp_path_factory)
    with dropped_databases(template, (GUEST, HOST)), two_servers(root, template, BASE_PORT + 200) as found:
        for party_id, numbers in PEOPLE.items():
            text = csv_text(["id", "x"], {f"p{number:06d}": [number] for number in numbers})
            found.cluster.parties[party_id].has_table("people", text)
        yield found


@pytest.fixture
def servers(running: TwoServers) -> Iterator[TwoServers]:
    running.address.prefers = 0
    running.run_everywhere()
    yield running
    running.run_everywhere()
    running.cluster.check_idle()


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
    """The worker is where it is until the end of the block."""
    os.killpg(worker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGCONT)


def submitted(servers: TwoServers) -> str:
    """Submit a job as a client that repeats a request without an answer, with the same request id."""
    document, request_id = toy(task_cores=1), secrets.token_hex(8)
    answer: dict[str, object] = {}

    def is_accepted() -> bool:
        with suppress(requests.RequestException, ValueError):       # the server died, or a proxy found none
            answer.update(servers.guest.submit(document, **{"Request-Id": request_id}))
        return answer.get("retcode") == 0

    eventually(is_accepted, lambda: str(answer))
    return str(answer["jobId"])


@pytest.mark.heavy
def test_a_job_survives_the_death_of_who_schedules_in_its_middle_and_the_next_one_that_of_the_other(
    servers: TwoServers, record_property: pytest.RecordProperty
) -> None:
    seen = []
    for _ in range(2):
        killed = servers.chosen
        seen.append(killed)
        job_id = servers.cluster.submit(intersecting())
        worker = servers.guest.worker_of(job_id, "intersection_0").worker
        with stopped(worker):       # the host's goes on, and its server sends to the one address
            servers.kill(killed)
            begun = time.monotonic()
            assert servers.chosen == servers.other(killed)
            record_property("seconds until the other server schedules", f"{time.monotonic() - begun:.1f}")
            assert worker.is_alive()
        servers.cluster.wait(job_id, "success")
        for party in (servers.guest, servers.host):
            assert party.metrics(job_id, "intersection_0")["intersect_count"] == str(len(COMMON))
            assert Decimal(party.metrics(job_id, "sum_0")["total"]) == 2 * sum(COMMON)
            assert [task["f_task_version"] for task in party.tasks(job_id)] == [0, 0, 0]      # nothing ran again
        [row] = servers.guest.rows(
            "SELECT * FROM t_worker WHERE f_job_id = ? AND f_component_name = 'intersection_0'", job_id
        )
        assert row["f_run_pid"] == worker.pid
        servers.start(killed)
    assert set(seen) == {FIRST, SECOND}


@pytest.mark.heavy
def test_jobs_that_wait_and_reserve_survive_the_deaths_of_both_servers_in_turn(servers: TwoServers) -> None:
    """More jobs than fit are submitted, run and wait meanwhile; each is accepted once, and succeeds at both parties."""
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(submitted, servers) for _ in range(16)]
        for count in (2, 8):
            eventually(lambda count=count: sum(one.done() for one in asked) >= count, f"{count} accepted jobs")
            killed = servers.chosen
            servers.kill(killed)
            assert servers.chosen == servers.other(killed)
            servers.start(killed)
        job_ids = [one.result() for one in asked]
    assert len(set(job_ids)) == 16
    for job_id in job_ids:
        servers.cluster.wait(job_id, "success")
    known = servers.guest.rows("SELECT f_job_id FROM t_job WHERE f_status <> 'success'")
    assert known == []


@pytest.mark.heavy
def test_a_server_that_stands_by_serves_requests_and_its_death_loses_nothing(servers: TwoServers) -> None:
    chosen = servers.chosen
    stands_by = servers.other(chosen)
    servers.address.prefers = servers.ports[stands_by]      # all requests of the host and of clients go there
    job_id = servers.cluster.submit(intersecting())
    worker = servers.guest.worker_of(job_id, "intersection_0").worker
    with stopped(worker):
        servers.kill(stands_by)
        assert worker.is_alive()
    servers.cluster.wait(job_id, "success")
    assert servers.chosen == chosen
    assert [task["f_task_version"] for task in servers.guest.tasks(job_id)] == [0, 0, 0]
