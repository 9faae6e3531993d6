"""`/v2/job/task/...`: the tasks of jobs (reference: client-api-v2, section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.declared import TEXT, WHOLE, Arguments, declared
from fate_flow.api.http.services import Services
from fate_flow.api.v1.jobs.conditions import with_conditions_of_tasks
from fate_flow.api.v2.arguments import arguments
from fate_flow.api.v2.envelope import ok
from fate_flow.api.v2.errors import TaskNotFound
from fate_flow.api.v2.jobs.paging import PAGE, read_page
from fate_flow.api.v2.jobs.rows import TASK, meant_task_statuses, rendered_task
from fate_flow.core.access.client_roles import READ
from fate_flow.services.context.documents import readable_spec
from fate_flow.store.views.columns import Row
from fate_flow.store.views.filters import Filters

_SEAT: Arguments = {"job_id": TEXT, "role": TEXT, "party_id": TEXT, "task_name": TEXT}
_COLUMN = {"task_name": "component_name"}


def blueprint(services: Services) -> Blueprint:
    routes = _Tasks(services)
    found = Blueprint("v2_tasks", __name__, url_prefix="/v2/job/task")
    found.add_url_rule("/query", view_func=routes.query, methods=["GET"])
    found.add_url_rule("/list/query", "list", routes.list_tasks, methods=["GET"])
    return found


class _Tasks:
    def __init__(self, services: Services) -> None:
        self._views, self._context = services.views, services.context

    @declared(
        "Show the newest version of each task that matches the filters, or the version that is asked for.", READ,
        takes={**_SEAT, "status": TEXT, "task_id": TEXT, "task_version": WHOLE},
    )
    def query(self) -> Response:
        sent = arguments()
        filters = _filters(sent, (*_SEAT, "task_id", "task_version"))
        if sent.get("status"):
            filters["status"] = meant_task_statuses(sent["status"])
        if "task_version" in filters or not filters:
            found, _ = self._views.task_list(TASK, filters, read_page({}))
        else:
            found = self._views.tasks(TASK, filters)
        if not found:
            raise TaskNotFound
        return ok(self._rendered(found))

    @declared("List one page of tasks, all versions.", READ, takes={**PAGE, **_SEAT})
    def list_tasks(self) -> Response:
        sent = arguments()
        found, count = self._views.task_list(TASK, _filters(sent, tuple(_SEAT)), read_page(sent))
        return ok({"count": count, "data": self._rendered(found)})

    def _rendered(self, found: list[Row]) -> list[dict[str, Any]]:
        documents = {job_id: self._views.document(job_id) for job_id in sorted({row["job_id"] for row in found})}
        specs = {job_id: readable_spec(self._context, one) for job_id, one in documents.items()}
        return [rendered_task(row, specs[row["job_id"]]) for row in with_conditions_of_tasks(self._context, found)]


def _filters(sent: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    found: Filters = {_COLUMN.get(key, key): sent[key] for key in keys if sent.get(key) not in (None, "")}
    return dict(found)
