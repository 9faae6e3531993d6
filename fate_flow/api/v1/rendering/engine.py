"""The computing engine, and the reservations of jobs there, as clients of v1 read them."""

from __future__ import annotations

from typing import Any

from fate_flow.api.http.declared import COUNT, TEXT, Arguments, an_object, one_of
from fate_flow.api.v1.rendering.fields import fields_of, rendering, schemas_of
from fate_flow.core.model.grammar import ROLES
from fate_flow.store.views.columns import Row

ENGINE = fields_of(
    text="engine_type engine_name",
    text_or_null="engine_entrance",
    whole="update_time cores memory gpus remaining_cores remaining_memory remaining_gpus nodes",
    whole_or_null="create_time",
    dates_or_null="create_date update_date",
    objects="engine_config",
)
HOLDER = ("job_id", "role", "party_id", "cores", "memory", "gpus", "engine_name")
"""What `rendered_holder` needs."""

SEAT: Arguments = {"job_id": TEXT, "role": one_of(ROLES), "party_id": TEXT}
ENGINE_SCHEMA = an_object({}, schemas_of(ENGINE, {}), title="Engine", description="Empty if there is no engine.")
HOLDER_SCHEMA = an_object({**SEAT, "core": COUNT, "memory": COUNT, "gpus": COUNT, "engine": TEXT})

_engine = rendering(ENGINE)


def rendered_engine(row: Row | None) -> dict[str, Any]:
    """Return the engine from a row with the fields `ENGINE`; {} if there is none."""
    return {} if row is None else _engine(row)


def rendered_holder(row: Row) -> dict[str, Any]:
    """Return what a job holds, from a row with the fields `HOLDER`."""
    return {
        "job_id": row["job_id"], "role": row["role"], "party_id": row["party_id"], "core": row["cores"],
        "memory": row["memory"], "gpus": row["gpus"], "engine": row["engine_name"] or "",
    }  # fmt: skip
