"""A placed runner waits for the others of its gang, and says so."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fate_flow.engines.local import runner
from fate_flow.engines.local.lease import Lease
from fate_flow.engines.local.signs import ShownSign
from fate_flow.engines.local.worker import ARRIVED, EXIT, GO, Exit, Stop, WorkerSpec, claim, release, write_atomically
from fate_flow.engines.placed.folder import request_stop
from tests.kit.engines.fake_cluster import PlacedWorld


@pytest.fixture
def world(tmp_path: Path) -> PlacedWorld:
    return PlacedWorld(tmp_path)


def spec_in(folder: Path, **fields: object) -> WorkerSpec:
    return WorkerSpec("w", folder, "mine", "exec", ("true",), folder, folder / "out", folder / "err", **fields)  # type: ignore[arg-type]


def await_others(folder: Path, longest: float = 0, **fields: object) -> Exit | None:
    spec = spec_in(folder, **fields)
    lease = Lease(spec.lease_file, spec.lease_seconds, spec.grace_seconds, time.monotonic())
    return runner._await_others(spec, longest, ShownSign(folder, False, 0), lease)


# the runner


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_GATHER_POLL_SECONDS", 0.001)


def test_it_begins_when_the_server_says_that_all_are_there(tmp_path: Path) -> None:
    release(tmp_path)
    assert await_others(tmp_path) is None
    assert (tmp_path / ARRIVED).exists()


def test_it_waits_no_longer_than_it_may(tmp_path: Path) -> None:
    assert await_others(tmp_path, 0.01) == Exit(
        None, None, "not_placed", "waited 0.01 s for the others of its gang"
    )  # fmt: skip


def test_a_request_to_stop_ends_it(tmp_path: Path) -> None:
    request_stop(tmp_path, 5)
    assert Stop.read(tmp_path)
    assert await_others(tmp_path) == Exit(None, None, "stopped")


def test_without_its_server_it_ends(tmp_path: Path) -> None:
    lease = tmp_path / "lease"
    lease.write_text("1")
    assert await_others(tmp_path, lease_file=lease, lease_seconds=0.01) == Exit(None, None, "server_lost")


def test_an_order_without_a_gang_waits_for_nobody(tmp_path: Path) -> None:
    """The runner itself, which records the end of its worker."""
    for gathers, cause in ((None, "exited"), (0.01, "not_placed")):
        folder = tmp_path / str(gathers)
        folder.mkdir()
        write_atomically(folder / "launch.json", spec_in(folder, gather_seconds=gathers).to_json())
        child = os.fork()
        if child == 0:
            try:
                runner.run_worker(folder)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        found = Exit.read(folder)
        assert found is not None, folder
        assert found.cause == cause


# the engine


@pytest.mark.parametrize(("party", "asked", "seconds"), [(600, 0, 600), (600, 60, 60), (60, 600, 60), (0, 0, 0)])
def test_it_may_wait_for_its_gang_as_long_as_for_a_place(
    tmp_path: Path, party: float, asked: float, seconds: float
) -> None:
    world = PlacedWorld(tmp_path, longest_pending=party)
    folder = world.place(longest_pending=asked, gathers=True)
    text = (folder / "launch.json").read_text()
    assert WorkerSpec.from_json(folder, text).gather_seconds == seconds


def test_the_cluster_gives_it_the_time_to_wait(world: PlacedWorld) -> None:
    world.place("alone", time_limit_seconds=100)
    world.place("ranked", time_limit_seconds=100, gathers=True)
    world.place("endless", gathers=True)
    world.look()
    limits = [one.need.time_limit_seconds for one in world.cluster.submitted]
    assert limits == [100, 700, 0]


def test_a_worker_that_has_arrived_has_not_begun_and_is_not_given_up_as_pending(world: PlacedWorld) -> None:
    folder = world.place(gathers=True)
    world.look()
    assert claim(folder)
    (folder / ARRIVED).touch()
    world.looks(100, 60)           # a listing of an old state shows it as pending
    seen = world.engine.observe(folder)
    assert (seen.state, seen.is_placed, seen.has_arrived) == ("created", True, True)


def test_a_release_of_a_worker_whose_folder_is_gone_is_nothing(tmp_path: Path) -> None:
    release(tmp_path / "gone")
    release(tmp_path)
    assert (tmp_path / GO).exists()
    assert not (tmp_path / EXIT).exists()
