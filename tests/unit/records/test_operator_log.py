"""The lines of the waiting -> running stage as logs-v1 (section 3) prints them, and the files they go to."""

from __future__ import annotations

import re
import time
from enum import Enum
from pathlib import Path

import pytest

from fate_flow.core.model.status import JobStatus
from fate_flow.records.operator_log.events import Event
from fate_flow.records.operator_log.operator_log import OperatorLog

J = "202107260820309976351"
NOON = time.mktime((2021, 7, 26, 8, 20, 31, 0, 0, -1)) + 0.9945
HEADER = re.compile(
    r"\[(DEBUG|INFO|WARNING|ERROR)\] \[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] \[\d+:\d+\] - [\w.]+\[line:\d+\]: ")


@pytest.fixture
def log(tmp_path: Path) -> OperatorLog:
    return OperatorLog(tmp_path, clock=lambda: NOON)


def text(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def messages(root: Path, name: str) -> list[str]:
    lines = text(root, name).splitlines()
    assert all(HEADER.match(line) for line in lines), lines
    return [HEADER.sub("", line, count=1) for line in lines]


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_a_line_has_the_format_of_1_6(log: OperatorLog, tmp_path: Path) -> None:
    log.emit(Event.ROUND_STARTED, kind="waiting")
    line = text(tmp_path, "fate_flow/fate_flow_schedule.log")
    pattern = (r"\[INFO\] \[2021-07-26 08:20:31,994\] \[\d+:\d+\] - test_operator_log\.py\[line:\d+\]: "
               r"start schedule waiting jobs\n")
    assert re.fullmatch(pattern, line)


def test_a_round_reads_as_in_the_walk_through(log: OperatorLog, tmp_path: Path) -> None:
    log.emit(Event.ROUND_STARTED, kind="waiting")
    log.emit(Event.ROUND_SIZE, count=1, kind="waiting")
    log.emit(Event.ROUND_JOB, kind="waiting", job_id=J)
    log.emit(Event.ROUND_FINISHED, kind="waiting")
    log.emit(Event.END_ROUND_STARTED)
    log.emit(Event.ROUND_SIZE, count=0, kind="end status")
    log.emit(Event.ROUND_FINISHED, kind="end status")
    expected = [
        "start schedule waiting jobs", "have 1 waiting jobs", f"schedule waiting job {J}",
        "schedule waiting jobs finished", "start schedule end status jobs to update status",
        "have 0 end status jobs", "schedule end status jobs finished"]
    assert messages(tmp_path, "fate_flow/fate_flow_schedule.log") == expected
    assert messages(tmp_path, "fate_flow/INFO.log") == expected
    assert messages(tmp_path, "fate_flow/DEBUG.log") == expected
    assert names(tmp_path) == {f"fate_flow/{name}.log" for name in ("fate_flow_schedule", "INFO", "DEBUG")}


def test_the_waiting_stage_reads_as_in_the_walk_through(log: OperatorLog, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:9380/v1/party/{J}/local/0/resource/apply"
    where = {"job_id": J, "role": "local", "party_id": "0"}
    update = "UPDATE `t_job` SET `f_status` = 'running' WHERE (`t_job`.`f_status` = 'waiting')"
    info = {"job_id": J, "role": "local", "party_id": "0", "status": JobStatus.RUNNING, "start_time": 1627258832207}

    log.emit(Event.RESOURCE_ASKED, operation="apply", job_id=J)
    log.emit(Event.HTTP_REQUEST, job_id=J, url=url)
    log.emit(Event.RESOURCE_RESULT, operation="apply", cores=4, memory=0, outcome="successfully",
             remaining_cores=16, remaining_memory=0, **where)
    log.http_response(J, f"/v1/party/{J}/local/0/resource/apply", '{"retcode":0,"retmsg":"success"}\n',
                      {"retcode": 0, "retmsg": "success"})
    log.emit(Event.RESOURCE_ANSWERED, operation="apply", job_id=J, outcome="successfully")
    log.emit(Event.START_ASKED, **where)
    log.emit(Event.PARTY_START_ASKED, **where)
    log.emit(Event.JOB_STATUS_ASKED, job_id=J, status=JobStatus.RUNNING)
    log.sql(J, update)
    log.emit(Event.JOB_STATUS_WRITTEN, job_id=J)
    log.emit(Event.JOB_UPDATE_ASKED, job_id=J)
    log.emit(Event.JOB_UPDATED, job_id=J, info=info)
    log.emit(Event.PARTY_STARTED, **where)
    log.emit(Event.STARTED, **where)
    log.emit(Event.READY_SIGNAL_RESET, job_id=J, done=True)

    assert messages(tmp_path, f"{J}/fate_flow_schedule.log") == [
        f"try to apply job {J} resource",
        f"apply job {J} resource(cores 4 memory 0) on local 0 successfully, remaining cores: 16 remaining memory: 0",
        f"apply job {J} resource successfully",
        f"try to start job {J} on initiator local 0",
        f"try to start job {J} on local 0",
        f"try to update job {J} status to running",
        f"update job {J} status successfully",
        f"try to update job {J}",
        f"job {J} update successfully: {{'job_id': '{J}', 'role': 'local', 'party_id': '0', 'status': 'running', "
        "'start_time': 1627258832207}",
        f"start job {J} on local 0 successfully",
        f"start job {J} on initiator local 0",
        f"reset job {J} ready signal True",
    ]
    assert messages(tmp_path, f"{J}/fate_flow_sql.log") == [update]
    audit = text(tmp_path, f"{J}/fate_flow_audit.log")
    assert [HEADER.sub("", line) for line in audit.splitlines()] == [
        f"remote http api request: {url}",
        '{"retcode":0,"retmsg":"success"}',
        "",                                      # the newline that the text ended with
        f"remote http api response: /v1/party/{J}/local/0/resource/apply {{'retcode': 0, 'retmsg': 'success'}}",
    ]
    assert text(tmp_path, "fate_flow/fate_flow_audit.log") == audit
    assert names(tmp_path) == {
        f"{J}/fate_flow_schedule.log", f"{J}/fate_flow_sql.log", f"{J}/fate_flow_audit.log",
        "fate_flow/fate_flow_audit.log"}


def test_an_error_is_repeated_in_the_error_file_beside(log: OperatorLog, tmp_path: Path) -> None:
    log.emit(Event.START_NOT_FOUND, job_id=J, role="guest", party_id=9999)
    assert text(tmp_path, f"{J}/fate_flow_schedule_error.log") == text(tmp_path, f"{J}/fate_flow_schedule.log")
    assert names(tmp_path) == {f"{J}/fate_flow_schedule.log", f"{J}/fate_flow_schedule_error.log"}


@pytest.mark.parametrize("job_id", ["", None, "..", "../etc", "a/b", "fate_flow", ".hidden", "-x", "1\n", "1" * 65])
def test_what_may_not_name_a_folder_is_logged_with_the_server(log: OperatorLog, tmp_path: Path, job_id: str) -> None:
    log.emit(Event.JOB_NOTE, job_id=job_id, text="hello")
    assert names(tmp_path) == {"fate_flow/fate_flow_schedule.log"}


def test_detector_lines_go_to_the_server_or_to_the_job(log: OperatorLog, tmp_path: Path) -> None:
    log.emit(Event.DETECT_TASKS_STARTED)
    log.emit(Event.DETECT_PROCESS_GONE, job_id=J, task_id=f"{J}_a_0", task_version=0, role="host", party_id="1", pid=7)
    log.emit(Event.DETECT_TASKS_FINISHED, count=3)
    assert messages(tmp_path, "fate_flow/fate_flow_detect.log") == [
        "start to detect running task..", "finish detect 3 running task"]
    assert messages(tmp_path, f"{J}/fate_flow_detect.log") == [
        f"job {J} task {J}_a_0 0 on host 1 process 7 does not exist"]
    assert not (tmp_path / "fate_flow/INFO.log").exists()


def test_the_database_log_prints_statement_and_params(log: OperatorLog, tmp_path: Path) -> None:
    log.database("SELECT * FROM t_job WHERE ((t1.f_is_initiator = ?) AND (t1.f_status = ?))", [True, "waiting"])
    log.flush()
    expected = ["('SELECT * FROM t_job WHERE ((t1.f_is_initiator = ?) AND (t1.f_status = ?))', [True, 'waiting'])"]
    assert messages(tmp_path, "fate_flow/peewee.log") == expected
    assert names(tmp_path) == {"fate_flow/peewee.log"}, "nothing is written twice"
    assert "[DEBUG] [2021-07-26 08:20:31,994]" in text(tmp_path, "fate_flow/peewee.log")
    assert "test_operator_log.py[line:" in text(tmp_path, "fate_flow/peewee.log")


def test_database_lines_are_held_and_come_before_any_later_line(tmp_path: Path) -> None:
    ticks = iter(range(1000))
    log = OperatorLog(tmp_path, clock=lambda: NOON + next(ticks) / 1000)
    log.database("SELECT 1", [])
    assert names(tmp_path) == set()
    log.emit(Event.ROUND_STARTED, kind="waiting")
    log.database("SELECT 2", [])
    log.emit(Event.ROUND_FINISHED, kind="waiting")
    assert messages(tmp_path, "fate_flow/DEBUG.log") == [
        "start schedule waiting jobs", "schedule waiting jobs finished"]
    assert messages(tmp_path, "fate_flow/peewee.log") == ["('SELECT 1', [])", "('SELECT 2', [])"]
    lines = "".join(text(tmp_path, f"fate_flow/{name}.log") for name in ("peewee", "DEBUG")).splitlines()
    in_time = sorted(lines, key=lambda line: re.findall(r"31,\d{3}", line))
    assert [line.split(": ", 1)[1][:8] for line in in_time] == ["('SELECT", "start sc", "('SELECT", "schedule"]


def test_the_fiftieth_database_line_is_not_held(log: OperatorLog, tmp_path: Path) -> None:
    for number in range(50):
        log.database("SELECT ?", [number])
    assert len(messages(tmp_path, "fate_flow/peewee.log")) == 50


def test_the_database_log_can_be_turned_off(tmp_path: Path) -> None:
    log = OperatorLog(tmp_path, log_sql=False)
    log.database("SELECT 1", [])
    log.close()
    assert names(tmp_path) == set()


def test_a_higher_level_leaves_out_what_is_below(tmp_path: Path) -> None:
    log = OperatorLog(tmp_path, level="WARNING")
    log.database("SELECT 1", [])
    log.emit(Event.ROUND_STARTED, kind="waiting")
    log.emit(Event.HTTP_RETRY, job_id=J, endpoint="/v1/x")
    log.close()
    assert names(tmp_path) == {f"{J}/fate_flow_schedule.log"}


def test_sql_without_a_job_goes_to_the_server(log: OperatorLog, tmp_path: Path) -> None:
    log.sql("", "UPDATE\nx")
    assert messages(tmp_path, "fate_flow/fate_flow_sql.log") == ["UPDATE\\nx"]


def test_an_access_line_is_the_one_of_werkzeug_with_the_trace_behind_it(log: OperatorLog, tmp_path: Path) -> None:
    log.access("127.0.0.1", "POST", "/v1/party/1/local/0/resource/apply", 200)
    log.access("127.0.0.1", "GET", "/v1/x", 200, "ann", "4b" * 16)
    assert messages(tmp_path, "fate_flow/fate_flow_access.log") == [
        '127.0.0.1 - - [26/Jul/2021 08:20:31] "POST /v1/party/1/local/0/resource/apply HTTP/1.1" 200 -',
        f'127.0.0.1 - ann [26/Jul/2021 08:20:31] "GET /v1/x HTTP/1.1" 200 - {"4b" * 16}']


def test_the_line_names_the_module_that_called(log: OperatorLog, tmp_path: Path) -> None:
    def helper() -> None:
        log.emit(Event.JOB_NOTE, job_id=J, text="x", stacklevel=2)

    helper()
    called_at = test_the_line_names_the_module_that_called.__code__.co_firstlineno + 4
    assert f"test_operator_log.py[line:{called_at}]" in text(tmp_path, f"{J}/fate_flow_schedule.log")


def test_fields_that_do_not_fit_are_a_type_error(log: OperatorLog) -> None:
    with pytest.raises(TypeError, match="ROUND_SIZE has the fields"):
        log.emit(Event.ROUND_SIZE, count=1)
    with pytest.raises(TypeError, match="job_id"):
        log.emit(Event.END_PASS_EXCEEDED)
    with pytest.raises(TypeError):
        log.emit(Event.ROUND_STARTED, kind="waiting", more=1)


FORGED = "x\n[INFO] [2021-07-26 08:20:31,994] [1:1] - dag_scheduler.py[line:1]: start job 1 on host 2 successfully"


def test_a_field_cannot_forge_a_second_record(log: OperatorLog, tmp_path: Path) -> None:
    log.emit(Event.SUBMIT_BAD_INITIATOR, job_id=J, party_id=FORGED)
    log.emit(Event.RESOURCE_RETURN_FAILED, job_id=J, response=FORGED)
    log.emit(Event.EXECUTOR_ENGINE, job_id=J, engine="\x1b[31mred\r\ufeff\u202e\u2028\x00\x85\ud800")
    lines = text(tmp_path, f"{J}/fate_flow_schedule.log").split("\n")
    assert sum(1 for line in lines if line.startswith("[")) == 3
    assert "initiator party id error:x\\n[INFO] [2021-07-26" in lines[0]
    assert lines[1].endswith(f"job {J} return resource failed:")      # the newline of the shape itself stays
    assert lines[2].startswith("x\\n[INFO]")
    assert lines[3].endswith(r"engine \x1b[31mred\r\ufeff\u202e\u2028\x00\x85\ud800")


def test_a_field_after_a_newline_of_the_shape_cannot_begin_a_record(log: OperatorLog, tmp_path: Path) -> None:
    forged = FORGED.removeprefix("x\n")
    log.emit(Event.COMMAND_FAILED, job_id=J, command="start", role="host", party_id="1", message=forged)
    log.emit(Event.JOB_ERROR, job_id=J, text=forged)
    lines = text(tmp_path, f"{J}/fate_flow_schedule.log").split("\n")
    assert lines[1] == " " + forged
    assert sum(1 for line in lines if line.startswith("[")) == 2


def test_a_response_text_keeps_its_lines_but_none_looks_like_a_record(log: OperatorLog, tmp_path: Path) -> None:
    log.http_response(J, "/v1/x", '{\n\t"a": 1\x1b\r\n}\n' + FORGED, {"a": FORGED})
    lines = text(tmp_path, f"{J}/fate_flow_audit.log").split("\n")
    assert lines[1:3] == ['\t"a": 1\\x1b\\r', "}"]
    assert sum(1 for line in lines if line.startswith("[")) == 2
    assert lines[4].startswith(" [INFO] [2021-07-26")


class Colour(Enum):
    RED = "red"


def test_values_print_as_1_6_prints_them(log: OperatorLog, tmp_path: Path) -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (None, True, 1.5, Colour.RED, [Colour.RED, ("a", Colour.RED)], {"a": {Colour.RED: "<"}}, "{job_id}"):
        log.emit(Event.JOB_PARAMETERS, job_id=J, parameters=value)
    log.emit(Event.JOB_PARAMETERS, job_id=J, parameters=deep)
    printed = [line.removeprefix("job parameters:") for line in messages(tmp_path, f"{J}/fate_flow_schedule.log")]
    assert printed == ["None", "True", "1.5", "red", "['red', ('a', 'red')]", "{'a': {'red': '<'}}", "{job_id}",
                       "(nested too deeply to be printed)"]


def test_an_endless_message_is_cut(log: OperatorLog, tmp_path: Path) -> None:
    log.emit(Event.HTTP_RESPONSE_TEXT, job_id=J, text="a" * (2 << 20))
    line = text(tmp_path, f"{J}/fate_flow_audit.log")
    assert len(line) < (1 << 20) + 200
    assert line.endswith("a... (1048576 characters cut)\n")
