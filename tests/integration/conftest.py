"""Real party servers for the tests of this folder, started once for all of them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from party_servers import BASE_PORT, GUEST, HOST, OTHER, Cluster, dropped_databases, running_cluster

MYSQL = "FATE_FLOW_TEST_MYSQL_URL"
PARTIES = (GUEST, HOST, OTHER)
SOON_AT_REST = {party_id: {"limits": {"long_backoff": 1}} for party_id in PARTIES}
"""A retry that is due in more than a second gives the cores back."""


def a_root(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("servers") / "of three parties"     # a blank in every path


@pytest.fixture(scope="session")
def sqlite_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(a_root(tmp_path_factory), PARTIES, overlays=SOON_AT_REST) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def mariadb_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    server = os.environ.get(MYSQL)
    if not server:
        pytest.skip(f"{MYSQL} names no MySQL or MariaDB server (bin/test starts one)")
    template = f"{server.rstrip('/')}/flow_{secrets.token_hex(4)}_{{party_id}}"
    root = a_root(tmp_path_factory)
    with (
        dropped_databases(template, PARTIES),
        running_cluster(root, PARTIES, template, base_port=BASE_PORT + 10, overlays=SOON_AT_REST) as cluster,
    ):
        yield cluster


@pytest.fixture(params=["sqlite", pytest.param("mariadb", marks=pytest.mark.mariadb)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three parties on each database; after a test all of them are idle again."""
    with lent(request.getfixturevalue(f"{request.param}_servers"), request.node.nodeid) as servers:
        yield servers


@pytest.fixture
def on_sqlite(sqlite_servers: Cluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The same on SQLite alone."""
    with lent(sqlite_servers, request.node.nodeid) as servers:
        yield servers


@contextmanager
def lent(servers: Cluster, borrower: str) -> Iterator[Cluster]:
    """The servers for one test, which has to give them back idle: else nobody gets them any more."""
    if servers.spoiled_by:
        pytest.fail(f"{servers.spoiled_by} left these servers at work")
    servers.spoiled_by = borrower
    yield servers
    servers.check_idle()
    servers.spoiled_by = ""
