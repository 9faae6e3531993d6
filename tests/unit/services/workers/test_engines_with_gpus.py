"""A party with an engine for GPUs beside its default one: where jobs reserve, and which devices their workers get."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.components.providers.command import COMMAND_PROVIDER
from fate_flow.core.model.job import Answer, Claim, CommandKind, JobKey
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.core.quotas.queues import Placement, QueueRule
from fate_flow.services.workers.elastic import tend_elastic
from fate_flow.services.workers.launching import new_worker
from fate_flow.services.workers.needs import with_devices
from fate_flow.services.workers.watch import WorkerWatch
from fate_flow.store.values import Document
from tests.kit.job_documents import job
from tests.kit.modules import Module
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import START_A, command, create
from tests.kit.services.replicas import ProgramPolicy
from tests.kit.services.sights import FAILED, RUNS, SUCCEEDED
from tests.kit.values import HOST, JOB_ID, a_job

PARTIES = {"guest": ["9999"], "host": ["10000"]}
TASKS: dict[str, list[str]] = {"a": [], "b": ["a"]}
LONG = QueueRule(Placement("big", "partition of ours"))


def of_job(**said: Any) -> Document:
    return job(PARTIES, TASKS, **{"cores": 2, **said})


def a_party(document: Document, *, is_run: bool = True, **server: Any) -> HandServer:
    """A host with the engines `local`, the default, and `big` with GPUs, after the commands of a job."""
    settings: dict[str, Any] = {"engines": {"local": 8, "big": 4}, "devices": {"big": ("0", "GPU-7")}, **server}
    host = HandServer("10000", **settings)
    if is_run:
        for one in (create(document=document), *_REST):
            answer = host.handle(one)
            assert answer.is_ok, (one, answer)
    return host


_REST = (
    command(CommandKind.STATUS, argument="waiting"), command(CommandKind.CHECK, turn=1),
    command(CommandKind.APPLY, turn=1), command(CommandKind.START),
)  # fmt: skip


def books(host: HandServer, name: str) -> tuple[int, int]:
    with host.store.reading() as tx:
        state = tx.engine(name)
    assert state is not None
    return state.remaining_cores, state.remaining_gpus


def asked_to_join(document: Document, **server: Any) -> Answer:
    return a_party(document, is_run=False, **server).handle(create(document=document))


# ---------------------------------------------------------------------- where a job reserves


@pytest.mark.parametrize(("said", "queues", "engine"), [
    ({}, {}, "local"),
    ({"gpus": 1}, {}, "big"),
    ({"queue": "long"}, {"long": LONG}, "big"),
    ({}, {"long": QueueRule(Placement("big"), default_for=frozenset({"9999"}))}, "big"),
    ({}, {"long": QueueRule(Placement("big"), default_for=frozenset({"10001"}))}, "local"),
    ({"queue": "long"}, {"long": QueueRule(Placement("big"), parties=frozenset({"9999"}))}, "big"),
])  # fmt: skip
def test_the_party_maps_the_queue_of_a_job_to_its_engine(
    said: dict[str, Any], queues: dict[str, QueueRule], engine: str
) -> None:
    host = a_party(of_job(**said), queues=queues)
    assert host.job().claim.engine == engine
    assert host.handle(START_A).is_ok
    [order] = host.engines[engine].launched
    assert order.worker.engine == engine


def test_a_job_for_gpus_reaches_no_engine_whose_queues_are_for_others() -> None:
    queues = {"long": QueueRule(Placement("big"), parties=frozenset({"10001"}))}
    assert not asked_to_join(of_job(gpus=1), queues=queues).is_ok
    assert asked_to_join(of_job(gpus=1), queues={**queues, "all": QueueRule(Placement("big"))}).is_ok


@pytest.mark.parametrize(("parties", "said", "engine"), [
    ({"local": {"10001"}}, {}, "big"),                  # the default one is for others
    ({"local": {"9999"}}, {}, "local"),
    ({"big": {"9999"}}, {"gpus": 1}, "big"),
    ({"big": {"10001"}}, {}, "local"),
])  # fmt: skip
def test_an_engine_may_be_for_some_parties(parties: dict[str, set[str]], said: dict[str, Any], engine: str) -> None:
    host = a_party(of_job(**said), engine_parties={name: frozenset(ids) for name, ids in parties.items()})
    assert host.job().claim.engine == engine


@pytest.mark.parametrize(("parties", "said", "why"), [
    ({"local": {"10001"}, "big": {"10001"}}, {}, "host 10000 has no engine for jobs of party 9999"),
    ({"big": {"10001"}}, {"gpus": 1}, "the job asks for 1 GPU, more than host 10000 has"),
    ({"big": {"10001"}}, {"queue": "long"}, "common.queue: host 10000 has no queue 'long' for jobs of party 9999"),
])  # fmt: skip
def test_a_job_is_refused_where_the_engine_that_it_needs_is_for_others(
    parties: dict[str, set[str]], said: dict[str, Any], why: str
) -> None:
    limited = {name: frozenset(ids) for name, ids in parties.items()}
    answer = asked_to_join(of_job(**said), queues={"long": LONG}, engine_parties=limited)
    assert why in answer.retmsg
    ours = a_party(of_job(**said), is_run=False, queues={"long": LONG}, engine_parties=limited)
    document = job({"guest": ["10000"]}, TASKS, cores=2, **said)
    own = create(Party("guest", "10000"), document)
    assert ours.handle(own, "10000").is_ok, "the party's own jobs may use all of its engines"


def test_a_task_does_not_start_on_an_engine_that_was_taken_from_its_job() -> None:
    host = a_party(of_job())
    closed = {"local": frozenset({"10001"}), "big": frozenset({"10001"})}
    object.__setattr__(host.context.queues, "engine_parties", closed)
    host.handle(START_A)
    assert host.task().message.endswith("host 10000 has no engine for jobs of party 9999")


def test_the_engine_learns_its_own_word_for_the_queue_and_the_row_of_the_job_does_not() -> None:
    host = a_party(of_job(queue="long", gpus=1), queues={"long": LONG})
    host.handle(START_A)
    [order] = host.engines["big"].launched
    assert (order.need.queue, order.need.cores, order.need.gpus) == ("partition of ours", 2, 1)
    assert host.job().asked == Claim(2, 0, engine="big", gpus=1)


def test_the_engine_learns_how_long_the_job_lets_a_worker_wait_for_a_place() -> None:
    host = a_party(of_job(longest_pending=90.5))
    host.handle(START_A)
    [order] = host.engines["local"].launched
    assert order.need.longest_pending_seconds == 90.5


@pytest.mark.parametrize("queues", [
    {}, {"short": LONG}, {"long": QueueRule(Placement("big"), parties=frozenset({"10001"}))},
])  # fmt: skip
def test_a_partner_does_not_learn_whether_a_queue_is_unknown_or_not_for_it(queues: dict[str, QueueRule]) -> None:
    answer = asked_to_join(of_job(queue="long"), queues=queues)
    assert not answer.is_ok
    assert answer.retmsg.endswith("common.queue: host 10000 has no queue 'long' for jobs of party 9999"), answer.retmsg


def test_a_task_does_not_start_in_a_queue_that_was_taken_from_its_job() -> None:
    host = a_party(of_job(queue="long"), queues={"long": LONG})
    object.__setattr__(host.context.queues, "by_word", {})
    host.handle(START_A)
    assert host.task().message.endswith("host 10000 has no queue 'long' for jobs of party 9999")
    assert host.engines["big"].launched == []


@pytest.mark.parametrize(("said", "why"), [
    ({"gpus": 3}, "the job asks for 3 GPUs, more than host 10000 has"),
    ({"gpus": 1, "parallelism": 3, "cores": 1}, "the job asks for 3 GPUs, more than host 10000 has"),
])  # fmt: skip
def test_more_gpus_than_there_are_is_refused_at_once(said: dict[str, Any], why: str) -> None:
    assert why in asked_to_join(of_job(**said)).retmsg


def test_gpus_are_reserved_and_come_back_to_their_engine_once() -> None:
    host = a_party(of_job(gpus=2), is_run=False)
    for one in (create(document=of_job(gpus=2)), *_REST[:3]):
        assert host.handle(one).is_ok
    assert (books(host, "local"), books(host, "big")) == ((8, 0), (2, 0))
    for _ in range(2):
        assert host.handle(command(CommandKind.RETURN, turn=1)).is_ok
    assert (books(host, "local"), books(host, "big")) == ((8, 0), (4, 2))


def test_a_lack_of_gpus_is_said_to_the_initiator_and_another_engine_does_not_help() -> None:
    host = a_party(of_job(gpus=1), is_run=False, engines={"big": 4, "other": 8}, devices={
        "big": ("0", "1"), "other": ("2", "3"),
    })  # fmt: skip
    host.steady = 1_000
    for one in (create(document=of_job(gpus=1)), *_REST[:2]):
        assert host.handle(one).is_ok
    holder = JobKey("202601010000000000077", HOST)
    with host.store.transaction() as tx:
        tx.add_job(replace(a_job(JobStatus.WAITING, HOST), key=holder), of_job())
        assert tx.reserve(holder, "big", 1, 0, "t", 1, 1, 2)
    answer = host.handle(_REST[2])
    assert answer.data["why"] == "has 0 of 2 GPUs free, 1 asked"
    assert (books(host, "big"), books(host, "other"), host.job().pending.since > 0) == ((3, 0), (8, 2), True)
    with host.store.transaction() as tx:
        assert tx.give_back(holder, None, 1)
    assert host.handle(_REST[2]).is_ok
    assert (books(host, "big"), books(host, "other")) == ((2, 1), (8, 2))


# ---------------------------------------------------------------------- devices


def test_two_workers_never_have_the_same_device_and_a_device_is_free_once_its_worker_has_exited() -> None:
    host = a_party(of_job(gpus=1, parallelism=2))
    host.handle(START_A)
    big = host.engines["big"]
    [first] = big.launched
    assert first.worker.devices == ("0",)
    assert _next_devices(host) == ("GPU-7",)
    big.sights[first.worker.worker_id] = RUNS
    host.watch()
    assert _next_devices(host) == ("GPU-7",)
    big.sights[first.worker.worker_id] = SUCCEEDED
    host.watch()
    assert _next_devices(host) == ("0",)


def _next_devices(host: HandServer) -> tuple[str, ...]:
    with host.unit() as unit:
        spec = unit.spec(JOB_ID)
        assert spec is not None
        return with_devices(unit, spec, new_worker(unit, host.task("b").key, "big", 0, 0, 0)).devices


def test_a_device_that_was_taken_out_of_the_configuration_is_given_to_nobody() -> None:
    host = a_party(of_job(gpus=1))
    host.devices["big"] = ()
    host.configure("local", "big")
    assert _next_devices(host) == ()
    host.devices["big"] = ("5",)
    host.configure("local", "big")
    assert _next_devices(host) == ("5",)


def test_without_a_free_device_the_launch_fails_and_says_why() -> None:
    host = a_party(of_job(gpus=2))
    host.devices["big"] = ("0",)
    host.configure("local", "big")
    host.handle(START_A)
    assert host.task().message == "engine big has 1 of 2 GPUs free for this worker: others still use what it had"
    assert host.engines["big"].launched == []


def test_a_job_without_gpus_on_an_engine_with_some_gets_none() -> None:
    host = a_party(of_job(queue="long"), queues={"long": LONG})
    host.handle(START_A)
    assert host.engines["big"].launched[0].worker.devices == ()


# ---------------------------------------------------------------------- programs


def a_program(**said: Any) -> Document:
    return job(PARTIES, {"a": []}, cores=2, commands={"a": said}, gpus=2)


def a_party_with_programs(document: Document) -> HandServer:
    host = a_party(document, is_run=False)
    object.__setattr__(host.context, "modules", {"Command": Module(COMMAND_PROVIDER), "Work": Module()})
    object.__setattr__(host.context, "program_policy", ProgramPolicy())
    return host


def test_the_workers_of_a_program_share_the_gpus_of_its_task() -> None:
    document = a_program(replicas=2)
    host = a_party_with_programs(document)
    for one in (create(document=document), *_REST, START_A):
        assert host.handle(one).is_ok
    assert [one.worker.devices for one in host.engines["big"].launched] == [("0",), ("GPU-7",)]


def test_gpus_that_cannot_be_shared_evenly_are_refused() -> None:
    document = a_program(replicas=4, min_replicas=3, max_failed_workers=1)
    answer = a_party_with_programs(document).handle(create(document=document))
    assert "2 GPUs cannot be shared evenly by the 3 workers of a at host 10000; write a multiple of 3" in answer.retmsg


def test_an_elastic_worker_holds_gpus_of_its_own_until_it_has_exited() -> None:
    document = job(
        PARTIES, {"a": []}, cores=1, commands={"a": {"replicas": 2, "min_replicas": 1, "max_failed_workers": 1}}, gpus=1
    )
    host = a_party_with_programs(document)
    for one in (create(document=document), *_REST, START_A):
        assert host.handle(one).is_ok
    with host.unit() as unit:
        tend_elastic(unit)
    assert books(host, "big") == (2, 0)
    assert [one.worker.devices for one in host.engines["big"].launched] == [("0",), ("GPU-7",)]
    with host.store.reading() as tx:
        [elastic] = tx.elastic_workers()
    assert (elastic.gpus, elastic.devices) == (1, ("GPU-7",))
    host.engines["big"].sights[elastic.worker_id] = FAILED
    with host.unit() as unit:
        WorkerWatch().observe(unit, elastic.worker_id)
    assert books(host, "big") == (3, 1)
