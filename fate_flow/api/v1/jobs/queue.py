"""`/v1/queue/...`: the queue of this party. These routes are ours, not FATE's."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.arguments import Body, line, read_line, read_whole, whole
from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import Arguments, declared
from fate_flow.api.http.services import Services
from fate_flow.api.http.shapes import QUEUE
from fate_flow.api.v1.envelope import arguments, ok, silent_json
from fate_flow.api.v1.rendering.queue import queued
from fate_flow.core.access.client_roles import OPERATE, READ
from fate_flow.core.access.recorded_names import LONGEST_GIVEN, recorded_name
from fate_flow.store.views.lists import MOST_ROWS

_LONGEST_MESSAGE = 500
_USUAL_PAGE = 50

MESSAGE: Arguments = {"message": line("The reason, for people.", _LONGEST_MESSAGE)}
AUTHOR: Arguments = {"author": line(
    "The name of the user, unchecked. In the record it stands behind the name of the client that has signed.",
    LONGEST_GIVEN,
)}  # fmt: skip
_PAGE: Arguments = {
    "limit": whole("Jobs on a page.", 1, MOST_ROWS, _USUAL_PAGE), "page": whole("Number of the page.", 1, default=1)
}  # fmt: skip


def blueprint(services: Services) -> Blueprint:
    waiting, views, own = services.use_cases.queue, services.views, services.settings.party_id
    queue = Blueprint("queue", __name__, url_prefix="/v1/queue")

    @queue.post("/list")
    @declared(
        "List the waiting jobs in their order, and the jobs that need an approval here.", READ, takes=_PAGE, data=QUEUE,
    )
    def list_jobs() -> Response:
        """List the waiting jobs of this initiator in their order, with what each waits for."""
        body = silent_json()
        limit = read_whole(body, "limit", _USUAL_PAGE, 1, MOST_ROWS)
        page = read_whole(body, "page", 1, 1)
        return ok(queued(views.queue(limit, (page - 1) * limit)))

    @queue.post("/hold")
    @declared(
        "Stop reservations for new jobs at this party, until it is released.", OPERATE, needs=MESSAGE, takes=AUTHOR,
    )
    def hold() -> Response:
        """Stop reservations for new jobs at this party, until it is released."""
        body = arguments("message")
        waiting.hold_intake(read_message(body), read_author(body, own))
        return ok(retmsg="hold queue success")

    @queue.post("/release")
    @declared("Allow reservations at this party again.", OPERATE, takes=AUTHOR)
    def release() -> Response:
        waiting.release_intake(read_author(silent_json(), own))
        return ok(retmsg="release queue success")

    return queue


def read_message(body: Body, key: str = "message") -> str:
    """Return the reason, a text for people. Raise BadRequest."""
    return read_line(body, key, _LONGEST_MESSAGE)


def read_author(body: Body, party_id: str) -> str:
    """Return who asks, for the record: the client that has signed, and the name that the body gives, if any; without
    either the party. Raise BadRequest."""
    given = "" if body.get("author") is None else read_line(body, "author", LONGEST_GIVEN)
    return recorded_name(caller(), given) or f"party {party_id}"
