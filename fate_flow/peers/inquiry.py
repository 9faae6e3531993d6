"""Questions of a client that only another party can answer, asked while the client waits.

Nothing is stored and nothing is tried again: unlike a command, a question that is lost can be asked anew by the client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import requests
from requests.auth import AuthBase

from fate_flow.core.model.job import NOT_AUTHENTICATED, UNREACHABLE, Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.text.phrases import sanitized
from fate_flow.peers.network_errors import describe_network_error
from fate_flow.peers.peer_http import PeerHttp
from fate_flow.peers.wire import headers, read_answer, stranger

_SECONDS = 5.0               # so long a thread may wait for another party
_LONGEST_TEXT = 250          # of another server, in what is told of it
NO_SUCH_ROUTE = 404
_UNCAUGHT = 100              # FATE's word for whatever went wrong, a path that it does not know among it
_FORBIDDEN = 403             # by HTTP: what comes under this name, or from here, is answered nothing at all
_LONGEST_ANSWER = 16 * 1024 * 1024


class Inquirer:
    """Asks the servers of other parties, over kept-alive connections."""

    def __init__(
        self, own_party_id: str, urls: Mapping[str, str], seconds: float = _SECONDS, auth: AuthBase | None = None,
        ca_files: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """`ca_files`: by party, what its https server is checked with instead of the usual authorities."""
        self._own = own_party_id
        self._urls = urls
        self._seconds = seconds
        self._ca_files = ca_files or {}
        self._http = PeerHttp(auth)

    def ask(self, to: Party, endpoint: str, body: Mapping[str, Any]) -> Answer:
        """What the party says at this path below `/v1`; 104 when it says nothing, or nothing of ours leads to it."""
        url = self._urls.get(to.party_id)
        if url is None:
            return Answer(UNREACHABLE, f"party {to.party_id} has no route here (routes in service_conf.yaml)")
        data = json.dumps(body, separators=(",", ":")).encode()
        head = {**headers(self._own, to.party_id), "Content-Type": "application/json"}
        try:
            response = self._http.post(
                f"{url}/v1{endpoint}", data, head, seconds=self._seconds, most_bytes=_LONGEST_ANSWER,
                ca_file=self._ca_files.get(to.party_id, ""),
            )
            if other := stranger(response.said_by, to.party_id, url):
                return Answer(UNREACHABLE, f"party {to.party_id} does not answer: {other}")
            if response.status in (404, 405) and not response.said_by:
                return Answer(NO_SUCH_ROUTE, "it has no such route: it speaks plain v1")
            return read_answer(response.document())
        except (requests.RequestException, ValueError) as error:
            return Answer(UNREACHABLE, f"party {to.party_id} does not answer: {describe_network_error(error)}")

    def why_unreached(self, party_id: str) -> str:
        """Why the server of a party takes nothing of ours; empty when it does."""
        return why_unreached(party_id, self.ask(Party("guest", party_id), "/party/intake", {}))


def why_unreached(party_id: str, answer: Answer) -> str:
    """Why the server of the party that gave this answer takes nothing of ours; empty when it does."""
    if answer.retcode == NOT_AUTHENTICATED:
        return f"refuses our signature: {sanitized(answer.retmsg, _LONGEST_TEXT)}"
    if answer.retcode == _FORBIDDEN:
        return f"refuses our requests: {sanitized(answer.retmsg, _LONGEST_TEXT)}"
    return answer.retmsg.removeprefix(f"party {party_id} does not answer: ") if answer.is_silence else ""


def has_no_such_route(answer: Answer) -> bool:
    """Whether it is the answer of a plain v1 server to a path that it does not know: FATE says so with HTTP status 200,
    a proxy in front of it may say 404."""
    return answer.retcode == NO_SUCH_ROUTE or (answer.retcode == _UNCAUGHT and "404" in answer.retmsg)
