"""What may be removed of jobs that are over, and what goes with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.core.record.entry import OWN_LOG, Kind, new_entry
from fate_flow.core.record.segment import segment_of
from fate_flow.services.record.sealing import seal_new
from fate_flow.store.values import READ, Metric, OutputTable, Scope, Submission, TableMeta
from tests.store_contract.cases import (
    DOCUMENT,
    DONE,
    GUEST,
    HOST,
    Cases,
    Each,
    a_job,
    a_seat,
    a_task,
    a_worker,
    with_jobs,
    with_tasks,
)


class RetentionCases(Cases):
    """What has ended and what is left of it."""

    @pytest.fixture
    def ended(self, each: Each) -> Each:
        """Jobs j1, j2 and j3, which ended at 100, 200 and 200."""
        for job_id, at in (("j1", 100), ("j2", 200), ("j3", 200)):
            with_jobs(each, a_job(job_id))
            each.move_job(a_job(job_id), MoveJob(JobStatus.FAILED, Reason.NO_CAPACITY, "late"), at)
        return each

    def test_ended_jobs_come_oldest_first_and_a_few_at_a_time(self, ended: Each) -> None:
        with_jobs(ended, a_job("j4"))
        assert ended.ended_jobs(201, (0, ""), 2) == ((100, "j1"), (200, "j2"))
        assert ended.ended_jobs(201, (200, "j2"), 2) == ((200, "j3"),)
        assert ended.ended_jobs(201, (200, "j3"), 2) == ()
        assert ended.ended_jobs(200, (0, ""), 9) == ((100, "j1"),)

    def test_jobs_past_their_ttl_come_in_order_and_a_few_at_a_time(self, each: Each) -> None:
        for job_id, ttl, at in (("j1", 60, 1_000), ("j2", 90, 1_000), ("j3", None, 1), ("j4", 60, 0), ("j5", 60, 900)):
            with_jobs(each, a_job(job_id, ttl_seconds=ttl))
            assert each.job(a_job(job_id).key).ttl_seconds == ttl
            if at:
                each.move_job(a_job(job_id), MoveJob(JobStatus.FAILED, Reason.NO_CAPACITY, "late"), at)
        assert each.jobs_past_ttl(61_000, 0, "", 9) == ("j5",)
        assert each.jobs_past_ttl(61_001, 0, "", 9) == ("j1", "j5")
        assert each.jobs_past_ttl(61_001, 0, "", 1) == ("j1",)
        assert each.jobs_past_ttl(91_001, 0, "j1", 9) == ("j2", "j5")
        assert each.jobs_past_ttl(91_001, 3_600, "", 9) == ()
        assert each.jobs_past_ttl(3_601_001, 3_600, "", 9) == ("j1", "j2", "j5")

    def test_the_ttl_is_that_of_the_newest_revision(self, each: Each) -> None:
        with_jobs(each, a_job(ttl_seconds=60))
        row = each.job(a_job().key)
        assert each.revise(row, replace(row, ttl_seconds=None, revision=1), DOCUMENT)
        assert each.job(row.key).ttl_seconds is None

    def test_when_the_newest_ended(self, ended: Each) -> None:
        assert [ended.end_of_newest(count) for count in (1, 2, 3, 4)] == [200, 200, 100, 0]

    def test_the_seats_of_jobs_that_are_not_over(self, ended: Each) -> None:
        with_jobs(ended, a_job("j4"), a_job("j5", HOST, status=JobStatus.READY))
        assert set(ended.open_seats()) == {a_job("j4").key, a_job("j5", HOST).key}

    def test_an_ended_job_goes_with_all_that_is_known_of_it(self, ended: Each) -> None:
        task = a_task(job_id="j1")
        ended.add_tasks([task], a_job("j1"), DOCUMENT)
        ended.add_seats([a_seat(job_id="j1")])
        ended.begin_submission(Submission("r1", "j1", "d"), 1)
        ended.save_outputs([OutputTable(task.key, "data", "output_j1", "t")], 1)
        ended.save_table(TableMeta("output_j1", "t", "uri", 3, {}, origin="output", job_id="j1"), 1)
        ended.save_metrics([Metric(task.key, "train", "loss", (), {})], 1)
        ended.save_summary(task.key, {"rows": 3}, 1)
        assert ended.forget_ended("j1")
        assert (ended.jobs_here("j1"), ended.tasks("j1"), ended.seats("j1")) == ((), (), ())
        assert (ended.submission_of("j1"), ended.summary("j1", "reader_0", GUEST)) == (None, None)
        assert (ended.outputs("j1", "reader_0", GUEST), ended.metrics("j1", "reader_0", GUEST)) == ((), ())
        assert ended.table("output_j1", "t") is not None, "somebody may read it"
        assert ended.jobs_here("j2")

    def test_a_job_is_open_while_a_row_is(self, ended: Each) -> None:
        with_jobs(ended, a_job("j1", HOST))
        assert ended.is_open("j1")
        assert ended.forget_ended("j1") is False
        assert len(ended.jobs_here("j1")) == 2

    def test_a_job_is_open_while_a_worker_goes_on(self, ended: Each) -> None:
        worker = a_worker("w1", a_task(job_id="j1"))
        ended.add_worker(worker)
        assert ended.forget_ended("j1") is False
        ended.move_worker(worker, WorkerStatus.EXITED, 5, end=DONE)
        assert ended.forget_ended("j1")

    def test_a_job_is_open_while_a_command_about_it_waits(self, ended: Each) -> None:
        number = ended.put_command(Command(CommandKind.STATUS, "j1", HOST, argument="failed"), 1)
        assert ended.forget_ended("j1") is False
        ended.take_command(number)
        assert ended.forget_ended("j1")

    def test_nothing_of_an_unknown_job_is_open(self, each: Each) -> None:
        assert each.is_open("nobody") is False

    def test_tables_that_tasks_made_come_oldest_first(self, each: Each) -> None:
        for name, at, origin in (("b", 10, "output"), ("a", 10, "output"), ("c", 20, "output"), ("d", 5, "upload")):
            each.save_table(TableMeta("n", name, "uri", 1, {}, origin=origin), at)
        assert [one.name for one in each.output_tables(21, (0, "", ""), 2)] == ["a", "b"]
        assert [one.name for one in each.output_tables(21, (10, "n", "b"), 2)] == ["c"]
        assert [one.name for one in each.output_tables(20, (0, "", ""), 9)] == ["a", "b"]


class LeftCases(Cases):
    """What the tasks of jobs left here."""

    OURS = (a_task("a"), a_task("a", 1), a_task("b", party=HOST), a_task("b", job_id="j2"))

    def filled(self, each: Each) -> None:
        with_tasks(each, *self.OURS)
        for task in self.OURS:
            key = task.key
            each.save_outputs([OutputTable(key, "data", "n", f"{key.job_id}_{key.name}_{key.version}")], 5)
            each.save_metrics([Metric(key, "train", "loss", ((1, 2),), {})], 5)
            each.save_summary(key, {"rows": 3}, 5)

    def test_all_versions_of_all_tasks_are_found(self, each: Each) -> None:
        self.filled(each)
        found = each.results_of("j1")
        assert [(one.task.name, one.task.version, one.name) for one in found] == [
            ("a", 0, "j1_a_0"), ("a", 1, "j1_a_1"), ("b", 0, "j1_b_0")]
        assert each.results_of("j9") == ()

    @pytest.mark.parametrize(
        ("scope", "left"),
        [
            (Scope("j1"), []), (Scope("j1", GUEST), ["b"]), (Scope("j1", HOST, "b"), ["a", "a"]),
            (Scope("j1", task="a"), ["b"]), (Scope("j1", HOST, "a"), ["a", "a", "b"]), (Scope("j9"), ["a", "a", "b"]),
        ],
    )  # fmt: skip
    def test_what_is_in_the_scope_goes(self, each: Each, scope: Scope, left: list[str]) -> None:
        self.filled(each)
        gone = 3 - len(left)
        assert (each.drop_results(scope), each.drop_metrics(scope)) == (2 * gone, gone)
        assert [one.task.name for one in each.results_of("j1")] == left
        assert bool(each.metrics("j1", "a", GUEST)) is bool(each.summary("j1", "a", GUEST)) is ("a" in left)
        assert (len(each.results_of("j2")), len(each.metrics("j2", "b", GUEST))) == (1, 1)

    def test_the_jobs_that_handed_a_table_on(self, each: Each) -> None:
        self.filled(each)
        keys = [task.key for task in self.OURS]
        each.save_outputs([OutputTable(key, "raw", "it", "numbers") for key in keys], 6)
        assert each.jobs_with("it", "numbers", 9) == ("j2", "j1")
        assert each.jobs_with("it", "numbers", 1) == ("j2",)
        assert each.jobs_with("it", "j1_a_0", 9) == ()

    def test_what_was_read_is_told_of_the_table_and_not_as_made(self, each: Each) -> None:
        with_tasks(each, *self.OURS)
        reads, writes = self.OURS[2].key, self.OURS[3].key
        each.save_outputs([OutputTable(reads, READ, "it", "numbers"), OutputTable(writes, READ, "it", "numbers")], 6)
        each.save_outputs([OutputTable(writes, "data", "it", "made")], 6)
        assert each.jobs_with("it", "numbers", 9) == ("j2", "j1")
        assert [one.data_name for one in each.results_of("j2")] == [READ, "data"]
        assert each.outputs("j1", "b", reads.party) == ()
        assert [one.data_name for one in each.outputs("j2", "b", writes.party)] == ["data"]

    def test_tables_that_are_disabled(self, each: Each) -> None:
        for name, is_disabled in (("b", True), ("a", True), ("c", False)):
            each.save_table(TableMeta("n", name, "uri", 1, {}, is_disabled=is_disabled), 5)
        assert [one.name for one in each.disabled_tables(9)] == ["a", "b"]
        assert [one.name for one in each.disabled_tables(1)] == ["a"]

    def test_notes_are_those_of_one_row(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("j2"))
        assert each.describe(a_job().key, "seen")
        assert (each.document("j1").description, each.document("j2").description) == ("seen", DOCUMENT.description)
        assert each.describe(a_job("j9").key, "x") is False

    def test_jobs_by_the_range_of_their_ids(self, each: Each) -> None:
        with_jobs(each, a_job("20260101120000"), a_job("20260101130000"), a_job("20260102120000"))
        assert each.job_ids("20260101", "20260101:", 9) == ("20260101120000", "20260101130000")
        assert each.job_ids("20260101", "20260101:", 1) == ("20260101120000",)
        assert each.job_ids("20260103", "20260103:", 9) == ()

    def test_a_segment_takes_the_place_of_its_rows(self, each: Each) -> None:
        salted = new_entry(OWN_LOG, Kind.ACT, 5, {"what": "a"}, job_id="j1", salt="7e" * 32, text="t")
        each.add_to_record([salted, new_entry(OWN_LOG, Kind.ACT, 6, {"what": "b"}, job_id="j2")])
        with each.store.transaction() as tx:
            seal_new(tx, 1)
        entries = each.sealed_entries(OWN_LOG, 1, 0, 2)
        first = replace(segment_of(entries[:1]), digest="d1")
        second = replace(segment_of(entries[1:]), digest="d2")

        assert not each.close_segment(second, entries[1:]), "it does not follow the last one"
        assert not each.close_segment(first, [replace(entries[0], salt="")]), "its rows are others"
        assert each.last_segment(OWN_LOG, 1) is None
        assert each.close_segment(first, entries[:1])
        assert each.close_segment(second, entries[1:])
        assert not each.close_segment(second, entries[1:])
        assert each.segments(OWN_LOG, 1) == (first, second)
        assert each.last_segment(OWN_LOG, 1) == second
        assert [each.segments_after(one, 5) for one in (0, first.first_id)] == [(first, second), (second,)]

        assert [each.segments_with_texts(before, 5) for before in (5, 6)] == [(), (first,)]
        new = replace(first, digest="d3", has_texts=False)
        assert [each.replace_segment(first, new), each.replace_segment(first, new)] == [True, False]
        assert each.segments(OWN_LOG, 1) == (new, second)

    def test_texts_and_salts_of_rows_are_erased(self, each: Each) -> None:
        each.add_to_record([new_entry(OWN_LOG, Kind.ACT, 5, {"what": "a"}, salt="7e" * 32, text="t")])
        each.erase_texts(each.unsealed_entries(1))
        assert [(one.salt, one.text) for one in each.unsealed_entries(1)] == [("", "")]
