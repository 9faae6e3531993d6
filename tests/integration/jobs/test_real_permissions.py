"""A party that looks at permissions: a submit is refused by name until its initiator was granted what the job needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
    taking_from,
)
from tests.kit.servers.warm import WARM

pytestmark = pytest.mark.timeout(900)

SUMS = job_of(
    {"reader_0": READER, "sum_0": summing("reader_0.raw")}, {"guest": [GUEST], "host": [HOST]},
    common={"reader_0": table_named("numbers"), "sum_0": {"column": "y"}},
)
PSI = {"module": "Intersection", "input": taking_from("reader_0.raw"), "output": {"data": ["common"]}}
MISSING = "host 10000 has not granted party 9999: component Reader, table it/numbers, component SecureSum"


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overlays = {HOST: {"permission": {"switch": True, "component": True, "dataset": True}}}
    root = tmp_path_factory.mktemp("servers") / "strict"
    with running_cluster(root, (GUEST, HOST), base_port=BASE_PORT + 40, overlays=overlays) as cluster:
        for party in (cluster.guest, cluster.host):
            party.has_table("numbers", csv_text(["id", "x", "y"], {"a": [1, 2], "b": [3, 4]}))
        yield cluster


GRANTS = """\
version: 1
parties:
  9999:
    components: [Reader, SecureSum]
    tables: [{namespace: it, name: numbers, columns: [y], uses_a_day: 1}]
    cores: 8
"""


def grants(cluster: Cluster, command: str, *arguments: object, code: int = 0) -> str:
    """Run `fate_flow grants` at the host, while its server runs; return what it printed."""
    conf = cluster.host.home / "conf" / "service_conf.yaml"
    done = WARM.run("fate_flow", "grants", command, "-c", str(conf), *map(str, arguments))
    assert done.code == code, f"exit code {done.code}\n{done.out}\n{done.err}"
    return done.out


def test_a_file_of_grants_limits_columns_and_uses_of_a_running_server(strict: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "grants.yaml"
    file.write_text(GRANTS, encoding="utf-8")
    assert "+ 9999: table it/numbers (columns y; 1 use a day)\n" in grants(strict, "diff", "-f", file, code=1)
    grants(strict, "apply", "-f", file, "--by", "ada")
    grants(strict, "diff", "-f", file)
    other_column = job_of(
        {"reader_0": READER, "sum_0": summing("reader_0.raw")}, {"guest": [GUEST], "host": [HOST]},
        common={"reader_0": table_named("numbers"), "sum_0": {"column": "x"}},
    )
    refused = strict.guest.submit(other_column)
    assert "has not granted party 9999: column 'x' of table it/numbers (flow" in refused["retmsg"]
    strict.run(SUMS)
    assert "table it/numbers (columns y; 1 use a day), used 1 time\n" in grants(strict, "show", "-p", GUEST)
    with strict.unchanged():
        refused = strict.guest.submit(SUMS)
    assert "has not granted party 9999: 1 more use of table it/numbers now" in refused["retmsg"]
    file.write_text("version: 1\nparties: {9999: {}}\n", encoding="utf-8")
    grants(strict, "apply", "-f", file)


@pytest.mark.heavy
def test_a_small_intersection_does_not_leave_a_host(strict: Cluster, tmp_path: Path) -> None:
    """Two ids are common; a third one is not."""
    file = tmp_path / "grants.yaml"
    intersecting = job_of(
        {"reader_0": READER, "psi_0": PSI}, {"guest": [GUEST], "host": [HOST]},
        common={"reader_0": table_named("numbers")},
    )
    for least, seen in ((3, "failed"), (2, "success")):
        limit = f'components: ["*"], tables: ["*"], least_intersection: {least}'
        file.write_text(f"version: 1\nparties: {{9999: {{{limit}}}}}\n", encoding="utf-8")
        grants(strict, "apply", "-f", file)
        answer = strict.guest.submit(intersecting)
        assert answer["retcode"] == 0, answer
        row = strict.guest.wait(answer["jobId"], seen)
        if seen == "failed":
            assert "host 10000 lets nothing leave of an intersection of so few ids" in row["f_message"]
            assert strict.guest.metrics(answer["jobId"], "psi_0") == {}
    file.write_text("version: 1\nparties: {9999: {}}\n", encoding="utf-8")
    grants(strict, "apply", "-f", file)


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
