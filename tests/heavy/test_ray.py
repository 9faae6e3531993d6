"""A real Ray: what the engine relies on, and jobs of two parties, one of which runs its workers there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit.engines.ray_checks import CHECKS, JobsApi
from tests.kit.engines.ray_head import CORES, STOP_SECONDS, RayHead, running_ray
from tests.kit.servers.engine_site import POLITE
from tests.kit.servers.lending import a_root
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, running_cluster, toy
from tests.kit.servers.programs import command, printed, workers
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

ROLES = {"guest": [GUEST], "host": [HOST]}
RAY_PROGRAM = """
import os, ray

ray.init(log_to_driver=False)

@ray.remote
def square(number):
    return number * number

found = sum(ray.get([square.remote(number) for number in range(5)]))
print(os.environ["FATE_FLOW_RAY_ADDRESS"], ray.get_runtime_context().gcs_address, found)
"""


@pytest.fixture(scope="module")
def ray(python_of: Callable[[str], Path]) -> Iterator[RayHead]:
    with running_ray(python_of("ray")) as head:
        yield head


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_jobs_api_is_as_the_engine_knows_it(
    check: Callable[[JobsApi], None], ray: RayHead, tmp_path: Path
) -> None:
    check(JobsApi(ray.client, tmp_path, CORES, STOP_SECONDS))


@dataclass(frozen=True)
class Parties:
    """A guest with workers on its own machine and a host with workers on Ray; programs of both know the same Ray."""

    cluster: Cluster
    ray: RayHead
    ray_python: str         # a program: a Python with Ray

    def worker(self, job_id: str) -> Mapping[str, Any]:
        """The row of the only worker of the host."""
        [row] = workers(self.cluster.host, job_id)
        assert row["f_engine"] == "cluster"
        return row

    def shown(self, job_id: str) -> Mapping[str, Any]:
        """What Ray shows of the only worker of the host."""
        worker_id, jobs = self.worker(job_id)["f_worker_id"], JobsApi(self.ray.client, Path(), 0, 0).listed()
        [found] = [one for name, one in jobs.items() if name.endswith(worker_id)]
        return found

    def running(self, code: str) -> str:
        """The id of a job with this program at the host, once that has printed a line."""
        job_id = self.cluster.submit(command(ROLES, {
            "guest": {"0": {"command": ["/bin/true"]}}, "host": {"0": {"command": [sys.executable, "-c", code]}},
        }))  # fmt: skip
        self.cluster.host.worker_of(job_id, "train")
        eventually(lambda: printed(self.cluster.host, job_id) == "ready\n")
        return job_id


@pytest.fixture(scope="module")
def parties(ray: RayHead, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parties]:
    root = a_root(tmp_path_factory)
    program = tmp_path_factory.mktemp("programs") / "ray-python"
    program.write_text(f"#!/bin/sh\nexec {ray.python} \"$@\"\n")
    program.chmod(0o700)
    rules = {"commands": {"enabled": True, "allow": [str(program), sys.executable, "/bin/true"], "share_logs": True}}
    engine = {
        "kind": "ray", "default": True, "cores": 20, "gpus": 2, "poll_seconds": 0.5, "settle_seconds": 30,
        "address": ray.address, "token_file": str(ray.token_file),
    }  # fmt: skip
    of_programs = {"ray_address": ray.gcs_address, "ray_token_file": str(ray.token_file)}
    overlays = {
        GUEST: {**rules, "engines": {"local": {"cores": 20, **of_programs}}, "fate_on_standalone": None},
        HOST: {**rules, "engines": {"cluster": engine}},
    }  # fmt: skip
    with running_cluster(root, (GUEST, HOST), base_port=BASE_PORT + 200, overlays=overlays) as found:
        yield Parties(found, ray, str(program))


def test_a_job_of_two_parties_succeeds_with_one_of_them_on_ray(parties: Parties) -> None:
    job_id = parties.cluster.run(toy())
    eventually(lambda: parties.shown(job_id)["status"] == "SUCCEEDED")
    parties.cluster.check_idle()


def test_programs_of_users_have_the_ray_of_their_party(parties: Parties) -> None:
    """One runs as a job of Ray, the other one beside its server."""
    job_id = parties.cluster.run(command(ROLES, command=[parties.ray_python, "-c", RAY_PROGRAM]))
    parties.worker(job_id)
    for party in (parties.cluster.guest, parties.cluster.host):
        assert printed(party, job_id) == f"{parties.ray.gcs_address} {parties.ray.gcs_address} 30\n"


def test_a_program_sees_its_gpus_and_its_exit_code_is_that_of_its_job(parties: Parties) -> None:
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES']); exit(3)"
    document = command(ROLES, {
        "guest": {"0": {"command": ["/bin/true"]}}, "host": {"0": {"command": [sys.executable, "-c", code]}},
    })  # fmt: skip
    document["job_runtime_conf"]["job_parameters"]["role"] = {"host": {"0": {"task_gpus": 1}}}
    job_id = parties.cluster.submit(document)
    parties.cluster.wait(job_id, "failed")
    assert parties.worker(job_id)["f_exit_status"] == "exit code 3"
    assert printed(parties.cluster.host, job_id) in ("0\n", "1\n")
    eventually(lambda: parties.shown(job_id)["driver_exit_code"] == 3)


def test_a_worker_survives_kill_9_of_its_server_and_is_stopped_with_grace(parties: Parties) -> None:
    job_id = parties.running(POLITE)
    parties.cluster.kill(HOST)
    parties.cluster.start(HOST)
    parties.cluster.guest.ask("job/stop", {"job_id": job_id})
    parties.cluster.wait(job_id, "canceled")
    assert printed(parties.cluster.host, job_id) == "ready\ndone\n"
    assert parties.worker(job_id)["f_exit_status"] == "exit code 5"
    parties.cluster.check_idle()


def test_workers_end_with_ray_and_others_run_on_the_head_after_it(parties: Parties) -> None:
    """The head forgets all. A job that is submitted while there is none waits for it."""
    job_id = parties.running(POLITE)
    parties.ray.kill()
    parties.cluster.wait(job_id, "failed")
    assert printed(parties.cluster.host, job_id) == "ready\ndone\n", "the worker was stopped with its grace"
    waiting = parties.cluster.submit(toy())
    eventually(lambda: workers(parties.cluster.host, waiting))
    parties.ray.start()
    parties.cluster.wait(waiting, "success")
    parties.cluster.check_idle()
