"""What is done after a commit: each effect is a value, and says what was to be done without a closure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from fate_flow.core.model.artifact import JSON_MODEL, METRIC, TABLE, Artifact, file_at
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import TaskKey, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import ModelReference
from fate_flow.core.model.status import JobStatus, WorkerStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.core.streams.counts import PortCount
from fate_flow.services.context.effects import (
    CloseExchange,
    CollectStreams,
    Effect,
    ForgetWorker,
    LaunchWorker,
    ReleaseWorker,
    RemoveArtifacts,
    RemoveJobFolder,
    RemoveMessages,
    RemoveModels,
    StopWorker,
    WriteConfs,
    carry_out,
)
from fate_flow.services.context.ports import LaunchOrder, StreamsHere
from fate_flow.store.values import StoredModel
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import DOCUMENT
from tests.kit.values import GUEST, HOST, INCARNATION, JOB_ID, a_job

KEY = TaskKey(JOB_ID, "a", 0, HOST)
STREAMS = StreamsHere(KEY, INCARNATION)
WORKER = Worker("w1", KEY, WorkerStatus.CREATED, "local", "/w1")
ORDER = LaunchOrder(WORKER, "Work", INCARNATION, (("host", "10000"),), {}, (), 1, 60, 5.0, "w1", document="native:ab")
ARTIFACTS = (Artifact(TABLE, "one"), Artifact(METRIC, "two"))
UPLOAD = file_at("/up")
MODEL = StoredModel(ModelReference("m", 0, "a", "b"), HOST, JSON_MODEL, "", 0, JOB_ID, "9999", 0, "Work", {})
JOB = a_job(JobStatus.WAITING)

OPENED = ("open", KEY, INCARNATION, ORDER.parties, "w1", "native:ab")
CASES: list[tuple[Effect, list[Any]]] = [
    (LaunchWorker(ORDER), [OPENED, ORDER]),
    (StopWorker(WORKER, 7.0), ["w1", 7.0]),
    (ReleaseWorker(WORKER), ["released", "w1"]),
    (ForgetWorker(WORKER), ["forgotten", "w1"]),
    (CloseExchange(KEY, INCARNATION), [("close", KEY, INCARNATION), ("collected", STREAMS)]),
    (CollectStreams(STREAMS), [("collected", STREAMS)]),
    (WriteConfs(JOB.key, DOCUMENT), [("write_confs", JOB.key, DOCUMENT), ("remove_job", JOB_ID)]),
    (RemoveJobFolder(JOB_ID), [("remove_job", JOB_ID)]),
    (RemoveMessages(JOB_ID, (UPLOAD,)), [("purge", JOB_ID), ("remove_artifact", UPLOAD)]),
    (RemoveArtifacts(ARTIFACTS), [("remove_artifact", one) for one in ARTIFACTS]),
    (RemoveModels((MODEL,)), [("remove_artifact", Artifact(JSON_MODEL, ""))]),
]


def asked_of(server: HandServer) -> list[Any]:
    engine = server.engine
    released = ["released", *engine.released] if engine.released else []
    forgotten = [text for one in engine.forgotten for text in ("forgotten", one)]
    return [
        *server.exchange.calls, *server.files.calls, *engine.launched, *engine.stopped, *engine.graces,
        *released, *forgotten,
    ]  # fmt: skip


@pytest.mark.parametrize(("effect", "asked"), CASES, ids=lambda one: type(one).__name__)
def test_each_asks_for_what_it_names(effect: Effect, asked: list[Any]) -> None:
    server = HandServer("10000")
    carry_out(server.context, effect)
    assert asked_of(server) == asked


@pytest.mark.parametrize("name", ["local", "slurm"])
def test_what_concerns_a_worker_is_asked_of_the_engine_that_its_row_names(name: str) -> None:
    server = HandServer("10000", engines={"local": 8, "slurm": 8})
    worker = replace(WORKER, engine=name)
    for effect in (LaunchWorker(replace(ORDER, worker=worker)), StopWorker(worker, 7.0), ForgetWorker(worker)):
        carry_out(server.context, effect)
    for engine in server.engines.values():
        asked = [[order.worker for order in engine.launched], engine.stopped, engine.forgotten]
        assert asked == ([[worker], ["w1"], ["w1"]] if engine.name == name else [[], [], []])


def test_of_an_engine_that_is_not_configured_nothing_is_asked() -> None:
    server = HandServer("10000", engines={"local": 8, "slurm": 8})
    server.configure("local")
    worker = replace(WORKER, engine="slurm")
    for effect in (LaunchWorker(replace(ORDER, worker=worker)), StopWorker(worker, 7.0), ForgetWorker(worker)):
        carry_out(server.context, effect)
    for engine in server.engines.values():
        assert [engine.launched, engine.stopped, engine.forgotten] == [[], [], []]


def test_every_kind_has_a_case() -> None:
    assert {type(effect) for effect, _ in CASES} == set(get_args(Effect))


@pytest.mark.parametrize(("error", "problem"), [
    (OSError(28, "No space left on device", "/w1/spec.json"), "disk is full"),
    (StorageFailed("the exchange has no space"), "the exchange has no space"),
])  # fmt: skip
def test_what_keeps_a_worker_from_starting_is_known_until_it_starts(
    error: Exception, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = HandServer("10000")

    def refuse(_: LaunchOrder) -> None:
        raise error

    monkeypatch.setattr(server.engine, "launch", refuse)
    with pytest.raises(type(error)):
        carry_out(server.context, LaunchWorker(ORDER))
    assert problem in server.context.launch_problems["w1"]
    monkeypatch.undo()
    carry_out(server.context, LaunchWorker(ORDER))
    assert server.context.launch_problems == {}


def test_files_of_a_job_that_was_refused_while_they_were_written_go() -> None:
    """Their folder may have been removed before, by the process that has refused the job. Others stay."""
    server = HandServer("10000")
    with server.unit() as unit:
        unit.tx.add_job(JOB, DOCUMENT)
    carry_out(server.context, WriteConfs(JOB.key, DOCUMENT))
    assert server.files.calls == [("write_confs", JOB.key, DOCUMENT)]
    with server.unit() as unit:
        unit.tx.forget_seat(JOB.key)
    carry_out(server.context, WriteConfs(JOB.key, DOCUMENT))
    assert server.files.calls[1:] == [("write_confs", JOB.key, DOCUMENT), ("remove_job", JOB_ID)]


@pytest.mark.parametrize("error", [FileNotFoundError("its folder"), FileExistsError("its folder")])
def test_a_folder_that_goes_while_files_are_written_in_it_is_no_failure_if_the_job_was_refused(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`mkdir` reports a folder that goes between its two looks as one that exists."""
    server = HandServer("10000")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(server.files, "write_confs", fail)
    with server.unit() as unit:
        unit.tx.add_job(JOB, DOCUMENT)
    with pytest.raises(type(error)):
        carry_out(server.context, WriteConfs(JOB.key, DOCUMENT))
    with server.unit() as unit:
        unit.tx.forget_seat(JOB.key)
    carry_out(server.context, WriteConfs(JOB.key, DOCUMENT))
    assert server.files.calls == [("remove_job", JOB_ID)], "of what was written after the folder had gone"


@pytest.mark.parametrize("is_over", [True, False])
def test_the_messages_of_a_job_that_has_begun_again_stay(is_over: bool) -> None:
    server = HandServer("10000")
    with server.unit() as unit:
        unit.tx.add_job(JOB, DOCUMENT)
        if is_over:
            unit.tx.move_job(JOB, MoveJob(JobStatus.FAILED, Reason.STOPPED), 5)
    carry_out(server.context, RemoveMessages(JOB_ID, ()))
    assert server.exchange.calls == ([("purge", JOB_ID)] if is_over else [])


@pytest.mark.parametrize("effect", [CloseExchange(KEY, INCARNATION), CollectStreams(STREAMS)])
def test_what_streams_have_carried_is_in_the_history(effect: Effect) -> None:
    server = HandServer("10000")
    server.exchange.stream_counts = (PortCount("fl", GUEST, 2, 5, 7, 1.5),)
    carry_out(server.context, effect)
    assert server.context.read(lambda tx: tx.history(KEY.job_id)) == ()      # the job is not known, or no longer
    with server.unit() as unit:
        unit.tx.add_job(JOB, DOCUMENT)
    carry_out(server.context, effect)
    [entry] = server.context.read(lambda tx: tx.history(KEY.job_id))
    assert (entry.level, entry.new, entry.party, entry.task) == (HistoryLevel.STREAM, "ended", KEY.party, KEY.name)
    assert entry.message == f"port fl with {GUEST}: 2 streams, 5 bytes sent, 7 received, 1.5 s"
