"""The space that is kept on the disk with the database."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fate_flow.core.quotas.disk_space import DiskSpace
from fate_flow.server.home_disk import DiskReserve

SIZE = 1 << 20


def reserve(folder: Path, size: int = SIZE, free: int = 1 << 40) -> DiskReserve:
    return DiskReserve(folder / "db.reserve", size, lambda: DiskSpace(free, 1 << 30))


def test_the_space_is_taken_from_the_disk_and_given_back_once(tmp_path: Path) -> None:
    kept = reserve(tmp_path)
    kept.keep()
    found = (tmp_path / "db.reserve").stat()
    assert (found.st_size, found.st_blocks * 512 >= SIZE, found.st_mode & 0o777) == (SIZE, True, 0o600)
    kept.keep()
    assert (tmp_path / "db.reserve").stat().st_ino == found.st_ino
    assert kept.give_back()
    assert not (tmp_path / "db.reserve").exists()


def test_another_process_may_have_given_it_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = reserve(tmp_path)
    assert kept.give_back()                                  # there is space on the disk of the tests
    monkeypatch.setattr(DiskReserve, "_free", lambda _: 0)
    assert not kept.give_back()


def test_a_disk_that_is_nearly_full_keeps_its_space_for_what_runs(tmp_path: Path) -> None:
    reserve(tmp_path, free=(1 << 30) + SIZE).keep()
    assert list(tmp_path.iterdir()) == []


def test_another_size_counts_and_none_removes_the_file(tmp_path: Path) -> None:
    for size in (SIZE, 2 * SIZE, 0):
        reserve(tmp_path, size).keep()
        assert [one.stat().st_size for one in tmp_path.iterdir()] == ([size] if size else [])


def test_a_file_that_cannot_be_made_whole_takes_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "posix_fallocate", full)
    reserve(tmp_path).keep()
    assert list(tmp_path.iterdir()) == []


def test_without_a_disk_of_its_own_nothing_is_kept() -> None:
    kept = DiskReserve(None, SIZE, lambda: DiskSpace(0, 0))
    kept.keep()
    assert not kept.give_back()
