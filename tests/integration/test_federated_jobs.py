"""Jobs over real parties, from submit to success."""

from __future__ import annotations

from pathlib import Path

import pytest

from party_servers import CORES, GUEST, HOST, Cluster, toy

pytestmark = pytest.mark.timeout(120)


def test_a_job_over_two_parties_succeeds_everywhere_and_leaves_nothing_held(cluster: Cluster) -> None:
    job_id = cluster.run(toy())
    for party_id, role in ((GUEST, "guest"), (HOST, "host")):
        party = cluster.parties[party_id]
        row = party.job(job_id)
        assert (row["f_role"], row["f_status"], row["f_reason"], row["f_progress"]) == (role, "success", "done", 100)
        assert (row["f_cores"], row["f_resource_in_use"], row["f_claim"]) == (2, 0, "")
        assert row["f_apply_resource_time"] <= row["f_start_time"] <= row["f_end_time"] <= row["f_return_resource_time"]
        [task] = party.tasks(job_id)
        assert (task["f_status"], task["f_party_status"], task["f_task_version"]) == ("success", "success", 0)
    cluster.check_idle()
