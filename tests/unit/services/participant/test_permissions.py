"""A party takes a job of another one only as far as it has granted what that needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.access.permission import EVERYTHING, Kind, PermissionRule, Thing
from fate_flow.core.model.errors import Conflict
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.status import JobStatus
from fate_flow.records.operator_log.events import Event
from fate_flow.store.values import TableMeta
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import chosen, job_of, submit
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.parameter_updates import described
from tests.kit.services.party_commands import ENDED, a_host, command, create

WORK = Thing(Kind.COMPONENT, "Work")
RULE = PermissionRule(components=True, datasets=True)


def strict(server: HandServer, *granted: Thing, rule: PermissionRule = RULE) -> HandServer:
    """With what it has granted party 9999."""
    server.context = replace(server.context, permission=rule)
    if granted:
        Harness(server).use_cases.permissions.grant("9999", granted)
    return server


def test_what_was_not_granted_is_named_and_nothing_of_the_job_stays() -> None:
    host = strict(HandServer("10000"))
    answer = host.handle(create())
    assert (answer.retcode, answer.retmsg) == (
        108, "host 10000 has not granted party 9999: component Work (flow privilege grant, there)")
    assert host.snapshot()["jobs"] == ()


@pytest.mark.parametrize("granted", [WORK, EVERYTHING[Kind.COMPONENT]])
def test_what_was_granted_is_taken(granted: Thing) -> None:
    host = strict(HandServer("10000"), granted)
    assert host.handle(create()).is_ok
    assert host.handle(command(K.STATUS, argument="waiting")).is_ok
    assert host.job().status is JobStatus.WAITING


def test_nobody_is_asked_where_the_switch_is_off() -> None:
    host = strict(HandServer("10000"), rule=PermissionRule())
    assert host.handle(create()).is_ok


def test_a_table_that_a_change_names_needs_permission_too() -> None:
    host = strict(a_host(*ENDED), WORK)
    table = {"table": {"namespace": "demo", "name": "t"}}
    change = described(component_parameters={"common": {"a": table}})
    answer = host.handle(change)
    assert (answer.retcode, "has not granted party 9999: table demo/t" in answer.retmsg) == (108, True)
    assert host.job().revision == 0
    Harness(host).use_cases.permissions.grant("9999", [Thing(Kind.DATASET, "t", "demo")])
    with host.store.transaction() as tx:
        tx.save_table(TableMeta("demo", "t", "standalone:///demo/t", 3, {}), 1)
    assert host.handle(change).is_ok


def test_the_own_jobs_need_none() -> None:
    process = chosen(strict(HandServer("9999")))
    submit(process)
    assert job_of(process).status is JobStatus.WAITING


def test_it_is_asked_before_a_submit_as_well() -> None:
    host = strict(HandServer("10000"))
    answer = Harness(host).use_cases.commands.preview(create(), "9999")
    assert (answer.retcode, answer.data) == (108, {"previewed": True})


def test_what_is_taken_back_holds_for_what_comes_next() -> None:
    host = strict(HandServer("10000"), WORK)
    assert host.handle(create()).is_ok
    Harness(host).use_cases.permissions.revoke("9999", [WORK])
    other = replace(create(document=job({"guest": ["9999"], "host": ["10000"]})), job_id="2026010112000000000099")
    assert host.handle(other).retcode == 108
    assert host.handle(command(K.STATUS, argument="waiting")).is_ok
    with pytest.raises(Conflict, match="party 9999 was not granted component Work"):
        Harness(host).use_cases.permissions.revoke("9999", [WORK])
    notes = [str(one["text"]) for one in host.record.seen(Event.DETECT_NOTE)]
    assert notes == ["party 9999 was granted: component Work", "party 9999 is no longer granted: component Work"]


def test_all_of_a_kind_is_taken_back_at_once() -> None:
    host = strict(HandServer("10000"), WORK, Thing(Kind.DATASET, "t", "demo"))
    Harness(host).use_cases.permissions.revoke("9999", [EVERYTHING[Kind.COMPONENT]])
    with host.store.reading() as tx:
        assert tx.granted("9999") == {Thing(Kind.DATASET, "t", "demo")}
