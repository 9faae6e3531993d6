"""A real Ray of one machine: a head with its dashboard and its Jobs API, with a token, in a folder of the test.

Ray binds some of its ports to all addresses of the machine; without the token nobody can do anything there. It takes no
path with a blank, and its sockets need a short one. So its environment and its folder go by the names that /proc has
for open folders of this process.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

import psutil

from fate_flow.cli.server.cluster_plan import Ports
from fate_flow.engines.ray.client import NoAnswer, NotSent, RayClient
from tests.kit.servers.party_servers import BASE_PORT
from tests.kit.waiting import SECONDS, eventually

CORES, GPUS = 4, 2          # as it believes
STOP_SECONDS = 3.0
HOST = "127.0.0.2"          # Ray takes another address of the machine instead of 127.0.0.1
_START = """
import sys
from ray.scripts import scripts
scripts.get_ray_client_dependency_error = lambda: "not wanted"     # or it starts a server for clients
sys.exit(scripts.main())
"""
_OPTIONS = (
    "--head", "--block", f"--node-ip-address={HOST}", "--dashboard-host=127.0.0.1", "--min-worker-port=0",
    "--max-worker-port=0", f"--num-cpus={CORES}", f"--num-gpus={GPUS}", "--object-store-memory=100000000",
    "--disable-usage-stats", "--include-log-monitor=false",
)  # fmt: skip


class RayHead:
    """A head, which a test may kill and start again."""

    def __init__(self, environment: Path, folder: Path) -> None:
        """`environment`: with Ray; `folder`: for all that Ray writes."""
        self.folder = folder
        self.token_file = folder / "token"
        self.token_file.write_text(secrets.token_hex(32))
        self.token_file.chmod(0o600)
        self._open = [os.open(one, os.O_PATH | os.O_DIRECTORY) for one in (environment, folder)]
        environment_name, self._temporary = (f"/proc/{os.getpid()}/fd/{one}" for one in self._open)
        self.python = f"{environment_name}/bin/python"
        self._process: subprocess.Popen[bytes] | None = None
        self._ports = Ports()            # claimed, so that a server of parties does not come up at one of a killed head
        port, dashboard, agent = islice(filter(self._ports.is_free, range(BASE_PORT + 300, 65536)), 3)
        self._options = (f"--port={port}", f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={agent}")
        self.address, self.gcs_address = f"http://127.0.0.1:{dashboard}", f"{HOST}:{port}"

    @property
    def client(self) -> RayClient:
        return RayClient(self.address, self.token_file)

    def start(self) -> None:
        """Start a head, which knows of no job, and wait until it takes jobs."""
        environment = {
            **os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token_file),
            "RAY_DISABLE_IMPORT_WARNING": "1",
        }  # fmt: skip
        with (self.folder / "head.out").open("ab") as out:
            self._process = subprocess.Popen(
                [self.python, "-c", _START, "start", *_OPTIONS, *self._options, f"--temp-dir={self._temporary}"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True,
            )  # fmt: skip
        eventually(self._takes_jobs, lambda: (self.folder / "head.out").read_text(errors="replace")[-3000:])

    def kill(self) -> None:
        """kill -9 of all that is Ray's; processes of jobs go on."""
        if self._process is None:
            return
        own = [one for one in psutil.process_iter() if _session_of(one.pid) == self._process.pid]
        for one in own:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self._process.wait()
        psutil.wait_procs(own, timeout=SECONDS)
        self._process = None

    def close(self) -> None:
        self.kill()
        self._ports.close()
        for one in self._open:
            os.close(one)

    def _takes_jobs(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "head.out").read_text(errors="replace")[-3000:]
        try:
            asked = {"entrypoint": "true", "submission_id": f"start-{self._process.pid}", "entrypoint_num_cpus": 1}
            answer = self.client.post("/api/jobs/", asked, 1_000_000)
        except (NotSent, NoAnswer):
            return False
        return answer.status == 200 or "already exists" in answer.text


def _session_of(pid: int) -> int:
    with suppress(ProcessLookupError):
        return os.getsid(pid)
    return 0


@contextmanager
def running_ray(python: Path) -> Iterator[RayHead]:
    """A head of the environment of this Python, which is taken down with all that it started."""
    head = RayHead(python.parents[1], Path(tempfile.mkdtemp(prefix="ray")))
    try:
        head.start()
        yield head
    finally:
        head.close()
        shutil.rmtree(head.folder)
