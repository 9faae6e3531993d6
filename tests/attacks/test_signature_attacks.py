"""Signed requests behind a proxy that ends the TLS: whoever reads them may send them again, or change them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
import requests

from fate_flow.api.http.client_auth import WINDOW_MS
from fate_flow.peers.signature import Covered, digest_of, sign
from tests.kit.attacks.attacked_server import (
    HEARTBEAT,
    HONEST,
    HOSTILE,
    OF_P256,
    OWN,
    REVOKED,
    STRANGER,
    AttackedServer,
    message_key,
)

pytestmark = pytest.mark.timeout(900)

BODY = b'{"jobs": []}'


@dataclass
class Attacker:
    """Sends requests through the proxy."""

    attacked: AttackedServer

    def signed(
        self, source: str, signer: str = "", *, path: str = HEARTBEAT, to: str = OWN, ahead: int = 0, body: bytes = BODY
    ) -> requests.PreparedRequest:
        """A request of this party, with the key of another one perhaps, by a clock that is ahead (milliseconds)."""
        head = {"SRC-PARTY-ID": source, "DEST-PARTY-ID": to, "Content-Type": "application/json"}
        url = f"{self.attacked.proxy.url}/v1/{path}"
        request = requests.Request("POST", url, headers=head, data=body).prepare()
        covered = Covered("POST", request.path_url, digest_of(body), source, to)
        created = (self.attacked.clock() + ahead) // 1000
        request.headers.update(sign(message_key(signer or source), covered, created, uuid4().hex, asks=True))
        return request

    def said(self, request: requests.PreparedRequest) -> dict[str, Any]:
        with requests.Session() as session:
            found = session.send(request, verify=str(self.attacked.proxy_authority), timeout=90).json()
        assert isinstance(found, dict)
        return found

    def at_most_said(self, request: requests.PreparedRequest) -> dict[str, Any] | None:
        """The same; None if there is no such route on the listener."""
        with requests.Session() as session:
            found = session.send(request, verify=str(self.attacked.proxy_authority), timeout=90)
        return None if found.status_code == 404 else found.json()

    def changed(self, request: requests.PreparedRequest, **fields: Any) -> dict[str, Any]:
        """What is said to this request with other headers, or another url or body."""
        found = request.copy()
        for name, value in fields.items():
            if name in ("url", "body", "method"):
                setattr(found, name, value)
            elif value is None:
                del found.headers[name.replace("_", "-")]
            else:
                found.headers[name.replace("_", "-")] = value
        found.headers["Content-Length"] = str(len(found.body or b""))
        return self.at_most_said(found) or {"retcode": 100, "retmsg": "no such route"}


@pytest.fixture(params=["behind_proxy", "port of clients"])
def attacker(attacked: AttackedServer, request: pytest.FixtureRequest) -> Attacker:
    """The proxy passes requests on to the listener that is for it, or, as before there was one, to that of clients."""
    is_new = request.param == "behind_proxy"
    attacked.proxy.target = attacked.proxied_port if is_new else attacked.client_port
    return Attacker(attacked)


def is_refused(said: dict[str, Any], word: str) -> bool:
    return said["retcode"] == 109 and word in said["retmsg"]


def test_a_signed_request_counts_once(attacker: Attacker) -> None:
    request = attacker.signed(HONEST)
    assert attacker.said(request)["retcode"] == 0
    assert is_refused(attacker.said(request), "nonce: a request with this nonce was already accepted")
    assert is_refused(attacker.changed(request, url=f"{request.url}?"), "nonce: ")
    # It is of no use over the gateway either, where the key of the connection decides.
    over_tls = attacker.attacked.ask(
        HOSTILE, HEARTBEAT, BODY, **{name.replace("-", "_"): value for name, value in request.headers.items()}
    )
    assert is_refused(over_tls, f"the connection belongs to party {HOSTILE}")


@pytest.mark.parametrize("seconds", [61, 3600, 10**7])
def test_a_stale_or_early_request_is_refused(attacker: Attacker, seconds: int) -> None:
    assert seconds * 1000 > WINDOW_MS
    for ahead in (-seconds * 1000, seconds * 1000 + 20_000):
        assert is_refused(attacker.said(attacker.signed(HONEST, ahead=ahead)), "created: is ")


def test_a_signature_is_for_one_request_alone(attacker: Attacker) -> None:
    url = f"{attacker.attacked.proxy.url}/v1/"
    for fields in (
        {"url": f"{url}party/batch"}, {"url": f"{url}{HEARTBEAT}?a=1"}, {"url": f"{url}party//heartbeat"},
        {"body": b'{"jobs": [1]}'}, {"body": b""}, {"SRC_PARTY_ID": HOSTILE}, {"DEST_PARTY_ID": HOSTILE},
        {"Signature": None}, {"Signature_Input": None}, {"Content_Digest": None},
        {"Signature": "site=:AAAAAAAAAAAAAAAAAAAAAAAA:"}, {"Content_Digest": "sha-256=:AAAA:"},
    ):  # fmt: skip
        said = attacker.changed(attacker.signed(HONEST), **fields)
        assert said["retcode"] in (100, 109), (fields, said)          # 100: there is no such route
    assert attacker.said(attacker.signed(HONEST))["retcode"] == 0


def test_a_key_signs_for_its_own_party_alone(attacker: Attacker) -> None:
    for source, signer, to, word in (
        (HONEST, HOSTILE, OWN, "keyid: the request was signed with key"), (REVOKED, REVOKED, OWN, "no public key"),
        (STRANGER, STRANGER, OWN, "no public key"), (HONEST, HONEST, OF_P256, f"this is party {OWN}"),
        (OWN, HOSTILE, OWN, "is this server"), ("0", HOSTILE, OWN, "is this server"),
    ):  # fmt: skip
        assert is_refused(attacker.said(attacker.signed(source, signer, to=to)), word), (source, signer)


def test_another_spelling_of_a_party_id_has_the_same_quota(attacker: Attacker) -> None:
    body = json.dumps({"jobs": [], "more": "x" * 30_000}).encode()
    for spelled in (HOSTILE, f"0{HOSTILE}", f"00000{HOSTILE}"):
        said = attacker.said(attacker.signed(spelled, HOSTILE, body=body))
        assert (said["retcode"], f"quotas.parties.{HOSTILE}.document_bytes" in said["retmsg"]) == (413, True), spelled


def test_one_check_on_turns_no_other_off(attacker: Attacker) -> None:
    """A client's signature opens no route of parties, and that of a party no route of clients."""
    server = attacker.attacked.server
    for source in (HONEST, HOSTILE, OWN):
        said = server.post(HEARTBEAT, {"jobs": []}, headers={"SRC-PARTY-ID": source, "DEST-PARTY-ID": OWN})
        assert said["retcode"] == 109, said
    for path in ("job/query", "party/list", "key/query", "job/submit", "permission/grant"):
        said = attacker.at_most_said(attacker.signed(HONEST, path=path, body=json.dumps({"party_id": HONEST}).encode()))
        assert said is None or is_refused(said, "requests have to be signed"), (path, said)
