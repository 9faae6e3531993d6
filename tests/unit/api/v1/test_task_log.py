"""What workers of a task print, piece by piece, and which versions of the task have printed something."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.model.job import Answer, TaskKey, Worker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.planning.replicas import COLLECTOR
from fate_flow.core.wire.v1.queries import listed_data, read_listed
from fate_flow.engines.local.usage import USAGE
from tests.kit.api.client_world import GUEST, START, World


def add_worker(world: World, job_id: str, version: int, printed: bytes, end: Reason | None = None) -> Path:
    """A process of `toy_0` here, with what it has printed; the file of that."""
    folder = world.home / "workers" / f"{version}"
    folder.mkdir(parents=True)
    files = {stream: str(folder / stream) for stream in ("stdout", "stderr")}
    (folder / "launch.json").write_text(json.dumps(files))
    (folder / "stdout").write_bytes(printed)
    key = TaskKey(job_id, "toy_0", version, GUEST)
    worker = Worker(f"{version:032x}", key, WorkerStatus.RUNNING, "local", str(folder))
    with world.store.transaction() as tx:
        tx.add_worker(worker)
    if end is not None:
        ended = {"f_status": "exited", "f_end_time": START, "f_reason": end.value, "f_caused_by": "guest 9999"}
        world.write("t_worker", {"f_worker_id": worker.worker_id}, **ended)
    return folder / "stdout"


def ask(world: World, job_id: str, **pending: Any) -> dict[str, Any]:
    said: dict[str, Any] = world.ask("task/log", {"job_id": job_id, "component_name": "toy_0", **pending})
    return said["data"] if said["retcode"] == 0 else said


def test_what_is_printed_is_read_piece_by_piece(world: World) -> None:
    job_id = world.add_job()
    world.add_task(job_id)
    path = add_worker(world, job_id, 0, "one\ntwö".encode()[:-1])
    said = ask(world, job_id, offset=0)
    assert (said["text"], said["next_offset"], said["bytes"]) == ("one\ntw", 6, 7), "half a letter waits for the other"
    with path.open("ab") as file:
        file.write("ö".encode()[1:] + b"\nthree\n")
    assert ask(world, job_id, offset=6)["text"] == "ö\nthree\n"
    assert [ask(world, job_id, offset=at, bytes=4)["text"] for at in (0, 4, 8)] == ["one\n", "twö", "\nthr"]
    assert (ask(world, job_id, offset=99)["text"], ask(world, job_id, offset=99)["next_offset"]) == ("", 15)
    assert (ask(world, job_id, bytes=6)["text"], ask(world, job_id)["next_offset"]) == ("three\n", 15)


def test_a_pipe_in_place_of_what_is_printed_has_no_text(world: World) -> None:
    job_id = world.add_job()
    world.add_task(job_id)
    path = add_worker(world, job_id, 0, b"one\n")
    path.unlink()
    os.mkfifo(path)
    assert (ask(world, job_id)["text"], ask(world, job_id)["bytes"]) == ("", 0)


def test_of_an_engine_that_is_not_configured_the_answer_says_so(world: World) -> None:
    job_id = world.add_job()
    world.add_task(job_id)
    add_worker(world, job_id, 0, b"one\n")
    world.write("t_worker", {"f_worker_id": f"{0:032x}"}, f_engine="slurm")
    assert ask(world, job_id)["retmsg"] == (
        "the output of worker 0 of toy_0 on guest 9999 cannot be read: engine slurm is not in the configuration of "
        "this server: add it until its jobs have ended"
    )


def test_the_versions_that_have_printed_something_are_named_with_how_they_ended(world: World) -> None:
    job_id = world.add_job()
    for version in range(2):
        world.add_task(job_id, version=version)
    add_worker(world, job_id, 0, b"old\n", Reason.WORKER_ERROR)
    add_worker(world, job_id, 1, b"new\n")
    said = ask(world, job_id)
    assert (said["text"], said["task_version"]) == ("new\n", 1)
    assert said["versions"] == [
        {"task_version": 0, "reason": "worker_error"}, {"task_version": 1, "reason": None}]
    assert ask(world, job_id, task_version=0)["text"] == "old\n"
    assert ask(world, job_id, task_version=7)["retcode"] == 101


def test_what_a_worker_has_used_is_in_the_answer_that_is_no_part_of_following(world: World) -> None:
    job_id = world.add_job()
    world.add_task(job_id)
    folder = add_worker(world, job_id, 0, b"one\n").parent
    assert ask(world, job_id)["usage"] is None
    (folder / USAGE).write_text('[10, 5, 95]\n[20, 9, 90]\n')
    used = {"seconds": 20, "processor_seconds": 9, "peak_mb": 95, "has_ended": False}
    assert ask(world, job_id)["usage"] == {**used, "samples": [[10, 5, 95], [20, 9, 90]]}
    assert "usage" not in ask(world, job_id, offset=0)


def test_workers_are_listed_from_a_number_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fate_flow.api.v1.outputs.worker_output.MOST_LISTED", 2)
    job_id = world.add_job()
    world.add_task(job_id)
    add_worker(world, job_id, 0, b"one\n")
    key = TaskKey(job_id, "toy_0", 0, GUEST)
    with world.store.transaction() as tx:
        for slot, attempt in ((0, 1), (2, 0), (3, 0), (COLLECTOR, 0)):
            tx.add_worker(Worker(f"{slot}-{attempt}", key, WorkerStatus.CREATED, "local", "", slot=slot, rank=None,
                                 attempt=attempt))  # fmt: skip
    assert "workers" not in ask(world, job_id, attempt=0)
    said = ask(world, job_id, attempt=0, workers_from=0)
    found = read_listed(said, GUEST)
    assert [(one.worker, one.attempt, one.rank) for one in found.workers] == [(0, 1, None), (2, 0, None)]
    assert (found.count, found.next) == (3, 3)
    assert listed_data(found) == said["workers"]
    rest = read_listed(ask(world, job_id, attempt=0, workers_from=found.next), GUEST)
    assert ([one.worker for one in rest.workers], rest.count, rest.next) == ([3], 3, None)


def ask_partner(world: World, said: dict[str, Any], **which: Any) -> Any:
    world.peers.answers = {"/task/log": Answer(data=said)}
    body = {"job_id": world.add_job(), "component_name": "toy_0", "role": "host", "party_id": "10000", **which}
    return world.ask("task/log", body)


@pytest.mark.parametrize("said", [
    {"text": "x", "next_offset": 8, "bytes": 1 << 50}, {"text": "", "next_offset": 7, "bytes": 1 << 50},
    {"text": "x", "next_offset": 1 << 40, "bytes": 1 << 40},
    {"text": "x" * 500_000, "next_offset": 500_007, "bytes": 9},
])  # fmt: skip
def test_what_no_log_of_another_party_can_have_is_not_passed_on(world: World, said: dict[str, Any]) -> None:
    """Who follows a log asks again at once while there is more: the other party must not make it ask for ever."""
    found = ask_partner(world, {**said, "status": "running"}, offset=7)
    assert found["retcode"] != 0
    assert "host 10000 answers what no log has" in found["retmsg"]


@pytest.mark.parametrize(("said", "which"), [
    ({"text": "x\n", "next_offset": 9, "bytes": 9}, {"offset": 7}),
    ({"text": "", "next_offset": 7, "bytes": 7}, {"offset": 7}),
    ({"text": "x" * 50, "next_offset": 7_000, "bytes": 7_000}, {"bytes": 50}),
    ({"text": "x\n" * 50, "next_offset": 107, "bytes": 7}, {"offset": 7}),
], ids=["the rest", "nothing new", "the end", "more has come"])  # fmt: skip
def test_what_a_log_can_have_is_passed_on(world: World, said: dict[str, Any], which: dict[str, int]) -> None:
    whose = {"job_id": "20260101120000000001", "component_name": "toy_0", "role": "host", "party_id": "10000"}
    worker = {"task_version": 0, "worker": 0, "rank": 0, "attempt": 0, "status": "running", "stream": "stdout"}
    rest = {"reason": None, "message": "", "exit_status": "", "caused_by": None, "attempts": [], "versions": []}
    answer = {**said, **whose, **worker, **rest}
    assert ask_partner(world, answer, **which)["data"] == answer
