"""`/v2/output/metric/...`: the metrics of a task, in FATE Flow 2's form (client-api-v2, section 6)."""

from __future__ import annotations

import json
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import FREE, TEXT, YES_NO, a_list, declared
from fate_flow.api.http.services import Services
from fate_flow.api.v2.arguments import arguments
from fate_flow.api.v2.envelope import ok
from fate_flow.api.v2.outputs.asked import TASK, task_asked
from fate_flow.core.access.client_roles import OPERATE, READ
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown
from fate_flow.store.values import Scope

_FILTERED = ("name", "type", "groups", "step_axis")


def blueprint(services: Services) -> Blueprint:
    views, results = services.views, services.use_cases.results
    metrics = Blueprint("v2_metrics", __name__, url_prefix="/v2/output/metric")

    def reported() -> list[dict[str, Any]]:
        task = task_asked(views)
        return views.metrics_in_fate_2(task.job_id, task.name, task.party)

    @metrics.get("/query")
    @declared(
        "Show the metrics of a task, or those that have the values of the JSON object `filters`.", READ, needs=TASK,
        takes={"filters": TEXT}, data=a_list(FREE),
    )
    def query() -> Response:
        wanted = _filters(arguments().get("filters", "{}"))
        return ok([one for one in reported() if all(one[key] == value for key, value in wanted.items())])

    @metrics.get("/key/query")
    @declared("List the metrics of a task, without their data.", READ, needs=TASK, data=a_list(FREE))
    def keys() -> Response:
        return ok([{key: value for key, value in one.items() if key != "data"} for one in reported()])

    @metrics.post("/delete")
    @declared("Delete the metrics of a task of an ended job.", OPERATE, needs=TASK, data=YES_NO)
    def delete() -> Response:
        task = task_asked(views)
        return ok(results.drop_metrics(Scope(task.job_id, task.party, task.name), caller()) > 0)

    return metrics


def _filters(text: str) -> dict[str, Any]:
    """Return the filters that count, by the keys of a metric. Raise BadRequest."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"filters: {shown(text)} is not JSON") from error
    if not isinstance(given, dict):
        raise BadRequest(f"filters: {shown(text)} is not a JSON object")
    return {key: value for key, value in given.items() if key in _FILTERED and value is not None}
