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
    ("not authenticated: party 9999 has no public key of party 10000: run flow key save there", PeerProblem.KEY),
    ("its answer cannot be checked: there is no public key of party 10000 here", PeerProblem.KEY),
    ("no TLS connection (its server shows no valid key of party 10000; if an authority has made its certificate, name "
     "the authority in parties.certified.10000, or, if that is of a proxy in front of it, in routes.10000.ca)",
     PeerProblem.KEY),
    ("no TLS connection (no tls key of party 10000 is valid here (flow key save --list))", PeerProblem.KEY),
    ("its server does not take connections for its own requests: its release is too old", PeerProblem.VERSION),
    ("HTTP status 502: Bad Gateway", PeerProblem.PROXY),
    ("HTTP status 403: Host: x is no name of this server", PeerProblem.NAME),
    ("its server answers with HTTP status 503: the database does not answer", PeerProblem.OTHER),
    ("its server answers with HTTP status 404: not found", PeerProblem.VERSION),
    ("its server answers with HTTP status 403: this address is not allowed", PeerProblem.REFUSED),
    ("its answer is not JSON", PeerProblem.PROXY),
    ("no answer in time", PeerProblem.SILENT),
    ("connection lost", PeerProblem.SILENT),
    ("Too many open files", PeerProblem.OTHER),
])  # fmt: skip
def test_a_problem_has_one_class(text: str, expected: PeerProblem) -> None:
    assert problem_in(text) is expected
