"""Workers on a host without the home of their server: what is staged, one claim, one end, whatever gets lost."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Response, request

from fate_flow.api.workers.staged import staged_token
from fate_flow.components.tables.table import Table
from fate_flow.core.model.status import WorkerStatus
from fate_flow.engines.local.worker import CLAIMED, EXIT, LAUNCH, RUNNER, Started
from fate_flow.engines.placed.folder import OUTPUT
from fate_flow.engines.placed.run import TIME_IS_OVER
from fate_flow.engines.staged.documents import INCOMING
from fate_flow.engines.staged.places import PIN, TOKEN
from tests.kit.engines.staged_host import KEY, SECRET, OtherHost, StagedServer, json_in
from tests.kit.waiting import SECONDS, eventually

pytestmark = pytest.mark.timeout(300)

CODE = """
import os, pathlib, sys
print("hello from", os.path.basename(os.getcwd()))
print(pathlib.Path("given.txt").read_text(), file=sys.stderr)
pathlib.Path("rows.csv").write_text("id,x\\na,1\\nb,2\\n")
pathlib.Path("model.bin").write_bytes(b"m" * 3_000_000)
"""
WAITS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("up", flush=True)
signal.pause()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StagedServer]:
    with StagedServer(tmp_path / "home").listening() as found:
        yield found


@pytest.fixture
def host(tmp_path: Path, server: StagedServer) -> Iterator[OtherHost]:
    found = OtherHost(tmp_path / "far", server)
    yield found
    found.end()


def is_running(server: StagedServer, worker_id: str) -> None:
    """Its program has begun, and its output has come."""
    folder = server.folder(worker_id)
    eventually(lambda: (folder / RUNNER).exists() and (folder / "stdout").exists(), "the worker runs")


def test_a_program_and_its_collector_run_elsewhere_as_beside_the_server(server: StagedServer, host: OtherHost) -> None:
    shared = server.home / "shared" / "in"
    shared.mkdir(parents=True)
    (shared / "a.txt").write_text("given text")
    outputs = [{"name": "rows", "path": "rows.csv", "kind": "table"}, {"name": "model", "path": "model.bin"}]
    parameters = {"files": [{"name": "given.txt", "path": "in/a.txt"}], "outputs": outputs}
    server.orders_program("w0", sys.executable, "-c", CODE, **parameters)
    assert host.run("w0") == 0, host.said()
    seen = server.seen("w0")
    assert (seen.state, seen.exit_code, seen.succeeded) == ("exited", 0, True), seen
    folder = server.folder("w0")
    assert (folder / "stdout").read_text() == "hello from work\n"
    assert (folder / "stderr").read_text() == "given text\n"
    assert sorted(one.name for one in (folder / "work").iterdir()) == ["model.bin", "rows.csv"]
    assert not (folder / INCOMING).exists()
    assert not host.root("w0").exists()

    rank = server.worker("w0")
    server.orders("c", "Command", {"command": ["x"], **parameters}, collects=(rank,))
    assert host.run("c") == 0, host.said()
    seen = server.seen("c")
    assert (seen.state, seen.succeeded) == ("exited", True), seen
    made = {one.kind: one for one in seen.made.artifacts}
    assert made["file"].metadata["bytes"] == 3_000_000
    assert server.workers.output_file(server.worker("c"), "model") is not None
    with Table(made["table"].uri) as table:
        assert (table.count, made["table"].uri.startswith(f"standalone://{server.home}/data/")) == (2, True)
    assert "finish" in (server.home / "logs" / KEY.job_id / "guest" / "9999" / "a" / "INFO.log").read_text()


def test_a_table_is_fetched_in_pieces_resumed_and_verified(server: StagedServer, host: OtherHost) -> None:
    server.has_table("t", 60_000)
    server.orders("r", "Reader", {"table": {"namespace": "it", "name": "t"}})
    size = (server.home / "data" / "it" / "t.sqlite").stat().st_size
    assert size > 3_000_000
    part = host.root("r") / "data" / "it" / "t.sqlite.part"
    part.parent.mkdir(parents=True)
    part.write_bytes((server.home / "data" / "it" / "t.sqlite").read_bytes()[:2_500_000])
    damaged: list[int] = []

    def spoils(answer: Response) -> Response | None:
        if request.path.endswith("/file") and not damaged:
            damaged.append(1)
            answer.set_data(b"\0" * len(answer.get_data()))
        return None

    server.spoils = spoils
    assert host.run("r", "fetch") == 0, host.said()
    assert "has arrived with other bytes than the server has" in host.said()
    fetched = len([one for one in server.asked if one == "file"])
    assert host.run("r") == 0, host.said()
    assert len([one for one in server.asked if one == "file"]) == fetched, "nothing is fetched twice"
    seen = server.seen("r")
    assert (seen.state, seen.succeeded) == ("exited", True), seen
    assert [one.uri for one in seen.made.artifacts if one.kind == "table"] == [f"standalone://{server.home}/data/it/t"]
    assert [one.name for one in (server.home / "data" / "it").iterdir()] == ["t.sqlite"]


def test_every_answer_may_be_lost_once_and_nothing_happens_twice(server: StagedServer, host: OtherHost) -> None:
    lost: set[str] = set()

    def spoils(answer: Response) -> Response | None:
        what = request.path.rpartition("/")[2]
        if what in lost or answer.status_code != 200:
            return None
        lost.add(what)
        return Response("lost", 502)

    server.spoils = spoils
    outputs = [{"name": "model", "path": "model.bin"}]
    code = CODE.replace('pathlib.Path("given.txt").read_text()', '"none"')
    server.orders_program("w0", sys.executable, "-c", code, outputs=outputs)
    assert host.run("w0") == 0, host.said()
    assert lost >= {"manifest", "claim", "grow", "put", "verify", "end"}
    assert (server.folder("w0") / "stdout").read_text() == "hello from work\n"
    assert (server.folder("w0") / "stderr").read_text() == "none\n"
    assert (server.folder("w0") / "work" / "model.bin").stat().st_size == 3_000_000
    assert server.seen("w0").succeeded


def test_of_two_agents_one_runs_the_worker(server: StagedServer, host: OtherHost) -> None:
    server.orders_program("w0", sys.executable, "-c", WAITS)
    host.start("w0")
    is_running(server, "w0")
    program = Started.of(json_in(server.folder("w0") / RUNNER)).worker
    for pid in (host.agents[0].pid, program.pid):
        assert staged_token(SECRET, "w0").encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    claimed = json_in(server.folder("w0") / CLAIMED)
    other = OtherHost(host.folder.with_name("second"), server)
    assert other.run("w0") == 3
    assert "another runner has claimed this worker" in other.said()
    assert json_in(server.folder("w0") / CLAIMED) == claimed
    server.stops("w0")
    assert host.agents[0].wait(60) == 0
    end = json_in(server.folder("w0") / EXIT)
    assert (end["cause"], end["exit_code"]) == ("stopped", 7)


def test_a_worker_that_the_server_gave_up_never_starts_elsewhere(server: StagedServer, host: OtherHost) -> None:
    server.orders_program("w0", sys.executable, "-c", WAITS)
    server.stops("w0", 1.0)
    assert host.run("w0") == 3
    assert json_in(server.folder("w0") / EXIT)["cause"] == "stopped"
    assert not (server.folder("w0") / RUNNER).exists()


def test_an_agent_that_is_killed_takes_its_worker_with_it_by_the_lease(server: StagedServer, host: OtherHost) -> None:
    with server.listening():
        server.orders_program("w0", sys.executable, "-c", WAITS)
        agent = host.start("w0")
        is_running(server, "w0")
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        eventually(lambda: not host.processes(), host.processes)
        assert not (server.folder("w0") / EXIT).exists(), "nobody has seen its end"
        assert host.run("w0") == 3, "a second start finds the claim"


def test_a_lost_server_ends_the_worker_and_gets_its_end_when_it_is_back(server: StagedServer, host: OtherHost) -> None:
    with server.listening():
        server.orders_program("w0", sys.executable, "-c", WAITS)
        agent = host.start("w0")
        is_running(server, "w0")
        server.spoils = lambda _: Response("away", 503)
        far = host.root("w0") / server.folder("w0").relative_to(server.home)
        eventually(lambda: (far / EXIT).exists(), "the worker ends by the lease")
        server.spoils = lambda _: None
        assert agent.wait(60) == 0
        assert json_in(server.folder("w0") / EXIT)["cause"] == "server_lost"


def test_the_token_ends_with_the_attempt_and_so_does_the_worker(server: StagedServer, host: OtherHost) -> None:
    with server.listening():
        server.orders_program("w0", sys.executable, "-c", WAITS)
        agent = host.start("w0")
        is_running(server, "w0")
        started = Started.read(server.folder("w0"))
        assert started is not None
        server.statuses["w0"] = WorkerStatus.EXITED
        assert agent.wait(60) == 3
        assert not started.worker.is_alive()
        assert "its token does not count any more" in host.said()
    with server.listening():
        assert host.run("w0") == 3
        assert host.run("w0", **{TOKEN: "f" * 64}) == 3
        assert "this is not the token of this worker" in host.said()


def test_another_key_than_the_pinned_one_is_not_talked_to(server: StagedServer, host: OtherHost) -> None:
    server.orders_program("w0", sys.executable, "-c", WAITS)
    assert host.run("w0", **{PIN: f"sha256:{'0' * 64}"}) == 1
    assert f"has the key {server.at.pin}, and this worker was told sha256:000" in host.said()
    assert server.asked == []


def test_a_stop_of_the_agent_gives_the_worker_its_grace(server: StagedServer, host: OtherHost) -> None:
    server.orders_program("w0", sys.executable, "-c", WAITS)
    agent = host.start("w0")
    is_running(server, "w0")
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(60) == 0
    end = json_in(server.folder("w0") / EXIT)
    assert (end["cause"], end["exit_code"]) == ("stopped", 7)


@pytest.mark.parametrize(("module", "parameters", "why"), [
    ("Upload", {"file": "/x", "namespace": "n", "name": "m"}, "component Upload reads or writes files of the server"),
    ("Download", {"output_path": "/x", "namespace": "n", "name": "m"}, "component Download reads or writes files"),
])  # fmt: skip
def test_what_cannot_be_staged_is_refused_with_a_sentence(
    server: StagedServer, host: OtherHost, module: str, parameters: dict[str, str], why: str
) -> None:
    server.orders("w0", module, parameters)
    assert host.run("w0") != 0
    end = json_in(server.folder("w0") / EXIT)
    assert end["cause"] == "not_started"
    assert why in end["message"]
    assert end["message"].endswith("run its task on the engine local")


def test_on_a_full_disk_nothing_that_grows_is_taken_either(server: StagedServer) -> None:
    with server.listening():
        server.orders_program("w0", sys.executable, "-c", WAITS)
        client = server.client("w0")

        def ask(what: str, body: bytes, **query: str | int) -> int:
            return client.ask("POST", f"/v1/staged/w0/{what}", query, body, {"X-Staged-Runner": "a" * 32}).status

        assert ask("claim", b"{}") == 200
        server.no_space = "the disk is nearly full"
        assert [ask(what, b"x", at="x", offset=0) for what in ("put", "grow")] == [507, 507]
        server.no_space = ""
        assert ask("put", b"x", at="x", offset=0) == 200
        client.close()


def test_a_worker_whose_files_are_not_taken_is_lost_with_the_reason(tmp_path: Path) -> None:
    makes = 'open("big", "wb").write(b"m" * 100)'
    with StagedServer(tmp_path / "home", most_bytes=99).listening() as server:
        host = OtherHost(tmp_path / "far", server)
        server.orders_program("w0", sys.executable, "-c", makes)
        assert host.run("w0") == 1
        end = json_in(server.folder("w0") / EXIT)
    assert (end["cause"], end["exit_code"]) == ("lost", None)
    assert end["message"] == (
        "the worker has ended, and what it has made was not taken: the worker sends more than 99 bytes "
        "(limits.staged_output_max_bytes)"
    )


def test_in_the_job_of_a_cluster_nothing_stays_on_the_host_and_the_server_gets_what_the_cluster_says(
    server: StagedServer, host: OtherHost
) -> None:
    server.orders_program("w", sys.executable, "-c", WAITS)
    agent = host.start_in_job("w")
    is_running(server, "w")
    [root] = (host.folder / "base").iterdir()
    launch = root / "w" / server.folder("w").relative_to(server.home) / LAUNCH
    assert json_in(launch)["cwd"].startswith(f"{root}/")
    agent.send_signal(TIME_IS_OVER)
    assert agent.wait(SECONDS) == 0, host.said()
    seen = server.seen("w")
    assert (seen.state, seen.exit_code) == ("exited", 7), seen
    assert json_in(server.folder("w") / EXIT)["cause"] == "timeout"
    assert "worker w runs as process" in (server.folder("w") / OUTPUT).read_text()
    assert list((host.folder / "base").iterdir()) == []
    assert host.said() == "", "its output is at the server"


def test_the_output_of_a_job_whose_server_is_not_reached_stays_for_the_operator(
    server: StagedServer, host: OtherHost
) -> None:
    server.orders_program("w", sys.executable, "-c", "")
    server.at = replace(server.at, pin="sha256:" + "0" * 64)
    assert host.start_in_job("w").wait(SECONDS) == 1
    assert "has the key sha256:" in host.said()
    assert list((host.folder / "base").iterdir()) == []
