"""A job that is over begins again over real servers: from what failed, from a component, by force, after a cancel."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.servers.party_servers import (
    GUEST,
    HOST,
    READER,
    Cluster,
    csv_text,
    job_of,
    summing,
    table_named,
    toy,
)
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)


def reading_and_summing() -> dict[str, Any]:
    return job_of(
        {"reader_0": READER, "sum_0": summing("reader_0.raw")}, {"guest": [GUEST], "host": [HOST]},
        common={"reader_0": table_named("again"), "sum_0": {"column": "y"}},
    )


def versions(cluster: Cluster, job_id: str, component: str) -> list[list[tuple[int, str]]]:
    """At each party: the versions of a component with their statuses."""
    return [
        [(row["f_task_version"], row["f_status"]) for row in party.tasks(job_id, component)]
        for party in (cluster.guest, cluster.host)
    ]


def runs(cluster: Cluster, job_id: str) -> list[tuple[int, str]]:
    return [(row["f_run"], row["f_status"]) for row in (party.job(job_id) for party in (cluster.guest, cluster.host))]


def test_a_rerun_keeps_what_succeeded_and_begins_where_it_is_told(cluster: Cluster) -> None:
    parties = (cluster.guest, cluster.host)
    for party in parties:
        party.has_table("again", csv_text(["id", "y"], {"a": ["none"]}))
    job_id = cluster.submit(reading_and_summing())
    cluster.wait(job_id, "failed")
    for party in parties:
        party.has_table("again", csv_text(["id", "y"], {"a": [20]}))       # which was no number
    printed = cluster.guest.flow("job", "rerun", "-j", job_id).document
    assert printed == {"retcode": 0, "retmsg": "rerun job success"}
    cluster.wait(job_id, "success")
    assert versions(cluster, job_id, "reader_0") == [[(0, "success")]] * 2
    assert versions(cluster, job_id, "sum_0") == [[(0, "failed"), (1, "success")]] * 2
    assert cluster.guest.metrics(job_id, "sum_0")["total"] == "40.00"
    ids = [{row["f_incarnation"] for row in party.tasks(job_id, "sum_0")} for party in parties]
    assert (ids[0], len(ids[0])) == (ids[1], 2)

    done = cluster.guest.flow("job", "rerun", "-j", job_id, code=1).document
    assert (done["retcode"], "no task to rerun" in done["retmsg"]) == (100, True)
    assert runs(cluster, job_id) == [(1, "success")] * 2
    cluster.guest.flow("job", "rerun", "-j", job_id, "-cpn", "sum_0")
    cluster.wait(job_id, "success")
    assert [[number for number, _ in found] for found in versions(cluster, job_id, "reader_0")] == [[0], [0]]
    cluster.guest.flow("job", "rerun", "-j", job_id, "--force")
    cluster.wait(job_id, "success")
    assert versions(cluster, job_id, "reader_0") == [[(0, "success"), (1, "success")]] * 2
    assert [[number for number, _ in found] for found in versions(cluster, job_id, "sum_0")] == [[0, 1, 2, 3]] * 2
    assert runs(cluster, job_id) == [(3, "success")] * 2
    schedule = "\n".join(cluster.guest.log(job_id, "fate_flow_schedule.log"))
    for line in (
        f"try to rerun job {job_id} on initiator guest {GUEST}",
        f"task {job_id}_reader_0 0 on host {HOST} is success, pass rerun",
        f"job {job_id} has been finished, set waiting to rerun",
        f"create task {job_id}_sum_0 new version 1 successfully",
    ):
        assert line in schedule
    cluster.check_idle()


def test_a_canceled_job_is_resumed_at_its_initiator(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    with cluster.held(HOST):
        job_id = cluster.submit(toy())
        cluster.guest.worker_of(job_id, "toy_0")
        busy = cluster.guest.flow("job", "rerun", "-j", job_id, code=1).document
        assert "only a job that is over can be rerun" in busy["retmsg"]
        cluster.guest.flow("job", "stop", "-j", job_id)
        cluster.wait(job_id, "canceled")
    elsewhere = cluster.host.flow("job", "resume", "-j", job_id, code=1).document
    assert elsewhere["retmsg"].endswith(f"job {job_id} at party {GUEST}, its initiator")
    printed = cluster.guest.flow("job", "resume", "-j", job_id).document
    assert printed == {"retcode": 0, "retmsg": "resume job success"}
    cluster.wait(job_id, "success")
    assert cluster.guest.metrics(job_id, "toy_0")["secure_sum"] == "2000"
    assert versions(cluster, job_id, "toy_0") == [[(0, "canceled"), (1, "success")]] * 2
    over = cluster.guest.flow("job", "resume", "-j", job_id, code=1).document
    assert over["retmsg"] == f"job {job_id} is success: only a job that is canceled can be resumed"
    unknown = cluster.guest.post("job/rerun", {"job_id": "202601011200000000000"})
    assert (unknown["retcode"], unknown["retmsg"]) == (102, "can not found job")
    cluster.check_idle()


def test_a_rerun_at_another_party_is_asked_for_at_the_initiator(on_sqlite: Cluster) -> None:
    """As a FATE server does for its client."""
    cluster = on_sqlite
    job_id = cluster.run(toy())
    done = cluster.host.flow("job", "rerun", "-j", job_id, "-cpn", "nothing", code=1).document
    assert (done["retcode"], "nothing" in done["retmsg"]) == (101, True)
    done = cluster.host.flow("job", "rerun", "-j", job_id, "--force").document
    assert done == {"retcode": 0, "retmsg": "rerun job success"}
    eventually(lambda: runs(cluster, job_id) == [(1, "success")] * 2, "the rerun to end everywhere")
    cluster.kill(GUEST)
    away = cluster.host.flow("job", "rerun", "-j", job_id, "--force", code=1).document
    cluster.start(GUEST)
    assert (away["retcode"], GUEST in away["retmsg"]) == (104, True)
    assert runs(cluster, job_id) == [(1, "success")] * 2


def test_a_party_of_the_job_may_ask_its_initiator_and_a_stranger_may_not(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    job_id = cluster.run(toy())
    path = f"initiator/{job_id}/guest/{GUEST}/rerun"
    for caller, retcode in (("10001", 108), (HOST, 0)):
        said = cluster.guest.from_party(caller, path, {"job_id": job_id, "force": True})
        assert said["retcode"] == retcode, said
    eventually(lambda: runs(cluster, job_id) == [(1, "success")] * 2, lambda: runs(cluster, job_id))
