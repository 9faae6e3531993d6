"""What a runner notes of the use of its worker, and what is read of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fate_flow.components.provider_process.execute import BESIDE
from fate_flow.core.model.resources import UsageSample, WorkerUsage
from fate_flow.engines.local.usage import FIRST_SECONDS, USAGE, UsageLog, usage_in
from tests.kit.waiting import eventually

BUSY = """
import sys, time
kept = bytearray(60_000_000)
while time.process_time() < 0.3:
    pass
print("there", flush=True)
"""


def test_living_processes_are_looked_at_and_ended_ones_summed(tmp_path: Path) -> None:
    found = usage_of_a_child(f"{BUSY}\nsys.stdin.read()", tmp_path)
    [sample] = found.samples
    assert sample.seconds == FIRST_SECONDS
    assert 0.2 <= sample.processor_seconds < 60
    assert 60 < sample.memory_mb < 500
    assert found.end is not None
    assert found.end.seconds == 2 * FIRST_SECONDS
    assert found.end.processor_seconds >= sample.processor_seconds - 0.1, "a living one counts in ticks"
    assert found.peak_mb is not None
    assert found.peak_mb >= 60


def usage_of_a_child(script: str, folder: Path) -> WorkerUsage:
    """In a process of its own: whatever this one has ended before does not count."""
    program = (
        "import subprocess, sys\nfrom pathlib import Path\nfrom fate_flow.engines.local.usage import *\n"
        "log = UsageLog(Path(sys.argv[1]), 100.0)\n"
        "child = subprocess.Popen([sys.executable, '-c', sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "assert child.stdout.readline()\n"
        "log.look(100.0 + FIRST_SECONDS / 2)\nlog.look(100.0 + FIRST_SECONDS)\nlog.look(100.5 + FIRST_SECONDS)\n"
        "child.communicate()\nlog.finish(100.0 + 2 * FIRST_SECONDS)\nlog.look(1e9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(folder), script], check=True, timeout=60)
    found = usage_in(folder)
    assert found is not None
    return found


RUNNER = """
import sys
from pathlib import Path
from fate_flow.engines.local import runner, usage
from fate_flow.engines.local.worker import LAUNCH, WorkerSpec
usage.FIRST_SECONDS = runner._LONGEST_SLEEP_SECONDS = 0.05
folder = Path(sys.argv[1])
wait = "import time, os\\nwhile not os.path.exists('../go'): time.sleep(0.01)"
spec = WorkerSpec("w", folder, "mine", "exec", (sys.executable, "-c", wait), folder, folder / "out", folder / "err")
(folder / LAUNCH).write_text(spec.to_json())
runner.run_worker(folder)
"""


def test_a_runner_looks_while_its_worker_lives_and_sums_up_at_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    with subprocess.Popen([sys.executable, "-c", RUNNER, str(folder)]) as process:
        eventually(lambda: (found := usage_in(folder)) is not None and len(found.samples) >= 3, "three looks")
        (tmp_path / "go").touch()
        process.wait(60)
    found = usage_in(folder)
    assert found is not None
    assert found.end is not None
    assert found.end.processor_seconds > 0
    assert found.end.seconds >= found.samples[-1].seconds
    assert 1 < max(one.memory_mb for one in found.samples) < 1_000


def test_a_component_beside_the_worker_counts_too(tmp_path: Path) -> None:
    """It is a child of a guard that is no child of the runner, as the worker has noted."""
    guard = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY + 'input()'!r}])"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert guard.stdout is not None
    assert guard.stdout.readline()
    place = tmp_path / BESIDE
    place.write_text(json.dumps({"guard": [float(guard.pid)]}))
    idle = "print(1, flush=True); input()"
    try:
        found = usage_of_a_child(idle, tmp_path)
        [sample] = found.samples
        assert sample.processor_seconds >= 0.2
        assert sample.memory_mb > 60
        assert found.end is not None
        assert found.end.processor_seconds >= 0.2, "what the last look has seen, since nobody has said more"
        for used, seconds in (([90.5, 2_048_000.0], 90.5), ([90.5], 0), (["x", 2.0], 0), ([-1.0, 2.0], 0)):
            (tmp_path / USAGE).unlink()
            place.write_text(json.dumps({"used": used}))
            end = usage_of_a_child(idle, tmp_path).end
            assert end is not None
            assert seconds <= end.processor_seconds < seconds + 30
            assert (end.memory_mb == 2_000) is (seconds > 0)
    finally:
        guard.communicate(b"\n")


def test_looks_become_rarer_and_stay_few(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        log, now, month = UsageLog(tmp_path, 0.0), 0.0, 30 * 24 * 3600.0
        eventually(lambda: Path(f"/proc/{child.pid}/stat").exists(), "the child")
        while now < month:
            now += max(5.0, now / 1000)
            log.look(now)
    finally:
        child.communicate(b"\n")
    found = usage_in(tmp_path)
    assert found is not None
    assert 500 < len(found.samples) < 1_200
    assert (tmp_path / USAGE).stat().st_size < 64 * 1024


@pytest.mark.parametrize("there", ["link", "file", "pipe"])
def test_what_a_program_has_put_in_the_place_is_left_alone(tmp_path: Path, there: str) -> None:
    other, place = tmp_path / "other", tmp_path / USAGE
    other.write_text("mine\n")
    {"link": lambda: place.symlink_to(other), "file": lambda: place.write_text("mine\n"),
     "pipe": lambda: os.mkfifo(place)}[there]()  # fmt: skip
    log = UsageLog(tmp_path, 0.0)
    log.look(FIRST_SECONDS)
    log.finish(FIRST_SECONDS)
    assert other.read_text() == "mine\n"
    assert usage_in(tmp_path) in (None, WorkerUsage((), None))


@pytest.mark.parametrize("line", [
    "", "x", "[1, 2", "[1, 2]", "[1, 2, -3]", "[1, 2, 1e400]", "[1, 2, true]", '[1, 2, "3"]', "{}", "[" * 5_000, "null",
    '{"seconds": 1}', "[0.5, 9, 9]", "[NaN, 2, 3]",
])  # fmt: skip
def test_a_line_that_is_none_is_left_out(tmp_path: Path, line: str) -> None:
    (tmp_path / USAGE).write_text(f"[1, 0.5, 100]\n{line}\n[2, 1.5, 120.5]\n[3, 2.0")
    assert usage_in(tmp_path) == WorkerUsage((UsageSample(1, 0.5, 100), UsageSample(2, 1.5, 120.5)), None)


def test_cores_are_means_between_looks() -> None:
    found = WorkerUsage((UsageSample(10, 5, 100), UsageSample(20, 25, 300)), UsageSample(25, 26, 150))
    assert found.cores() == ((0, 10, 0.5), (10, 20, 2.0), (20, 25, 0.2))
    assert (found.peak_mb, found.last) == (300, UsageSample(25, 26, 150))
    assert WorkerUsage((), None).peak_mb is None
    assert WorkerUsage((UsageSample(1, 2, 3),), UsageSample(1, 2, 3)).cores() == ((0, 1, 2.0),)


def test_nothing_is_known_without_a_file(tmp_path: Path) -> None:
    assert usage_in(tmp_path) is None
    (tmp_path / USAGE).mkdir()
    assert usage_in(tmp_path) is None
