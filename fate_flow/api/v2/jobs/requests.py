"""`/v2/job/...`: what clients ask about a job that is known here (client-api-v2, section 5)."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.archive import GZIP, tar_response
from fate_flow.api.http.arguments import read_job_id, read_party
from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import FREE, TEXT, Arguments, by_name, declared
from fate_flow.api.http.services import Services
from fate_flow.api.v1.jobs.job_log import logs_of
from fate_flow.api.v1.jobs.rerun import rerun_at_initiator
from fate_flow.api.v2.arguments import arguments
from fate_flow.api.v2.envelope import SUCCESS, ok
from fate_flow.api.v2.errors import FileNotThere, RefusedByInitiator, not_found
from fate_flow.core.access.client_roles import AUDIT, OPERATE, SUBMIT
from fate_flow.core.model.errors import JobNotFound
from fate_flow.core.model.job import JobKey

JOB: Arguments = {"job_id": TEXT}
SEAT: Arguments = {**JOB, "role": TEXT, "party_id": TEXT}


def blueprint(services: Services) -> Blueprint:
    routes = _Requests(services)
    found = Blueprint("v2_job_requests", __name__, url_prefix="/v2/job")
    for path, view in {
        "/stop": routes.stop,
        "/rerun": routes.rerun,
        "/queue/clean": routes.clean_queue,
        "/notes/add": routes.add_notes,
        "/log/download": routes.download_log,
    }.items():
        found.add_url_rule(path, view_func=view, methods=["POST"])
    return found


class _Requests:
    def __init__(self, services: Services) -> None:
        self._services, self._use_cases = services, services.use_cases

    @declared("Stop a job at all its parties.", SUBMIT | OPERATE, needs=JOB)
    def stop(self) -> Response:
        sent = arguments()
        try:
            self._use_cases.jobs.stop(read_job_id(sent), by=caller())
        except JobNotFound as error:
            raise not_found(JobNotFound, job_id=sent["job_id"]) from error
        return ok()

    @declared("Rerun an ended job; another party passes the request on to the initiator.", SUBMIT | OPERATE, needs=JOB)
    def rerun(self) -> Response:
        sent = arguments()
        try:
            answer = rerun_at_initiator(self._services, read_job_id(sent), {})
        except JobNotFound as error:
            raise not_found(JobNotFound, job_id=sent["job_id"]) from error
        if not answer.is_ok:
            raise RefusedByInitiator(answer.retmsg)
        return ok()

    @declared("Cancel every waiting job of this initiator.", OPERATE, data=by_name(FREE))
    def clean_queue(self) -> Response:
        canceled = self._use_cases.queue.clean_queue(caller())
        return ok({job_id: {"code": 0, "message": SUCCESS} for job_id in canceled})

    @declared("Set this party's notes on a job.", SUBMIT | OPERATE, needs=SEAT | {"notes": TEXT})
    def add_notes(self) -> Response:
        sent = arguments()
        try:
            self._use_cases.jobs.describe(JobKey(read_job_id(sent), read_party(sent)), sent["notes"], caller())
        except JobNotFound as error:
            looked_for = {key: sent[key] for key in SEAT}
            raise not_found(JobNotFound, **looked_for) from error
        return ok()

    @declared("Download all log files of a job, as a tar.", SUBMIT | OPERATE | AUDIT, needs=JOB, file=GZIP)
    def download_log(self) -> Response:
        job_id = read_job_id(arguments())
        folder = self._services.settings.log_dir / job_id
        if not folder.is_dir():
            raise not_found(FileNotThere, job_id=job_id)
        return tar_response(f"job_{job_id}_log.tar.gz", logs_of(folder, self._services.views.snapshot(job_id)))
