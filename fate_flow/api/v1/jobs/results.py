"""Notes on a job, its new metrics, and the removal of its tables and metrics (client-api-v1, 3.1 and 3.4)."""

from __future__ import annotations

import re
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.arguments import (
    COMPONENT_NAME,
    JOB,
    SEAT,
    Body,
    read_component,
    read_job_id,
    read_party,
    read_text,
    read_whole,
    whole,
)
from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import (
    ANYTHING,
    COUNT,
    NOTHING,
    TEXT,
    Arguments,
    Schema,
    a_list,
    an_object,
    declared,
    described,
)
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import arguments, ok
from fate_flow.core.access.client_roles import OPERATE, READ, SUBMIT
from fate_flow.core.metrics.form import axis_of, is_curve
from fate_flow.core.model.artifact import METRIC, TABLE
from fate_flow.core.model.errors import BadRequest, JobNotFound, OperationFailed
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.job import JobKey
from fate_flow.store.values import Metric, Scope
from fate_flow.store.views.lists import MOST_ROWS

_LONGEST_NOTES = 4_000
_DAY = re.compile(r"[0-9]{8}")

_SCOPE = {**SEAT, "component_name": described(COMPONENT_NAME, "Only for this component.")}
_SEAT_OR_ALL: tuple[Schema, ...] = (
    {"required": list(SEAT), "properties": SEAT},
    {"properties": dict.fromkeys(SEAT, NOTHING), "description": "For the whole job."},
)
_NOTES: Arguments = {"notes": {**TEXT, "maxLength": _LONGEST_NOTES}}
_JOB_OR_DAY: Arguments = {
    **JOB,
    "model": {
        "type": ["string", "integer"], "pattern": f"^{_DAY.pattern}$", "minimum": 10**7, "maximum": 10**8 - 1,
        "description": "All jobs of this day, such as 20260131; job_id is then ignored.",
    },
}  # fmt: skip
_ONE_OF_BOTH = tuple({"required": [key], "properties": {key: one}} for key, one in _JOB_OR_DAY.items())
_TABLES = a_list(an_object({"namespace": TEXT, "table_name": TEXT}))
_CURVE = an_object({
    "component_name": COMPONENT_NAME, **SEAT, "task_version": COUNT, "namespace": TEXT, "name": TEXT, "axis": TEXT,
    "points": a_list(a_list(ANYTHING), description="[step, value], or [step, value, seconds since the epoch]"),
}, title="Curve")  # fmt: skip


def blueprint(services: Services) -> Blueprint:
    routes = _ResultRoutes(services)
    results = Blueprint("results", __name__, url_prefix="/v1")
    for path, view in {
        "/job/clean": routes.clean_job,
        "/job/update": routes.describe_job,
        "/job/metrics": routes.new_points,
        "/tracking/component/metric/delete": routes.delete_metrics,
        "/table/disable/delete": routes.delete_disabled_tables,
    }.items():
        results.add_url_rule(path, view_func=view, methods=["POST"])
    return results


class _ResultRoutes:
    def __init__(self, services: Services) -> None:
        self._use_cases = services.use_cases
        self._context, self._views = services.context, services.views

    @declared(
        "Delete the results of an ended job's tasks here: tables, metrics, summaries.", SUBMIT | OPERATE,
        needs=JOB, takes=_SCOPE,
        either=_SEAT_OR_ALL, data=an_object({"tables": _TABLES, "metrics": COUNT}),
    )
    def clean_job(self) -> Response:
        """Delete the results of the whole job, or of the seat and the component that the body names."""
        removed = self._use_cases.results.clean_job(_read_scope(arguments("job_id")), caller())
        tables = [_named(one.metadata["namespace"], one.metadata["name"]) for one in removed[TABLE].artifacts]
        return ok({"tables": tables, "metrics": removed[METRIC].rows})

    @declared("Set the notes on a job, which are its description.", SUBMIT | OPERATE, needs=JOB | SEAT | _NOTES)
    def describe_job(self) -> Response:
        body = arguments("job_id", "role", "party_id", "notes")
        notes = read_text(body, "notes")
        if len(notes) > _LONGEST_NOTES:
            raise BadRequest(f"notes: has {len(notes)} characters; {_LONGEST_NOTES} is the most")
        self._use_cases.jobs.describe(JobKey(read_job_id(body), read_party(body)), notes, caller())
        return ok(retmsg="update job success")

    @declared(
        "Show the new points of the curves that the tasks of a job report at this party, such as a loss.", READ,
        needs=JOB, takes={"after": whole("Only what came after the number `next` of an earlier answer.", 0, default=0)},
        data=an_object({"curves": a_list(_CURVE), "next": COUNT}),
    )
    def new_points(self) -> Response:
        body = arguments("job_id")
        after = read_whole(body, "after", 0)
        pieces = self._views.metric_pieces(read_job_id(body), after)
        return ok({
            "curves": [_curve(one.metric) for one in pieces if is_curve(one.metric.data, one.metric.meta)],
            "next": max((one.number for one in pieces), default=after),
        })  # fmt: skip

    @declared(
        "Delete the metrics of an ended job, or of all ended jobs of a day.", OPERATE,
        takes=_JOB_OR_DAY, either=_ONE_OF_BOTH,
        data={"enum": ["delete status: True", "delete status: False"]},
    )
    def delete_metrics(self) -> Response:
        """Delete the metrics of all jobs of a day, which the client sends as `model`; without it, those of one job."""
        body = arguments()
        day, job_id = body.get("model"), read_job_id(body) if body.get("job_id") is not None else ""
        if day is None and job_id:
            return _done_or_nothing(self._use_cases.results.drop_metrics(Scope(job_id), caller()) > 0)
        if day is None:
            raise BadRequest("required argument are missing: job_id or model, a day such as 20260131")
        if not _DAY.fullmatch(str(day)):
            raise BadRequest(f"model: {shown(day)} is not a day such as 20260131")
        return _done_or_nothing(sum(self._drops_metrics(job_id) for job_id in self._jobs_of(str(day))) > 0)

    def _jobs_of(self, day: str) -> tuple[str, ...]:
        return self._context.read(lambda tx: tx.job_ids(day, f"{day}:", MOST_ROWS))      # a colon is after every digit

    def _drops_metrics(self, job_id: str) -> bool:
        """Delete the metrics of a job unless it has not ended; return whether it had any."""
        try:
            return self._use_cases.results.drop_metrics(Scope(job_id), caller()) > 0
        except (JobNotFound, OperationFailed):
            return False

    @declared("Delete all disabled tables.", OPERATE, data=_TABLES)
    def delete_disabled_tables(self) -> Response:
        dropped = self._use_cases.tables.drop_disabled_tables(caller())
        return ok([_named(one.namespace, one.name) for one in dropped])


def _curve(metric: Metric) -> dict[str, Any]:
    key = metric.task
    return {
        "component_name": key.name, "role": key.party.role, "party_id": key.party.party_id, "task_version": key.version,
        "namespace": metric.namespace, "name": metric.name, "axis": axis_of(metric.meta), "points": metric.data,
    }  # fmt: skip


def _done_or_nothing(is_done: bool) -> Response:
    return ok(f"delete status: {is_done}")


def _read_scope(body: Body) -> Scope:
    """Return the scope of a request. Raise BadRequest for a role without a party id, or the other way round."""
    is_of_seat = body.get("role") is not None or body.get("party_id") is not None
    task = read_component(body) if body.get("component_name") is not None else ""
    return Scope(read_job_id(body), read_party(body) if is_of_seat else None, task)


def _named(namespace: str, name: str) -> dict[str, str]:
    return {"namespace": namespace, "table_name": name}
