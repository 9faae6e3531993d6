"""When the disk of a party is nearly full, what it says then, and what its log says."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from fate_flow.core.quotas.disk_space import DiskSpace, LeastFree, text_for_parties
from fate_flow.server.home_disk import DiskWatch, HomeDisk
from fate_flow.server.runtime import disk_of
from fate_flow.settings.limits import Limits
from fate_flow.settings.settings import Settings

GIB, MIB = 1 << 30, 1 << 20


@pytest.mark.parametrize(("least", "total", "kept"), [
    (LeastFree(), 100 * GIB, GIB), (LeastFree(), 10 * GIB, GIB // 2), (LeastFree(), 0, 0),
    (LeastFree(amount=7), 100 * GIB, 7), (LeastFree(amount=0), 100 * GIB, 0), (LeastFree(share=0.5), 100, 50),
])  # fmt: skip
def test_what_has_to_stay_free(least: LeastFree, total: int, kept: int) -> None:
    assert least.of(total) == kept


@pytest.mark.parametrize(("space", "incoming", "is_short"), [
    (DiskSpace(10, 10), 0, False), (DiskSpace(9, 10), 0, True), (DiskSpace(10, 10), 1, True),
    (DiskSpace(0, 0), 0, False), (DiskSpace(0, 0), 99, False),
])  # fmt: skip
def test_less_than_that_is_too_little(space: DiskSpace, incoming: int, is_short: bool) -> None:
    assert space.is_short(incoming) is is_short


def test_own_people_read_sizes_and_other_parties_do_not() -> None:
    own = DiskSpace(512 * MIB, GIB).text_for_clients("9999", 3 * GIB)
    assert own.startswith(
        "party 9999 takes nothing new: its disk has 512 MiB free and 3072 MiB would come, and 1024 MiB have to stay "
        "free (limits.least_free_disk)."
    )
    other = text_for_parties("9999")
    assert other.startswith("party 9999 takes nothing new now: its disk is nearly full (limits.least_free_disk, which ")
    assert not any(digit in other.replace("9999", "") for digit in "0123456789")


def test_the_disk_is_asked_once_a_second(tmp_path: Path) -> None:
    now = [0.0]
    disk = HomeDisk(tmp_path, LeastFree(amount=5), lambda: now[0])
    first = disk()
    assert (first.free > 0, first.least) == (True, 5)
    now[0] = 0.9
    assert disk() is first
    now[0] = 1.0
    assert disk() is not first


def test_a_disk_that_cannot_be_asked_refuses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert HomeDisk(tmp_path / "none", LeastFree(amount=1 << 60))().is_short() is False
    assert "cannot be read: No such file or directory" in caplog.text


class Disks:
    """What `os.statvfs` says: the free bytes of each folder, of 100."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **free: int) -> None:
        self.free = free
        monkeypatch.setattr("os.statvfs", self._of)

    def _of(self, folder: Path) -> SimpleNamespace:
        if folder.name not in self.free:
            raise FileNotFoundError(2, "No such file or directory", str(folder))
        return SimpleNamespace(f_bavail=self.free[folder.name], f_blocks=100, f_frsize=1)


@pytest.mark.parametrize(("free", "folder", "left"), [
    ({"home": 50, "logs": 50, "database": 50}, "", 50),
    ({"home": 50, "logs": 9, "database": 50}, "/x/logs", 9),
    ({"home": 50, "logs": 9, "database": 3}, "/x/database", 3),
    ({"home": 4, "logs": 9, "database": 3}, "", 4),
    ({"home": 50, "logs": 11}, "", 50),
    ({"logs": 1}, "", 0),
])  # fmt: skip
def test_each_disk_that_the_server_writes_to_counts(
    monkeypatch: pytest.MonkeyPatch, free: dict[str, int], folder: str, left: int
) -> None:
    Disks(monkeypatch, **free)
    others = [Path("/x/logs"), Path("/x/database")]
    found = HomeDisk(Path("/x/home"), LeastFree(amount=10), others=others)()
    assert (found.folder, found.free) == (folder, left)
    assert found.is_short() == (0 < left < 10)
    assert found.total == (100 if "home" in free else 0), "quotas are shares of the disk with the home"


def test_another_disk_is_named_to_own_people() -> None:
    text = DiskSpace(3, 10, 100, "/var/log/bank").text_for_clients("9999")
    assert "the disk with /var/log/bank has 3 bytes free, and 10 bytes have to stay free" in text
    assert "Free some space on that disk; what runs goes on" in text


def test_a_server_looks_at_the_disks_of_its_logs_and_its_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = Disks(monkeypatch, home=50, logs=50, rows=50)
    asked = Settings(
        "9999", tmp_path / "home", log_dir=tmp_path / "logs", database_url=f"sqlite:///{tmp_path}/rows/r.sqlite",
        limits=Limits(least_free_disk=10),
    )
    for name in ("logs", "rows", "data", "spool"):
        disks.free[name] = 5
        assert disk_of(asked)().folder == str(tmp_path / ("home" if name in ("data", "spool") else "") / name)
        disks.free[name] = 50


def test_the_log_has_a_line_at_the_beginning_and_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    states = iter([DiskSpace(9, 5), DiskSpace(4, 5), DiskSpace(3, 5), DiskSpace(6, 5), DiskSpace(6, 5)])
    watch = DiskWatch("9999", lambda: next(states))
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            watch.look()
    assert [one.levelname for one in caplog.records] == ["ERROR", "WARNING"]
    assert "its disk has 4 bytes free, and 5 bytes have to stay free" in caplog.messages[0]
    assert caplog.messages[1].startswith("party 9999 takes new jobs, uploads and messages again")
