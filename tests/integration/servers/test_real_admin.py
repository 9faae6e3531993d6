"""`fate_flow admin` beside running servers, and cores that the configuration takes while jobs hold them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import yaml

from tests.kit.servers.party_servers import CORES, GUEST, HOST, Cluster, PartyServer, Printed, toy
from tests.kit.servers.warm import WARM
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)


def admin(party: PartyServer, *arguments: str, code: int = 0) -> Printed:
    """`fate_flow admin`, as the operator of this party types it."""
    conf = party.home / "conf" / "service_conf.yaml"
    done = WARM.run("fate_flow", "admin", *arguments, "-c", str(conf))
    assert done.code == code, f"exit code {done.code}\n{done.out}\n{done.err}"
    assert "Traceback" not in done.err
    return Printed(done.out, done.err)


def running(cluster: Cluster) -> str:
    """The id of a job that runs at both parties; to be used while the host is held."""
    job_id = cluster.submit(toy())
    cluster.wait(job_id, "running")
    cluster.guest.worker_of(job_id, "toy_0")
    eventually(lambda: cluster.host.rows("SELECT * FROM t_worker WHERE f_job_id = ?", job_id), "the host's worker")
    return job_id


@pytest.mark.heavy
def test_who_holds_what_and_its_release_by_force(cluster: Cluster) -> None:
    host, guest = cluster.host, cluster.guest
    with cluster.held(HOST):
        job_id = running(cluster)
        [held] = admin(host, "held", "--json").document["held"]
        assert (held["job_id"], held["role"], held["party_id"]) == (job_id, "host", HOST)
        assert (held["initiator"], held["status"]) == (f"guest {GUEST}", "running")
        assert held["cores"] == CORES - host.free_cores
        assert job_id in admin(host, "held").out

        seat = ("release", job_id, "--role", "host", "--party-id", HOST, "--reason", "taken for maintenance")
        refused = admin(host, *seat, code=1)
        assert "of toy_0 (pid not known yet) runs" in refused.err
        assert host.free_cores < CORES
        released = admin(host, *seat, "--stop")
        assert "cores and 0 MB of memory were released" in released.out
        assert host.free_cores == CORES
        row = host.job(job_id)
        assert (row["f_status"], row["f_reason"]) == ("failed", "released")
        assert row["f_message"] == "released by an operator: taken for maintenance"
        for log in ("fate_flow_schedule.log", "fate_flow_audit.log"):
            assert "taken for maintenance" in "\n".join(host.log(job_id, log)), log
            assert "taken for maintenance" in "\n".join(host.log("fate_flow", log)), log
        assert "holds nothing" in admin(host, *seat, code=1).err
        # Its initiator hears of it by the report of the task, or by the answer to its next heartbeat.
        assert guest.wait(job_id, "failed")["f_reason"] in ("task_failed", "party_refused")
    assert admin(guest, "held", "--json").document["held"] == []


def test_a_job_is_cleaned_away_by_hand_once_it_is_over(cluster: Cluster) -> None:
    job_id, other = cluster.run(toy()), cluster.run(toy())
    cluster.check_idle()
    guest = cluster.guest
    assert admin(guest, "clean", "--job", job_id, "--dry-run").out.splitlines() == [
        f"would remove job {job_id}", f"would remove logs of job {job_id}"
    ]
    assert guest.job(job_id)
    admin(guest, "clean", "--job", job_id)
    for table in ("t_job", "t_seat", "t_task", "t_worker", "t_tracking_metric", "t_submission"):
        assert guest.rows(f"SELECT * FROM {table} WHERE f_job_id = ?", job_id) == [], table
        assert guest.rows(f"SELECT * FROM {table} WHERE f_job_id = ?", other), table
    for folder in ("jobs", "logs"):
        assert not (guest.home / folder / job_id).exists()
        assert (guest.home / folder / other).exists()
    assert "is not known here" in admin(guest, "clean", "--job", job_id, code=1).err
    assert cluster.host.job(job_id), "every party keeps its own"


def test_a_job_that_runs_is_not_cleaned_away(on_sqlite: Cluster) -> None:
    with on_sqlite.held(HOST):
        job_id = running(on_sqlite)
        assert "still goes on" in admin(on_sqlite.host, "clean", "--job", job_id, code=1).err
        on_sqlite.guest.ask("job/stop", {"job_id": job_id})
        on_sqlite.wait(job_id, "canceled")


def test_wrong_usage_is_told_in_a_line(on_sqlite: Cluster) -> None:
    seat = ("--role", "host", "--party-id", HOST)
    assert "JOB: " in admin(on_sqlite.host, "release", "x/../y", *seat, "--reason", "r", code=1).err
    assert "--reason" in admin(on_sqlite.host, "release", "20260101120000000000", *seat, code=2).err


@contextmanager
def configured(cluster: Cluster, **sections: Any) -> Iterator[None]:
    """The host starts again with these sections, too; in the end with those it had. Other tests borrow it."""
    overlay = cluster.host.home / "conf" / "local.service_conf.yaml"
    before = overlay.read_text(encoding="utf-8")
    overlay.write_text(yaml.safe_dump({**yaml.safe_load(before), **sections}), encoding="utf-8")
    restart(cluster)
    try:
        yield
    finally:
        overlay.write_text(before, encoding="utf-8")
        restart(cluster)


def restart(cluster: Cluster) -> None:
    cluster.kill(HOST)
    cluster.start(HOST)


def books(party: PartyServer) -> dict[str, int]:
    [engine] = party.rows("SELECT f_cores AS total, f_remaining_cores AS remaining FROM t_engine_registry")
    [held] = party.rows("SELECT COALESCE(SUM(f_cores), 0) AS held FROM t_job WHERE f_resource_in_use = 1")
    return {**engine, "in use": int(held["held"])}


def test_cores_that_shrink_while_they_are_in_use_are_given_up_as_jobs_return_theirs(on_sqlite: Cluster) -> None:
    cluster, host = on_sqlite, on_sqlite.host
    with ExitStack() as held:      # of the guest: the host's spawner does not stay held when its server starts again
        held.enter_context(cluster.held(GUEST))
        job_id = cluster.submit(toy())
        cluster.wait(job_id, "running")
        host.worker_of(job_id, "toy_0")
        taken = CORES - host.free_cores
        with configured(cluster, fate_on_standalone={"standalone": {"cores_per_node": taken - 1}}):
            assert books(host) == {"total": taken - 1, "remaining": -1, "in use": taken}
            held.close()
            cluster.wait(job_id)
            eventually(lambda: books(host)["in use"] == 0, lambda: books(host))
            assert books(host) == {"total": taken - 1, "remaining": taken - 1, "in use": 0}
    assert books(host) == {"total": CORES, "remaining": CORES, "in use": 0}


@pytest.mark.heavy
def test_what_is_over_goes_by_itself_and_so_does_what_a_crash_left(on_sqlite: Cluster) -> None:
    cluster, host = on_sqlite, on_sqlite.host
    over = cluster.run(toy())
    cluster.check_idle()
    lost = host.home / "jobs" / "2026010112000000000001234"
    lost.mkdir()
    (lost / "job_dsl.json").write_text("{}")
    with cluster.held(GUEST):
        job_id = cluster.submit(toy())
        cluster.wait(job_id, "running")
        confs = sorted((host.home / "jobs" / job_id).glob("*.json"))
        assert confs
        for path in confs:
            path.unlink()
        with configured(cluster, retention={"finished_jobs_days": 1e-6, "job_logs_days": 1e-6}):
            eventually(lambda: not host.rows("SELECT * FROM t_job WHERE f_job_id = ?", over), f"job {over} is gone")
            eventually(lambda: not (host.home / "jobs" / over).exists(), f"the folder of job {over} is gone")
            eventually(lambda: not lost.exists(), "the folder of no job is gone")
            eventually(lambda: all(path.exists() for path in confs), "files of the unfinished job are there again")
            assert host.job(job_id)["f_status"] == "running"
            assert (host.home / "logs" / job_id).exists()
            for piece in (f"job {over}", f"folder of no job {lost.name}"):      # logged after it is gone
                said = f"tidied up: {piece}"
                eventually(lambda text=said: text in "\n".join(host.log("fate_flow", "fate_flow_detect.log")), said)
    cluster.wait(job_id)
