"""Ask a server for jobs by a route that never counts its history; a server of an older release has only FATE's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fate_flow.cli.connection.client import Client
from fate_flow.cli.console.reply import ServerReply

_NO_SUCH_ROUTE = re.compile("404:? Not Found")     # as FATE, a server says it with HTTP 200 and this text


def ask_for_jobs(
    client: Client, path: str, body: Mapping[str, Any], older: Mapping[str, Any]
) -> tuple[ServerReply, bool]:
    """Return the answer of the route, and True; or, of a server that does not have it, the answer of `job/list/job` to
    the body `older`, and False. Any other refusal is the answer. Raise CallFailed if none comes."""
    answer = client.post(path, body)
    return (client.post("job/list/job", older), False) if has_no_such_route(answer) else (answer, True)


def has_no_such_route(answer: ServerReply) -> bool:
    return not answer.is_success and (answer.status == 404 or bool(_NO_SUCH_ROUTE.search(answer.message)))
