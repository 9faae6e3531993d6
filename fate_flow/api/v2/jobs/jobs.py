"""`/v2/job/...`: submit a DAG, and look at jobs (reference: client-api-v2, section 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, request

from fate_flow.api.http.arguments import read_job_id, read_party
from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import FREE, TEXT, Arguments, a_list, declared
from fate_flow.api.http.paths import check_paths
from fate_flow.api.http.services import Services
from fate_flow.api.v1.jobs.conditions import with_conditions_of_jobs
from fate_flow.api.v1.jobs.submission import SentJob, SubmitFailed, hand_over
from fate_flow.api.v2.arguments import arguments
from fate_flow.api.v2.envelope import ok
from fate_flow.api.v2.errors import BadDag, CreateFailed, not_found
from fate_flow.api.v2.jobs import rows
from fate_flow.api.v2.jobs.dependencies import dependencies_of
from fate_flow.api.v2.jobs.paging import PAGE, read_page
from fate_flow.core.access.client_roles import OPERATE, READ, SUBMIT
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.errors import BadRequest, JobNotFound
from fate_flow.core.model.job import JobKey
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.jobspec.fate_v2.parties import as_list
from fate_flow.jobspec.fate_v2.reader import FATE_V2, model_of
from fate_flow.jobspec.fate_v2.submitted import as_submitted
from fate_flow.jobspec.formats import parse_or_problems
from fate_flow.jobspec.text.json_text import RepeatedKey, read_json_text
from fate_flow.services.context.documents import ParsedJob, spec_in_row
from fate_flow.services.models.inheriting import with_inheritance
from fate_flow.store.values import Document, Scope
from fate_flow.store.views.filters import Filters
from fate_flow.store.views.lists import JobQuery

JOB: Arguments = {"job_id": TEXT}
SEAT: Arguments = {**JOB, "role": TEXT, "party_id": TEXT}
_MOST_PROBLEMS = 100


def blueprint(services: Services) -> Blueprint:
    routes = _Jobs(services)
    found = Blueprint("v2_jobs", __name__, url_prefix="/v2/job")
    for method, paths in {
        "POST": {"/submit": routes.submit, "/clean": routes.clean},
        "GET": {
            "/query": routes.query,
            "/list/query": routes.list_jobs,
            "/dag/dependency": routes.dependency,
            "/data/view": routes.view_data,
        },
    }.items():
        for path, view in paths.items():
            found.add_url_rule(path, view_func=view, methods=[method])
    return found


class _Jobs:
    def __init__(self, services: Services) -> None:
        self._services, self._views, self._context = services, services.views, services.context

    # ------------------------------------------------------------------ changes

    @declared("Submit a job as a DAG, which every party has to accept.", SUBMIT, needs={"dag_schema": FREE})
    def submit(self) -> Response:
        _refuse_repeated_keys()
        body = as_submitted(arguments()["dag_schema"], self._context.party_id, self._context.modules)
        body = with_inheritance(self._context, body)
        try:
            submitted = hand_over(self._services, self._parsed(body), check=self._check_paths)
        except SubmitFailed as error:
            raise CreateFailed(error.message) from error
        warnings = [*submitted.spec.warnings, *submitted.warnings]
        data: dict[str, Any] = {**model_of(body, submitted.job_id), **({"warnings": warnings} if warnings else {})}
        return ok(data, job_id=submitted.job_id)

    def _parsed(self, body: Mapping[str, Any]) -> SentJob:
        """Raise BadDag."""
        document = JobDocument(FATE_V2, body)
        spec, problems = parse_or_problems(document, modules=self._context.modules, defaults=self._context.defaults)
        if spec is None:
            raise BadDag(problems[0], data={"problems": list(problems[:_MOST_PROBLEMS])})
        return SentJob(ParsedJob(Document(spec.dsl, spec.stated_conf, {}, own=document), spec), ())

    def _check_paths(self, spec: JobSpec) -> None:
        check_paths(self._services.settings, self._context.modules, spec)

    @declared("Delete the results of an ended job's tasks here.", SUBMIT | OPERATE, needs=JOB)
    def clean(self) -> Response:
        sent = arguments()
        try:
            self._services.use_cases.results.clean_job(Scope(read_job_id(sent)), caller())
        except JobNotFound as error:
            raise not_found(JobNotFound, job_id=sent["job_id"]) from error
        return ok()

    # ------------------------------------------------------------------ the state of jobs

    @declared("Show the jobs that match the filters, at most 1000.", READ, takes={**SEAT, "status": TEXT})
    def query(self) -> Response:
        sent = arguments()
        filters: dict[str, Any] = {key: sent[key] for key in SEAT if sent.get(key)}
        if sent.get("status"):
            filters["status"] = rows.meant_job_statuses(sent["status"])
        found = self._jobs(filters)
        if not found:
            raise not_found(JobNotFound, **sent)
        return ok(list(map(rows.rendered_job, with_conditions_of_jobs(self._context, found))))

    def _jobs(self, filters: Filters) -> list[dict[str, Any]]:
        if filters:
            return self._views.jobs(rows.JOB, filters)
        return self._views.job_list(rows.JOB, JobQuery(), read_page({}))[0]

    @declared(
        "List one page of jobs.", READ,
        takes={
            **PAGE, **JOB, "description": TEXT, "partner": TEXT, "party_id": TEXT, "role": a_list(TEXT),
            "status": a_list(TEXT),
        },
    )
    def list_jobs(self) -> Response:
        sent = arguments()
        query = JobQuery(
            job_id=sent.get("job_id", ""),
            description=sent.get("description", ""),
            party_id=sent.get("party_id", ""),
            partner=sent.get("partner", ""),
            roles=tuple(sent.get("role", ())),
            statuses=tuple(one for status in sent.get("status", ()) for one in rows.meant_job_statuses(status)),
        )
        found, count = self._views.job_list(rows.JOB, query, read_page(sent))
        listed = with_conditions_of_jobs(self._context, found)
        return ok({"count": count, "data": list(map(rows.rendered_in_list, listed))})

    # ------------------------------------------------------------------ documents

    @declared("Show which outputs each task of a job reads.", READ, needs=SEAT)
    def dependency(self) -> Response:
        sent = arguments()
        job_id, party = _read_seat(sent)
        row = self._views.job(rows.JOB, JobKey(job_id, party))
        if row is None:
            raise not_found(JobNotFound, **sent)
        return ok(dependencies_of(self._spec(job_id), party))

    @declared("Show the tables that the tasks of a job read by their names.", READ, needs=SEAT)
    def view_data(self) -> Response:
        sent = arguments()
        job_id, party = _read_seat(sent)
        if self._views.job(("job_id",), JobKey(job_id, party)) is None:
            raise not_found(JobNotFound, **sent)
        spec = self._spec(job_id)
        found: dict[str, dict[str, list[dict[str, str]]]] = {}
        for one in as_list(spec.parties):
            for party_id in one["party_id"]:
                tables = [task.table_at(Party(one["role"], party_id)) for task in spec.tasks.values()]
                named = [{"namespace": table[0], "name": table[1]} for table in tables if table is not None]
                found.setdefault(one["role"], {})[party_id] = named
        return ok({"role": party.role, "party_id": party.party_id, "data_view": found})

    def _spec(self, job_id: str) -> JobSpec:
        document = self._views.document(job_id)
        if document is None:
            raise not_found(JobNotFound, job_id=job_id)
        return spec_in_row(self._context, document)


def _read_seat(sent: Mapping[str, Any]) -> tuple[str, Party]:
    """Raise JobNotFound for what cannot be the id of a job or a party: there is no such job."""
    try:
        return read_job_id(sent), read_party(sent)
    except BadRequest as error:
        raise not_found(JobNotFound, **sent) from error


def _refuse_repeated_keys() -> None:
    """Raise BadRequest for a key that occurs twice in an object: one of the two would be lost silently."""
    try:
        read_json_text(request.get_data())
    except RepeatedKey as error:
        raise BadRequest(str(error)) from error
    except (ValueError, RecursionError):
        pass        # `arguments` reports it
