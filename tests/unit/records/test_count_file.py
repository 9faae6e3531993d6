"""Counts of processes: nothing is lost by a kill or a restart, and a broken file costs its own counts alone."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from fate_flow.core.metrics.measures import DATABASE_SECONDS, HTTP_REQUESTS, MEASURES, READ
from fate_flow.records.measures.count_file import CountFile, read_counts
from fate_flow.records.measures.kept_measures import KeptMeasures, Series, read_measures


def test_numbers_are_added_up_over_the_processes(tmp_path: Path) -> None:
    one, other = CountFile(tmp_path), CountFile(tmp_path)
    for file, amount in ((one, 1.0), (other, 2.0), (one, 0.5)):
        file.add("a", amount)
    other.add("b", 4.0)
    assert read_counts(tmp_path) == {"a": 3.5, "b": 4.0}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_process_counts_on_in_the_file_of_a_dead_one(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        CountFile(tmp_path).add("a", 7.0)
        os._exit(9)              # as by a kill: nothing is closed or flushed
    os.waitpid(child, 0)
    CountFile(tmp_path).add("a", 1.0)
    assert read_counts(tmp_path) == {"a": 8.0}
    assert [path.name for path in tmp_path.iterdir()] == ["0.counts"]


def test_a_file_grows_and_keeps_its_numbers(tmp_path: Path) -> None:
    file = CountFile(tmp_path)
    names = [f"a name of some length, {number}" for number in range(5_000)]
    for name in names:
        file.add(name, 1.0)
    file.add(names[0], 1.0)
    found = read_counts(tmp_path)
    assert found == {**dict.fromkeys(names, 1.0), names[0]: 2.0}
    file.close()
    assert read_counts(tmp_path) == found


def test_threads_lose_nothing(tmp_path: Path) -> None:
    file = CountFile(tmp_path)
    threads = [threading.Thread(target=lambda: [file.add("a", 1.0) for _ in range(1_000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_counts(tmp_path) == {"a": 4_000.0}


@pytest.mark.parametrize("content", [b"", b"\1", b"\xff" * 64, (200).to_bytes(8, "little") + b"\xff" * 192])
def test_a_broken_file_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0.counts").write_bytes(content)
    assert read_counts(tmp_path) == {}
    CountFile(tmp_path).add("a", 1.0)
    assert read_counts(tmp_path) == {"a": 1.0}


def test_without_a_folder_there_are_no_counts(tmp_path: Path) -> None:
    assert read_counts(tmp_path / "missing") == {}


def test_a_disk_that_refuses_costs_the_counts_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    measures = KeptMeasures(tmp_path / "file" / "folder")
    measures.count(HTTP_REQUESTS, "v1", "200")
    measures.observe(DATABASE_SECONDS, READ, value=1.0)


def test_a_histogram_is_cumulated(tmp_path: Path) -> None:
    measures = KeptMeasures(tmp_path)
    for value in (0.0005, 0.001, 0.02, 99.0):
        measures.observe(DATABASE_SECONDS, READ, value=value)
    measures.count(HTTP_REQUESTS, "v1", "200", by=3)
    found = dict(read_measures(tmp_path))
    assert list(found) == list(MEASURES)
    assert found[HTTP_REQUESTS] == (Series(("v1", "200"), 3.0),)
    [series] = found[DATABASE_SECONDS]
    assert series.labels == (READ,)
    assert series.value == pytest.approx(99.0215)
    assert dict(series.buckets) == {
        "0.001": 2.0, "0.003": 2.0, "0.01": 2.0, "0.03": 3.0, "0.1": 3.0, "0.3": 3.0, "1": 3.0, "5": 3.0, "+Inf": 4.0,
    }  # fmt: skip


def test_a_page_that_did_not_reach_the_disk_costs_its_file_alone(tmp_path: Path) -> None:
    kept = KeptMeasures(tmp_path)
    kept.count(HTTP_REQUESTS, "clients", "2xx")
    (tmp_path / "7.counts").write_bytes((64).to_bytes(8, "little") + bytes(64))
    found = {measure.name: series for measure, series in read_measures(tmp_path)}
    assert [one.value for one in found[HTTP_REQUESTS.name]] == [1.0]


def test_a_full_disk_ends_nothing_of_what_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kept = KeptMeasures(tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", full)
    for number in range(5_000):
        kept.count(HTTP_REQUESTS, f"a label of some length, {number}", "2xx")
    KeptMeasures(tmp_path).count(HTTP_REQUESTS, "clients", "2xx")
    found = {measure.name: series for measure, series in read_measures(tmp_path)}
    assert 0 < len(found[HTTP_REQUESTS.name]) < 5_000


def test_the_room_of_a_file_is_reserved(tmp_path: Path) -> None:
    CountFile(tmp_path)
    of_file = (tmp_path / "0.counts").stat()
    assert of_file.st_blocks * 512 >= of_file.st_size > 0
