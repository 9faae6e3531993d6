"""`/v1/resource/...`: what this party's engines have, and the jobs that hold some of it (client-api-v1, 3.2)."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.arguments import JOB, read_job_id, read_text
from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import (
    COUNT,
    NUMBER,
    TEXT,
    TIME,
    YES_NO,
    a_list,
    an_object,
    declared,
    described,
)
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import arguments, failed, ok, silent_json
from fate_flow.api.v1.rendering import engine
from fate_flow.api.v1.rendering.jobs_beside import JOBS_BESIDE, jobs_beside
from fate_flow.core.access.client_roles import OPERATE, READ
from fate_flow.core.model.errors import JobNotFound
from fate_flow.core.model.job import Job
from fate_flow.core.model.resources import name_in_fate
from fate_flow.store.views.times.usage import QUARTER, end_of_quarters

_UNKNOWN_JOB = 100

_HOLDERS = described(a_list(engine.HOLDER_SCHEMA), "What jobs hold, an entry for each engine of a job.")
_RETURNED = a_list(an_object({**engine.SEAT, "resource_in_use": YES_NO, "resource_return_status": YES_NO}))


def blueprint(services: Services) -> Blueprint:
    jobs, views = services.use_cases.jobs, services.views
    resources = Blueprint("resources", __name__, url_prefix="/v1/resource")

    @resources.post("/query")
    @declared(
        "Show this party's engines, and the jobs that hold some of them.", READ, takes={"engine_name": TEXT},
        data=an_object({
            "use_resource_job": _HOLDERS, "computing_engine_resource": engine.ENGINE_SCHEMA,
            "engines": described(a_list(engine.ENGINE_SCHEMA), "All that the configuration has, the default first."),
        }),
        aside=JOBS_BESIDE,
    )
    def query() -> Response:
        name = read_text(silent_json(), "engine_name") or name_in_fate(services.context.engines.default)
        found = views.engine(engine.ENGINE, name)
        every = (views.engine(engine.ENGINE, name_in_fate(one)) for one in services.context.engines)
        holders = list(map(engine.rendered_holder, views.jobs_that_hold(engine.HOLDER)))
        return ok({
            "use_resource_job": holders, "computing_engine_resource": engine.rendered_engine(found),
            "engines": list(map(engine.rendered_engine, every)),
        }, **jobs_beside(views, (one["job_id"] for one in holders)))

    @resources.post("/history")
    @declared(
        "Show what jobs have reserved here in the last day: the mean of each quarter of an hour that is over.", READ,
        data=an_object({
            "reserved": described(
                a_list(an_object({"begin": TIME, "end": TIME, "cores": NUMBER, "memory": NUMBER}, title="Reserved")),
                "Oldest first, memory in MB; less than a day if more jobs have ended than one request reads.",
            ),
            "cores": described(COUNT, "All of this party now."), "memory": described(COUNT, "In MB; 0: not limited."),
        }),
    )
    def history() -> Response:
        usage, engines = views.board.usage(end_of_quarters(services.context.clock())), views.board.engines()
        return ok({
            "reserved": [
                {"begin": begin, "end": begin + QUARTER, "cores": cores, "memory": memory}
                for begin, cores, memory in usage.quarters
            ],
            "cores": sum(one.cores for one in engines), "memory": sum(one.memory for one in engines),
        })

    @resources.post("/return")
    @declared("Release what a job that does not run holds here.", OPERATE, needs=JOB, data=_RETURNED)
    def give_back() -> Response:
        job_id = read_job_id(arguments("job_id"))
        try:
            returned = jobs.return_resources(job_id, caller())
        except JobNotFound as error:
            return failed(_UNKNOWN_JOB, error.message)
        return ok([_returned(job, done) for job, done in returned])

    return resources


def _returned(job: Job, done: bool) -> dict[str, Any]:
    """Return a seat as it was before, and whether anything was released."""
    return {
        "job_id": job.job_id,
        "role": job.party.role,
        "party_id": job.party.party_id,
        "resource_in_use": job.holds and not done,
        "resource_return_status": done,
    }
