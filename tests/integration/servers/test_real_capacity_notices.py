"""Cores that one initiator's job gives back start the job of another one, which would not ask again for long."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, OTHER, PartyServer, running_cluster, toy
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)


def all_of(host: str, guest: str) -> dict[str, Any]:
    """A toy of these two parties that takes all cores of the host."""
    document = toy(host=host)
    conf = document["job_runtime_conf"]
    conf["initiator"]["party_id"] = guest
    conf["role"]["guest"] = [guest]
    conf["job_parameters"]["role"] = {"host": {"0": {"task_cores": 20}}}
    return document


def refused(party: PartyServer, job_id: str) -> bool:
    return "0 of 20 cores free" in (party.job(job_id)["f_wait_reason"] or "")


def test_the_head_of_another_initiator_starts_when_cores_come_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("room")
    overlays = {party_id: {"limits": {"retry_wait": 3_600}} for party_id in (GUEST, HOST, OTHER)}
    with running_cluster(root, (GUEST, HOST, OTHER), base_port=BASE_PORT + 100, overlays=overlays) as cluster:
        other, host = cluster.parties[OTHER], cluster.host
        with cluster.held(HOST):
            first = cluster.submit(all_of(HOST, GUEST))
            cluster.guest.wait(first, "running")
            head = cluster.submit(all_of(HOST, OTHER), at=OTHER)
            eventually(lambda: refused(other, head), lambda: other.post("job/explain", {"job_id": head}))
            assert host.job(head)["f_wish_since"] > 0
        for party_id, job_id in ((GUEST, first), (OTHER, head)):
            cluster.parties[party_id].wait(job_id, "success")
        said = [line for line in host.log(head, "fate_flow_audit.log") if "/room" in line]
        assert f"/v1/initiator/{head}/host/{HOST}/room" in said[0]
        cluster.check_idle()
