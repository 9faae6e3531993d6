"""What the tests of this folder run against: party servers, which all tests of a process share, or an engine alone."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.kit.servers.engine_site import Site
from tests.kit.servers.lending import LIMITS, PARTIES, Servers, a_root
from tests.kit.servers.mariadb import dropped_databases, mariadb_url
from tests.kit.servers.party_servers import BASE_PORT, Cluster, running_cluster


@pytest.fixture(scope="session")
def sqlite_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    def start() -> AbstractContextManager[Cluster]:
        return running_cluster(a_root(tmp_path_factory), PARTIES, overlays=LIMITS, has_many_jobs=True)

    with Servers(start) as servers:
        yield servers


@pytest.fixture(scope="session")
def mariadb_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    server = mariadb_url()

    @contextmanager
    def start() -> Iterator[Cluster]:
        template = f"{server}/flow_{secrets.token_hex(4)}_{{party_id}}"
        root = a_root(tmp_path_factory)
        with (
            dropped_databases(template, PARTIES),
            running_cluster(
                root, PARTIES, template, base_port=BASE_PORT + 10, overlays=LIMITS, has_many_jobs=True
            ) as cluster,
        ):
            yield cluster

    with Servers(start) as servers:
        yield servers


@pytest.fixture(params=["sqlite", pytest.param("mariadb", marks=pytest.mark.mariadb)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three parties on each database; after a test all of them are idle again."""
    servers: Servers = request.getfixturevalue(f"{request.param}_servers")
    with servers.lent(request.node.nodeid) as found:
        yield found


@pytest.fixture
def on_sqlite(sqlite_servers: Servers, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The same on SQLite alone."""
    with sqlite_servers.lent(request.node.nodeid) as found:
        yield found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """An engine with a running spawner; no worker of it outlives the test."""
    site = Site(tmp_path)
    site.start_spawner()
    yield site
    site.close()


@pytest.fixture
def executed(tmp_path: Path) -> Iterator[Site]:
    """The same with a spawner that is no fork."""
    site = Site(tmp_path)
    site.execute_spawner()
    yield site
    site.close()
