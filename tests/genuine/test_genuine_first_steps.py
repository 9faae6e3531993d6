"""`flow init`, and `flow test toy`: what somebody tries first who has installed the client."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.genuine.genuine_client import Flow, GenuineClient, Printed
from tests.genuine.world import World, a_job_that_has_all_cores, a_job_that_is_over, afterwards_at_rest
from tests.kit.servers.party_servers import GUEST, HOST, OTHER
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def fresh(genuine_python: Path, tmp_path: Path) -> GenuineClient:
    """A client that knows no server yet."""
    return GenuineClient(genuine_python, tmp_path / "a client")


def test_the_environment_is_not_written_to(genuine: GenuineClient, genuine_python: Path) -> None:
    genuine.flow("server", "versions")
    installed = next(genuine_python.parents[1].glob("lib/python*/site-packages"))
    assert not yaml.safe_load((installed / "flow_client" / "settings.yaml").read_text())["ip"]
    assert not yaml.safe_load((installed / "pipeline" / "config.yaml").read_text())["ip"]


def test_init_by_address_by_file_and_not_at_all(fresh: GenuineClient, world: World) -> None:
    assert "Did you run" in fresh.flow("server", "versions").err
    with fresh.forked_flow() as flow:
        said = flow("init").document
        assert (said["retcode"], "initialization failed" in said["retmsg"]) == (100, True)
        assert "does not exist" in flow("init", "-c", "/nowhere.yaml").err
        assert "many is not a valid integer" in flow("init", "--ip", "127.0.0.1", "--port", "many").err
        assert fresh.init(world.guest.url).document["retcode"] == 0
        assert flow("server", "versions").document["data"]["API"] == "v1"
        assert "reset successfully" in flow("init", "--reset").document["retmsg"]
        assert flow("server", "versions").code != 0
        assert flow("init", "-c", world.facts["conf"]).document["retcode"] == 0
        assert flow("server", "versions").document["retcode"] == 0


def test_where_no_server_answers_the_client_says_so(fresh: GenuineClient) -> None:
    fresh.flow("init", "--ip", "127.0.0.1", "--port", "1")
    said = fresh.flow("server", "versions").document
    assert (said["retcode"], "Connection refused" in said["retmsg"]) == (100, True)


def test_the_toy_prints_the_sum(genuine: GenuineClient, world: World) -> None:
    printed = genuine.flow("test", "toy", "-gid", GUEST, "-hid", HOST)
    assert "is success" in printed.out, printed
    assert "secure_add_guest" in printed.out
    assert printed.out.rstrip().endswith("success to calculate secure_sum, it is 2000")
    world.parties.check_idle()


def test_the_toy_of_parties_that_cannot(forked: Flow) -> None:
    unknown = forked("test", "toy", "-gid", GUEST, "-hid", OTHER).document
    assert (unknown["retcode"], OTHER in unknown["retmsg"]) == (103, True)
    elsewhere = forked("test", "toy", "-gid", HOST, "-hid", GUEST).document
    assert (elsewhere["retcode"], HOST in elsewhere["retmsg"]) == (103, True)


def test_the_test_that_trains_a_model_ends_with_the_reason(genuine: GenuineClient) -> None:
    """`pipeline` raises whatever a submit is refused with; the words are the server's."""
    printed = genuine.flow("test", "min", "-gid", GUEST, "-hid", HOST, "-aid", HOST)
    last = printed.err.rstrip().splitlines()[-1]
    assert (printed.code, "'retcode': 103" in last) == (1, True)
    assert "'DataTransform' is not known here" in last
    assert "the algorithms of FATE 1 do not run here, those of FATE 2.2 do, with a provider" in last


def toy_that_ends_badly(genuine: GenuineClient, world: World, end: Callable[[str], object]) -> tuple[str, Printed]:
    """The job, which `end` ends while its guest's worker runs, and what the client printed."""
    running = "SELECT f_job_id FROM t_job WHERE f_status = 'running'"
    with ThreadPoolExecutor(1) as pool:
        with world.parties.held(HOST):
            printed = pool.submit(genuine.flow, "test", "toy", "-gid", GUEST, "-hid", HOST)
            [row] = eventually(lambda: world.guest.rows(running), "the toy to run")
            job_id = str(row["f_job_id"])
            path = world.guest.home / "logs" / job_id / "guest" / GUEST / "INFO.log"
            eventually(lambda: path.exists() and "secure_add_guest" in path.read_text(), "its guest to have begun")
            end(job_id)
        return job_id, printed.result()


def test_the_toy_whose_worker_is_killed(genuine: GenuineClient, world: World) -> None:
    def kill(job_id: str) -> None:
        os.kill(world.guest.worker_of(job_id, "secure_add_example_0").worker.pid, signal.SIGKILL)

    job_id, printed = toy_that_ends_badly(genuine, world, kill)
    assert f"toy test job {job_id} is failed" in printed.out
    assert "worker_killed: the process ended with signal 9" in printed.out.partition("is failed")[2], printed
    assert ("auto check log failed" in printed.out, printed.code, printed.err) == (False, 0, "")
    world.parties.check_idle()


def test_the_toy_that_is_canceled(genuine: GenuineClient, world: World) -> None:
    job_id, printed = toy_that_ends_badly(
        genuine, world, lambda job_id: world.guest.post("job/stop", {"job_id": job_id})
    )
    assert f"toy test job {job_id} is canceled" in printed.out
    assert "secure_add_guest" in printed.out.partition("is canceled")[2], printed
    assert ("auto check log failed" in printed.out, printed.code, printed.err) == (False, 0, "")
    world.parties.check_idle()


def test_the_toy_that_is_canceled_before_it_begins(genuine: GenuineClient, world: World) -> None:
    """No worker has written a log then, and the client opens one all the same."""
    waiting = "SELECT f_job_id FROM t_job WHERE f_status = 'waiting' AND f_wait_reason != ''"
    with ThreadPoolExecutor(1) as pool, a_job_that_has_all_cores(world):
        printed = pool.submit(genuine.flow, "test", "toy", "-gid", GUEST, "-hid", HOST)
        [row] = eventually(lambda: world.guest.rows(waiting), "the toy to wait")
        world.guest.ask("job/stop", {"job_id": row["f_job_id"]})
        described = printed.result()
    assert f"toy test job {row['f_job_id']} is canceled" in described.out
    assert ("auto check log failed" in described.out, described.code, described.err) == (False, 0, ""), described


def test_what_the_client_sends_besides_is_ignored_and_told(forked: Flow, world: World) -> None:
    files = world.facts["files"]
    data = forked("job", "submit", "-c", f"{files}/conf_unknown.json", "-d", f"{files}/dsl.json").document["data"]
    assert data["warnings"] == ["job_runtime_conf.magic: is not known; it is ignored"]
    world.parties.wait(data["job_id"], "success")


@pytest.mark.parametrize(("text", "file"), [
    ("data upload --drop", "upload"), ("data upload --drop", "upload_here"), ("data download", "download"),
    ("table bind --drop", "bind"), ("privilege grant", "privilege"),
])
def test_so_it_is_with_every_command_that_takes_a_file(
    forked: Flow, world: World, tmp_path: Path, text: str, file: str
) -> None:
    conf = tmp_path / "conf.json"
    conf.write_text(json.dumps({**json.loads((world.files / f"{file}.json").read_text()), "magic": 1}))
    with afterwards_at_rest(world):
        said = forked(*text.split(), "-c", str(conf)).document
        assert (said["retcode"], said["data"]["warnings"]) == (0, ["magic: is not known; it is ignored"])


def test_also_within_what_a_job_is_to_have_otherwise(forked: Flow, world: World, tmp_path: Path) -> None:
    conf = tmp_path / "conf.json"
    conf.write_text(json.dumps({"job_parameters": {"common": {"magic": 1}}, "wand": 1}))
    with a_job_that_is_over(world) as facts:
        data = forked("job", "parameter-update", "-j", facts["job"], "-c", str(conf)).document["data"]
    assert data["warnings"] == [
        "job_runtime_conf.job_parameters.common.magic: is not known; it is ignored",
        "wand: is not known; it is ignored",
    ]
