"""Notes of what was used: kept for as long as they are needed, in a folder that does not grow for ever."""

from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fate_flow.api.http.nonces import Nonces
from fate_flow.core.model.errors import StorageFailed

NOW, WINDOW = 1_700_000_000_000, 60_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "nonces"


def test_each_is_new_once_for_all_that_share_the_folder(folder: Path) -> None:
    one, other = Nonces(folder, WINDOW), Nonces(folder, WINDOW)
    assert one.is_new("a", NOW, NOW)
    assert not other.is_new("a", NOW, NOW)
    assert other.is_new("../a", NOW, NOW)
    assert not one.is_new("../a", NOW, NOW)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_of_many_at_once_one_is_the_first(folder: Path) -> None:
    nonces = Nonces(folder, WINDOW)
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: nonces.is_new("a", NOW, NOW), range(50))) == 1


def test_what_is_too_old_to_be_taken_goes_a_few_at_a_time(folder: Path) -> None:
    nonces = Nonces(folder, WINDOW)
    for number in range(100):
        nonces.is_new(f"old {number}", NOW, NOW)
    later = NOW + 2 * WINDOW
    for number in range(60):
        assert nonces.is_new(f"new {number}", later, later)
    assert len(list(folder.iterdir())) == 160, "just as old as may be"
    before = 160
    for number in range(60):
        assert nonces.is_new(f"newer {number}", later + 1, later + 1)
        left = len(list(folder.iterdir()))
        assert left >= before - 16 + 1
        before = left
    assert sorted({int(path.name.partition("-")[0]) for path in folder.iterdir()}) == [later, later + 1]
    assert not nonces.is_new("new 0", later, later + 1)


def test_all_names_that_a_process_makes_are_those_of_one_file(folder: Path) -> None:
    one, other = Nonces(folder, WINDOW), Nonces(folder, WINDOW)
    for number in range(5):
        assert one.is_new(f"one {number}", NOW, NOW)
        assert other.is_new(f"other {number}", NOW, NOW)
        assert not one.is_new(f"other {number}", NOW, NOW)
    assert sorted(path.stat().st_nlink for path in folder.iterdir()) == [5] * 10


@pytest.mark.parametrize("refusal", [errno.EMLINK, errno.EPERM, errno.ENOTSUP])
def test_a_file_that_takes_no_other_name_is_followed_by_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(refusal, os.strerror(refusal))

    nonces = Nonces(folder, WINDOW)
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse)
        assert nonces.is_new("a", NOW, NOW)
        assert nonces.is_new("b", NOW, NOW)
        assert not nonces.is_new("a", NOW, NOW)
    assert nonces.is_new("c", NOW, NOW)
    assert sorted(path.stat().st_nlink for path in folder.iterdir()) == [1, 2, 2]


def test_the_folder_and_the_last_file_may_be_removed_meanwhile(folder: Path) -> None:
    nonces = Nonces(folder, WINDOW)
    assert nonces.is_new("a", NOW, NOW)
    shutil.rmtree(folder)
    assert nonces.is_new("b", NOW, NOW)
    assert not nonces.is_new("b", NOW, NOW)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_takes_no_file_is_an_error_of_the_storage(folder: Path) -> None:
    folder.write_text("in the way")
    with pytest.raises(StorageFailed, match=r"nonces: cannot be written: Not a directory"):
        Nonces(folder, WINDOW).is_new("a", NOW, NOW)
