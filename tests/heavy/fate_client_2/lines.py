"""What the `flow` of fate_client 2.2.0 can be asked, and what it has to print here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.genuine.world import (
    Given,
    a_job_that_failed,
    a_job_that_is_over,
    a_job_that_runs,
    a_job_that_waits,
    a_job_with_metrics,
    a_table_to_spare,
    a_trained_model,
    an_exported_model,
    nothing_that_is_granted,
    something_that_is_granted,
)
from tests.kit.api.shapes import Each, Some
from tests.kit.servers.party_servers import GUEST

LINES = (
    "flow init", "flow version",
    *(f"flow client {verb}-{noun}" for noun in ("client", "site", "partner") for verb in ("create", "delete", "query")),
    *(f"flow job {verb}" for verb in (
        "submit", "query", "list", "stop", "rerun", "add-notes", "download-log", "clean-queue", "clean", "dependency",
    )),
    "flow task query", "flow task list",
    *(f"flow data {verb}" for verb in ("upload", "upload-file", "transformer", "download", "download-component")),
    "flow table query", "flow table delete", "flow table bind",
    *(f"flow output {verb}" for verb in (
        "query-metric-key", "query-metric", "delete-metric", "query-model", "download-model", "delete-model",
        "download-data", "query-data-table", "display-data",
    )),
    "flow model export", "flow model import", "flow model delete",
    "flow log count", "flow log query",
    *(f"flow permission {verb}" for verb in (
        "grant", "delete", "query", "grant-resource", "delete-resource", "query-resource",
    )),
    "flow provider register", "flow provider query", "flow provider delete",
    "flow server info", "flow site query", "flow test toy",
)  # fmt: skip
"""All commands. A test compares them with those of the client itself, and the documents with these."""

SEAT = "-j {job} -r guest -p {guest}"
READER = f"{SEAT} -tn reader_0"
NOWHERE = "-j {job} -r guest -p {guest} -tn magic_0"


@dataclass(frozen=True)
class Case:
    """One call."""

    line: str                    # one of LINES
    text: str                    # after `flow`
    code: int = 0
    data: Any = None             # the shape of `data`
    says: str = ""               # is in `message`
    printed: Any = None          # the shape of all that is printed; it may have no `code` then
    given: Given | None = None
    makes_job: bool = False      # the answer has the id of a job, which has to succeed

    @property
    def name(self) -> str:
        return f"{self.line}: {self.text}"


def of_task(line: str, more: str = "", **shape: Any) -> tuple[Case, Case]:
    """A command about the outputs of a task: a success, and a task that is not there."""
    text = line.removeprefix("flow ")
    return (
        Case(line, f"{text} {READER}{more}", **shape),
        Case(line, f"{text} {NOWHERE}{more}", 2000, says="task_name[magic_0]"),
    )  # fmt: skip


def refused(line: str, text: str, says: str) -> Case:
    return Case(line, text, 6001, says=f"this server does not offer {says}")


CLIENTS = (
    refused("flow client create-client", "client create-client --app-name a", "clients"),
    refused("flow client delete-client", "client delete-client --app-id a", "clients"),
    refused("flow client query-client", "client query-client", "clients"),
    refused("flow client create-site", "client create-site -p 9999", "keys of sites"),
    refused("flow client delete-site", "client delete-site -p 9999", "keys of sites"),
    refused("flow client query-site", "client query-site -p 9999", "keys of sites"),
    refused("flow client create-partner", "client create-partner -p 9 --app-id a --app-token t", "partners"),
    refused("flow client delete-partner", "client delete-partner -p 9", "partners"),
    refused("flow client query-partner", "client query-partner", "partners"),
    refused("flow permission grant", "permission grant --app-id a -r client", "roles of clients"),
    refused("flow permission delete", "permission delete --app-id a -r client", "roles of clients"),
    refused("flow permission query", "permission query --app-id a", "roles of clients"),
    refused("flow provider register", "provider register -c {files}/provider_2.json", "providers"),
    refused("flow provider delete", "provider delete -n fate", "providers"),
)  # fmt: skip

SITE = (
    Case("flow site query", "site query", data={"party_id": GUEST}),
    Case("flow server info", "server info", data=Each({"host": str, "http_port": int, "instance_id": str})),
    Case("flow provider query", "provider query", data=[{"provider_name": str, "device": "local", "metadata": dict}]),
    Case("flow provider query", "provider query --device k8s", data=Some(dict)),
    Case("flow permission grant-resource", "permission grant-resource -c {files}/grant_2.json",
         given=nothing_that_is_granted),
    Case("flow permission grant-resource", "permission grant-resource -c {files}/grant_magic_2.json", 5006,
         says="component: 'magic' is not one of"),
    Case("flow permission query-resource", "permission query-resource -p {host}",
         data={"component": [str], "dataset": list}, given=something_that_is_granted),
    Case("flow permission delete-resource", "permission delete-resource -c {files}/grant_2.json",
         given=something_that_is_granted),
    Case("flow permission delete-resource", "permission delete-resource -c {files}/grant_2.json", 5006,
         says="was not granted", given=nothing_that_is_granted),
    Case("flow log count", "log count --log-type schedule_info -j {job}", data=int),
    Case("flow log count", "log count --log-type magic -j {job}", 5001, says="log_type"),
    Case("flow log query", f"log query --log-type task_info {SEAT} -tn reader_0",
         data=[{"line_num": int, "content": str}]),
    Case("flow log query", "log query --log-type task_info -j {job}", 5001, says="Invalid request."),
)  # fmt: skip

TABLE = {"namespace": "it", "name": "numbers", "count": 20, "engine": "standalone", "data_type": "table", "meta": dict}
UPLOADED = {"namespace": str, "name": str}
DOWNLOADED = {"code": 0, "directory": str}
TABLES = (
    Case("flow table query", "table query -ns it -n numbers", data=TABLE),
    Case("flow table query", "table query -ns it -n numbers -d true", data={**TABLE, "display": [list]}),
    Case("flow table query", "table query -ns it -n gone", 7001, says="No found table: name[gone],namespace[it]"),
    Case("flow table bind", "table bind -ns it -n bound_2 -o {here}", data=UPLOADED, makes_job=True),
    Case("flow table bind", "table bind -ns it -n bound_2 -o /etc/passwd", 5001, says="path: '/etc/passwd'"),
    Case("flow table delete", "table delete -ns it -n spare", given=a_table_to_spare),
    Case("flow table delete", "table delete -ns it -n gone", 7001, says="name[gone]"),
    Case("flow data upload", "data upload -c {files}/upload_2.json", data=UPLOADED, makes_job=True),
    Case("flow data upload", "data upload -c {files}/upload_secret_2.json", 5001, says="file: '/etc/passwd'"),
    Case("flow data upload-file", "data upload-file -c {files}/upload_file_2.json", data=UPLOADED, makes_job=True),
    Case("flow data upload-file", "data upload-file -c {files}/upload_file_bad_2.json", 5001, says="Invalid request."),
    Case("flow data transformer", "data transformer -c {files}/transformer_2.json", data=UPLOADED, makes_job=True),
    Case("flow data transformer", "data transformer -c {files}/transformer_gone_2.json", 7001, says="name[gone]"),
    Case("flow data download", "data download -ns it -n numbers -o got", printed=DOWNLOADED),
    Case("flow data download", "data download -ns it -n gone -o got", 7001, says="name[gone]"),
    Case("flow data download-component", "data download-component -ns it -n numbers -o downloads/n_2.csv",
         data={**UPLOADED, "path": str}, makes_job=True),
    Case("flow data download-component", "data download-component -ns it -n numbers -o /etc/n.csv", 5001,
         says="path: '/etc/n.csv'"),
)  # fmt: skip

METRIC = {"name": str, "type": str, "groups": [{"name": str}], "step_axis": (str, type(None))}
ROWS = {"data": [[str]], "metadata": {"header": str}, "total": 20}
OUTPUTS = (
    *of_task("flow output query-data-table", printed=Each([{"namespace": str, "name": str}])),
    *of_task("flow output display-data", printed=Each([ROWS])),
    *of_task("flow output download-data", " -o got", printed=DOWNLOADED),
    *of_task("flow output query-metric", data=[{**METRIC, "data": (dict, list)}]),
    *of_task("flow output query-metric-key", data=[METRIC]),
    Case("flow output delete-metric", f"output delete-metric {SEAT} -tn toy_0", data=True, given=a_job_with_metrics),
    Case("flow output delete-metric", f"output delete-metric {NOWHERE}", 2000, says="task_name[magic_0]"),
)  # fmt: skip

WHEN = (int, type(None))
TIMES = {"create_time": int, "start_time": WHEN, "end_time": WHEN, "elapsed": WHEN, "update_time": int}
JOB = {
    "job_id": str, "role": str, "party_id": str, "status": str, "progress": int, "dag": {"dag": dict}, **TIMES,
    "parties": [{"role": str, "party_id": [str]}], "model_id": str, "description": str,
}  # fmt: skip
TASK = {
    "job_id": str, "role": str, "party_id": str, "task_name": str, "task_id": str, "task_version": int, "status": str,
    "component": str, "component_parameters": dict, "provider_name": str, **TIMES,
}  # fmt: skip
JOBS = (
    Case("flow job submit", "job submit -c {files}/dag.yaml", makes_job=True,
         data={"model_id": str, "model_version": "0"}),
    Case("flow job submit", "job submit -c {files}/dag_magic.yaml", 1000, says="magic"),
    Case("flow job query", f"job query {SEAT}", data=[JOB]),
    Case("flow job query", "job query -s failed", data=[{**JOB, "status": "failed"}]),
    Case("flow job query", "job query -j {unknown}", 1001, says="job_id[{unknown}]"),
    Case("flow job list", "job list -l 3", data={"count": int, "data": [{**JOB, "partners": Some(str)}]}),
    Case("flow job list", "job list -l -1", 5001, says="Invalid request."),
    Case("flow job clean", "job clean -j {job}", given=a_job_with_metrics),
    Case("flow job clean", "job clean -j {unknown}", 1001, says="job_id[{unknown}]"),
    Case("flow job dependency", f"job dependency {SEAT}", data={
        "component_list": [str], "component_module": {"reader_0": "Reader", "sum_0": "SecureSum"},
        "dependencies": {"sum_0": [{"component_name": "reader_0", "up_output_info": [str]}]},
    }),
    Case("flow job dependency", "job dependency -j {unknown} -r guest -p {guest}", 1001, says="job_id[{unknown}]"),
    Case("flow task query", f"task query {READER}", data=[{**TASK, "task_name": "reader_0"}]),
    Case("flow task query", f"task query {NOWHERE}", 2000, says="No found task"),
    Case("flow task list", "task list -l 3", data={"count": int, "data": [TASK]}),
    Case("flow task list", "task list -j {unknown}", data={"count": 0, "data": Some(dict)}),
    Case("flow job stop", "job stop -j {job}", given=a_job_that_runs),
    Case("flow job stop", "job stop -j {unknown}", 1001, says="job_id[{unknown}]"),
    Case("flow job rerun", "job rerun -j {job}", given=a_job_that_failed),
    Case("flow job rerun", "job rerun -j {unknown}", 1001, says="job_id[{unknown}]"),
    Case("flow job add-notes", f"job add-notes {SEAT} --notes good", given=a_job_that_is_over),
    Case("flow job add-notes", "job add-notes -j {unknown} -r guest -p {guest} --notes good", 1001, says="job_id"),
    Case("flow job download-log", "job download-log -j {job} -o got", printed=DOWNLOADED),
    Case("flow job download-log", "job download-log -j {unknown} -o got", 8001, says="job_id[{unknown}]"),
    Case("flow job clean-queue", "job clean-queue", data=Each({"code": 0}), given=a_job_that_waits),
)  # fmt: skip

FIT = f"{SEAT} -tn fit_0"
OWN = "-p {guest} -r guest"
MODEL = "-mid {job} -mv 0"
SECOND = "-mid {job} -mv 1"
MODELS = (
    Case("flow output query-model", f"output query-model {FIT}",
         data={"model": {"mean": float}}, given=a_trained_model),
    Case("flow output query-model", f"output query-model {READER}", data=dict),
    Case("flow output query-model", f"output query-model {NOWHERE}", 2000, says="task_name[magic_0]"),
    Case("flow output download-model", f"output download-model {FIT} -o got", printed=DOWNLOADED,
         given=a_trained_model),
    Case("flow output download-model", f"output download-model {READER} -o got", 2005, says="No found output model"),
    Case("flow output delete-model", f"output delete-model {FIT}", data={"count": 1}, given=a_trained_model),
    Case("flow output delete-model", f"output delete-model {READER}", 2005, says="No found output model"),
    Case("flow model export", f"model export {MODEL} {OWN} -o downloads", data={"file": str},
         given=a_trained_model),
    Case("flow model export", f"model export {SECOND} {OWN} -o downloads", 2005, says="model_version[1]"),
    Case("flow model export", f"model export {MODEL} {OWN} -o /etc", 5001, says="data_roots"),
    Case("flow model import", f"model import {MODEL} -i {{file}}", data={"count": 1}, given=an_exported_model),
    Case("flow model import", f"model import {SECOND} -i {{file}}", 5001, says="has version 0",
         given=an_exported_model),
    Case("flow model import", f"model import {MODEL} -i {{files}}/conf.json", 5001, says="is not an exported model"),
    Case("flow model delete", f"model delete {MODEL}", data={"count": 1}, given=a_trained_model),
    Case("flow model delete", f"model delete {SECOND}", 2005, says="model_version[1]"),
)  # fmt: skip

CASES = (*SITE, *CLIENTS, *TABLES, *OUTPUTS, *JOBS, *MODELS)
