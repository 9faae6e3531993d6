"""How far a party's grants go: uses of a table, cores at once, approval; columns: unit/core/access/test_limits.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.access.limits import DAY, Grants, PartyLimits, TableLimits
from fate_flow.core.access.permission import Kind, PermissionRule, Thing
from fate_flow.core.model.approval import Approval, ApprovalRule
from fate_flow.core.model.errors import NO_CAPACITY
from fate_flow.core.model.job import Command, TaskKey
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.program import ProgramSpec
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.jobspec.grants_file import read_grants
from fate_flow.records.operator_log.events import Event
from fate_flow.services.use_cases.grants import GrantFiles
from fate_flow.store.values import Document, TableMeta
from tests.kit.job_documents import job
from tests.kit.services.hand_scheduler import chosen, job_of, submit
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import HOLD, JOIN, command, create, task_command
from tests.kit.services.replicas import ProgramPolicy, a_server
from tests.kit.values import HOST

NO_LIMITS = PartyLimits()
TABLE = Thing(Kind.DATASET, "t", "demo")
OTHER_JOB = "2026010112000000000077"


def limited(limits: PartyLimits = NO_LIMITS, uses: int | None = None, **server: object) -> HandServer:
    """A host that requires no grants, and limits what the jobs of party 9999 may use."""
    host = HandServer("10000", **server)       # type: ignore[arg-type]
    things = frozenset({Thing(Kind.COMPONENT, "Work"), TABLE})
    tables = {TABLE: TableLimits(uses_a_day=uses)} if uses else {}
    GrantFiles(host.context).apply({"9999": Grants(things, tables, limits)}, "ada")
    with host.store.transaction() as tx:
        tx.save_table(TableMeta("demo", "t", "standalone:///demo/t", 3, {}), 1)
    return host


def reading(*tasks: str) -> Document:
    document = job({"guest": ["9999"], "host": ["10000"]}, {name: [] for name in tasks})
    table = {"table": {"namespace": "demo", "name": "t"}}
    parameters = {"role": {"host": {"0": dict.fromkeys(tasks, table)}}}
    return replace(document, runtime_conf={**document.runtime_conf, "component_parameters": parameters})


def of_other_job(*commands: Command) -> list[Command]:
    return [replace(one, job_id=OTHER_JOB) for one in commands]


def begun(host: HandServer, document: Document) -> None:
    for one in (create(document=document), *HOLD[1:], command(K.START)):
        assert host.handle(one).is_ok, one


# ------------------------------------------------------------------ uses of a table


def test_a_job_that_needs_more_uses_than_are_left_is_refused_without_a_number() -> None:
    host = limited(uses=2)
    answer = host.handle(create(document=reading("a", "b", "c")))
    assert (answer.retcode, answer.retmsg) == (
        108,
        "host 10000 has not granted party 9999: 3 more uses of table demo/t now (flow privilege grant, there)",
    )
    assert Harness(host).use_cases.commands.preview(create(document=reading("a", "b", "c")), "9999").retcode == 108
    assert host.handle(create(document=reading("a", "b"))).is_ok


def test_each_start_of_a_task_is_a_use_until_a_day_has_passed() -> None:
    host = limited(uses=2)
    begun(host, reading("a", "b"))
    for name in ("a", "b"):
        assert host.handle(task_command(K.TASK_START, name)).is_ok
    assert len(host.engine.launched) == 2
    [other] = of_other_job(create(document=reading("a")))
    assert "1 more use of table demo/t now" in host.handle(other).retmsg
    host.now += DAY - 1
    assert host.handle(other).retcode == 108
    host.now += 1
    assert host.handle(other).is_ok


def test_a_share_whose_last_use_was_taken_meanwhile_does_not_start() -> None:
    host = limited(uses=1)
    begun(host, reading("a"))
    with host.store.transaction() as tx:
        assert tx.use_table("9999", TABLE, "the share of another job", host.now, 1)
    assert host.handle(task_command(K.TASK_START)).is_ok
    task = host.task()
    assert (task.party_status, task.reason, host.engine.launched) == (TaskStatus.FAILED, Reason.NOT_ALLOWED, [])
    assert task.message.startswith("host 10000 has not granted party 9999: 1 more use of table demo/t now")


def test_a_start_that_is_sent_twice_is_one_use() -> None:
    host = limited(uses=1)
    begun(host, reading("a"))
    for _ in range(2):
        assert host.handle(task_command(K.TASK_START)).is_ok
    with host.store.reading() as tx:
        assert tx.uses_of_table("9999", TABLE, 0) == 1


def test_a_use_that_another_process_counted_last_is_refused_by_the_store() -> None:
    """The check before says yes, the count in the same transaction no."""
    host = limited(uses=1)
    with host.unit() as unit:
        keys = [TaskKey(job_id, "a", 0, HOST) for job_id in ("2026010112000000000001", OTHER_JOB)]
        shares = [f"{key.job_id}_a_0_host_10000" for key in keys]
        assert [unit.tx.use_table("9999", TABLE, share, host.now, 1) for share in shares] == [True, False]


def test_the_own_jobs_use_a_table_as_often_as_they_like() -> None:
    host = limited(uses=1)
    own = job({"guest": ["10000"]}, {"a": []})
    for number in range(3):
        document = replace(own, runtime_conf={**own.runtime_conf, "component_parameters": {
            "common": {"a": {"table": {"namespace": "demo", "name": "t"}}}}})
        found = Harness(host).use_cases.commands
        one = replace(create(Party("guest", "10000"), document), job_id=f"202601011200000000010{number}")
        assert found.preview(one, "10000").is_ok


# ------------------------------------------------------------------ cores


def test_a_job_that_asks_for_more_cores_than_were_granted_is_refused() -> None:
    answer = limited(PartyLimits(cores=1)).handle(create())
    assert (answer.retcode, answer.retmsg) == (
        108, "host 10000 has not granted party 9999: 2 cores at once (flow privilege grant, there)")


def test_a_job_waits_until_others_of_its_party_hold_less_and_blocks_nobody() -> None:
    host = limited(PartyLimits(cores=3))
    for one in (*HOLD, *of_other_job(*JOIN)):
        assert host.handle(one).is_ok
    [apply] = of_other_job(command(K.APPLY, turn=1))
    answer = host.handle(apply)
    assert (answer.retcode, answer.data) == (
        NO_CAPACITY, {"why": "has granted party 9999 no more cores at once", "free_cores": 1})
    assert host.free_cores() == 6
    assert host.handle(command(K.RETURN, turn=1)).is_ok
    assert host.handle(apply).is_ok


def test_other_parties_are_not_concerned() -> None:
    host = limited(PartyLimits(cores=1))
    document = job({"guest": ["10001"], "host": ["10000"]}, {"a": [], "b": ["a"]}, cores=2)
    assert host.handle(create(document=document), "10001").is_ok


def test_a_reservation_that_another_process_made_meanwhile_is_undone() -> None:
    host = limited(PartyLimits(cores=3))
    for one in JOIN:
        assert host.handle(one).is_ok
    held = iter((0, 4))
    with host.unit() as unit:
        unit.tx.cores_of_jobs_by = lambda _: next(held)      # type: ignore[method-assign, assignment, attr-defined]
        from fate_flow.services.participant.reserving import apply

        answer = apply(unit, command(K.APPLY, turn=1), host.job())
    assert (answer.retcode, host.job().holds, host.free_cores()) == (NO_CAPACITY, False, 8)


# ------------------------------------------------------------------ least intersection


def test_the_worker_of_this_party_gets_its_own_limit() -> None:
    host = limited(PartyLimits(least_intersection=100))
    begun(host, reading("a", "b"))
    assert host.handle(task_command(K.TASK_START)).is_ok
    grants = Grants(frozenset({Thing(Kind.COMPONENT, "Work"), TABLE}), limits=PartyLimits(least_intersection=7))
    GrantFiles(host.context).apply({"9999": grants}, "ada")
    assert host.handle(task_command(K.TASK_START, "b")).is_ok
    assert [order.least_intersection for order in host.engine.launched] == [100, 7], "as it is when a worker starts"


def test_a_component_that_does_not_know_the_limit_is_refused() -> None:
    host = limited(PartyLimits(least_intersection=100))
    work = host.context.modules["Work"]
    of_a_provider = type("OfAProvider", (), {
        "ignores_least_intersection": True, "__getattr__": lambda _, name: getattr(work, name),
    })()  # fmt: skip
    object.__setattr__(host.context, "modules", {**host.context.modules, "Work": of_a_provider})
    answer = host.handle(create(document=reading("a")))
    assert "has not granted party 9999: component Work, which does not look at least_intersection" in answer.retmsg
    GrantFiles(host.context).apply({"9999": Grants(frozenset({Thing(Kind.COMPONENT, "Work"), TABLE}))}, "ada")
    assert host.handle(create(document=reading("a"))).is_ok


# ------------------------------------------------------------------ programs


@pytest.mark.parametrize("granted", [None, frozenset[str](), frozenset({f"sha256:{64 * '0'}"})])
def test_programs_are_looked_at_with_what_was_granted(granted: frozenset[str] | None) -> None:
    class Recorded(ProgramPolicy):
        reads_programs = False

        def objection(self, command: ProgramSpec, initiator: str, granted: object = None) -> str:
            seen.append((initiator, granted))
            return super().objection(command, initiator, granted)

    seen: list[tuple[str, object]] = []
    host = a_server(Recorded())
    GrantFiles(host.context).apply({"9999": Grants(limits=PartyLimits(programs=granted))}, "ada")
    document = job({"guest": ["9999"], "host": ["10000"]}, {"a": []}, commands={"a": {"command": ["tool"]}})
    begun(host, document)
    assert seen[-1] == ("9999", granted)
    assert host.handle(task_command(K.TASK_START)).is_ok
    [order] = host.engine.launched
    assert order.program is not None
    assert order.program.granted == granted


# ------------------------------------------------------------------ approval


@pytest.mark.parametrize(
    ("rule", "granted", "pending"),
    [(False, None, False), (False, True, True), (True, None, True), (True, False, False)],
)
def test_whether_jobs_of_a_party_need_approval_is_as_its_grants_say(
    rule: bool, granted: bool | None, pending: bool
) -> None:
    host = limited(PartyLimits(approval=granted), approval=ApprovalRule(required=rule))
    assert host.handle(create()).is_ok
    consent = host.job().consent
    assert (consent is not None and consent.approval is Approval.PENDING) == pending


def test_the_own_jobs_never_need_approval() -> None:
    server = HandServer("9999")
    GrantFiles(server.context).apply({"9999": Grants(limits=PartyLimits(cores=0, approval=True))}, "ada")
    process = chosen(server)
    submit(process)
    assert (job_of(process).consent, job_of(process).status) == (None, JobStatus.WAITING)


# ------------------------------------------------------------------ files of grants


def test_a_file_replaces_what_its_parties_have_and_leaves_others_alone() -> None:
    host = HandServer("10000")
    permissions, files = Harness(host).use_cases.permissions, GrantFiles(host.context)
    for party_id in ("9999", "10001"):
        permissions.grant(party_id, [Thing(Kind.COMPONENT, "Upload"), TABLE])
    wanted, problems = read_grants(
        {"version": 1, "parties": {"9999": {
            "components": ["work"], "cores": 4, "gpus": 1,
            "tables": [{"namespace": "demo", "name": "t", "columns": ["x"]}],
        }}},
        host.context.modules, "10000",
    )  # fmt: skip
    assert problems == ()
    expected = [
        "- 9999: component Upload", "- 9999: table demo/t", "+ 9999: component Work",
        "+ 9999: table demo/t (columns x)", "+ 9999: at most 4 cores at once", "+ 9999: at most 1 GPU at once",
    ]  # fmt: skip
    assert list(map(str, files.changes(wanted))) == expected
    assert list(map(str, files.apply(wanted, "ada"))) == expected
    found = files.in_force()
    assert (found["9999"].grants.by, found["9999"].grants.at) == ("ada", host.now)
    assert found["10001"].grants.things == {Thing(Kind.COMPONENT, "Upload"), TABLE}
    host.now += 5
    assert files.apply(wanted, "bob") == ()
    assert files.in_force()["9999"].grants.by == "ada", "nothing has changed"
    assert list(map(str, files.apply({"9999": Grants()}, "bob"))) == [f"- {one[2:]}" for one in expected[2:]]
    notes = [str(one["text"]) for one in host.record.seen(Event.DETECT_NOTE)]
    assert notes[-1] == "grants changed by bob: - 9999: at most 1 GPU at once"


def test_a_grant_by_a_client_leaves_limits_alone_and_a_revocation_takes_them() -> None:
    host = limited(PartyLimits(cores=1), uses=1)
    permissions = Harness(host).use_cases.permissions
    permissions.grant("9999", [TABLE])
    assert GrantFiles(host.context).in_force()["9999"].grants.limits_of(TABLE).uses_a_day == 1
    permissions.revoke("9999", [TABLE])
    permissions.grant("9999", [TABLE])
    found = GrantFiles(host.context).in_force()["9999"].grants
    assert (found.limits_of(TABLE), found.limits.cores) == (TableLimits(), 1)


def test_grants_are_required_and_limited_independently() -> None:
    host = limited(PartyLimits(cores=8))
    host.context = replace(host.context, permission=PermissionRule(components=True, datasets=True))
    GrantFiles(host.context).apply({"9999": Grants(limits=PartyLimits(cores=1))}, "ada")
    answer = host.handle(create())
    assert "has not granted party 9999: component Work, 2 cores at once" in answer.retmsg
