"""The engine `ray` with nodes that do not see the home, over a Jobs API of tests: a claim token counts once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.api.workers.staged import claim_token, staged_token
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.job import Worker
from fate_flow.core.model.resources import Need
from fate_flow.core.model.status import WorkerStatus
from fate_flow.engines.local.worker import LAUNCH, Exit, Started, WorkerSpec, claimer
from fate_flow.engines.placed.cluster import Unreadable
from fate_flow.engines.placed.conduct import Conduct
from fate_flow.engines.placed.engine import PlacedEngine
from fate_flow.engines.ray.client import RayClient
from fate_flow.engines.ray.cluster import RayCluster, RayShare
from fate_flow.engines.staged.pinned import Answer, PinnedClient
from fate_flow.engines.staged.places import ADDRESS, CLAIM, PIN, sign_of
from fate_flow.server.engines.kinds import outputs_of_jobs
from fate_flow.server.engines.parts import EngineParts
from fate_flow.server.engines.ray_workers import build_ray
from fate_flow.settings.engines.ray import RaySettings
from fate_flow.settings.worker_listen import WorkerListen
from tests.kit.engines.ray_jobs import GCS_ADDRESS, FakeRay, Job, running_fake
from tests.kit.engines.staged_host import SECRET, StagedServer, python_that_opens_nothing_below
from tests.kit.servers.engine_site import POLITE
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(300)

PREFIX = "fate-flow-home-"
THIEF = "f" * 32
SAYS = """
import json, os, sys
said = [name for name, text in os.environ.items() if sys.argv[1] in text or sys.argv[2] in text]
print(said, os.environ["RAY_ADDRESS"], json.loads(os.environ["RAY_JOB_CONFIG_JSON_ENV_VAR"])["metadata"])
print(os.getcwd())
open("model.bin", "w").write("made")
sys.exit(5)
"""


class Site:
    """The server of the worker `w`, and a Ray whose nodes do not see its home."""

    def __init__(self, ray: FakeRay, server: StagedServer, folder: Path) -> None:
        self.ray, self.server, self.base = ray, server, folder / "scratch"
        python = str(python_that_opens_nothing_below(server.home, folder / "far"))
        at = server.at
        conduct = Conduct(
            0.05, 600, 0.2, lambda one: [python, "-P", "-m", "fate_flow.engines.ray.away", str(self.base), one.name],
            server.settings.jobs_dir, PREFIX, env={ADDRESS: str(at), PIN: at.pin},
            secrets=lambda worker_id: {CLAIM: claim_token(SECRET, worker_id)},
        )  # fmt: skip
        client = RayClient(ray.address, ray.token_file)
        server.printed = lambda worker: client.printed(f"{PREFIX}{worker.worker_id}")
        cluster = RayCluster(client, PREFIX, RayShare())
        self.engine = PlacedEngine(cluster, conduct, lambda _: None, has_thread=False)
        self.folder = server.folder("w")

    def place(self, *argv: str, cores: int = 1) -> None:
        self.server.orders_program("w", *argv, outputs=[{"name": "model", "path": "model.bin"}])
        spec = WorkerSpec.from_json(self.folder, (self.folder / LAUNCH).read_text())
        self.engine.launch(spec, Need(cores))
        self.engine.observe(self.folder)

    def until(self, look: Callable[[], object]) -> None:
        def has_come() -> bool:
            self.engine.work(polls=True)
            return bool(look())

        eventually(has_come, lambda: str(self.ray.jobs))

    def running(self, *argv: str) -> None:
        self.place(*argv)
        self.until(lambda: self.printed() == "ready\n" and self.engine.observe(self.folder).state == "running")

    def printed(self) -> str:
        path = self.folder / "stdout"
        return path.read_text() if path.exists() else ""

    def end(self) -> Exit:
        self.until(lambda: self.engine.observe(self.folder).state == "exited")
        end = self.engine.observe(self.folder).exit
        assert end is not None
        return replace(end, contents=())

    @property
    def job(self) -> Job:
        return self.ray.jobs[PREFIX + "w"]

    def prints(self) -> None:
        """Somebody on the node of the worker writes into Ray's file."""
        with self.job.printed.open("a") as file:
            file.write(f"\n{sign_of(THIEF)}\n")

    def steals(self, what: str = "redeem", client: PinnedClient | None = None) -> Answer:
        """What somebody is answered who has read the claim token in the listing."""
        assert self.job.asked["metadata"][CLAIM] == claim_token(SECRET, "w")
        client = client or self.server.client_with_claim("w")
        answer = client.ask("POST", f"/v1/staged/w/{what}", body=b"{}", fields={"X-Staged-Runner": THIEF})
        client.close()
        return answer


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with StagedServer(tmp_path / "home").listening() as server, running_fake(tmp_path, cores=4) as ray:
        found = Site(ray, server, tmp_path)
        yield found
        found.engine.stop(found.folder, 0)


def test_a_worker_runs_there_and_no_program_has_a_token(site: Site) -> None:
    tokens = claim_token(SECRET, "w"), staged_token(SECRET, "w")
    site.place(sys.executable, "-c", SAYS, *tokens)
    assert site.end() == Exit(5, None, "exited")
    assert tokens[1] not in json.dumps(site.job.shown("w")["metadata"])
    said, cwd = site.printed().splitlines()
    expected = {"fate_flow_folder": str(site.folder)}
    assert said == f"[] {GCS_ADDRESS} {expected}"
    assert cwd.startswith(f"{site.base}/")
    assert (site.folder / "work" / "model.bin").read_text() == "made"
    eventually(lambda: site.job.status == "SUCCEEDED")
    assert list(site.base.iterdir()) == []


def test_a_stopped_worker_has_its_grace_although_ray_signals_every_process(site: Site) -> None:
    go = site.base.with_name("go")
    site.running(sys.executable, "-c", POLITE, str(go))
    assert not site.engine.stop(site.folder, 30)
    site.until(lambda: ("POST", f"/api/jobs/{PREFIX}w/stop") in site.ray.requests)
    go.touch()
    assert site.end() == Exit(5, None, "stopped")
    assert site.printed() == "ready\ndone\n"


def test_who_reads_the_claim_token_gets_nothing_and_the_log_says_so(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither before the worker begins nor later. The worker runs on."""
    go = site.base.with_name("go")
    site.place(sys.executable, "-c", POLITE, str(go), cores=5)
    site.until(lambda: PREFIX + "w" in site.ray.jobs)
    refused = [site.steals()]
    for what in ("manifest", "file", "claim", "put", "end"):
        assert site.steals(what).status == 401
    site.ray.give(8)
    site.until(lambda: site.printed() == "ready\n")
    refused.append(site.steals())
    for answer in refused:
        assert (answer.status, "token" in answer.json()) == (503, False)
        assert "has not printed the sign of this agent" in answer.text
    said = [one.getMessage() for one in caplog.records if one.name.endswith("workers.staged")]
    assert len(said) == 1
    assert said[0].startswith("worker w: somebody shows its claim token")
    go.touch()
    site.engine.stop(site.folder, 30)
    assert site.end() == Exit(5, None, "stopped")
    assert site.steals().status == 503
    site.server.statuses["w"] = WorkerStatus.EXITED
    assert site.steals().status == 410


def test_while_ray_cannot_be_read_the_agent_waits(site: Site) -> None:
    def away(_: Worker) -> str:
        raise Unreadable("Ray is away")

    reads, site.server.printed = site.server.printed, away
    site.place(sys.executable, "-c", POLITE)
    site.until(lambda: site.server.asked.count("redeem") > 1)
    site.server.printed = reads
    site.until(lambda: site.printed() == "ready\n")


def test_who_prints_the_sign_of_a_running_worker_too_gets_nothing_and_ends_it(site: Site) -> None:
    site.running(sys.executable, "-c", POLITE)
    started = Started.read(site.folder)
    assert started is not None
    assert site.job.process is not None
    for pid in (site.job.process.pid, started.worker.pid):
        assert claim_token(SECRET, "w").encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    site.prints()
    refused = site.steals()
    assert (refused.status, "token" in refused.json()) == (409, False)
    end = site.end()
    assert (end.cause, end.exit_code) == ("not_started", None)
    assert end.message.startswith("its claim token was used twice, by processes that can both print")
    assert site.server.woken, "the scheduler looks at it at once"
    site.until(lambda: not started.worker.is_alive())
    eventually(lambda: site.job.over.is_set())
    site.until(lambda: list(site.base.iterdir()) == [])


def test_who_prints_it_before_the_worker_begins_is_noticed_then(site: Site) -> None:
    site.place(sys.executable, "-c", POLITE, cores=5)
    site.until(lambda: PREFIX + "w" in site.ray.jobs)
    site.prints()
    token = site.steals().json()["token"]
    assert site.steals().json()["token"] == token, "an answer may be lost"
    assert site.steals("claim", PinnedClient(site.server.at, token)).status == 200
    site.ray.give(8)
    assert site.end().message.startswith("its claim token was used twice")
    eventually(lambda: site.job.exit_code == 3)
    assert site.printed() == ""
    assert site.steals("end", PinnedClient(site.server.at, token)).status == 400
    assert site.steals("alive", PinnedClient(site.server.at, token)).status == 410


def test_a_worker_that_was_stopped_before_it_began_never_starts(site: Site) -> None:
    site.place(sys.executable, "-c", POLITE, cores=5)
    site.until(lambda: PREFIX + "w" in site.ray.jobs)
    assert site.engine.stop(site.folder, 20)
    assert claimer(site.folder) is not None
    site.ray.give(8)
    eventually(lambda: site.job.over.is_set())
    assert site.end().cause == "stopped"
    assert site.printed() == ""


def test_a_ray_that_asks_for_no_token_gets_no_claim_token(site: Site) -> None:
    site.ray.asks_for_token = False
    site.place(sys.executable, "-c", POLITE)
    end = site.end()
    assert (end.cause, site.ray.jobs) == ("not_started", {})
    assert "start Ray with RAY_AUTH_MODE=token" in end.message


def test_the_engine_of_a_configuration_stages_and_its_server_reads_what_its_jobs_print(
    site: Site, tmp_path: Path
) -> None:
    ray, server = site.ray, site.server
    one = RaySettings(
        "engines.far", address=ray.address, token_file=ray.token_file, shared_home=False, scratch=tmp_path / "nodes",
        python=Path("/bin/echo"), poll_seconds=0.1,
    )  # fmt: skip
    parts = EngineParts(server.settings, None, lambda _: None, "http://x", SECRET, server.workers.providers)
    with pytest.raises(BadSettings, match=r"set fateflow\.worker_listen, or engines\.far\.shared_home: true"):
        build_ray(parts, one)
    settings = replace(server.settings, worker_listen=WorkerListen("::1", 9390, "h:9390"), engines={"far": one})
    engine = build_ray(replace(parts, settings=settings), one)
    server.orders_program("w", "/bin/sh")
    spec = WorkerSpec.from_json(site.folder, (site.folder / LAUNCH).read_text())
    engine.engine.launch(spec, Need(1))
    job = eventually(lambda: next(iter(ray.jobs.values()), None), "its job")
    assert job.asked["metadata"][CLAIM] == claim_token(SECRET, "w")
    printed = outputs_of_jobs(settings, SECRET)
    [base] = (f"{tmp_path}/nodes/{name.removesuffix('-w')}" for name in ray.jobs)
    said = f"-P -m fate_flow.engines.ray.away {base} w\n"
    eventually(lambda: printed(server.worker("w")) == said, lambda: printed(server.worker("w")))
    assert printed(replace(server.worker("w"), engine="another")) == ""
    shared = replace(settings, engines={"far": replace(one, shared_home=True)})
    assert outputs_of_jobs(shared, SECRET)(server.worker("w")) == ""
