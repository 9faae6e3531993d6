"""Real party servers for the tests of this folder, started once for all of them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from party_servers import BASE_PORT, GUEST, HOST, OTHER, Cluster, running_cluster

MYSQL = "FATE_FLOW_TEST_MYSQL_URL"


def a_root(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("servers", numbered=True) / "of three parties"     # a blank in every path


@pytest.fixture(scope="session")
def sqlite_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(a_root(tmp_path_factory), (GUEST, HOST, OTHER)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def mariadb_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    server = os.environ.get(MYSQL)
    if not server:
        pytest.skip(f"{MYSQL} names no MySQL or MariaDB server (bin/test starts one)")
    template = f"{server.rstrip('/')}/flow_{secrets.token_hex(4)}_{{party_id}}"
    with running_cluster(a_root(tmp_path_factory), (GUEST, HOST, OTHER), template, BASE_PORT + 10) as cluster:
        yield cluster


@pytest.fixture(params=["sqlite", pytest.param("mariadb", marks=pytest.mark.mariadb)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three parties on each database; after a test all of them are idle again."""
    servers: Cluster = request.getfixturevalue(f"{request.param}_servers")
    servers.check_idle()
    yield servers
    servers.check_idle()


@pytest.fixture
def on_sqlite(sqlite_servers: Cluster) -> Iterator[Cluster]:
    """The same on SQLite alone."""
    sqlite_servers.check_idle()
    yield sqlite_servers
    sqlite_servers.check_idle()
