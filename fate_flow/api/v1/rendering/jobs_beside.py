"""The names of jobs beside `data`: what FATE's clients read stays as it is, whatever else we say of a job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fate_flow.api.http.declared import TEXT, TIME, Arguments, an_object, by_name, or_null
from fate_flow.api.v1.rendering.statuses import shown_status
from fate_flow.core.planning.condition import RESTARTING
from fate_flow.store.views.views import Views

JOBS_BESIDE: Arguments = {"jobs": by_name(
    an_object(
        {"name": TEXT, "status": TEXT, "status_detail": TEXT, "create_time": or_null(TIME)}, title="JobBeside",
    ),
    description="The jobs that `data` or the request names, by id, as far as this server knows them.",
)}  # fmt: skip


def jobs_beside(views: Views, job_ids: Iterable[str]) -> dict[str, Any]:
    """Return the key `jobs` of an answer about these jobs; one query, however many they are."""
    return {"jobs": {
        job_id: {
            "name": one.name, "status": shown_status(one.status),
            "status_detail": RESTARTING if one.is_restarting else one.status, "create_time": one.create_time,
        }
        for job_id, one in views.job_heads(job_ids).items()
    }}  # fmt: skip
