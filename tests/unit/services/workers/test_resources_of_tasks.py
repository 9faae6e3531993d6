"""Tasks that state resources of their own: what their job reserves, and what each worker gets."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.components.providers.command import COMMAND_PROVIDER
from fate_flow.core.model.job import Answer, Claim, CommandKind
from fate_flow.core.quotas.queues import Placement, QueueRule
from fate_flow.services.workers.elastic import tend_elastic
from fate_flow.store.values import Document
from tests.kit.job_documents import job
from tests.kit.modules import Module
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import START_A, command, create, task_command
from tests.kit.services.replicas import ProgramPolicy
from tests.kit.values import HOST

PARTIES = {"guest": ["9999"], "host": ["10000"]}
SLURM = {"slurm": 8, "local": 8}
CPU, GPU, HERE = (
    QueueRule(Placement("slurm", "cpu_partition")), QueueRule(Placement("slurm", "gpu_partition")),
    QueueRule(Placement("local")),
)  # fmt: skip


def of_job(conf: dict[str, Any], **said: Any) -> Document:
    return job(PARTIES, {"a": [], "b": []}, **{"cores": 2, "task_conf": conf, **said})


def a_party(document: Document, **server: Any) -> HandServer:
    host = HandServer("10000", **server)
    for one in (
        create(document=document), command(CommandKind.STATUS, argument="waiting"),
        command(CommandKind.CHECK, turn=1), command(CommandKind.APPLY, turn=1), command(CommandKind.START),
    ):  # fmt: skip
        answer = host.handle(one)
        assert answer.is_ok, (one, answer)
    return host


def asked_to_join(document: Document, **server: Any) -> Answer:
    return HandServer("10000", **server).handle(create(document=document))


def test_a_job_reserves_what_its_tasks_need_together_and_each_worker_gets_the_need_of_its_task() -> None:
    conf = {"a": {"cores": 5, "memory": 10}, "b": {"cores": 1, "memory": 90, "gpus": 1}}
    host = a_party(of_job(conf), memory=100, devices={"local": ("0", "1")})
    assert host.job().claim.cores == 5
    assert host.job().asked == Claim(5, 90, gpus=1)
    for one in (START_A, task_command(CommandKind.TASK_START, "b")):
        assert host.handle(one).is_ok
    first, second = host.engine.launched
    assert [(one.need.cores, one.need.memory_mb, one.need.gpus) for one in (first, second)] == [(5, 10, 0), (1, 90, 1)]
    assert (first.task_cores, second.task_cores) == (5, 1)
    assert (first.worker.devices, second.worker.devices) == ((), ("0",))


def test_a_task_that_runs_elsewhere_alone_reserves_nothing_here() -> None:
    document = of_job({"a": {"cores": 7}, "b": {"cores": 1}})
    document.runtime_conf["component_parameters"]["role"] = {"host": {"0": {"a": {"need_run": False}}}}
    assert a_party(document).job().asked.cores == 1


def test_a_task_for_gpus_takes_its_job_to_the_engine_that_has_some() -> None:
    server = {"engines": {"local": 8, "big": 8}, "devices": {"big": ("0",)}}
    assert a_party(of_job({"b": {"gpus": 1}}), **server).job().asked == Claim(2, 0, engine="big", gpus=1)


def test_more_than_there_is_is_refused_and_names_the_tasks() -> None:
    answer = asked_to_join(of_job({"b": {"cores": 9}}))
    place = "job_runtime_conf.job_parameters.common"
    assert answer.retmsg == (
        f"the job asks for 9 cores, more than a job may have at host 10000 ({place}.task_cores, "
        f"{place}.task_conf.b.cores, {place}.task_parallelism)"
    )


def test_a_task_may_go_to_another_queue_of_the_engine_of_its_job() -> None:
    queues = {"long": CPU, "gpus": GPU}
    host = a_party(of_job({"b": {"queue": "gpus"}}, queue="long"), engines=SLURM, queues=queues)
    for one in (START_A, task_command(CommandKind.TASK_START, "b")):
        assert host.handle(one).is_ok
    assert [one.need.queue for one in host.engines["slurm"].launched] == ["cpu_partition", "gpu_partition"]


@pytest.mark.parametrize(("queues", "why"), [
    ({"gpus": HERE}, "queue 'gpus' of host 10000 is on another engine than that on which the job reserves there: all "
     "tasks of a job run on one engine of a party"),
    ({"gpus": QueueRule(Placement("slurm"), parties=frozenset({"10001"}))},
     "host 10000 has no queue 'gpus' for jobs of party 9999"),
    ({}, "host 10000 has no queue 'gpus' for jobs of party 9999"),
])  # fmt: skip
def test_a_queue_of_a_task_on_another_engine_or_of_others_is_refused(queues: dict[str, QueueRule], why: str) -> None:
    answer = asked_to_join(of_job({"b": {"queue": "gpus"}}), engines=SLURM, queues=queues)
    assert answer.retmsg == f"job_runtime_conf.job_parameters.common.task_conf.b.queue: {why}"


def test_a_task_does_not_start_in_a_queue_that_was_taken_from_it() -> None:
    host = a_party(of_job({"a": {"queue": "gpus"}}), engines=SLURM, queues={"gpus": GPU})
    object.__setattr__(host.context.queues, "by_word", {})
    host.handle(START_A)
    assert host.task().message.endswith("host 10000 has no queue 'gpus' for jobs of party 9999")


def with_programs(host: HandServer) -> HandServer:
    object.__setattr__(host.context, "modules", {"Command": Module(COMMAND_PROVIDER), "Work": Module()})
    object.__setattr__(host.context, "program_policy", ProgramPolicy())
    return host


def test_elastic_workers_hold_their_part_of_the_need_of_their_task() -> None:
    program = {"replicas": 3, "min_replicas": 2, "max_failed_workers": 1}
    document = job(
        PARTIES, {"a": []}, cores=1, commands={"a": program}, task_conf={"a": {"cores": 4, "memory": 20, "gpus": 2}}
    )
    host = with_programs(HandServer("10000", memory=100, devices={"local": ("0", "1", "2", "3")}))
    for one in (
        create(document=document), command(CommandKind.STATUS, argument="waiting"),
        command(CommandKind.CHECK, turn=1), command(CommandKind.APPLY, turn=1), command(CommandKind.START), START_A,
    ):  # fmt: skip
        assert host.handle(one).is_ok
    with host.unit() as unit:
        tend_elastic(unit)
    needs = [(one.need.cores, one.need.memory_mb, one.need.gpus) for one in host.engine.launched]
    assert needs == [(2, 10, 1)] * 3
    assert host.job(HOST).claim.cores == 4
    assert host.free_cores() == 2


def test_gpus_of_a_task_that_its_workers_cannot_share_are_refused() -> None:
    document = job(
        PARTIES, {"a": []}, commands={"a": {"replicas": 2}}, task_conf={"a": {"gpus": 3}}
    )
    host = with_programs(HandServer("10000", devices={"local": ("0", "1", "2", "3")}))
    answer = host.handle(create(document=document))
    assert "common.task_conf.a.gpus: 3 GPUs cannot be shared evenly by the 2 workers of a at host" in answer.retmsg
