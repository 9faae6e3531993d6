"""A real Ray: what the engine relies on, and jobs of two parties, one of which runs its workers there."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fate_flow.cli.server.cluster_plan import Ports
from fate_flow.engines.staged.pinned import PinnedClient, ServerAt
from fate_flow.engines.staged.places import ADDRESS, CLAIM, PIN
from tests.kit.engines.ray_checks import CHECKS, MOST, JobsApi
from tests.kit.engines.ray_head import CORES, STOP_SECONDS, RayHead, running_ray
from tests.kit.engines.staged_host import python_that_opens_nothing_below
from tests.kit.servers.engine_site import POLITE
from tests.kit.servers.lending import a_root
from tests.kit.servers.party_servers import BASE_PORT, GUEST, HOST, Cluster, running_cluster, toy
from tests.kit.servers.programs import command, printed, workers
from tests.kit.slurm.jobs import with_host_parameters
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

ROLES = {"guest": [GUEST], "host": [HOST]}
AWAY = """
import os, pathlib, signal, sys
def leave(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)      # both Ray and the runner send one; Python ends without a handler
    said = [name for name, text in os.environ.items() if "STAGED_CLAIM" in name + text or "STAGED_TOKEN" in name + text]
    print(said, os.getcwd(), flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, leave)
pathlib.Path("model.bin").write_bytes(b"m" * 3_000_000)
print("ready", flush=True)
signal.pause()
"""
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

    scratch: Path           # of the nodes of the engine `far`, which do not see the home

    def worker(self, job_id: str, engine: str = "cluster") -> Mapping[str, Any]:
        """The row of the only worker of the host."""
        [row] = workers(self.cluster.host, job_id)
        assert row["f_engine"] == engine
        return row

    def shown(self, job_id: str, engine: str = "cluster") -> Mapping[str, Any]:
        """What Ray shows of the only worker of the host."""
        worker_id, jobs = self.worker(job_id, engine)["f_worker_id"], JobsApi(self.ray.client, Path(), 0, 0).listed()
        [found] = [one for name, one in jobs.items() if name.endswith(worker_id)]
        return found

    def running(self, code: str, engine: str = "cluster") -> str:
        """The id of a job with this program at the host, once that has printed a line."""
        job_id = self.cluster.submit(on(engine, command(ROLES, {
            "guest": {"0": {"command": ["/bin/true"]}}, "host": {"0": {"command": [sys.executable, "-c", code]}},
        })))  # fmt: skip
        self.cluster.host.worker_of(job_id, "train")
        eventually(lambda: printed(self.cluster.host, job_id) == "ready\n")
        return job_id


def on(engine: str, document: dict[str, Any], task: str = "train") -> dict[str, Any]:
    """A job whose task runs on this engine at the host."""
    return with_host_parameters(document, task_conf={task: {"queue": engine}}) if engine != "cluster" else document


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
    away = tmp_path_factory.mktemp("far")
    python, scratch = python_that_opens_nothing_below(root, away / "node"), away / "scratch"
    scratch.mkdir()
    far = {
        **engine, "default": False, "gpus": 0, "shared_home": False, "scratch": str(scratch), "python": str(python),
    }  # fmt: skip
    ports = Ports()
    listener = {"host": "127.0.0.1", "port": next(filter(ports.is_free, range(BASE_PORT + 270, 65536)))}
    ports.close()
    of_programs = {"ray_address": ray.gcs_address, "ray_token_file": str(ray.token_file)}
    overlays = {
        GUEST: {**rules, "engines": {"local": {"cores": 20, **of_programs}}, "fate_on_standalone": None},
        HOST: {
            **rules, "engines": {"cluster": engine, "far": far}, "queues": {"far": {"engine": "far"}},
            "fateflow": {"worker_listen": listener},
        },
    }  # fmt: skip
    with running_cluster(root, (GUEST, HOST), base_port=BASE_PORT + 200, overlays=overlays) as found:
        yield Parties(found, ray, str(program), scratch)


@pytest.mark.parametrize("engine", ["cluster", "far"])
def test_a_job_of_two_parties_succeeds_with_one_of_them_on_ray(parties: Parties, engine: str) -> None:
    job_id = parties.cluster.run(on(engine, toy(), "toy_0"))
    eventually(lambda: parties.shown(job_id, engine)["status"] == "SUCCEEDED")
    parties.cluster.check_idle()


@pytest.mark.parametrize("engine", ["cluster", "far"])
def test_programs_of_users_have_the_ray_of_their_party(parties: Parties, engine: str) -> None:
    """One runs as a job of Ray, the other one beside its server."""
    job_id = parties.cluster.run(on(engine, command(ROLES, command=[parties.ray_python, "-c", RAY_PROGRAM])))
    parties.worker(job_id, engine)
    for party in (parties.cluster.guest, parties.cluster.host):
        assert printed(party, job_id) == f"{parties.ray.gcs_address} {parties.ray.gcs_address} 30\n"


def test_what_whoever_reads_jobs_in_ray_can_see_opens_nothing(parties: Parties) -> None:
    """The nodes do not see the home. A worker there is stopped with its grace, and nothing of it stays."""
    asked = [str(parties.scratch.with_name("node") / "python"), "-c", "import os, sys; os.listdir(sys.argv[1])"]
    done = subprocess.run([*asked, f"{parties.cluster.host.home}/jobs"], capture_output=True, text=True, check=False)
    assert "PermissionError: this host has no " in done.stderr, "its agents see the home"
    job_id = parties.running(AWAY, "far")
    shown = parties.shown(job_id, "far")
    claim, variables = shown["metadata"][CLAIM], shown["runtime_env"]["env_vars"]
    at, worker_id = ServerAt.of(variables[ADDRESS], variables[PIN]), parties.worker(job_id, "far")["f_worker_id"]
    thief = PinnedClient(at, claim)
    for what, status in (("manifest", 401), ("claim", 401), ("redeem", 503)):
        answer = thief.ask("POST", f"/v1/staged/{worker_id}/{what}", body=b"{}", fields={"X-Staged-Runner": "f" * 32})
        assert answer.status == status, answer.text
        assert claim not in answer.text
    thief.close()
    parties.cluster.guest.ask("job/stop", {"job_id": job_id})
    parties.cluster.wait(job_id, "canceled")
    assert printed(parties.cluster.host, job_id).startswith(f"ready\n[] {parties.scratch}/")
    assert parties.worker(job_id, "far")["f_exit_status"] == "exit code 5"
    [model] = parties.cluster.host.home.glob(f"jobs/{job_id}/**/model.bin")
    assert model.read_bytes() == b"m" * 3_000_000
    eventually(lambda: not [one for one in parties.scratch.rglob("*") if one.parent != parties.scratch])
    parties.cluster.check_idle()


def test_the_metadata_of_a_job_are_in_fewer_places_than_its_environment(ray: RayHead, tmp_path: Path) -> None:
    """Whoever has the token of Ray sees both, while the job is listed. Other users of the node see its environment."""
    api = JobsApi(ray.client, tmp_path, CORES, STOP_SECONDS)
    variable, metadata = "VALUE-OF-A-VARIABLE", "VALUE-OF-THE-METADATA"
    name = api.submitted("echo begun > begun; sleep 60", variables={"MINE": variable}, metadata={"mine": metadata})
    api.written("begun")

    def shown(path: str) -> tuple[bool, bool]:
        answer = api.client.get(path, MOST)
        assert answer.status == 200, answer.text
        return variable in answer.text, metadata in answer.text

    assert shown("/api/jobs/") == (True, True)
    assert shown("/api/v0/runtime_envs") == (True, False)
    texts = [one.read_bytes() for one in ray.folder.rglob("*") if one.is_file() and _is_read_by_all(one)]
    assert [any(one.encode() in text for text in texts) for one in (variable, metadata)] == [True, False]
    api.stop(name)
    api.becomes(name, "STOPPED")
    eventually(lambda: api.client.delete(f"/api/jobs/{name}", MOST).status == 200)
    assert shown("/api/jobs/") == (False, False)
    assert shown("/api/v0/actors?detail=1") == (True, False)


def _is_read_by_all(path: Path) -> bool:
    """By every user of the machine: Ray opens its folders to them."""
    return bool(path.stat().st_mode & stat.S_IROTH)


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


@pytest.mark.parametrize("engine", ["cluster", "far"])
def test_a_worker_survives_kill_9_of_its_server_and_is_stopped_with_grace(parties: Parties, engine: str) -> None:
    job_id = parties.running(POLITE, engine)
    parties.cluster.kill(HOST)
    parties.cluster.start(HOST)
    parties.cluster.guest.ask("job/stop", {"job_id": job_id})
    parties.cluster.wait(job_id, "canceled")
    assert printed(parties.cluster.host, job_id) == "ready\ndone\n"
    assert parties.worker(job_id, engine)["f_exit_status"] == "exit code 5"
    parties.cluster.check_idle()


@pytest.mark.parametrize("engine", ["cluster", "far"])
def test_workers_end_with_ray_and_others_run_on_the_head_after_it(parties: Parties, engine: str) -> None:
    """The head forgets all. A job that is submitted while there is none waits for it."""
    job_id = parties.running(POLITE, engine)
    parties.ray.kill()
    parties.cluster.wait(job_id, "failed")
    assert printed(parties.cluster.host, job_id) == "ready\ndone\n", "the worker was stopped with its grace"
    waiting = parties.cluster.submit(on(engine, toy(), "toy_0"))
    eventually(lambda: workers(parties.cluster.host, waiting))
    parties.ray.start()
    parties.cluster.wait(waiting, "success")
    parties.cluster.check_idle()
