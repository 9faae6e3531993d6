"""Job files at three real servers, one of which has ceilings: `flow job submit -f`, `flow job validate -f`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.servers.lending import PARTIES
from tests.kit.servers.party_servers import (
    BASE_PORT,
    GUEST,
    HOST,
    OTHER,
    Cluster,
    csv_text,
    running_cluster,
)
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
OVERLAYS = {HOST: {"ceilings": {"max_attempts": 2, "task_timeout": 60}, "limits": {"longest_stop": 20.0}}}
REFUSED = 1
TABLES = {GUEST: ("shop", "spent", [10, 20]), HOST: ("bank", "fees", [1, 2]), OTHER: ("phone", "bill", [300, 400])}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("servers") / "with ceilings"
    with running_cluster(root, PARTIES, base_port=BASE_PORT + 70, overlays=OVERLAYS) as cluster:
        for party_id, (name, column, values) in TABLES.items():
            rows = {f"id{number}": [value] for number, value in enumerate([*values, 5_000])}
            server = cluster.parties[party_id]
            if party_id != GUEST:      # a row that not all have
                rows[f"own{party_id}"] = rows.pop("id2")
            server.has_table(name, csv_text(["id", column], rows), namespace="trial")
        yield cluster


@pytest.fixture(autouse=True)
def idle_afterwards(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.check_idle()


def changed(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """An example with other words in it."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_example_of_three_parties_runs_and_what_a_party_gives_less_of_is_told(cluster: Cluster) -> None:
    printed = cluster.guest.flow("job", "submit", "-f", EXAMPLES / "common_customers.yaml", "--watch")
    note = (
        "read, total: timeout no limit is 60 s (ceilings.task_timeout); "
        "read, match, total: stop_duration 30 s is 20 s (limits.longest_stop); "
        "match: timeout 600 s is 60 s (ceilings.task_timeout)"
    )
    assert printed.document["data"]["effective"] == [{"role": "host", "party_id": HOST, "message": note}]
    assert f"note: host-{HOST}: {note}" in printed.err
    job_id = printed.job_id
    cluster.wait(job_id, "success")
    for party_id in PARTIES:
        role = "guest" if party_id == GUEST else "host"
        metrics = cluster.parties[party_id].flow(
            "component", "metric-all", "-j", job_id, "-r", role, "-p", party_id, "-cpn", "total")
        assert "733" in metrics.out                      # 10 + 20 + 1 + 2 + 300 + 400
    row = cluster.guest.job(job_id)
    assert (row["f_name"], row["f_description"]) == ("common customers", "what the customers that all three have spend")
    assert note in cluster.guest.flow("job", "history", "--table", "-j", job_id).out


@pytest.mark.parametrize("name", ["toy.yaml", "when_there_is_capacity.yaml"])
def test_an_example_of_two_parties_runs(cluster: Cluster, tmp_path: Path, name: str) -> None:
    changes = [("max_interruptions: 20", "max_interruptions: 20\n  max_attempts: 1")] if "capacity" in name else []
    cluster.guest.flow("job", "submit", "-f", changed(tmp_path, name, *changes), "--watch")


def test_the_example_that_goes_on_with_enough_hosts_is_a_partial_success(cluster: Cluster) -> None:
    for server, value in ((cluster.guest, 20), (cluster.host, 7)):      # and not at the other host
        server.has_table("sales", csv_text(["id", "amount"], {"a": [value]}), namespace="trial")
    printed = cluster.guest.flow("job", "submit", "-f", EXAMPLES / "enough_hosts.yaml", "--watch")
    row = cluster.guest.job(printed.job_id)
    assert (row["f_status"], row["f_partial"]) == ("success", 1)
    assert row["f_missing_parties"] == f'["host {OTHER}"]'
    assert cluster.host.metrics(printed.job_id, "total")["total"] == "27.00"


def test_validate_asks_every_party_and_leaves_nothing(cluster: Cluster) -> None:
    with cluster.unchanged():
        printed = cluster.guest.flow("job", "validate", "--table", "-f", EXAMPLES / "common_customers.yaml")
        found = cluster.guest.flow("job", "validate", "-f", EXAMPLES / "common_customers.yaml", "--json").document
    assert [one["asked"] for one in found["data"]["parties"]] == ["accepts"] * 3
    host = found["data"]["parties"][1]
    values = {task["component_name"]: task["values"] for task in host["tasks"]}
    ceiling = f"ceilings.task_timeout of host {HOST}"
    assert values["match"]["timeout"] == {"value": 60, "from": "party", "where": ceiling}
    assert values["read"]["retry.max_attempts"]["where"] == "retry.max_attempts (line 14)"
    assert f"guest-{GUEST}: 2 cores" in printed.out
    assert any("resources.cores (line 11)" in line and "task_cores" in line for line in printed.out.splitlines())
    assert any(ceiling in line and "60" in line for line in printed.out.splitlines())


def test_what_a_party_does_not_agree_to_is_refused_by_validate_and_by_submit(cluster: Cluster, tmp_path: Path) -> None:
    path = changed(tmp_path, "common_customers.yaml", ("max_attempts: 2", "max_attempts: 3"))
    text = f"host {HOST}: retry.max_attempts: 3 is more than host {HOST} allows (ceilings.max_attempts) (line 14)"
    with cluster.unchanged():
        validated = cluster.guest.flow("job", "validate", "--table", "-f", path, code=REFUSED)
        submitted = cluster.guest.flow("job", "submit", "-f", path, code=REFUSED)
    assert validated.document["data"]["problems"] == [text]
    assert validated.err.splitlines() == [f"Error: {text}"]
    assert (submitted.document["retcode"], submitted.document["retmsg"]) == (103, text)


def test_a_party_that_is_down_is_named_as_not_asked(cluster: Cluster) -> None:
    cluster.kill(OTHER)
    try:
        printed = cluster.guest.flow("job", "validate", "--table", "-f", EXAMPLES / "common_customers.yaml")
        assert f"not asked: party {OTHER} does not answer" in printed.out
    finally:
        cluster.start(OTHER)
    beat = cluster.parties[OTHER]
    eventually(lambda: beat.post("version/get")["retcode"] == 0, "the server to answer again")


def test_a_slip_is_told_with_its_line_and_the_key_that_was_meant(cluster: Cluster, tmp_path: Path) -> None:
    path = changed(tmp_path, "common_customers.yaml", ("{max_attempts: 2}", "{max_atempts: 2}"))
    with cluster.unchanged():
        said = cluster.guest.flow("job", "submit", "-f", path, code=REFUSED).document
    assert said["retmsg"] == "retry.max_atempts: is not known; did you mean max_attempts (line 14)"
