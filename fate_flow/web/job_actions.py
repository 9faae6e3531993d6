"""What people do with a job on the board: the same use cases as `flow job`, for the same client roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flask import Blueprint, Response, request
from werkzeug.datastructures import MultiDict

from fate_flow.api.http.caller import caller
from fate_flow.api.http.services import Services
from fate_flow.api.v1.jobs.rerun import rerun_at_initiator
from fate_flow.core.access.client_roles import APPROVE, OPERATE, SUBMIT, ClientRole, names_of
from fate_flow.core.model.errors import BadRequest, NotFound, OperationFailed, PermissionDenied
from fate_flow.core.model.grammar import check_job_id, shown
from fate_flow.core.model.job import Job
from fate_flow.core.model.spec import MOST_PRIORITY
from fate_flow.web.board import Board
from fate_flow.web.sessions import is_encrypted

Form = MultiDict[str, str]
_LONGEST_TEXT = 500


@dataclass(frozen=True)
class Action:
    """A button. `act` returns a sentence about what was done."""

    roles: ClientRole
    act: Callable[[Services, str, Form], str]


def _text(form: Form, key: str, *, is_needed: bool) -> str:
    found = form.get(key, "").strip()
    if is_needed and not found:
        raise BadRequest(f"{key}: is empty; say why, so that others know")
    if len(found) > _LONGEST_TEXT or not all(one.isprintable() for one in found):
        raise BadRequest(f"{key}: is not one line of at most {_LONGEST_TEXT} characters")
    return found


def _author(services: Services) -> str:
    return caller() or f"party {services.settings.party_id}"


def _stop(services: Services, job_id: str, form: Form) -> str:
    now = form.get("now") == "yes"
    text = services.use_cases.jobs.stop(job_id, "canceled", now=now, by=caller())
    return text if text.startswith("job ") else "The job is being stopped at all its parties."


def _hold(services: Services, job_id: str, form: Form) -> str:
    services.use_cases.jobs.hold(job_id, _text(form, "reason", is_needed=True), _author(services))
    return "The job is on hold: it reserves nothing until somebody releases it."


def _release(services: Services, job_id: str, _form: Form) -> str:
    services.use_cases.jobs.release(job_id, _author(services))
    return "The job is released, and waits in the queue again."


def _approve(services: Services, job_id: str, form: Form) -> str:
    given = form.get("revision", "")
    revision = int(given) if given.isascii() and given.isdigit() and len(given) < 10 else None
    digest, reason = form.get("digest", ""), _text(form, "reason", is_needed=False)
    if revision is None or not digest:
        raise BadRequest("digest: the form does not say which document you have read; reload the page")
    found = services.use_cases.approvals.approve(job_id, reason, _author(services), revision, digest)
    text = f"{found.consent.text}; another person has to approve it, too" if found.consent.is_first else "approved"
    return f"Job {job_id}: {text}."


def _reject(services: Services, job_id: str, form: Form) -> str:
    services.use_cases.approvals.reject(job_id, _text(form, "reason", is_needed=True), _author(services))
    return f"Job {job_id}: rejected, it ends at all its parties."


def _rerun(services: Services, job_id: str, form: Form) -> str:
    body: dict[str, str | bool] = {}
    if name := form.get("component_name", ""):
        body["component_name"] = name
    if form.get("force") == "yes":
        body["force"] = True
    answer = rerun_at_initiator(services, job_id, body)
    if not answer.is_ok:
        raise OperationFailed(answer.retmsg)
    return "The job starts again, and waits for cores at every party."


def _priority(services: Services, job_id: str, form: Form) -> str:
    given = form.get("priority", "").strip()
    is_whole = given.isascii() and len(given) < 20 and given.removeprefix("-").isdigit()
    if not is_whole or abs(int(given)) > MOST_PRIORITY:
        raise BadRequest(f"priority: {shown(given)} is not a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}")
    services.use_cases.jobs.set_priority(job_id, int(given), caller())
    return f"The priority is {int(given)} now."


ACTIONS: Mapping[str, Action] = {
    "stop": Action(SUBMIT | OPERATE, _stop), "hold": Action(SUBMIT | OPERATE, _hold),
    "release": Action(SUBMIT | OPERATE, _release), "rerun": Action(SUBMIT | OPERATE, _rerun),
    "priority": Action(SUBMIT | OPERATE, _priority), "approve": Action(APPROVE, _approve),
    "reject": Action(APPROVE, _reject),
}  # fmt: skip


def add_actions(routes: Blueprint, board: Board) -> None:
    @routes.post("/jobs/<job_id>/<name>")
    def act(job_id: str, name: str) -> Response:
        """Carry out an action, and go to the page of the job, or of the next to review, which says what was done."""
        action, session = ACTIONS.get(name), board.session
        if action is None:
            raise NotFound(f"{shown(name)} is no action: {', '.join(ACTIONS)}")
        if not session.may(action.roles):
            needed = " or ".join(names_of(action.roles))
            raise PermissionDenied(f"client {session.name} has no client role for this: {needed}")
        goes_on = name in ("approve", "reject") and "next" in request.form
        target = _next_review(board, check_job_id(job_id)) if goes_on else f"/board/jobs/{job_id}"
        note = action.act(board.services, check_job_id(job_id), request.form)
        response = Response(status=303, headers={"Location": target})
        response.set_cookie(
            board.pages.note_cookie, board.sessions.note(note), max_age=60, path="/board", httponly=True,
            samesite="Strict", secure=is_encrypted(),
        )  # fmt: skip
        return response


def _next_review(board: Board, decided: str) -> str:
    """Return the page of the next job that waits for this person, or the list if none does.

    It is the next one in the list, which has the oldest first; behind its end, the list is looked at from its begin."""
    author, waiting = _author(board.services), board.views.queue(1, 0, for_board=True).unapproved
    place = next((number for number, one in enumerate(waiting) if one.job_id == decided), 0)
    following = (*waiting[place:], *waiting[:place])
    found = next((one for one in following if one.job_id != decided and not _has_approved(one, author)), None)
    return f"/board/jobs/{found.job_id}" if found is not None else "/board/approvals"


def _has_approved(one: Job, author: str) -> bool:
    """Return whether this person is the first of two who have to approve."""
    return one.consent is not None and one.consent.is_first and one.consent.by == author
