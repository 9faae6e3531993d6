"""Components of a provider with a Python of its own, at two real parties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.components.foreign_provider import VERSION, make_environment
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, running_cluster
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Both parties have the provider `foreign`; the guest has it under a second name, too."""
    folder = tmp_path_factory.mktemp("foreign")
    foreign = {"version": VERSION, "python": str(make_environment(folder / "env"))}
    overlays = {
        GUEST: {"providers": {"foreign": foreign, "second": {**foreign, "module": "foreign.components"}}},
        HOST: {"providers": {"foreign": foreign}},
    }
    with running_cluster(folder / "servers", (GUEST, HOST), base_port=BASE_PORT + 200, overlays=overlays) as cluster:
        yield cluster
        cluster.check_idle()


def document(module: str, **parameters: Any) -> dict[str, Any]:
    conf = {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": GUEST},
        "role": {"guest": [GUEST], "host": [HOST]}, "component_parameters": {"common": {"a": parameters}},
    }  # fmt: skip
    return {"job_dsl": {"components": {"a": {"module": module}}}, "job_runtime_conf": conf}


def test_a_job_runs_components_of_a_provider_that_all_its_parties_have(cluster: Cluster) -> None:
    guest = cluster.guest

    def is_ready() -> bool:
        listed = [one.ask("provider/get") for one in cluster.parties.values()]
        return all(each[VERSION]["is_ready"] for found in listed for name, each in found.items() if name != "fate_flow")

    eventually(is_ready, lambda: str([one.ask("provider/get") for one in cluster.parties.values()]))
    job_id = cluster.run(document("foreign.say", text="hello", times=4))
    assert all(VERSION in task["f_provider_info"] for task in guest.tasks(job_id))
    for party, role in ((guest, "guest"), (cluster.host, "host")):
        seat = {"job_id": job_id, "role": role, "party_id": party.party_id, "component_name": "a"}
        eventually(lambda party=party, seat=seat: bool(party.post("tracking/component/metrics", seat).get("data")))
        metrics = party.ask("tracking/component/metric/all", seat)
        assert metrics["said"]["times"]["data"] == [[0, 4]]
    assert "foreign.train: trains" in guest.flow("component", "desc", "foreign.train", "--table").out
    refused = guest.submit(document("second.say", text="hello"))
    assert refused["retcode"] != 0
    assert f"host {HOST}" in refused["retmsg"]
    assert f"party {HOST} has no provider 'second', from which 'say' would come; it has: foreign {VERSION}" in (
        refused["retmsg"]
    )
    failed = cluster.submit(document("foreign.say", text="fail"))
    rows = cluster.wait(failed, "failed")
    assert "a failed: ValueError; this party's log has the traceback" in rows[GUEST]["f_message"]
