"""Submissions, and what jobs leave: tables, outputs, metrics, summaries."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.metrics.form import PIECE_BYTES
from fate_flow.store.values import Connector, Metric, OutputTable, Submission, TableMeta
from tests.store_contract.cases import GUEST, HOST, Cases, Each, a_task


class SubmissionCases(Cases):
    def test_a_request_id_counts_once(self, each: Each) -> None:
        first = Submission("r1", "j1", "digest", by="ann")
        assert each.begin_submission(first, 5) is None
        assert each.begin_submission(Submission("r1", "j2", "other"), 6) == first
        assert each.submission_of("j1") == first
        assert each.submission_of("j2") is None

    def test_the_first_decision_stays(self, each: Each) -> None:
        each.begin_submission(Submission("r1", "j1", "d", 9, "not stored"), 5)
        each.begin_submission(Submission("r2", "j2", "d"), 5)
        each.decide_submission("j1", 103, "host 10000 refused")
        each.decide_submission("j1", 0, "success")
        each.decide_submission("nobody", 0, "success")
        decided = Submission("r1", "j1", "d", 103, "host 10000 refused")
        assert each.submission_of("j1") == decided
        assert each.submission_of("j2") == Submission("r2", "j2", "d")

    def test_a_request_id_is_free_again_after_a_refusal(self, each: Each) -> None:
        each.begin_submission(Submission("r1", "j1", "d"), 5)
        each.decide_submission("j1", 103, "host 10000 refused")
        corrected = Submission("r1", "j2", "other")
        assert each.begin_submission(corrected, 6) is None
        assert (each.submission_of("j1"), each.submission_of("j2")) == (None, corrected)
        each.decide_submission("j2", 0, "success")
        accepted = Submission("r1", "j2", "other", 0, "success")
        assert each.begin_submission(Submission("r1", "j3", "d"), 7) == accepted

    def test_only_what_was_accepted_is_not_forgotten(self, each: Each) -> None:
        for name in ("1", "2", "3", "4"):
            each.begin_submission(Submission(f"r{name}", f"j{name}", "d"), 5)
        each.decide_submission("j1", 0, "success")
        each.decide_submission("j2", 103, "refused")
        each.decide_submission("j3", 103, "refused")
        for job_id in ("j1", "j2", "nobody"):
            each.forget_submission(job_id)
        gone = [job_id for job_id in ("j1", "j2", "j3", "j4") if each.submission_of(job_id) is None]
        assert gone == ["j2"]
        each.forget_refused_submissions()
        gone = [job_id for job_id in ("j1", "j2", "j3", "j4") if each.submission_of(job_id) is None]
        assert gone == ["j2", "j3"]
        each.forget_submission("j4")
        assert each.submission_of("j4") is None, "nobody waits for it any more"


class ResultCases(Cases):
    TABLE = TableMeta(
        "experiment", "breast", "file:///t/1", 569, {"header": ["x0"], "sid": "id"}, 4, "upload", "j1", ";", False,
        is_disabled=True, extend_sid=True, replaced=3,
    )

    def test_a_table_comes_back_as_it_was_saved(self, each: Each) -> None:
        each.save_table(self.TABLE, 7)
        assert each.table("experiment", "breast") == replace(self.TABLE, create_time=7)
        assert each.table("experiment", "other") is None

    def test_no_table_has_the_name_of_another_one_with_a_space(self, each: Each) -> None:
        """For MariaDB the two names are one; who may read a table is looked up by the name that was asked for."""
        each.save_table(self.TABLE, 7)
        assert each.table("experiment", "breast ") is None
        assert each.table("experiment ", "breast") is None

    def test_a_connector_is_there_under_its_name_until_another_takes_its_place(self, each: Each) -> None:
        each.save_connector(Connector("exports", "PATH", {"path": "/data/\u00e4"}), 7)
        each.save_connector(Connector("Exports", "FILE", {"path": "/a"}), 7)
        assert each.connector("exports") == Connector("exports", "PATH", {"path": "/data/\u00e4"})
        each.save_connector(Connector("exports", "LOCALFS", {"path": "/data"}), 8)
        assert each.connector("exports") == Connector("exports", "LOCALFS", {"path": "/data"})
        assert each.connector("Exports") == Connector("Exports", "FILE", {"path": "/a"})
        assert each.connector("others") is None

    def test_a_table_is_replaced(self, each: Each) -> None:
        each.save_table(self.TABLE, 7)
        each.save_table(replace(self.TABLE, count=1, schema={}), 8)
        assert each.table("experiment", "breast") == replace(self.TABLE, count=1, schema={}, create_time=8)

    def test_a_table_is_dropped_once(self, each: Each) -> None:
        each.save_table(self.TABLE, 7)
        each.save_table(replace(self.TABLE, name="other"), 7)
        assert [each.drop_table("experiment", "breast") for _ in range(2)] == [True, False]
        assert each.table("experiment", "breast") is None
        assert each.table("experiment", "other") is not None

    def test_what_a_table_may_leave_out(self, each: Each) -> None:
        each.save_table(replace(self.TABLE, partitions=0, id_delimiter=""), 7)
        found = each.table("experiment", "breast")
        assert (found.partitions, found.id_delimiter) == (1, ",")

    def test_outputs_of_the_newest_version_that_has_any(self, each: Each) -> None:
        old = [OutputTable(a_task(version=0).key, name, "ns", f"old_{name}") for name in ("b", "a")]
        new = OutputTable(a_task(version=2).key, "a", "ns", "new", written_by="j0")
        each.save_outputs(old, 1)
        assert each.outputs("j1", "reader_0", GUEST) == (old[1], old[0])
        each.save_outputs([new, OutputTable(a_task(party=HOST, version=3).key, "a", "ns", "theirs")], 2)
        assert each.outputs("j1", "reader_0", GUEST) == (new,)
        assert each.outputs("j1", "other", GUEST) == ()

    def test_an_output_saved_again_is_the_later_one(self, each: Each) -> None:
        output = OutputTable(a_task().key, "data", "ns", "first")
        each.save_outputs([output], 1)
        each.save_outputs([replace(output, name="second")], 2)
        assert each.outputs("j1", "reader_0", GUEST) == (replace(output, name="second"),)

    def test_metrics_in_the_order_in_which_they_came(self, each: Each) -> None:
        metrics = [
            Metric(a_task().key, "train", name, ((0, 0.5), ("auc", [1, 2])), {"unit": "", "name": name})
            for name in ("loss", "auc", "loss")
        ]
        each.save_metrics(metrics, 1)
        assert each.metrics("j1", "reader_0", GUEST) == tuple(metrics)
        newer = replace(metrics[0], task=a_task(version=1).key, data=(), meta={})
        each.save_metrics([newer], 2)
        assert each.metrics("j1", "reader_0", GUEST) == (newer,)
        assert each.metrics("j1", "reader_0", HOST) == ()

    def test_one_metric_is_removed_from_one_version_of_a_party_task(self, each: Each) -> None:
        loss = Metric(a_task().key, "train", "loss", ((0, 0.5, 1.5),), {})
        others = replace(loss, name="auc"), replace(loss, namespace="test"), replace(loss, task=a_task(party=HOST).key)
        each.save_metrics([loss, *others, loss, replace(loss, task=a_task(version=1).key)], 1)
        assert each.drop_metric(loss.task, "train", "loss") == 2
        assert each.drop_metric(loss.task, "train", "loss") == 0
        assert each.drop_metric(a_task(version=1).key, "train", "loss") == 1
        assert each.metrics("j1", "reader_0", GUEST) == others[:2]
        assert each.metrics("j1", "reader_0", HOST) == others[2:]

    def test_the_metrics_of_a_job_have_a_size(self, each: Each) -> None:
        assert each.metric_size("j1") == 0
        each.save_metrics([Metric(a_task().key, "train", "loss", ((0, 0.5),), {"unit": "x"})] * 3, 1)
        assert each.metric_size("j1") == 3 * (PIECE_BYTES + len('trainloss[[0,0.5]]{"unit":"x"}'))
        assert each.metric_size("j2") == 0

    def test_the_newest_summary(self, each: Each) -> None:
        assert each.summary("j1", "reader_0", GUEST) is None
        for version, value in ((1, "one"), (0, "nought"), (1, "one again")):
            each.save_summary(a_task(version=version).key, {"value": value, "deep": [1, {}]}, 1)
        assert each.summary("j1", "reader_0", GUEST) == {"value": "one again", "deep": [1, {}]}
        assert each.summary("j1", "other", GUEST) is None
