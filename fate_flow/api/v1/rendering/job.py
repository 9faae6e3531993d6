"""A job as clients of v1 read it: alone, in a list, and its documents."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fate_flow.api.http.declared import DIGEST, Arguments, an_object, described
from fate_flow.api.v1.rendering.fields import Field, fields_of, prefixed, rendering, schemas_of, without
from fate_flow.api.v1.rendering.statuses import SCHEMAS, shown_status
from fate_flow.core.model.document import Disclosure, JobDocument, fate_v1_document
from fate_flow.jobspec.fate_v1.model_name import model_id_of
from fate_flow.jobspec.formats import digest_of, withheld_from
from fate_flow.store.views.columns import Row

JOB = fields_of(
    text="job_id role party_id initiator_role initiator_party_id status caused_by ready_owner claim blocked_on lacks "
    "asked_engine approval approval_by approval_digest hold_by format",
    text_or_null="user_id name description tag engine_name engine_type inheritance_status target reason message "
    "wait_reason approval_message hold_message",
    whole="update_time progress end_scheduling_updates cores memory remaining_cores remaining_memory run turn "
    "claim_turn claim_renewals asked_cores asked_memory gpus asked_gpus blocked_cores retry_at passes conflicts "
    "timeout_seconds since queued stop_by restarts revision wish_since wish_asked wish_passes approval_time hold_time "
    "hold_since priority enqueued queue_key lost_since losses",
    whole_or_null="create_time status_code ready_time cancel_time apply_resource_time return_resource_time start_time "
    "end_time elapsed exit_code ttl",
    flags="is_initiator ready_signal cancel_signal rerun_signal resource_in_use stop_now partial restarting legacy "
    "apart held",
    dates_or_null="create_date update_date start_date end_date",
    objects="dsl runtime_conf runtime_conf_on_party train_runtime_conf roles user inheritance_info policy_timers",
    lists="unconfirmed_parties missing_parties changed_components passers",
)
LISTED_JOB = without(JOB, ("dsl", "runtime_conf", "runtime_conf_on_party", "train_runtime_conf"))
"""A list leaves out whole documents."""
CONFIG = ("job_id", "dsl", "runtime_conf", "train_runtime_conf", "format", "document", "roles")
"""What `rendered_config` needs. Only it shows a document of another format: FATE's client prints whole rows."""

_DETAIL = {"status_detail": Field(str)}
_APPROVABLE: Arguments = {"document_digest": described(DIGEST, "Only for a job that this party has to approve.")}

JOB_SCHEMA = an_object(schemas_of({**JOB, **_DETAIL}, SCHEMAS), prefixed(_APPROVABLE), title="Job")
LISTED_JOB_SCHEMA = an_object(
    {
        **schemas_of({**LISTED_JOB, **_DETAIL}, SCHEMAS, ""),
        "party_id": {"type": "integer"}, "partners": {"type": "array", "items": {"type": "integer"}},
    },
    _APPROVABLE, title="ListedJob",
)  # fmt: skip

_job = rendering(JOB)
_listed_job = rendering(LISTED_JOB, "")


def rendered_job(row: Row) -> dict[str, Any]:
    """Return a job from a row with the fields `JOB`."""
    job = _with_status(_job(row), row, "f_")
    return job if "document_digest" not in row else {**job, "f_document_digest": row["document_digest"]}


def rendered_in_list(row: Row) -> dict[str, Any]:
    """Return a job of a list from a row with the fields `LISTED_JOB`."""
    job = _with_status(_listed_job(row), row, "")
    job["party_id"] = own = int(row["party_id"])
    others = {int(one) for role, ids in row["roles"].items() if role != "local" for one in ids}
    job["partners"] = sorted(others - {own})
    return job if "document_digest" not in row else {**job, "document_digest": row["document_digest"]}


def rendered_config(row: Row) -> dict[str, Any]:
    """Return the documents of a job from a row with the fields `CONFIG`."""
    dsl, conf, own = (json.loads(row[one].text) for one in ("dsl", "runtime_conf", "document"))
    document = fate_v1_document(dsl, conf)
    if "body" in own:
        document = JobDocument(row["format"], own["body"], own["defaults"])
    shown = {"format": document.format, "body": document.body, "defaults": document.defaults}
    if "disclosure" in own:
        given = own["disclosure"]
        document = replace(document, disclosure=Disclosure(given["salts"], given["commitments"]))
    withheld = sorted(withheld_from(document))
    return {
        "job_id": row["job_id"],
        "dsl": row["dsl"],
        "runtime_conf": row["runtime_conf"],
        "train_runtime_conf": row["train_runtime_conf"],
        **({"document": shown} if "body" in own else {}),
        **({"withheld": [{"role": one.role, "party_id": one.party_id} for one in withheld]} if withheld else {}),
        "digest": digest_of(document),
        "model_info": {"model_id": model_id_of(row["roles"]), "model_version": row["job_id"]},
    }


def _with_status(job: dict[str, Any], row: Row, prefix: str) -> dict[str, Any]:
    """Set in a job what clients see of its status and its times; return the job."""
    job[f"{prefix}status"] = shown_status(row["status"])
    job[f"{prefix}status_detail"] = row.get("status_detail", row["status"])
    job[f"{prefix}update_time"] = latest_time(row)
    return job


def latest_time(row: Row) -> int:
    """Return the time of the last change that a client can see: the column of FATE is not written."""
    return max(row["create_time"] or 0, row["start_time"] or 0, row["end_time"] or 0)
