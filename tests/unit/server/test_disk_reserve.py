"""The space that is kept on the disk with the database."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fate_flow.core.quotas.disk_space import LeastFree
from fate_flow.server.home_disk import DiskReserve

SIZE = 1 << 20


def reserve(folder: Path, size: int = SIZE, least: LeastFree | None = None) -> DiskReserve:
    return DiskReserve(folder / "db.reserve", size, least or LeastFree(amount=0))


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


def test_what_has_to_stay_free_of_the_disk_of_the_database_is_not_taken(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    free = found.f_bavail * found.f_frsize
    reserve(tmp_path, least=LeastFree(amount=free - SIZE)).keep()
    assert list(tmp_path.iterdir()) == []
    reserve(tmp_path, least=LeastFree(amount=free // 2)).keep()
    assert [one.name for one in tmp_path.iterdir()] == ["db.reserve"]


def test_a_file_with_holes_keeps_nothing_and_is_made_again(tmp_path: Path) -> None:
    with (tmp_path / "db.reserve").open("wb") as file:
        file.truncate(SIZE)
    assert (tmp_path / "db.reserve").stat().st_blocks == 0
    reserve(tmp_path).keep()
    assert (tmp_path / "db.reserve").stat().st_blocks * 512 >= SIZE


def test_another_size_counts_and_none_removes_the_file(tmp_path: Path) -> None:
    for size in (SIZE, 2 * SIZE, 0):
        reserve(tmp_path, size).keep()
        assert [one.stat().st_size for one in tmp_path.iterdir()] == ([size] if size else [])


def test_a_file_that_cannot_be_made_whole_takes_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "posix_fallocate", full)
    kept = reserve(tmp_path)
    for _ in range(3):
        kept.keep()
    assert list(tmp_path.iterdir()) == []
    assert ["no space can be kept for the record" in one for one in caplog.messages] == [True]       # and not each time


def test_without_a_disk_of_its_own_nothing_is_kept() -> None:
    kept = DiskReserve(None, SIZE, LeastFree())
    kept.keep()
    assert not kept.give_back()
