"""Each act of a client that changes something is an entry of the own log, in the transaction of the change."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest

from fate_flow.components.providers.builtin import DOWNLOAD, FETCH, UPLOAD, WRITER
from fate_flow.core.model.artifact import JSON_MODEL
from fate_flow.core.model.errors import JobNotFound
from fate_flow.core.model.spec import ModelReference
from fate_flow.core.record.entry import read_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.services.use_cases.models import ModelParts
from fate_flow.services.use_cases.use_cases import UseCases
from fate_flow.store.values import Document, StoredModel, TableMeta
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.values import GUEST, JOB_ID, NOW, OTHER, a_job

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
_MODEL = StoredModel(
    ModelReference("churn", 1, "hetero_lr_0", "model"), GUEST, JSON_MODEL, "", 0, OTHER, "9999", 1, "Fit",
    {"guest": [9999]}, {}, NOW,
)  # fmt: skip
_FILE = {"file": "/data/a.csv", "head": 1, "partition": 1}


@pytest.fixture
def harness() -> Harness:
    server = HandServer()
    object.__setattr__(server.context, "keeps_record", True)
    object.__setattr__(server.context, "modules", {one.module: one for one in (UPLOAD, DOWNLOAD, WRITER, FETCH)})
    with server.store.transaction() as tx:
        tx.save_model(_MODEL)
    return Harness(server)


def acts(harness: Harness) -> list[tuple[str, str, str]]:
    """Return what was asked for, by whom, and the text that lies beside the entry."""
    with harness.server.store.reading() as tx:
        found = [one for one in tx.unsealed_entries(100) if one.kind == "act"]
        fields = [read_entry(one.content) for one in found]
        return [
            (one["what"], tx.person_name(one["who"]), beside.text) for one, beside in zip(fields, found, strict=True)
        ]  # fmt: skip


def entries(harness: Harness) -> list[StoredEntry]:
    with harness.server.store.reading() as tx:
        return list(tx.unsealed_entries(100))


def local(module: str, **parameters: object) -> Document:
    conf = {
        "dsl_version": 2, "initiator": {"role": "local", "party_id": 0}, "role": {"local": [0]},
        "job_parameters": {"common": {"federated_mode": "SINGLE"}},
        "component_parameters": {"role": {"local": {"0": {"it_0": parameters}}}},
    }  # fmt: skip
    return Document({"components": {"it_0": {"module": module}}}, conf, {}, federated_mode="SINGLE")


def submit(harness: Harness, document: Document) -> None:
    parsed = harness.server.parsed(document)
    harness.use_cases.submits.submit(JOB_ID, parsed, by="anna", trace=TRACE)


def test_an_upload_is_recorded_with_its_table_which_is_only_committed_to(harness: Harness) -> None:
    submit(harness, local("Upload", namespace="bank", name="clients", **_FILE))

    assert acts(harness) == [
        ("submitted", "anna", ""),
        ("table requested", "anna", "table 'clients' of namespace 'bank' is to be made by task it_0 (Upload)"),
    ]
    (found,) = [one for one in entries(harness) if b"table requested" in one.content]
    assert (found.job_id, read_entry(found.content)["trace"]) == (JOB_ID, TRACE)
    assert b"clients" not in found.content
    assert b"bank" not in found.content


@pytest.mark.parametrize(
    ("document", "what", "text"),
    [
        (local("Fetch", connector="shop", source="sales", namespace="n", name="t"), "table requested",
         "table 't' of namespace 'n' is to be made by task it_0 (Fetch)"),
        (local("Writer", namespace="n", name="t", output_namespace="n", output_name="copy"), "table requested",
         "table 'copy' of namespace 'n' is to be made by task it_0 (Writer)"),
        (local("Writer", namespace="n", name="t", connector="shop", target="sales"), "table export requested",
         "table 't' of namespace 'n' is to be written to server 'shop' by task it_0 (Writer)"),
        (local("Download", namespace="n", name="t", output_path="/data/t.csv"), "table export requested",
         "table 't' of namespace 'n' is to be written to file '/data/t.csv' by task it_0 (Download)"),
    ],
)
def test_a_table_that_a_job_makes_or_writes_out_is_recorded(
    harness: Harness, document: Document, what: str, text: str
) -> None:
    with harness.server.store.transaction() as tx:
        tx.save_table(TableMeta("n", "t", "standalone:///x/n/t", 3, {}), NOW)
    submit(harness, document)

    assert acts(harness) == [("submitted", "anna", ""), (what, "anna", text)]


ACTS: list[tuple[Callable[[UseCases], object], list[tuple[str, str]]]] = [
    (lambda to: to.jobs.hold(JOB_ID, "until monday", "anna"), [("hold requested", "until monday")]),
    (lambda to: (to.jobs.hold(JOB_ID, "", "anna"), to.jobs.release(JOB_ID, "anna")),
     [("hold requested", ""), ("release from the hold requested", "")]),
    (lambda to: to.jobs.describe(a_job().key, "a trial", "anna"), [("notes changed", f"notes at {GUEST}: a trial")]),
    (lambda to: (to.queue.hold_intake("new disks", "anna"), to.queue.release_intake("anna")),
     [("hold of the party requested", "new disks"), ("release of the party requested", "")]),
    (lambda to: to.models.export(ModelParts("churn"), BytesIO(), "anna"),
     [("models exported", "1 models were exported, hetero_lr_0.model of model churn version 1 among them")]),
    (lambda to: to.models.make_tag("good", "", "anna"), [("tags of models changed", "tag 'good' was made")]),
    (lambda to: (to.models.make_tag("good", "", "anna"), to.models.change_tag("good", "old", by="anna")),
     [("tags of models changed", "tag 'good' was made"),
      ("tags of models changed", "tag 'good' was changed, and is 'old' now")]),
    (lambda to: (to.models.tag_model("good", "churn", "anna"), to.models.untag_model("good", "churn", "anna"),
                 to.models.drop_tag("good", "anna")),
     [("tags of models changed", f"tag 'good' was {what}")
      for what in ("put on model churn", "taken off model churn", "removed")]),
]


@pytest.mark.parametrize(("act", "expected"), ACTS)
def test_what_a_client_changes_is_recorded(
    harness: Harness, act: Callable[[UseCases], object], expected: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("fate_flow.services.use_cases.models.write_archive", lambda *_: None)     # it has no files
    harness.with_job()
    act(harness.use_cases)

    assert acts(harness) == [(what, "anna", text) for what, text in expected]


def test_what_does_not_happen_is_not_recorded(harness: Harness) -> None:
    with pytest.raises(JobNotFound):
        harness.use_cases.jobs.describe(a_job().key, "a trial", "anna")

    assert entries(harness) == []
