"""`/v1/job/...`: jobs, for clients (client-api-v1, section 3.1)."""

from __future__ import annotations

from functools import partial

from flask import Blueprint, Response, request

from fate_flow.api.http.archive import GZIP, tar_response
from fate_flow.api.http.arguments import (
    COMPONENT_NAME,
    FLAG,
    JOB,
    MOST_WHOLE,
    SEAT,
    read_flag,
    read_job_id,
    read_party,
    read_text,
    read_whole,
    whole,
)
from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import (
    COUNT,
    DIGEST,
    TEXT,
    YES_NO,
    Arguments,
    a_list,
    an_object,
    by_name,
    declared,
    described,
    one_of,
    one_or_several,
    or_null,
)
from fate_flow.api.http.file_routes import file_follows
from fate_flow.api.http.paths import check_paths
from fate_flow.api.http.services import Services
from fate_flow.api.http.shapes import (
    ASKED,
    CHANGES,
    CONFIG,
    EXPLAINED,
    MOVE,
    PREVIEW,
    PROBLEMS,
    REFUSED_PREVIEW,
    SUBMITTED,
)
from fate_flow.api.v1.envelope import SUCCESS, arguments, documents, failed, ok, reply, silent_json
from fate_flow.api.v1.jobs.conditions import with_conditions_of_jobs
from fate_flow.api.v1.jobs.explain import REFUSES, explained, needs_spec, previewed
from fate_flow.api.v1.jobs.filters import filter_schemas, read_filters
from fate_flow.api.v1.jobs.history import federated_history
from fate_flow.api.v1.jobs.job_log import logs_of
from fate_flow.api.v1.jobs.list_arguments import (
    BAD_FILTER,
    PAGE,
    PART,
    SEARCH,
    read_choices,
    read_page,
    read_part,
    read_place,
    read_search,
    written_place,
)
from fate_flow.api.v1.jobs.queue import AUTHOR, MESSAGE, read_author, read_message
from fate_flow.api.v1.jobs.rerun import rerun_at_initiator
from fate_flow.api.v1.jobs.submission import (
    IDEMPOTENCY_KEY,
    REQUEST_ID,
    SUBMISSION,
    SUBMISSION_NEEDS,
    SUBMIT_FAILED,
    ask_parties,
    board_url_of,
    hand_over,
    parties_that_get_all,
    read_job,
    read_request_id,
    submit_data,
    warnings_of_whole,
)
from fate_flow.api.v1.jobs.task_order import TaskOrder
from fate_flow.api.v1.rendering import job
from fate_flow.api.v1.rendering.document_changes import rendered_changes
from fate_flow.api.v1.rendering.job_engines import engines_here
from fate_flow.api.v1.rendering.jobs_beside import JOBS_BESIDE, jobs_beside
from fate_flow.api.v1.rendering.output_table import OUTPUT_TABLE, OUTPUT_TABLE_SCHEMA, rendered_output_table
from fate_flow.api.v1.rendering.statuses import meant_statuses
from fate_flow.core.access.client_roles import APPROVE, AUDIT, OPERATE, READ, SUBMIT
from fate_flow.core.model.errors import FlowError, JobNotFound, NotFound
from fate_flow.core.model.grammar import ROLES, check_digest
from fate_flow.core.model.job import JobKey
from fate_flow.core.model.spec import MOST_PRIORITY, JobSpec
from fate_flow.core.model.status import JobStatus
from fate_flow.jobspec.sources import Sources
from fate_flow.services.context.disclosure import with_disclosure
from fate_flow.services.context.documents import spec_in_row
from fate_flow.services.context.space import no_space
from fate_flow.services.use_cases.jobs import STOPS
from fate_flow.services.workers.placement import request_at
from fate_flow.store.views.board import MOST_SEARCHED
from fate_flow.store.views.lists import MOST_ROWS, JobQuery

_STATUSES = frozenset(status.value for status in JobStatus)


_FIRST_CHANGE: Arguments = {"first": whole("The number of the first change of the answer, from 0.", default=0)}
_PRIORITY: Arguments = {"priority": whole("Higher ones first.", -MOST_PRIORITY, MOST_PRIORITY)}
_FROM = {**COMPONENT_NAME, "pattern": f"^$|{COMPONENT_NAME['pattern']}"}
_NEXT = or_null(described(TEXT, "From where the next request goes on; null: that was all."))
_JOBS_FOUND = 10
_FAILED_HOURS, _MOST_HOURS, _HOUR_MS = 24, 24 * 366, 3_600_000
_JOBS: Arguments = {
    **dict.fromkeys(("job_id", "description", "party_id", "partner"), PART),
    "role": one_or_several(one_of(ROLES)),
    "status": one_or_several(one_of(_STATUSES)),
}


def blueprint(services: Services) -> Blueprint:
    routes = _JobRoutes(services)
    jobs = Blueprint("jobs", __name__, url_prefix="/v1/job")
    for path, view in {
        "/submit": routes.submit,
        "/validate": routes.validate,
        "/query": routes.query,
        "/list/job": routes.list_jobs,
        "/search": routes.search,
        "/search/count": routes.count_found,
        "/failed": routes.failed,
        "/stop": routes.stop,
        "/rerun": routes.rerun,
        "/resume": routes.resume,
        "/priority": routes.set_priority,
        "/hold": routes.hold,
        "/release": routes.release,
        "/approve": routes.approve,
        "/reject": routes.reject,
        "/config": routes.config,
        "/explain": routes.explain,
        "/history": routes.history,
        "/changes": routes.changes,
        "/log/download": routes.download_log,
        "/log/path": routes.log_path,
        "/data/view/query": routes.view_data,
        "/url/get": routes.board_url,
        "/clean/queue": routes.clean_queue,
    }.items():
        jobs.add_url_rule(path, view_func=view, methods=["POST"])
    jobs.add_url_rule("/log", "log", routes.download_log, methods=["GET"])      # the path that fate_client 1.6 uses
    return jobs


class _JobRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._use_cases, self._jobs = services.use_cases, services.use_cases.jobs
        self._views = services.views
        self._settings = services.settings
        self._context = services.context
        self._order = TaskOrder(services.context, services.views)

    # ------------------------------------------------------------------ changes

    @declared(
        "Submit a job, which every party has to accept.", SUBMIT,
        takes=SUBMISSION | REQUEST_ID, either=SUBMISSION_NEEDS,
        headers=IDEMPOTENCY_KEY, data=SUBMITTED, aside={"jobId": TEXT}, refused=PROBLEMS,
    )
    def submit(self) -> Response:
        body = documents()
        sent = read_job(body, self._services.context)
        request_id = read_request_id(body, request.headers.get("Idempotency-Key", ""))
        submitted = hand_over(self._services, sent, request_id, self._check_paths)
        data = submit_data(self._services, submitted)
        data["warnings"] = list(map(sent.lines.in_message, data["warnings"]))
        return ok(data, submitted.retmsg, jobId=submitted.job_id)

    @declared(
        "Stop a job at all its parties.", SUBMIT | OPERATE, needs=JOB,
        takes={
            "stop_status": described(one_of(STOPS), "The final status; canceled by default."),
            "now": described(FLAG, "Kill its workers at once."),
        },
    )
    def stop(self) -> Response:
        body = arguments("job_id")
        status, now = read_text(body, "stop_status", "canceled"), read_flag(body, "now")
        return ok(retmsg=self._jobs.stop(read_job_id(body), status, now=now, by=caller()))

    @declared(
        "Rerun an ended job; another party passes the request on to the initiator.", SUBMIT | OPERATE,
        needs=JOB, relays=True,
        takes={
            "component_name": {**_FROM, "description": "Rerun from this component on; pipeline: from what failed."},
            "force": described(YES_NO, "Also run succeeded tasks again."),
        },
    )
    def rerun(self) -> Response:
        body = arguments("job_id")
        answer = rerun_at_initiator(self._services, read_job_id(body), body)
        return ok(retmsg="rerun job success") if answer.is_ok else reply(answer)

    @declared("Continue a canceled job where it was stopped.", SUBMIT | OPERATE, needs=JOB)
    def resume(self) -> Response:
        """Resume the job. This route is ours: v1 has only the rerun for a canceled job."""
        self._jobs.resume(read_job_id(arguments("job_id")), caller())
        return ok(retmsg="resume job success")

    @declared("Change the priority of a waiting job.", SUBMIT | OPERATE, needs=JOB | _PRIORITY)
    def set_priority(self) -> Response:
        """Change the priority of a waiting job. This route is ours."""
        body = arguments("job_id", "priority")
        priority = read_whole(body, "priority", 0, -MOST_PRIORITY, MOST_PRIORITY)
        self._jobs.set_priority(read_job_id(body), priority, caller())
        return ok(retmsg="set job priority success")

    @declared("Suspend a waiting job until it is released.", SUBMIT | OPERATE, needs=JOB | MESSAGE, takes=AUTHOR)
    def hold(self) -> Response:
        """Suspend a waiting job: it has no reservation round until it is released. This route is ours."""
        body = arguments("job_id", "message")
        self._jobs.hold(read_job_id(body), read_message(body), read_author(body, self._settings.party_id))
        return ok(retmsg="hold job success")

    @declared("Release a held job: it can start again.", SUBMIT | OPERATE, needs=JOB, takes=AUTHOR)
    def release(self) -> Response:
        body = arguments("job_id")
        self._jobs.release(read_job_id(body), read_author(body, self._settings.party_id))
        return ok(retmsg="release job success")

    @declared(
        "Accept a job of another initiator at this party.", APPROVE, needs=JOB,
        takes=AUTHOR | {
            "reason": described(MESSAGE["message"], "The reason, for people."),
            "revision": whole("The reviewed revision of the parameters; any other is refused.", maximum=MOST_WHOLE),
            "digest": described(
                {"type": "string", "pattern": "^[0-9a-f]{32}([0-9a-f]{32})?$"},
                "The digest of the reviewed document, or its first 32 digits; any other document is refused.",
            ),
        },
        data=an_object({"digest": DIGEST, "revision": COUNT, "status": one_of({"approved", "pending"})}),
    )
    def approve(self) -> Response:
        """Accept a job of another initiator at this party. This route is ours."""
        body = arguments("job_id")
        reason = "" if body.get("reason") is None else read_message(body, "reason")
        revision = None if body.get("revision") is None else read_whole(body, "revision", 0, 0, MOST_WHOLE)
        digest = "" if body.get("digest") is None else check_digest(body["digest"])
        author = read_author(body, self._settings.party_id)
        found = self._use_cases.approvals.approve(read_job_id(body), reason, author, revision, digest)
        text = f"{found.consent.text}; it needs the approval of another person" if found.consent.is_first else ""
        data = {"digest": found.digest, "revision": found.revision, "status": found.consent.approval.value}
        return ok(data, text or "approve job success")

    @declared(
        "Reject a job at this party: the job ends.", APPROVE, needs=JOB | {"reason": MESSAGE["message"]}, takes=AUTHOR,
    )
    def reject(self) -> Response:
        body = arguments("job_id", "reason")
        self._use_cases.approvals.reject(
            read_job_id(body), read_message(body, "reason"), read_author(body, self._settings.party_id)
        )
        return ok(retmsg="reject job success")

    @declared(
        "Cancel every waiting job of this initiator.", OPERATE, data=by_name({"const": 0}, description="By job id."),
    )
    def clean_queue(self) -> Response:
        return ok(self._use_cases.queue.clean_queue(caller()))

    # ------------------------------------------------------------------ checks

    @declared(
        "Check a submit: ask each party, store nothing.", SUBMIT, takes=SUBMISSION, either=SUBMISSION_NEEDS,
        data=PREVIEW, refused=REFUSED_PREVIEW,
    )
    def validate(self) -> Response:
        """Make the checks of a submit here and at each party; answer what each would run, or all problems."""
        context = self._services.context
        sent = read_job(documents(), context)
        if sent.job is None:
            return failed(SUBMIT_FAILED, sent.problems[0], {"problems": list(sent.problems)})
        document, spec = sent.job.document, sent.job.spec
        try:
            self._use_cases.submits.examine(spec)
            self._check_paths(spec)
        except FlowError as error:
            text = sent.lines.in_message(error.message)
            return failed(SUBMIT_FAILED, text, {"problems": [text]})
        whole = parties_that_get_all(self._services, spec)
        if whole is not None:
            document = with_disclosure(context, document, whole)
        answers = ask_parties(self._services, document, spec)
        sources = Sources(spec, context.defaults)
        plan = previewed(spec, partial(request_at, context, spec), sources, answers, sent.lines)
        plan["warnings"] += warnings_of_whole(document, whole)
        refused = [one for one in plan["parties"] if one["asked"] == REFUSES]
        if refused:
            said = [f"{one['role']} {one['party_id']}: {one['message']}" for one in refused]
            return failed(SUBMIT_FAILED, said[0], {**plan, "problems": said})
        return ok(plan)

    def _check_paths(self, spec: JobSpec) -> None:
        check_paths(self._settings, self._context.modules, spec)

    # ------------------------------------------------------------------ the state of jobs

    @declared(
        f"Show the newest {MOST_ROWS} jobs that match the filters, in full; none without a filter.", READ,
        takes=filter_schemas(job.JOB) | PAGE, data=a_list(job.JOB_SCHEMA), also=BAD_FILTER, idle=("component_name",),
    )
    def query(self) -> Response:
        """Return all jobs that match the filters, or a page of them (`limit` and `page` are ours)."""
        body = silent_json()
        page = read_page(body, newest_first=True)
        rows = self._views.jobs(job.JOB, read_filters(body, job.JOB), page)
        if not rows:
            return ok([], "no job could be found")
        is_cut = len(rows) >= MOST_ROWS and not body.get("page")
        text = f"success: the newest {MOST_ROWS}; narrow the query, or request a page" if is_cut else SUCCESS
        return ok(list(map(job.rendered_job, with_conditions_of_jobs(self._context, rows))), text)

    @declared(
        "List one page of jobs, without their documents.", READ, takes=_JOBS | PAGE,
        data=an_object({"jobs": a_list(job.LISTED_JOB_SCHEMA), "count": COUNT}), also=BAD_FILTER,
    )
    def list_jobs(self) -> Response:
        body = arguments()
        query = JobQuery(
            job_id=read_part(body, "job_id"),
            description=read_part(body, "description"),
            party_id=read_part(body, "party_id"),
            partner=read_part(body, "partner"),
            roles=read_choices(body, "role", frozenset(ROLES)),
            statuses=meant_statuses(read_choices(body, "status", _STATUSES)),
        )
        rows, count = self._views.job_list(job.LISTED_JOB, query, read_page(body, newest_first=True))
        listed = with_conditions_of_jobs(self._context, rows)
        return ok({"jobs": list(map(job.rendered_in_list, listed)), "count": count})

    @declared(
        "List the newest jobs that match all words, from a place on; a request looks at a bounded number of jobs.",
        READ,
        takes={**SEARCH, "limit": whole(f"Number of jobs; 0 means {MOST_ROWS}, the maximum.", default=_JOBS_FOUND)},
        data=an_object({
            "jobs": a_list(job.LISTED_JOB_SCHEMA), "count": described(COUNT, "Of all pages."),
            "is_counted": described(YES_NO, "false: there are more than `count`, or there may be."), "next": _NEXT,
            "is_cut": described(YES_NO, "`looked_at` jobs were looked at; `next` leads to older ones."),
            "looked_at": described(COUNT, f"{MOST_SEARCHED}, or 0 if the search was not cut."),
        }),
    )  # fmt: skip
    def search(self) -> Response:
        body = arguments()
        limit = min(read_whole(body, "limit", _JOBS_FOUND), MOST_ROWS) or MOST_ROWS
        found = self._views.board.jobs_found(read_search(body), read_place(body), limit, tuple(job.LISTED_JOB))
        listed = with_conditions_of_jobs(self._context, found.rows)
        return ok({
            "jobs": list(map(job.rendered_in_list, listed)), "count": found.count, "is_counted": found.is_counted,
            "next": written_place(found.next), "is_cut": found.is_cut, "looked_at": found.looked_at,
        })  # fmt: skip

    @declared(
        "Show how many jobs match all words, of those that one request may look at; `next` leads to the others.", READ,
        takes=SEARCH, data=an_object({"count": COUNT, "looked_at": COUNT, "next": _NEXT}),
    )
    def count_found(self) -> Response:
        body = arguments()
        found = self._views.board.count_jobs(read_search(body), read_place(body))
        return ok({"count": found.count, "looked_at": found.looked_at, "next": written_place(found.next)})

    @declared(
        "List the jobs that failed or timed out in the last hours, by their end, and count them.", READ,
        takes={
            "hours": whole("How far back.", 1, _MOST_HOURS, _FAILED_HOURS),
            "limit": whole("Number of jobs.", 1, MOST_ROWS, _JOBS_FOUND),
        },
        data=an_object({
            "jobs": a_list(job.LISTED_JOB_SCHEMA), "count": described(COUNT, "All of these hours."),
            "is_counted": described(YES_NO, f"false: more than {MOST_SEARCHED} jobs ended; some were not looked at."),
        }),
    )  # fmt: skip
    def failed(self) -> Response:
        body = arguments()
        hours = read_whole(body, "hours", _FAILED_HOURS, 1, _MOST_HOURS)
        limit = read_whole(body, "limit", _JOBS_FOUND, 1, MOST_ROWS)
        since = self._context.clock() - hours * _HOUR_MS
        found = self._views.board.failed_jobs(since, limit, tuple(job.LISTED_JOB))
        jobs = list(map(job.rendered_in_list, found.rows))
        return ok({"jobs": jobs, "count": found.count, "is_counted": found.is_counted})

    @declared("Explain the state of a job, in text and numbers.", READ, needs=JOB, data=EXPLAINED)
    def explain(self) -> Response:
        """Explain the state of a job, in text and numbers."""
        job_id = read_job_id(arguments("job_id"))
        snapshot = self._views.snapshot(job_id)
        if snapshot is None:
            raise JobNotFound(f"can not found job {job_id} on party {self._settings.party_id}")
        context = self._services.context
        document = self._views.document(job_id) if needs_spec(snapshot, context.modules) else None
        spec = spec_in_row(context, document) if document is not None else None
        return ok(explained(
            snapshot, engines_here(context, snapshot, spec), spec, now=context.clock(),
            order=self._order.of(job_id), limit=context.rules.party_silence,
            least_ttl=context.ceilings.ttl_of(0), no_space=no_space(context),
        ))  # fmt: skip

    @declared(
        "Show every change of state of a job, its tasks and workers, as its parties saw them.", READ, needs=JOB,
        data=an_object({"moves": a_list(MOVE), "parties": a_list(ASKED)}), aside=JOBS_BESIDE,
    )
    def history(self) -> Response:
        """Return every change of state of a job, its parties, tasks and workers, in order, as the parties saw them."""
        job_id = read_job_id(arguments("job_id"))
        return ok(federated_history(self._services, job_id), **jobs_beside(self._views, [job_id]))

    @declared(
        "Show how a job's document differs from the last one of its kind that this party has approved.", READ,
        needs=JOB, takes=_FIRST_CHANGE, data=CHANGES, aside=JOBS_BESIDE,
    )
    def changes(self) -> Response:
        """Return what an approver reads first; the last one of its kind is the newest approved job of the same
        initiator with the same name, or else the same DSL."""
        body = arguments("job_id")
        job_id, first = read_job_id(body), read_whole(body, "first", 0)
        snapshot, document = self._views.snapshot(job_id), self._views.document(job_id)
        if snapshot is None or document is None:
            raise JobNotFound(f"can not found job {job_id} on party {self._settings.party_id}")
        before = self._views.board.approved_before(job_id, snapshot.jobs[0].initiator.party_id, document)
        return ok(rendered_changes(job_id, document, before, first), **jobs_beside(self._views, [job_id]))

    @declared("Show the documents of a job.", READ, needs=JOB | SEAT, data=CONFIG)
    def config(self) -> Response:
        body = arguments("job_id", "role", "party_id")
        job_id, party = read_job_id(body), read_party(body)
        row = self._views.job(job.CONFIG, JobKey(job_id, party))
        if row is None:
            raise NotFound(f"find job failed: job {job_id} on {party}")
        return ok(job.rendered_config(row))

    @declared(
        "List the output tables of a job's tasks.", READ, needs=JOB, takes=filter_schemas(OUTPUT_TABLE),
        data=a_list(OUTPUT_TABLE_SCHEMA), aside=JOBS_BESIDE, idle=("status",),
    )
    def view_data(self) -> Response:
        body = arguments("job_id")
        filters = read_filters({**body, "job_id": read_job_id(body)}, OUTPUT_TABLE)
        rows = self._views.output_rows(OUTPUT_TABLE, filters)
        if not rows:
            raise NotFound("find data view failed")
        return ok(list(map(rendered_output_table, rows)), **jobs_beside(self._views, (row["job_id"] for row in rows)))

    # ------------------------------------------------------------------ logs

    @file_follows
    @declared("Download all log files of a job, as a tar.", SUBMIT | OPERATE | AUDIT, needs=JOB, file=GZIP)
    def download_log(self) -> Response:
        job_id = read_job_id(arguments("job_id"))
        folder = self._settings.log_dir / job_id
        if not folder.is_dir():
            raise NotFound(f"Log of job {job_id} not found on party {self._settings.party_id}")
        return tar_response(f"job_{job_id}_log.tar.gz", logs_of(folder, self._views.snapshot(job_id)))

    @declared(
        "Show the folder of a job's logs on the server.", READ, needs=JOB, data=an_object({"logs_directory": TEXT}),
    )
    def log_path(self) -> Response:
        return ok({"logs_directory": self._settings.log_dir / read_job_id(arguments("job_id"))})

    @declared("Show the URL of a job on a board.", READ, needs=JOB | SEAT, data=an_object({"board_url": a_list(TEXT)}))
    def board_url(self) -> Response:
        body = arguments("job_id", "role", "party_id")
        return ok({"board_url": [board_url_of(self._settings, read_job_id(body), read_party(body))]})
