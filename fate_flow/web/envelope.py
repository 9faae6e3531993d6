"""How the board answers errors: as pages, and who is not signed in is sent to sign in first."""

from __future__ import annotations

from urllib.parse import quote

from flask import Response, request
from werkzeug.exceptions import HTTPException

from fate_flow.api.http.errors import Statuses, first, log_failure
from fate_flow.api.http.request_origin import OtherSite
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
from fate_flow.web.pages import HEADERS, Pages
from fate_flow.web.sessions import NotSignedIn

STATUS_OF: Statuses = {
    OtherSite: 403, BadRequest: 400, TooLarge: 413, PermissionDenied: 403, NotFound: 404, Conflict: 409,
    PeerUnreachable: 502, Busy: 503, StorageFailed: 500,
}  # fmt: skip


class PageEnvelope:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages

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
        return self._pages.show("error.html", None, status=status, text=text)
