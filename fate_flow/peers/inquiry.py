"""Requests that a client's question needs from another party, while the client waits.

Nothing is stored or retried: unlike a command, the client can repeat a lost question itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import requests

from fate_flow.core.metrics.measures import Measures
from fate_flow.core.model.errors import NOT_AUTHENTICATED, UNREACHABLE
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.envelope import headers, read_answer, stranger, to_json
from fate_flow.core.wire.v1.paths import INTAKE
from fate_flow.core.wire.v1.plain_v1 import NO_SUCH_ROUTE
from fate_flow.core.wire.v1.queries import intake_query
from fate_flow.peers.network_errors import describe_network_error
from fate_flow.peers.peer_http import OnRequest, PeerHttp
from fate_flow.peers.pinned import PinnedParties
from fate_flow.peers.signature import SiteSignature

ANSWER_SECONDS = 5.0         # how long a thread may wait for another party
_LONGEST_TEXT = 250          # characters of another server's text in a message
_FORBIDDEN = 403             # by HTTP: the other server answers no requests of this party, or from this address
_LONGEST_ANSWER = 16 * 1024 * 1024


class Inquirer:
    """Asks the servers of other parties, over kept-alive connections."""

    def __init__(
        self, own_party_id: str, urls: Mapping[str, str], seconds: float = ANSWER_SECONDS,
        auth: SiteSignature | None = None, ca_files: Mapping[str, str] | None = None,
        pinned: PinnedParties | None = None, dialed: Path | None = None, measures: Measures | None = None,
        on_request: OnRequest | None = None,
    ) -> None:  # fmt: skip
        """`ca_files`: by party id, the certificates for its https server instead of the usual authorities. `pinned`
        recognises https servers by keys. `dialed`: the socket for parties that dial this one. `measures`
        counts requests; `on_request` is called after each of them."""
        self._own = own_party_id
        self._urls = urls
        self._seconds = seconds
        self._ca_files = ca_files or {}
        self._http = PeerHttp(auth, pinned=pinned, dialed=dialed, measures=measures, on_request=on_request)

    def ask(self, to: Party, endpoint: str, body: Mapping[str, Any]) -> Answer:
        """Return the party's answer at this path below `/v1`; retcode 104 if it does not answer or has no route."""
        url = self._urls.get(to.party_id)
        if url is None:
            return Answer(UNREACHABLE, f"party {to.party_id} has no route here (routes in service_conf.yaml)")
        data = to_json(body).encode()
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
            return replace(read_answer(response.document()), is_named=bool(response.said_by))
        except (requests.RequestException, ValueError) as error:
            return Answer(UNREACHABLE, f"party {to.party_id} does not answer: {describe_network_error(error)}")

    def ask_text(self, to: Party, endpoint: str, text: str, more: Mapping[str, str]) -> tuple[int, str]:
        """Send text to this path below `/v1`, with more headers; return the HTTP status and the text of the answer.
        Status 0 if the party does not answer."""
        url = self._urls.get(to.party_id)
        if url is None:
            return 0, ""
        head = {**headers(self._own, to.party_id), "Content-Type": "text/plain; charset=utf-8", **more}
        try:
            response = self._http.post(
                f"{url}/v1{endpoint}", text.encode(), head, seconds=self._seconds, most_bytes=_LONGEST_ANSWER,
                ca_file=self._ca_files.get(to.party_id, ""),
            )
            if stranger(response.said_by, to.party_id, url):
                return 0, ""
            return response.status, response.body.decode()
        except (requests.RequestException, ValueError):      # of which UnicodeDecodeError is one
            return 0, ""

    def why_unreached(self, party_id: str) -> str:
        """Return why the server of a party does not take our requests; empty if it does."""
        return why_unreached(party_id, self.ask(Party("guest", party_id), INTAKE, intake_query(call_back=False)))


def why_unreached(party_id: str, answer: Answer) -> str:
    """Return why the server that gave this answer does not take our requests; empty if it does."""
    if answer.retcode == NOT_AUTHENTICATED:
        return f"not authenticated: {sanitized(answer.retmsg, _LONGEST_TEXT)}"
    if answer.retcode == _FORBIDDEN:
        return f"refuses our requests: {sanitized(answer.retmsg, _LONGEST_TEXT)}"
    return answer.retmsg.removeprefix(f"party {party_id} does not answer: ") if answer.is_silence else ""
