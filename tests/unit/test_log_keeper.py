"""Log files that their writers do not rotate stay within the bounds of the section `log`."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from logging.handlers import WatchedFileHandler
from pathlib import Path

import pytest

from fate_flow.cli.server import service
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.server.periodic.log_keeper import LogKeeper, bound_console
from fate_flow.server.runtime import open_log
from fate_flow.settings.logs import LogLimits
from fate_flow.settings.settings import Settings

KEY = TaskKey("202611220000000000000000", "train", 0, Party("guest", "9999"))
SHARE = f"{KEY.job_id}/guest/9999"
BOUND = 10_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    limits = LogLimits(file_max_bytes=BOUND, folder_max_bytes=5 * BOUND)
    return Settings(party_id="9999", home=tmp_path, log_dir=tmp_path / "elsewhere", log_limits=limits)


@pytest.fixture
def console(settings: Settings) -> Iterator[Path]:
    """What stdout of this process leads to, as `bin/service.sh` starts a server."""
    path = settings.home / "logs" / "fate_flow" / "console.log"
    path.parent.mkdir(parents=True)
    before = os.dup(1)
    try:
        yield path
    finally:
        os.dup2(before, 1)
        os.close(before)


def lead_stdout_to(path: Path, flags: int = os.O_APPEND) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    os.dup2(descriptor, 1)
    os.close(descriptor)


def rotated(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}.*"))


def fill(path: Path, size: int = BOUND) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (b"x" * 99 + b"\n") * (size // 100)
    path.write_bytes(data)
    return data


def keeper(settings: Settings, *keys: TaskKey) -> LogKeeper:
    return LogKeeper(settings, lambda: keys, lambda: None)


# ---------------------------------------------------------------------- console.log


def test_a_console_that_has_grown_is_copied_and_emptied_and_its_writer_goes_on(
    settings: Settings, console: Path
) -> None:
    data = fill(console)
    lead_stdout_to(console)
    keeper(settings).look()
    os.write(1, b"next\n")
    assert console.read_bytes() == b"next\n"
    [copy] = rotated(console)
    assert copy.read_bytes() == data
    assert copy.stat().st_mode & 0o777 == 0o600


def test_a_console_within_its_bound_stays(settings: Settings, console: Path) -> None:
    data = fill(console, BOUND - 100)
    lead_stdout_to(console)
    assert not bound_console(settings)
    assert (console.read_bytes(), rotated(console)) == (data, [])


def test_the_copies_of_the_console_stay_within_the_bound_of_the_folder(settings: Settings, console: Path) -> None:
    lead_stdout_to(console)
    for _ in range(12):
        os.write(1, b"y" * BOUND)
        assert bound_console(settings)
    assert 0 < sum(path.stat().st_size for path in rotated(console)) <= 5 * BOUND


def test_a_console_that_is_not_appended_to_is_left_alone(settings: Settings, console: Path) -> None:
    data = fill(console)
    lead_stdout_to(console, flags=0)
    assert not bound_console(settings)
    assert console.read_bytes() == data


def test_a_console_of_another_process_is_left_alone(settings: Settings, console: Path) -> None:
    data = fill(console)
    assert not bound_console(settings)
    assert console.read_bytes() == data


def test_a_console_that_does_not_end_with_a_line_is_copied_as_far_as_it_goes(settings: Settings, console: Path) -> None:
    data = fill(console) + b"half a line"
    console.write_bytes(data)
    lead_stdout_to(console)
    assert bound_console(settings)
    assert (console.read_bytes(), [copy.read_bytes() for copy in rotated(console)]) == (b"", [data])


def test_a_disk_without_room_for_the_copy_costs_nothing_of_the_console(
    settings: Settings, console: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = fill(console)
    lead_stdout_to(console)
    full = "fate_flow.records.operator_log.files._for_us_alone"
    monkeypatch.setattr(full, lambda *_: os.open("/dev/full", os.O_WRONLY))
    assert not bound_console(settings)
    assert (console.read_bytes(), rotated(console)) == (data, [])


def test_while_it_is_emptied_no_line_is_torn_or_doubled(settings: Settings, console: Path) -> None:
    """Lines between the end of a copy and the emptying may be missing; all others are there once, in their order."""
    lead_stdout_to(console)
    writer = subprocess.Popen(
        [sys.executable, "-uc", "import os\nfor n in range(20_000): os.write(1, b'%019d\\n' % n)"], stdout=1
    )
    rounds = 0
    while writer.poll() is None:
        rounds += bound_console(settings)
    rounds += bound_console(settings)          # where the writer was faster than the first look
    os.write(1, b"%019d\n" % 20_000)
    assert (writer.returncode, rounds > 0) == (0, True)
    kept = [*rotated(console), console]
    kept.sort(key=lambda path: path.stat().st_mtime_ns)
    lines = b"".join(path.read_bytes() for path in kept).splitlines(keepends=True)
    assert {len(line) for line in lines} == {20}
    assert len(set(lines)) == len(lines)
    assert lines[-1] == b"%019d\n" % 20_000


def test_a_start_that_fails_shows_the_console_that_was_emptied_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_text("old\nthe reason\n")
    assert service._tail(path, begin=4) == "    the reason"
    assert service._tail(path, begin=5_000) == "    old\n    the reason"


# ---------------------------------------------------------------------- the files of components


@pytest.mark.parametrize("name", ["INFO.log", "train/stat.log"])
def test_a_file_of_a_component_that_has_grown_is_renamed_and_its_writer_follows(settings: Settings, name: str) -> None:
    path = settings.log_dir / SHARE / name
    path.parent.mkdir(parents=True)
    handler = WatchedFileHandler(path, delay=True)
    for number in range(BOUND // 10):
        handler.emit(logging.makeLogRecord({"msg": "%09d", "args": (number,)}))
    keeper(settings, KEY).look()
    handler.emit(logging.makeLogRecord({"msg": "next"}))
    handler.close()
    assert path.read_text() == "next\n"
    [old] = rotated(path)
    assert old.read_text().splitlines() == [f"{number:09d}" for number in range(BOUND // 10)]


def test_the_rotated_files_of_a_component_stay_within_the_bound_of_its_folder(settings: Settings) -> None:
    path = settings.log_dir / SHARE / "train" / "DEBUG.log"
    for _ in range(12):
        fill(path)
        keeper(settings, KEY).look()
    assert sum(one.stat().st_size for one in path.parent.iterdir()) <= 5 * BOUND


@pytest.mark.parametrize("name", ["train/task_executor_1_std.log", "train/task_executor_1_err.log", "train/data.csv"])
def test_what_its_writer_does_not_open_again_is_left_alone(settings: Settings, name: str) -> None:
    path = settings.log_dir / SHARE / name
    data = fill(path)
    keeper(settings, KEY).look()
    assert (path.read_bytes(), rotated(path)) == (data, [])


def test_jobs_without_a_worker_are_not_looked_at(settings: Settings) -> None:
    path = settings.log_dir / SHARE / "INFO.log"
    fill(path)
    keeper(settings).look()
    assert rotated(path) == []
    keeper(settings, KEY).look()
    assert len(rotated(path)) == 1


# ---------------------------------------------------------------------- the thread


def test_it_looks_until_it_is_stopped_whatever_goes_wrong(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fate_flow.server.periodic.log_keeper.LOOK_SECONDS", 0.001)
    looks, closed = threading.Semaphore(0), threading.Event()

    def at_work() -> list[TaskKey]:
        looks.release()
        raise OSError("no database")

    one = LogKeeper(settings, at_work, closed.set)
    one.start()
    assert all(looks.acquire(timeout=90) for _ in range(3))
    one.stop()
    assert closed.wait(90)
    assert "the sizes of log files could not be checked" in caplog.text


def test_the_log_of_a_server_stays_within_the_bounds_of_its_configuration(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that the operators read, statements of SQL too, and of each job as of the server."""
    monkeypatch.setattr("fate_flow.records.operator_log.files.LOOK_AGAIN_SECONDS", 0.0)
    for name, value in {"handlers": [], "level": logging.getLogger().level}.items():
        monkeypatch.setattr(logging.getLogger(), name, value)
    record = open_log(settings)
    for number in range(1_000):
        record.access("127.0.0.1", "POST", f"/v1/job/query?{number:0100}", 200)
        record.sql(KEY.job_id, f"UPDATE t_job SET f_progress = {number:0100}")
    record.close()
    for folder in (settings.log_dir / "fate_flow", settings.log_dir / KEY.job_id):
        sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
        names = {name.partition(".log")[0] for name in sizes}
        assert any(".log." in name for name in sizes), (folder, sizes)
        assert max(sizes.values()) <= BOUND + 1_000
        assert sum(sizes.values()) <= (5 + len(names)) * (BOUND + 1_000)
