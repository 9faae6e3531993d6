"""A real server with staged workers is killed while it gives and while it takes: nothing is lost or done twice."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fate_flow.cli.server.cluster_plan import Ports
from tests.kit.engines.fake_kubernetes import FakeKubernetes
from tests.kit.servers.lending import a_root
from tests.kit.servers.party_servers import BASE_PORT, GUEST, Cluster, running_cluster
from tests.kit.servers.programs import PYTHON, command, python, workers
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.timeout(600), pytest.mark.heavy]

GIVEN = os.urandom(5_000_000)           # five pieces
COPIES = "import shutil; shutil.copy('given', 'model.bin')"
STOPS = """
import os, signal, sys
counts = {{"file": 0, "put": 0}}
def stops(event, args):
    if event != "http.client.send" or not isinstance(args[1], bytes):
        return
    for what in counts:
        if args[1].startswith(b"POST /v1/staged/") and f"/{{what}}".encode() in args[1].split(b" ")[1]:
            counts[what] += 1
            if counts[what] == 3 and not os.path.exists(mark := os.path.join({marks!r}, what)):
                with open(mark + ".new", "w") as file:
                    file.write(str(os.getpid()))
                os.rename(mark + ".new", mark)
                os.kill(os.getpid(), signal.SIGSTOP)
sys.addaudithook(stops)
"""
"""Stops each agent once before the third piece that it fetches, and before the third that it sends."""


@pytest.fixture
def far(tmp_path: Path) -> Path:
    """The other hosts: the volumes of pods, and `marks`."""
    for name in ("marks", "site", "shared"):
        (tmp_path / name).mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(STOPS.format(marks=str(tmp_path / "marks")))
    (tmp_path / "shared" / "given").write_bytes(GIVEN)
    return tmp_path


@pytest.fixture
def kubernetes(far: Path) -> Iterator[tuple[FakeKubernetes, Path]]:
    package = Path(__file__).parents[3]
    fake = FakeKubernetes(far, {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(far),
        "PYTHONPATH": f"{far / 'site'}:{package}", "PYTHONDONTWRITEBYTECODE": "1",
    })  # fmt: skip
    with fake.serving() as kubeconfig:
        yield fake, kubeconfig


@pytest.fixture
def cluster(
    far: Path, kubernetes: tuple[FakeKubernetes, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    ports = Ports()
    port = next(filter(ports.is_free, range(BASE_PORT + 280, 65536)))
    ports.close()
    overlay: dict[str, Any] = {
        "commands": {"enabled": True, "allow": [PYTHON], "files_root": str(far / "shared")},
        "engines": {"pods": {
            "kind": "kubernetes", "default": True, "cores": 4, "memory": 1000, "image": "i", "namespace": "fate",
            "kubeconfig": str(kubernetes[1]), "poll_seconds": 0.3, "settle_seconds": 2,
        }},
        "fateflow": {"worker_listen": {"host": "127.0.0.1", "port": port}},
        "limits": {"poll_interval": 1},
    }  # fmt: skip
    root = a_root(tmp_path_factory)
    with running_cluster(root, (GUEST,), base_port=BASE_PORT + 260, overlays={GUEST: overlay}) as found:
        yield found


def test_a_server_that_is_killed_while_it_gives_and_while_it_takes_loses_nothing(
    cluster: Cluster, far: Path, kubernetes: tuple[FakeKubernetes, Path]
) -> None:
    fake, _ = kubernetes
    given = {"files": [{"name": "given", "path": "given"}], "outputs": [{"name": "model", "path": "model.bin"}]}
    job_id = cluster.submit(command({"guest": [GUEST]}, command=python(COPIES), **given))
    for what in ("file", "put"):
        mark = far / "marks" / what
        eventually(mark.exists, lambda: "\n".join(fake.output))
        cluster.kill(GUEST)
        os.kill(int(mark.read_text()), signal.SIGCONT)
        cluster.start(GUEST)
    cluster.wait(job_id, "success")
    assert fake.asked.count("POST jobs") == len(workers(cluster.guest, job_id))
    [made] = (cluster.guest.home / "jobs" / job_id).rglob("work/model.bin")
    assert made.read_bytes() == GIVEN
    assert [row["f_task_version"] for row in cluster.guest.tasks(job_id)] == [0]
