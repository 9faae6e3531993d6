"""Workers of another machine: what a server sees of them in a folder that both share, without processes and clocks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fate_flow.components.base.own_servers import machine_of_processes
from fate_flow.engines.local import engine as engines
from fate_flow.engines.local.engine import LocalEngine, living_workers
from fate_flow.engines.local.signs import LOST_SECONDS, SIGN, SIGN_SECONDS, SeenSigns, ShownSign
from fate_flow.engines.local.strays import _is_cared_for
from fate_flow.engines.local.worker import (
    CLAIMED,
    EXIT,
    LAUNCH,
    RUNNER,
    Exit,
    ProcessId,
    Started,
    Stop,
    WorkerSpec,
    claim,
)

ELSEWHERE = "another-boot.4026531836"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sharing(clock: Clock) -> LocalEngine:
    """The engine of a server that shares the folder with other machines."""
    found = LocalEngine(sees_signs=True)
    found._signs = SeenSigns(clock)
    return found


@pytest.fixture
def process() -> Iterator[ProcessId]:
    """A process of this machine with the numbers of the worker of the other one."""
    with subprocess.Popen(["sleep", "600"]) as sleeping:
        yield ProcessId.of(sleeping.pid)
        sleeping.kill()


def of_another_machine(folder: Path, worker: ProcessId, *, has_started: bool = True) -> Path:
    """A worker folder as the runner of another machine leaves it."""
    folder.mkdir(parents=True)
    (folder / LAUNCH).write_text("{}")
    owner = {"pid": worker.pid, "started": worker.started, "machine": ELSEWHERE}
    (folder / CLAIMED).write_text(json.dumps(owner))
    if has_started:
        (folder / RUNNER).write_text(Started(worker, worker, ELSEWHERE).to_json())
    return folder


def show(folder: Path, count: int) -> None:
    (folder / SIGN).write_text(f"{count:020d}")


@pytest.mark.parametrize(("has_started", "state"), [(True, "running"), (False, "created")])
def test_it_lives_while_its_sign_changes_and_is_lost_some_time_after_the_last_change(
    sharing: LocalEngine, clock: Clock, process: ProcessId, tmp_path: Path, has_started: bool, state: str
) -> None:
    folder = of_another_machine(tmp_path / "jobs" / "w", process, has_started=has_started)
    for count in range(5):
        show(folder, count)
        assert sharing.observe(folder).state == state
        clock.now += LOST_SECONDS - 1
    assert sharing.observe(folder).state == state
    clock.now += 1
    assert sharing.observe(folder).state == "lost"
    assert Stop.read(folder), "a runner that comes back finds that it has to end its worker"
    assert process.is_alive(), "the process with its number is another one"


def test_numbers_of_another_machine_that_are_free_here_say_nothing(
    sharing: LocalEngine, clock: Clock, tmp_path: Path
) -> None:
    folder = of_another_machine(tmp_path / "w", ProcessId(2**22 + 1, 1))
    show(folder, 1)
    assert sharing.observe(folder).state == "running"
    assert living_workers(tmp_path, sharing) == [folder]
    (folder / EXIT).write_text(Exit(0, None, "exited").to_json())
    clock.now += LOST_SECONDS
    assert sharing.observe(folder).state == "exited"
    assert living_workers(tmp_path, sharing) == []


def test_it_is_stopped_by_a_request_in_its_folder_alone(
    sharing: LocalEngine, process: ProcessId, tmp_path: Path
) -> None:
    folder = of_another_machine(tmp_path / "w", process)
    assert not sharing.stop(folder, 3.0)
    found = Stop.read(folder)
    assert found is not None
    assert found.grace_seconds == 3.0
    assert process.is_alive()


def test_a_stop_by_the_clock_of_another_machine_begins_anew(sharing: LocalEngine, tmp_path: Path) -> None:
    folder = of_another_machine(tmp_path / "w", ProcessId(1, 1))
    (folder / engines.STOP).write_text(Stop(7.0, 1e12, ELSEWHERE).to_json())
    sharing.stop(folder, 9.0)
    found = Stop.read(folder)
    assert found is not None
    assert (found.grace_seconds, found.machine) == (7.0, machine_of_processes())
    assert found.asked_at < 1e12


def test_the_spawner_leaves_it_to_that_of_its_machine(tmp_path: Path) -> None:
    assert _is_cared_for(of_another_machine(tmp_path / "w", ProcessId(2**22 + 1, 1)))
    assert not _is_cared_for(tmp_path / "nobody")


def test_the_only_server_of_a_party_looks_at_processes_whatever_boot_they_are_of(tmp_path: Path) -> None:
    """A machine that was booted again has no worker any more, and there is nobody else to wait for."""
    folder = of_another_machine(tmp_path / "w", ProcessId(2**22 + 1, 1))
    assert LocalEngine().observe(folder).state == "lost"


def test_a_claim_whose_answer_was_lost_is_a_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of files makes the link, is asked again, and says that it exists."""
    link = os.link

    def twice(one: Path, other: Path) -> None:
        link(one, other)
        link(one, other)

    monkeypatch.setattr(os, "link", twice)
    assert claim(tmp_path)
    assert not claim(tmp_path)


# ---------------------------------------------------------------------- the runner's side


def test_a_sign_has_one_length_and_another_content_each_time(tmp_path: Path) -> None:
    sign, seen = ShownSign(tmp_path, True, 0.0), set()
    for count in range(4):
        sign.show(count * SIGN_SECONDS)
        seen.add((tmp_path / SIGN).read_bytes())
    assert len(seen) == 4
    assert {len(one) for one in seen} == {20}


def test_nobody_looks_at_the_sign_of_a_partys_only_server(tmp_path: Path) -> None:
    sign = ShownSign(tmp_path, False, 0.0)
    sign.show(1.0)
    assert not (tmp_path / SIGN).exists()
    assert not sign.is_overdue(1e9)


def test_a_runner_without_the_folder_gives_up_before_others_give_up_its_worker(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    sign = ShownSign(folder, True, 0.0)
    sign.show(1.0)
    folder.rename(tmp_path / "away")
    sign.show(2.0)
    assert not sign.is_overdue(LOST_SECONDS / 2)
    assert sign.is_overdue(1.0 + LOST_SECONDS / 2)
    (tmp_path / "away").rename(folder)
    before = (folder / SIGN).read_bytes()
    sign.show(1.0 + LOST_SECONDS)
    assert sign.is_overdue(1.0 + LOST_SECONDS), "others may have counted its worker as lost"
    assert (folder / SIGN).read_bytes() == before


def test_a_worker_without_a_sign_is_killed_before_it_is_lost_however_long_its_grace_is(tmp_path: Path) -> None:
    sign = ShownSign(tmp_path, True, 90.0)
    sign.show(100.0)
    assert 100.0 + LOST_SECONDS / 2 < sign.kill_at < 100.0 + LOST_SECONDS - SIGN_SECONDS
    assert ShownSign(tmp_path, False, 0.0).kill_at > 1e12


_A_LONG_END = """
import sys, time
from pathlib import Path
from fate_flow.engines.local import runner

folder = Path(sys.argv[1])

def sees_signs(_folder):
    first, until = (folder / "sign").read_bytes(), time.monotonic() + 60
    while (folder / "sign").read_bytes() == first and time.monotonic() < until:
        time.sleep(0.01)
    (folder / "signs").write_text(f"{first != (folder / 'sign').read_bytes()}")

runner.clear_scratch = sees_signs
runner.run_worker(folder)
"""


def test_a_runner_shows_signs_while_it_takes_long_to_end_its_worker(tmp_path: Path) -> None:
    folder, log = tmp_path / "w", tmp_path / "log"
    folder.mkdir()
    spec = WorkerSpec("w", folder, "command", "exec", ("/bin/true",), tmp_path, log, log, sign_seconds=0.02)
    (folder / LAUNCH).write_text(spec.to_json())
    subprocess.run([sys.executable, "-P", "-c", _A_LONG_END, str(folder)], check=True, timeout=120)
    assert Exit.read(folder) == Exit(0, None, "exited")
    assert (folder / "signs").read_text() == "True"
