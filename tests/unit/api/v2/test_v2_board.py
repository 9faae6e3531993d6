"""The routes that FATE-Board 2.1 asks, answered in the shape that it reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from fate_flow.core.model.status import JobStatus
from tests.kit.api.client_world import World
from tests.kit.api.shapes import Each, Some, misfits

JOB = {
    "job_id": str, "role": "guest", "party_id": "9999", "status": str, "description": str, "create_time": int,
    "progress": int, "parties": [{"role": str, "party_id": [str]}], "dag": {"dag": dict, "schema_version": str},
}  # fmt: skip
TASK = {
    "job_id": str, "role": str, "party_id": str, "task_name": "toy_0", "status": str, "create_time": int,
    "component": str, "component_parameters": dict,
}  # fmt: skip
SEAT = ("job_id", "role", "party_id")
OF_TASK = (*SEAT, "task_name")
V1 = {"retcode": 0, "retmsg": "success"}
V2 = {"code": 0, "message": "success"}


@dataclass(frozen=True)
class Asked:
    """A request, by the keys of `VALUES` that it has; and the shape of the answer."""

    method: str
    path: str
    keys: tuple[str, ...]
    shape: Any
    more: dict[str, Any] = field(default_factory=dict)


ASKED = (
    Asked("GET", "/v2/job/list/query", (), {**V2, "data": {"count": int, "data": [{**JOB, "partners": [str]}]}},
          {"limit": 10, "page": 1, "order_by": "start_time", "order": "desc", "status": ["failed", "waiting"]}),
    Asked("GET", "/v2/job/query", SEAT, {**V2, "data": [JOB]}),
    Asked("GET", "/v2/job/data/view", SEAT, {**V2, "data": dict}),
    Asked("GET", "/v2/job/dag/dependency", SEAT, {**V2, "data": {
        "component_list": ["toy_0"], "component_module": {"toy_0": str}, "dependencies": {"toy_0": list},
    }}),
    Asked("POST", "/v2/job/stop", ("job_id",), V2),
    Asked("POST", "/v2/job/rerun", ("job_id",), V2),
    Asked("POST", "/v2/job/notes/add", SEAT, V2, {"notes": "good"}),
    Asked("GET", "/v2/job/task/list/query", SEAT, {**V2, "data": {"count": 1, "data": [TASK]}}),
    Asked("GET", "/v2/job/task/query", ("job_id",), {**V2, "data": [TASK]}),
    Asked("GET", "/v2/output/metric/query", OF_TASK, {**V2, "data": list},
          {"metric_name": "loss", "metric_namespace": "train"}),
    Asked("GET", "/v2/output/metric/key/query", OF_TASK, {**V2, "data": list}),
    Asked("GET", "/v2/output/model/query", OF_TASK, {**V2, "data": dict}),
    Asked("GET", "/v2/output/data/display", OF_TASK, {"made": [{"data": [list], "metadata": dict, "total": 1}]}),
    Asked("GET", "/v2/server/fateflow", (), {**V2, "data": Each({"host": str, "http_port": int})}),
    Asked("POST", "/v1/job/log/path", ("job_id",), {**V1, "data": {"logs_directory": str}}),
    Asked("POST", "/v1/job/config", SEAT, {**V1, "data": {"job_id": str, "dsl": dict, "runtime_conf": dict}}),
    Asked("POST", "/v1/log/size", SEAT, {**V1, "data": {"size": 1}}, {"log_type": "partyInfo"}),
    Asked("POST", "/v1/log/cat", SEAT, {**V1, "data": Some({"line_num": int, "content": str})},
          {"log_type": "partyInfo", "begin": 1, "end": 10}),
)  # fmt: skip
"""FATE-Board 2.1's requests; it reads the data of an answer by these keys."""


@pytest.mark.parametrize("one", ASKED, ids=lambda one: str(one.path))
def test_the_board_is_answered(world: World, one: Asked) -> None:
    is_over = not one.path.endswith("stop")
    job_id = world.add_job(status=JobStatus.FAILED if is_over else JobStatus.WAITING)
    status = "failed" if one.path.endswith("rerun") else "success"
    world.add_task(job_id, f_status=status, f_party_status=status, f_end_time=1, f_reason="done")
    world.add_output(job_id, world.add_table("it", "numbers", [("a", "1", "2")]))
    world.add_log(job_id, "guest/9999/INFO.log", "text\n")
    values = {"job_id": job_id, "role": "guest", "party_id": "9999", "task_name": "toy_0"}
    sent = {**{key: values[key] for key in one.keys}, **one.more}
    if one.method == "GET":
        found = world.client.get(one.path, query_string=sent).json
    else:
        found = world.client.post(one.path, json=sent).json
    assert list(misfits(found, one.shape)) == [], found
