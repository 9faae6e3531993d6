"""The routes of the board, and the checks before each: who is signed in, and whether a form is one of ours."""

from __future__ import annotations

from collections.abc import Callable
from hmac import compare_digest

from flask import Blueprint, Response, g, request

from fate_flow.api.http.caller import note_caller
from fate_flow.api.http.errors import Api
from fate_flow.api.http.nonces import Nonces
from fate_flow.api.http.services import Services
from fate_flow.core.access.client_roles import READ
from fate_flow.core.model.errors import NotFound, PermissionDenied
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.people import People
from fate_flow.web.audit_checks import add_audit_checks
from fate_flow.web.audit_pages import add_audit_pages
from fate_flow.web.board import Board
from fate_flow.web.data_pages import add_data_pages
from fate_flow.web.envelope import PageEnvelope
from fate_flow.web.job_actions import add_actions
from fate_flow.web.log_pages import add_log_pages
from fate_flow.web.model_pages import add_model_pages
from fate_flow.web.pages import POLICY, Pages
from fate_flow.web.queue_pages import add_queue_pages
from fate_flow.web.sessions import (
    CHALLENGE_MS,
    SESSION_MS,
    NotSignedIn,
    Session,
    Sessions,
    is_encrypted,
    session_cookie,
)
from fate_flow.web.task_pages import add_task_pages
from fate_flow.web.usage_pages import add_usage_pages
from fate_flow.web.views import add_views

_FOR_EVER = "public, max-age=31536000, immutable"
_OPEN = ("sign_in", "static", "begin_session", "session")


def web_api(services: Services, secret: bytes, clock: Callable[[], int] = now_on_the_wall) -> Api:
    """Return the board of this server; `secret`: that of its home."""
    settings = services.settings
    people = None if settings.client_keys is None else People(settings.shared, settings.client_keys)
    folder, cookie = settings.shared_run_dir, session_cookie(settings.party_id)
    used, ended = Nonces(folder / "board_nonces", CHALLENGE_MS), Nonces(folder / "board_ended", SESSION_MS)
    sessions = Sessions(secret, people, used, ended, clock)
    pages = Pages(settings.party_id, settings.url)
    routes = Blueprint("board_pages", __name__, url_prefix="/board")

    def signed_in() -> Session:
        """Raise NotSignedIn."""
        return sessions.of(request.cookies.get(cookie, ""))

    @routes.before_request
    def check() -> None:
        """Raise NotSignedIn; PermissionDenied for a form that is not of this session."""
        if request.endpoint in {f"{routes.name}.{name}" for name in _OPEN}:
            return
        g.board_session = session = signed_in()
        note_caller(session.name)
        if not session.may(READ):
            raise PermissionDenied(f"client {session.name} has no client role that sees jobs")
        given = request.form.get("form_token", "") if request.method == "POST" else session.form_token
        if not compare_digest(given.encode(), session.form_token.encode()):
            raise PermissionDenied("this form is not one of your session: go back, reload the page and try again")

    _add_sign_in(routes, sessions, pages, cookie)
    board = Board(services, sessions, pages)
    add_views(routes, board)
    add_queue_pages(routes, board)
    tasks = add_task_pages(routes, board)
    add_model_pages(routes, board, tasks)
    add_usage_pages(routes, board, tasks)
    add_data_pages(routes, board)
    add_audit_pages(routes, board)
    add_audit_checks(routes, board)
    add_log_pages(routes, board)
    add_actions(routes, board)
    return Api(PageEnvelope(pages, signed_in, board.queries.reviews), (routes,), "/board")


def _add_sign_in(routes: Blueprint, sessions: Sessions, pages: Pages, cookie: str) -> None:
    @routes.get("/static/<path:name>")
    def static(name: str) -> Response:
        file = pages.file(name)
        if file is None:
            raise NotFound("there is no such file")
        # In a rolling update, a page of one release may ask the server of another one: its file is kept for no time.
        kept = _FOR_EVER if request.args.get("v") == file.version else "no-cache"
        headers = {"Cache-Control": kept, "X-Content-Type-Options": "nosniff", "Content-Security-Policy": POLICY}
        response = Response(file.content, mimetype=file.mimetype, headers=headers)
        response.set_etag(file.digest[:32])
        response.make_conditional(request)
        return response

    @routes.get("/sign-in")
    def sign_in() -> Response:
        return _sign_in_page(sessions, pages, _target(request.args.get("next", "")))

    @routes.post("/sign-in")
    def begin_session() -> Response:
        target, form = _target(request.form.get("next", "")), request.form
        try:
            session = sessions.begin(form.get("challenge", ""), form.get("app_key", "").strip(), form.get("proof", ""))
        except PermissionDenied as error:
            return _sign_in_page(sessions, pages, target, error.message)
        response = _see(target)
        response.set_cookie(
            cookie, session, max_age=SESSION_MS // 1000, path="/board", httponly=True, samesite="Strict",
            secure=is_encrypted(),
        )  # fmt: skip
        return response

    @routes.get("/session")
    def session() -> Response:
        """Answer 204 if there is a session: the sign-in page asks, after a link on a page of another site."""
        headers = {"Cache-Control": "no-store"}
        try:
            sessions.of(request.cookies.get(cookie, ""))
        except NotSignedIn:
            return Response("none\n", mimetype="text/plain", headers=headers)
        return Response(status=204, headers=headers)

    @routes.post("/sign-out")
    def sign_out() -> Response:
        sessions.end(request.cookies.get(cookie, ""))
        response = _see("/board/sign-in")
        response.delete_cookie(cookie, path="/board", httponly=True, samesite="Strict")
        return response


def _sign_in_page(sessions: Sessions, pages: Pages, target: str, problem: str = "") -> Response:
    if not sessions.needs_key:
        return _see(target)
    comes_from_elsewhere = request.headers.get("Sec-Fetch-Site", "cross-site") == "cross-site"
    return pages.show(
        "sign_in.html", None, status=403 if problem else 200, challenge=sessions.challenge(), target=target,
        problem=problem, may_have_session=comes_from_elsewhere and not problem,
    )  # fmt: skip


def _target(path: str) -> str:
    """Return a page of this board: never an address that somebody else has put into a link."""
    is_own = path.startswith("/board/") and "\\" not in path and path.isprintable()
    return path if is_own and not path.startswith(("/board/sign-", "/board//")) else "/board/"


def _see(path: str) -> Response:
    return Response(status=303, headers={"Location": path, "Cache-Control": "no-store"})


