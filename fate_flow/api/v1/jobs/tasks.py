"""`/v1/job/...`: the tasks of jobs, for clients (client-api-v1, section 3.2)."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.arguments import JOB, read_job_id
from fate_flow.api.http.declared import COUNT, a_list, an_object, declared, one_of, one_or_several
from fate_flow.api.http.envelope import arguments, ok, silent_json
from fate_flow.api.http.rows import LISTED_TASK, TASK_ROW, filters
from fate_flow.api.http.services import Services
from fate_flow.api.http.shapes import REPORT
from fate_flow.api.v1.jobs.conditions import with_conditions_of_tasks
from fate_flow.api.v1.jobs.list_arguments import BAD_FILTER, PAGE, read_choices, read_page, unprefixed
from fate_flow.core.model.errors import NotFound
from fate_flow.core.model.grammar import ROLES
from fate_flow.store.database.models import TaskRow

_REPORTED = ("component_name", "role", "party_id", "start_time", "end_time", "elapsed", "status")
_TASK_FILTERS = frozenset({"job_id", "role", "party_id", "component_name"})
_TASKS = {**filters(TaskRow, *sorted(_TASK_FILTERS)), "role": one_or_several(one_of(ROLES))}


def blueprint(services: Services) -> Blueprint:
    routes = _TaskRoutes(services)
    tasks = Blueprint("tasks", __name__, url_prefix="/v1/job")
    tasks.add_url_rule("/report", view_func=routes.report, methods=["POST"])
    tasks.add_url_rule("/list/task", view_func=routes.list_tasks, methods=["POST"])
    tasks.add_url_rule("/task/query", view_func=routes.query_tasks, methods=["POST"])
    return tasks


class _TaskRoutes:
    def __init__(self, services: Services) -> None:
        self._views = services.views
        self._context = services.context

    @declared("Show when each task of a job began and ended here.", needs=JOB, takes=filters(TaskRow), data=REPORT)
    def report(self) -> Response:
        """Return when each task of a job began and ended at this party, in the order of their creation."""
        body = arguments("job_id")
        rows = self._views.tasks({**body, "job_id": read_job_id(body)})
        if not rows:
            raise NotFound("find task failed")
        return ok([
            {**{key: row[f"f_{key}"] for key in _REPORTED}, "index": place} for place, row in enumerate(rows)
        ])

    @declared(
        "List one page of tasks, all versions.", takes=_TASKS | PAGE,
        data=an_object({"tasks": a_list(LISTED_TASK), "count": COUNT}), also=BAD_FILTER,
    )
    def list_tasks(self) -> Response:
        body = arguments()
        read_choices(body, "role", frozenset(ROLES))
        wanted = {key: value for key, value in body.items() if key in _TASK_FILTERS}
        rows, count = self._views.task_list(wanted, read_page(body, newest_first=False))
        listed = with_conditions_of_tasks(self._context, rows)
        return ok({"tasks": [unprefixed(row) for row in listed], "count": count})

    @declared(
        "Show the newest version of each task that matches the filters, at each party.", takes=filters(TaskRow) | PAGE,
        data=a_list(TASK_ROW), also=BAD_FILTER,
    )
    def query_tasks(self) -> Response:
        body = silent_json()
        rows = self._views.tasks(body, read_page(body, newest_first=False))
        if not rows:
            raise NotFound("find task failed")
        return ok(with_conditions_of_tasks(self._context, rows))
