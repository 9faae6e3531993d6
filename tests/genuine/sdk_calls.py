"""Calls of the genuine SDK: each with what the server answers, or what the SDK refuses by itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.genuine.cases import GRANTED, JOB_ROW, LOCAL, OUTPUT_ROW, SUBMITTED, TABLE, TASK_ROW, UPLOADED, prefixed
from tests.genuine.world import (
    UNKNOWN,
    Given,
    a_job_that_runs,
    a_job_that_waits,
    a_job_with_metrics,
    a_table_to_spare,
    afterwards_at_rest,
    no_file_of_that_name,
    no_table_of_that_name,
    something_that_is_granted,
)
from tests.kit.api.shapes import Each, Some
from tests.kit.servers.party_servers import GUEST, HOST

RAISED = -1
"""Instead of a retcode: the SDK itself refuses."""


@dataclass(frozen=True)
class Call:
    """One call of a method; a text that names a fact, or a file of the world, stands for it."""

    method: str
    arguments: dict[str, Any]
    retcode: int = 0
    data: Any = None
    says: str = ""
    given: Given | None = None

    @property
    def name(self) -> str:
        return f"{self.method}: {json.dumps(self.arguments)}" + (f" ({self.given.__name__})" if self.given else "")


SEAT = {"job_id": "{job}", "role": "guest", "party_id": int(GUEST)}
READER = {**SEAT, "component_name": "reader_0"}
SUM = {**SEAT, "component_name": "sum_0"}
NOWHERE = {**SUM, "job_id": UNKNOWN}
NAMELESS = {**SUM, "component_name": "a/b"}
SPARE = {"namespace": "it", "table_name": "spare"}
BIND = {"engine": "PATH", "address": {"path": "{here}"}, "namespace": "it", "name": "fresh", "head": True}
MODEL = {"model_id": "m", "model_version": "1"}
OF_A_MODEL = {**MODEL, "role": "guest", "party_id": int(GUEST), "component_name": "a_0"}
NOT_OFFERED = (
    ("model.load", {"config_data": "@model"}),
    ("model.bind", {"config_data": "@model", "job_id": "{job}"}),
    ("model.import_model", {"config_data": "@model", "from_database": True}),
    ("model.export_model", {"config_data": "@model", "to_database": True}),
    ("model.migrate", {"config_data": "@model"}),
    ("model.homo_convert", {"config_data": "@model"}), ("model.homo_deploy", {"config_data": "@homo"}),
    ("checkpoint.list_checkpoints", OF_A_MODEL), ("checkpoint.get_checkpoint", {**OF_A_MODEL, "step_index": 1}),
    ("checkpoint.get_checkpoint", {**OF_A_MODEL, "step_name": "s"}),
    ("component.hetero_model_merge", {
        **MODEL, "guest_party_id": GUEST, "host_party_ids": [HOST], "component_name": "a_0", "model_type": "t",
        "output_format": "f",
    }),
    ("component.woe_array_extract", OF_A_MODEL), ("component.woe_array_merge", {**OF_A_MODEL, "woe_array": {}}),
)  # fmt: skip
NO_MODEL = (
    ("model.tag_model", {"job_id": "{job}", "tag_name": "t"}, 101),
    ("model.tag_model", {"job_id": "{job}", "tag_name": "t", "remove": True}, 101),
    ("model.tag_list", {"job_id": "{job}"}, 101),
    ("model.deploy", {**MODEL, "cpn_list": ["a_0"]}, 101),
    ("model.deploy", {**MODEL, "predict_dsl": {"components": {"a_0": {}}}, "components_checkpoint": {}}, 101),
    ("model.get_model_info", {**MODEL, "role": "guest", "party_id": int(GUEST), "query_filters": ["create_date"]}, 101),
    ("model.export_model", {"config_data": "@model"}, 404), ("model.get_predict_dsl", MODEL, 210),
    ("model.get_predict_conf", MODEL, 210),
)  # fmt: skip
TAGS = (
    Call("tag.create", {"tag_name": " ", "tag_desc": "a tag"}, 101, says="tag_name: is missing or empty"),
    Call("tag.query", {"tag_name": "nobody", "with_model": True}, 101, says="there is no tag 'nobody'"),
    Call("tag.update", {"tag_name": "nobody", "new_tag_name": "u"}, 101, says="there is no tag 'nobody'"),
    Call("tag.list", {}, data={"tags": list, "count": int}),
    Call("tag.delete", {"tag_name": "nobody"}, 101, says="there is no tag 'nobody'"),
)
SENTENCE = "; instead: "
CALLS = (
    *(Call(method, arguments, 100, says=SENTENCE) for method, arguments in NOT_OFFERED),
    *(Call(method, arguments, code, says="model") for method, arguments, code in NO_MODEL), *TAGS,
    Call("model.import_model", {"config_data": "@model"}, 101, says="is not an exported model"),
    Call("component.metric_delete", {"job_id": "{job}"}, data="delete status: True", given=a_job_with_metrics),
    Call("component.metric_delete", {"job_id": UNKNOWN}, 102, says="can not found job"),
    Call("component.metric_delete", {"date": "yesterday"}, 101, says="yesterday"),
    Call("job.submit", {"config_data": "@conf", "dsl_data": "@dsl"}, data=SUBMITTED, given=afterwards_at_rest),
    Call("job.submit", {"config_data": "@conf", "dsl_data": "@dsl_unknown"}, 103, says="Magic"),
    Call("job.submit", {"config_data": "@conf_at_host", "dsl_data": "@dsl"}, 103, says="party 10000"),
    Call("job.list", {"limit": 2}, data={"jobs": [JOB_ROW | {"party_id": int, "partners": list}], "count": int}),
    Call("job.list", {"limit": -1}, 400, says="limit"),
    Call("job.list", {"limit": "many"}, 400, says="many"),
    Call("job.query", {"job_id": "{job}", "role": "guest", "party_id": int(GUEST)}, data=[
        {**prefixed(JOB_ROW), "f_dsl": dict, "f_runtime_conf": dict}]),
    Call("job.query", {**SEAT, "component_name": "sum_0"}, data=[prefixed(JOB_ROW)]),
    Call("job.view", {**SEAT, "status": "success"}, data=[OUTPUT_ROW]),
    Call("job.query", {"job_id": UNKNOWN}, data=Some(dict), says="no job could be found"),
    Call("job.query", {"party_id": "nobody"}, RAISED, says="nobody"),
    Call("job.view", SEAT, data=[OUTPUT_ROW]),
    Call("job.view", {"job_id": UNKNOWN}, 101, says="find data view failed"),
    Call("job.view", {}, 101, says="job_id"),
    Call("job.stop", {"job_id": "{job}"}, says="success", given=a_job_that_runs),
    Call("job.stop", {"job_id": UNKNOWN}, 102, says="can not found job"),
    Call("job.stop", {"job_id": "x"}, 101, says="job_id"),
    Call("job.config", {**SEAT, "output_path": "{files}"}, says="download successfully", data={"model_info": dict}),
    Call("job.config", {**SEAT, "job_id": UNKNOWN, "output_path": "{files}"}, 101, says="find job failed"),
    Call("job.config", {**SEAT, "role": "host", "output_path": "{files}"}, 101, says="find job failed"),
    Call("job.log", {"job_id": "{job}", "output_path": "{files}"}, says="download successfully"),
    Call("job.log", {"job_id": UNKNOWN, "output_path": "{files}"}, 404, says="not found"),
    Call("job.log", {"job_id": "x", "output_path": "{files}"}, 400, says="job_id"),
    Call("task.list", {"limit": 2}, data={"tasks": [TASK_ROW], "count": int}),
    Call("task.list", {"limit": -1}, 400, says="limit"),
    Call("task.list", {"limit": "many"}, 400, says="many"),
    Call("task.query", SUM, data=[prefixed(TASK_ROW)]),
    Call("task.query", {"job_id": UNKNOWN}, 101, says="find task failed"),
    Call("task.query", {}, 101, says="find task failed"),
    Call("queue.clean", {}, data=Each(0), given=a_job_that_waits),
    Call("data.upload", {"config_data": "@upload"}, data=UPLOADED, given=no_table_of_that_name),
    Call("data.upload", {"config_data": "@upload_here", "drop": 1}, data=UPLOADED, given=no_table_of_that_name),
    Call("data.upload", {"config_data": "@upload_numbers"}, 100, says="already exists"),
    Call("data.upload", {"config_data": "@upload_nothing"}, RAISED, says="does not exist"),
    Call("data.upload", {"config_data": "@upload_here_secret", "drop": 1}, 101, says="is not below"),
    Call("data.download", {"config_data": "@download"}, data=LOCAL, given=no_file_of_that_name),
    Call("data.download", {"config_data": "@download_unknown"}, 101, says="not there"),
    Call("data.download", {"config_data": "@download_outside"}, 101, says="is not below"),
    Call("data.upload_history", {"job_id": "{uploaded}"}, data=[Each({"upload_info": {"upload_count": 20}})]),
    Call("data.upload_history", {"limit": -1}, 101, says="limit"),
    Call("data.upload_history", {"job_id": "x"}, 101, says="job_id"),
    Call("table.info", {"namespace": "it", "table_name": "numbers"}, data=TABLE),
    Call("table.info", {"namespace": "it", "table_name": "nothing"}, data={"exist": 0, "count": 0}),
    Call("table.info", {"namespace": "it", "table_name": ["a"]}, 101, says="table_name"),
    Call("table.delete", SPARE, data=SPARE, given=a_table_to_spare),
    Call("table.delete", {"namespace": "it", "table_name": "nothing"}, 101, says="no find table"),
    Call("table.delete", {"job_id": "{job}"}, 101, says="table_name"),
    Call("table.bind", BIND, data=UPLOADED, given=no_table_of_that_name),
    Call("table.bind", {**BIND, "name": "numbers"}, 100, says="already exists"),
    Call("table.bind", {**BIND, "engine": "HDFS"}, 101, says="does not offer"),
    Call("component.list", {"job_id": "{job}"}, data={"components": [str]}),
    Call("component.list", {"job_id": UNKNOWN}, 100, says="can not found job"),
    Call("component.list", {"job_id": "x"}, 101, says="job_id"),
    Call("component.metrics", SUM, data=Each([str])),
    Call("component.metrics", NOWHERE, data={}, says="no data"),
    Call("component.metrics", NAMELESS, 101, says="component_name"),
    Call("component.metric_all", SUM, data=Each(Each({"data": [list], "meta": dict}))),
    Call("component.metric_all", NOWHERE, data={}, says="no data"),
    Call("component.metric_all", NAMELESS, 101, says="component_name"),
    Call("component.parameters", SUM, data={"module": "SecureSum", "ComponentParam": {"column": "y"}}),
    Call("component.parameters", NOWHERE, 101, says="can not found this task"),
    Call("component.parameters", NAMELESS, 101, says="component_name"),
    Call("component.output_data", {**READER, "output_path": "{files}/sdk"}, says="download successfully"),
    Call("component.output_data", {**NOWHERE, "output_path": "{files}"}, 210, says="no data"),
    Call("component.output_data", {**READER, "output_path": "{files}", "limit": 0}, 210, says="limit is 0"),
    Call("component.output_data_table", READER, data=[{"table_name": "numbers", "data_name": "raw"}]),
    Call("component.output_data_table", {**READER, "role": "host", "party_id": int(HOST)},
         data=[{"table_name": "numbers", "data_name": "raw"}]),
    Call("component.output_data_table", NOWHERE, 100, says="No found job"),
    Call("component.output_data_table", NAMELESS, 101, says="component_name"),
    Call("component.get_summary", SUM, data={"total": str}),
    Call("component.get_summary", NOWHERE, 210, says="no data"),
    Call("component.get_summary", NAMELESS, 400, says="component_name"),
    Call("component.output_model", SUM, data={}, says="no data"),
    Call("component.output_model", NAMELESS, 101, says="component_name"),
    Call("privilege.query", {"src_party_id": int(HOST), "src_role": "host"}, given=something_that_is_granted,
         data={**GRANTED, "src_party_id": HOST, "src_role": "host", "role": Some(str), "command": Some(str)}),
    Call("privilege.query", {"src_party_id": "nobody", "src_role": "host"}, 101, says="party_id"),
    Call("privilege.query", {"src_party_id": HOST, "src_role": "boss"}, 101, says="role"),
    Call("privilege.grant", {"src_party_id": HOST, "src_role": "host"}, 101, says="privilege_dataset"),
    Call("privilege.delete", {"src_party_id": HOST, "src_role": "host"}, 101, says="privilege_dataset"),
    Call("test.toy", {"guest_party_id": GUEST, "host_party_id": HOST}, data=SUBMITTED, given=afterwards_at_rest),
    Call("test.toy", {"guest_party_id": HOST, "host_party_id": GUEST}, 103, says="party 10000"),
    Call("test.toy", {"guest_party_id": GUEST, "host_party_id": "x"}, 103, says="'x'"),
)


def filled(value: Any, facts: dict[str, str]) -> Any:
    """With the facts in their places; `@name` is what stands in that file."""
    if isinstance(value, dict):
        return {key: filled(one, facts) for key, one in value.items()}
    if isinstance(value, str) and value.startswith("@"):
        return json.loads(Path(facts["files"], f"{value[1:]}.json").read_text(encoding="utf-8"))
    return value.format_map(facts) if isinstance(value, str) else value
