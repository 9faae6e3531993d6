"""What is wrong between two parties, as one word: the sentences are those that servers say."""

from __future__ import annotations

import pytest

from fate_flow.core.text.peer_problems import PeerProblem, problem_in


@pytest.mark.parametrize(("text", "expected"), [
    ("the name of its host cannot be resolved (Name or service not known)", PeerProblem.NAME),
    ("another server, that of party 10001, answers at http://x", PeerProblem.NAME),
    ("party_id: this server is party 7777, not 10000", PeerProblem.NAME),
    ("connection refused", PeerProblem.REFUSED),
    ("no route to its host", PeerProblem.REFUSED),
    ("party 10000 dials this server, and keeps no connection open now", PeerProblem.REFUSED),
    ("no TLS connection (it accepts none of our keys: its operator has revoked this party)", PeerProblem.KEY),
    ("no TLS connection (WRONG_VERSION_NUMBER)", PeerProblem.TLS),
    ("no TLS connection (its certificate was signed by no key that is known and valid)", PeerProblem.KEY),
    ("not authenticated: created: is 900 s before the time of party 9999, at most 300 s are allowed: correct the "
     "clocks", PeerProblem.CLOCK),
    ("not authenticated: signature: does not match the request", PeerProblem.SIGNATURE),
    ("not authenticated: nonce: a request with this nonce was already accepted", PeerProblem.SIGNATURE),
    ("its answer is not signed, as routes.10000.signed_answers requires (HTTP status 200)", PeerProblem.SIGNATURE),
    ("digest: is not that of its answer; a proxy in between has changed the answer", PeerProblem.PROXY),
    ("HTTP status 404: this server does not offer the route", PeerProblem.VERSION),
    ("HTTP status 502: Bad Gateway", PeerProblem.PROXY),
    ("its answer is not JSON", PeerProblem.PROXY),
    ("no answer in time", PeerProblem.SILENT),
    ("connection lost", PeerProblem.SILENT),
    ("Too many open files", PeerProblem.OTHER),
])  # fmt: skip
def test_a_problem_has_one_class(text: str, expected: PeerProblem) -> None:
    assert problem_in(text) is expected
