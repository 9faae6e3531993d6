"""How the board answers errors: as pages, and who is not signed in is sent to sign in first."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from flask import Response, request
from werkzeug.exceptions import HTTPException

from fate_flow.api.http.errors import Statuses, first, log_failure
from fate_flow.api.http.request_origin import OtherSite
from fate_flow.core.access.client_roles import READ
from fate_flow.core.model.errors import (
    BadRequest,
    Busy,
    Conflict,
    FlowError,
    NotFound,
    PeerUnreachable,
    PermissionDenied,
    StorageFailed,
    TooLarge,
)
from fate_flow.web.board import MAY
from fate_flow.web.pages import HEADERS, Pages
from fate_flow.web.sessions import NotSignedIn, Session

STATUS_OF: Statuses = {
    OtherSite: 403, BadRequest: 400, TooLarge: 413, PermissionDenied: 403, NotFound: 404, Conflict: 409,
    PeerUnreachable: 502, Busy: 503, StorageFailed: 500,
}  # fmt: skip


def not_signed_in() -> Session:
    raise NotSignedIn


class PageEnvelope:
    def __init__(
        self, pages: Pages, session: Callable[[], Session] = not_signed_in, count_reviews: Callable[[], int] = lambda: 0
    ) -> None:  # fmt: skip
        """`session` returns that of the request; `count_reviews` how many jobs wait for an approval of this party. Both
        may raise FlowError."""
        self._pages, self._session, self._count_reviews = pages, session, count_reviews

    def refused(self, error: FlowError) -> Response:
        if isinstance(error, NotSignedIn):
            return self._to_sign_in()
        status = first(STATUS_OF, error) or 409
        if status >= 500:
            log_failure(error)
        return self._page(status, error.message)

    def not_served(self, error: HTTPException) -> Response:
        status = error.code or 500
        text = "There is no such page." if status == 404 else error.name
        response = self._page(status, text)
        for name, value in error.get_headers():
            if name == "Allow":
                response.headers[name] = value
        return response

    def failed(self, text: str) -> Response:
        return self._page(500, text)

    def _to_sign_in(self) -> Response:
        """Remember where the reader wanted to go. A script that asks for a page hears that the session has ended."""
        target = request.full_path.rstrip("?") if request.method == "GET" else "/board/"
        if request.headers.get("Sec-Fetch-Mode", "navigate") != "navigate":
            return Response("the session has ended\n", 401, mimetype="text/plain", headers=HEADERS)
        return Response(status=303, headers={**HEADERS, "Location": f"/board/sign-in?next={quote(target)}"})

    def _page(self, status: int, text: str) -> Response:
        """Who is signed in finds the way to all views on this page, too."""
        session = self._reader()
        if session is None:
            return self._pages.show("error.html", None, status=status, text=text)
        may = {"audit": session.may(MAY["audit"])}
        reviews = self._reviews() if status < 500 else None      # a database that is away is not waited for again
        return self._pages.show("error.html", session, status=status, text=text, may=may, reviews=reviews)

    def _reader(self) -> Session | None:
        """Return the session of the request, if it may see the views."""
        try:
            session = self._session()
        except FlowError:
            return None
        return session if session.may(READ) else None

    def _reviews(self) -> int | None:
        try:
            return self._count_reviews()
        except FlowError:
            return None
