"""The schemas of the larger answers to clients, which `explain.py`, `submission.py` and `data.py` make."""

from __future__ import annotations

from fate_flow.api.http.declared import (
    ANYTHING,
    COUNT,
    DIGEST,
    FREE,
    IGNORED,
    NUMBER,
    TEXT,
    TIME,
    WHOLE,
    YES_NO,
    Arguments,
    Schema,
    a_list,
    an_object,
    by_name,
    described,
    one_of,
    or_null,
)
from fate_flow.core.model.approval import Approval
from fate_flow.core.model.grammar import ROLES
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Blocker
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus, WorkerStatus
from fate_flow.core.planning.condition import RESTARTING
from fate_flow.core.text.peer_problems import PeerProblem
from fate_flow.jobspec.sources import BUILT_IN, DOCUMENT, PARTY, SERVER

_NAMES = a_list(TEXT)
_PASSERS = described(
    a_list(an_object({"job_id": TEXT, "name": TEXT}, title="Passer")),
    "The newest of the later jobs that took capacity which it waits for, newest first.",
)
_PARTY: Arguments = {"role": one_of(ROLES), "party_id": TEXT}
_PARTY_ONLY = an_object(_PARTY, title="Party")
_REASON = or_null(one_of({reason.value for reason in Reason}))
_HOLD = or_null(an_object({"message": TEXT, "by": TEXT, "time": TIME}, title="Hold", description="No job starts."))
_BLOCKED_BY = or_null(one_of({blocker.value for blocker in Blocker}))
WAITED_FOR = frozenset({
    "awaiting_approval", "initiator", "release", "retry_backoff", "parties", "room", "size", "answer", "turn",
})  # fmt: skip
"""The words for what a waiting job waits for."""
_WAITS_FOR = or_null(one_of(WAITED_FOR))
_JOB_STATUSES = {status.value for status in JobStatus}
_TASK_STATUSES = {status.value for status in TaskStatus}
_SHOWN_JOB_STATUS = one_of(_JOB_STATUSES - {JobStatus.STOPPING.value})
_SHOWN_TASK_STATUS = one_of(_TASK_STATUSES - {TaskStatus.STOPPING.value})

WARNINGS = described(_NAMES, IGNORED)

# ---------------------------------------------------------------------- an existing job

_SEAT = an_object({
    **_PARTY,
    "status": one_of({status.value for status in SeatStatus} | (_JOB_STATUSES - {JobStatus.STOPPING.value})),
    "message": TEXT,
    "asked_cores": COUNT,
    "free_cores": or_null(COUNT),
    "engines": a_list(an_object({
        "engine": TEXT, "cores": COUNT, "memory": COUNT, "gpus": COUNT, "is_held": YES_NO,
    }), description="Only for this party: what the job asks of each of its engines."),
    "approval": described(or_null(TEXT), "Who approved the job there, and why; null: none is needed, or none yet."),
    "trouble": described(or_null(TEXT), "The problem of the connection to it, or back, and when it is given up."),
}, title="Seat", description="A party of the job as its initiator sees it; elsewhere, this party.")  # fmt: skip

_PARTY_TASK = an_object({
    **_PARTY,
    "status": _SHOWN_TASK_STATUS,
    "status_detail": one_of(_TASK_STATUSES),
    "reason": _REASON,
    "message": TEXT,
    "exit_code": or_null(WHOLE),
    "waits": described(or_null(TEXT), "Why a share that was started has no place to run yet."),
    "caused_by": or_null(TEXT),
    "start_time": or_null(TIME),
    "end_time": or_null(TIME),
}, title="PartyTask")  # fmt: skip

_WORKER = an_object({
    "worker": described(or_null(COUNT), "Number of the worker in its share; null: the output collector."),
    "rank": or_null(COUNT),
    "attempt": described(COUNT, "Number of the process of this worker, from 0."),
    "is_elastic": YES_NO,
    "status": one_of({status.value for status in WorkerStatus}),
    "reason": _REASON,
    "message": TEXT,
    "exit_status": TEXT,
    "caused_by": or_null(TEXT),
    "start_time": or_null(TIME),
    "end_time": or_null(TIME),
}, title="Worker")  # fmt: skip

_ELASTIC = an_object({
    "most": described(COUNT, "Replicas above the minimum."),
    "running": COUNT,
    "lent": described(COUNT, "Elastic workers whose cores went to other jobs."),
}, title="ElasticWorkers")  # fmt: skip

_SHARE = an_object({
    **_PARTY_TASK["properties"],
    "engine": described(or_null(TEXT), "Only for this party: the engine on which its workers run, or will run."),
    "workers": a_list(_WORKER, description="Only for this party: the newest process of each worker."),
    "elastic": or_null(_ELASTIC),
}, title="Share")  # fmt: skip

_TASK = an_object({
    "component_name": TEXT,
    "module": TEXT,
    "task_version": COUNT,
    "status": _SHOWN_TASK_STATUS,
    "status_detail": one_of(_TASK_STATUSES | {RESTARTING}),
    "reason": _REASON,
    "message": TEXT,
    "exit_code": or_null(WHOLE),
    "caused_by": or_null(TEXT),
    "end_time": or_null(TIME),
    "retries_left": COUNT,
    "begins_again": described(or_null(TEXT), "The version of the next attempt, and what it waits for; null: none."),
    "parties": a_list(_SHARE),
    "last_version": or_null(an_object({"task_version": COUNT, **_PARTY_TASK["properties"]})),
}, title="ExplainedTask")  # fmt: skip

_PENDING_POLICY = an_object({
    "action": TEXT,
    "seconds": {"type": "number", "minimum": 0},
    "event": TEXT,
    "component_name": or_null(TEXT),
    "task_version": or_null(COUNT),
    "role": or_null(one_of(ROLES)),
    "party_id": or_null(TEXT),
    "message": TEXT,
}, title="PendingPolicy")  # fmt: skip

EXPLAINED = an_object({
    "job_id": TEXT,
    "name": described(TEXT, "The name that its submitter gave it."),
    **_PARTY,
    "is_initiator": YES_NO,
    "initiator": _PARTY_ONLY,
    "initiator_trouble": described(
        or_null(TEXT), "The problem of the connection to its initiator, or back, if that is another party."
    ),
    "status": _SHOWN_JOB_STATUS,
    "status_detail": one_of(_JOB_STATUSES | {RESTARTING}),
    "target": or_null(one_of(_JOB_STATUSES)),
    "reason": _REASON,
    "message": TEXT,
    "caused_by": TEXT,
    "exit_code": or_null(WHOLE),
    "progress": {"type": "integer", "minimum": 0, "maximum": 100},
    "run": COUNT,
    "time": described(TIME, "Current time, by the clock of this server."),
    "create_time": TIME,
    "start_time": or_null(TIME),
    "end_time": or_null(TIME),
    "ttl": or_null(COUNT),
    "removed_after": or_null(TIME),
    "waiting_seconds": described(or_null(NUMBER), "How long the job has waited for cores; null: it does not wait."),
    "wait_reason": described(TEXT, "What the job waits for: in the queue, while it runs or while it ends."),
    "place_in_queue": or_null(COUNT),
    "passed_by": COUNT,
    "passers": _PASSERS,
    "priority": WHOLE,
    "hold": _HOLD,
    "lacks": _BLOCKED_BY,
    "waits_for": _WAITS_FOR,
    "awaiting_approval": _NAMES,
    "approval": or_null(an_object({
        "status": one_of({approval.value for approval in Approval}), "by": TEXT, "message": TEXT, "revision": COUNT,
        "digest": DIGEST,
        "time": or_null(TIME),
    }, title="Approval", description="This party's decision about a job of another initiator.")),
    "parties": a_list(_SEAT),
    "tasks": a_list(_TASK),
    "partial": YES_NO,
    "missing_parties": _NAMES,
    "restarts": COUNT,
    "pending_policies": a_list(_PENDING_POLICY),
    "unconfirmed_parties": _NAMES,
    "no_space": described(TEXT, "Why this party takes nothing new, messages between workers included; empty: it does."),
    "newest_metric": described(COUNT, "The number of the last metric that a task here has reported (job/metrics)."),
}, title="ExplainedJob")  # fmt: skip

MOVE = an_object({
    "time": TIME,
    "level": one_of({level.value for level in HistoryLevel}),
    "role": or_null(one_of(ROLES)),
    "party_id": or_null(TEXT),
    "component_name": or_null(TEXT),
    "task_version": or_null(COUNT),
    "old": or_null(TEXT),
    "new": TEXT,
    "reason": or_null(TEXT),
    "message": TEXT,
    "caused_by": or_null(TEXT),
    "exit_status": or_null(TEXT),
    "seen_by": TEXT,
}, title="Move")  # fmt: skip

ASKED = an_object({"party_id": TEXT, "asked": TEXT, "message": TEXT})

# ---------------------------------------------------------------------- the queue

_QUEUED = an_object({
    "place_in_queue": COUNT,
    "job_id": TEXT,
    "name": TEXT,
    "create_time": TIME,
    "priority": WHOLE,
    "initiator": _PARTY_ONLY,
    "parties": a_list(an_object({**_PARTY, "asked_cores": COUNT})),
    "passed_by": COUNT,
    "passers": _PASSERS,
    "is_in_turn": YES_NO,
    "wait_reason": TEXT,
    "waits_for": _WAITS_FOR,
    "lacks": _BLOCKED_BY,
    "blocked_on": or_null(TEXT),
    "awaiting_approval": _NAMES,
    "hold": _HOLD,
    "asked_again_seconds": or_null(NUMBER),
    "estimate_seconds": or_null(NUMBER),
    "no_estimate_because": or_null(TEXT),
}, title="QueuedJob")  # fmt: skip

QUEUE = an_object({
    "count": COUNT,
    "hold": _HOLD,
    "jobs": a_list(_QUEUED),
    "unapproved": a_list(an_object({
        "job_id": TEXT, "name": TEXT, **_PARTY, "initiator": _PARTY_ONLY, "parties": a_list(_PARTY_ONLY),
        "asked_cores": COUNT, "create_time": TIME, "revision": COUNT, "digest": DIGEST,
    }, title="UnapprovedJob")),
    "unapproved_count": described(COUNT, "All that need an approval here; `unapproved` has the first of them."),
})  # fmt: skip

# ---------------------------------------------------------------------- a job to be submitted

_SOURCED = by_name(an_object({
    "value": ANYTHING, "from": one_of({DOCUMENT, SERVER, BUILT_IN, PARTY}), "where": TEXT,
}, title="Sourced", description="A value and its source; times in seconds, memory in MB."))  # fmt: skip

_PREVIEW: Arguments = {
    "initiator": _PARTY_ONLY,
    "values": _SOURCED,
    "parties": a_list(an_object({
        **_PARTY,
        "asked": one_of({"accepts", "refuses", "not asked"}),
        "message": TEXT,
        "values": _SOURCED,
        "cores": COUNT,
        "memory": COUNT,
        "gpus": COUNT,
        "task_cores": COUNT,
        "job_parameters": FREE,
        "tasks": a_list(an_object({
            "component_name": TEXT, "module": TEXT, "stage": TEXT, "need_run": YES_NO, "after": _NAMES,
            "min_available": by_name(COUNT), "parameters": FREE, "values": _SOURCED,
        }, title="PreviewedTask")),
    }, title="PreviewedParty")),
    "warnings": WARNINGS,
}  # fmt: skip
PREVIEW = an_object(_PREVIEW, title="Preview")
PROBLEMS = an_object({"problems": a_list(TEXT, minItems=1)}, title="Problems", description="All problems of the job.")
REFUSED_PREVIEW: Schema = {"anyOf": [PROBLEMS, an_object({**_PREVIEW, **PROBLEMS["properties"]})]}

_SUBMITTED: Arguments = {
    "job_id": TEXT,
    "code": {"const": 0},
    "message": TEXT,
    "model_info": an_object({"model_id": TEXT, "model_version": TEXT}, title="ModelInfo"),
    "logs_directory": TEXT,
    "board_url": TEXT,
    "dsl_path": TEXT,
    "runtime_conf_path": TEXT,
    "runtime_conf_on_party_path": TEXT,
    "train_runtime_conf_path": TEXT,
    "pipeline_dsl_path": TEXT,
    "warnings": WARNINGS,
    "effective": a_list(
        an_object({**_PARTY, "message": TEXT}), description="The requested values that a party lowers."
    ),
}
SUBMITTED = an_object(_SUBMITTED, title="SubmittedJob")
SUBMITTED_WITH_TABLE = an_object({**_SUBMITTED, "table_name": TEXT, "namespace": TEXT}, title="SubmittedTableJob")

# ---------------------------------------------------------------------- documents and tables of a job

CHANGES = an_object({
    "job_id": TEXT,
    "digest": DIGEST,
    "approved_before": or_null(described(an_object({
        "job_id": TEXT, "by": TEXT, "time": TIME, "digest": DIGEST, "has_same_name": YES_NO,
        "is_as_approved": described(YES_NO, "Whether its document is still the one that was approved."),
    }), "null: this party has approved no job of this initiator with this name or the same tasks lately.")),
    "formats": or_null(described(a_list(TEXT), "Of both documents, if they are not the same: more may differ then.")),
    "count": COUNT,
    "changes": a_list(an_object({
        "kind": one_of({"added", "removed", "changed"}), "place": TEXT,
        "before": described(TEXT, "JSON, of long values the part from where they differ; empty: nothing."), "now": TEXT,
    }, title="Change")),
    "next": or_null(described(COUNT, "`first` of the next page; null: that was all.")),
})  # fmt: skip

CONFIG = an_object({
    "job_id": TEXT, "dsl": FREE, "runtime_conf": FREE, "train_runtime_conf": FREE, "digest": DIGEST,
    "model_info": _SUBMITTED["model_info"],
}, {
    "document": described(
        an_object({"format": TEXT, "body": FREE, "defaults": FREE}),
        "The document that was submitted, if its format is not FATE's; dsl and runtime_conf show its job so.",
    ),
    "withheld": a_list(an_object(_PARTY), description="Parties whose own parameters are not, or not all, shown here."),
})  # fmt: skip

REPORT = a_list(an_object({
    "component_name": TEXT, "role": one_of(ROLES), "party_id": TEXT, "start_time": or_null(TIME),
    "end_time": or_null(TIME), "elapsed": or_null(COUNT), "status": _SHOWN_TASK_STATUS, "index": COUNT,
}))  # fmt: skip

REPLACED = described(COUNT, "Rows of the file that a later row with the same id replaced.")
_SCHEMA_OF_TABLE = an_object({}, {"header": _NAMES, "sid": TEXT}, title="TableSchema")
TABLE_INFO = an_object(
    {"namespace": TEXT, "table_name": TEXT, "exist": {"enum": [0, 1]}, "count": or_null(COUNT)},
    {
        "partition": or_null(COUNT), "schema": _SCHEMA_OF_TABLE, "enable": YES_NO, "origin": TEXT,
        "extend_sid": YES_NO, "address": an_object({"uri": TEXT}), "replaced_rows": REPLACED,
    },
    title="TableInfo",
)  # fmt: skip
UPLOADS = a_list(by_name(an_object({
    "upload_info": an_object({
        "table_name": or_null(TEXT), "namespace": or_null(TEXT), "partition": or_null(COUNT),
        "upload_count": or_null(COUNT), "replaced_rows": or_null(REPLACED),
    }),
    "notes": TEXT,
    "schema": _SCHEMA_OF_TABLE,
}, title="Upload"), description="An object for each upload, with the job id as its key."))  # fmt: skip
OUTPUT_TABLES = a_list(an_object({"table_name": TEXT, "table_namespace": TEXT, "data_name": TEXT}))

# ---------------------------------------------------------------------- other parties

_KEYS_OF_PARTY = an_object({
    "state": one_of(("joined", "revoked", "removed")), "since": WHOLE, "by": TEXT, "list_number": WHOLE,
    "fingerprint": TEXT, "contacts": by_name(an_object({"at": WHOLE, "tls": TEXT, "key_id": TEXT})),
    "tls_keys": a_list(TEXT), "until": or_null(WHOLE), "address": TEXT, "phrase": TEXT,
    "clock_offset": or_null(WHOLE),
}, title="KeysOfParty")  # fmt: skip

PARTIES = an_object({
    "parties": a_list(an_object({
        "party_id": TEXT, "url": TEXT, "status": one_of(
            ("answers", "does not answer", "cannot reach this party", "not asked")
        ),
        "problem": described(one_of(("", *PeerProblem)), "What is wrong, as one word; empty: nothing, or not asked."),
        "message": TEXT, "hold": _HOLD, "keys": or_null(_KEYS_OF_PARTY),
        "offers": described(or_null(a_list(TEXT)), "The extensions that its server offers; null if it was not asked."),
        "clock_offset": described(or_null(WHOLE), "Milliseconds by which its clock is ahead; null if it does not say."),
    }, {
        "circuit": TEXT, "failures": COUNT, "silent_seconds": or_null(NUMBER), "next_try_seconds": or_null(NUMBER),
        "error": TEXT, "commands_waiting": COUNT,
        "round_trip_ms": described(or_null(COUNT), "How long requests of this party to it take; null: not known."),
        "back_ms": described(or_null(COUNT), "How long its requests to this party take, as it says."),
        "answered_at": described(or_null(WHOLE), "When it last answered the scheduler (ms); null: not yet."),
    }, title="KnownParty")),
    "own": an_object({"party_id": TEXT, "hold": _HOLD}),
})  # fmt: skip
