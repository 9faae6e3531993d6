"""Jobs that wait for cores, and jobs that are ended early: by a user, by a limit, by what went wrong in a worker."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest

from tests.kit.servers.lending import LIMITS
from tests.kit.servers.party_servers import (
    CORES,
    GUEST,
    HOST,
    OTHER,
    READER,
    Cluster,
    PartyServer,
    csv_text,
    job_of,
    summing,
    table_named,
    toy,
)
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

Document = dict[str, Any]
WOKEN_WITHIN = LIMITS[GUEST]["limits"]["poll_interval"] * 1000 / 2       # milliseconds, of a busy machine


def wanting(cores: int, **parameters: Any) -> Document:
    """A toy that takes two cores at the guest and so many at the host."""
    document = toy(**parameters)
    document["job_runtime_conf"]["job_parameters"]["role"] = {"host": {"0": {"task_cores": cores}}}
    return document


def wait_reason(party: PartyServer, job_id: str) -> str:
    [row] = party.ask("job/query", {"job_id": job_id})
    return str(row["f_wait_reason"])


def started(cluster: Cluster, document: Document) -> str:
    """The id of a job whose guest has its worker; to be used while the host is held."""
    job_id = cluster.submit(document)
    cluster.wait(job_id, "running")
    cluster.guest.worker_of(job_id, "toy_0")
    return job_id


def waiting(cluster: Cluster, document: Document) -> str:
    """The id of a job that has been refused cores."""
    job_id = cluster.submit(document)
    eventually(lambda: " cores free" in wait_reason(cluster.guest, job_id), lambda: wait_reason(cluster.guest, job_id))
    return job_id


def assert_ended(cluster: Cluster, job_id: str, status: str, reason: str) -> None:
    for party_id, row in cluster.wait(job_id, status).items():
        assert (row["f_reason"], row["f_resource_in_use"]) == (reason, 0), party_id
        assert {task["f_party_status"] for task in cluster.parties[party_id].tasks(job_id)} <= {
            status, "canceled", "success"
        }
    cluster.check_idle()


# ---------------------------------------------------------------------- the queue


def test_a_job_without_cores_says_where_what_and_its_place_and_starts_when_they_are_free(cluster: Cluster) -> None:
    with cluster.held(HOST):
        first = started(cluster, wanting(12))
        second, third = waiting(cluster, wanting(12)), waiting(cluster, wanting(10))
        why = "host 10000 has 8 of 20 cores free, {} asked; {} in the queue"
        assert wait_reason(cluster.guest, second) == why.format(12, "1st")
        assert wait_reason(cluster.guest, third) == why.format(10, "2nd")
        assert "waits for its initiator, guest 9999" in wait_reason(cluster.host, second)

        explained = cluster.guest.ask("job/explain", {"job_id": third})
        assert (explained["wait_reason"], explained["place_in_queue"]) == (why.format(10, "2nd"), 2)
        [host] = [seat for seat in explained["parties"] if seat["party_id"] == HOST]
        assert (host["asked_cores"], host["free_cores"]) == (10, 8)
        described = cluster.guest.flow("job", "explain", "--table", "-j", second).out
        assert f"why it waits: {why.format(12, '1st')}" in described
        holders = cluster.host.ask("resource/query", {})["use_resource_job"]
        held = {"core": 12, "memory": 0, "gpus": 0, "engine": "STANDALONE"}
        assert holders == [{"job_id": first, "role": "host", "party_id": HOST, **held}]
        assert cluster.host.free_cores == 8
        # A reservation round that is under way, and will be refused, may have reserved something.
        eventually(lambda: cluster.guest.free_cores == 18, "what a refused reservation round had reserved went back")

    ended = cluster.wait(first, "success")[GUEST]["f_end_time"]
    begun = cluster.wait(second, "success")[GUEST]["f_start_time"]
    assert begun - ended < WOKEN_WITHIN, "woken by the end, not by the poll"
    assert cluster.wait(third, "success")[GUEST]["f_start_time"] >= begun


def test_a_job_passes_a_waiting_one_that_lacks_what_it_does_not_need(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    with cluster.held(HOST):
        first = started(cluster, wanting(12))
        second = waiting(cluster, wanting(12))
        passing = cluster.run(toy(host=OTHER))
        assert cluster.guest.job(second)["f_status"] == "waiting"
    for job_id in (first, second, passing):
        cluster.wait(job_id, "success")


def test_a_job_starts_when_another_initiator_s_job_frees_this_party_s_cores(on_sqlite: Cluster) -> None:
    """The end is heard by a request handler of the host; its own queue must not wait for the poll."""
    cluster = on_sqlite
    with cluster.held(OTHER):
        first = started(cluster, wanting(12, host=OTHER))
        document = job_of({"toy_0": {"module": "SecureAddExample"}}, {"guest": [OTHER], "host": [HOST]},
                          parameters={"task_cores": 12})
        other = cluster.parties[OTHER]
        second = cluster.submit(document, at=OTHER)
        eventually(lambda: "guest 10001 has 8 of 20 cores free" in wait_reason(other, second), "its reservation round")
    freed = cluster.wait(first, "success")[OTHER]["f_end_time"]
    begun = other.wait(second, "success")["f_start_time"]
    cluster.host.wait(second, "success")
    assert begun - freed < WOKEN_WITHIN


def test_two_initiators_that_want_each_other_s_cores_both_finish(cluster: Cluster) -> None:
    roles = {GUEST: HOST, HOST: GUEST}
    documents = {
        guest: job_of({"toy_0": {"module": "SecureAddExample"}}, {"guest": [guest], "host": [host]},
                      parameters={"task_cores": 12})
        for guest, host in roles.items()
    }
    job_ids = [(guest, cluster.submit(documents[guest], at=guest)) for _ in range(2) for guest in roles]
    for guest, job_id in job_ids:
        cluster.parties[guest].wait(job_id, "success")
        cluster.parties[roles[guest]].wait(job_id, "success")


def test_cleaning_the_queue_cancels_what_waits_and_nothing_else(cluster: Cluster) -> None:
    with cluster.held(HOST):
        first = started(cluster, wanting(12))
        queued = [waiting(cluster, wanting(12)) for _ in range(2)]
        document = cluster.guest.flow("queue", "clean").document
        assert document["data"] == dict.fromkeys(queued, 0)
        for job_id in queued:
            rows = cluster.wait(job_id, "canceled")
            assert {row["f_reason"] for row in rows.values()} == {"queue_cleaned"}
        assert cluster.guest.job(first)["f_status"] == "running"
    cluster.wait(first, "success")


# ---------------------------------------------------------------------- stopped by a user


@pytest.mark.parametrize("at", [GUEST, HOST])
def test_a_running_job_is_stopped_from_any_of_its_parties(cluster: Cluster, at: str) -> None:
    with cluster.held(HOST):
        job_id = started(cluster, toy())
        worker = cluster.guest.worker_of(job_id, "toy_0").worker
        printed = cluster.parties[at].flow("job", "stop", "-j", job_id).document
        assert printed["retmsg"] == "stop job on this party success; stop job on all party success"
        assert_ended(cluster, job_id, "canceled", "stopped_by_user")
        assert not worker.is_alive()


@pytest.mark.parametrize("at", [GUEST, HOST])
def test_a_waiting_job_is_stopped_from_any_of_its_parties(on_sqlite: Cluster, at: str) -> None:
    cluster = on_sqlite
    with cluster.held(HOST):
        first = started(cluster, wanting(12))
        second = waiting(cluster, wanting(12))
        assert cluster.parties[at].post("job/stop", {"job_id": second})["retcode"] == 0
        assert {row["f_reason"] for row in cluster.wait(second, "canceled").values()} == {"stopped_by_user"}
        assert cluster.host.rows("SELECT * FROM t_worker WHERE f_job_id = ?", second) == []
    cluster.wait(first, "success")


def test_a_job_that_is_over_stays_as_it_ended_when_it_is_stopped(on_sqlite: Cluster) -> None:
    job_id = on_sqlite.run(toy())
    for party in (on_sqlite.guest, on_sqlite.host):
        party.post("job/stop", {"job_id": job_id})
    on_sqlite.check_idle()
    assert {row["f_status"] for row in on_sqlite.wait(job_id).values()} == {"success"}


def test_a_job_that_nobody_knows_cannot_be_stopped(on_sqlite: Cluster) -> None:
    answer = on_sqlite.guest.post("job/stop", {"job_id": "202601011200000000000"})
    assert (answer["retcode"], answer["retmsg"]) == (102, "can not found job")


# ---------------------------------------------------------------------- limits


def test_a_job_that_runs_longer_than_it_may_ends_as_timeout(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    with cluster.held(HOST):
        job_id = started(cluster, toy(timeout=3600))
        cluster.guest.write("UPDATE t_job SET f_since = f_since - 3600000 WHERE f_job_id = ?", job_id)
        assert_ended(cluster, job_id, "timeout", "job_timeout")
    assert "took longer than 3600 s in all" in cluster.guest.job(job_id)["f_message"]


def test_a_job_that_waits_longer_than_it_may_take_ends_at_all_parties_and_never_starts(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    with cluster.held(HOST):
        first = started(cluster, wanting(12))
        late = cluster.submit(wanting(12, timeout=3))
        for row in cluster.wait(late, "timeout").values():
            assert (row["f_reason"], row["f_start_time"]) == ("job_timeout", None)
        assert "waited until its 3 s in all were over: " in cluster.guest.job(late)["f_message"]
        for party in (cluster.guest, cluster.host):
            assert party.rows("SELECT * FROM t_worker WHERE f_job_id = ?", late) == []
        assert cluster.guest.job(first)["f_status"] == "running"
    cluster.wait(first, "success")


def test_a_task_that_runs_longer_than_it_may_ends_its_job_as_timeout(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    with cluster.held(HOST):
        job_id = cluster.submit(toy(task_timeout=1))
        worker = cluster.guest.worker_of(job_id, "toy_0").worker
        assert_ended(cluster, job_id, "timeout", "task_timeout")
        assert not worker.is_alive()
    [task] = cluster.guest.tasks(job_id)
    assert (task["f_party_status"], task["f_reason"]) == ("timeout", "task_timeout")
    assert "toy_0 ran out of time" in cluster.guest.job(job_id)["f_message"]


def test_a_party_may_have_a_shorter_limit_than_the_initiator(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    document = toy(task_timeout=60)
    document["job_runtime_conf"]["job_parameters"]["role"] = {"host": {"0": {"task_timeout": 1}}}
    with cluster.held(GUEST):
        job_id = cluster.submit(document)
        cluster.host.worker_of(job_id, "toy_0")
        assert_ended(cluster, job_id, "timeout", "task_timeout")
    [task] = cluster.host.tasks(job_id)
    assert (task["f_party_status"], task["f_reason"]) == ("timeout", "task_timeout")


# ---------------------------------------------------------------------- retries


def reading_and_summing(table: str, column: str, **parameters: Any) -> Document:
    return job_of(
        {"reader_0": READER, "sum_0": summing("reader_0.raw")}, {"guest": [GUEST], "host": [HOST]},
        common={"reader_0": table_named(table), "sum_0": {"column": column}}, parameters=parameters,
    )


@pytest.fixture
def with_numbers(cluster: Cluster) -> Cluster:
    for party in (cluster.guest, cluster.host):
        party.has_table("few", csv_text(["id", "x", "y"], {"a": [1, "none"], "b": [2, "none"]}))
    return cluster


@pytest.mark.heavy
def test_a_task_that_fails_is_tried_again_after_its_delay_as_often_as_it_may(with_numbers: Cluster) -> None:
    cluster = with_numbers
    job_id = cluster.submit(reading_and_summing("few", "y", auto_retries=2, auto_retry_delay=0.5))
    rows = cluster.wait(job_id, "failed")
    assert rows[GUEST]["f_reason"] == "task_failed"
    assert "sum_0 failed on" in rows[GUEST]["f_message"]
    assert "something that is not a number" in rows[GUEST]["f_message"]
    attempts = {party_id: cluster.parties[party_id].tasks(job_id, "sum_0") for party_id in (GUEST, HOST)}
    for tasks in attempts.values():
        assert [task["f_task_version"] for task in tasks] == [0, 1, 2]
        assert [task["f_auto_retries"] for task in tasks] == [2, 1, 0]
        assert {task["f_status"] for task in tasks} == {"failed"}
        assert all(task["f_party_status"] in ("failed", "canceled") for task in tasks)
    for before, after in zip(attempts[GUEST], attempts[GUEST][1:], strict=False):
        assert after["f_start_time"] - before["f_end_time"] >= 500
    incarnations = [[task["f_incarnation"] for task in tasks] for tasks in attempts.values()]
    assert incarnations[0] == incarnations[1]
    assert len(set(incarnations[0])) == 3
    assert [task["f_task_version"] for task in cluster.guest.tasks(job_id, "reader_0")] == [0]


def test_each_party_says_in_its_lists_that_a_task_begins_again_as_far_as_it_knows(with_numbers: Cluster) -> None:
    cluster = with_numbers
    job_id = cluster.submit(reading_and_summing("few", "y", auto_retries=50, auto_retry_delay=0.9))

    def says(party: PartyServer, text: str) -> bool:
        [listed] = party.ask("job/list/job", {"job_id": job_id})["jobs"]
        shares = party.ask("job/task/query", {"job_id": job_id, "component_name": "sum_0"})
        share = {(one["f_status_detail"], one["f_wait_reason"]) for one in shares}
        job = re.fullmatch(rf"sum_0 ({text})", listed["wait_reason"])
        return bool(job) and any(how == "restarting" and re.fullmatch(text, why) for how, why in share)

    eventually(lambda: says(cluster.guest, r"begins again as version \d+ in 1 s"), "the pause, at the guest")
    starts = rf"begins again as version \d+ when guest {GUEST} starts it"
    eventually(lambda: says(cluster.host, starts), "the next version, at the host")
    assert cluster.guest.post("job/stop", {"job_id": job_id})["retcode"] == 0
    cluster.wait(job_id, "canceled")


@pytest.mark.heavy
def test_while_the_next_attempt_is_far_off_others_have_the_cores(with_numbers: Cluster) -> None:
    cluster = with_numbers
    job_id = cluster.submit(reading_and_summing("few", "y", auto_retries=1, auto_retry_delay=8))
    parties = (cluster.guest, cluster.host)
    eventually(lambda: len(cluster.guest.tasks(job_id, "sum_0")) > 1, "a second attempt")
    eventually(
        lambda: all(party.job(job_id)["f_status"] == "waiting" and party.free_cores == CORES for party in parties),
        "the cores to come back",
    )
    why = cluster.guest.ask("job/explain", {"job_id": job_id})["wait_reason"]
    assert re.fullmatch(r"retry_backoff: sum_0 begins again in [0-8] s", why)
    assert set(cluster.wait(cluster.submit(toy()), "success")) == {GUEST, HOST}
    rows = cluster.wait(job_id, "failed")
    assert {row["f_run"] for row in rows.values()} == {0}
    def history() -> dict[str, Any]:
        data: dict[str, Any] = cluster.guest.flow("job", "history", "-j", job_id, "--json").document["data"]
        return data

    both = [{"party_id": HOST, "asked": "answered", "message": ""}]
    described = eventually(lambda: found if (found := history())["parties"] == both else None, lambda: str(history()))
    drained = {GUEST: [("running", "stopping"), ("stopping", "failed")], HOST: [("running", "failed")]}
    for party_id, ends in drained.items():
        seen = [one for one in described["moves"] if one["seen_by"] == party_id]
        # Without the entry that says who has submitted the job, which moves nothing.
        moves = [(one["old"], one["new"]) for one in seen if one["level"] == "job" and one["old"] != one["new"]]
        assert moves[1:] == [
            ("ready", "waiting"), ("waiting", "running"), ("running", "waiting"), ("waiting", "running"),
            *ends,
        ]  # fmt: skip
        begun = [one for one in seen if one["level"] == "task" and not one["old"]]
        sums = [one for one in begun if one["component_name"] == "sum_0"]
        assert [(one["task_version"], bool(one["reason"])) for one in sums] == [(0, False), (1, True)]
        assert all(one["caused_by"] for one in begun)


def test_parameters_are_changed_while_the_next_attempt_is_far_off(with_numbers: Cluster) -> None:
    cluster = with_numbers
    job_id = cluster.submit(reading_and_summing("few", "y", auto_retries=20, auto_retry_delay=3))
    eventually(
        lambda: all(party.job(job_id)["f_status"] == "waiting" for party in (cluster.guest, cluster.host))
        and "retry_backoff" in wait_reason(cluster.guest, job_id),
        "the pause",
    )
    change = {"component_parameters": {"common": {"sum_0": {"column": "x"}}}}
    eventually(
        lambda: cluster.guest.post("job/parameter/update", {"job_id": job_id, **change})["retcode"] == 0, "the change"
    )
    rows = cluster.wait(job_id, "success")
    assert {(row["f_run"], row["f_revision"]) for row in rows.values()} == {(0, 1)}
    assert [task["f_status"] for task in cluster.host.tasks(job_id, "sum_0")][-2:] == ["failed", "success"]


def test_a_retry_that_finds_what_was_missing_lets_the_job_succeed(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    cluster.guest.has_lost_table("late")
    cluster.host.has_table("late", csv_text(["id", "x"], {"a": [1]}))
    job_id = cluster.submit(reading_and_summing("late", "x", auto_retries=50, auto_retry_delay=0.2))
    eventually(lambda: len(cluster.guest.tasks(job_id, "reader_0")) > 1, "a second attempt")
    cluster.guest.has_table("late", csv_text(["id", "x"], {"b": [2]}))
    cluster.wait(job_id, "success")
    *earlier, last = cluster.guest.tasks(job_id, "reader_0")
    assert {task["f_status"] for task in earlier} == {"failed"}
    assert last["f_status"] == "success"
    assert cluster.guest.metrics(job_id, "sum_0")["total"] == "3.00"


def test_a_worker_that_is_killed_fails_its_task_and_a_retry_makes_good_for_it(cluster: Cluster) -> None:
    with cluster.held(HOST):
        job_id = started(cluster, toy(auto_retries=1, auto_retry_delay=0))
        os.killpg(cluster.guest.worker_of(job_id, "toy_0").worker.pid, signal.SIGKILL)
        eventually(lambda: len(cluster.guest.tasks(job_id)) > 1, "a second attempt")
    cluster.wait(job_id, "success")
    first, second = cluster.guest.tasks(job_id)
    assert (first["f_status"], first["f_reason"]) == ("failed", "worker_killed")
    assert "signal 9" in first["f_message"]
    assert second["f_status"] == "success"
    assert cluster.guest.metrics(job_id, "toy_0")["secure_sum"] == "2000"


def test_a_worker_that_is_killed_fails_a_job_that_may_not_retry(on_sqlite: Cluster) -> None:
    with on_sqlite.held(HOST):
        job_id = started(on_sqlite, toy())
        os.killpg(on_sqlite.guest.worker_of(job_id, "toy_0").worker.pid, signal.SIGKILL)
        assert_failed = on_sqlite.wait(job_id, "failed")
    assert {row["f_reason"] for row in assert_failed.values()} == {"task_failed"}
    assert "signal 9" in on_sqlite.guest.job(job_id)["f_message"]
