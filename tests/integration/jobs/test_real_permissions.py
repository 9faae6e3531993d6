"""A party that looks at permissions: a submit is refused by name until its initiator was granted what the job needs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.servers.party_servers import (
    BASE_PORT,
    GUEST,
    HOST,
    READER,
    Cluster,
    csv_text,
    job_of,
    running_cluster,
    summing,
    table_named,
)

pytestmark = pytest.mark.timeout(900)

SUMS = job_of(
    {"reader_0": READER, "sum_0": summing("reader_0.raw")}, {"guest": [GUEST], "host": [HOST]},
    common={"reader_0": table_named("numbers"), "sum_0": {"column": "y"}},
)
MISSING = "host 10000 has not granted party 9999: component Reader, table it/numbers, component SecureSum"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overlays = {HOST: {"permission": {"switch": True, "component": True, "dataset": True}}}
    root = tmp_path_factory.mktemp("servers") / "strict"
    with running_cluster(root, (GUEST, HOST), base_port=BASE_PORT + 40, overlays=overlays) as cluster:
        for party in (cluster.guest, cluster.host):
            party.has_table("numbers", csv_text(["id", "x", "y"], {"a": [1, 2], "b": [3, 4]}))
        yield cluster


def test_what_is_missing_is_named_and_nothing_is_left_until_it_is_granted(strict: Cluster) -> None:
    with strict.unchanged():
        refused = strict.guest.submit(SUMS)
        assert (refused["retcode"], MISSING in refused["retmsg"]) == (103, True), refused
        checked = strict.guest.post("job/validate", SUMS)
        assert MISSING in checked["data"]["problems"][0]
    granted = {"party_id": GUEST, "component": "*", "dataset": {"namespace": "it", "name": "numbers"}}
    strict.host.ask("permission/grant", granted)
    strict.kill(HOST)
    strict.start(HOST)
    strict.run(SUMS)
    strict.host.ask("permission/delete", {"party_id": GUEST, "dataset": "*"})
    refused = strict.guest.submit(SUMS)
    assert "has not granted party 9999: table it/numbers (flow privilege grant, there)" in refused["retmsg"]
