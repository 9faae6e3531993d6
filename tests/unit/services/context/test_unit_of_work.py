"""One unit of work: what is written, what is to follow, and how a part of it is undone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import pytest

from fate_flow.core.access.authority import JobBinding
from fate_flow.core.metrics.measures import ADMISSION_SECONDS
from fate_flow.core.metrics.spans import Step, StepName
from fate_flow.core.model.errors import BadDocument, Conflict, StorageFailed
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.model.status import JobStatus
from fate_flow.core.record.entry import OWN_LOG, Kind, new_entry
from fate_flow.services.context.effects import RemoveJobFolder
from fate_flow.services.context.pending import CapacityNotice, Pending
from fate_flow.services.context.tracing import begin_command, did
from fate_flow.services.context.unit_of_work import UnitOfWork, unit_of_work
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import DOCUMENT
from tests.kit.values import HOST, JOB_ID, a_job

CHECK = Command(CommandKind.CHECK, JOB_ID, HOST, body={"turn": 1})
FIELDS = [one.name for one in fields(Pending)]


def done(server: HandServer) -> list[str]:
    """What the effects of `do_all` were about, in their order."""
    return [about for _, about in server.files.calls]


def do_all(unit: UnitOfWork, word: str) -> None:
    unit.send(CHECK)
    unit.touch(word)
    unit.free("9999", word)
    unit.after_commit(RemoveJobFolder(word))
    unit.wake_at(7, "j")
    unit.lengthen_queue()


def leave_everything_and_fail(unit: UnitOfWork) -> None:
    """All that may follow from a unit."""
    before = unit.pending
    do_all(unit, "undone")
    unit.moves(HistoryLevel.JOB, JOB_ID, None, JobStatus.READY)
    unit.inform("10000")
    unit.observe(ADMISSION_SECONDS, 1.0)
    unit.reconsider(JOB_ID)
    begin_command(unit)
    did(unit, Step(StepName.ROUND_BEGUN, JOB_ID, HOST))
    assert unit.bind(JobBinding(JOB_ID, HOST, frozenset({HOST}), "d" * 64))
    notice = CapacityNotice(JOB_ID, "10000", 4)
    entry = new_entry(OWN_LOG, Kind.ACT, 1, {"what": "undone"})
    unit.pending = unit.pending.with_notice(notice).with_hints([CHECK]).with_declined_notice().with_recorded(entry)
    assert [name for name in FIELDS if getattr(unit.pending, name) == getattr(before, name)] == []
    raise Conflict


def do_and_fail(unit: UnitOfWork, word: str) -> None:
    do_all(unit, word)
    raise Conflict


def test_effects_run_after_the_commit_in_their_order() -> None:
    server = HandServer()
    with unit_of_work(server.context) as unit:
        do_all(unit, "first")
        do_all(unit, "second")
        assert done(server) == []
    assert done(server) == ["first", "second"]
    assert len(server.outbox()) == 2


def test_effects_wait_for_the_commit_itself() -> None:
    """After the last statement is too early: a process would start for a row that nobody has."""
    server = HandServer()
    begin = server.store.transaction

    @contextmanager
    def transaction() -> Iterator[Any]:
        with begin() as tx:
            yield tx
        server.files.calls.append(("said", "commit"))

    server.store.transaction = transaction
    with unit_of_work(server.context, committed=lambda _: server.files.calls.append(("said", "told"))) as unit:
        unit.after_commit(RemoveJobFolder("effect"))
    assert done(server) == ["commit", "told", "effect"]


def test_effects_follow_a_commit_also_if_nobody_can_be_told() -> None:
    server = HandServer()

    def fail(_: UnitOfWork) -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"), unit_of_work(server.context, committed=fail) as unit:
        unit.after_commit(RemoveJobFolder("effect"))
    assert done(server) == ["effect"]


def test_nothing_happens_when_the_commit_is_refused() -> None:
    server = HandServer()
    begin = server.store.transaction

    @contextmanager
    def transaction() -> Iterator[Any]:
        with begin() as tx:
            yield tx
            raise StorageFailed("the disk is full")

    server.store.transaction = transaction
    with pytest.raises(StorageFailed), unit_of_work(server.context) as unit:
        do_all(unit, "first")
    assert done(server) == []


def test_nothing_happens_when_the_block_raises() -> None:
    server = HandServer()
    with pytest.raises(Conflict), unit_of_work(server.context) as unit:
        do_and_fail(unit, "first")
    assert done(server) == []
    assert server.outbox() == []


def test_a_command_carries_the_number_of_its_row() -> None:
    server = HandServer()
    with server.unit() as unit:
        unit.send(CHECK)
        [stored] = unit.pending.outgoing
    assert stored == replace(CHECK, id=stored.id)
    assert server.outbox() == [stored]


def test_a_part_that_raises_is_undone_with_all_that_was_to_follow_from_it() -> None:
    server = HandServer()
    with server.unit() as unit:
        unit.touch("kept")
        unit.after_commit(RemoveJobFolder("kept"))
        before = unit.pending
        with pytest.raises(Conflict), unit.part():
            leave_everything_and_fail(unit)
        assert unit.pending == before
        assert unit.binding(JOB_ID) is None
    assert done(server) == ["kept"]
    assert server.outbox() == []


def test_a_part_that_goes_well_stays() -> None:
    server = HandServer()
    with server.unit() as unit:
        with unit.part():
            do_all(unit, "inner")
        assert unit.pending.is_queue_longer
    assert done(server) == ["inner"]


def test_what_stands_apart_fails_the_whole_unit_when_it_is_not_careful() -> None:
    server = HandServer()
    with pytest.raises(ZeroDivisionError), server.unit() as unit, unit.isolated("job 7"):
        raise ZeroDivisionError


def test_a_careful_unit_survives_what_stands_apart(caplog: pytest.LogCaptureFixture) -> None:
    server = HandServer()
    with unit_of_work(server.context, is_careful=True) as unit:
        do_all(unit, "before")
        with unit.isolated("job 7"):
            do_all(unit, "undone")
            raise ZeroDivisionError
        with unit.isolated("job 8"):
            do_all(unit, "after")
    assert done(server) == ["before", "after"]
    assert "job 7 failed and is left as it was" in caplog.text


def test_a_dying_process_is_not_survived() -> None:
    server = HandServer()
    with pytest.raises(KeyboardInterrupt), unit_of_work(server.context, is_careful=True) as unit, unit.isolated("x"):
        raise KeyboardInterrupt
    assert server.outbox() == []


@pytest.mark.parametrize(
    ("freed", "left"),
    [
        ([("10000", "a")], {}),
        ([("10000", "a"), ("10000", "b")], {"10000": {"b"}}),
        ([("10000", ""), ("10000", "a")], {"10000": {""}}),      # another process freed some too
        ([("9999", "a")], {"9999": {"a"}}),
        ([], {}),
    ],
)
def test_what_a_job_took_and_gave_back_itself_is_nothing_new(
    freed: list[tuple[str, str]], left: dict[str, set[str]]
) -> None:
    server = HandServer()
    with server.unit() as unit:
        for party_id, job_id in freed:
            unit.free(party_id, job_id)
        unit.undo_free("10000", "a")
        assert unit.pending.freed == left


def test_a_document_is_parsed_once_a_process() -> None:
    server = HandServer()
    with server.unit() as unit:
        unit.tx.add_job(a_job(JobStatus.READY), DOCUMENT)
        first = unit.spec(JOB_ID)
    with server.unit() as unit:
        assert unit.spec(JOB_ID) is first
        assert unit.spec("20260101120000") is None
    assert first is not None
    assert list(first.tasks) == ["a", "b"]


def test_a_document_that_cannot_be_read_says_where() -> None:
    server = HandServer()
    with server.unit() as unit:
        unit.tx.add_job(a_job(JobStatus.READY), replace(DOCUMENT, dsl={"components": {"a": {"module": "Gone"}}}))
        with pytest.raises(BadDocument, match=r"^dsl\.components\.a\.module"):
            unit.spec(JOB_ID)
