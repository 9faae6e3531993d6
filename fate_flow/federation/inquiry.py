"""Questions of a client that only another party can answer, asked while the client waits.

Nothing is stored and nothing is tried again: unlike a command, a question that is lost can be asked anew by the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests
from requests.auth import AuthBase

from fate_flow.core.job import UNREACHABLE, Answer
from fate_flow.core.spec import Party
from fate_flow.federation.wire import SRC_PARTY_ID, headers, read_answer, stranger

_SECONDS = 5.0               # so long a thread may wait for another party


class Inquirer:
    """Asks the servers of other parties, over kept-alive connections."""

    def __init__(
        self, own_party_id: str, urls: Mapping[str, str], seconds: float = _SECONDS, auth: AuthBase | None = None
    ) -> None:
        self._own = own_party_id
        self._urls = urls
        self._seconds = seconds
        self._session = requests.Session()
        self._session.trust_env = False          # a proxy of the environment is not between parties
        self._session.auth = auth                # signs each request

    def ask(self, to: Party, endpoint: str, body: Mapping[str, Any]) -> Answer:
        """What the party says at this path below `/v1`; 104 when it says nothing, or nothing of ours leads to it."""
        url = self._urls.get(to.party_id)
        if url is None:
            return Answer(UNREACHABLE, f"party {to.party_id} has no route here (routes in service_conf.yaml)")
        head = headers(self._own, to.party_id)
        try:
            response = self._session.post(
                f"{url}/v1{endpoint}", json=body, headers=head, timeout=self._seconds, allow_redirects=False
            )
            other = stranger(response.headers.get(SRC_PARTY_ID, ""), to.party_id, url)
            if other:
                return Answer(UNREACHABLE, f"party {to.party_id} does not answer: {other}")
            return read_answer(response.json())
        except (requests.RequestException, ValueError) as error:
            return Answer(UNREACHABLE, f"party {to.party_id} does not answer: {type(error).__name__}")
