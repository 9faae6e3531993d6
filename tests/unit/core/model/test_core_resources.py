"""How many cores a job asks of a party."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.model.resources import NOTHING, EngineSize, Request, request_of
from fate_flow.core.model.spec import JobParameters, Party

GUEST = Party("guest", "1")
PER_NODE = "eggroll.session.processors.per.node"


@pytest.mark.parametrize(("task_cores", "parallelism", "nodes", "task", "job"), [
    (4, 1, 1, 4, 4),
    (4, 3, 1, 4, 12),
    (4, 1, 2, 4, 4),
    (5, 1, 2, 4, 4),
    (1, 1, 3, 3, 3),
    (7, 2, 3, 6, 12),
    (4, 1, 0, 4, 4),
])
def test_cores_are_those_of_the_nodes(task_cores, parallelism, nodes, task, job):
    asked = request_of(GUEST, JobParameters(task_cores=task_cores, task_parallelism=parallelism), nodes)
    assert (asked.task_cores, asked.cores) == (task, job)


@pytest.mark.parametrize(("extra", "cores"), [
    ({}, 4), ({"eggroll_run": {}}, 4), ({"eggroll_run": {PER_NODE: 0}}, 4), ({"eggroll_run": {PER_NODE: None}}, 4),
    ({"eggroll_run": {PER_NODE: 3}}, 6), ({"eggroll_run": {PER_NODE: "3"}}, 6), ({"eggroll_run": 3}, 4),
])
def test_cores_per_node_count_more_than_cores_per_task(extra, cores):
    assert request_of(GUEST, JobParameters(extra=extra), nodes=2).task_cores == cores


def test_memory_goes_by_task():
    assert request_of(GUEST, JobParameters(task_memory=10, task_parallelism=3), 1) == Request(4, 10, 12, 30)


@pytest.mark.parametrize(("own", "at_once", "cores"), [
    ([], 2, 8), ([4, 4, 4], 2, 8), ([4], 3, 12),            # as in FATE
    ([1, 6, 2], 1, 6), ([1, 6, 2], 2, 8), ([1, 6, 2], 5, 9), ([1], 3, 1),
])
def test_a_job_reserves_the_largest_needs_of_the_tasks_that_run_at_once(own, at_once, cores):
    job = JobParameters(task_cores=4, task_parallelism=at_once)
    asked = request_of(GUEST, job, 1, [JobParameters(task_cores=one) for one in own])
    assert (asked.task_cores, asked.cores) == (4, cores)


def test_each_resource_is_reserved_by_itself():
    job = JobParameters(task_cores=1, task_memory=10, task_parallelism=2)
    tasks = [JobParameters(task_cores=1, task_memory=90), JobParameters(task_cores=1, task_memory=10, task_gpus=2)]
    asked = request_of(GUEST, job, 1, tasks)
    assert (asked.cores, asked.memory, asked.gpus) == (2, 100, 2)


def test_an_arbiter_takes_nothing():
    assert request_of(Party("arbiter", "1"), JobParameters(task_memory=10), 1) == NOTHING


@pytest.mark.parametrize(("cores", "share", "limit"), [
    (20, 1.0, 20), (20, 0.5, 10), (3, 0.5, 1), (100, 0.29, 29), (10, 0.7, 7), (0, 1.0, 0), (7, 0.0, 0),
])
def test_the_limit_of_a_job_is_whole_cores(cores, share, limit):
    assert EngineSize(1, cores, max_cores_percent_per_job=share).job_limit == limit


@given(st.integers(1, 1000), st.integers(1, 50), st.integers(1, 64))
def test_a_job_asks_for_a_whole_number_of_tasks_and_of_nodes(task_cores, parallelism, nodes):
    asked = request_of(GUEST, JobParameters(task_cores=task_cores, task_parallelism=parallelism), nodes)
    assert asked.task_cores % nodes == 0
    assert asked.task_cores >= nodes
    assert asked.cores == asked.task_cores * parallelism
    assert asked.task_cores <= max(task_cores, nodes)
