"""The files of jobs on a real disk: what is found by age and name, and a disk that is full."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from fate_flow.components.tables.table_uri import format_uri
from fate_flow.core.model.job import JobKey
from fate_flow.core.model.spec import Party
from fate_flow.server.adapters import JobFiles
from fate_flow.services.artifacts.tables import stored
from fate_flow.settings.settings import Settings
from fate_flow.store.values import Document, TableMeta

KEY = JobKey("2026010112000000000001234", Party("guest", "9999"))
OTHER_ID = "2026010112000000000005678"
DOCUMENT = Document({"components": {}}, {"role": {}}, {"own": 1})
SECOND = 1_000


@pytest.fixture
def files(tmp_path: Path) -> JobFiles:
    return JobFiles(Settings("9999", tmp_path, log_dir=tmp_path / "logs"))


def put(path: Path, at: float) -> Path:
    """A file that was last written so many seconds after the epoch; so was its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (at, at))
    os.utime(path.parent, (at, at))
    return path


def test_the_confs_of_a_seat_are_there_when_all_of_them_are(files: JobFiles, tmp_path: Path) -> None:
    assert not files.has_confs(KEY)
    files.write_confs(KEY, DOCUMENT)
    assert files.has_confs(KEY)
    assert not files.has_confs(JobKey(KEY.job_id, Party("host", "9999")))
    folder = tmp_path / "jobs" / KEY.job_id
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert len(written) == 5
    for path in written:
        text = path.read_text()
        path.unlink()
        assert not files.has_confs(KEY), path
        path.write_text(text)
    on_party = folder / "guest" / "9999" / "job_runtime_on_party_conf.json"
    assert json.loads(on_party.read_text()) == {"own": 1}


def test_confs_that_a_full_disk_cut_off_are_not_there(
    files: JobFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            files.write_confs(KEY, DOCUMENT)
    assert not files.has_confs(KEY)
    assert not [path for path in (tmp_path / "jobs").rglob("*") if path.is_file()], "no drafts fill the disk further"
    files.write_confs(KEY, DOCUMENT)
    assert files.has_confs(KEY)


def test_folders_of_jobs_are_those_with_the_name_of_one(files: JobFiles, tmp_path: Path) -> None:
    assert list(files.jobs_on_disk()) == []
    for name in (KEY.job_id, "fate_flow", "1234", "..x"):
        (tmp_path / "jobs" / name).mkdir(parents=True)
    assert list(files.jobs_on_disk()) == [KEY.job_id]
    files.remove_job(KEY.job_id)
    assert list(files.jobs_on_disk()) == []


def test_logs_are_as_old_as_their_last_line(files: JobFiles, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    put(logs / "fate_flow" / "fate_flow_schedule.log", 10)
    put(logs / KEY.job_id / "fate_flow_schedule.log", 10)
    put(logs / OTHER_ID / "fate_flow_audit.log", 10)
    put(logs / OTHER_ID / "fate_flow_schedule.log", 30)
    os.utime(logs / OTHER_ID, (10, 10))
    assert list(files.logs_before(20 * SECOND)) == [KEY.job_id]
    assert sorted(files.logs_before(31 * SECOND)) == [KEY.job_id, OTHER_ID]
    files.remove_logs(KEY.job_id)
    assert not (logs / KEY.job_id).exists()
    assert (logs / "fate_flow").exists()


def test_uploads_that_are_whole_and_old(files: JobFiles, tmp_path: Path) -> None:
    assert list(files.uploads_before(20 * SECOND)) == []
    old = put(tmp_path / "uploads" / ("a" * 32), 10)
    put(tmp_path / "uploads" / ("b" * 32), 30)
    put(tmp_path / "uploads" / f"{'c' * 32}.part", 10)
    assert list(files.uploads_before(20 * SECOND)) == [str(old)]


def test_the_logs_beyond_a_bound_are_those_that_were_written_to_longest_ago(files: JobFiles) -> None:
    settings = files.settings
    jobs = [f"2026010112000000000000{number}" for number in range(4)]
    for number, job_id in enumerate(jobs):
        file = settings.log_dir / job_id / "guest" / "INFO.log"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x" * 8192)
        os.utime(file, (1_000.0 + number, 1_000.0 + number))
    (settings.log_dir / "fate_flow").mkdir()
    one = os.stat(settings.log_dir / jobs[0] / "guest" / "INFO.log").st_blocks * 512
    assert [files.logs_beyond(most * one, measure_all=True) for most in (4, 3, 1)] == [[], jobs[:1], jobs[:3]]


def test_logs_in_which_nobody_writes_are_not_measured_again_each_time(files: JobFiles) -> None:
    logs, most, now = files.settings.log_dir, 3 << 20, time.time()
    old, new, begun, last = (f"2026010112000000000000{number}" for number in range(4))

    def written(job_id: str, name: str, megabytes: int, at: float) -> None:
        put(logs / job_id / name, at).write_bytes(b"x" * (megabytes << 20))
        os.utime(logs / job_id / name, (at, at))

    written(old, "INFO.log", 0, 1_000.0)
    written(new, "INFO.log", 0, now - 60)
    (logs / begun).mkdir()
    assert files.logs_beyond(most, measure_all=True) == []
    written(old, "DEBUG.log", 2, 1_000.0)
    written(new, "DEBUG.log", 2, now - 50)
    assert files.logs_beyond(most, measure_all=False) == [], "only the newer one was measured"
    assert files.logs_beyond(most, measure_all=True) == [old]
    written(begun, "INFO.log", 2, now - 40)
    assert files.logs_beyond(most, measure_all=False) == [old, new], "a folder without files is not quiet"
    for gone in (old, begun):
        shutil.rmtree(logs / gone)
    written(last, "INFO.log", 2, now - 30)
    assert files.logs_beyond(most, measure_all=False) == [new], "what is new is measured, what is gone is left out"


def test_a_table_whose_file_lies_elsewhere_is_dropped_without_it(
    files: JobFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inside, outside = files.settings.data_dir / "ns" / "a.sqlite", tmp_path / "else" / "ns" / "a.sqlite"
    for path in (inside, outside):
        put(path, 1.0)
    for folder in (inside.parents[1], outside.parents[1]):
        files.remove_artifact(stored(TableMeta("ns", "a", format_uri(folder, "ns", "a"), 1, {})))
    assert (inside.exists(), outside.exists()) == (False, True)
    assert "table ns.a: its file stays" in caplog.text
