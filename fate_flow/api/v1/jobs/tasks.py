"""`/v1/job/...`: the tasks of jobs, for clients (client-api-v1, section 3.2)."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.arguments import JOB, read_job_id
from fate_flow.api.http.declared import COUNT, Arguments, a_list, an_object, declared, one_of, one_or_several
from fate_flow.api.http.services import Services
from fate_flow.api.http.shapes import REPORT
from fate_flow.api.v1.envelope import arguments, ok, silent_json
from fate_flow.api.v1.jobs.conditions import with_conditions_of_tasks
from fate_flow.api.v1.jobs.filters import filter_schemas, read_filters
from fate_flow.api.v1.jobs.list_arguments import BAD_FILTER, PAGE, read_choices, read_page
from fate_flow.api.v1.rendering import task
from fate_flow.api.v1.rendering.jobs_beside import JOBS_BESIDE, jobs_beside
from fate_flow.core.access.client_roles import READ
from fate_flow.core.model.errors import NotFound
from fate_flow.core.model.grammar import ROLES
from fate_flow.core.model.spec import Party
from fate_flow.jobspec.fate_v1.reader import component_parameters_on
from fate_flow.services.context.documents import readable_spec
from fate_flow.store.views.columns import Row

_FILTERS = filter_schemas(task.TASK)
_LIST_FILTERS = ("component_name", "job_id", "party_id", "role")
_LISTED_BY = {name: task.TASK[name] for name in _LIST_FILTERS}
_TASKS: Arguments = {**filter_schemas(_LISTED_BY), "role": one_or_several(one_of(ROLES))}


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

    @declared("Show when each task of a job began and ended here.", READ, needs=JOB, takes=_FILTERS, data=REPORT)
    def report(self) -> Response:
        """Return when each task of a job began and ended at this party, in the order of their creation."""
        body = arguments("job_id")
        filters = read_filters({**body, "job_id": read_job_id(body)}, task.TASK)
        rows = self._views.tasks(task.REPORT, filters)
        if not rows:
            raise NotFound("find task failed")
        return ok([task.rendered_report(row, place) for place, row in enumerate(rows)])

    @declared(
        "List one page of tasks, all versions.", READ, takes=_TASKS | PAGE,
        data=an_object({"tasks": a_list(task.LISTED_TASK_SCHEMA), "count": COUNT}), also=BAD_FILTER, aside=JOBS_BESIDE,
    )
    def list_tasks(self) -> Response:
        body = arguments()
        read_choices(body, "role", frozenset(ROLES))
        page = read_page(body, newest_first=False)
        rows, count = self._views.task_list(task.LISTED_TASK, read_filters(body, _LISTED_BY), page)
        listed = with_conditions_of_tasks(self._context, rows)
        data = {"tasks": list(map(task.rendered_in_list, listed)), "count": count}
        return ok(data, **jobs_beside(self._views, (row["job_id"] for row in rows)))

    @declared(
        "Show the newest version of each task that matches the filters, at each party.", READ, takes=_FILTERS | PAGE,
        data=a_list(task.TASK_SCHEMA), also=BAD_FILTER, aside=JOBS_BESIDE,
    )
    def query_tasks(self) -> Response:
        body = silent_json()
        page = read_page(body, newest_first=False)
        rows = self._views.tasks(task.TASK, read_filters(body, task.TASK), page)
        if not rows:
            raise NotFound("find task failed")
        self._add_parameters(rows)
        found = list(map(task.rendered_task, with_conditions_of_tasks(self._context, rows)))
        return ok(found, **jobs_beside(self._views, (row["job_id"] for row in rows)))

    def _add_parameters(self, rows: list[Row]) -> None:
        """Set the parameters of each task, as far as this party knows them: they are in the document of the job."""
        jobs = sorted({row["job_id"] for row in rows})
        specs = {job_id: readable_spec(self._context, self._views.document(job_id)) for job_id in jobs}
        for row in rows:
            spec, party = specs[row["job_id"]], Party(row["role"], row["party_id"])
            of_task = None if spec is None else spec.tasks.get(row["component_name"])
            if spec is None or of_task is None or party in spec.withheld or party not in of_task.parties:
                continue
            row["component_parameters"] = component_parameters_on(spec, of_task, party)
