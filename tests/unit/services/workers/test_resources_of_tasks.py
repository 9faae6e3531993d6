"""Tasks that state resources of their own: what their job reserves, and what each worker gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.components.providers.command import COMMAND_PROVIDER
from fate_flow.core.model.job import Answer, Claim, CommandKind
from fate_flow.core.quotas.queues import Placement, QueueRule
from fate_flow.services.context.ports import Observation
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
CPU, GPU = QueueRule(Placement("slurm", "cpu_partition")), QueueRule(Placement("slurm", "gpu_partition"))
OTHER = "20260101000009"


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


@pytest.mark.parametrize("queues", [{"gpus": QueueRule(Placement("slurm"), parties=frozenset({"10001"}))}, {}])
def test_a_queue_of_a_task_that_the_party_has_for_others_or_not_at_all_is_refused(queues: dict[str, QueueRule]) -> None:
    answer = asked_to_join(of_job({"b": {"queue": "gpus"}}), engines=SLURM, queues=queues)
    place = "job_runtime_conf.job_parameters.common.task_conf.b.queue"
    assert answer.retmsg == f"{place}: host 10000 has no queue 'gpus' for jobs of party 9999"


def started(host: HandServer) -> HandServer:
    for one in (START_A, task_command(CommandKind.TASK_START, "b")):
        assert host.handle(one).is_ok
    return host


def on(host: HandServer, engine: str) -> list[tuple[str, int, str]]:
    """The tasks that have started there, with the cores and the queue of their workers."""
    return [(one.worker.task.name, one.need.cores, one.need.queue) for one in host.engines[engine].launched]


@pytest.mark.parametrize("said", [
    {"queue": "gpus"},                                 # the queue is one of slurm
    {"queue": "gpus", "labels": ["big"]},
    {"labels": ["big"], "cores": 3},                   # only slurm has such nodes, and task a asks for others
])  # fmt: skip
def test_a_task_runs_on_the_engine_that_has_what_it_asks_for_and_its_job_reserves_on_both(said: dict[str, Any]) -> None:
    document = of_job({"a": {"labels": ["here"]}, "b": {"cores": 3, **said}})
    labels = {"local": frozenset({"here"}), "slurm": frozenset({"big"})}
    host = a_party(document, engines={"local": 8, "slurm": 8}, queues={"gpus": GPU}, labels=labels)
    assert host.job().claim.by_engine() == {"local": Claim(2, 0), "slurm": Claim(3, 0)}
    assert (host.free_cores(), host.free_cores("slurm")) == (6, 5)
    started(host)
    assert on(host, "local") == [("a", 2, "")]
    assert on(host, "slurm") == [("b", 3, "gpu_partition" if "queue" in said else "")]
    for worker in (one.worker for name in ("local", "slurm") for one in host.engines[name].launched):
        host.engines[worker.engine].sights[worker.worker_id] = Observation("exited", exit_code=0)
        host.watch(worker.task.name)
    assert host.handle(command(CommandKind.STATUS, argument="canceled")).is_ok
    assert (host.free_cores(), host.free_cores("slurm")) == (8, 8)


def test_a_task_without_a_queue_leaves_that_of_its_job_for_an_engine_with_gpus() -> None:
    document = of_job({"b": {"queue": "", "gpus": 1}}, queue="long")
    server = {"engines": {"local": 8, "slurm": 8, "rich": 8}, "devices": {"rich": ("0",)}, "queues": {"long": CPU}}
    host = started(a_party(document, **server))
    assert [on(host, name) for name in ("slurm", "rich")] == [[("a", 2, "cpu_partition")], [("b", 2, "")]]
    assert host.job().claim.by_engine() == {"slurm": Claim(2, 0), "rich": Claim(2, 0, gpus=1)}


def test_all_engines_of_a_job_reserve_or_none_does() -> None:
    host = HandServer("10000", engines={"local": 8, "slurm": 2}, queues={"gpus": GPU})
    first, second = of_job({"b": {"queue": "gpus"}}), of_job({"b": {"queue": "gpus"}})
    for one in (create(document=first), command(CommandKind.STATUS, argument="waiting")):
        assert host.handle(one).is_ok
    assert host.handle(command(CommandKind.APPLY, turn=1)).is_ok
    assert (host.free_cores(), host.free_cores("slurm")) == (6, 0)
    for one in (create(document=second), command(CommandKind.STATUS, argument="waiting")):
        assert host.handle(replace(one, job_id=OTHER)).is_ok
    answer = host.handle(replace(command(CommandKind.APPLY, turn=1), job_id=OTHER))
    assert answer.data["why"] == "has 0 of 2 cores free, 2 asked"
    assert (host.free_cores(), host.free_cores("slurm")) == (6, 0), "nothing stays on the engine that had enough"


def test_more_than_one_of_the_engines_has_is_refused() -> None:
    document = of_job({"b": {"queue": "gpus", "cores": 9}})
    answer = asked_to_join(document, engines={"local": 99, "slurm": 8}, queues={"gpus": GPU})
    assert "the job asks for 9 cores, more than a job may have at host 10000" in answer.retmsg


def test_a_task_does_not_start_where_its_job_has_reserved_nothing() -> None:
    host = a_party(of_job({"a": {"queue": "gpus"}}), engines={"local": 8, "slurm": 8, "rich": 8}, queues={"gpus": GPU})
    object.__setattr__(host.context.queues, "by_word", {"gpus": QueueRule(Placement("rich"))})
    host.handle(START_A)
    assert host.task().message == (
        "the job has reserved nothing on engine rich, where the configuration has this task now"
    )


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
