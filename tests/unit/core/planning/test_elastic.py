"""Workers that come and go: which slots are theirs, what one holds, who may begin, and who goes first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.job import Claim, EngineState, TaskKey, Worker
from fate_flow.core.model.program import read_program
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.resources import Need, Request
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import WorkerStatus
from fate_flow.core.planning.elastic import (
    ElasticCount,
    count_elastic,
    elastic_slots,
    need_of,
    overdrawn,
    part_of_one,
    shortfall,
    to_lend,
    vacant,
)
from fate_flow.core.planning.replicas import COLLECTOR, Replace, ShareFailed, failed_of, next_step

KEY = TaskKey("202601010000000000000", "a", 0, Party("host", "10000"))
PROGRAM = {"replicas": 4, "min_replicas": 2, "max_failed_workers": 3}
SERVICE = {"replicas": 4, "min_replicas": 2, "restart_completed_workers": True}
GANG = {"replicas": 4, "min_replicas": 2, "size": 1}


def command(**parameters: Any) -> Any:
    return read_program({"command": ["x"], **parameters})


def fixed(slot: int, reason: Reason | None = None) -> Worker:
    return _worker(slot, slot, reason, False)


def elastic(slot: int, reason: Reason | None = None, **fields: Any) -> Worker:
    return _worker(slot, None, reason, True, **{"cores": 1, **fields})


def _worker(slot: int, rank: int | None, reason: Reason | None, is_elastic: bool, **fields: Any) -> Worker:
    status = WorkerStatus.RUNNING if reason is None else WorkerStatus.EXITED
    name = f"w{slot}.{fields.get('attempt', 0)}"
    return Worker(
        name, KEY, status, "local", "/x", slot=slot, rank=rank, reason=reason, is_elastic=is_elastic, **fields
    )  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "ranks", "slots"),
    [
        ({"replicas": 3}, (0, 1, 2), set()),
        ({"replicas": 3, "size": 1}, (0, None, None), set()),
        (GANG, (0, None, None, None), {2, 3}),
        (GANG, (None, None, 0, None), {1, 3}),
        (PROGRAM, (0, 1, None, None), {2, 3}),
    ],
)
def test_the_last_slots_without_a_rank_are_elastic(
    parameters: dict[str, Any], ranks: tuple[int | None, ...], slots: set[int]
) -> None:
    assert elastic_slots(command(**parameters), ranks) == slots


def test_the_workers_of_a_program_that_are_not_elastic_have_the_ranks() -> None:
    assert [(one.size, one.elastic, one.min_replicas) for one in (command(**PROGRAM), command(**GANG))] == [
        (2, 2, 2), (1, 2, 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cores", "memory", "fewest", "part"),
    [(4, 0, 2, (2, 0)), (4, 1000, 3, (2, 334)), (1, 10, 4, (1, 3)), (0, 0, 1, (0, 0))],
)
def test_one_holds_what_each_has_that_shares_the_reservation(
    cores: int, memory: int, fewest: int, part: tuple[int, int]
) -> None:
    found = part_of_one(Request(cores, memory, 9, 9), command(replicas=9, min_replicas=fewest, max_failed_workers=1))
    assert (found.cores, found.memory) == part


@pytest.mark.parametrize(("parameters", "worker", "cores", "memory"), [
    (None, fixed(0), 4, 100),
    (PROGRAM, fixed(1), 2, 50),
    (GANG, fixed(1), 2, 50),
    (PROGRAM, elastic(2, cores=3, memory=7), 3, 7),
    (PROGRAM, fixed(COLLECTOR), 4, 100),
])  # fmt: skip
def test_a_worker_needs_its_own_part(
    parameters: dict[str, Any] | None, worker: Worker, cores: int, memory: int
) -> None:
    found = need_of(Request(4, 100, 8, 200), command(**parameters) if parameters else None, worker, 60)
    assert found == Need(cores, memory, time_limit_seconds=60)


LENT, DONE, ERROR, STOPPED = Reason.CORES_LENT, Reason.DONE, Reason.WORKER_ERROR, Reason.STOPPED
UNPLACED = Reason.NOT_PLACED


@pytest.mark.parametrize(
    ("parameters", "workers", "slots"),
    [
        (PROGRAM, [fixed(0), fixed(1)], (2, 3)),
        (PROGRAM, [fixed(0), fixed(1), elastic(2)], (3,)),
        (PROGRAM, [fixed(0), fixed(1), elastic(2, LENT), elastic(3)], (2,)),
        (PROGRAM, [fixed(0), fixed(1), elastic(2, LENT), elastic(2, attempt=1), elastic(3)], ()),
        (PROGRAM, [fixed(0), fixed(1), elastic(2, DONE), elastic(3, ERROR)], (3,)),
        (SERVICE, [fixed(0), fixed(1), elastic(2, DONE), elastic(3)], (2,)),
        (GANG, [fixed(0), elastic(2, LENT), elastic(3, ERROR)], (1, 2)),
        (GANG, [fixed(0), elastic(2, UNPLACED), elastic(3, ERROR)], (1, 2)),
        (PROGRAM, [fixed(0, DONE), fixed(1)], (2, 3)),
        (PROGRAM, [fixed(0, DONE), fixed(1, DONE)], ()),
        ({"replicas": 2, "max_failed_workers": 1}, [fixed(0), fixed(1)], ()),
    ],
)
def test_where_a_process_may_begin(parameters: dict[str, Any], workers: list[Worker], slots: tuple[int, ...]) -> None:
    assert vacant(command(**parameters), workers) == slots


@pytest.mark.parametrize(("parameters", "workers", "step"), [
    (PROGRAM, [fixed(0), fixed(1), elastic(2, UNPLACED), elastic(3, UNPLACED)], None),
    (SERVICE, [fixed(0), fixed(1), elastic(2, UNPLACED)], None),
    (PROGRAM, [fixed(0, ERROR), fixed(1), elastic(2, UNPLACED)], Replace),
    (PROGRAM, [fixed(0), fixed(1, UNPLACED)], ShareFailed),
    (PROGRAM, [fixed(0), replace(fixed(1, UNPLACED), attempt=1)], Replace),
])  # fmt: skip
def test_one_that_its_cluster_gave_no_place_has_not_failed(
    parameters: dict[str, Any], workers: list[Worker], step: type | None
) -> None:
    """Without an elastic one the share goes on. Without one that it needs to begin, its job goes back to the queue."""
    found = next_step(command(**parameters), workers)
    assert (type(found) if found is not None else None) is step
    assert failed_of(workers) == sum(one.reason is ERROR for one in workers)


def engine(cores: int, memory: int = 0) -> EngineState:
    return EngineState("E", 8, 1000, cores, memory)


def test_what_is_lacking() -> None:
    assert shortfall(Claim(4, 0), engine(1, -5)) == Claim(3, 0)
    assert shortfall(Claim(0, 10), engine(-2, 4)) == Claim(0, 6)
    assert shortfall(Claim(1, 1), engine(4, 4)) == Claim(0, 0)
    assert [overdrawn(one) for one in (engine(3), engine(-2, -7))] == [Claim(0, 0), Claim(2, 7)]


A, B, C = (elastic(slot, since=since) for slot, since in ((1, 5), (3, 5), (2, 9)))
GOING = elastic(4, since=1, is_stopping=True)


@pytest.mark.parametrize(
    ("blocked_by", "workers", "going", "is_enough"),
    [
        (Claim(1), [A, B, C], [C], True),
        (Claim(2), [A, B, C], [C, B], True),
        (Claim(3), [A, B, C], [C, B, A], True),
        (Claim(4), [A, B, C], [C, B, A], False),
        (Claim(1), [A, GOING], [], True),
        (Claim(2), [A, GOING], [A], True),
        (Claim(1), [], [], False),
        (Claim(0, 5), [A, elastic(2, cores=1, memory=4), elastic(3, cores=1, memory=4)], [3, 2], True),
        (Claim(1, 4), [elastic(2, cores=0, memory=4), elastic(3, cores=2)], [3, 2], True),
    ],
)
def test_who_came_last_goes_first_and_no_more_than_are_needed(
    blocked_by: Claim, workers: list[Worker], going: list[Any], is_enough: bool
) -> None:
    found, enough = to_lend(blocked_by, workers)
    assert [one.slot for one in found] == [one if isinstance(one, int) else one.slot for one in going]
    assert enough is is_enough


def test_how_many_run_and_how_many_are_lent() -> None:
    many = command(**PROGRAM | {"replicas": 8})
    lent = elastic(3, Reason.CORES_LENT)
    workers = [
        fixed(0), fixed(1), elastic(2), lent, elastic(4, Reason.CORES_LENT), elastic(4, attempt=1),
        replace(elastic(5), reason=Reason.CORES_LENT, is_stopping=True), elastic(6, Reason.DONE),
    ]  # fmt: skip
    assert count_elastic(many, workers) == ElasticCount(6, 2, 2)
    assert count_elastic(many, workers[:2]) == ElasticCount(6, 0, 0)
