"""One Slurm, and two parties with it, for all tests of this folder, which run in one process (tests/division.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fate_flow.cli.server.cluster_plan import Ports
from tests.kit.engines.staged_host import python_that_opens_nothing_below
from tests.kit.servers.lending import a_root
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, running_cluster
from tests.kit.servers.programs import PYTHON
from tests.kit.slurm.cluster import GPUS, OTHER_NODE, SlurmCluster, running_slurm
from tests.kit.slurm.silent_node import python_without_network


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    with running_slurm() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def healthy(slurm: SlurmCluster) -> None:
    """A controller that was killed may come back with nodes as they were before."""
    slurm.heal()


@pytest.fixture(scope="session")
def commands(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return slurm.commands_that_may_fail(tmp_path_factory.mktemp("commands") / "bin")


@pytest.fixture(scope="session")
def cluster(commands: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    engine: dict[str, Any] = {
        "kind": "slurm", "default": True, "cores": 20, "memory": 4000, "commands": str(commands), "partition": "main",
        "poll_seconds": 0.3, "settle_seconds": 2, "longest_pending": 600,
        "labels": {"second": OTHER_NODE, "here": "here", "gone": "of_no_node"},
    }  # fmt: skip
    engine["gpus"] = 2 * GPUS
    on_silent_node = str(python_without_network(commands.with_name("silent")))
    silent = {**engine, "default": False, "gpus": 0, "python": on_silent_node}
    root, away = a_root(tmp_path_factory), commands.with_name("far")
    (away / "scratch").mkdir(parents=True)
    far = {**engine, "default": False, "gpus": 0, "shared_home": False, "scratch": str(away / "scratch"),
           "python": str(python_that_opens_nothing_below(root, away))}  # fmt: skip
    engines = {
        "engines": {"cluster": engine, "silent": silent, "far": far},
        "queues": {"beside": {"engine": "local"}, **{one: {"engine": one} for one in ("silent", "far")}},
    }
    ports = Ports()
    port = next(filter(ports.is_free, range(BASE_PORT + 270, 65536)))
    ports.close()
    listener = {"fateflow": {"worker_listen": {"host": "127.0.0.1", "port": port}}}
    programs = {"commands": {"enabled": True, "allow": [PYTHON, "/usr/bin/sleep", "/bin/sleep"]}}
    limits = {"limits": {"long_backoff": 1, "poll_interval": 1, "retry_wait": 1, "server_silence": 45}}
    overlays: dict[str, Any] = {
        GUEST: {**programs, **limits}, HOST: {**programs, **limits, **engines, **listener}
    }
    with running_cluster(root, (GUEST, HOST), base_port=BASE_PORT + 250, overlays=overlays) as found:
        yield found
