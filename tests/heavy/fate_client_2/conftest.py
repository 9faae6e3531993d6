"""Two real parties and the genuine client of FATE 2, once for all tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.genuine.genuine_client import OF_FATE_2, Flow, GenuineClient, init
from tests.genuine.locked import OPEN_CONF
from tests.genuine.world import NUMBERS, World, the_world
from tests.kit.fate.servers import fate_cluster
from tests.kit.servers.lending import PARTIES
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, running_cluster

FORKS = "flow_2_forks.py"


@pytest.fixture(scope="session")
def open_parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A guest and a host that require no signatures of clients, and have a provider with a component that trains."""
    root = tmp_path_factory.mktemp("fate 2") / "two parties"
    overlays = dict.fromkeys((GUEST, HOST), OPEN_CONF)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FATE_FLOW_TINY_PROVIDER", "1")
        with running_cluster(
            root, (GUEST, HOST), base_port=BASE_PORT + 160, overlays=overlays, has_many_jobs=True
        ) as cluster:
            yield cluster
            cluster.check_idle()


@pytest.fixture(scope="session")
def world(open_parties: Cluster, tmp_path_factory: pytest.TempPathFactory) -> World:
    files = tmp_path_factory.mktemp("files of the client")
    world = the_world(open_parties, files)
    (files / "numbers_2.csv").write_text(NUMBERS, encoding="utf-8")
    for name, component in (("dag", "secure_sum"), ("dag_magic", "magic")):
        (files / f"{name}.yaml").write_text(yaml.safe_dump(a_dag(component)), encoding="utf-8")
    for name, content in documents(world).items():
        (files / f"{name}_2.json").write_text(json.dumps(content), encoding="utf-8")
    return world


def a_dag(component: str) -> dict[str, object]:
    """A reader, and this component."""
    parties = [{"role": "guest", "party_id": [GUEST]}, {"role": "host", "party_id": [HOST]}]
    read = {"producer_task": "reader_0", "output_artifact_key": "data"}
    return {"schema_version": "2.2.0", "dag": {"parties": parties, "tasks": {
        "reader_0": {
            "component_ref": "reader", "parameters": {"table": {"namespace": "it", "name": "numbers"}},
            "outputs": {"data": {"data": {"output_artifact_key_alias": "data"}}},
        },
        "sum_0": {
            "component_ref": component, "parameters": {"column": "y"}, "dependent_tasks": ["reader_0"],
            "inputs": {"data": {"data": {"task_output_artifact": read}}},
        },
    }}}  # fmt: skip


def documents(world: World) -> dict[str, object]:
    """What files of commands have in them, by the name of the file."""
    numbers, meta = {"namespace": "it", "name": "numbers"}, {"delimiter": ",", "match_id_name": "id"}
    upload = {"head": True, "partitions": 2, "meta": meta, "namespace": "it", "name": "sent_2"}
    return {
        "provider": {"name": "fate", "device": "local", "version": "2.2.0", "metadata": {"path": "/", "venv": "/"}},
        "grant": {"party_id": HOST, "component": "reader", "dataset": [numbers]},
        "grant_magic": {"party_id": HOST, "component": "magic"},
        "upload": {**upload, "file": world.facts["here"]},
        "upload_secret": {**upload, "file": "/etc/passwd"},
        "upload_file": {**upload, "file": str(world.files / "numbers_2.csv"), "extend_sid": True},
        "upload_file_bad": {**upload, "file": str(world.files / "numbers_2.csv"), "partitions": "many"},
        "transformer": {"data_warehouse": numbers, "namespace": "it", "name": "copied_2"},
        "transformer_gone": {"data_warehouse": {**numbers, "name": "gone"}, "namespace": "it", "name": "copied_2"},
    }  # fmt: skip


@pytest.fixture(scope="session")
def python_of_client(python_of: Callable[[str], Path]) -> Path:
    return python_of("fate_client_2")


@pytest.fixture
def fresh_client(python_of_client: Path, tmp_path: Path) -> GenuineClient:
    """A client that knows no server yet."""
    return GenuineClient(python_of_client, tmp_path / "a client", OF_FATE_2)


@pytest.fixture(scope="session")
def flow_2(python_of_client: Path, world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flow]:
    """Its `flow`, which asks the guest's server."""
    client = GenuineClient(python_of_client, tmp_path_factory.mktemp("client of fate 2") / "a client", OF_FATE_2)
    with client.forked_flow(FORKS) as flow:
        assert flow(*init(world.guest.url)).document["code"] == 0
        yield flow


@pytest.fixture(scope="session")
def fate_parties(
    python_of: Callable[[str], Path], description_of_fate: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A guest, a host and an arbiter with FATE's components, which require no signatures of clients."""
    root, port = tmp_path_factory.mktemp("fate 2 with fate") / "three parties", BASE_PORT + 180
    with fate_cluster(root, PARTIES, python_of("fate"), description_of_fate, port, OPEN_CONF) as cluster:
        yield cluster
        cluster.check_idle()


@pytest.fixture
def client_of_fate(fresh_client: GenuineClient, fate_parties: Cluster) -> GenuineClient:
    """A client that asks the guest's server of these."""
    with fresh_client.forked_flow(FORKS) as flow:
        assert flow(*init(fate_parties.guest.url)).document["code"] == 0
    return fresh_client
