"""How much of the disk the jobs of each other party take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.model.spec import Party
from fate_flow.server.party_disk import PartyDisk, PartyDiskUse
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.memory.store import MemoryStore
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import create
from tests.kit.values import JOB_ID

THEIRS, MORE, OWN, UNKNOWN = (f"202601011200000000{number:02d}" for number in range(4))
BLOCK = 4096


class World:
    def __init__(self, home: Path) -> None:
        self.settings = Settings("10000", home, log_dir=home / "logs")
        self.settings.run_dir.mkdir()
        self.server = HandServer("10000")
        self.now = 0.0
        self.disk = PartyDisk(self.settings, self.server.context, lambda: self.now, lambda _: None)
        self.use = PartyDiskUse(self.settings)
        for job_id, party_id in ((THEIRS, "9999"), (MORE, "9999"), (OWN, "10000")):
            initiator = Party("guest", party_id)
            with self.server.store.transaction() as tx:
                tx.bind(JobBinding(job_id, initiator, frozenset({initiator}), "d" * 64))

    def write(self, path: str, blocks: int = 1) -> Path:
        """Write a file of so many blocks, which takes as many on any disk."""
        file = self.settings.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(blocks * BLOCK))
        return file

    def measured(self) -> dict[str, int]:
        """The blocks of each party."""
        self.now += 300.0
        self.disk.measure()
        return {party_id: size // BLOCK for party_id, size in self.use().items()}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_folders_logs_and_output_tables_count_for_the_initiator(world: World) -> None:
    assert world.use() == {}
    assert world.measured() == {}
    world.write(f"jobs/{THEIRS}/host/10000/a/stdout", 2)
    world.write(f"logs/{THEIRS}/host/10000/INFO.log", 3)
    world.write(f"data/output_{MORE}/a_data/rows", 5)
    for other in (f"jobs/{OWN}/x", f"jobs/{UNKNOWN}/x", "data/demo/t/rows", "logs/fate_flow/x", "uploads/x"):
        world.write(other, 100)
    assert world.measured() == {"9999": 10}


def test_what_is_removed_counts_no_more(world: World) -> None:
    file = world.write(f"jobs/{THEIRS}/x", 4)
    assert world.measured() == {"9999": 4}
    file.unlink()
    assert world.measured() == {"9999": 0}
    file.parent.rmdir()
    assert world.measured() == {}


def test_it_is_measured_every_five_minutes(world: World) -> None:
    world.write(f"jobs/{THEIRS}/x", 1)
    assert world.measured() == {"9999": 1}
    world.write(f"jobs/{THEIRS}/y", 1)
    world.now += 299.0
    world.disk.measure()
    assert world.use() == {"9999": BLOCK}
    world.now += 1.0
    world.disk.measure()
    assert world.use() == {"9999": 2 * BLOCK}


def test_a_folder_in_which_nobody_writes_is_measured_each_hour(world: World) -> None:
    quiet = world.write(f"jobs/{THEIRS}/x", 1)
    os.utime(quiet, (1, 1))
    assert world.measured() == {"9999": 1}
    os.utime(world.write(f"jobs/{THEIRS}/y", 1), (1, 1))
    assert [world.measured() for _ in range(11)] == [{"9999": 1}] * 11
    assert world.measured() == {"9999": 2}


def test_a_job_that_is_not_over_is_measured_each_time(world: World) -> None:
    answer = world.server.handle(create())
    assert answer.is_ok, answer
    quiet = world.write(f"jobs/{JOB_ID}/x", 1)
    os.utime(quiet, (1, 1))
    assert world.measured() == {"9999": 1}
    world.write(f"jobs/{JOB_ID}/y", 1)
    assert world.measured() == {"9999": 2}


def test_it_is_asked_once_whose_job_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    find = MemoryStore.reading

    @contextmanager
    def reading(store: MemoryStore) -> Iterator[Counting]:
        with find(store) as tx:
            yield Counting(tx, asked)

    monkeypatch.setattr(MemoryStore, "reading", reading)
    for job_id in (THEIRS, OWN):
        world.write(f"jobs/{job_id}/x", 1)
    assert [world.measured() for _ in range(3)] == [{"9999": 1}] * 3
    assert sorted(asked) == [THEIRS, OWN]


class Counting:
    """A transaction that notes of which jobs the bindings were read."""

    def __init__(self, tx: Transaction, asked: list[str]) -> None:
        self._tx, self._asked = tx, asked

    def binding(self, job_id: str) -> JobBinding | None:
        self._asked.append(job_id)
        return self._tx.binding(job_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


def test_a_file_that_cannot_be_read_changes_nothing(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.write(f"jobs/{THEIRS}/x", 1)
    assert world.measured() == {"9999": 1}
    (world.settings.run_dir / "party_disk.json").write_text("{", encoding="utf-8")
    os.utime(world.settings.run_dir / "party_disk.json", (1, 1))
    assert world.use() == {"9999": BLOCK}
    assert "party_disk.json cannot be read" in caplog.text
