"""`/v1/queue/...`: the queue of this party, ours and not FATE's."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.arguments import Body, read_line
from fate_flow.api.envelope import arguments, ok, silent_json
from fate_flow.api.services import Services

_LONGEST_MESSAGE, _LONGEST_NAME = 500, 100


def blueprint(services: Services) -> Blueprint:
    desk, own = services.desk, services.settings.party_id
    queue = Blueprint("queue", __name__, url_prefix="/v1/queue")

    @queue.post("/hold")
    def hold() -> Response:
        """This party reserves nothing for new jobs, until it is released."""
        body = arguments("message")
        desk.hold_intake(read_message(body), read_author(body, own))
        return ok(retmsg="hold queue success")

    @queue.post("/release")
    def release() -> Response:
        desk.release_intake(read_author(silent_json(), own))
        return ok(retmsg="release queue success")

    return queue


def read_message(body: Body) -> str:
    """Why, for people. Raises BadRequest."""
    return read_line(body, "message", _LONGEST_MESSAGE)


def read_author(body: Body, party_id: str) -> str:
    """Who, as he calls himself: clients are not asked to prove it. Raises BadRequest."""
    return read_line(body, "author", _LONGEST_NAME, f"party {party_id}")
