"""The store of models at one party: what is stored when, who may read it, what a rerun keeps, what is left alone."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fate_flow.components.artifacts.packed_model import pack
from fate_flow.core.model.artifact import JSON_MODEL, MODEL, MODEL_DIRECTORY, Artifact, ArtifactInfo
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.spec import ModelReference
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.jobspec.fate_v2.reader import FATE_V2
from fate_flow.records.operator_log.events import Event
from fate_flow.server.model_store import ModelStore
from fate_flow.services.context.ports import Keep
from fate_flow.services.models.storing import carry_over
from fate_flow.services.upkeep.retention import RetentionSweeper
from fate_flow.store.values import Document, StoredModel
from tests.kit.modules import Module
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import RUN, command, create, task_command
from tests.kit.services.sights import with_outputs
from tests.kit.values import HOST, JOB_ID, NOW

TRAINED, ROLES = "20260101120000000001", {"guest": [9999], "host": [10000]}
ONE_MODEL = ArtifactInfo(MODEL, (JSON_MODEL,))
MODULES = {
    "Train": Module(outputs={"output_model": ONE_MODEL}, takes_other_keys=False),
    "Apply": Module(inputs={"input_model": ONE_MODEL}, outputs={}, takes_other_keys=False),
}  # fmt: skip
TRAIN = {"components": {"a": {"module": "Train", "output": {"model": ["m"]}}}}
CONF = {
    "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999}, "role": ROLES,
    "job_parameters": {"common": {"task_cores": 1}},
}  # fmt: skip
STORED = StoredModel(
    ModelReference(TRAINED, 0, "a", "m"), HOST, JSON_MODEL, "", 0, TRAINED, "9999", 0, "Train", ROLES, {"of": "a"}, 5,
)  # fmt: skip


def reading(**changed: Any) -> dict[str, Any]:
    stored = {"id": TRAINED, "version": 0, "task": "a", "output": "m", **changed}
    return {"components": {"a": {"module": "Apply", "input": {"model": {"input_model": [{"model": stored}]}}}}}


class Place:
    """A host with a store of models in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.server = folder, HandServer("10000")
        self.server.context = replace(self.server.context, modules=MODULES, models=ModelStore(folder / "models"))

    def made(self, name: str = "output_model", content: str = "w") -> Artifact:
        """What a worker has made and packed."""
        place = self.folder / "worker" / "models" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
        packed = pack(place, self.folder / "worker" / "packed" / f"{name}.tar", {})
        return Artifact(JSON_MODEL, f"file://{place}", {"of": "a"}, "output_model", packed.sha256, packed.size)

    def has(self, **changed: Any) -> StoredModel:
        """A model that an earlier job has stored here."""
        made = self.made(content=str(changed))
        model = replace(STORED, **{"sha256": made.sha256, "size": made.size, **changed})
        self.server.context.models.keep(made, model)
        with self.server.store.transaction() as tx:
            tx.save_model(model)
        return model

    def runs(self, dsl: dict[str, Any], **common: Any) -> None:
        conf = {**CONF, "job_parameters": {"common": {"task_cores": 1, **common}}}
        for one in (create(document=Document(dsl, conf, {})), *RUN[1:], task_command(K.TASK_START)):
            answer = self.server.handle(one)
            assert answer.is_ok, answer

    def ends(self, *artifacts: Artifact) -> None:
        self.server.engine.sights[worker_of(self.server)] = with_outputs(*artifacts)
        self.server.watch()

    def models(self) -> tuple[StoredModel, ...]:
        with self.server.store.reading() as tx:
            return tuple(tx.models())

    def files(self) -> list[str]:
        return sorted(str(one.relative_to(self.folder / "models")) for one in (self.folder / "models").rglob("*.tar"))

    def history(self) -> list[tuple[str, str]]:
        with self.server.store.reading() as tx:
            return [(one.new, one.message) for one in tx.history(JOB_ID) if one.level is HistoryLevel.MODEL]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# ---------------------------------------------------------------------- stored


def test_a_model_is_stored_when_its_task_has_succeeded_everywhere(place: Place) -> None:
    place.runs(TRAIN)
    made = place.made()
    place.ends(made)
    assert (place.models(), place.files()) == ((), []), "another party may still break"
    assert place.server.task().message == f"made output_model sha256 {made.sha256}"     # the initiator hears it
    assert place.server.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    [model] = place.models()
    assert model == replace(
        STORED, reference=ModelReference(JOB_ID, 0, "a", "m"), sha256=made.sha256, size=made.size, job_id=JOB_ID,
        create_time=NOW,
    )  # fmt: skip
    assert place.files() == [f"{JOB_ID}/0/host/10000/a/m.tar"]
    assert place.history() == [("stored", f"a.m of model {JOB_ID} version 0 sha256 {made.sha256}")]


def test_what_breaks_elsewhere_is_not_stored(place: Place) -> None:
    place.runs(TRAIN)
    place.ends(place.made())
    assert place.server.handle(task_command(K.TASK_STATUS, argument="failed")).is_ok
    assert (place.models(), place.files()) == ((), [])


def test_a_model_that_nobody_has_packed_is_for_its_job_alone(place: Place) -> None:
    place.runs(TRAIN)
    place.ends(replace(place.made(), sha256="", size=0))
    assert place.server.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    assert (place.models(), place.server.task().status) == ((), TaskStatus.SUCCESS)


def test_a_disk_that_refuses_the_file_leaves_no_row(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place.runs(TRAIN)
    place.ends(place.made())
    with monkeypatch.context() as patch:
        patch.setattr("fate_flow.server.model_store.os.link", full)
        with pytest.raises(StorageFailed, match="the disk is full"):
            place.server.handle(task_command(K.TASK_STATUS, argument="success"))
    assert (place.models(), place.server.task().status) == ((), TaskStatus.RUNNING)
    assert place.server.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    assert len(place.models()) == len(place.files()) == 1


def test_a_job_names_its_models(place: Place) -> None:
    place.runs(TRAIN, model={"id": "churn", "version": 3})
    place.ends(place.made())
    assert place.server.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    assert place.files() == ["churn/3/host/10000/a/m.tar"]


def test_a_name_that_another_job_has_used_is_refused(place: Place) -> None:
    place.has(reference=ModelReference("churn", 4, "a", "m"))
    conf = {**CONF, "job_parameters": {"common": {"task_cores": 1, "model": {"id": "churn", "version": 3}}}}
    refused = place.server.handle(create(document=Document(TRAIN, conf, {})))
    assert "host 10000 has version 4 of model churn, made by another job" in refused.retmsg
    assert "model.version: 5 is free" in refused.retmsg
    conf["job_parameters"] = {"common": {"task_cores": 1, "model": {"id": "churn", "version": 5}}}
    assert place.server.handle(create(document=Document(TRAIN, conf, {}))).is_ok


@pytest.mark.parametrize(("made_by", "is_taken"), [("10001", True), ("10000", True), ("9999", False)])
def test_a_name_belongs_to_whoever_initiates_its_jobs(place: Place, made_by: str, is_taken: bool) -> None:
    """The newest version of a name is what `latest` means: no other party may make it."""
    place.has(reference=ModelReference("churn", 4, "a", "m"), initiator=made_by)
    conf = {**CONF, "job_parameters": {"common": {"task_cores": 1, "model": {"id": "churn", "version": 5}}}}
    answer = place.server.handle(create(document=Document(TRAIN, conf, {})))
    said = "host 10000 has models under the name churn of jobs that party 9999 has not initiated"
    assert (answer.is_ok, said in answer.retmsg) == (not is_taken, is_taken), answer.retmsg
    assert is_taken == ("model.id: give them another name" in answer.retmsg)


def test_two_jobs_with_one_name_at_once_lose_nothing(place: Place) -> None:
    """The second has been accepted before the first has stored anything."""
    place.runs(TRAIN, model={"id": "churn"})
    first = place.has(reference=ModelReference("churn", 0, "a", "m"))
    place.ends(place.made(content="later"))
    assert place.server.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    assert [one.sha256 for one in place.models()] == [first.sha256]
    [warned] = place.server.record.seen(Event.JOB_WARNING)
    assert f"was not stored: another job, {TRAINED}, has made one" in str(warned["text"])


# ---------------------------------------------------------------------- the id of another job


THEIRS = {**CONF, "initiator": {"role": "guest", "party_id": 10001}, "role": {"guest": [10001], "host": [10000]}}


def test_nobody_takes_over_the_id_of_a_job_whose_models_are_here(place: Place) -> None:
    """When its time to live is over, nothing else is left of it."""
    place.runs(TRAIN, ttl=60)
    place.ends(place.made())
    for one in (task_command(K.TASK_STATUS, argument="success"), command(K.STATUS, argument="success")):
        assert place.server.handle(one).is_ok
    [model] = place.models()
    place.server.now += 3_600_000
    with place.server.store.transaction() as tx:
        for report in place.server.outbox():
            assert tx.take_command(report.id)
    for _ in range(2):                      # at a start, and once more at the next one: the job goes, and then its rest
        sweeper = RetentionSweeper(place.server.context, Keep())
        while sweeper.step():
            pass
    assert place.server.job_or_none() is None
    refused = place.server.handle(create(document=Document(TRAIN, THEIRS, {})), caller="10001")
    assert "is here already, created first by another initiator" in refused.retmsg
    assert place.models() == (model,)


@pytest.mark.parametrize(("conf", "caller", "is_taken"), [
    (THEIRS, "10001", False), (CONF, "9999", True),
    ({**CONF, "role": {"guest": [9999], "host": [10000, 7]}}, "9999", False),
])  # fmt: skip
def test_only_the_job_that_has_made_models_has_its_id_where_it_is_not_bound(
    place: Place, conf: dict[str, Any], caller: str, is_taken: bool
) -> None:
    """They were imported, or the id was freed by an older release."""
    place.has(reference=replace(STORED.reference, model_id="churn"), job_id=JOB_ID)
    asked = create(document=Document(TRAIN, conf, {}))
    answers = Harness(place.server).use_cases.commands.preview(asked, caller), place.server.handle(asked, caller=caller)
    for answer in answers:
        assert answer.is_ok is is_taken
        assert ("party 10000 has models of another job with this id" in answer.retmsg) is not is_taken


def test_models_that_are_imported_while_another_job_has_their_id_stay(place: Place) -> None:
    place.runs(TRAIN)
    first = place.has(reference=ModelReference(JOB_ID, 0, "a", "m"), job_id=JOB_ID, initiator="10001")
    second = place.has(reference=ModelReference(JOB_ID, 1, "a", "m"), job_id=JOB_ID, task_version=7, initiator="10001")
    place.ends(place.made(content="ours"))
    assert place.server.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    [warned] = place.server.record.seen(Event.JOB_WARNING)
    assert f"was not stored: another job, {JOB_ID}, has made one" in str(warned["text"])
    with place.server.unit() as unit:
        carry_over(unit, replace(place.server.job(), run=1, status=JobStatus.RUNNING))
    assert place.models() == (first, second)


# ---------------------------------------------------------------------- rerun


def test_a_rerun_gives_the_models_of_kept_tasks_its_version(place: Place) -> None:
    place.runs(TRAIN)
    place.ends(place.made())
    assert place.server.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    other = place.has(reference=ModelReference(JOB_ID, 0, "b", "m"), job_id=JOB_ID, task_version=7)
    with place.server.unit() as unit:
        carry_over(unit, replace(place.server.job(), run=2, status=JobStatus.RUNNING))
    found = {(one.reference.task, one.reference.version): one for one in place.models()}
    assert sorted(found) == [("a", 0), ("a", 2), ("b", 0)], "b is of an attempt that does not count"
    assert found["a", 2].sha256 == found["a", 0].sha256
    one, two = (place.folder / "models" / f"{JOB_ID}/{version}/host/10000/a/m.tar" for version in (0, 2))
    assert one.samefile(two)
    assert other in place.models()


# ---------------------------------------------------------------------- inherited


INHERITING = {"schema_version": "2.2.0", "dag": {
    "parties": [{"role": "guest", "party_id": ["9999"]}, {"role": "host", "party_id": ["10000"]}],
    "conf": {"initiator_party_id": "9999", "inheritance": {
        "job_id": TRAINED, "task_list": ["a"], "model_id": TRAINED, "model_version": "0",
    }},
    "tasks": {name: {"component_ref": "train", "stage": "default"} for name in ("a", "b")},
}}  # fmt: skip


@pytest.mark.parametrize(("roles", "is_taken"), [
    (ROLES, True), ({"guest": [9999, 7], "host": [10000]}, True), ({"guest": [7], "host": [10000]}, False),
])  # fmt: skip
def test_a_job_gets_the_models_of_tasks_that_it_inherits(place: Place, roles: dict[str, Any], is_taken: bool) -> None:
    """If the initiator and all other parties took part in the job that has made them."""
    place.has(reference=replace(STORED.reference, task="other"))
    place.has(reference=replace(STORED.reference, version=1))
    theirs = place.has(roles=roles)
    asked = create(document=Document({"components": {"b": {"module": "Train"}}}, CONF, {}))
    dag = {"format": FATE_V2, "body": INHERITING, "defaults": {"task_cores": 1}}
    answer = place.server.handle(replace(asked, body={**asked.body, "document": dag}))
    assert answer.is_ok, answer
    for _ in range(2):                      # once for each try to end the job
        with place.server.unit() as unit:
            carry_over(unit, replace(place.server.job(), status=JobStatus.SUCCESS))
    found = [one for one in place.models() if one.reference.model_id == JOB_ID]
    carried = replace(theirs, reference=ModelReference(JOB_ID, 0, "a", "m"), job_id=JOB_ID, create_time=NOW)
    assert found == [carried] * is_taken, "its readers are still the parties of the job that has made it"
    assert place.files().count(f"{JOB_ID}/0/host/10000/a/m.tar") == is_taken


# ---------------------------------------------------------------------- read


def test_a_task_gets_the_file_of_the_store_with_its_digest(place: Place) -> None:
    model = place.has()
    place.runs(reading())
    [given] = place.server.engine.launched[-1].inputs
    assert given == Artifact(
        JSON_MODEL, f"file://{place.folder}/models/{TRAINED}/0/host/10000/a/m.tar", {"of": "a"}, "input_model",
        model.sha256, model.size, is_packed=True,
    )  # fmt: skip
    assert given.as_json()["stored"] == {"sha256": model.sha256, "bytes": model.size}
    assert place.history() == [("read", f"a.m of model {TRAINED} version 0 sha256 {model.sha256}")]
    place.ends()
    assert place.server.task().message == f"read a.m of model {TRAINED} version 0 sha256 {model.sha256}"


@pytest.mark.parametrize(("changed", "problem"), [
    ({"version": 1}, "version 1 for this job: it has none, or a party of a did not take part in making it"),
    ({"output": "x"}, "host 10000 has no part of a.x"), ({"id": "x"}, "a.m of model x version 0"),
])  # fmt: skip
def test_a_party_without_its_part_refuses(place: Place, changed: dict[str, Any], problem: str) -> None:
    place.has()
    refused = place.server.handle(create(document=Document(reading(**changed), CONF, {})))
    assert problem in refused.retmsg, refused.retmsg


def test_who_did_not_take_part_reads_nothing_and_learns_nothing(place: Place) -> None:
    place.has(roles={"guest": [10001], "host": [10000]})
    refused = place.server.handle(create(document=Document(reading(), CONF, {})))
    with place.server.store.transaction() as tx:
        tx.drop_model(STORED.reference, HOST)
    assert refused.retmsg == place.server.handle(create(document=Document(reading(), CONF, {}))).retmsg


def test_a_file_that_is_gone_and_a_kind_that_does_not_fit_are_named(place: Place) -> None:
    place.has(kind=MODEL_DIRECTORY)
    refused = place.server.handle(create(document=Document(reading(), CONF, {})))
    assert "is of kind model_directory; Apply reads json_model" in refused.retmsg
    place.server.context.models.path(STORED).unlink()
    refused = place.server.handle(create(document=Document(reading(), CONF, {})))
    assert f"host 10000: the file of a.m of model {TRAINED} version 0 is missing" in refused.retmsg


def test_a_part_that_goes_after_the_create_ends_the_task_with_its_name(place: Place) -> None:
    place.has()
    place.server.handle(create(document=Document(reading(), CONF, {})))
    with place.server.store.transaction() as tx:
        tx.drop_model(STORED.reference, HOST)
    for one in (*RUN[1:], task_command(K.TASK_START)):
        place.server.handle(one)
    assert place.server.task().message.startswith("input model.input_model: host 10000 has no part of a.m")


# ---------------------------------------------------------------------- retention


def test_retention_removes_files_without_a_row_and_no_model(place: Place) -> None:
    model = place.has()
    orphan = replace(model, reference=ModelReference("orphan", 0, "a", "m"))
    place.server.context.models.copy(model, orphan)
    (place.folder / "models" / TRAINED / ".draft").write_text("left by a crash", encoding="utf-8")
    place.server.now = 2**60
    sweeper = RetentionSweeper(place.server.context, Keep(finished_jobs=1, outputs=dict.fromkeys(MODULES, 1)))
    while sweeper.step():
        pass
    gone = [call[1].uri for call in place.server.files.calls if call[0] == "remove_artifact"]
    assert gone == [f"file://{place.folder}/models/orphan/0/host/10000/a/m.tar"]
    assert place.models() == (model,)
    assert sorted(one.name for one in (place.folder / "models" / TRAINED).iterdir()) == ["0"]


def test_a_file_that_was_stored_just_now_waits_for_its_row(place: Place) -> None:
    place.server.context.models.copy(place.has(), replace(STORED, reference=ModelReference("new", 0, "a", "m")))
    assert list(place.server.context.models.kept_before(1)) == []
