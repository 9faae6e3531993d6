"""Two real parties and the genuine client, once for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.genuine.genuine_client import Flow, GenuineClient
from tests.genuine.locked import CONF, OPEN_CONF
from tests.genuine.world import World, the_world
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, PartyServer, running_cluster

PYTHON = "FATE_FLOW_TEST_FATE_CLIENT"


@pytest.fixture(scope="session")
def genuine_python() -> Path:
    """The Python of an environment that has the client."""
    python = os.environ.get(PYTHON)
    if not python:
        pytest.skip(f"{PYTHON} names no Python that has fate_client (bin/test makes an environment with it)")
    return Path(python)


@pytest.fixture(scope="session")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root = tmp_path_factory.mktemp("genuine") / "two parties"       # a blank in every path
    overlays = dict.fromkeys((GUEST, HOST), OPEN_CONF)
    with running_cluster(
        root, (GUEST, HOST), base_port=BASE_PORT + 80, overlays=overlays, has_many_jobs=True
    ) as cluster:
        yield cluster
        cluster.check_idle()


@pytest.fixture(scope="session")
def locked_parties(genuine_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A guest that has keys in its configuration, and a host with those that it made at its first start."""
    root = tmp_path_factory.mktemp("locked") / "two parties"
    with running_cluster(root, (GUEST, HOST), base_port=BASE_PORT + 90, overlays={GUEST: CONF}) as cluster:
        yield cluster
        cluster.check_idle()


@pytest.fixture(scope="session")
def locked(locked_parties: Cluster) -> PartyServer:
    """A guest, with a host, that wants signed requests."""
    return locked_parties.guest


@pytest.fixture(scope="session")
def world(parties: Cluster, tmp_path_factory: pytest.TempPathFactory) -> World:
    return the_world(parties, tmp_path_factory.mktemp("files of the client"))


@pytest.fixture(scope="session")
def genuine(genuine_python: Path, world: World, tmp_path_factory: pytest.TempPathFactory) -> GenuineClient:
    """A client that talks to the guest's server."""
    client = GenuineClient(genuine_python, tmp_path_factory.mktemp("genuine client"))
    assert client.init(world.guest.url).document["retcode"] == 0
    return client


@pytest.fixture(scope="session")
def forked(genuine: GenuineClient) -> Iterator[Flow]:
    """Its `flow`, for many commands."""
    with genuine.forked_flow() as run:
        yield run
