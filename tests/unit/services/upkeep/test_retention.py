"""What is over goes when its time has come, never what is still needed; nothing that a crash left stays for ever."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.model.artifact import FILE, JSON_MODEL, TABLE, Artifact
from fate_flow.core.model.errors import Conflict, JobNotFound, StorageUnavailable
from fate_flow.core.model.job import Command, CommandKind, JobKey, TaskKey, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import ModelReference
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.records.operator_log.events import Event
from fate_flow.services.artifacts.table_files import TableFile
from fate_flow.services.context.ports import Keep
from fate_flow.services.upkeep.retention import Piece, RetentionSweeper
from fate_flow.store.values import Document, OutputTable, StoredModel, TableMeta
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import DOCUMENT
from tests.kit.values import GUEST, HOST, NOW, a_job

DAY = 24 * 3600 * 1000
KEEP = Keep(finished_jobs=30 * DAY, job_logs=10 * DAY, outputs={TABLE: 20 * DAY})


def an_id(number: int) -> str:
    return f"2026010112000000000{number:06d}"


@dataclass
class HandFiles:
    """A disk of names."""

    folders: set[str] = field(default_factory=set)
    logs: dict[str, int] = field(default_factory=dict)          # by job: when the last line was written
    uploads: dict[str, int] = field(default_factory=dict)
    confs: dict[JobKey, Document] = field(default_factory=dict)
    tables: set[str] = field(default_factory=set)
    measured_all: list[bool] = field(default_factory=list)      # at each look at how much logs take

    def write_confs(self, key: JobKey, document: Document) -> None:
        self.confs[key] = document

    def has_confs(self, key: JobKey) -> bool:
        return key in self.confs

    def jobs_on_disk(self) -> Iterable[str]:
        return sorted(self.folders)

    def remove_job(self, job_id: str) -> None:
        self.folders.discard(job_id)

    def logs_before(self, at: int) -> Iterable[str]:
        return sorted(job_id for job_id, written in self.logs.items() if written < at)

    def logs_beyond(self, most_bytes: int, measure_all: bool) -> Iterable[str]:
        self.measured_all.append(measure_all)
        return sorted(self.logs, key=lambda job_id: self.logs[job_id])[: max(0, len(self.logs) - most_bytes)]

    def has_logs(self, job_id: str) -> bool:
        return job_id in self.logs

    def remove_logs(self, job_id: str) -> None:
        self.logs.pop(job_id, None)

    def uploads_before(self, at: int) -> Iterable[str]:
        return sorted(path for path, written in self.uploads.items() if written < at)

    def table_files_before(self, at: int) -> Iterable[TableFile]:
        return ()

    def has_table_files(self, job_id: str) -> bool:
        return False

    def remove_artifact(self, artifact: Artifact) -> None:
        if artifact.kind == FILE:
            self.uploads.pop(artifact.uri.removeprefix("file://"), None)
        else:
            self.tables.discard(artifact.metadata["name"])


class Home:
    """A server with a history."""

    def __init__(self, keep: Keep = KEEP) -> None:
        self.server = HandServer("9999")
        self.files = HandFiles()
        object.__setattr__(self.server.context, "files", self.files)
        self.seconds = 1_000.0           # on its monotonic clock
        self.retention = RetentionSweeper(self.server.context, keep, monotonic=lambda: self.seconds)

    def job(
        self, number: int, ended_days_ago: float | None = None, document: Document = DOCUMENT, ttl: int | None = None
    ) -> str:
        """One with folder and logs; it has ended, unless no time is given."""
        job_id = an_id(number)
        waiting = replace(a_job(JobStatus.WAITING), key=JobKey(job_id, GUEST), ttl_seconds=ttl)
        with self.server.store.transaction() as tx:
            tx.add_job(waiting, document)
            if ended_days_ago is not None:
                at = NOW - int(ended_days_ago * DAY)
                tx.move_job(waiting, MoveJob(JobStatus.FAILED, Reason.NO_CAPACITY, "late"), at)
                self.files.logs[job_id] = at
        self.files.folders.add(job_id)
        return job_id

    def table(self, name: str, days_ago: float, job_id: str = "", origin: str = "output") -> None:
        with self.server.store.transaction() as tx:
            at = NOW - int(days_ago * DAY)
            uri = f"standalone:///d/{name}"
            tx.save_table(TableMeta("output_x", name, uri, 1, {}, origin=origin, job_id=job_id), at)
        self.files.tables.add(name)

    def output(self, name: str, job_id: str) -> None:
        """A table that a task of the job has made."""
        self.table(name, 0, job_id)
        with self.server.store.transaction() as tx:
            tx.save_outputs([OutputTable(TaskKey(job_id, "a", 0, GUEST), "data", "output_x", name)], NOW)

    def tidy(self) -> int:
        """A whole pass; the number of its steps."""
        steps = 0
        while self.retention.step():
            steps += 1
        return steps

    def jobs(self, *ids: str) -> list[bool]:
        """Which of these are still known."""
        with self.server.store.reading() as tx:
            return [bool(tx.jobs_here(job_id)) for job_id in ids]

    def known_tables(self) -> set[str]:
        with self.server.store.reading() as tx:
            return {one.name for one in tx.output_tables(2 * NOW, (0, "", ""), 99)}


def test_a_job_goes_when_it_has_been_over_for_long_enough() -> None:
    home = Home()
    old, young, running = home.job(1, 31), home.job(2, 29), home.job(3)
    home.tidy()
    assert home.jobs(old, young, running) == [False, True, True]
    assert home.files.folders == {young, running}
    assert ("purge", old) in home.server.exchange.calls
    described = [fields["text"] for fields in home.server.record.seen(Event.DETECT_NOTE)]
    assert f"tidied up: job {old}" in described


MINUTES = 1 / (24 * 60)


def test_a_job_with_a_ttl_leaves_nothing_once_it_is_over() -> None:
    home = Home(Keep())
    due, later = (home.job(number, 10 * MINUTES, ttl=ttl) for number, ttl in ((1, 540), (2, 660)))
    home.output("made", due)
    home.tidy()
    assert home.jobs(due, later) == [False, True]
    assert (home.files.folders, set(home.files.logs)) == ({later}, {later})
    assert (home.files.tables, home.known_tables()) == (set(), set())


def test_a_party_may_keep_what_is_over_for_longer_than_the_ttl_says() -> None:
    home = Home(Keep())
    object.__setattr__(home.server.context, "ceilings", Ceilings(least_ttl=3_600))
    job_id = home.job(1, 10 * MINUTES, ttl=60)
    home.tidy()
    assert home.jobs(job_id) == [True]
    home.server.now += 3_600_000
    home.tidy()
    assert home.jobs(job_id) == [False]


def test_what_an_unfinished_job_reads_stays_whatever_the_ttl_says() -> None:
    home = Home(Keep())
    named, read = home.job(1, 1, ttl=60), home.job(2, 1, ttl=60)
    home.output("made", read)
    of_job = {"job_id": named, "component_name": "a", "data_name": "b"}
    table = {"namespace": "output_x", "name": "made"}
    described = {"common": {"a": {"table": of_job}, "b": {"table": table}}}
    conf = {**DOCUMENT.runtime_conf, "component_parameters": described}
    reader = home.job(3, document=replace(DOCUMENT, runtime_conf=conf))
    home.tidy()
    assert home.jobs(named, read, reader) == [True, True, True]
    assert home.known_tables() == {"made"}


def test_a_job_that_begins_again_is_not_past_its_ttl() -> None:
    home = Home(Keep())
    job_id = home.job(1, 1, ttl=60)
    with home.server.store.transaction() as tx:
        row = tx.job(JobKey(job_id, GUEST))
        assert tx.begin_again(row, row.run + 1, 1, "")
    home.tidy()
    assert home.jobs(job_id) == [True]


def test_for_ever_is_for_ever() -> None:
    home = Home(Keep())
    old = home.job(1, 9_999)
    home.table("t", 9_999)
    home.tidy()
    assert home.jobs(old) == [True]
    assert (set(home.files.logs), home.files.tables) == ({old}, {"t"})


def test_the_oldest_go_when_there_are_too_many() -> None:
    home = Home(Keep(most_finished_jobs=2))
    ids = [home.job(number, ended_days_ago=number) for number in (1, 2, 3, 4)]
    home.tidy()
    assert home.jobs(*ids) == [True, True, False, False]


def test_many_go_in_small_steps() -> None:
    home = Home()
    ids = [home.job(number, 40) for number in range(50)]
    home.files.folders.clear()
    home.files.logs.clear()
    assert home.tidy() == 3
    assert not any(home.jobs(*ids))


def test_what_something_still_goes_on_of_stays_and_does_not_hold_up_the_others() -> None:
    home = Home()
    telling, working, other = home.job(1, 40), home.job(2, 39), home.job(3, 38)
    with home.server.store.transaction() as tx:
        tx.put_command(Command(CommandKind.STATUS, telling, HOST, argument="failed"), NOW)
        tx.add_worker(Worker("w", TaskKey(working, "a", 0, GUEST), WorkerStatus.RUNNING, "local", "/w", NOW))
    home.tidy()
    assert home.jobs(telling, working, other) == [True, True, False]
    assert home.files.folders == {telling, working}


def test_the_rows_go_last(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home()
    old = home.job(1, 40)

    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(home.files, "remove_job", crash, raising=False)
        with pytest.raises(KeyboardInterrupt):
            home.tidy()
    assert home.jobs(old) == [True]
    again = RetentionSweeper(home.server.context, KEEP)
    while again.step():
        pass
    assert (home.jobs(old), home.files.folders) == ([False], set())


def test_one_that_cannot_be_removed_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    home = Home()
    bad, good = home.job(1, 40), home.job(2, 40)
    remove = home.files.remove_job

    def stumble(job_id: str) -> None:
        if job_id == bad:
            raise PermissionError(13, "Permission denied")
        remove(job_id)

    monkeypatch.setattr(home.files, "remove_job", stumble, raising=False)
    home.tidy()
    assert home.jobs(bad, good) == [True, False]
    assert f"job {bad}: could not be tidied up" in caplog.text


def test_a_database_that_is_gone_ends_the_pass_and_the_next_one_begins_anew() -> None:
    home = Home()
    old = home.job(1, 40)

    def gone() -> bool:
        raise StorageUnavailable

    with pytest.raises(StorageUnavailable):
        home.retention.do(Piece("job", old, gone))
    home.tidy()
    assert home.jobs(old) == [False]


def test_logs_of_ended_jobs_go_when_all_take_too_much() -> None:
    home = Home(Keep(job_logs_bytes=2))         # each takes one byte here
    oldest, older, young = (home.job(number, 3 - number) for number in range(3))
    running = home.job(7)
    home.files.logs[running] = 0
    home.tidy()
    assert set(home.files.logs) == {running, older, young}, f"{oldest} goes; what has not ended stays"


def test_what_logs_take_is_looked_at_in_every_pass_and_every_hour_all_is_measured() -> None:
    home = Home(Keep(job_logs_bytes=2))
    home.tidy()
    ended = [home.job(number, 3 - number) for number in range(3)]
    home.tidy()
    assert set(home.files.logs) == set(ended[1:])
    home.seconds += 3_600
    home.tidy()
    assert home.files.measured_all == [True, False, True]


def test_logs_have_an_age_of_their_own() -> None:
    home = Home()
    old, young, running = home.job(1, 11), home.job(2, 9), home.job(3)
    home.files.logs |= {running: 0, an_id(99): 0}
    home.tidy()
    assert set(home.files.logs) == {young, running}, "those of a job that nobody knows go too"
    assert home.jobs(old) == [True]


def test_a_job_id_stays_bound_for_as_long_as_anything_of_the_job_is_here() -> None:
    home = Home()
    old = home.job(1, 31)
    model = StoredModel(ModelReference("churn", 0, "a", "m"), GUEST, JSON_MODEL, "", 0, old, "9999", 0, "Train", {})
    home.files.logs[old] = NOW - DAY
    with home.server.store.transaction() as tx:
        tx.bind(JobBinding(old, GUEST, frozenset({GUEST, HOST}), "d" * 64))
        tx.save_table(TableMeta(f"output_{old}", "t", "standalone:///t", 1, {}, origin="output", job_id=old), NOW)

    def is_bound_after_an_hour() -> bool:
        home.seconds += 3_601
        home.tidy()
        with home.server.store.reading() as tx:
            return tx.binding(old) is not None

    assert (is_bound_after_an_hour(), home.jobs(old)) == (True, [False])
    home.files.logs.clear()
    assert is_bound_after_an_hour()
    with home.server.store.transaction() as tx:
        tx.drop_table(f"output_{old}", "t")
        tx.save_model(model)
    assert is_bound_after_an_hour()
    with home.server.store.transaction() as tx:
        tx.drop_model(model.reference, GUEST)
    assert not is_bound_after_an_hour()


def test_output_tables_go_and_uploads_stay() -> None:
    home = Home()
    home.table("old", 21)
    home.table("young", 19)
    home.table("uploaded", 99, origin="upload")
    home.tidy()
    assert home.files.tables == {"young", "uploaded"}
    assert home.known_tables() == {"young"}


def reading(name: str) -> Document:
    table = {"name": name, "namespace": "output_x"}
    conf = {"component_parameters": {"role": {"guest": {"0": {"reader_0": {"table": table}}}}}}
    return Document(DOCUMENT.dsl, {**DOCUMENT.runtime_conf, **conf}, {})


def test_a_table_that_an_unfinished_job_reads_or_has_made_stays() -> None:
    home = Home()
    reader, maker = home.job(1, document=reading("read")), home.job(2)
    for name in ("read", "other"):
        home.table(name, 40)
    home.table("made", 40, job_id=maker)
    home.tidy()
    assert home.known_tables() == {"read", "made"}
    with home.server.store.transaction() as tx:
        for job_id in (reader, maker):
            job = tx.job(JobKey(job_id, GUEST))
            assert job is not None
            tx.move_job(job, MoveJob(JobStatus.FAILED, Reason.NO_CAPACITY, "late"), NOW)
    home.tidy()
    assert home.known_tables() == set()


def test_a_job_whose_parameters_were_changed_reads_what_it_names_now() -> None:
    home = Home()
    reader = home.job(1, document=reading("read"))
    home.tidy()                      # and knows what the job names
    with home.server.store.transaction() as tx:
        job = tx.job(JobKey(reader, GUEST))
        tx.revise(job, replace(job, revision=1), reading("other"))
    for name in ("read", "other"):
        home.table(name, 40)
    home.tidy()
    assert home.known_tables() == {"other"}


def test_folders_of_jobs_that_nobody_knows_go_unless_a_worker_lives_in_them() -> None:
    home = Home()
    known, lost, alive = home.job(1), an_id(2), an_id(3)
    home.files.folders |= {lost, alive}
    home.server.engine.alive.add(alive)
    home.tidy()
    assert home.files.folders == {known, alive}


def test_uploads_that_no_unfinished_job_names_go_after_an_hour() -> None:
    home = Home()
    conf = {**DOCUMENT.runtime_conf, "component_parameters": {"role": {"local": {"0": {"u": {"file": "/up/needed"}}}}}}
    home.job(1, document=Document(DOCUMENT.dsl, conf, {}))
    hour = DAY // 24
    home.files.uploads |= {"/up/needed": 0, "/up/lost": NOW - 2 * hour, "/up/fresh": NOW - hour // 2}
    home.tidy()
    assert set(home.files.uploads) == {"/up/needed", "/up/fresh"}


def test_missing_files_of_unfinished_jobs_are_written_again() -> None:
    home = Home()
    running, _ = home.job(1), home.job(2, 1)
    home.tidy()
    [(key, document)] = home.files.confs.items()
    assert key.job_id == running
    assert document.dsl == DOCUMENT.dsl
    assert document.on_party


def test_what_a_crash_left_is_looked_for_at_the_start_and_then_every_hour() -> None:
    home = Home()
    home.tidy()
    home.files.folders.add(an_id(1))
    home.tidy()
    assert home.files.folders
    home.server.now += DAY               # somebody sets the clock on the wall: no time has passed
    home.tidy()
    assert home.files.folders
    home.seconds += 3_600
    home.tidy()
    assert not home.files.folders


@pytest.mark.parametrize("broken", ["uploads_before", "logs_before"])
def test_and_once_more_at_once_when_that_was_cut_off(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    home = Home()

    def gone(_: int) -> list[str]:
        raise StorageUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(home.files, broken, gone, raising=False)
        with pytest.raises(StorageUnavailable):
            home.tidy()
    home.files.folders.add(an_id(1))
    home.tidy()
    assert not home.files.folders


def test_a_clock_that_is_set_back_does_not_put_it_off() -> None:
    home = Home()
    home.tidy()
    home.files.folders.add(an_id(1))
    home.server.now -= DAY
    home.seconds += 3_600
    home.tidy()
    assert not home.files.folders


def test_one_job_by_hand_of_any_age() -> None:
    home = Home(Keep())
    ended, running = home.job(1, 0.1), home.job(2)
    for piece in home.retention.whole_job(ended):
        assert home.retention.do(piece)
    assert (home.jobs(ended, running), set(home.files.logs)) == ([False, True], set())
    with pytest.raises(JobNotFound, match="not known here"):
        home.retention.whole_job(ended)
    with pytest.raises(Conflict, match="still goes on"):
        home.retention.whole_job(running)


def test_what_is_due_can_be_looked_at_without_doing_it() -> None:
    home = Home()
    old = home.job(1, 40)
    home.table("t", 40)
    due = [str(piece) for pieces in (*home.retention.old_jobs(), *home.retention.old_artifacts()) for piece in pieces]
    assert due == [f"job {old}", "output table output_x t"]
    assert home.jobs(old) == [True]
