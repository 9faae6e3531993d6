"""Flower as it comes: the examples learn what all rows together would teach, and nothing of Flower outlives its job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil
import pytest

from tests.kit.servers.heavy import EXAMPLES, output, submitted, succeeded
from tests.kit.servers.party_servers import GUEST, HOST, OTHER, Cluster, processes_of
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

SECONDS = 300.0
ROUNDS, RATE = 3, 0.5
VERSIONS = ("flower", "flower_1_41")
ROWS = {HOST: 40, OTHER: 25}


@pytest.fixture(params=VERSIONS)
def flower(request: pytest.FixtureRequest, python_of: Callable[[str], Path]) -> Path:
    return python_of(request.param)


@pytest.fixture
def newest_flower(python_of: Callable[[str], Path]) -> Path:
    return python_of("flower")


@pytest.fixture
def points(parties: Cluster, rows: Callable[[str, str], None]) -> list[tuple[float, float]]:
    """Points near y = 3 x - 2, some at each host; all of them."""
    chance, found = Random(14), []
    for party_id, count in ROWS.items():
        own = [(chance.uniform(-1, 1), chance.gauss(0, 0.1)) for _ in range(count)]
        own = [(x, 3 * x - 2 + noise) for x, noise in own]
        rows(party_id, "id,x,y\n" + "".join(f"{number},{x!r},{y!r}\n" for number, (x, y) in enumerate(own)))
        found += own
    return found


def central(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """The weights and the loss of each round of the same computation with all rows in one place."""
    slope = offset = 0.0
    losses = []
    for _ in range(ROUNDS):
        errors = [(slope * x + offset - y, x) for x, y in points]
        losses.append(sum(error * error for error, _ in errors) / len(points))
        slope -= RATE * sum(error * x for error, x in errors) / len(points)
        offset -= RATE * sum(error for error, _ in errors) / len(points)
    return [slope, offset], losses


@pytest.mark.parametrize("example", ["flower", "flower_simple"])
def test_the_hosts_learn_together_what_all_rows_would_teach(
    flower: Path, parties: Cluster, install: Callable[[str, Path], None], points: list[tuple[float, float]],
    nothing_is_left: Callable[[Path], None], example: str, tmp_path: Path,
) -> None:  # fmt: skip
    """One and the same job file for each version."""
    install("flower-python", flower)
    job_id = submitted(parties, (EXAMPLES / example / "job.yaml").read_text(encoding="utf-8"))
    succeeded(parties, job_id)
    weights, losses = central(points)
    model = json.loads(output(parties.guest, job_id, "model", tmp_path))
    assert model["weights"] == pytest.approx(weights, rel=1e-12)
    assert model["losses"] == pytest.approx(losses, rel=1e-12)
    [table] = parties.guest.rows("SELECT * FROM t_storage_table_meta WHERE f_job_id = ?", job_id)
    assert (table["f_count"], json.loads(table["f_schema"])["header"]) == (ROUNDS, ["loss"])
    history = parties.guest.rows("SELECT f_message AS text FROM t_history WHERE f_job_id = ?", job_id)
    streams = [str(row["text"]) for row in history if str(row["text"]).startswith("port fl with host")]
    assert {one.split()[4].rstrip(":") for one in streams} == {HOST, OTHER}
    nothing_is_left(flower)


def endless() -> str:
    """The job of the example, with more rounds than anybody waits for."""
    text = (EXAMPLES / "flower" / "job.yaml").read_text(encoding="utf-8")
    return text.replace("rounds = 3", "rounds = 100000")


EACH = {"flower-superlink", "flower-supernode", "flower-superexec", "flwr-serverapp"}


@pytest.fixture
def training(
    newest_flower: Path, parties: Cluster, install: Callable[[str, Path], None], points: list[tuple[float, float]]
) -> str:
    """A job of which each kind of Flower's processes runs, also those that have left the session of their worker."""
    install("flower-python", newest_flower)
    job_id = submitted(parties, endless())

    def runs() -> bool:
        processes = processes_of(newest_flower.parents[1])
        return {name for one in processes for name in names_of(one)} >= EACH

    eventually(runs, "Flower's processes", SECONDS)
    assert len(sessions_of(newest_flower)) > len(parties.parties), "Flower no longer detaches its processes"
    return job_id


def names_of(process: psutil.Process) -> set[str]:
    with suppress(psutil.Error):
        return {Path(one).name for one in process.cmdline()}
    return set()


def sessions_of(python: Path) -> set[int]:
    """The sessions in which processes of this environment run."""
    found = set()
    for process in processes_of(python.parents[1]):
        with suppress(ProcessLookupError):
            found.add(os.getsid(process.pid))
    return found


@pytest.mark.parametrize("now", [False, True], ids=["stopped", "aborted"])
def test_nothing_of_flower_is_left_of_a_job_that_was(
    training: str, parties: Cluster, newest_flower: Path, nothing_is_left: Callable[[Path], None], now: bool
) -> None:
    parties.guest.flow("job", "stop", "-j", training, *(["--now"] if now else []))
    parties.wait(training, "canceled")
    nothing_is_left(newest_flower)


@pytest.mark.parametrize(("party_id", "also_the_runner"), [(GUEST, False), (HOST, True)])
def test_nothing_of_flower_is_left_anywhere_when_a_worker_is_killed(
    training: str, parties: Cluster, newest_flower: Path, nothing_is_left: Callable[[Path], None], party_id: str,
    also_the_runner: bool,
) -> None:  # fmt: skip
    """kill -9 of the process that the job started: its own children live on without it, some in other sessions."""
    started = parties.parties[party_id].worker_of(training, "train")
    if also_the_runner:
        started.runner.send(signal.SIGKILL)
    started.worker.send(signal.SIGKILL)
    parties.wait(training, "failed")
    nothing_is_left(newest_flower)


def test_a_command_that_ends_well_before_it_was_ready_is_a_failure(newest_flower: Path, tmp_path: Path) -> None:
    (tmp_path / "flower-superlink").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "flower-superlink").chmod(0o700)
    done = subprocess.run(
        [newest_flower, "-c", "import fedavg; fedavg.lead(None, '127.0.0.1:1')"], cwd=tmp_path, capture_output=True,
        text=True, timeout=300, check=False, env={"PATH": str(tmp_path), "PYTHONPATH": str(EXAMPLES / "flower")},
    )  # fmt: skip
    assert done.returncode == 1
    assert "flower-superlink has ended with exit code 0 before it was ready" in done.stderr
