"""What a job reads at a party is looked for when the job is submitted: tables, outputs of other jobs, columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.access.permission import Kind, PermissionRule, Thing, missing
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import JobParameters, Party
from fate_flow.core.model.status import TaskStatus
from fate_flow.services.artifacts.inputs import named_things
from fate_flow.services.artifacts.kinds import KINDS
from fate_flow.store.values import Document, OutputTable, TableMeta
from tests.kit.jobspec.parsing import parse
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import RUN, create, task_command
from tests.kit.values import HOST

OLD_JOB = "2026010112000000000000001"
PEOPLE = TableMeta("demo", "people", "standalone:///demo/people", 3, {"header": ["amount", "age"], "sid": "id"})
READER = {"module": "Reader", "output": {"data": ["data"]}}
MATCH = {"module": "Intersection", "input": {"data": {"data": ["a.data"]}}, "output": {"data": ["data"]}}
SUM = {"module": "SecureSum", "input": {"data": {"data": ["b.data"]}}}
NAMED = {"table": {"namespace": "demo", "name": "people"}}
UNUSABLE = "is missing or disabled at host 10000 (flow table info, there, says which)"
OF_JOB = {"table": {"job_id": OLD_JOB, "component_name": "match_0", "data_name": "joined"}}


def a_document(
    components: dict[str, Any] | None = None, initiator: str = "guest", role: dict[str, Any] | None = None,
    **described: Any
) -> Document:
    party_id = {"guest": 9999, "host": 10000}[initiator]
    conf = {
        "dsl_version": 2, "initiator": {"role": initiator, "party_id": party_id},
        "role": {"guest": [9999], "host": [10000]},
        "component_parameters": {"common": {"a": NAMED, "c": {"column": "amount"}, **described}, "role": role or {}},
    }  # fmt: skip
    return Document({"components": components or {"a": READER, "b": MATCH, "c": SUM}}, conf, {})


@pytest.fixture
def host() -> HandServer:
    server = HandServer("10000")
    object.__setattr__(server.context, "modules", CATALOGUE)
    return server


def have(server: HandServer, table: TableMeta = PEOPLE) -> None:
    with server.store.transaction() as tx:
        tx.save_table(table, 1)


def test_a_table_that_is_not_there_is_missed_at_the_submit(host: HandServer) -> None:
    answer = host.handle(create(document=a_document()))
    assert answer.retcode == 103
    assert answer.retmsg == f"a (Reader): table demo.people {UNUSABLE}"
    have(host)
    assert host.handle(create(document=a_document())).is_ok


def test_a_table_that_another_task_of_the_job_makes_need_not_be_there(host: HandServer) -> None:
    made = {"a": READER, "up": {"module": "Upload"}}
    document = a_document(made, "host", up={"file": "/x.csv", "namespace": "demo", "name": "people"})
    document.runtime_conf["role"]["local"] = [0]
    assert host.handle(create(document=document), "10000").is_ok


def test_a_table_may_be_missing_where_the_job_may_go_on_without_the_party(host: HandServer) -> None:
    document = a_document({"a": READER})
    document.runtime_conf["role"]["host"].append(10001)
    conf = {**document.runtime_conf, "job_parameters": {"common": {"min_available": {"host": 1}}}}
    assert host.handle(create(document=replace(document, runtime_conf=conf))).is_ok
    conf = {**document.runtime_conf, "job_parameters": {"common": {"min_available": {"host": 2}}}}
    assert not host.handle(replace(create(document=replace(document, runtime_conf=conf)), job_id=OLD_JOB)).is_ok


def test_a_task_that_passes_here_reads_nothing(host: HandServer) -> None:
    document = a_document({"a": READER}, role={"host": {"0": {"a": {"need_run": False}}}})
    assert host.handle(create(document=document)).is_ok


@pytest.mark.parametrize(("initiator", "text"), [
    ("guest", " (flow table info, there, lists its columns)"),
    ("host", "; its columns are: amount, age; did you mean amount"),
])
def test_a_column_that_the_table_has_not_is_missed_at_the_submit(host: HandServer, initiator: str, text: str) -> None:
    """Through the tasks between; the columns that there are, for the party's own jobs alone."""
    have(host)
    document = a_document(initiator=initiator, c={"column": "amont"})
    answer = host.handle(create(document=document), str(document.runtime_conf["initiator"]["party_id"]))
    assert answer.retmsg == f"c (SecureSum): column: table demo.people has no column 'amont' at host 10000{text}"


def test_an_intersection_that_keeps_ids_alone_hands_on_no_column(host: HandServer) -> None:
    have(host)
    answer = host.handle(create(document=a_document(b={"only_output_key": True})))
    assert "has no column 'amount' at host 10000" in answer.retmsg


def test_nothing_is_said_of_columns_that_nobody_knows(host: HandServer) -> None:
    have(host, replace(PEOPLE, schema={}))
    assert host.handle(create(document=a_document(c={"column": "amont"}))).is_ok


# ------------------------------------------------------------------ an output of another job


def have_output(server: HandServer) -> None:
    table = replace(PEOPLE, namespace=f"output_{OLD_JOB}", name="t", origin="output", job_id=OLD_JOB)
    have(server, table)
    with server.store.transaction() as tx:
        tx.save_outputs([OutputTable(TaskKey(OLD_JOB, "match_0", 0, HOST), "joined", table.namespace, table.name)], 1)


def test_an_output_of_another_job_is_read_as_fate_has_it(host: HandServer) -> None:
    have_output(host)
    document = a_document({"a": READER}, a=OF_JOB)
    for one in (create(document=document), *RUN[1:], task_command(K.TASK_START)):
        answer = host.handle(one)
        assert answer.is_ok, answer
    (order,) = host.engine.launched
    assert order.parameters == {"table": {"namespace": f"output_{OLD_JOB}", "name": "t"}}


def test_people_of_the_party_hear_which_of_the_two_it_is(host: HandServer) -> None:
    document = a_document(initiator="host")
    missing_table = "a (Reader): there is no table demo.people at host 10000 (flow data upload, there)"
    assert host.handle(create(document=document), "10000").retmsg == missing_table
    have(host)
    Harness(host).use_cases.tables.allow_table("demo", "people", False)
    disabled_table = "a (Reader): table demo.people is disabled at host 10000 (flow table enable, there)"
    assert host.handle(create(document=document), "10000").retmsg == disabled_table


@pytest.mark.parametrize("is_spared", [False, True])
def test_another_party_cannot_tell_a_disabled_table_from_one_that_is_not_there(is_spared: bool) -> None:
    """Neither by a refusal, nor by its columns, nor where the job may go on without this party."""
    document = a_document({"a": READER} if is_spared else None, c={"column": "nowhere"})
    if is_spared:
        document.runtime_conf["role"]["host"].append(10001)
        conf = {**document.runtime_conf, "job_parameters": {"common": {"min_available": {"host": 1}}}}
        document = replace(document, runtime_conf=conf)
    answers, messages = [], []
    for is_there in (False, True):
        server = HandServer("10000")
        object.__setattr__(server.context, "modules", CATALOGUE)
        if is_there:
            have(server)
            Harness(server).use_cases.tables.allow_table("demo", "people", False)
        answers.append(server.handle(create(document=document)))
        if is_spared:
            for one in (*RUN[1:], task_command(K.TASK_START)):
                assert server.handle(one).is_ok
            messages.append(server.task("a", HOST).message)
    assert answers[0] == answers[1]
    assert answers[0].is_ok is is_spared
    assert messages == ([f"table demo.people {UNUSABLE}"] * 2 if is_spared else [])


def test_an_output_that_is_not_there_is_missed_at_the_submit(host: HandServer) -> None:
    answer = host.handle(create(document=a_document({"a": READER}, a=OF_JOB)))
    assert answer.retmsg == f"a (Reader): match_0.joined of job {OLD_JOB} {UNUSABLE}"


def test_one_that_has_gone_since_fails_the_task(host: HandServer) -> None:
    have_output(host)
    for one in (create(document=a_document({"a": READER}, a=OF_JOB)), *RUN[1:]):
        assert host.handle(one).is_ok
    with host.store.transaction() as tx:
        tx.drop_table(f"output_{OLD_JOB}", "t")
    assert host.handle(task_command(K.TASK_START)).is_ok
    task = host.task("a", HOST)
    assert task.party_status is TaskStatus.FAILED
    assert task.message == f"match_0.joined of job {OLD_JOB} {UNUSABLE}"


@pytest.mark.parametrize(("initiator", "called"), [
    ("guest", f"match_0.joined of job {OLD_JOB}"), ("host", f"table output_{OLD_JOB}.t"),
])  # fmt: skip
def test_columns_of_an_output_are_known_too(host: HandServer, initiator: str, called: str) -> None:
    """Another party hears of the table by the name that it has written itself."""
    have_output(host)
    caller = {"guest": "9999", "host": "10000"}[initiator]
    document = a_document(initiator=initiator, a=OF_JOB, c={"column": "amont"})
    answer = host.handle(create(document=document), caller)
    assert answer.retmsg.startswith(f"c (SecureSum): column: {called} has no column 'amont' at host 10000")
    Harness(host).use_cases.tables.allow_table(f"output_{OLD_JOB}", "t", False)
    answer = host.handle(create(document=document), caller)
    said = UNUSABLE if initiator == "guest" else "is disabled at host 10000 (flow table enable, there)"
    assert answer.retmsg == f"a (Reader): {called} {said}"


def test_an_output_of_another_job_has_to_be_granted() -> None:
    document = a_document({"a": READER}, a=OF_JOB)
    spec = parse(document.dsl, document.runtime_conf, modules=CATALOGUE, defaults=JobParameters())
    rule = PermissionRule(components=True, datasets=True)
    needed = missing(rule, spec, Party("host", "10000"), frozenset(), named_things(KINDS))
    assert needed == [
        Thing(Kind.COMPONENT, "Reader"), Thing(Kind.DATASET, "match_0.joined", f"output_{OLD_JOB}"),
    ]  # fmt: skip


@pytest.mark.parametrize("table", [
    {"job_id": OLD_JOB, "component_name": "a"}, {"job_id": "x", "component_name": "a", "data_name": "b"},
    {"job_id": OLD_JOB, "component_name": "a", "data_name": "../b"}, {**OF_JOB["table"], "namespace": "demo"}, {},
])
def test_a_table_is_named_in_full(table: dict[str, str]) -> None:
    (problem,) = CATALOGUE["Reader"].check({"table": table}, "guest")
    assert problem.startswith("table: ")
    assert '{"job_id", "component_name", "data_name"}' in problem


# ---------------------------------------------------------------------- inputs that are there already

THERE = {"stored_inputs": {"data": NAMED}}
MADE = {"stored_inputs": {"data": {"output": {"job_id": OLD_JOB, "task": "match_0", "output": "joined"}}}}
ALONE = {"b": {"module": "Intersection", "output": {"data": ["data"]}}}


def test_a_table_that_an_input_names_is_missed_at_the_submit(host: HandServer) -> None:
    answer = host.handle(create(document=a_document(ALONE, b=THERE)))
    assert answer.retmsg == f"b (Intersection): table demo.people {UNUSABLE}"
    own = host.handle(create(document=a_document(ALONE, "host", b=THERE)), "10000")
    assert own.retmsg == "b (Intersection): there is no table demo.people at host 10000 (flow data upload, there)"
    have(host)
    assert host.handle(create(document=a_document(ALONE, b=THERE))).is_ok
    have(host, replace(PEOPLE, is_disabled=True))
    again = host.handle(replace(create(document=a_document(ALONE, b=THERE)), job_id=OLD_JOB))
    assert again.retmsg == f"b (Intersection): table demo.people {UNUSABLE}"


@pytest.mark.parametrize(("named", "name"), [(THERE, ("demo", "people")), (MADE, (f"output_{OLD_JOB}", "t"))])
def test_a_worker_gets_the_table_that_an_input_names(
    named: dict[str, Any], name: tuple[str, str], host: HandServer
) -> None:
    have(host)
    have_output(host)
    for one in (create(document=a_document(ALONE, b=named)), *RUN[1:], task_command(K.TASK_START, "b")):
        answer = host.handle(one)
        assert answer.is_ok, answer
    [order] = host.engine.launched
    [read] = order.inputs
    assert (read.key, read.kind, read.uri, read.metadata["schema"]) == ("data", "table", PEOPLE.uri, PEOPLE.schema)
    assert (read.metadata["namespace"], read.metadata["name"]) == name
    assert "stored_inputs" not in order.parameters


def test_what_an_input_names_has_to_be_granted() -> None:
    rule = PermissionRule(datasets=True)
    for named, thing in (
        (THERE, Thing(Kind.DATASET, "people", "demo")),
        (MADE, Thing(Kind.DATASET, "match_0.joined", f"output_{OLD_JOB}")),
    ):
        document = a_document(ALONE, b=named)
        spec = parse(document.dsl, document.runtime_conf, modules=CATALOGUE, defaults=JobParameters())
        assert missing(rule, spec, Party("host", "10000"), frozenset(), named_things(KINDS)) == [thing]
