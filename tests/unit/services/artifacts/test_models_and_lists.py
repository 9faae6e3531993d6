"""Models and outputs of several artifacts: from the worker that made them to a later task of the same party."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.model.artifact import JSON_MODEL, MODEL, Artifact, ArtifactInfo
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.services.artifacts.tables import tables_of
from fate_flow.store.values import Document, OutputTable
from tests.kit.modules import Module
from tests.kit.services.hand_server import HandServer, worker_of
from tests.kit.services.party_commands import RUN, command, create, task_command
from tests.kit.services.sights import SUCCEEDED, a_table, with_outputs
from tests.kit.values import HOST, JOB_ID, NOW

ONE_MODEL, TABLES = ArtifactInfo(MODEL, (JSON_MODEL,)), ArtifactInfo(is_multi=True)
AT_THE_GUEST = replace(ONE_MODEL, roles=frozenset({"guest"}))
MODULES = {
    "Train": Module(outputs={"output_model": ONE_MODEL, "parts": TABLES}, takes_other_keys=False),
    "Apply": Module(
        inputs={"input_model": ONE_MODEL, "tables": TABLES, "other_model": AT_THE_GUEST}, outputs={},
        takes_other_keys=False,
    ),
}  # fmt: skip
TRAINED = Artifact(JSON_MODEL, "file:///w/models/output_model", {"of": "a"}, "output_model")
DSL = {
    "components": {
        "a": {"module": "Train", "output": {"data": ["p"], "model": ["m"]}},
        "b": {
            "module": "Apply",
            "input": {"data": {"tables": ["a.p"]}, "model": {"input_model": ["a.m"], "other_model": ["a.m"]}},
        },
    },
}  # fmt: skip
CONF = {
    "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999}, "role": {"guest": [9999], "host": [10000]},
    "job_parameters": {"common": {"task_cores": 1}},
}  # fmt: skip


def a_server(**engines: int) -> HandServer:
    """A host where the job runs."""
    server = HandServer("10000", engines=engines or None)
    server.context = replace(server.context, modules=MODULES)
    for one in (create(document=Document(DSL, CONF, {})), *RUN[1:], task_command(K.TASK_START)):
        answer = server.handle(one)
        assert answer.is_ok, answer
    return server


def test_a_later_task_gets_the_model_and_all_tables_by_its_own_keys() -> None:
    server = a_server()
    tables = [a_table(name, key="parts") for name in ("t0", "t1")]
    server.engine.sights[worker_of(server)] = with_outputs(TRAINED, *tables)
    server.watch()
    assert server.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    with server.store.reading() as tx:
        assert [one.data_name for one in tx.outputs(JOB_ID, "a", HOST)] == ["p.0", "p.1"]
        assert tx.summary(JOB_ID, "a", HOST) == {"models": {"output_model": JSON_MODEL}}
    assert server.handle(task_command(K.TASK_START, "b")).is_ok
    found = [(one.key, one.uri) for one in server.engine.launched[-1].inputs]
    assert found == [
        ("tables", tables[0].uri), ("tables", tables[1].uri), ("input_model", TRAINED.uri)
    ], "only the guest reads other_model"  # fmt: skip
    assert server.engine.launched[-1].inputs[-1].metadata == {"of": "a"}


def test_tables_of_one_output_are_in_their_order() -> None:
    task = TaskKey(JOB_ID, "a", 0, HOST)
    made = [OutputTable(task, name, "out", name) for name in ("p.10", "p.2", "q", "pq.0", "p.0")]
    assert [one.data_name for one in tables_of(made, "p")] == ["p.0", "p.2", "p.10"]
    assert [one.data_name for one in tables_of(made, "q")] == ["q"]
    assert tables_of(made, "r") == []


def test_a_model_that_is_not_there_is_named() -> None:
    server = a_server()
    server.engine.sights[worker_of(server)] = with_outputs(a_table("t", key="parts"))
    server.watch()
    assert server.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    server.handle(task_command(K.TASK_START, "b"))
    assert server.task("b").message == "input model.input_model: a.m has no model at host 10000"


def test_a_model_on_an_engine_that_was_taken_out_is_not_known() -> None:
    server = a_server(slurm=8, local=8)
    server.engine.sights[worker_of(server)] = with_outputs(TRAINED, a_table("t", key="parts"))
    server.watch()
    assert server.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    server.configure("local")
    with server.store.transaction() as tx:
        assert tx.give_back(server.job().key, None, NOW)
        assert tx.reserve(server.job().key, "local", 1, 0, "t", 1, 1)
    server.handle(task_command(K.TASK_START, "b"))
    assert server.task("b").message.startswith(
        "input model.input_model: the outputs of a are not known: engine slurm is not in"
    ), server.task("b").message  # fmt: skip


def test_what_a_worker_says_of_models_itself_does_not_count() -> None:
    server = a_server()
    server.engine.sights[worker_of(server)] = replace(SUCCEEDED, made=with_outputs(models={"output_model": "x"}).made)
    server.watch()
    assert server.handle(task_command(K.TASK_STATUS, argument="success")).is_ok
    assert server.handle(command(K.STOP, Party("host", "10000"), argument="canceled")).is_ok
    assert server.engine.launched[-1].inputs == ()
