"""Workers of FATE, and servers around them, that are killed: alone, FATE's other workers would wait without end."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.kit.fate.jobs import Fate
from tests.kit.servers.heavy import submitted
from tests.kit.servers.party_servers import GUEST, HOST, OTHER, PartyServer
from tests.kit.waiting import SECONDS, eventually

pytestmark = pytest.mark.timeout(600)

AT = {"guest": GUEST, "host": HOST, "arbiter": OTHER}


def training(rounds: int, retry: str = "") -> str:
    """A job that makes rows, and trains with them at three parties. Labels are not needed to be killed."""
    return f"""
version: 1
initiator: guest {GUEST}
parties: {{guest: [{GUEST}], host: [{HOST}], arbiter: [{OTHER}]}}
{retry}
tasks:
  read:
    component: Reader
    outputs: {{data: [rows]}}
    parameters: {{table: {{namespace: trial, name: few}}}}
    at: {{arbiter: {{run: false}}}}
  match: {{component: fate.psi, inputs: {{input_data: read.rows}}}}
  train:
    component: fate.coordinated_lr
    stage: train
    inputs: {{train_data: match.output_data}}
    parameters:
      epochs: {rounds}
      tol: 0.0
      init_param: {{method: zeros, fit_intercept: true}}
      optimizer: {{method: sgd, penalty: l2, alpha: 0.01, optimizer_params: {{lr: 0.01}}}}
      learning_rate_scheduler: {{method: linear, scheduler_params: {{start_factor: 1.0}}}}
"""


@pytest.fixture
def few_rows(fate: Fate) -> Fate:
    rows = [(f"r{number}", number % 2, number % 7) for number in range(20)]
    for party, columns in ((fate.parties.guest, ("id", "y", "x")), (fate.parties.host, ("id", "u", "v"))):
        if not party.ask("table/table_info", {"namespace": "trial", "table_name": "few"})["exist"]:
            text = "".join(f"{','.join(map(str, line))}\n" for line in [columns, *rows])
            meta = {"label_name": "y"} if party is fate.parties.guest else {}
            party.has_table("few", text, namespace="trial", meta=meta)
    return fate


def processes_of_task(party: PartyServer, job_id: str, task: str) -> list[psutil.Process]:
    """The processes that run in folders of the workers of this task, also those that the warm process has forked."""
    found = []
    for process in psutil.process_iter():
        try:
            folder = Path(process.cwd())
        except (psutil.Error, OSError):
            continue
        if folder.is_relative_to(party.home / "jobs" / job_id) and task in folder.parts:
            found.append(process)
    return found


@pytest.fixture
def in_training(few_rows: Fate) -> Callable[[str], str]:
    """Submit a job, and wait until its workers have exchanged messages of several rounds."""

    def started(text: str) -> str:
        job_id = submitted(few_rows.parties, text)
        arbiter = few_rows.parties.parties[OTHER]

        log = arbiter.home / "logs" / job_id / "arbiter" / OTHER / "train" / "INFO.log"

        def rounds() -> bool:
            return log.exists() and "set epoch 3" in log.read_text(encoding="utf-8")

        def state() -> str:
            return f"rounds of {job_id}: {few_rows.parties.guest.post('job/explain', {'job_id': job_id})}"

        eventually(rounds, state, 300.0)
        return job_id

    return started


def kill_worker(party: PartyServer, job_id: str) -> None:
    party.worker_of(job_id, "train").worker.send(signal.SIGKILL)


def kill_component(party: PartyServer, job_id: str) -> None:
    """kill -9 of the process that computes, which is a child of neither our runner nor our worker."""
    worker = party.worker_of(job_id, "train").worker.pid
    own = [one for one in processes_of_task(party, job_id, "train") if one.pid != worker]
    component = min(own, key=lambda process: process.create_time())
    component.kill()


@pytest.mark.parametrize(("role", "kill"), [("guest", kill_worker), ("host", kill_component), ("arbiter", kill_worker)])
def test_a_killed_worker_ends_the_task_everywhere_within_seconds(
    few_rows: Fate, in_training: Callable[[str], str], role: str, kill: Callable[[PartyServer, str], None]
) -> None:
    job_id = in_training(training(100_000))
    began = time.monotonic()      # alone, the others would wait without end
    kill(few_rows.parties.parties[AT[role]], job_id)
    rows = few_rows.parties.wait(job_id, "failed", seconds=SECONDS)
    assert time.monotonic() - began < SECONDS
    assert f"on {role} {AT[role]}" in str(rows[GUEST]["f_message"])
    for party in few_rows.parties.parties.values():
        eventually(lambda party=party: not processes_of_task(party, job_id, "train"), "no process of the job", SECONDS)


def test_a_killed_worker_starts_the_task_again_everywhere(few_rows: Fate, in_training: Callable[[str], str]) -> None:
    job_id = in_training(training(20, "retry: {max_attempts: 2}"))      # so many that it is not over before the kill
    kill_worker(few_rows.parties.host, job_id)
    few_rows.parties.wait(job_id, "success", seconds=300.0)
    for party in few_rows.parties.parties.values():
        assert len(party.rows("SELECT * FROM t_worker WHERE f_job_id = ? AND f_component_name = 'train'", job_id)) == 2


LOSS = re.compile(rf"task train arbiter-{OTHER}: train/lr_loss .*\(\w+ (?:\d+ to )?(\d+)\)")
FLOW = Path(sys.executable).with_name("flow")


@contextmanager
def watched(party: PartyServer, job_id: str, folder: Path) -> Iterator[Callable[[], int]]:
    """Run `flow job watch` as a user does; yield what tells the newest round whose loss it has shown, -1 at first."""
    shown = folder / "watched.txt"
    with shown.open("w") as output, subprocess.Popen(
        [FLOW, "--server", party.url, "job", "watch", "-j", job_id], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=output,
    ) as process:  # fmt: skip
        try:
            yield lambda: max([-1, *map(int, LOSS.findall(shown.read_text(encoding="utf-8")))])
        finally:
            process.kill()


def test_a_training_is_watched_and_goes_on_when_the_server_of_a_party_was_killed(
    few_rows: Fate, in_training: Callable[[str], str], tmp_path: Path
) -> None:
    """kill -9 of all processes of the server; its worker lives on, and so do the messages that it had taken."""
    job_id, parties = in_training(training(100_000)), few_rows.parties
    with watched(parties.parties[OTHER], job_id, tmp_path) as newest:
        first = eventually(lambda: newest() + 1, "the loss of a round", 300.0)
        eventually(lambda: newest() >= first, "the loss of a later round", 300.0)
        parties.kill(HOST)
        parties.start(HOST)
        seen = newest()
        eventually(lambda: newest() > seen + 3, lambda: f"rounds after {seen} with the server back: {newest()}", 300.0)
        assert parties.guest.job(job_id)["f_status"] == "running"
    parties.guest.flow("job", "stop", "-j", job_id, "--now")
    parties.wait(job_id, "canceled")
    for party in parties.parties.values():
        eventually(lambda party=party: not processes_of_task(party, job_id, "train"), "no process of the job", SECONDS)
