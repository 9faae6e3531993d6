"""A kind of artifact needs a row in two tables and no other change: a kind of the tests' own goes all the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fate_flow.components.artifacts.attempt import Attempt
from fate_flow.components.artifacts.on_disk import kinds_on_disk
from fate_flow.components.artifacts.result_file import read_result
from fate_flow.core.access.permission import Kind, PermissionRule, Thing
from fate_flow.core.model.artifact import METRIC, TABLE, Artifact
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.job import TaskKey
from fate_flow.records.operator_log.events import Event
from fate_flow.services.artifacts.kinds import KINDS
from fate_flow.services.context.ports import Keep
from fate_flow.services.upkeep.results import clean_job
from fate_flow.services.upkeep.retention import RetentionSweeper
from fate_flow.store.values import Document, Scope
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.note_kind import NOTE, NoteFiles, Notes, a_note
from tests.kit.services.party_commands import DOCUMENT, RUN, command, create, task_command
from tests.kit.services.sights import a_table, with_outputs
from tests.kit.values import HOST, JOB_ID

KEY = TaskKey(JOB_ID, "a", 0, HOST)
HELLO = a_note("hello")
ELSEWHERE = (TaskKey("another", "x", 0, HOST), "data")


def a_party(notes: Notes, rule: PermissionRule | None = None) -> HandServer:
    """A host with the kind `note`."""
    server = HandServer("10000")
    object.__setattr__(server.context, "kinds", {**KINDS, NOTE: notes})
    object.__setattr__(server.context, "permission", rule or PermissionRule())
    return server


def a_server(document: Document = DOCUMENT, notes: Notes | None = None) -> tuple[HandServer, Notes]:
    """The same, where the job runs."""
    notes = notes or Notes()
    server = a_party(notes)
    for one in (create(document=document), *RUN[1:]):
        assert server.handle(one).is_ok
    return server, notes


def with_parameters(**given: Any) -> Document:
    conf = {**DOCUMENT.runtime_conf, "component_parameters": {"role": {"host": {"0": {"a": given}}}}}
    return Document(DOCUMENT.dsl, conf, DOCUMENT.on_party)


def end_a(server: HandServer, *artifacts: Artifact) -> None:
    """Let the worker of the first task make this."""
    assert server.handle(task_command(K.TASK_START)).is_ok
    server.engine.sights[worker_of(server)] = with_outputs(*artifacts)
    server.watch()


def succeed_everywhere(server: HandServer) -> None:
    assert server.handle(task_command(K.TASK_STATUS, argument="success")).is_ok


def removed(server: HandServer) -> list[Artifact]:
    return [call[1] for call in server.files.calls if call[0] == "remove_artifact" and call[1].kind == NOTE]


def test_both_tables_have_the_same_kinds(tmp_path: Path) -> None:
    assert list(kinds_on_disk(tmp_path, tmp_path)) == list(KINDS)


def test_what_a_worker_reports_is_read_by_its_kind(tmp_path: Path) -> None:
    kinds = {**kinds_on_disk(tmp_path / "data", tmp_path / "uploads"), NOTE: NoteFiles()}
    attempt = Attempt(KEY, tmp_path)
    note = kinds[NOTE].planned(attempt, "data")
    Path(note.uri).write_text("hello", encoding="utf-8")
    result = {"status": {"code": 0}, "io_meta": {"outputs": {"data": {"data": [note.place]}}}}
    found = read_result(result, attempt, kinds)
    assert (found.succeeded, found.artifacts) == (True, (Artifact(NOTE, note.uri, {"text": "hello"}, "data"),))
    del kinds[NOTE]
    assert not read_result(result, attempt, kinds).succeeded


def test_it_is_published_with_the_others_and_read_by_the_next_task() -> None:
    server, notes = a_server()
    end_a(server, a_table("t", key="other"), HELLO)
    assert notes.rows == {}, "the task has not succeeded everywhere"
    succeed_everywhere(server)
    assert list(notes.rows) == [(KEY, "data")]
    with server.store.reading() as tx:
        assert [one.data_name for one in tx.outputs(JOB_ID, "a", HOST)] == ["other"]
        assert tx.summary(JOB_ID, "a", HOST) == {"notes": 1}
    assert server.handle(task_command(K.TASK_START, "b")).is_ok
    assert server.engine.launched[-1].inputs == (HELLO,)


def test_a_missing_one_is_named_by_what_could_be_there() -> None:
    server, _ = a_server()
    server.handle(task_command(K.TASK_START, "b"))
    assert server.task("b").message == "input data.data: a.data has no table or note at host 10000"


def test_it_is_removed_when_the_task_has_failed_at_another_party() -> None:
    server, notes = a_server()
    end_a(server, HELLO)
    server.handle(task_command(K.TASK_STATUS, argument="failed"))
    assert (removed(server), notes.rows) == ([HELLO], {})


def test_it_is_removed_with_the_results_of_its_job() -> None:
    server, notes = a_server()
    end_a(server, HELLO)
    succeed_everywhere(server)
    assert server.handle(command(K.STOP, argument="canceled", reason="stopped_by_user")).is_ok
    with server.unit() as unit:
        cleaned = clean_job(unit, Scope(JOB_ID))
    assert (removed(server), notes.rows, cleaned[NOTE].rows) == ([HELLO], {}, 1)
    assert (cleaned[TABLE].rows, cleaned[METRIC].rows) == (0, 0)
    text = server.record.seen(Event.JOB_NOTE)[-1]["text"]
    assert text == f"job {JOB_ID}: 0 tables and 0 metrics and 1 notes were removed"


@pytest.mark.parametrize("is_over", [True, False])
def test_it_is_removed_when_it_is_old_enough(is_over: bool) -> None:
    server, notes = a_server()
    end_a(server, HELLO)
    succeed_everywhere(server)
    if is_over:
        assert server.handle(command(K.STOP, argument="canceled", reason="stopped_by_user")).is_ok
        with server.store.transaction() as tx:
            for one in tx.commands_after(0):
                tx.take_command(one.id)      # the reports were answered
    server.now += 1_001
    retention = RetentionSweeper(server.context, Keep(outputs={NOTE: 1_000}))
    while retention.step():
        pass
    assert (removed(server), bool(notes.rows)) == (([HELLO], False) if is_over else ([], True))


def test_a_note_that_parameters_name_has_to_exist_and_is_resolved() -> None:
    notes = Notes({ELSEWHERE: (HELLO, 1)})
    server, _ = a_server(with_parameters(note="hello"), notes)
    assert server.handle(task_command(K.TASK_START)).is_ok
    assert server.engine.launched[-1].parameters == {"note": "memory:hello"}


def test_a_note_that_parameters_name_and_that_is_lost_is_missed_at_the_submit_and_at_the_start() -> None:
    answer = a_party(Notes()).handle(create(document=with_parameters(note="hello")))
    assert (answer.is_ok, answer.retmsg) == (False, "a (Work): there is no note hello")
    server, notes = a_server(with_parameters(note="hello"), Notes({ELSEWHERE: (HELLO, 1)}))
    notes.rows.clear()
    server.handle(task_command(K.TASK_START))
    assert server.task("a").message == "there is no note hello"


def test_a_note_that_parameters_name_has_to_be_granted() -> None:
    server = a_party(Notes({ELSEWHERE: (HELLO, 1)}), PermissionRule(datasets=True))
    answer = server.handle(create(document=with_parameters(note="hello")))
    assert (answer.is_ok, answer.retmsg.partition(" (")[0]) == (
        False, "host 10000 has not granted party 9999: table notes/hello"
    )  # fmt: skip
    with server.store.transaction() as tx:
        tx.grant("9999", [Thing(Kind.DATASET, "hello", "notes")])
    assert server.handle(create(document=with_parameters(note="hello"))).is_ok
