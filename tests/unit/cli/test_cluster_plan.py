"""What `bin/cluster up` decides and makes before it starts anything: parties, ports, configurations, keys."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from fate_flow.cli.server import cluster as cluster_command
from fate_flow.cli.server import cluster_processes
from fate_flow.cli.server.cluster_keys import exchange_keys
from fate_flow.cli.server.cluster_plan import Cluster, ClusterError, Member, Options, choose_ports, plan
from fate_flow.core.access.key_list import TLS, KeyState
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.settings.parties import Listen
from fate_flow.settings.reader import load_settings
from fate_flow.store.database.opening import open_database
from fate_flow.store.sql.store import SqlStore, SqlTransaction

ROOT = Path("/somewhere/a cluster")


def every_port_but(*taken: int) -> Callable[[int], bool]:
    return lambda port: port not in taken


def a_plan(
    *party_ids: str, before: Cluster | None = None, running: tuple[str, ...] = (), taken: tuple[int, ...] = (),
    root: Path = ROOT, **pending_requests: Any,
) -> Cluster:
    return plan(root, before, party_ids, pending_requests, running, every_port_but(*taken))


def ports_of(cluster: Cluster) -> list[tuple[int, int]]:
    return [(member.http_port, member.worker_port) for member in cluster.members]


def gateways_of(cluster: Cluster) -> list[int]:
    return [member.party_port for member in cluster.members]


@pytest.mark.parametrize(("taken", "chosen"), [
    ((), [9380, 9381, 9382]),
    ((9380,), [9381, 9382, 9383]),
    ((9381, 9382), [9380, 9383, 9384]),
])
def test_ports_are_the_first_free_ones_from_the_base_on(taken: tuple[int, ...], chosen: list[int]) -> None:
    assert choose_ports(3, 9380, every_port_but(*taken)) == chosen


def test_a_base_too_high_for_all_ports_is_an_error_that_names_the_key() -> None:
    with pytest.raises(ClusterError, match=r"--base-port: 3 free ports are needed from 65534 on, there are 2"):
        choose_ports(3, 65534, every_port_but())


def test_no_port_is_given_out_twice_when_those_of_servers_reach_into_those_of_workers() -> None:
    cluster = a_plan("1", "2", taken=tuple(range(9381, 9480)))
    assert gateways_of(cluster) == [9481, 9482]
    assert ports_of(cluster) == [(9380, 9483), (9480, 9484)]
    plain = a_plan("1", "2", taken=tuple(range(9381, 9480)), plain=True)
    assert ports_of(plain) == [(9380, 9481), (9480, 9482)]


def test_a_new_cluster_has_the_parties_in_the_order_asked() -> None:
    cluster = a_plan("10000", "9999")
    assert cluster == Cluster(ROOT, Options(), (Member("10000", 9380, 9480, 9390), Member("9999", 9381, 9481, 9391)))


def test_a_configuration_names_the_real_ports_of_all_others(tmp_path: Path) -> None:
    cluster = a_plan("9999", "10000", "10001", taken=(9380, 9382), root=tmp_path, cores=8, memory=4096,
                     database="mysql://root@127.0.0.1:3306/flow_{party_id}")
    host = cluster.members[1]
    assert cluster.conf(host) == {
        "party_id": "10000",
        "home": str(tmp_path / "10000"),
        "fateflow": {"host": "127.0.0.1", "http_port": 9383, "worker_port": 9481},
        "database": {"url": "mysql://root@127.0.0.1:3306/flow_10000"},
        "fate_on_standalone": {"standalone": {"cores_per_node": 8, "nodes": 1, "memory_per_node": 4096}},
        "parties": {"listen": {"host": "127.0.0.1", "port": 9391}},
        "routes": {"9999": {"url": "https://127.0.0.1:9390"}, "10001": {"url": "https://127.0.0.1:9392"}},
        **({"commands": {"as_root": True}} if os.geteuid() == 0 else {}),
    }


def test_without_keys_the_parties_use_the_ports_of_clients() -> None:
    cluster = a_plan("9999", "10000", plain=True)
    conf = cluster.conf(cluster.members[0])
    assert "parties" not in conf
    assert conf["routes"] == {"10000": {"url": "http://127.0.0.1:9381"}}


def test_a_cluster_of_an_earlier_release_stays_without_keys(tmp_path: Path) -> None:
    a_plan("9999", "10000", root=tmp_path, plain=True).write()
    path = tmp_path / "cluster.json"
    document = json.loads(path.read_text())
    del document["options"]["plain"]
    for party in document["parties"]:
        del party["party_port"]
    path.write_text(json.dumps(document))
    before = Cluster.read(tmp_path)
    assert before is not None
    assert a_plan(before=before, root=tmp_path) == before
    assert (before.options.plain, gateways_of(before)) == (True, [0, 0])


def test_parties_that_know_each_other_by_keys_do_not_go_back_to_names() -> None:
    with pytest.raises(ClusterError, match=r"--plain: the parties of the cluster in .* know each other by keys"):
        a_plan(before=a_plan("9999", "10000"), plain=True)


def test_without_requests_the_database_and_the_memory_are_left_to_the_server() -> None:
    cluster = a_plan("9999")
    conf = cluster.conf(cluster.members[0])
    assert "database" not in conf
    assert conf["fate_on_standalone"] == {"standalone": {"cores_per_node": 20, "nodes": 1}}
    assert conf["routes"] == {}


def test_the_server_understands_the_configuration_that_is_written(tmp_path: Path) -> None:
    root = tmp_path / "with a space: and a #"
    cluster = a_plan("9999", "10000", root=root, cores=3)
    cluster.write_conf(cluster.members[0])
    settings = load_settings(cluster.conf_path("9999"))
    assert (settings.party_id, settings.home, settings.url) == ("9999", root / "9999", "http://127.0.0.1:9380")
    assert (settings.worker_port, settings.engines["local"].size.cores) == (9480, 3)
    assert settings.routes["10000"].url == "https://127.0.0.1:9391"
    assert settings.parties_listen == Listen("127.0.0.1", 9390)


def test_a_configuration_that_may_hold_a_password_is_for_its_owner_alone(tmp_path: Path) -> None:
    cluster = a_plan("9999", root=tmp_path, database="mysql://root:secret@127.0.0.1/x")
    cluster.write_conf(cluster.members[0])
    cluster.write()
    for path in (cluster.conf_path("9999"), tmp_path / "cluster.json"):
        assert path.stat().st_mode & 0o077 == 0


def test_a_cluster_is_read_as_it_was_written(tmp_path: Path) -> None:
    cluster = a_plan("9999", "10000", root=tmp_path, cores=8, database="sqlite:///x_{party_id}")
    assert Cluster.read(tmp_path) is None
    cluster.write()
    assert Cluster.read(tmp_path) == cluster


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"parties": [{"party": 1}], "options": {}}'])
def test_a_damaged_cluster_file_is_an_error_that_names_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "cluster.json").write_text(content)
    with pytest.raises(ClusterError, match=r"cluster\.json: is damaged"):
        Cluster.read(tmp_path)


def test_the_same_parties_in_another_order_change_nothing() -> None:
    before = a_plan("9999", "10000")
    assert a_plan("10000", "9999", before=before, running=("9999",)) == before
    assert a_plan(before=before, running=("9999", "10000"), cores=20) == before


def test_other_parties_are_refused_by_naming_those_that_are_there() -> None:
    before = a_plan("9999", "10000")
    for asked in (("9999",), ("9999", "10000", "10001")):
        with pytest.raises(ClusterError, match=r"--party: .* requested, but the cluster in .* has 9999, 10000;"):
            a_plan(*asked, before=before)


@pytest.mark.parametrize(("wanted", "message"), [
    ({"cores": 4}, r"--cores: the running cluster in .* has 20; take it down first"),
    ({"base_port": 9000}, r"--base-port: the running cluster in .* has 9380"),
    ({"database": "mysql://x/{party_id}"}, r"--database: the running cluster in .* has None"),
])
def test_other_options_are_refused_while_a_party_runs_and_taken_when_none_does(
    wanted: dict[str, Any], message: str
) -> None:
    before = a_plan("9999", "10000")
    with pytest.raises(ClusterError, match=message):
        a_plan(before=before, running=("10000",), **wanted)
    after = a_plan(before=before, **wanted)
    assert after.options != before.options
    assert after.party_ids == before.party_ids


def test_a_cluster_that_is_down_keeps_its_ports_while_they_are_free() -> None:
    before = a_plan("9999", "10000", taken=(9380,))
    assert ports_of(before) == [(9381, 9480), (9382, 9481)]
    assert a_plan(before=before) == before


def test_a_cluster_that_is_down_moves_when_a_port_was_taken() -> None:
    before = a_plan("9999", "10000")
    assert ports_of(a_plan(before=before, taken=(9381,))) == [(9380, 9480), (9382, 9481)]
    assert gateways_of(a_plan(before=before, taken=(9390,))) == [9391, 9392]


def test_a_taken_port_is_an_error_while_running_parties_have_it_in_their_routes() -> None:
    before = a_plan("9999", "10000")
    with pytest.raises(ClusterError, match=r"party 10000: another program uses port 9381, .* running parties 9999"):
        a_plan(before=before, running=("9999",), taken=(9380, 9381))


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "--party: name at least one"),
    (["--party", "nobody"], "--party: 'nobody' is not a party id"),
    (["--party", "0"], "--party: 0 is not a party id"),
    (["--party", "9999", "--party", "09999"], "--party: 9999 is named twice"),
    (["--party", "1", "--cores", "-1"], "'--cores'"),
    (["--party", "1", "--memory", "much"], "'--memory'"),
    (["--party", "1", "--base-port", "70000"], "'--base-port'"),
    (["--party", "1", "--party", "2", "--database", "mysql://root@h/one"], "--database: 2 parties cannot share one"),
])
def test_wrong_arguments_are_named_and_nothing_is_left(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cluster_command.main, ["up", "--dir", str(tmp_path), *arguments])
    assert result.exit_code == click.UsageError.exit_code
    assert message in result.output
    assert not (tmp_path / "cluster.json").exists()


@pytest.mark.parametrize(("command", "exit_code", "message"), [
    (["status"], 3, "there is no cluster here"),
    (["down"], 0, "nothing to take down"),
    (["start", "--party", "1"], 1, "there is no cluster here; bin/cluster up creates one"),
    (["kill", "--party", "1"], 1, "there is no cluster here; bin/cluster up creates one"),
])
def test_a_folder_without_a_cluster_is_said_to_be_one(
    tmp_path: Path, command: list[str], exit_code: int, message: str
) -> None:
    result = CliRunner().invoke(cluster_command.main, [*command, "--dir", str(tmp_path)])
    assert (result.exit_code, message in result.output) == (exit_code, True)


def test_a_party_that_is_not_there_is_refused_by_naming_those_that_are(tmp_path: Path) -> None:
    a_plan("9999", "10000", root=tmp_path).write()
    for command in ("start", "kill"):
        result = CliRunner().invoke(cluster_command.main, [command, "--dir", str(tmp_path), "--party", "77"])
        assert result.exit_code == click.UsageError.exit_code
        assert f"--party: 77 is not in {tmp_path}, which has 9999, 10000" in result.output


def test_a_configuration_edited_by_hand_is_plain_yaml(tmp_path: Path) -> None:
    cluster = a_plan("9999", "10000", root=tmp_path)
    cluster.write_conf(cluster.members[0])
    assert yaml.safe_load(cluster.conf_path("9999").read_text()) == cluster.conf(cluster.members[0])


# ---------------------------------------------------------------------- keys


PARTIES = ("9999", "10000", "10001")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    made = a_plan(*PARTIES, root=tmp_path)
    for member in made.members:
        made.write_conf(member)
    return made


@contextmanager
def stored_at(cluster: Cluster, party_id: str) -> Iterator[SqlTransaction]:
    """The database of a party."""
    settings = load_settings(cluster.conf_path(party_id))
    store = SqlStore(open_database(settings.database_url, settings.home))
    try:
        with store.transaction() as tx:
            yield tx
    finally:
        store.close()


def tls_keys(cluster: Cluster, party_id: str) -> dict[str, tuple[str, ...]]:
    """The tls keys of others that a party believes, by the party they belong to."""
    with stored_at(cluster, party_id) as tx:
        stored = tx.all_party_keys()
    assert {(one.state, one.state_by) for one in stored} == {(KeyState.JOINED, "bin/cluster")}
    return {one.party_id: one.valid(TLS, 0) for one in stored}


def own_list(cluster: Cluster, party_id: str) -> str:
    settings = load_settings(cluster.conf_path(party_id))
    return OwnKeys(party_id, settings.keys_dir, settings.private_key, lambda: 0).signed_list().text()


def test_each_party_believes_the_keys_of_all_others_and_none_of_its_own(cluster: Cluster) -> None:
    exchange_keys(cluster)
    keys = {party_id: tls_keys(cluster, party_id) for party_id in PARTIES}
    for party_id, others in keys.items():
        assert set(others) == set(PARTIES) - {party_id}
    assert keys["9999"]["10001"] == keys["10000"]["10001"]
    assert len({keys["9999"]["10000"], keys["9999"]["10001"], keys["10000"]["9999"]}) == 3
    assert load_settings(cluster.conf_path("9999")).client_keys is not None      # as after a first start
    for path in cluster.root.glob("*/keys/*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE((cluster.home("9999") / "fate_flow.sqlite").stat().st_mode) == 0o600


def test_keys_that_are_there_are_kept(cluster: Cluster) -> None:
    exchange_keys(cluster)
    before = {party_id: (own_list(cluster, party_id), tls_keys(cluster, party_id)) for party_id in PARTIES}
    exchange_keys(cluster)
    assert {party_id: (own_list(cluster, party_id), tls_keys(cluster, party_id)) for party_id in PARTIES} == before


@pytest.mark.parametrize("state", [KeyState.REVOKED, KeyState.REMOVED])
def test_a_party_that_was_revoked_or_removed_stays_so(cluster: Cluster, state: KeyState) -> None:
    exchange_keys(cluster)
    with stored_at(cluster, "9999") as tx:
        assert tx.move_party_keys("10000", KeyState.JOINED, state, "ann", 1)
    exchange_keys(cluster)
    with stored_at(cluster, "9999") as tx:
        states = {one.party_id: (one.state, one.state_by) for one in tx.all_party_keys()}
    assert states == {"10000": (state, "ann"), "10001": (KeyState.JOINED, "bin/cluster")}


def test_a_cluster_is_one_once_its_keys_were_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever kills the command before leaves no cluster, so that the next one begins from the beginning."""
    steps: list[tuple[str, bool]] = []

    def step(name: str) -> Callable[..., None]:
        return lambda *_: steps.append((name, (tmp_path / "cluster.json").exists()))

    monkeypatch.setattr(cluster_processes, "_exchange_keys", step("exchange"))
    monkeypatch.setattr(cluster_processes, "start_parties", step("start"))
    for _ in range(2):
        made = cluster_processes.bring_up(tmp_path, ("9999", "10000"), {"base_port": 27300})
    assert steps == [("exchange", False), ("start", True), ("start", True)]
    assert Cluster.read(tmp_path) == made


def test_what_cannot_be_used_is_named_with_its_party(cluster: Cluster) -> None:
    tls = cluster.home("10000") / "keys" / "tls.pem"
    tls.parent.mkdir(parents=True)
    tls.write_text("no key")
    tls.chmod(0o600)
    with pytest.raises(ClusterError, match=r"party 10000: .*tls\.pem: "):
        exchange_keys(cluster)
