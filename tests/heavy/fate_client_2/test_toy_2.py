"""`flow test toy` of fate_client 2.2.0, unmodified, with FATE's own component at real servers."""

from __future__ import annotations

import pytest

from tests.genuine.genuine_client import GenuineClient
from tests.heavy.fate_client_2.conftest import FORKS
from tests.kit.servers.party_servers import GUEST, HOST, Cluster

pytestmark = pytest.mark.timeout(900)


def test_the_toy_runs_with_the_component_of_fate(client_of_fate: GenuineClient, fate_parties: Cluster) -> None:
    with client_of_fate.forked_flow(FORKS) as flow:
        printed = flow("test", "toy", "-gid", GUEST, "-hid", HOST)
    assert printed.out.rstrip().endswith("is success"), printed
    fate_parties.check_idle()
