"""The status of many from the statuses of each."""

from __future__ import annotations

from itertools import combinations, permutations, product

import pytest

from fate_flow.core.model.status import (
    TASK_BROKEN,
    TASK_END,
    TASK_MOVES,
    TASK_UNFINISHED,
    JobStatus,
    TaskStatus,
    may_move,
)
from fate_flow.core.planning.outcome import federated_task_status, job_status_from_tasks

T = TaskStatus
J = JobStatus
WAITING, RUNNING, STOPPING, PASS, SUCCESS, FAILED, CANCELED, TIMEOUT = (
    T.WAITING, T.RUNNING, T.STOPPING, T.PASS, T.SUCCESS, T.FAILED, T.CANCELED, T.TIMEOUT)
EVERY_SET = [frozenset(chosen) for size in range(1, len(T) + 1) for chosen in combinations(T, size)]


@pytest.mark.parametrize("status", T)
def test_one_status_everywhere_is_the_federated_one(status):
    assert federated_task_status([status]) is status
    assert federated_task_status([status] * 3) is status


@pytest.mark.parametrize(("statuses", "federated"), [
    ({FAILED, TIMEOUT, CANCELED, RUNNING, STOPPING, WAITING, SUCCESS, PASS}, FAILED),
    ({FAILED, SUCCESS}, FAILED),
    ({FAILED, CANCELED}, FAILED),
    ({FAILED, WAITING}, FAILED),
    ({TIMEOUT, CANCELED, RUNNING}, TIMEOUT),
    ({TIMEOUT, STOPPING}, TIMEOUT),
    ({CANCELED, SUCCESS}, CANCELED),
    ({CANCELED, PASS}, CANCELED),
    ({CANCELED, WAITING}, CANCELED),
    ({RUNNING, WAITING}, RUNNING),
    ({RUNNING, SUCCESS}, RUNNING),
    ({RUNNING, STOPPING}, RUNNING),
    ({RUNNING, STOPPING, SUCCESS, WAITING, PASS}, RUNNING),
    ({STOPPING, SUCCESS}, STOPPING),
    ({STOPPING, PASS}, STOPPING),
    ({STOPPING, WAITING}, RUNNING),
    ({SUCCESS, WAITING}, RUNNING),
    ({PASS, WAITING}, RUNNING),
    ({PASS, RUNNING}, RUNNING),
    ({PASS, SUCCESS}, SUCCESS),
])
def test_mixed_statuses(statuses, federated):
    assert federated_task_status(statuses) is federated


def test_every_set_has_an_answer():
    assert {federated_task_status(statuses) for statuses in EVERY_SET} == set(T)


def test_the_order_of_the_parties_does_not_matter():
    for statuses in EVERY_SET:
        if len(statuses) <= 4:
            assert len({federated_task_status(one) for one in permutations(statuses)}) == 1


def test_each_step_of_a_party_makes_a_legal_step_of_the_whole():
    """Whatever three parties do next, the federated status stays, or takes a move that the table has."""
    for parties in product(T, repeat=3):
        old = federated_task_status(parties)
        for new_first in TASK_MOVES[parties[0]]:
            new = federated_task_status((new_first, *parties[1:]))
            assert old in TASK_BROKEN or new is old or may_move(old, new), (parties, new_first, old, new)


def test_the_whole_has_ended_well_only_when_every_party_has():
    for statuses in EVERY_SET:
        if federated_task_status(statuses) in (SUCCESS, PASS):
            assert statuses <= {SUCCESS, PASS}


def test_nothing_cannot_be_decided_from():
    for decide in (federated_task_status, job_status_from_tasks):
        with pytest.raises(ValueError, match="no statuses"):
            decide([])


@pytest.mark.parametrize(("tasks", "job"), [
    ({SUCCESS}, J.SUCCESS),
    ({PASS}, J.SUCCESS),
    ({PASS, SUCCESS}, J.SUCCESS),
    ({FAILED}, J.FAILED),
    ({CANCELED}, J.CANCELED),
    ({TIMEOUT}, J.TIMEOUT),
    ({FAILED, TIMEOUT, CANCELED, SUCCESS, PASS}, J.FAILED),
    ({TIMEOUT, CANCELED, SUCCESS}, J.TIMEOUT),
    ({CANCELED, SUCCESS}, J.CANCELED),
    ({WAITING}, None),
    ({RUNNING}, None),
    ({STOPPING}, None),
    ({SUCCESS, WAITING}, None),
    ({FAILED, WAITING}, None),
    ({FAILED, STOPPING}, None),
    ({CANCELED, RUNNING, SUCCESS}, None),
])
def test_how_a_job_ends(tasks, job):
    assert job_status_from_tasks(tasks) is job


def test_a_job_ends_exactly_when_all_its_tasks_have():
    for statuses in EVERY_SET:
        assert (job_status_from_tasks(statuses) is None) == bool(statuses & TASK_UNFINISHED)
        assert (job_status_from_tasks(statuses) is None) == (not statuses <= TASK_END)
