"""`/v1/queue/...`: the queue of this party, ours and not FATE's."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.arguments import Body, line, read_line, read_whole, whole
from fate_flow.api.http.declared import Arguments, declared
from fate_flow.api.http.envelope import arguments, ok, silent_json
from fate_flow.api.http.services import Services
from fate_flow.api.http.shapes import QUEUE
from fate_flow.api.v1.jobs.explain import queued
from fate_flow.store.views.lists import MOST_ROWS

_LONGEST_MESSAGE, _LONGEST_NAME = 500, 100
_USUAL_PAGE = 50

MESSAGE: Arguments = {"message": line("Why, for people.", _LONGEST_MESSAGE)}
AUTHOR: Arguments = {"author": line("Who, as he calls himself; this party.", _LONGEST_NAME)}
_PAGE: Arguments = {
    "limit": whole("Jobs of a page.", 1, MOST_ROWS, _USUAL_PAGE), "page": whole("Which page.", 1, default=1)
}  # fmt: skip


def blueprint(services: Services) -> Blueprint:
    waiting, views, own = services.use_cases.queue, services.views, services.settings.party_id
    queue = Blueprint("queue", __name__, url_prefix="/v1/queue")

    @queue.post("/list")
    @declared("The jobs that wait here, in their order, and what people of this party decide.", takes=_PAGE, data=QUEUE)
    def list_jobs() -> Response:
        """The jobs that wait for this initiator to start them, in their order: what each waits for, and its place."""
        body = silent_json()
        limit = read_whole(body, "limit", _USUAL_PAGE, 1, MOST_ROWS)
        page = read_whole(body, "page", 1, 1)
        return ok(queued(views.queue(limit, (page - 1) * limit)))

    @queue.post("/hold")
    @declared("This party reserves nothing for new jobs, until it is released.", needs=MESSAGE, takes=AUTHOR)
    def hold() -> Response:
        """This party reserves nothing for new jobs, until it is released."""
        body = arguments("message")
        waiting.hold_intake(read_message(body), read_author(body, own))
        return ok(retmsg="hold queue success")

    @queue.post("/release")
    @declared("This party reserves again.", takes=AUTHOR)
    def release() -> Response:
        waiting.release_intake(read_author(silent_json(), own))
        return ok(retmsg="release queue success")

    return queue


def read_message(body: Body, key: str = "message") -> str:
    """Why, for people. Raises BadRequest."""
    return read_line(body, key, _LONGEST_MESSAGE)


def read_author(body: Body, party_id: str) -> str:
    """Who, as he calls himself: clients are not asked to prove it. Raises BadRequest."""
    return read_line(body, "author", _LONGEST_NAME, f"party {party_id}")
