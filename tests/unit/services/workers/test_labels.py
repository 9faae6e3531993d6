"""Labels of jobs and tasks: words for nodes, which each party maps on its engines."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.job import Answer, CommandKind
from fate_flow.core.model.spec import Party
from fate_flow.core.quotas.queues import Placement, QueueRule
from fate_flow.store.values import Document
from tests.kit.job_documents import job
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import START_A, command, create, task_command

PLACE = "job_runtime_conf.job_parameters.common"
SERVER: dict[str, Any] = {
    "engines": {"local": 8, "slurm": 8, "rich": 8}, "devices": {"rich": ("0",)},
    "labels": {"slurm": frozenset({"big"}), "rich": frozenset({"big", "ssd"})},
}  # fmt: skip


def of_job(**said: Any) -> Document:
    return job({"guest": ["9999"], "host": ["10000"]}, {"a": [], "b": []}, cores=1, **said)


def asked_to_join(document: Document, **server: Any) -> Answer:
    return HandServer("10000", **{**SERVER, **server}).handle(create(document=document))


@pytest.mark.parametrize(("said", "engine"), [
    ({}, "local"), ({"labels": ["big"]}, "slurm"), ({"labels": ["ssd", "big"]}, "rich"),
    ({"labels": ["big"], "gpus": 1}, "rich"),
    ({"labels": ["big"], "task_conf": {"b": {"labels": ["ssd"]}}}, "rich"),
    ({"labels": ["big"], "task_conf": {"a": {"labels": []}, "b": {"labels": []}}}, "local"),
])  # fmt: skip
def test_a_job_goes_to_the_first_engine_that_knows_all_its_labels(said: dict[str, Any], engine: str) -> None:
    host = HandServer("10000", **SERVER)
    assert host.handle(create(document=of_job(**said))).is_ok
    assert (host.job().asked.engine or "local") == engine


def test_each_worker_asks_for_the_labels_of_its_task() -> None:
    host = HandServer("10000", **SERVER)
    document = of_job(labels=["big"], task_conf={"b": {"labels": ["ssd"]}})
    for one in (
        create(document=document), command(CommandKind.STATUS, argument="waiting"),
        command(CommandKind.CHECK, turn=1), command(CommandKind.APPLY, turn=1), command(CommandKind.START), START_A,
        task_command(CommandKind.TASK_START, "b"),
    ):  # fmt: skip
        assert host.handle(one).is_ok
    assert [one.need.labels for one in host.engines["rich"].launched] == [("big",), ("ssd",)]


@pytest.mark.parametrize(("said", "key", "label"), [
    ({"labels": ["fast"]}, "labels", "fast"),
    ({"task_conf": {"b": {"labels": ["fast"]}}}, "task_conf.b.labels", "fast"),
    ({"labels": ["ssd"], "queue": "long"}, "labels", "ssd"),       # the queue decides the engine
])  # fmt: skip
def test_a_label_that_the_engine_does_not_know_is_refused(said: dict[str, Any], key: str, label: str) -> None:
    answer = asked_to_join(of_job(**said), queues={"long": QueueRule(Placement("slurm"))})
    assert answer.retmsg == f"{PLACE}.{key}: host 10000 has no node with label '{label}' for jobs of party 9999"


def test_own_users_learn_which_labels_there_are() -> None:
    server = HandServer("10000", labels={"local": frozenset({"big", "a100"})})
    document = job({"guest": ["10000"]}, {"a": []}, cores=1, labels=["fast"])
    answer = server.handle(create(Party("guest", "10000"), document), "10000")
    assert answer.retmsg == (
        f"{PLACE}.labels: guest 10000 has no node with label 'fast' on engine local; known there: a100, big "
        "(engines.local.labels)"
    )


def test_an_engine_that_is_for_others_has_no_nodes_for_the_job() -> None:
    closed = {"slurm": frozenset({"10001"}), "rich": frozenset({"10001"})}
    assert "has no node with label 'big'" in asked_to_join(of_job(labels=["big"]), engine_parties=closed).retmsg
