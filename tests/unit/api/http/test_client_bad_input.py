"""Bad input at every client route: a retcode, a message that names what is at fault, and nothing of our insides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.api.client_world import TOY_CONF, TOY_DSL, World, make_world

UNKNOWN = "20260101120000"
EVIL = "../../../etc/passwd"
COMPONENT = {"job_id": UNKNOWN, "role": "guest", "party_id": 9999, "component_name": "toy_0"}
LOG = {"job_id": UNKNOWN, "log_type": "componentInfo", "role": "guest", "party_id": 9999, "component_name": "toy_0"}
METRIC = {**COMPONENT, "metric_namespace": "train", "metric_name": "loss"}
PRINTED = {**COMPONENT, "party_id": 10000, "role": "host"}      # of another party, which need not be asked for nonsense
BOUND = {"engine": "PATH", "address": {}, "namespace": "demo", "name": "site_a"}
LONG = {"job_dsl": TOY_DSL, "job_runtime_conf": TOY_CONF}


def conf(**change: Any) -> dict[str, Any]:
    return {"job_dsl": TOY_DSL, "job_runtime_conf": {**TOY_CONF, **change}}


def dsl(components: Any) -> dict[str, Any]:
    return {"job_dsl": {"components": components}, "job_runtime_conf": TOY_CONF}


SUBMITS = [
    (None, 101, "required argument are missing: job_dsl,job_runtime_conf; "),
    (b"not json", 101, "the body is not a JSON object"),
    (b"[]", 101, "the body is not a JSON object"),
    ({"job_dsl": TOY_DSL}, 101, "missing: job_runtime_conf; "),
    ({"job_dsl": [], "job_runtime_conf": TOY_CONF}, 101, "job_dsl: a list is not an object"),
    ({"job_dsl": TOY_DSL, "job_runtime_conf": "x"}, 101, "job_runtime_conf: 'x' is not an object"),
    ({**LONG, "request_id": "a b"}, 101, "request_id: 'a b'"),
    ({**LONG, "request_id": 5}, 101, "request_id: 5"),
    ({**LONG, "request_id": "x" * 101}, 101, "request_id: 'xxx"),
    ({**LONG, "name": 5}, 101, "name: 5 is not text"),
    (conf(dsl_version=1), 103, "only the v2 version runtime conf is supported"),
    (conf(dsl_version=None), 103, "job_runtime_conf.dsl_version: is missing"),
    (conf(role=None), 103, "job_runtime_conf.role: is missing"),
    (conf(role={"guest": ["x"]}), 103, "job_runtime_conf.role.guest[0]: 'x'"),
    (conf(initiator={"role": "guest", "party_id": 7}), 103, "guest 7 is not in job_runtime_conf.role.guest"),
    (conf(initiator={"role": "host", "party_id": 10000}), 103, "submit the job at party 10000"),
    (conf(role={"guest": [9999], "host": [7]}), 103, "party 7 has no route here"),
    (conf(job_parameters={"common": {"task_cores": "many"}}), 103, "job_parameters.common.task_cores: 'many'"),
    (conf(job_parameters={"common": {"task_cores": 1000}}), 103, "asks for 1000 cores"),
    (conf(component_parameters={"common": {"toy_0": {"data_num": "x"}}}), 103, "data_num: 'x'"),
    (dsl({}), 103, "components: has 0 components"),
    (dsl({"toy_0": {"module": "Nonsense"}}), 103, "'Nonsense' is not known here"),
    (dsl({"toy_0": {}}), 103, "components.toy_0.module: is missing"),
    (dsl({"../x": {"module": "Reader"}}), 103, "'../x'"),
    (dsl({
        "a": {"module": "Intersection", "input": {"data": {"data": ["b.d"]}}, "output": {"data": ["d"]}},
        "b": {"module": "Intersection", "input": {"data": {"data": ["a.d"]}}, "output": {"data": ["d"]}},
    }), 103, "a->b"),
    (dsl({"a": {"module": "Intersection", "input": {"data": {"data": ["ghost.d"]}}}}), 103, "'ghost'"),
]  # fmt: skip

OTHERS = [
    ("job/stop", None, 101, "required argument are missing: job_id; "),
    ("job/stop", {"job_id": UNKNOWN}, 102, "can not found job"),
    ("job/list/job", b"[]", 101, "the body is not a JSON object"),
    ("queue/list", b"{", 101, "the body is not a JSON object"),
    ("job/stop", {"job_id": EVIL}, 101, f"job_id: '{EVIL}'"),
    ("job/stop", {"job_id": ["x"]}, 101, "job_id: a list"),
    ("job/stop", {"job_id": UNKNOWN, "stop_status": "success"}, 101, "stop_status: 'success'"),
    ("job/stop", {"job_id": UNKNOWN, "stop_status": 1}, 101, "stop_status: 1"),
    ("job/query", {"job_id": {"a": 1}}, 101, "job_id: an object is not text"),
    ("job/query", {"progress": "x"}, 101, "progress: 'x' is not a whole number"),
    ("job/query", {"progress": 10**30}, 101, "progress: 1000"),
    ("job/query", {"progress": True}, 101, "progress: true is not a whole number"),
    ("job/query", {"progress": ["1_0"]}, 101, "progress: '1_0' is not a whole number"),
    ("job/query", {"start_time": "+5"}, 101, "start_time: '+5' is not a date"),
    ("job/query", {"start_time": "0001-01-01"}, 101, "start_time: 0001-01-01 00:00:00 is too long ago"),
    ("job/query", {"name": "\ud800"}, 101, "name: '\\ud800' is not text"),
    ("job/task/query", {"message": ["x", "\ud800"]}, 101, "message: '\\ud800' is not text"),
    ("resource/query", {"engine_name": "\ud800"}, 101, "engine_name: '\\ud800' is not text"),
    ("job/query", {"create_time": ["x", None]}, 101, "create_time: 'x' is not a date"),
    ("job/query", {"is_initiator": "x"}, 101, "is_initiator: 'x'"),
    ("job/query", {"job_id": [UNKNOWN] * 501}, 101, "job_id: 501 values are too many"),
    ("job/query", {"role": [True]}, 101, "role: true is not text"),
    ("job/config", {"job_id": UNKNOWN}, 101, "missing: role,party_id; "),
    ("job/config", {"job_id": UNKNOWN, "role": "guest", "party_id": 1}, 101, "find job failed"),
    ("job/config", {"job_id": UNKNOWN, "role": EVIL, "party_id": 1}, 101, f"role: '{EVIL}'"),
    ("job/config", {"job_id": UNKNOWN, "role": "guest", "party_id": EVIL}, 101, "party_id: '../"),
    ("job/explain", {}, 101, "missing: job_id"),
    ("job/history", {}, 101, "missing: job_id"),
    ("job/history", {"job_id": UNKNOWN}, 102, f"can not found job {UNKNOWN} on party 9999"),
    ("job/explain", {"job_id": UNKNOWN}, 102, f"can not found job {UNKNOWN} on party 9999"),
    ("job/explain", {"job_id": EVIL}, 101, "job_id: '../"),
    ("job/data/view/query", {}, 101, "missing: job_id"),
    ("job/data/view/query", {"job_id": UNKNOWN}, 101, "find data view failed"),
    ("job/log/path", {"job_id": EVIL}, 101, "job_id: '../"),
    ("job/task/query", {}, 101, "find task failed"),
    ("job/task/query", {"job_id": UNKNOWN}, 101, "find task failed"),
    ("job/task/query", {"task_version": "x"}, 101, "task_version: 'x'"),
    ("resource/query", {"engine_name": 5}, 101, "engine_name: 5"),
    ("resource/return", {}, 101, "missing: job_id"),
    ("resource/return", {"job_id": UNKNOWN}, 100, UNKNOWN),
    ("resource/return", {"job_id": EVIL}, 101, "job_id: '../"),
    ("data/upload", None, 100, "missing: namespace,table_name,file,head,partition; "),
    ("data/upload", {"file": "x", "namespace": "n"}, 100, "missing: table_name,head,partition; "),
    ("data/download", {}, 101, "missing: namespace,table_name,output_path; "),
    ("data/upload/history", {"limit": "x"}, 101, "limit: 'x'"),
    ("data/upload/history", {"job_id": EVIL}, 101, "job_id: '../"),
    ("data/upload/history", {"job_id": ""}, 101, "job_id: ''"),
    ("data/upload/history", {"job_id": False}, 101, "job_id: false"),
    ("table/bind", BOUND, 101, "address.path: null is not the path of a file"),
    ("table/bind", {**BOUND, "address": {"path": 5}}, 101, "address.path: 5 is not the path of a file"),
    ("table/bind", {**BOUND, "address": {"path": "x"}, "partitions": {}}, 101, "partitions: an object"),
    ("table/bind", {**BOUND, "address": {"path": "x"}, "head": None, "partition": None}, 101, "file: 'x' is not below"),
    ("table/table_info", {"namespace": "n"}, 101, "missing: table_name; "),
    ("table/table_info", {"namespace": "n", "table_name": ["x"]}, 101, "table_name: a list"),
    ("table/table_info", {"namespace": "\ud800", "table_name": "x"}, 101, "namespace: '\\ud800'"),
    ("table/delete", {"job_id": UNKNOWN}, 101, "missing: namespace,table_name; "),
    ("table/delete", {"namespace": "n", "table_name": EVIL}, 101, "no find table"),
    ("table/delete", {"namespace": "n", "table_name": ".."}, 101, "table_name: '..'"),
    ("tracking/component/list", {}, 101, "missing: job_id"),
    ("tracking/component/list", {"job_id": UNKNOWN}, 100, UNKNOWN),
    ("tracking/component/parameters", {}, 101, "missing: job_id,role,party_id,component_name; "),
    ("tracking/component/parameters", COMPONENT, 101, "can not found this task"),
    ("tracking/component/parameters", {**COMPONENT, "component_name": EVIL}, 101, "component_name: '../"),
    ("tracking/component/metrics", {**COMPONENT, "party_id": "x"}, 101, "party_id: 'x'"),
    ("tracking/component/metric_data", {**METRIC, "metric_namespace": 5}, 101, "metric_namespace: 5 is not text"),
    ("tracking/component/metric_data", {**METRIC, "metric_name": []}, 101, "metric_name: a list is not text"),
    ("tracking/component/metric_data", {}, 101, "missing: metric_namespace,metric_name,job_id,role,party_id,comp"),
    ("task/log", {**PRINTED, "stream": {}}, 101, "stream: an object is neither stdout nor stderr"),
    ("task/log", {**PRINTED, "worker": {}}, 101, "worker: an object is not a whole number"),
    ("task/log", {**PRINTED, "attempt": -1}, 101, "attempt: -1 is not a whole number"),
    ("task/log", {**PRINTED, "task_version": -1}, 101, "task_version: -1 is not a whole number"),
    ("task/log", {**PRINTED, "bytes": 0}, 101, "bytes: 0 is not a whole number"),
    ("tracking/component/output/data/table", {**COMPONENT, "role": "boss"}, 101, "role: 'boss'"),
    ("log/cat", {}, 101, "missing: log_type,job_id; "),
    ("log/cat", {**LOG, "log_type": "secrets"}, 101, "log_type: 'secrets'"),
    ("log/cat", {**LOG, "job_id": EVIL}, 101, "job_id: '../"),
    ("log/cat", {**LOG, "role": ".."}, 101, "role: '..'"),
    ("log/cat", {**LOG, "party_id": ".."}, 101, "party_id: '..'"),
    ("log/cat", {**LOG, "component_name": ".."}, 101, "component_name: '..'"),
    ("log/size", {**LOG, "component_name": "a/b"}, 101, "component_name: 'a/b'"),
    ("log/cat", {**LOG, "begin": "x"}, 101, "begin: 'x'"),
    ("version/get", {"module": 1}, 101, "module: 1 is not text"),
    ("permission/grant", {}, 101, "missing: party_id; "),
    ("permission/grant", {"party_id": EVIL, "component": "*"}, 101, "party_id: '../"),
    ("permission/grant", {"party_id": 1}, 101, "component or dataset"),
    ("permission/grant", {"party_id": 1, "component": EVIL}, 101, f"component: '{EVIL}'"),
    ("permission/delete", {"party_id": 1, "dataset": {"namespace": "n"}}, 101, "dataset.name: null"),
    ("permission/delete", {"party_id": 1, "component": "Reader"}, 100, "party 1 was not granted component Reader"),
    ("permission/query", {}, 101, "missing: party_id; "),
    ("permission/query/privilege", {"src_party_id": 1}, 101, "missing: src_role; "),
    ("permission/grant/privilege", {"src_party_id": 1, "src_role": "host", "privilege_role": "all"}, 101,
     "privilege_role: 'all' cannot be granted"),
    ("permission/delete/privilege", {"src_party_id": 1, "src_role": "boss"}, 101, "role: 'boss'"),
]

WITH_STATUS = [
    ("job/list/job", {"status": "nonsense"}, 400, "The parameter 'status' is invalid"),
    ("job/list/job", {"role": ["guest", 1]}, 400, "The parameter 'role' is invalid"),
    ("job/list/job", {"order_by": "dsl"}, 400, "The parameter 'order_by' is invalid"),
    ("job/list/job", {"order_by": {}}, 400, "The parameter 'order_by' is invalid"),
    ("job/list/task", {"order_by": False, "order": "asc"}, 400, "The parameter 'order_by' is invalid"),
    ("job/list/task", {"order": 0}, 400, "The parameter 'order' is invalid"),
    ("job/list/job", {"order": "up"}, 400, "The parameter 'order' is invalid"),
    ("job/list/job", {"limit": "x"}, 400, "The parameter 'limit' is invalid"),
    ("job/list/job", {"limit": -1}, 400, "The parameter 'limit' is invalid"),
    ("job/list/job", {"page": 1.5}, 400, "The parameter 'page' is invalid"),
    ("job/list/job", {"description": "\ud800"}, 400, "The parameter 'description' is invalid"),
    ("job/list/job", {"partner": ["x"]}, 400, "The parameter 'partner' is invalid"),
    ("job/list/task", {"role": "boss"}, 400, "The parameter 'role' is invalid"),
    ("job/list/task", {"order_by": ["x"]}, 400, "The parameter 'order_by' is invalid"),
    ("job/log/download", {}, 400, "missing: job_id"),
    ("job/log/download", {"job_id": EVIL}, 400, "job_id: '../"),
    ("job/log/download", {"job_id": UNKNOWN}, 404, UNKNOWN),
    ("tracking/component/summary/download", {**COMPONENT, "job_id": EVIL}, 400, "job_id: '../"),
    ("tracking/component/summary/download", COMPONENT, 210, "no data"),
    ("provider/get", {"provider_name": EVIL}, 404, "provider_name: '../"),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One for all: none of these requests may leave anything behind."""
    world = make_world(tmp_path_factory.mktemp("home"))
    yield world
    assert [world.count(table) for table in ("t_job", "t_task", "t_seat", "t_outbox", "t_submission")] == [0] * 5
    assert world.uploads == []
    world.store.close()


@pytest.mark.parametrize(("body", "retcode", "offender"), SUBMITS)
def test_a_submit_that_is_refused(world: World, body: Any, retcode: int, offender: str) -> None:
    said = described(world.ask("job/submit", body), retcode, offender)
    assert set(said) == {"retcode", "retmsg"}, "no id of a job that does not exist"
    if retcode == 103:
        described(world.ask("job/validate", body), 103, offender)


@pytest.mark.parametrize(("path", "body", "retcode", "offender"), OTHERS)
def test_a_request_that_is_refused(world: World, path: str, body: Any, retcode: int, offender: str) -> None:
    described(world.ask(path, body), retcode, offender)


@pytest.mark.parametrize(("path", "body", "status", "offender"), WITH_STATUS)
def test_a_request_that_is_refused_with_a_status(
    world: World, path: str, body: Any, status: int, offender: str
) -> None:
    response = world.post(path, body)
    assert response.status_code == status
    assert set(described(response.json, status, offender)) == {"retcode", "retmsg"}


def described(said: Any, retcode: int, offender: str) -> Any:
    """The envelope, once it tells what is wrong and no more."""
    assert (said["retcode"], offender in said["retmsg"]) == (retcode, True), said
    for inside in ("Traceback", "Error(", "peewee", ".py", "SELECT"):
        assert inside not in said["retmsg"]
    return said


def test_a_header_may_be_wrong_too(world: World) -> None:
    said = world.ask("job/submit", LONG, headers={"Idempotency-Key": "a b"})
    described(said, 101, "request_id: 'a b'")


def test_no_folder_was_made_for_any_of_this(world: World) -> None:
    assert [path for path in world.home.iterdir() if path.is_dir()] == []
