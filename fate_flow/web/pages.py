"""Pages: templates, headers, and validators for the script that keeps a page fresh.

Nothing on a page is inline, neither script nor style, and only files of this server are loaded. The icon is part of the
page, to save a request; no image is loaded. A page is the same as long as what it shows is the same: times are written
as they are, and the browser says how long ago they were.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import quote as percent_encoded

from flask import Response, request
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fate_flow.core.model.grammar import shown
from fate_flow.core.text.phrases import counted
from fate_flow.store.views.board import PAGE
from fate_flow.web.sessions import Session, session_cookie
from fate_flow.web.static_files import StaticFile, static_files

FOLDER = Path(__file__).parent
POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src data:", "connect-src 'self'",
    "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'",
    "trusted-types board board-events",
))  # fmt: skip
HEADERS = {
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()", "Cache-Control": "no-store",
}  # fmt: skip

FRESH, CALM = 4, 15
"""After how many seconds a page is asked for again: while something on it may change at any moment, and otherwise."""


class Pages:
    """Renders the pages of one party's board."""

    def __init__(self, party_id: str, server: str) -> None:
        """`server`: the address for commands."""
        self._party_id, self._server = party_id, server
        self.note_cookie = f"{session_cookie(party_id)}_note"
        self._files = static_files()
        self._templates = _templates()

    def show(
        self, template: str, session: Session | None, *, status: int = 200, poll: int = 0, reviews: int | None = 0,
        note: str = "", **values: Any,
    ) -> Response:  # fmt: skip
        """Return a page; HTTP status 304 if the browser has it already. `poll`: seconds until it is asked for again; 0:
        never. `reviews`: the number of jobs that wait for an approval of this party; None if it is not known."""
        text = self._templates.get_template(template).render(
            party_id=self._party_id, server=self._server, session=session, poll=poll, reviews=reviews, note=note,
            path=request.path, **values,
        )  # fmt: skip
        response = Response(text, status, mimetype="text/html", headers=HEADERS)
        if status == 200 and request.method == "GET":
            response.set_etag(hashlib.sha256(text.encode()).hexdigest()[:32], weak=True)
            response.make_conditional(request)
        return response

    def file(self, name: str) -> StaticFile | None:
        return self._files.get(name)


@cache
def _templates() -> Environment:
    """Return the templates, each of which is compiled once in a process."""
    templates = Environment(
        loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    templates.filters.update(moment=moment, counted=counted, quoted=quote, utc=written_utc)
    icon = f"data:image/svg+xml,{percent_encoded(static_files()['icon.svg'].content)}"
    templates.globals.update(asset=_asset, icon=icon)
    return templates


def _asset(name: str) -> str:
    """Return the address of a file; it changes with its content, so a browser may keep it for ever."""
    return f"/board/static/{name}?v={static_files()[name].version}"


def moment(milliseconds: int | None) -> Mapping[str, str]:
    """Return a time as a machine and as a person reads it, in UTC; the script shows it in the time of the browser."""
    if not milliseconds:
        return {"machine": "", "person": ""}
    try:
        found = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):         # what another party says may be in no calendar
        return {"machine": "", "person": f"{shown(milliseconds)} ms after 1970 began"}
    return {"machine": found.isoformat(timespec="milliseconds"), "person": f"{found:%Y-%m-%d %H:%M:%S} UTC"}


def written_utc(milliseconds: int) -> str:
    """Return the time of a filter as a form and an address have it, in UTC without saying so; empty for 0."""
    if not milliseconds:
        return ""
    found = datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)
    return found.isoformat(timespec="seconds" if found.second else "minutes")


def list_command(name: str, kept: Mapping[str, str], place: object) -> str:
    """Return the command that lists the rows of a page. `kept`: its filters; `place`: from where it goes on; None: from
    its begin."""
    options = {**kept, **({} if place is None else {"from": str(place)})}
    return " ".join([f"flow {name} -l {PAGE}", *(f"--{key} {quote(value)}" for key, value in options.items())])


def counted_piece(count: int, looked_at: int, following: str | None) -> Response:
    """Return what the script of a list asks for, one piece after the other, when somebody wants to know how many fit.

    `following`: where the next request goes on; None or empty: that was all."""
    data = {"count": count, "looked_at": looked_at, "next": following or None}
    return Response(json.dumps(data), mimetype="application/json", headers=HEADERS)
