"""A table that was taken out of use is read by no job, whoever submitted it, and whenever it was taken out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.status import TaskStatus
from fate_flow.store.values import TableMeta
from tests.kit.services.hand_server import HOST, HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import DOCUMENT, RUN, create, task_command

NUMBERS = TableMeta("demo", "numbers", "standalone:///demo/numbers", 3, {})
TEXT = "table demo.numbers is missing or disabled at host 10000 (flow table info, there, says which)"
READS = replace(DOCUMENT, runtime_conf={
    **DOCUMENT.runtime_conf,
    "component_parameters": {"common": {"a": {"table": {"namespace": "demo", "name": "numbers"}}}},
})


@pytest.fixture
def host() -> HandServer:
    server = HandServer("10000")
    with server.store.transaction() as tx:
        tx.save_table(NUMBERS, 1)
    return server


def test_a_job_that_reads_it_is_refused_when_it_is_submitted(host: HandServer) -> None:
    use_cases = Harness(host).use_cases
    use_cases.tables.allow_table("demo", "numbers", False)
    answer = host.handle(create(document=READS))
    assert (answer.retcode, answer.retmsg) == (103, f"a (Work): {TEXT}")
    assert use_cases.commands.preview(create(document=READS), "9999").retmsg == answer.retmsg
    assert host.handle(create()).is_ok                      # which reads another one
    use_cases.tables.allow_table("demo", "numbers", True)
    assert host.handle(replace(create(document=READS), job_id="2026010112000000000099")).is_ok


def test_a_job_that_was_taken_before_fails_where_it_would_read_it(host: HandServer) -> None:
    for one in (create(document=READS), *RUN[1:]):
        assert host.handle(one).is_ok
    Harness(host).use_cases.tables.allow_table("demo", "numbers", False)
    assert host.handle(task_command(K.TASK_START)).is_ok
    task = host.task("a", HOST)
    assert (task.party_status, task.message) == (TaskStatus.FAILED, TEXT)


def test_one_that_has_begun_reads_on(host: HandServer) -> None:
    for one in (create(document=READS), *RUN[1:], task_command(K.TASK_START)):
        assert host.handle(one).is_ok
    Harness(host).use_cases.tables.allow_table("demo", "numbers", False)
    assert host.task("a", HOST).party_status is TaskStatus.WAITING      # for its worker to say that it is up
