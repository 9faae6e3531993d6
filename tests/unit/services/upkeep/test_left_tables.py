"""Files of tables that no row names go, an hour after their last change; what somebody may still need stays."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.components.tables.table import Schema, TableWriter, sweep
from fate_flow.components.tables.table_uri import format_uri, parse_uri
from fate_flow.core.access.authority import JobBinding
from fate_flow.core.model.job import JobKey, TaskKey, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.records.operator_log.events import Event
from fate_flow.server.adapters import JobFiles
from fate_flow.server.party_disk import PartyDisk, PartyDiskUse
from fate_flow.services.context.ports import Keep
from fate_flow.services.upkeep.retention import RetentionSweeper
from fate_flow.settings.settings import Settings
from fate_flow.store.values import TableMeta
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import DOCUMENT
from tests.kit.values import GUEST, HOST, NOW, a_job

HOUR = 3_600_000
JOB, OTHER = "2026010112000000000001234", "2026010112000000000005678"
OUT = f"output_{JOB}"


class Home:
    """A server with a real folder for tables. Its files are of now; its clock is handed on."""

    def __init__(self, home: Path) -> None:
        self.server, self.data = HandServer("9999"), home / "data"
        self.settings = Settings("9999", home, log_dir=home / "logs")
        self.settings.run_dir.mkdir()
        object.__setattr__(self.server.context, "files", JobFiles(self.settings))
        self.server.now = time.time_ns() // 1_000_000
        self.seconds = 0.0

    def job(self, job_id: str = JOB, *, is_over: bool = True, namespace: str = "", name: str = "") -> None:
        """A job, whose configuration may name a table."""
        named = {"component_parameters": {"namespace": namespace, "name": name}}
        document = replace(DOCUMENT, runtime_conf={**DOCUMENT.runtime_conf, **named})
        waiting = replace(a_job(JobStatus.WAITING), key=JobKey(job_id, GUEST))
        with self.server.store.transaction() as tx:
            tx.add_job(waiting, document)
            if is_over:
                tx.move_job(waiting, MoveJob(JobStatus.FAILED, Reason.NO_CAPACITY, "late"), NOW)

    def file(self, namespace: str = OUT, name: str = "t", *, job_id: str = JOB) -> Path:
        """A table on disk that a task of the job has written."""
        uri = format_uri(self.data, namespace, name)
        with TableWriter(uri, Schema(("x",)), made_by=f"{job_id}_a" if job_id else "") as writer:
            writer.add([("1", "2")])
        return parse_uri(uri).path

    def row(self, namespace: str, name: str, job_id: str = JOB) -> None:
        with self.server.store.transaction() as tx:
            uri = format_uri(self.data, namespace, name)
            tx.save_table(TableMeta(namespace, name, uri, 1, {}, origin="upload", job_id=job_id), NOW)

    def draft(self, namespace: str = OUT) -> Path:
        """What a writer leaves that is killed."""
        path = self.data / namespace / ".0123456789abcdef.tmp"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def tidy(self, hours: int = 2) -> list[str]:
        """A pass of the sweep after so many hours; what the log says of it."""
        self.server.now += hours * HOUR
        self.seconds += 3_600.0 * max(1, hours)
        seen = len(self.server.record.seen(Event.DETECT_NOTE))
        sweeper = RetentionSweeper(self.server.context, Keep(), monotonic=lambda: self.seconds)
        while sweeper.step():
            pass
        notes = [str(fields["text"]) for fields in self.server.record.seen(Event.DETECT_NOTE)[seen:]]
        return [note.removeprefix("tidied up: ") for note in notes if "file of no table" in note]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# ---------------------------------------------------------------------- what goes


def test_what_a_share_wrote_that_failed_goes_when_the_job_is_over(home: Home) -> None:
    """A collector that fails at its second output reports none."""
    home.job()
    made = home.file(name="a_0_guest_9999_first_abababab")
    assert home.tidy() == [f"file of no table {OUT} {made.stem}"]
    assert not made.exists()
    assert home.tidy() == []


@pytest.mark.parametrize("namespace", [OUT, "demo", "with/slash"])
def test_what_a_deletion_left_that_was_cut_off_goes(home: Home, namespace: str) -> None:
    home.job()
    deleted, other = home.file(namespace, "t"), home.file(namespace, "kept")
    for name in ("t", "kept"):
        home.row(namespace, name)
    object.__setattr__(home.server.context, "carry_out", lambda _: None)      # the process dies after its commit
    Harness(home.server).use_cases.tables.drop_table(namespace, "t")
    assert deleted.exists()
    assert home.tidy() == [f"file of no table {namespace} t"]
    assert (deleted.exists(), other.exists()) == (False, True)


@pytest.mark.parametrize("namespace", [OUT, "demo"])
def test_what_a_killed_writer_left_goes_without_a_restart(home: Home, namespace: str) -> None:
    home.job()
    left = home.draft(namespace)
    assert home.tidy() == [f"file of no table {namespace} {left.name}"]
    assert not left.exists()


@pytest.mark.parametrize("is_unreadable", [False, True])
def test_files_of_a_job_count_for_its_initiator_until_they_are_gone(home: Home, is_unreadable: bool) -> None:
    made, now = home.file(), [0.0]
    if is_unreadable:
        made = made.rename(made.with_name("whatever"))        # no file of ours, and yet on our disk
    with home.server.store.transaction() as tx:
        tx.bind(JobBinding(JOB, HOST, frozenset({GUEST, HOST}), "d" * 64))
    disk = PartyDisk(home.settings, home.server.context, lambda: now[0], lambda _: None)

    def is_counted() -> bool:
        now[0] += 300.0
        disk.measure()
        with home.server.store.reading() as tx:
            is_bound = tx.binding(JOB) is not None
        assert is_bound == (PartyDiskUse(home.settings)().get("10000", 0) > 0)
        return is_bound

    home.tidy(hours=0)
    assert is_counted()
    home.tidy()
    assert (is_counted(), made.exists()) == (is_unreadable, is_unreadable)


def test_many_files_go_in_small_steps(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.services.upkeep.retention._LOOKED_UP_AT_ONCE", 23)
    home.job()
    template = home.file()
    for number in range(24):
        os.link(template, template.with_name(f"t{number}.sqlite"))
    home.server.now += 2 * HOUR
    sizes = [len(pieces) for pieces in RetentionSweeper(home.server.context, Keep()).left_over()]
    assert sorted(filter(None, sizes)) == [2, 3, 20]


# ---------------------------------------------------------------------- what stays


@pytest.mark.parametrize("namespace", [OUT, "demo"])
def test_what_a_row_names_stays(home: Home, namespace: str) -> None:
    home.job()
    made = home.file(namespace)
    home.row(namespace, "t")
    assert (home.tidy(), made.exists()) == ([], True)


@pytest.mark.parametrize("namespace", [OUT, "demo"])
def test_what_was_changed_within_the_hour_stays(home: Home, namespace: str) -> None:
    home.job()
    found = home.file(namespace), home.draft(namespace)
    for one in found:
        os.utime(one, (0, 0))         # published just now, however old its last row is
    assert (home.tidy(hours=0), [one.exists() for one in found]) == ([], [True, True])


@pytest.mark.parametrize("namespace", [OUT, "demo"])
def test_what_a_job_has_written_stays_until_it_is_over(home: Home, namespace: str) -> None:
    """Its row comes when all parties have made their shares, days later perhaps."""
    home.job(is_over=False)
    made = home.file(namespace)
    assert (home.tidy(), made.exists()) == ([], True)


def test_what_a_worker_leaves_stays_until_its_job_is_over(home: Home) -> None:
    home.job(is_over=False)
    left = home.draft()
    assert (home.tidy(), left.exists()) == ([], True)


@pytest.mark.parametrize("has_row", [True, False])
def test_what_a_living_worker_may_write_stays(home: Home, has_row: bool) -> None:
    found = home.file(), home.file("demo"), home.draft()
    home.job()
    if has_row:
        with home.server.store.transaction() as tx:
            tx.add_worker(Worker("w", TaskKey(JOB, "a", 0, GUEST), WorkerStatus.RUNNING, "local", "/w", NOW))
    else:
        home.server.engine.alive.add(JOB)
    assert (home.tidy(), [one.exists() for one in found]) == ([], [True, True, True])


def test_what_a_job_is_to_write_anew_stays_until_it_is_over(home: Home) -> None:
    home.job()
    home.job(OTHER, is_over=False, namespace="demo", name="t")
    named, other = home.file("demo", "t"), home.file("demo", "u")
    assert home.tidy() == ["file of no table demo u"]
    assert (named.exists(), other.exists()) == (True, False)


def test_what_is_no_table_of_ours_stays(home: Home) -> None:
    home.job()
    demo, elsewhere = home.file("demo", "unsigned", job_id="").parent, home.data.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "t.sqlite").touch()
    (home.data / OUT).symlink_to(elsewhere)
    (home.data / "t.sqlite").touch()
    (demo / "empty.sqlite").touch()
    (demo / "not%61spelled.sqlite").touch()
    (demo / "notes.txt").touch()
    (demo / "folder.sqlite").mkdir()
    (demo / "link.sqlite").symlink_to(elsewhere / "t.sqlite")
    before = sorted(home.data.parent.rglob("*"))
    assert (home.tidy(), sorted(home.data.parent.rglob("*"))) == ([], before)


@pytest.mark.parametrize("namespace", [OUT, "demo"])
def test_what_a_living_writer_fills_stays(home: Home, namespace: str) -> None:
    home.job()
    left = home.draft(namespace)
    with left.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        assert (home.tidy(), left.exists()) == ([], True)
    assert home.tidy() != []


@pytest.mark.parametrize("is_draft", [False, True])
def test_what_changes_between_the_look_and_the_removal_stays(home: Home, is_draft: bool) -> None:
    home.job()
    old = home.draft("demo") if is_draft else home.file("demo")
    home.server.now += 2 * HOUR
    files, before = home.server.context.files, home.server.now - HOUR
    [found] = files.table_files_before(before)
    assert not files.remove_table_file(found, old.stat().st_ctime_ns // 1_000_000)
    assert files.remove_table_file(found, before)
    assert not old.exists()
    assert not files.remove_table_file(found, before)


def test_a_row_that_comes_between_the_look_and_the_removal_counts(home: Home) -> None:
    home.job()
    made = home.file("demo")
    home.server.now += 2 * HOUR
    sweeper = RetentionSweeper(home.server.context, Keep())
    [piece] = [one for some in sweeper.left_over() for one in some if one.what == "file of no table"]
    home.row("demo", "t")
    assert (sweeper.do(piece), made.exists()) == (False, True)


def test_the_sweep_at_a_start_needs_no_age(home: Home) -> None:
    left = home.draft()
    assert (sweep(home.data), left.exists()) == (1, False)
