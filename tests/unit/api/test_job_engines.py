"""On which engines of this party a job and its tasks are, as its people read it."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.api.v1.rendering.job_engines import Here, engines_here, may_be_beside
from fate_flow.core.model.job import CommandKind, EnginePart, EngineState, JobKey, TaskKey
from fate_flow.core.model.status import JobStatus
from fate_flow.core.quotas.queues import Placement, QueueRule
from fate_flow.services.context.documents import spec_in_row
from fate_flow.store.views.snapshots import JobSnapshot
from tests.kit.api.client_world import GUEST, START, World
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import START_A, command, create
from tests.kit.values import HOST

GPU = {"gpus": QueueRule(Placement("slurm", "gpu_partition"))}


def a_host(conf: dict[str, Any], until: CommandKind | None = None) -> HandServer:
    """A party with two engines that has a job of another one, up to this command."""
    host = HandServer("10000", engines={"local": 8, "slurm": 8}, queues=GPU)
    document = job({"guest": ["9999"], "host": ["10000"]}, {"a": [], "b": []}, cores=2, task_conf=conf)
    for one in (
        create(document=document), command(CommandKind.STATUS, argument="waiting"),
        command(CommandKind.CHECK, turn=1), command(CommandKind.APPLY, turn=1), command(CommandKind.START), START_A,
    ):  # fmt: skip
        assert host.handle(one).is_ok
        if one.kind is until:
            break
    return host


def seen(host: HandServer) -> tuple[JobSnapshot, Here]:
    own = host.job()
    with host.store.transaction() as tx:
        tasks, workers = tx.tasks(own.job_id), tx.workers_of(own.job_id)
        document = tx.document(own.job_id)
    assert document is not None
    snapshot = JobSnapshot((own,), (), tuple(tasks), 0, 0, workers=tuple(workers))
    return snapshot, engines_here(host.context, snapshot, spec_in_row(host.context, document))


def of_tasks(here: Here) -> dict[str, str]:
    return {key.name: engine for key, engine in here.shares.items()}


def asked(engine: str, cores: int, *, is_held: bool) -> dict[str, Any]:
    return {"engine": engine, "cores": cores, "memory": 0, "gpus": 0, "is_held": is_held}


@pytest.mark.parametrize(("until", "is_held"), [(CommandKind.STATUS, False), (None, True)])
def test_a_task_on_another_engine_than_its_job_is_said_to_be_there(until: CommandKind | None, is_held: bool) -> None:
    host = a_host({"b": {"cores": 3, "queue": "gpus"}}, until)
    snapshot, here = seen(host)
    assert may_be_beside(snapshot)
    assert here.seats == {HOST: [asked("local", 2, is_held=is_held), asked("slurm", 3, is_held=is_held)]}
    assert of_tasks(here) == {"a": "local", "b": "slurm"}


def test_a_job_on_one_engine_has_all_its_tasks_there() -> None:
    snapshot, here = seen(a_host({}))
    assert not may_be_beside(snapshot)
    assert here.seats == {HOST: [asked("local", 2, is_held=True)]}
    assert of_tasks(here) == {"a": "local", "b": "local"}


def test_an_engine_that_has_run_a_task_counts_whatever_the_configuration_says_now() -> None:
    host = a_host({"a": {"queue": "gpus"}})
    snapshot, _ = seen(host)
    here = engines_here(host.context, snapshot, None)
    assert here.shares[TaskKey(host.job().job_id, "a", 0, HOST)] == "slurm"


def test_explain_names_engines_of_this_party_alone(world: World) -> None:
    job_id = world.add_job(status=JobStatus.RUNNING)
    world.add_seats(job_id)
    for party in (GUEST, HOST):
        world.add_task(job_id, party=party)
    said = world.ask("job/explain", {"job_id": job_id})["data"]
    assert [seat["engines"] for seat in said["parties"]] == [[asked("local", 4, is_held=False)], []]
    assert [share["engine"] for share in said["tasks"][0]["parties"]] == ["local", None]


def test_what_a_job_holds_is_said_for_each_engine(world: World) -> None:
    job_id = world.add_job()
    with world.store.transaction() as tx:
        tx.register_engine(EngineState("slurm", 8, 900, 8, 900, gpus=2, remaining_gpus=2), {}, START)
        parts = (EnginePart("slurm", 3, 200, 1),)
        assert tx.reserve(JobKey(job_id, GUEST), "local", 7, 200, "token", 0, 1, gpus=1, elsewhere=parts)
    seat = {"job_id": job_id, "role": "guest", "party_id": "9999"}
    assert world.ask("resource/query", {})["data"]["use_resource_job"] == [
        {**seat, "core": 4, "memory": 0, "gpus": 0, "engine": "STANDALONE"},
        {**seat, "core": 3, "memory": 200, "gpus": 1, "engine": "slurm"},
    ]
