"""A server that wants signed requests, and the genuine client, whose `APP_KEY` has to get through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fate_flow.settings.client_keys import read_client_keys
from tests.genuine.genuine_client import Flow, GenuineClient, init
from tests.genuine.locked import ANOTHER_SECRET, APP_KEY, KEYS, SECRET, WRONG
from tests.genuine.world import World
from tests.kit.servers.party_servers import GUEST, HOST, Cluster, PartyServer, csv_text
from tests.kit.site_keys import write_private_key

pytestmark = pytest.mark.timeout(900)

ROWS = csv_text(["id", "x"], {f"id{number}": [number] for number in range(3)})


@pytest.fixture(scope="module")
def client(genuine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> GenuineClient:
    return GenuineClient(genuine_python, tmp_path_factory.mktemp("a client"))


@pytest.fixture(scope="module")
def any_flow(client: GenuineClient) -> Iterator[Flow]:
    with client.forked_flow() as run:
        yield run


@pytest.fixture
def flow(any_flow: Flow) -> Flow:
    """`flow` that knows no server yet."""
    assert "reset successfully" in any_flow("init", "--reset").document["retmsg"]
    return any_flow


def test_without_keys_and_with_wrong_ones_nothing_is_said(locked: PartyServer, flow: Flow) -> None:
    flow(*init(locked.url))
    said = flow("job", "list").document
    assert (said["retcode"], "data" in said) == (109, False)
    flow(*init(locked.url, *WRONG))
    assert flow("job", "list").document["retcode"] == 109
    assert flow("job", "log", "-j", "20260101120000", "-o", ".").document["retcode"] == 403


def test_the_genuine_flow_signs(locked: PartyServer, client: GenuineClient, flow: Flow, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(ROWS)
    (tmp_path / "upload.json").write_text(
        f'{{"file": "{tmp_path}/n.csv", "head": 1, "partition": 1, "namespace": "a & 9%", "table_name": "n+1 = 2"}}'
    )
    assert client.init(locked.url, *KEYS).document["retcode"] == 0
    assert client.flow("job", "list").document["retcode"] == 0
    for text in ("job list", "queue clean", "server versions", "table info -n it -t x"):
        assert flow(*text.split()).document["retcode"] == 0, text
    uploaded = flow("data", "upload", "-c", str(tmp_path / "upload.json")).document
    assert uploaded["retcode"] == 0
    locked.wait(uploaded["jobId"], "success")
    seat = ("-j", uploaded["jobId"], "-r", "local", "-p", "0", "-cpn", "upload_0", "-o", str(tmp_path / "out"))
    assert flow("component", "output-data", *seat).document["retcode"] == 0


def test_the_genuine_flow_signs_the_fields_of_a_form(locked: PartyServer, flow: Flow, world: World) -> None:
    flow(*init(locked.url, *KEYS))
    said = flow("model", "import", "-c", str(world.files / "model.json")).document
    assert (said["retcode"], "is not an exported model" in said["retmsg"]) == (101, True)
    assert not list((locked.home / "uploads").glob("*"))


def test_keys_of_parties_are_saved_by_who_signs(locked: PartyServer, flow: Flow, tmp_path: Path) -> None:
    pem = write_private_key(tmp_path / "site.pem", 1).public.pem
    (tmp_path / "key.json").write_text(json.dumps({"party_id": HOST, "key": pem}))
    for keys, retcode in ((WRONG, 109), (KEYS, 0)):
        flow(*init(locked.url, *keys))
        assert flow("key", "save", "-c", str(tmp_path / "key.json")).document["retcode"] == retcode
        assert flow("key", "query", "-p", HOST).document.get("data") == (None if retcode else pem)
        assert flow("key", "delete", "-p", HOST).document["retcode"] == retcode


def test_a_configuration_that_has_the_keys_is_enough(locked: PartyServer, flow: Flow) -> None:
    flow("init", "-c", str(locked.home / "conf" / "service_conf.yaml"))
    assert flow("job", "list").document["retcode"] == 0


def test_keys_that_a_server_has_made(locked_parties: Cluster, flow: Flow) -> None:
    keys = read_client_keys(locked_parties.host.home)
    assert keys is not None
    flow(*init(locked_parties.host.url, "--app-key", keys.app_key, "--secret-key", keys.secret_key))
    assert flow("job", "list").document["retcode"] == 0
    flow(*init(locked_parties.host.url, *KEYS))
    assert flow("job", "list").document["retcode"] == 109


def test_parties_work_together_all_the_same(locked: PartyServer, flow: Flow) -> None:
    flow(*init(locked.url, *KEYS))
    printed = flow("test", "toy", "-gid", GUEST, "-hid", HOST)
    assert printed.out.rstrip().endswith("success to calculate secure_sum, it is 2000"), printed


def test_the_genuine_sdk_signs(locked: PartyServer, client: GenuineClient) -> None:
    with client.sdk(locked.url, APP_KEY, SECRET) as call:
        for method in ("job.list", "job.query", "queue.clean"):      # the second one sends {} and signs nothing
            assert call(method, {})["retcode"] == 0
    with client.sdk(locked.url, APP_KEY, ANOTHER_SECRET) as call:
        assert call("job.list", {})["retcode"] == 109
