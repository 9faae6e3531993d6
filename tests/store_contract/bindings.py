"""The contract of every store for bindings: what a job id stands for here."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import ModelReference
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.store.values import StoredModel, TableMeta
from tests.store_contract.cases import ARBITER, GUEST, HOST, Cases, Each, a_job, with_jobs

MODEL = StoredModel(ModelReference("churn", 0, "lr_0", "m"), GUEST, "json_model", "", 9, "j1", "9999", 0, "LR", {})


def a_binding(job_id: str = "j1", **fields: object) -> JobBinding:
    known = JobBinding(job_id, GUEST, frozenset({GUEST, HOST, ARBITER}), "d" * 64)
    return replace(known, **fields)  # type: ignore[arg-type]


def an_ended(each: Each, job_id: str = "j1") -> None:
    with_jobs(each, a_job(job_id))
    each.bind(a_binding(job_id))
    each.move_job(a_job(job_id), MoveJob(JobStatus.FAILED, Reason.STOPPED), 5)


class BindingContract(Cases):
    def test_a_job_id_is_bound_once(self, each: Each) -> None:
        assert each.binding("j1") is None
        assert each.bind(a_binding())
        assert each.bind(a_binding(initiator=HOST, digest="e" * 64)) is False
        assert each.binding("j1") == a_binding()
        assert each.binding("j2") is None

    def test_another_document_is_bound_as_long_as_nobody_was_faster(self, each: Each) -> None:
        each.bind(a_binding())
        for seen in (a_binding(revision=1), a_binding(digest="e" * 64), a_binding("j2")):
            assert each.rebind(seen, "f" * 64, 2) is False
        assert each.rebind(a_binding(), "f" * 64, 2)
        assert each.binding("j1") == a_binding(digest="f" * 64, revision=2)
        assert each.rebind(a_binding(), "f" * 64, 2) is False

    def test_it_outlives_a_job_that_was_refused_and_its_last_seat(self, each: Each) -> None:
        """Lines of their logs are left, which the store does not know."""
        with_jobs(each, a_job("j1"), a_job("j2"), a_job("j2", HOST))
        each.bind(a_binding("j1"))
        each.bind(a_binding("j2"))
        each.forget_job("j1")
        each.forget_seat(a_job("j2", HOST).key)
        each.forget_seat(a_job("j2").key)
        assert (each.binding("j1"), each.binding("j2")) == (a_binding("j1"), a_binding("j2"))
        assert each.unused_bindings("", 9) == ("j1", "j2")

    def test_it_outlives_the_rows_of_an_ended_job(self, each: Each) -> None:
        an_ended(each)
        assert each.unbind("j1") is False
        assert each.unused_bindings("", 9) == ()
        assert each.forget_ended("j1")
        assert each.binding("j1") == a_binding()
        assert each.unused_bindings("", 9) == ("j1",)

    def test_it_goes_when_the_last_output_table_has_gone(self, each: Each) -> None:
        an_ended(each)
        each.forget_ended("j1")
        each.save_table(TableMeta("output_j1", "t", "uri", 3, {}, origin="output", job_id="j1"), 1)
        assert each.unbind("j1") is False
        each.drop_table("output_j1", "t")
        assert each.unbind("j1")
        assert (each.binding("j1"), each.unbind("j1")) == (None, False)

    def test_it_goes_when_the_last_model_has_gone(self, each: Each) -> None:
        """Models have an id of their own, which says nothing of their job."""
        an_ended(each)
        each.forget_ended("j1")
        each.bind(a_binding("j2"))
        each.save_model(MODEL)
        assert (each.unused_bindings("", 9), each.unbind("j1")) == (("j2",), False)
        assert each.drop_model(MODEL.reference, MODEL.party)
        assert (each.unused_bindings("", 9), each.unbind("j1")) == (("j1", "j2"), True)

    def test_an_approval_is_kept_with_the_document_that_it_is_of(self, each: Each) -> None:
        with_jobs(each, a_job(consent=Consent(Approval.PENDING)))
        consent = Consent(Approval.APPROVED, "ada", "contract 7", 5, "d" * 64)
        assert each.decide_consent(a_job().key, consent)
        assert each.job(a_job().key).consent == consent

    def test_unused_ones_are_found_in_pieces(self, each: Each) -> None:
        for job_id in ("j3", "j1", "j2"):
            each.bind(a_binding(job_id))
        with_jobs(each, a_job("j2"))
        assert each.unused_bindings("", 1) == ("j1",)
        assert each.unused_bindings("j1", 9) == ("j3",)
