"""Rules of a job over real servers: one that cancels it a moment after a failure, a resume, one that is for good."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.servers.party_servers import GUEST, HOST, OTHER, READER, Cluster, csv_text, job_of, summing, table_named

pytestmark = pytest.mark.timeout(900)


def reading_and_summing(table: str, *policies: dict[str, Any]) -> dict[str, Any]:
    document = job_of(
        {"reader_0": READER, "sum_0": summing("reader_0.raw")}, {"guest": [GUEST], "host": [HOST]},
        common={"reader_0": table_named(table), "sum_0": {"column": "y"}},
    )
    common = document["job_runtime_conf"].setdefault("job_parameters", {}).setdefault("common", {})
    common["task_conf"] = {"sum_0": {"policies": list(policies)}}
    return document


def test_a_rule_cancels_the_job_a_moment_later_and_a_resume_goes_on_where_it_was(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    parties = (cluster.guest, cluster.host)
    for party in parties:
        party.has_table("ruled", csv_text(["id", "y"], {"a": ["none"]}))
    rule = {"exit_code": 1, "action": "cancel_job", "timeout": 0.5}
    job_id = cluster.submit(reading_and_summing("ruled", rule))
    ended = cluster.wait(job_id, "canceled")
    assert [row["f_reason"] for row in ended.values()] == ["stopped_by_policy"] * 2
    assert "cancel_job after worker_failed of sum_0 on " in ended[GUEST]["f_message"]
    codes = {row["f_exit_code"] for party in parties for row in party.tasks(job_id, "sum_0")}
    assert 1 in codes
    said = cluster.guest.ask("job/explain", {"job_id": job_id})
    shares = [share for task in said["tasks"] if task["component_name"] == "sum_0" for share in task["parties"]]
    assert 1 in {share["exit_code"] for share in shares}
    for party in parties:
        party.has_table("ruled", csv_text(["id", "y"], {"a": [20]}))       # which was no number
    cluster.guest.flow("job", "resume", "-j", job_id)
    cluster.wait(job_id, "success")
    assert cluster.guest.metrics(job_id, "sum_0")["total"] == "40.00"
    for party in parties:
        assert [row["f_task_version"] for row in party.tasks(job_id, "reader_0")] == [0]
    cluster.check_idle()


def test_a_job_says_by_which_rule_a_task_of_it_was_completed(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    for party in (cluster.guest, cluster.host):
        party.has_table("enough", csv_text(["id", "y"], {"a": ["none"]}))
    job_id = cluster.submit(reading_and_summing("enough", {"event": "worker_failed", "action": "complete_task"}))
    rule = "complete_task after worker_failed of sum_0 on "
    for party_id, row in cluster.wait(job_id, "success").items():
        assert (row["f_reason"], rule in row["f_message"]) == ("done", True)
        said = cluster.parties[party_id].flow("job", "explain", "--table", "-j", job_id).out.splitlines()
        assert said[0].startswith(f"job {job_id}: success: {rule}")
        assert f"completed_by_policy: {rule}" in "\n".join(said[1:])
    cluster.check_idle()


def test_a_rule_that_fails_a_job_fails_it_for_good(on_sqlite: Cluster) -> None:
    cluster = on_sqlite
    for party in (cluster.guest, cluster.host):
        party.has_table("doomed", csv_text(["id", "y"], {"a": ["none"]}))
    document = reading_and_summing("doomed", {"event": "*", "action": "fail_job"})
    job_id = cluster.submit(document)
    ended = cluster.wait(job_id, "failed")
    assert [row["f_reason"] for row in ended.values()] == ["failed_by_policy"] * 2
    refused = cluster.guest.flow("job", "rerun", "-j", job_id, "--force", code=1).document
    assert refused["retmsg"].startswith(f"job {job_id} was ended for good by a policy (fail_job after worker_failed")
    wrong = reading_and_summing("doomed", {"event": "*", "action": "restart_party"})
    answer = cluster.guest.submit(wrong)
    assert answer["retcode"] == 103
    assert "job_parameters.common.task_conf.sum_0.policies[0].action: restart_party: no component" in answer["retmsg"]
    cluster.check_idle()


def test_a_job_that_can_do_without_a_host_is_a_partial_success(on_sqlite: Cluster) -> None:
    """One host has no such table, which the job may do without: its reader fails, and the sum is that of the two
    parties that are left. Where no host may be missing the submit is refused."""
    cluster = on_sqlite
    for party, value in ((cluster.guest, 20), (cluster.host, 7)):
        party.has_table("partial", csv_text(["id", "y"], {"a": [value]}))
    document = job_of(
        {"reader_0": READER, "sum_0": summing("reader_0.raw")}, {"guest": [GUEST], "host": [HOST, OTHER]},
        common={"reader_0": table_named("partial"), "sum_0": {"column": "y"}},
    )
    common = document["job_runtime_conf"].setdefault("job_parameters", {}).setdefault("common", {})
    common["min_available"] = {"host": 1}
    job_id = cluster.submit(document)
    ended = cluster.wait(job_id, "success")
    parties = [cluster.parties[party_id] for party_id in (GUEST, HOST, OTHER)]
    for row in (ended[GUEST], ended[HOST], parties[2].wait(job_id, "success")):
        found = (row["f_partial"], row["f_missing_parties"], row["f_message"])
        assert found == (1, f'["host {OTHER}"]', f"without host {OTHER}")
    totals = [party.metrics(job_id, "sum_0")["total"] for party in parties[:2]]
    assert totals == ["27.00", "27.00"]
    shares = [party.tasks(job_id, "sum_0")[0] for party in parties]
    assert [row["f_party_status"] for row in shares] == ["success", "success", "canceled"]
    assert [row["f_status"] for row in shares] == ["success"] * 3
    assert shares[2]["f_reason"] == "party_missing"
    assert shares[0]["f_without_parties"] == f'["host {OTHER}"]'
    said = cluster.guest.flow("job", "explain", "--table", "-j", job_id).out
    assert f"succeeded without: host {OTHER}" in said
    [listed] = [row for row in cluster.guest.ask("job/query", {"job_id": job_id}) if row["f_role"] == "guest"]
    assert (listed["f_partial"], listed["f_missing_parties"]) == (True, [f"host {OTHER}"])

    common["min_available"] = {"host": 2}
    answer = cluster.guest.submit(document)
    unusable = f"table it.partial is missing or disabled at host {OTHER}"
    assert (answer["retcode"], unusable in answer["retmsg"]) == (103, True)
    cluster.check_idle()
