"""What the genuine `flow` is asked, and what it has to print: for each line of the checklist one success at least, and
two failures. Words and documents are those of client-api-v1; `{job}` and the like stand for `World.facts`.

Of some commands no data can be wrong; `test_genuine_refusals.py` has two more failures for each of them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.genuine.world import (
    Given,
    a_configuration_that_changed,
    a_configuration_that_is_wrong,
    a_connector,
    a_job_that_failed,
    a_job_that_is_over,
    a_job_that_runs,
    a_job_that_waits,
    a_job_with_metrics,
    a_key_of_the_host,
    a_table_that_is_disabled,
    a_table_to_spare,
    afterwards_at_rest,
    no_copy_of_that_name,
    no_copy_through_a_connector,
    no_file_of_that_name,
    no_key_of_the_host,
    no_table_of_that_name,
    no_table_that_is_disabled,
    nothing_that_is_granted,
    something_that_is_granted,
)
from tests.kit.api.shapes import Each, Some

NO_ENVELOPE = -1
"""Instead of a retcode: the client itself refuses, with exit code 2 and its usage."""


NOTHING = ("no data", "no job could be found")
"""A retcode of 0 says that there is nothing."""


@dataclass(frozen=True)
class Case:
    """One call. With `given` it changes something, and runs while nothing else does."""

    line: str                         # of the checklist
    text: str                         # after `flow`
    retcode: int = 0
    data: Any = None                  # the shape of `data`
    says: str = ""                    # is in `retmsg`, or in the usage
    given: Given | None = None
    printed: Any = None               # the shape of all that is printed

    @property
    def name(self) -> str:
        state = f" ({self.given.__name__.replace('_', ' ')})" if self.given else ""
        return f"{self.line}: {self.text}{state}"

    @property
    def is_success(self) -> bool:
        return self.retcode == 0 and self.says not in NOTHING


def usage(line: str, text: str, says: str) -> Case:
    return Case(line, text, NO_ENVELOPE, says=says)


SEAT = "-j {job} -r guest -p {guest}"
READER = f"{SEAT} -cpn reader_0"
SUM = f"{SEAT} -cpn sum_0"
NOWHERE = "-j {unknown} -r guest -p {guest} -cpn sum_0"
NO_PARTY = "-j {job} -r guest -p nobody -cpn sum_0"

TIMES = {"create_time": int, "start_time": int, "end_time": int, "elapsed": int}
JOB_ROW = {
    "job_id": str, "role": str, "party_id": (int, str), "status": str, "progress": int, "roles": dict,
    "initiator_role": str, "initiator_party_id": str, "is_initiator": (bool, int), "name": str, "description": str,
    "tag": (str, type(None)), **TIMES, "update_time": int,
}  # fmt: skip
TASK_ROW = {
    "job_id": str, "role": str, "party_id": str, "component_name": str, "task_id": str, "task_version": int,
    "status": str, "party_status": str, "federated_status_collect_type": str, "auto_retries": int, **TIMES,
}  # fmt: skip
OUTPUT_ROW = {
    "f_job_id": str, "f_component_name": str, "f_task_id": str, "f_task_version": int, "f_data_name": str,
    "f_role": str, "f_party_id": str, "f_table_name": str, "f_table_namespace": str, "f_create_time": int,
}  # fmt: skip
SUBMITTED = {
    "job_id": str, "code": 0, "message": "success", "logs_directory": str, "board_url": str, "dsl_path": str,
    "model_info": {"model_id": "guest-9999#host-10000#model", "model_version": str}, "runtime_conf_path": str,
    "runtime_conf_on_party_path": str, "train_runtime_conf_path": str, "pipeline_dsl_path": str,
    "warnings": Some(str),
}  # fmt: skip
LOCAL = {**SUBMITTED, "model_info": {"model_id": "local-0#model", "model_version": str}}
UPLOADED = {**LOCAL, "table_name": "fresh", "namespace": "it"}
WRITTEN = {"table_name": "numbers", "namespace": "it"}
TABLE = {
    "table_name": "numbers", "namespace": "it", "exist": 1, "count": 20, "partition": 2, "enable": True,
    "schema": {"header": [str], "sid": "id"}, "origin": str, "extend_sid": bool, "address": dict,
}  # fmt: skip
SPARE = "-n it -t spare"
PROVIDERS = Each(Each({"path": str, "class_path": dict, "components": [str]}))


def prefixed(row: dict[str, Any]) -> dict[str, Any]:
    return {f"f_{key}": value for key, value in row.items()}


JOBS = (
    Case("flow job submit", "job submit -c {files}/conf.json -d {files}/dsl.json", data=SUBMITTED,
         given=afterwards_at_rest, printed={"jobId": str, "retmsg": "success"}),
    Case("flow job submit", "job submit -c {files}/conf.json -d {files}/dsl_unknown.json", 103, says="Magic"),
    Case("flow job submit", "job submit -c {files}/conf_of_1.json -d {files}/dsl.json", 103, says="dsl_version"),
    Case("flow job submit", "job submit -c {files}/conf_at_host.json -d {files}/dsl.json", 103, says="party 10000"),
    Case("flow job submit", "job submit -c {files}/conf.json", 103, says="dsl.components"),
    usage("flow job submit", "job submit -d {files}/dsl.json", "conf-path"),
    Case("flow job list", "job list -l 3", data={"jobs": [{**JOB_ROW, "partners": Some(int), "party_id": int}],
                                                 "count": int}),
    Case("flow job list", "job list -l -1", 400, says="limit"),
    usage("flow job list", "job list -l many", "many"),
    Case("flow job query", f"job query {SEAT}", data=[prefixed(JOB_ROW)]),
    Case("flow job query", "job query -s failed -r guest", data=[prefixed(JOB_ROW)]),
    Case("flow job query", "job query -j {unknown}", data=Some(dict), says="no job could be found"),
    Case("flow job query", "job query", data=Some(dict), says="no job could be found"),
    Case("flow job query", "job query -j {job} -p nobody", data=Some(dict), says="no job could be found"),
    usage("flow job query", "job query -r nobody", "nobody"),
    usage("flow job query", "job query -s asleep", "asleep"),
    Case("flow job stop", "job stop -j {job}", says="success", given=a_job_that_runs),
    Case("flow job stop", "job stop -j {unknown}", 102, says="can not found job"),
    Case("flow job stop", "job stop -j ../../etc", 101, says="job_id"),
    usage("flow job stop", "job stop", "job-id"),
    Case("flow job rerun", "job rerun -j {job}", says="rerun job success", given=a_job_that_failed),
    Case("flow job rerun", "job rerun -j {job} --force -cpn reader_0", says="rerun job success",
         given=a_job_that_failed),
    Case("flow job rerun", "job rerun -j {unknown}", 102, says="can not found job"),
    Case("flow job rerun", "job rerun -j {failed} -cpn magic_0", 101, says="magic_0"),
    Case("flow job parameter-update", "job parameter-update -j {job} -c {files}/update.json", says="success",
         given=a_job_that_is_over, data={
             "job_parameters": {"common": {"task_cores": 1, "timeout": 600}}, "components": ["reader_0"],
             "component_parameters": {"common": {"reader_0": {"table": {"name": "numbers", "namespace": "it"}}}},
         }),
    Case("flow job parameter-update", "job parameter-update -j {unknown} -c {files}/update.json", 102,
         says="can not found job"),
    Case("flow job parameter-update", "job parameter-update -j {failed} -c {files}/update_unknown.json", 101,
         says="magic_0"),
    Case("flow job parameter-update", "job parameter-update -j {failed} -c {files}/update_fixed.json", 101,
         says="job_type: cannot be changed"),
    Case("flow job parameter-update", "job parameter-update -j {job} -c {files}/update.json", 103, says="is running",
         given=a_job_that_runs),
    usage("flow job parameter-update", "job parameter-update -j {failed}", "conf-path"),
    Case("flow job config", f"job config {SEAT} -o {{files}}", says="download successfully",
         data={"train_runtime_conf": dict, "model_info": {"model_id": str, "model_version": str}},
         printed={"directory": str}),
    Case("flow job config", "job config -j {unknown} -r guest -p {guest} -o {files}", 101, says="find job failed"),
    Case("flow job config", "job config -j {job} -r host -p {guest} -o {files}", 101, says="find job failed"),
    usage("flow job config", f"job config {SEAT}", "output-path"),
    Case("flow job log", "job log -j {job} -o {files}", says="download successfully", printed={"directory": str}),
    Case("flow job log", "job log -j {unknown} -o {files}", 404, says="not found"),
    Case("flow job log", "job log -j ../x -o {files}", 400, says="job_id"),
    Case("flow job view", f"job view {SEAT}", data=[OUTPUT_ROW]),
    Case("flow job view", f"job view {SEAT} -s success", data=[OUTPUT_ROW]),
    Case("flow job view", "job view -j {unknown}", 101, says="find data view failed"),
    Case("flow job view", "job view", 101, says="job_id"),
)

TASKS = (
    Case("flow task list", "task list -l 3", data={"tasks": [TASK_ROW], "count": int}),
    Case("flow task list", "task list -l -1", 400, says="limit"),
    usage("flow task list", "task list -l many", "many"),
    Case("flow task query", f"task query {SUM}", data=[prefixed(TASK_ROW)]),
    Case("flow task query", "task query -j {job} -s success", data=[prefixed(TASK_ROW)]),
    Case("flow task query", "task query -j {unknown}", 101, says="find task failed"),
    Case("flow task query", "task query", 101, says="find task failed"),
    Case("flow queue clean", "queue clean", data=Each(0), given=a_job_that_waits),
    usage("flow queue clean", "queue clean -j {job}", "no such option"),
    usage("flow queue clean", "queue sweep", "sweep"),
    Case("flow resource query", "resource query", data={
        "use_resource_job": Some({"job_id": str, "role": str, "party_id": str, "core": int, "memory": int}),
        "computing_engine_resource": {"f_engine_name": str, "f_cores": int, "f_memory": int,
                                      "f_remaining_cores": int, "f_remaining_memory": int, "f_nodes": int},
    }),
    Case("flow resource query", "resource query", data={
        "use_resource_job": [{"job_id": str, "role": "guest", "party_id": "9999", "core": int, "memory": int}],
    }, given=a_job_that_runs),
    usage("flow resource query", "resource query -j {job}", "no such option"),
    usage("flow resource query", "resource ask", "ask"),
    Case("flow resource return", "resource return -j {job}", data=[
        {"job_id": str, "role": "guest", "party_id": "9999", "resource_in_use": False,
         "resource_return_status": False}]),
    Case("flow resource return", "resource return", 101, says="job_id"),
    Case("flow resource return", "resource return -j {unknown}", 100, says="can not found job"),
    Case("flow resource return", "resource return -j {job}", 100, says="is running", given=a_job_that_runs),
)

BODY = "flow data upload (use_local_data=0, JSON body)"
FORM = "flow data upload (multipart, JSON as query string)"
DATA = (
    Case(FORM, "data upload -c {files}/upload.json", data=UPLOADED, given=no_table_of_that_name,
         printed={"jobId": str}),
    Case(FORM, "data upload -c {files}/upload.json --drop --verbose", data=UPLOADED, given=no_table_of_that_name),
    Case(FORM, "data upload -c {files}/upload_percent.json --drop", data={**UPLOADED, "namespace": "100% it"},
         given=afterwards_at_rest),
    Case(FORM, "data upload -c {files}/upload_numbers.json", 100, says="The data table already exists"),
    Case(FORM, "data upload -c {files}/upload_nameless.json", 100, says="table_name"),
    Case(FORM, "data upload -c {files}/upload_nothing.json", 100, says="does not exist"),
    Case(BODY, "data upload -c {files}/upload_here.json", data=UPLOADED, given=no_table_of_that_name),
    Case(BODY, "data upload -c {files}/upload_here_gone.json", 101, says="gone.csv"),
    Case(BODY, "data upload -c {files}/upload_here_secret.json", 101, says="is not below"),
    Case("flow data download", "data download -c {files}/download.json", given=no_file_of_that_name,
         data={**LOCAL, "table_name": "numbers", "namespace": "it"}, printed={"jobId": str}),
    Case("flow data download", "data download -c {files}/download_unknown.json", 101, says="not there"),
    Case("flow data download", "data download -c {files}/download_outside.json", 101, says="is not below"),
    Case("flow data upload-history", "data upload-history -j {uploaded}", data=[Each({
        "upload_info": {"table_name": "numbers", "namespace": "it", "partition": 2, "upload_count": 20},
        "notes": str, "schema": dict})]),
    Case("flow data upload-history", "data upload-history -l 2", data=[Each({"upload_info": dict})]),
    Case("flow data upload-history", "data upload-history -l -1", 101, says="limit"),
    Case("flow data upload-history", "data upload-history -j x", 101, says="job_id"),
    usage("flow data upload-history", "data upload-history -l many", "many"),
    Case("flow table info", "table info -n it -t numbers", data=TABLE),
    Case("flow table info", "table info -n it -t nothing",
         data={"table_name": "nothing", "namespace": "it", "exist": 0, "count": 0}),
    Case("flow table info", "table info -n it -t ..", 101, says="table_name"),
    Case("flow table info", "table info -n .. -t numbers", 101, says="namespace"),
    usage("flow table info", "table info -n it", "table-name"),
    usage("flow table info", "table info -t numbers", "namespace"),
    Case("flow table delete", f"table delete {SPARE}", data={"table_name": "spare", "namespace": "it"},
         given=a_table_to_spare),
    Case("flow table delete", "table delete -n it -t nothing", 101, says="no find table"),
    Case("flow table delete", "table delete -n it", 101, says="table_name"),
    Case("flow table disable", f"table disable {SPARE}", data=[{"table_name": "spare", "namespace": "it"}],
         given=a_table_to_spare),
    Case("flow table disable", "table disable -n it -t nothing", 101, says="no find table"),
    Case("flow table disable", "table disable", 101, says="namespace"),
    Case("flow table enable", f"table enable {SPARE}", data=[{"table_name": "spare", "namespace": "it"}],
         given=a_table_that_is_disabled),
    Case("flow table enable", "table enable -n it -t nothing", 101, says="no find table"),
    Case("flow table enable", "table enable -t spare", 101, says="namespace"),
)

FROM_A_FILE = tuple(
    case
    for verb in ("add", "bind")
    for case in (
        Case(f"flow table {verb}", f"table {verb} -c {{files}}/bind.json", data=UPLOADED, printed={"jobId": str},
             given=no_table_of_that_name),
        Case(f"flow table {verb}", f"table {verb} -c {{files}}/bind_numbers.json", 100, says="already exists"),
        Case(f"flow table {verb}", f"table {verb} -c {{files}}/bind_mysql.json", 101,
             says="does not connect to addresses that a client sends"),
        Case(f"flow table {verb}", f"table {verb} -c {{files}}/bind_hive.json", 101, says="does not offer 'HIVE'"),
        Case(f"flow table {verb}", f"table {verb} -c {{files}}/bind_nameless.json", 101, says="missing: name"),
        Case(f"flow table {verb}", f"table {verb} -c {{files}}/bind_secret.json", 101, says="is not below"),
    )
)

LOOKS = tuple(
    case
    for group in ("component", "tracking")
    for case in (
        Case(f"flow {group} metrics", f"{group} metrics {SUM}", data=Each([str])),
        Case(f"flow {group} metrics", f"{group} metrics {NOWHERE}", data={}, says="no data"),
        Case(f"flow {group} metrics", f"{group} metrics {SEAT} -cpn a/b", 101, says="component_name"),
        Case(f"flow {group} metrics", f"{group} metrics {NO_PARTY}", 101, says="party_id"),
        usage(f"flow {group} metrics", f"{group} metrics {SEAT}", "component-name"),
        Case(f"flow {group} metric-all", f"{group} metric-all {SUM}", data=Each(Each({"data": [list], "meta": dict}))),
        Case(f"flow {group} metric-all", f"{group} metric-all {NOWHERE}", data={}, says="no data"),
        Case(f"flow {group} metric-all", f"{group} metric-all {SEAT} -cpn a/b", 101, says="component_name"),
        Case(f"flow {group} metric-all", f"{group} metric-all {NO_PARTY}", 101, says="party_id"),
        usage(f"flow {group} metric-all", f"{group} metric-all {SEAT}", "component-name"),
        Case(f"flow {group} parameters", f"{group} parameters {SUM}",
             data={"module": "SecureSum", "ComponentParam": {"column": "y"}}),
        Case(f"flow {group} parameters", f"{group} parameters {NOWHERE}", 101, says="can not found this task"),
        Case(f"flow {group} parameters", f"{group} parameters {SEAT} -cpn magic_0", 101,
             says="can not found this task"),
        Case(f"flow {group} output-data-table", f"{group} output-data-table {READER}",
             data=[{"table_name": "numbers", "table_namespace": "it", "data_name": "raw"}]),
        Case(f"flow {group} output-data-table",
             f"{group} output-data-table -j {{job}} -r host -p {{host}} -cpn reader_0",
             data=[{"table_name": "numbers", "table_namespace": "it", "data_name": "raw"}]),
        Case(f"flow {group} output-data-table", f"{group} output-data-table {NOWHERE}", 100, says="No found job"),
        Case(f"flow {group} output-data-table", f"{group} output-data-table {SEAT} -cpn magic_0", 100,
             says="has no magic_0; it has reader_0"),
        Case(f"flow {group} get-summary", f"{group} get-summary {SUM}", data={"total": str}),
        Case(f"flow {group} get-summary", f"{group} get-summary {SUM} -o {{files}}", says="stored successfully"),
        Case(f"flow {group} get-summary", f"{group} get-summary {NOWHERE}", 210, says="no data"),
        Case(f"flow {group} get-summary", f"{group} get-summary {SEAT} -cpn a/b", 400, says="component_name"),
        Case(f"flow {group} output-data", f"{group} output-data {READER} -o {{files}}",
             says="ownload successfully", printed={"directory": str}),
        Case(f"flow {group} output-data", f"{group} output-data {NOWHERE} -o {{files}}", 210, says="no data"),
        Case(f"flow {group} output-data", f"{group} output-data {READER} -o {{files}} -l 0", 210, says="limit is 0"),
    )
)

SERVER = (
    Case("flow component list", "component list -j {job}", data={"components": [str]}),
    Case("flow component list", "component list -j {unknown}", 100, says="can not found job"),
    Case("flow component list", "component list -j x/y", 101, says="job_id"),
    Case("flow server versions", "server versions", data={
        "FATE": "1.11.2", "FATEFlow": "1.11.2", "FATEBoard": str, "EGGROLL": str, "CENTOS": str, "UBUNTU": str,
        "PYTHON": str, "MAVEN": str, "JDK": str, "SPARK": str, "API": "v1"}),
    usage("flow server versions", "server versions -v", "no such option"),
    usage("flow server versions", "server version", "version"),
    Case("flow service registry", "service registry", data={
        "FATEFLOW": {"host": str, "http_port": int}, "DATABASE": {"engine": str}, "ROUTES": Each({"url": str}),
        "JOB_DEFAULT_CONFIG": {"task_cores": int}, "AUTHENTICATION": {"client": {"switch": False}}}),
    usage("flow service registry", "service registry -n x", "no such option"),
    usage("flow service registry", "service register", "register"),
    Case("flow server reload", "server reload",
         data={"job_default_config": {"task_cores": int}, "server_registry": {}}),
    Case("flow server reload", "server reload", 103, says="defaults: changed in", given=a_configuration_that_changed),
    Case("flow server reload", "server reload", 100, says="nonsense: no such key",
         given=a_configuration_that_is_wrong),
    Case("flow provider list", "provider list", data=PROVIDERS),
    Case("flow provider list", "provider list -n magic", 404, says="magic"),
    usage("flow provider list", "provider list -c x", "no such option"),
    Case("flow provider list -n", "provider list -n fate_flow", data=PROVIDERS),
    Case("flow provider list -n", "provider list -n magic", 404, says="magic"),
    usage("flow provider list -n", "provider list -n", "argument"),
    Case("flow provider list-components", "provider list-components", data={"components": Each(dict)}),
    usage("flow provider list-components", "provider list-components -n x", "no such option"),
    usage("flow provider list-components", "provider components", "components"),
)

LEFT = (
    Case("flow table disable-delete", "table disable-delete", data=[{"table_name": str, "namespace": "it"}],
         given=a_table_that_is_disabled),
    Case("flow table disable-delete", "table disable-delete", 101, says="no find table",
         given=no_table_that_is_disabled),
    usage("flow table disable-delete", "table disable-delete -n it", "no such option"),
    Case("flow table tracking-source", "table tracking-source -n it -t numbers", data=Some(dict)),
    Case("flow table tracking-source", "table tracking-source -n it -t nothing", 100, says="no find table"),
    Case("flow table tracking-source", "table tracking-source -n it", 101, says="table_name"),
    Case("flow table tracking-job", "table tracking-job -n it -t numbers", data={"count": int, "job": [str]}),
    Case("flow table tracking-job", "table tracking-job -n it -t nothing", 100, says="no find table"),
    Case("flow table tracking-job", "table tracking-job -t numbers", 101, says="namespace"),
    Case("flow component metric-delete", "component metric-delete -j {job}", data="delete status: True",
         given=a_job_with_metrics),
    Case("flow component metric-delete", "component metric-delete -d 20200101", data="delete status: False"),
    Case("flow component metric-delete", "component metric-delete -j {unknown}", 102, says="can not found job"),
    Case("flow component metric-delete", "component metric-delete -d yesterday", 101, says="yesterday"),
    Case("flow component metric-delete", "component metric-delete", 101, says="job_id"),
    Case("flow component metric-delete", "component metric-delete -j {job}", 103, says="is running",
         given=a_job_that_runs),
    Case("flow template download", "template download -o {files}", says="download successfully",
         printed={"directory": str}),
    Case("flow template download", "template download -o {files} --min-data -1", 400, says="min_data"),
    usage("flow template download", "template download -o {files} --min-data many", "many"),
)

QUERY = "table connector-query --connector-name"
ELSEWHERE = (
    Case("flow data writer", "data writer -c {files}/writer.json", data={**LOCAL, **WRITTEN}, printed={"jobId": str},
         given=no_copy_of_that_name),
    Case("flow data writer", "data writer -c {files}/writer_connector.json", data={**LOCAL, **WRITTEN},
         given=no_copy_through_a_connector),
    Case("flow data writer", "data writer -c {files}/writer_mysql.json", 101,
         says="does not connect to addresses that a client sends"),
    Case("flow data writer", "data writer -c {files}/writer_outside.json", 101, says="is not below"),
    Case("flow data writer", "data writer -c {files}/writer_nowhere.json", 101, says="address: is missing"),
    Case("flow data writer", "data writer -c {files}/writer_unknown.json", 101, says="there is no table 'nothing'"),
    usage("flow data writer", "data writer", "conf-path"),
    Case("flow table connector-create", "table connector-create -c {files}/connector.json", says="success"),
    Case("flow table connector-create", "table connector-create -c {files}/connector_mysql.json", 101,
         says="does not offer 'MYSQL'"),
    Case("flow table connector-create", "table connector-create -c {files}/connector_outside.json", 101,
         says="is not below"),
    Case("flow table connector-create", "table connector-create -c {files}/bind.json", 101,
         says="missing: connector_name,connector_info"),
    Case("flow table connector-query", f"{QUERY} downloads",
         data={"connector_name": "downloads", "engine": "PATH", "path": "downloads"}, given=a_connector),
    Case("flow table connector-query", f"{QUERY} nothing", 100, says="there is no connector 'nothing'"),
    Case("flow table connector-query", f"{QUERY} ..", 101, says="connector_name: '..'"),
    usage("flow table connector-query", "table connector-query", "connector-name"),
)

DSL = "job dsl --train-dsl-path {files}/train_dsl.json"
PREDICTS = {"components": {
    "reader_0": {"module": "Reader", "output": {"data": ["raw"]}},
    "lr_0": {"module": "HeteroLR", "input": {"data": {"test_data": ["reader_0.raw"]}, "model": ["pipeline.lr_0.lr"]}},
}}  # fmt: skip
PREDICTION = (
    Case("flow job dsl", f"{DSL} --cpn-list 'reader_0, lr_0'", data=PREDICTS),
    Case("flow job dsl", f"{DSL} --cpn-list [lr_0]", data=PREDICTS),
    Case("flow job dsl", f"{DSL} --cpn-path {{files}}/names.txt", data=PREDICTS),
    Case("flow job dsl", DSL, data={"components": {"reader_0": dict, "lr_0": dict, "report_0": dict}}),
    Case("flow job dsl", f"{DSL} -o {{files}}", says="generated successfully"),
    Case("flow job dsl", f"{DSL} --cpn-list magic_0", 210, says="magic_0"),
    Case("flow job dsl", f"{DSL} --cpn-list magic_0 -o {{files}}", 210, says="magic_0"),
    Case("flow job dsl", "job dsl --train-dsl-path {files}/names.txt", 210, says="is not JSON"),
    Case("flow job dsl", "job dsl --train-dsl-path {files}/conf.json", 210, says="components"),
    usage("flow job dsl", "job dsl", "train-dsl-path"),
)

GRANTED = {"component": [str], "dataset": [(str, dict)]}
PRIVILEGES = (
    Case("flow privilege grant", "privilege grant -c {files}/privilege.json", says="success",
         given=nothing_that_is_granted),
    Case("flow privilege grant", "privilege grant -c {files}/privilege_of_fate.json", data={"warnings": [str]},
         given=nothing_that_is_granted),
    Case("flow privilege delete", "privilege delete -c {files}/privilege.json", says="success",
         given=something_that_is_granted),
    Case("flow privilege delete", "privilege delete -c {files}/privilege.json", 100, says="was not granted",
         given=nothing_that_is_granted),
    *(
        case
        for verb in ("grant", "delete")
        for case in (
            Case(f"flow privilege {verb}", f"privilege {verb} -c {{files}}/privilege_unknown.json", 101, says="magic"),
            Case(f"flow privilege {verb}", f"privilege {verb} -c {{files}}/privilege_nothing.json", 101,
                 says="component or dataset"),
            Case(f"flow privilege {verb}", f"privilege {verb} -c {{files}}/privilege_of_nobody.json", 101,
                 says="party_id"),
            usage(f"flow privilege {verb}", f"privilege {verb}", "conf-path"),
        )
    ),
    Case("flow privilege query", "privilege query -p {host}", data=GRANTED, given=something_that_is_granted),
    Case("flow privilege query", "privilege query -p {host}", data={"component": Some(str), "dataset": Some(dict)},
         given=nothing_that_is_granted),
    Case("flow privilege query", "privilege query -p nobody", 101, says="party_id"),
    Case("flow privilege query", "privilege query -p 12345678901", 101, says="party_id"),
    usage("flow privilege query", "privilege query", "party-id"),
)

ID_OF_A_KEY = {"key_id": str}
KEYS = (
    Case("flow key save", "key save -c {files}/key.json", data="save success", printed=ID_OF_A_KEY,
         given=no_key_of_the_host),
    Case("flow key save", "key save -c {files}/key.json", data="update success", printed=ID_OF_A_KEY,
         given=a_key_of_the_host),
    Case("flow key save", "key save -c {files}/key_replacing.json", data="update success", printed=ID_OF_A_KEY,
         given=a_key_of_the_host),
    Case("flow key save", "key save -c {files}/key_other.json", 100, says="to replace it", given=a_key_of_the_host),
    Case("flow key save", "key save -c {files}/key_replacing.json", 100, says="none to replace",
         given=no_key_of_the_host),
    Case("flow key save", "key save -c {files}/key_bad.json", 101, says="is not a public key in PEM"),
    Case("flow key save", "key save -c {files}/key_private.json", 101, says="is a private key"),
    Case("flow key save", "key save -c {files}/key_own.json", 100, says="is this party itself"),
    Case("flow key save", "key save -c {files}/key_nameless.json", 101, says="party_id"),
    Case("flow key query", "key query -p {guest}", data=str, printed=ID_OF_A_KEY),
    Case("flow key query", "key query -p {host}", data=str, printed=ID_OF_A_KEY, given=a_key_of_the_host),
    Case("flow key query", "key query -p 10009", 101, says="no public key of party 10009"),
    Case("flow key query", "key query -p nobody", 101, says="party_id"),
    usage("flow key query", "key query", "party-id"),
    Case("flow key delete", "key delete -p {host}", says="success", given=a_key_of_the_host),
    Case("flow key delete", "key delete -p {host}", 101, says="no public key", given=no_key_of_the_host),
    Case("flow key delete", "key delete -p {guest}", 100, says="is this party itself"),
    Case("flow key delete", "key delete -p nobody", 101, says="party_id"),
)

CASES: tuple[Case, ...] = (
    *JOBS, *TASKS, *DATA, *FROM_A_FILE, *LOOKS, *SERVER, *LEFT, *ELSEWHERE, *PREDICTION, *PRIVILEGES, *KEYS
)
