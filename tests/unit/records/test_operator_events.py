"""The table of events against the words of logs-v1, and every call in the product against the table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fate_flow
from fate_flow.records.operator_log.events import Event, Log
from fate_flow.records.operator_log.format import Level

VALUES = {
    "job_id": "J", "role": "R", "party_id": "P", "task_id": "T", "task_version": "V", "status": "S",
    "operation": "apply", "outcome": "successfully", "done": True, "kind": "waiting", "count": "N",
    "cores": 4, "memory": 0, "remaining_cores": 16, "remaining_memory": 0, "engine": "E", "pid": "PID",
    "reason": "running timeout", "statuses": ["running"], "response": "...", "info": {"a": 1}, "seconds": "X",
    "body": {"retcode": 0},
    "endpoint": "/v1/party/J/R/P/resource/apply", "command": "resource/apply", "message": "retmsg", "model_id": "M",
    "url": "http://host:9380/v1/party/J/R/P/resource/apply", "failed": "host:10000", "rollback": "guest:9999",
    "retry": "k", "parameters": {"a": 1}, "error": "...", "report": "Traceback", "text": "note",
}

SHAPES = [
    # 3.1
    (Log.SERVER, "ROUND_STARTED", "start schedule waiting jobs"),
    (Log.SERVER, "ROUND_SIZE", "have N waiting jobs"),
    (Log.SERVER, "ROUND_JOB", "schedule waiting job J"),
    (Log.SERVER, "ROUND_FINISHED", "schedule waiting jobs finished"),
    (Log.SERVER, "END_ROUND_STARTED", "start schedule end status jobs to update status"),
    # 3.2
    (Log.JOB, "SUBMIT_ASKED", "submit job, job_id J, body {'retcode': 0}"),
    (Log.JOB, "JOB_PARAMETERS", "job parameters:{'a': 1}"),
    (Log.JOB, "SUBMITTED", "submit job successfully, job id is J, model id is M"),
    (Log.JOB, "SUBMIT_BAD_INITIATOR", "initiator party id error:P"),
    # 3.3
    (Log.JOB, "JOB_LOCKED_ELSEWHERE", "job J may be handled by another scheduler"),
    (Log.JOB, "CANCEL_SIGNAL_SEEN", "job J have cancel signal"),
    (Log.JOB, "RESOURCE_ASKED", "try to apply job J resource"),
    (Log.AUDIT, "HTTP_REQUEST", "remote http api request: http://host:9380/v1/party/J/R/P/resource/apply"),
    (Log.AUDIT, "OWN_REQUEST", "remote http api request: http://host:9380/v1/party/J/R/P/resource/apply "
                               "(own party: carried out in this process, nothing was sent)"),
    (Log.JOB, "RESOURCE_RESULT",
     "apply job J resource(cores 4 memory 0) on R P successfully, remaining cores: 16 remaining memory: 0"),
    (Log.JOB, "RESOURCE_RECORD_FAILED", "record job J resource apply failed on R P"),
    (Log.JOB, "RESOURCE_ENGINE_FAILED", "update engine E record for job J resource apply on R P failed"),
    (Log.AUDIT, "HTTP_RESPONSE", "remote http api response: /v1/party/J/R/P/resource/apply {'retcode': 0}"),
    (Log.JOB, "RESOURCE_ANSWERED", "apply job J resource successfully"),
    (Log.JOB, "RESOURCE_ROLLBACK", "job J apply resource failed on host:10000, rollback guest:9999"),
    (Log.JOB, "RESOURCE_NO_ROLLBACK", "job J no party should be rollback resource"),
    (Log.JOB, "RESOURCE_RETURN_FAILED", "job J return resource failed:\n..."),
    (Log.JOB, "RESOURCE_ERROR", "apply resource error, stop job J"),
    (Log.JOB, "START_ASKED", "try to start job J on initiator R P"),
    (Log.JOB, "STARTED", "start job J on initiator R P"),
    (Log.JOB, "PARTY_START_ASKED", "try to start job J on R P"),
    (Log.JOB, "PARTY_STARTED", "start job J on R P successfully"),
    (Log.JOB, "PARTY_START_EXTRA", "extra info: {'a': 1}"),
    (Log.JOB, "JOB_STATUS_ASKED", "try to update job J status to S"),
    (Log.JOB, "JOB_STATUS_WRITTEN", "update job J status successfully"),
    (Log.JOB, "JOB_STATUS_UNCHANGED", "update job J status does not take effect"),
    (Log.JOB, "JOB_UPDATE_ASKED", "try to update job J"),
    (Log.JOB, "JOB_UPDATED", "job J update successfully: {'a': 1}"),
    (Log.JOB, "JOB_UPDATE_UNCHANGED", "job J update does not take effect: {'a': 1}"),
    (Log.JOB, "READY_SIGNAL_RESET", "reset job J ready signal True"),
    # 3.5
    (Log.JOB, "JOB_ROUND_STARTED", "scheduling job J"),
    (Log.JOB, "JOB_ROUND_FINISHED", "finish scheduling job J"),
    (Log.JOB, "TASKS_ROUND_STARTED", "scheduling job J tasks"),
    (Log.JOB, "TASKS_ROUND_FINISHED", "finish scheduling job J tasks"),
    (Log.JOB, "TASK_STATUS_CALCULATED",
     "job J task T V status is S, calculate by task party status list: ['running']"),
    (Log.JOB, "JOB_STATUS_CALCULATED", "Job J status is S, calculate by task status list: ['running']"),
    (Log.JOB, "TASK_START_ASKED", "try to start job J task T V on R P"),
    (Log.JOB, "TASK_STARTED", "start job J task T V on R P"),
    (Log.JOB, "TASK_STARTED_ELSEWHERE", "job J task T V start on another scheduler"),
    (Log.JOB, "TASK_RESOURCE_DONE", "task T V apply resource successfully"),
    (Log.JOB, "TASK_RESOURCE_FAILED", "task T V apply resource failed"),
    (Log.JOB, "TASK_NO_RESOURCE", "job J task T can not apply resource, wait for the next round of scheduling"),
    (Log.JOB, "TASK_STATUS_SYNC", "job J task T V is S, sync to all party"),
    (Log.JOB, "TASK_STATUS_SYNCED", "sync job J task T V status S to all party success"),
    (Log.JOB, "JOB_STATUS_SYNC", "job J is S, sync to all party"),
    (Log.JOB, "JOB_STATUS_SYNCED", "sync job J status S to all party success"),
    (Log.JOB, "JOB_INFO_SYNC", "sync job J info to all party"),
    (Log.JOB, "JOB_INFO_SYNCED", "sync job J info to all party successfully"),
    (Log.JOB, "EXECUTOR_ASKED", "try to start job J task T V on R P executor subprocess"),
    (Log.JOB, "EXECUTOR_ENGINE", "use computing engine E"),
    (Log.JOB, "EXECUTOR_COMMAND", "start process command: resource/apply"),
    (Log.JOB, "EXECUTOR_STARTED", "job J task T V on R P executor subprocess start successfully"),
    (Log.JOB, "TASK_STATUS_ASKED", "try to update job J task T V status"),
    (Log.JOB, "TASK_STATUS_WRITTEN", "update job J task T V status successfully: {'a': 1}"),
    (Log.JOB, "TASK_STOP_ASKED", "try to stop job J task T V"),
    (Log.JOB, "TASK_STOPPED", "stop job J task T V success"),
    (Log.JOB, "TASK_KILLED", "job J task T V on R P process PID kill successfully"),
    (Log.JOB, "JOB_FINISHING", "Job J finished with S, do something..."),
    (Log.JOB, "JOB_FINISHED", "Job J finished with S, done"),
    (Log.JOB, "CLEAN_ASKED", "try to clean job J"),
    (Log.JOB, "MODEL_ASKED", "try to save job J pipelined model"),
    (Log.JOB, "MODEL_SAVED", "save job J pipelined model success"),
    (Log.JOB, "STOP_REQUESTED", "request stop job J with S"),
    (Log.JOB, "CANCEL_ASKED", "cancel job J"),
    (Log.JOB, "CANCEL_SIGNAL_SET", "set job J cancel signal True"),
    (Log.JOB, "STOP_SENT", "request stop job J with S to all party"),
    (Log.JOB, "STOP_DONE", "stop job J with S successfully"),
    (Log.JOB, "STOP_FAILED", "stop job J with S failed, ..."),
    (Log.JOB, "END_PASS_EXCEEDED", "the number of updates has been exceeded"),
    (Log.JOB, "COMMAND_FAILED", "an error occurred while resource/apply the job to role R party P: \nretmsg"),
    (Log.JOB, "HTTP_RETRY",
     "remote http request /v1/party/J/R/P/resource/apply error, sleep and try again"),
    # 3.6
    (Log.DETECT, "DETECT_TASKS_STARTED", "start to detect running task.."),
    (Log.DETECT, "DETECT_TASKS_FINISHED", "finish detect N running task"),
    (Log.JOB_DETECT, "DETECT_PROCESS_GONE", "job J task T V on R P process PID does not exist"),
    (Log.DETECT, "DETECT_JOBS_STARTED", "start detect running job"),
    (Log.DETECT, "DETECT_JOBS_FINISHED", "finish detect running job"),
    (Log.DETECT, "DETECT_RESOURCE_STARTED", "start detect resource recycle"),
    (Log.DETECT, "DETECT_RESOURCE_FINISHED", "finish detect resource recycle"),
    (Log.JOB_DETECT, "DETECT_RETURN_ASKED", "start to return job J on R P resource"),
    (Log.JOB_DETECT, "DETECT_RETURNED", "return job J on R P resource successfully"),
    (Log.DETECT, "DETECT_STOP_COUNT", "have N should be stopped, because of running timeout"),
    (Log.JOB_DETECT, "DETECT_STOP_ASKED", "detector request start to stop job J, because of running timeout"),
    (Log.JOB_DETECT, "DETECT_STOP_DONE", "detector request stop job J successfully"),
    (Log.JOB, "RUN_TIMEOUT", "job J  run time Xs timeout"),
]


@pytest.mark.parametrize(("log", "name", "text"), SHAPES, ids=[name for _, name, _ in SHAPES])
def test_the_words_are_those_of_1_6(log: Log, name: str, text: str) -> None:
    event = Event[name]
    assert event.log is log
    assert event.message({field: VALUES[field] for field in event.fields}) == text


def test_no_two_events_share_a_row() -> None:
    assert [name for name, event in Event.__members__.items() if event.name != name] == []


def test_every_event_of_a_job_needs_its_id() -> None:
    assert [event.name for event in Event if event.log.is_jobs and "job_id" not in event.fields] == []


def test_only_these_fields_may_span_lines() -> None:
    spanning = {(event.name, field) for event in Event for field in event.lines}
    assert spanning == {("HTTP_RESPONSE_TEXT", "text"), ("TASK_ERROR_REPORT", "report"), ("JOB_ERROR", "text")}
    assert all(set(event.lines) <= event.fields for event in Event)


def test_what_failed_here_is_a_warning_or_an_error() -> None:
    assert {event.level for event in Event} == {Level.INFO, Level.WARNING, Level.ERROR}
    assert Event.RESOURCE_RECORD_FAILED.level is Level.WARNING
    assert Event.TASK_ERROR_REPORT.level is Level.ERROR


@pytest.mark.usefixtures("no_gc")
def test_every_call_in_the_product_fits_the_table() -> None:
    """`emit` takes any keyword, so the type checker cannot see a wrong one in a path that no test walks."""
    wrong = [problem for path in Path(fate_flow.__path__[0]).rglob("*.py") for problem in wrong_calls(path)]
    assert wrong == []


def test_a_wrong_call_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    calls = ("self.log.emit(Event.ROUND_SIZE, count=1)", "log.emit(Event.NO_SUCH)", "log.emit(Event.ROUND_SIZE, **k)")
    path.write_text("\n".join(calls))
    assert len(wrong_calls(path)) == 2


def wrong_calls(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [f"{path.name}:{node.lineno} {problem}" for node in ast.walk(tree) for problem in wrong_in(node)]


def wrong_in(node: ast.AST) -> Iterator[str]:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "emit"):
        return
    match node.args:
        case [ast.Attribute(value=ast.Name(id="Event"), attr=name)]:
            given = {keyword.arg for keyword in node.keywords} - {"stacklevel"}
            if name not in Event.__members__:
                yield f"no Event.{name}"
            elif None not in given and given != Event[name].fields:
                yield f"Event.{name} has the fields {sorted(Event[name].fields)}"
