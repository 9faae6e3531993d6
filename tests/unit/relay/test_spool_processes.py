"""The spool among several processes, some of which are killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fate_flow.relay import spool as module
from fate_flow.relay.spool import Spool
from fate_flow.relay.spool_result import Problem, Refusal
from tests.kit.relay.spool_calls import AGAIN, HERE, NEW, PEERS, a_spool, chunks, peek, pop, push, total

WAIT = 90.0        # seconds; what is waited for comes at once


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not happened():
        assert time.monotonic() < deadline


def test_two_processes_see_the_same(spool: Spool) -> None:
    other = a_spool(Path(spool._root))
    assert other.session_of("token") == HERE
    assert [push(spool, 0), push(other, 0), push(other, 1), push(spool, 1)] == [NEW, AGAIN, NEW, AGAIN]
    assert [pop(other, 0), pop(spool, 1), pop(other, 0)] == [b"chunk 0", b"chunk 1", Problem.SKIPPED]
    other.close(HERE)
    assert [push(spool, 2), pop(spool, 1)] == [Problem.GONE, Problem.GONE]
    assert isinstance(spool.session_of("token"), Refusal)
    spool.purge(HERE.job_id)
    assert [push(other, 2), other.session_of("token")] == [Problem.NOT_STARTED, None]


def test_a_push_wakes_and_only_a_new_one(tmp_path: Path) -> None:
    rings: list[int] = []
    spool = a_spool(tmp_path, lambda: rings.append(1))
    spool.open(HERE, PEERS, "token")
    push(spool, 0)
    push(spool, 0)
    assert len(rings) == 1


def waits_for(spool: Spool, seconds: float) -> tuple[threading.Thread, list[object]]:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(pop(spool, 0, wait_seconds=seconds)))
    thread.start()
    return thread, found


def test_a_wake_up_from_another_process_ends_a_wait(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RECHECK_SECONDS", 2 * WAIT)
    other = a_spool(Path(spool._root), wake=spool.notify)
    thread, found = waits_for(spool, 2 * WAIT)
    push(other, 0)
    thread.join(WAIT)
    assert found == [b"chunk 0"]


def test_a_lost_wake_up_costs_a_quarter_of_a_second(spool: Spool) -> None:
    thread, found = waits_for(spool, 2 * WAIT)
    push(a_spool(Path(spool._root)), 0)
    thread.join(WAIT)
    assert found == [b"chunk 0"]


def test_closing_ends_a_wait(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RECHECK_SECONDS", 2 * WAIT)
    thread, found = waits_for(spool, 2 * WAIT)
    spool.close(HERE)
    thread.join(WAIT)
    assert found == [Problem.GONE]


def test_a_wait_ends_with_nothing_after_its_time(spool: Spool) -> None:
    began = time.monotonic()
    assert pop(spool, 0, wait_seconds=0.03) is None
    assert time.monotonic() - began >= 0.03


def test_many_writers_of_the_same_numbers_store_each_once(spool: Spool) -> None:
    spools = [spool, a_spool(Path(spool._root))]
    answers: list[object] = []

    def write(mine: Spool) -> None:
        answers.extend(push(mine, seq) for seq in range(40))

    threads = [threading.Thread(target=write, args=(spools[n % 2],)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers.count(NEW) == 40
    assert answers.count(AGAIN) == 200
    assert [pop(spool, seq) for seq in range(40)] == [b"chunk %d" % seq for seq in range(40)]


def test_pushes_that_race_with_a_close_leave_no_message(spool: Spool) -> None:
    def write(mine: Spool, topic: str) -> None:
        seq = 0
        while push(mine, seq, topic=topic) == NEW:
            seq += 1

    spools = [spool, a_spool(Path(spool._root))]
    threads = [threading.Thread(target=write, args=(spools[n % 2], f"topic {n}")) for n in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(chunks(spool)) >= 20)
    a_spool(Path(spool._root)).close(HERE)
    for thread in threads:
        thread.join()
    assert chunks(spool) == []
    assert total(spool) == 0


@pytest.mark.parametrize("size", [10, 80_000])      # 240 chunks of three times that fit the backlog
def test_what_was_acknowledged_survives_kill_9(spool: Spool, size: int) -> None:
    acknowledged = 0
    for _ in range(6):
        acknowledged += pushes_until_killed(spool, acknowledged, size)
        fresh = a_spool(Path(spool._root))
        # The number that was being written may have been stored, or has to be pushed again.
        assert push(fresh, acknowledged, b"%d" % acknowledged * size) in (NEW, AGAIN)
        acknowledged += 1
    for seq in range(acknowledged):
        assert pop(fresh, seq) == b"%d" % seq * size
    assert push(fresh, acknowledged) in (NEW, Problem.DIFFERENT)
    fresh.close(HERE)
    assert chunks(fresh) == []


def pushes_until_killed(spool: Spool, first: int, size: int) -> int:
    """Let a process push and confirm nothing until it is killed; says how many pushes it knew of."""
    heartbeats, described = os.pipe()
    child = os.fork()
    if child == 0:
        for seq in range(first, first + 40):
            push(spool, seq, b"%d" % seq * size)
            os.write(described, b".")
        os._exit(0)
    os.close(described)
    known = len(os.read(heartbeats, 1)) + len(os.read(heartbeats, 2))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(heartbeats, 100):
        known += len(more)
    os.close(heartbeats)
    return known


def test_a_reader_killed_while_it_confirms_loses_nothing(spool: Spool) -> None:
    for seq in range(60):
        push(spool, seq)
    child = os.fork()
    if child == 0:
        for seq in range(60):
            pop(spool, seq)
        os._exit(0)
    until(lambda: len(chunks(spool)) <= 50)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    first = next(seq for seq in range(61) if peek(spool, seq) != Problem.SKIPPED)
    assert [pop(spool, seq) for seq in range(first, 60)] == [b"chunk %d" % seq for seq in range(first, 60)]
    assert push(spool, 60) == NEW
