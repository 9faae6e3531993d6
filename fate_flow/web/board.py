"""What all views of the board share: the services of this party, who looks, and the specifications of jobs."""

from __future__ import annotations

from typing import Any

from flask import Response, g, request

from fate_flow.api.http.services import Services
from fate_flow.core.access.client_roles import APPROVE, AUDIT, OPERATE, SUBMIT
from fate_flow.core.model.errors import FlowError, JobNotFound, PermissionDenied
from fate_flow.core.model.job import Job
from fate_flow.core.model.spec import JobSpec
from fate_flow.services.context.documents import spec_in_row
from fate_flow.store.values import Document
from fate_flow.web.logs.partner_places import PartnerPlaces
from fate_flow.web.pages import Pages
from fate_flow.web.sessions import Session, Sessions

MAY = {
    "change": SUBMIT | OPERATE, "approve": APPROVE, "operate": OPERATE, "read_logs": SUBMIT | OPERATE | AUDIT,
    "read_rows": SUBMIT, "read_models": SUBMIT | OPERATE, "audit": AUDIT,
}  # fmt: skip
"""What a page asks about who looks: the client roles of the routes that do the same."""
_MOST_SPECS = 256


class Board:
    def __init__(self, services: Services, sessions: Sessions, pages: Pages) -> None:
        self.services, self.settings, self.views = services, services.settings, services.views
        self.queries = services.views.board
        self.sessions, self.pages = sessions, pages
        self.partner_places = PartnerPlaces(services.settings.http_threads)
        self._specs: dict[str, JobSpec] = {}

    @property
    def session(self) -> Session:
        found: Session = g.board_session
        return found

    def may(self, what: str) -> bool:
        return self.session.may(MAY[what])

    def check_may(self, what: str, text: str) -> None:
        """Raise PermissionDenied. `text`: what is refused."""
        if not self.may(what):
            raise PermissionDenied(f"client {self.session.name} has no client role for this: {text}")

    def show(self, template: str, **values: Any) -> Response:
        """Return a page, with the note of the last action."""
        cookie = self.pages.note_cookie
        note = self.sessions.noted(request.cookies.get(cookie, ""))
        may = {what: self.may(what) for what in MAY}
        response = self.pages.show(template, self.session, note=note, may=may, **values)
        if note:
            response.delete_cookie(cookie, path="/board", httponly=True, samesite="Strict")
        return response

    def unknown(self, job_id: str) -> JobNotFound:
        return JobNotFound(f"job {job_id} is not known to party {self.settings.party_id}; it may have been removed")

    def spec(self, job: Job, known: Document | None = None, digest: str = "") -> JobSpec | None:
        """Return the specification of a job, read once for each document; None if its document cannot be read.

        `known`: its document, if it has been read before, with its digest, which is what people approve. The id and the
        revision alone do not say which document that is: the id of a job that was removed here is free again, and its
        initiator may create it with another one."""
        key = f"{job.job_id} {digest}" if known else f"{job.job_id} {job.revision} {job.create_time}"
        found = self._specs.get(key)
        if found is None:
            document = known or self.views.document(job.job_id)
            try:
                found = None if document is None else spec_in_row(self.services.context, document)
            except FlowError:                # a document of an older release
                return None
            if found is None:
                return None
            if len(self._specs) >= _MOST_SPECS:
                self._specs = {}             # other threads read the one before
            self._specs[key] = found
        return found
