"""Every log line that operators of FATE Flow 1.6 know: when it is written, its text, and its file.

One row for each event: `NAME = log, template[, level[, fields that may span lines]]`. The fields of an event are the
names in braces, and always `job_id` if the log has files for jobs. Values are text, numbers, enum members (their value
is printed), None, or containers of those (printed as Python prints them, as in 1.6).

    log.emit(Event.RESOURCE_ASKED, operation="apply", job_id=job.id)

| log | file | remark |
|---|---|---|
| SERVER | `fate_flow/fate_flow_schedule.log` | and `DEBUG.log`, `INFO.log`, ... by level |
| JOB | `<job_id>/fate_flow_schedule.log` | of the server when `job_id` is "" (so for JOB_DETECT) |
| AUDIT | `<job_id>/fate_flow_audit.log` and `fate_flow/fate_flow_audit.log` | the latter alone without a job |
| DETECT | `fate_flow/fate_flow_detect.log` | |
| JOB_DETECT | `<job_id>/fate_flow_detect.log` | |
| SQL | `<job_id>/fate_flow_sql.log` | `fate_flow/fate_flow_sql.log` without a job |
| DATABASE | `fate_flow/peewee.log` | not in `DEBUG.log`, which would be as large again |
| ACCESS | `fate_flow/fate_flow_access.log` | |
| STAT | `fate_flow/fate_flow_stat.log` | and `DEBUG.log`, `INFO.log`, ... by level |

ERROR also goes to the `_error.log` of each file. The texts are those of 1.6 (reference: logs-v1, section 3). Rows
marked 1.11 have no counterpart in 1.6; rows marked "own" are lines that FATE does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from string import Formatter

from fate_flow.records.operator_log.format import Level, indent_records, many_lines, one_line, text_of

WARNING = Level.WARNING
ERROR = Level.ERROR


class Log(Enum):
    """A kind of log: the name of its files, whether server and job have such files, whether level files repeat it."""

    SERVER = "fate_flow_schedule", True, False, True
    JOB = "fate_flow_schedule", False, True, False
    AUDIT = "fate_flow_audit", True, True, False
    DETECT = "fate_flow_detect", True, False, False
    JOB_DETECT = "fate_flow_detect", False, True, False
    SQL = "fate_flow_sql", False, True, False
    DATABASE = "peewee", True, False, False
    ACCESS = "fate_flow_access", True, False, False
    STAT = "fate_flow_stat", True, False, True

    def __init__(self, stem: str, is_servers: bool, is_jobs: bool, has_level_files: bool) -> None:
        self.stem = stem
        self.is_servers = is_servers
        self.is_jobs = is_jobs
        self.has_level_files = has_level_files


SERVER = Log.SERVER
JOB = Log.JOB
AUDIT = Log.AUDIT
DETECT = Log.DETECT
JOB_DETECT = Log.JOB_DETECT


class Event(Enum):
    # 3.1 scheduler rounds. kind: waiting, running, ready, rerun; "end status" for all but the first row
    ROUND_STARTED = SERVER, "start schedule {kind} jobs"
    END_ROUND_STARTED = SERVER, "start schedule end status jobs to update status"
    ROUND_SIZE = SERVER, "have {count} {kind} jobs"
    ROUND_JOB = SERVER, "schedule {kind} job {job_id}"
    ROUND_FINISHED = SERVER, "schedule {kind} jobs finished"
    ROUND_JOB_FAILED = JOB, "schedule {kind} job {job_id} failed", ERROR            # waiting, ready
    ROUND_RUNNING_JOB_FAILED = JOB, "schedule job {job_id} failed", ERROR           # running, rerun, end status

    # 3.2 submit
    SUBMIT_ASKED = JOB, "submit job, job_id {job_id}, body {body}"
    JOB_PARAMETERS = JOB, "job parameters:{parameters}"
    SUBMITTED = JOB, "submit job successfully, job id is {job_id}, model id is {model_id}"
    SUBMIT_BAD_INITIATOR = JOB, "initiator party id error:{party_id}"

    # 3.3 waiting -> running. operation: apply, return; outcome: successfully, failed; done: True, False
    JOB_LOCKED_ELSEWHERE = JOB, "job {job_id} may be handled by another scheduler"
    CANCEL_SIGNAL_SEEN = JOB, "job {job_id} have cancel signal"
    RESOURCE_ASKED = JOB, "try to {operation} job {job_id} resource"
    RESOURCE_ANSWERED = JOB, "{operation} job {job_id} resource {outcome}"
    RESOURCE_RECORD_FAILED = JOB, "record job {job_id} resource {operation} failed on {role} {party_id}", WARNING
    RESOURCE_ENGINE_FAILED = (
        JOB, "update engine {engine} record for job {job_id} resource {operation} on {role} {party_id} failed", WARNING)
    RESOURCE_FAILED = (
        JOB, "{operation} job {job_id} resource(cores {cores} memory {memory}) on {role} {party_id} failed", WARNING)
    RESOURCE_RESULT = (
        JOB, "{operation} job {job_id} resource(cores {cores} memory {memory}) on {role} {party_id} {outcome}, "
             "remaining cores: {remaining_cores} remaining memory: {remaining_memory}")
    RESOURCE_ROLLBACK = JOB, "job {job_id} apply resource failed on {failed}, rollback {rollback}"
    RESOURCE_NO_ROLLBACK = JOB, "job {job_id} no party should be rollback resource"
    RESOURCE_RETURN_FAILED = JOB, "job {job_id} return resource failed:\n{response}"
    RESOURCE_ERROR = JOB, "apply resource error, stop job {job_id}"
    START_ASKED = JOB, "try to start job {job_id} on initiator {role} {party_id}"
    STARTED = JOB, "start job {job_id} on initiator {role} {party_id}"
    START_NOT_FOUND = JOB, "can not found job {job_id} on initiator {role} {party_id}", ERROR
    PARTY_START_ASKED = JOB, "try to start job {job_id} on {role} {party_id}"
    PARTY_START_EXTRA = JOB, "extra info: {info}"
    PARTY_STARTED = JOB, "start job {job_id} on {role} {party_id} successfully"
    JOB_STATUS_ASKED = JOB, "try to update job {job_id} status to {status}"
    JOB_STATUS_WRITTEN = JOB, "update job {job_id} status successfully"
    JOB_STATUS_UNCHANGED = JOB, "update job {job_id} status does not take effect"
    JOB_UPDATE_ASKED = JOB, "try to update job {job_id}"
    JOB_UPDATE_POPS_STATUS = JOB, "try to update job {job_id}, pop job status", WARNING
    JOB_UPDATED = JOB, "job {job_id} update successfully: {info}"
    JOB_UPDATE_UNCHANGED = JOB, "job {job_id} update does not take effect: {info}", WARNING
    READY_SIGNAL_RESET = JOB, "reset job {job_id} ready signal {done}"

    # 3.3, 3.5 what parties say to each other; use `OperatorLog.http_response` for the pair
    HTTP_REQUEST = AUDIT, "remote http api request: {url}"
    OWN_REQUEST = AUDIT, "remote http api request: {url} (own party: carried out in this process, nothing was sent)"
    HTTP_RESPONSE_TEXT = AUDIT, "{text}", Level.INFO, ("text",)
    HTTP_RESPONSE = AUDIT, "remote http api response: {endpoint} {body}"
    HTTP_RETRY = JOB, "remote http request {endpoint} error, sleep and try again", WARNING
    COMMAND_FAILED = (
        JOB, "an error occurred while {command} the job to role {role} party {party_id}: \n{message}", WARNING)
    TASK_COMMAND_FAILED = (
        JOB, "an error occurred while {command} the task to role {role} party {party_id}: \n{message}", WARNING)
    GRPC_RESPONSE = AUDIT, "grpc api response: {response}"
    RPC_HEADERS_RECEIVED = AUDIT, "rpc receive headers: {headers}"
    RPC_RECEIVED = AUDIT, "rpc receive: {packet}"
    RPC_BODY_RECEIVED = AUDIT, "rpc receive: {url} {body}"

    # 3.5 running: the round over one job, and what follows from its tasks
    JOB_ROUND_STARTED = JOB, "scheduling job {job_id}"
    JOB_ROUND_FINISHED = JOB, "finish scheduling job {job_id}"
    TASKS_ROUND_STARTED = JOB, "scheduling job {job_id} tasks"
    TASKS_ROUND_FINISHED = JOB, "finish scheduling job {job_id} tasks"
    TASK_STATUS_CALCULATED = (
        JOB, "job {job_id} task {task_id} {task_version} status is {status}, "
             "calculate by task party status list: {statuses}")
    JOB_STATUS_CALCULATED = JOB, "Job {job_id} status is {status}, calculate by task status list: {statuses}"

    # 3.5 starting a task at the initiator
    TASK_START_ASKED = JOB, "try to start job {job_id} task {task_id} {task_version} on {role} {party_id}"
    TASK_STARTED = JOB, "start job {job_id} task {task_id} {task_version} on {role} {party_id}"
    TASK_STARTED_ELSEWHERE = JOB, "job {job_id} task {task_id} {task_version} start on another scheduler"
    TASK_CORES = JOB, "cores_per_task:{cores}, memory_per_task:{memory}"
    TASK_RESOURCE_DONE = JOB, "task {task_id} {task_version} {operation} resource successfully"
    TASK_RESOURCE_FAILED = JOB, "task {task_id} {task_version} {operation} resource failed", WARNING
    TASK_NO_RESOURCE = (
        JOB, "job {job_id} task {task_id} can not apply resource, wait for the next round of scheduling")

    # 3.5 telling all parties
    TASK_STATUS_SYNC = JOB, "job {job_id} task {task_id} {task_version} is {status}, sync to all party"
    TASK_STATUS_SYNCED = JOB, "sync job {job_id} task {task_id} {task_version} status {status} to all party success"
    TASK_STATUS_SYNC_FAILED = (
        JOB, "sync job {job_id} task {task_id} {task_version} status {status} to all party failed: \n{response}")
    JOB_STATUS_SYNC = JOB, "job {job_id} is {status}, sync to all party"
    JOB_STATUS_SYNCED = JOB, "sync job {job_id} status {status} to all party success"
    JOB_STATUS_SYNC_FAILED = JOB, "sync job {job_id} status {status} to all party failed: \n{response}"
    JOB_INFO_SYNC = JOB, "sync job {job_id} info to all party"
    JOB_INFO_SYNCED = JOB, "sync job {job_id} info to all party successfully"
    JOB_INFO_SYNC_FAILED = JOB, "sync job {job_id} info to all party failed: \n{response}"

    # 3.5 the task at a party. outcome: success, failed
    EXECUTOR_ASKED = (
        JOB, "try to start job {job_id} task {task_id} {task_version} on {role} {party_id} executor subprocess")
    EXECUTOR_ENGINE = JOB, "use computing engine {engine}"
    EXECUTOR_READY = JOB, "job {job_id} task {task_id} {task_version} on {role} {party_id} executor subprocess is ready"
    EXECUTOR_COMMAND = JOB, "start process command: {command}"
    EXECUTOR_PROCESS = JOB, "start process successfully, pid: {pid}, std log path: {path}"              # 1.11
    EXECUTOR_STARTED = (
        JOB, "job {job_id} task {task_id} {task_version} on {role} {party_id} executor subprocess start {outcome}")
    TASK_STATUS_ASKED = JOB, "try to update job {job_id} task {task_id} {task_version} status"
    TASK_STATUS_WRITTEN = JOB, "update job {job_id} task {task_id} {task_version} status successfully: {info}"
    TASK_STATUS_UNCHANGED = (
        JOB, "update job {job_id} task {task_id} {task_version} status update does not take effect: {info}")
    TASK_UPDATE_ASKED = JOB, "try to update job {job_id} task {task_id} {task_version}"
    TASK_UPDATED = JOB, "job {job_id} task {task_id} {task_version} update successfully"
    TASK_UPDATE_UNCHANGED = JOB, "job {job_id} task {task_id} {task_version} update does not take effect", WARNING
    TASK_STOP_ASKED = JOB, "try to stop job {job_id} task {task_id} {task_version}"
    TASK_STOPPED = JOB, "stop job {job_id} task {task_id} {task_version} success"
    TASK_STOP_FAILED = JOB, "stop job {job_id} task {task_id} {task_version} failed:\n{response}"
    TASK_KILLED = JOB, "job {job_id} task {task_id} {task_version} on {role} {party_id} process {pid} kill {outcome}"
    TASK_ERROR_REPORT = (                                                                               # 1.11
        JOB, "role {role} party id {party_id} task {task_id} error report: {report}", ERROR, ("report",))

    # 3.5 stopping. done: True, False
    STOP_REQUESTED = JOB, "request stop job {job_id} with {status}"
    CANCEL_ASKED = JOB, "cancel job {job_id}"
    CANCEL_SIGNAL_SET = JOB, "set job {job_id} cancel signal {done}"
    STOP_SENT = JOB, "request stop job {job_id} with {status} to all party"
    STOP_DONE = JOB, "stop job {job_id} with {status} successfully"
    STOP_FAILED = JOB, "stop job {job_id} with {status} failed, {response}"
    STOP_COMMAND_ASKED = JOB, "try to stop job {job_id}"
    STOP_COMMAND_DONE = JOB, "stop job {job_id} success"
    STOP_COMMAND_FAILED = JOB, "stop job {job_id} failed:\n{response}"

    # 3.5 the end
    MODEL_ASKED = JOB, "try to save job {job_id} pipelined model"
    MODEL_SAVED = JOB, "save job {job_id} pipelined model success"
    MODEL_FAILED = JOB, "save job {job_id} pipelined model failed:\n{response}"
    PARTY_MODEL_ASKED = JOB, "job {job_id} on {role} {party_id} start to save pipeline"
    PARTY_MODEL_SAVED = JOB, "job {job_id} on {role} {party_id} save pipeline successfully"
    JOB_FINISHING = JOB, "Job {job_id} finished with {status}, do something..."
    JOB_FINISHED = JOB, "Job {job_id} finished with {status}, done"
    CLEAN_ASKED = JOB, "try to clean job {job_id}"
    CLEANED = JOB, "clean job {job_id} success"
    CLEAN_FAILED = JOB, "clean job {job_id} failed:\n{response}"
    PARTY_CLEAN_ASKED = JOB, "Job {job_id} on {role} {party_id} start to clean"
    PARTY_CLEANED = JOB, "job {job_id} on {role} {party_id} clean done"
    END_PASS_EXCEEDED = JOB, "the number of updates has been exceeded"

    # 3.5 rerun and retry. outcome: successfully, failed
    RERUN_ASKED = JOB, "try to rerun job {job_id} on initiator {role} {party_id}"
    RERUN_TASK_PASSED = JOB, "task {task_id} {task_version} on {role} {party_id} is {status}, pass rerun"
    TASK_VERSION_ASKED = JOB, "create task {task_id} new version {task_version}"
    TASK_VERSION_CREATED = JOB, "create task {task_id} new version {task_version} successfully"
    RERUN_SIGNAL_ASKED = JOB, "job {job_id} set rerun signal"
    RERUN_SIGNAL_SET = JOB, "job {job_id} set rerun signal {outcome}"
    RERUN_NOTHING = JOB, "job {job_id} no task to rerun"
    RERUN_WAITING_ASKED = JOB, "job {job_id} has been finished, set waiting to rerun"
    RERUN_WAITING_SET = JOB, "job {job_id} set waiting to rerun {outcome}"
    JOB_HAS_RETRIES = JOB, "job have auto rerun tasks"                                                  # 1.11
    TASK_RETRIES = JOB, "task {task_id} {status} will be retried"                                       # 1.11
    TASK_RETRIES_SPENT = JOB, "task {task_id} has no retry count"                                       # 1.11

    # 3.6 detector. reason: task executor process abort, running timeout, start timeout, federated error
    DETECT_TASKS_STARTED = DETECT, "start to detect running task.."
    DETECT_TASKS_FINISHED = DETECT, "finish detect {count} running task"
    DETECT_PROCESS_GONE = (
        JOB_DETECT, "job {job_id} task {task_id} {task_version} on {role} {party_id} process {pid} does not exist")
    DETECT_STOPPING = DETECT, "start to stop jobs: {job_ids}"
    DETECT_JOBS_STARTED = DETECT, "start detect running job"
    DETECT_JOBS_FINISHED = DETECT, "finish detect running job"
    DETECT_RESOURCE_STARTED = DETECT, "start detect resource recycle"
    DETECT_RESOURCE_FINISHED = DETECT, "finish detect resource recycle"
    DETECT_RETURN_ASKED = JOB_DETECT, "start to return job {job_id} on {role} {party_id} resource"
    DETECT_RETURNED = JOB_DETECT, "return job {job_id} on {role} {party_id} resource {outcome}"  # successfully, failed
    DETECT_STOP_COUNT = DETECT, "have {count} should be stopped, because of {reason}"
    DETECT_STOP_ASKED = JOB_DETECT, "detector request start to stop job {job_id}, because of {reason}"
    DETECT_STOP_DONE = JOB_DETECT, "detector request stop job {job_id} successfully"
    DETECT_FEDERATED_STARTED = DETECT, "start federated detect running job"                             # 1.9
    DETECT_FEDERATED_JOB = JOB_DETECT, "start federated detect running job {job_id} cur_retry={retry}"  # 1.9
    DETECT_FEDERATED_DONE = JOB_DETECT, "federated detect running job {job_id} success"                 # 1.9
    DETECT_FEDERATED_FAILED = JOB_DETECT, "job {job_id} connect failed: {error}"                        # 1.9
    DETECT_FEDERATED_FINISHED = DETECT, "finish federated detect running job"                           # 1.9
    RUN_TIMEOUT = JOB, "job {job_id}  run time {seconds}s timeout"

    # own: what FATE has no words for
    SERVED = AUDIT, "{text}"
    TRACED = JOB, "job {job_id}: trace {trace}"
    JOB_NOTE = JOB, "{text}"
    JOB_WARNING = JOB, "{text}", WARNING
    JOB_ERROR = JOB, "{text}", ERROR, ("text",)
    SERVER_NOTE = SERVER, "{text}"
    SERVER_WARNING = SERVER, "{text}", WARNING
    DETECT_NOTE = DETECT, "{text}"
    JOB_DETECT_NOTE = JOB_DETECT, "{text}"

    def __init__(self, log: Log, template: str, level: Level = Level.INFO, lines: tuple[str, ...] = ()) -> None:
        self.log = log
        self.template = template
        self.level = level
        self.lines = lines
        named = {name for _, name, _, _ in Formatter().parse(template) if name}
        self.fields = frozenset(named | {"job_id"} if log.is_jobs else named)
        self._is_simple = not lines and template.isprintable()

    def message(self, fields: Mapping[str, object]) -> str:
        """Return the text with its fields filled in, safe to write.

        Raises TypeError if the fields are not exactly those of the event."""
        if fields.keys() != self.fields:
            raise TypeError(f"Event.{self.name} has the fields {sorted(self.fields)}, not {sorted(fields)}")
        texts = {name: text_of(value) for name, value in fields.items()}
        if self._is_simple:
            return one_line(self.template.format_map(texts))
        safe = {name: many_lines(text) if name in self.lines else one_line(text) for name, text in texts.items()}
        return indent_records(self.template.format_map(safe))      # a field may follow a newline of the template
