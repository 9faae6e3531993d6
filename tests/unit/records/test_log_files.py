"""Appending from several processes, rotation, loss and return of files, a full disk, forks."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from fate_flow.records.operator_log import files as files_module
from fate_flow.records.operator_log.files import LOCK_FILE, LogBounds, LogFiles

MONDAY = time.mktime((2021, 7, 26, 12, 0, 0, 0, 0, -1))
TUESDAY = time.mktime((2021, 7, 27, 0, 0, 1, 0, 0, -1))


@pytest.fixture
def files(tmp_path: Path) -> LogFiles:
    return LogFiles(tmp_path)


def test_a_file_appears_with_its_first_record(files: LogFiles, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []
    files.append(("a/x.log", "a/y.log"), b"one\n", MONDAY)
    files.append(("a/x.log",), b"two\n", MONDAY)
    assert (tmp_path / "a/x.log").read_bytes() == b"one\ntwo\n"
    assert (tmp_path / "a/y.log").read_bytes() == b"one\n"


def test_a_record_is_one_write(files: LogFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = record_writes(monkeypatch)
    files.append(("x.log",), b"a" * 100_000 + b"\n", MONDAY)
    assert [len(data) for data in writes] == [100_001]


def test_held_records_are_one_write_before_the_next_record(
    files: LogFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes = record_writes(monkeypatch)
    for number in range(3):
        files.hold(("db.log",), b"%d\n" % number, MONDAY)
    assert writes == []
    files.append(("x.log",), b"x\n", MONDAY)
    assert writes == [b"0\n1\n2\n", b"x\n"]
    files.hold(("db.log",), b"3\n", MONDAY)
    files.close()
    assert (tmp_path / "db.log").read_bytes() == b"0\n1\n2\n3\n"


def test_a_file_that_has_grown_rotates_and_the_oldest_go_beyond_the_bound_of_the_folder(tmp_path: Path) -> None:
    files = LogFiles(tmp_path, LogBounds(file_bytes=100, folder_bytes=500))
    for number in range(40):
        for name in ("a.log", "b.log"):
            files.append((name,), b"%049d\n" % number, MONDAY + number)
        (tmp_path / "kept.txt").write_bytes(b"x" * 50)
        sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
        assert sum(sizes.values()) <= 500 + 2 * 150, "rotated ones within the bound, and a file of each name"
        assert max(sizes.values()) <= 150
    rotated = list(tmp_path.glob("*.log.2021-07-26*"))
    assert len(rotated) >= 3
    found = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("a.log*"), key=lambda path: path.read_bytes()))
    assert found.endswith(b"%049d\n" % 38 + b"%049d\n" % 39), "the newest are there"
    assert sorted(found.splitlines()) == found.splitlines()


def test_a_file_that_an_earlier_process_filled_rotates_when_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"x" * 100)
    os.utime(tmp_path / "x.log", (MONDAY, MONDAY))
    LogFiles(tmp_path, LogBounds(file_bytes=100)).append(("x.log",), b"new\n", MONDAY)
    assert (tmp_path / "x.log").read_bytes() == b"new\n"
    assert (tmp_path / "x.log.2021-07-26").read_bytes() == b"x" * 100


def test_the_first_record_of_a_day_rotates(files: LogFiles, tmp_path: Path) -> None:
    files.append(("x.log",), b"monday\n", MONDAY)
    files.append(("x.log",), b"tuesday\n", TUESDAY)
    assert (tmp_path / "x.log.2021-07-26").read_bytes() == b"monday\n"
    assert (tmp_path / "x.log").read_bytes() == b"tuesday\n"


def test_a_file_left_by_an_earlier_process_rotates_by_its_age(files: LogFiles, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"monday\n")
    os.utime(tmp_path / "x.log", (MONDAY, MONDAY))
    files.append(("x.log",), b"tuesday\n", TUESDAY)
    assert (tmp_path / "x.log.2021-07-26").read_bytes() == b"monday\n"
    assert (tmp_path / "x.log").read_bytes() == b"tuesday\n"


def test_fourteen_days_are_kept_and_nothing_else_is_removed(files: LogFiles, tmp_path: Path) -> None:
    for day in range(1, 21):
        (tmp_path / f"x.log.2021-07-{day:02d}").touch()
    for other in ("x.log.bak", "y.log.2021-07-01", "xx.log.2021-07-01"):
        (tmp_path / other).touch()
    files.append(("x.log",), b"monday\n", MONDAY)
    files.append(("x.log",), b"tuesday\n", TUESDAY)
    days = sorted(path.name for path in tmp_path.glob("x.log.2021*"))
    assert days == [f"x.log.2021-07-{day:02d}" for day in range(8, 21)] + ["x.log.2021-07-26"]
    assert {"x.log.bak", "y.log.2021-07-01", "xx.log.2021-07-01"} <= {path.name for path in tmp_path.iterdir()}


def test_a_rotated_day_is_never_overwritten(files: LogFiles, tmp_path: Path) -> None:
    (tmp_path / "x.log.2021-07-26").write_bytes(b"earlier\n")
    files.append(("x.log",), b"monday\n", MONDAY)
    files.append(("x.log",), b"tuesday\n", TUESDAY)
    assert (tmp_path / "x.log.2021-07-26").read_bytes() == b"earlier\n"
    assert (tmp_path / "x.log.2021-07-26.1").read_bytes() == b"monday\n"


def test_several_writers_rotate_once_and_lose_nothing(tmp_path: Path) -> None:
    writers = [LogFiles(tmp_path) for _ in range(3)]
    for at in (MONDAY, TUESDAY, TUESDAY + 0.5, TUESDAY + 2):
        for writer in writers:
            writer.append(("x.log",), b"line\n", at)
    assert (tmp_path / "x.log.2021-07-26").read_bytes().count(b"\n") == 3
    assert (tmp_path / "x.log").read_bytes().count(b"\n") == 9
    assert len(list(tmp_path.glob("x.log*"))) == 2


def test_who_cannot_lock_goes_on_and_rotates_later(files: LogFiles, tmp_path: Path) -> None:
    files.append(("x.log",), b"monday\n", MONDAY)
    with open(tmp_path / LOCK_FILE, "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        files.append(("x.log",), b"late\n", TUESDAY)
        files.append(("x.log",), b"later\n", TUESDAY + 0.1)
    files.append(("x.log",), b"tuesday\n", TUESDAY + 2)
    assert (tmp_path / "x.log.2021-07-26").read_bytes() == b"monday\nlate\nlater\n"
    assert (tmp_path / "x.log").read_bytes() == b"tuesday\n"


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.rename(path.with_suffix(".gone"))])
def test_a_lost_file_is_opened_again_within_a_second(
    files: LogFiles, tmp_path: Path, lose: Callable[[Path], object],
) -> None:
    files.append(("a/x.log",), b"one\n", MONDAY)
    lose(tmp_path / "a/x.log")
    files.append(("a/x.log",), b"lost\n", MONDAY + 0.9)
    files.append(("a/x.log",), b"two\n", MONDAY + 1.0)
    assert (tmp_path / "a/x.log").read_bytes() == b"two\n"


def test_a_removed_folder_comes_back(files: LogFiles, tmp_path: Path) -> None:
    files.append(("a/x.log",), b"one\n", MONDAY)
    (tmp_path / "a/x.log").unlink()
    (tmp_path / "a").rmdir()
    files.append(("a/x.log",), b"two\n", MONDAY + 2)
    assert (tmp_path / "a/x.log").read_bytes() == b"two\n"


def test_a_clock_that_goes_back_is_no_reason_to_stop_looking(files: LogFiles, tmp_path: Path) -> None:
    files.append(("x.log",), b"one\n", TUESDAY)
    (tmp_path / "x.log").unlink()
    files.append(("x.log",), b"two\n", MONDAY)
    assert (tmp_path / "x.log").read_bytes() == b"two\n"


def test_no_more_descriptors_are_open_than_allowed(tmp_path: Path) -> None:
    files = LogFiles(tmp_path, most_open=4)
    for number in range(20):
        files.append((f"{number}.log", "often.log"), b"x\n", MONDAY)
    assert len(open_below(tmp_path)) == 4
    assert (tmp_path / "often.log").read_bytes() == b"x\n" * 20
    files.close()
    assert open_below(tmp_path) == []


def open_below(folder: Path) -> list[str]:
    """The files there that this process has open; others of it come and go."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(os.readlink(descriptor))
    return [name for name in found if name.startswith(f"{folder}/")]


# what cannot be written


def test_a_full_disk_never_raises_and_is_reported_when_it_is_over(
    files: LogFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    files.append(("x.log",), b"one\n", MONDAY)
    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "write", no_space)
        for _ in range(3):
            files.append(("x.log",), b"lost\n", MONDAY)
        files.hold(("x.log",), b"lost\n", MONDAY)
        files.hold(("x.log",), b"lost\n", MONDAY)
        files.flush()
    files.append(("x.log",), b"two\n", MONDAY)
    lines = (tmp_path / "x.log").read_text().splitlines()
    assert lines[0] == "one"
    assert lines[1].startswith("[WARNING] [2021-07-26 12:00:00,000] [")
    assert lines[1].endswith("]: 5 log lines were dropped")
    assert lines[2:] == ["two"]
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    assert "x.log" in stderr
    assert "No space left on device" in stderr


def test_a_device_that_is_truly_full(files: LogFiles, tmp_path: Path) -> None:
    (tmp_path / "x.log").symlink_to("/dev/full")
    files.append(("x.log", "y.log"), b"one\n", MONDAY)
    (tmp_path / "x.log").unlink()
    files.append(("x.log", "y.log"), b"two\n", MONDAY)
    assert (tmp_path / "x.log").read_text().splitlines()[0].endswith("1 log lines were dropped")
    assert (tmp_path / "y.log").read_text() == "one\ntwo\n"


def test_a_torn_record_does_not_swallow_the_next(
    files: LogFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, calls = os.write, []

    def four_bytes_left(fd: int, data: bytes) -> int:
        calls.append(data)
        return real(fd, data[:4]) if len(calls) == 1 else no_space(fd, data)

    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "write", four_bytes_left)
        files.append(("x.log",), b"torn record\n", MONDAY)
    files.append(("x.log",), b"whole\n", MONDAY)
    lines = (tmp_path / "x.log").read_text().splitlines()
    assert lines[0] == "torn"
    assert lines[1].endswith("1 log lines were dropped")
    assert lines[2] == "whole"


def test_a_short_write_is_completed(files: LogFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "write", lambda fd, data: real(fd, data[:8]))
        files.append(("x.log",), b"whole record\n", MONDAY)
    files.append(("x.log",), b"next\n", MONDAY)
    assert (tmp_path / "x.log").read_bytes() == b"whole record\nnext\n"


def test_a_root_that_cannot_be_a_folder_never_raises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    files = LogFiles(tmp_path / "file" / "logs")
    for _ in range(100):
        files.append(("a/x.log", "a/y.log"), b"x\n", MONDAY)
    assert capsys.readouterr().err.count("\n") == 1
    (tmp_path / "file").unlink()
    files.append(("a/x.log",), b"x\n", MONDAY)
    assert "100 log lines were dropped" in (tmp_path / "file/logs/a/x.log").read_text()


def test_a_missing_stderr_is_no_error_either(files: LogFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module.os, "write", no_space)
    monkeypatch.setattr(sys, "stderr", None)
    files.append(("x.log",), b"x\n", MONDAY)


def test_a_folder_where_nothing_can_be_renamed_keeps_its_lines(
    files: LogFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "read-only")

    files.append(("x.log",), b"monday\n", MONDAY)
    monkeypatch.setattr(Path, "rename", refuse)
    files.append(("x.log",), b"tuesday\n", TUESDAY)
    assert (tmp_path / "x.log").read_bytes() == b"monday\ntuesday\n"


# threads and processes


def test_two_processes_never_interleave(tmp_path: Path) -> None:
    script = """
import sys, time
from pathlib import Path
from fate_flow.records.operator_log.files import LogFiles
files = LogFiles(Path(sys.argv[1]))
for number in range(2000):
    files.append(("x.log",), f"{sys.argv[2]} {number} {sys.argv[2] * (number % 700)}\\n".encode(), time.time())
"""
    started = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name]) for name in "ab"]
    assert [process.wait(180) for process in started] == [0, 0]
    seen: dict[str, list[int]] = {"a": [], "b": []}
    for line in (tmp_path / "x.log").read_text().splitlines():
        name, number, filling = line.split(" ")
        assert filling == name * (int(number) % 700)
        seen[name].append(int(number))
    assert seen == {"a": list(range(2000)), "b": list(range(2000))}


def test_processes_that_rotate_under_each_other_lose_nothing(tmp_path: Path) -> None:
    """Three processes live through the next ten days in a second; whatever one opens is old and rotates."""
    script = """
import sys
from pathlib import Path
from fate_flow.records.operator_log.files import LogFiles
files = LogFiles(Path(sys.argv[1]))
for number in range(3000):
    at = float(sys.argv[3]) + number / 300 * 86400
    files.append(("x.log",), f"{sys.argv[2]}{number}\\n".encode(), at)
"""
    arguments = [sys.executable, "-c", script, str(tmp_path)]
    started = [subprocess.Popen([*arguments, name, str(time.time())]) for name in "abc"]
    assert [process.wait(180) for process in started] == [0, 0, 0]
    lines = [line for path in tmp_path.glob("x.log*") for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(f"{name}{number}" for name in "abc" for number in range(3000))


def test_threads_share_the_files(files: LogFiles, tmp_path: Path) -> None:
    def write(name: str) -> None:
        for number in range(300):
            files.append((f"{number % 3}.log",), f"{name}{number}\n".encode(), MONDAY + number / 100)
            files.hold(("held.log",), f"{name}{number}\n".encode(), MONDAY)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files.close()
    expected = sorted(f"{name}{number}" for name in "abcd" for number in range(300))
    assert sorted((tmp_path / "held.log").read_text().split()) == expected
    written = [line for number in range(3) for line in (tmp_path / f"{number}.log").read_text().split()]
    assert sorted(written) == expected


def test_a_child_forked_while_a_thread_held_the_lock_can_log(files: LogFiles, tmp_path: Path) -> None:
    files.append(("x.log",), b"parent\n", MONDAY)
    files.hold(("x.log",), b"held\n", MONDAY)
    held, done = threading.Event(), threading.Event()

    def hold_the_lock() -> None:
        with files._lock:
            held.set()
            done.wait(180)

    thread = threading.Thread(target=hold_the_lock)
    thread.start()
    held.wait(180)
    child = os.fork()
    if child == 0:
        files.append(("x.log",), b"child\n", MONDAY)
        files.flush()
        os._exit(0)
    status = wait_for(child)
    done.set()
    thread.join()
    files.append(("x.log",), b"parent\n", MONDAY)
    assert status == 0
    assert (tmp_path / "x.log").read_bytes() == b"parent\nchild\nheld\nparent\n"      # held lines come once


def test_a_signal_handler_may_log_while_its_thread_logs(files: LogFiles, tmp_path: Path) -> None:
    with files._lock:
        files.append(("x.log",), b"from the handler\n", MONDAY)
    assert (tmp_path / "x.log").read_bytes() == b"from the handler\n"


def test_what_is_held_is_written_when_the_process_ends(tmp_path: Path) -> None:
    script = """
import sys, time
from pathlib import Path
from fate_flow.records.operator_log.files import LogFiles
files = LogFiles(Path(sys.argv[1]))
files.hold(("x.log",), b"held\\n", time.time())
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=180)
    assert (tmp_path / "x.log").read_bytes() == b"held\n"


def record_writes(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    real, writes = os.write, []

    def write(fd: int, data: bytes) -> int:
        writes.append(data)
        return real(fd, data)

    monkeypatch.setattr(files_module.os, "write", write)
    return writes


def no_space(fd: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def wait_for(child: int) -> int:
    """The child's exit status; 99 when it hung."""
    for _ in range(9000):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return 99
