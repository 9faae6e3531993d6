"""Signatures are those of RFC 9421: a library that others wrote checks ours, and we check what it makes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from http_message_signatures import HTTPMessageSigner, HTTPMessageVerifier, HTTPSignatureKeyResolver, algorithms

from fate_flow.core.wire.v1.envelope import headers
from fate_flow.peers.signature import (
    DIGEST,
    INPUT,
    NAMES,
    SIGNATURE,
    Covered,
    SiteSignature,
    digest_of,
    read_signature_input,
)
from fate_flow.peers.signed_answers import SignedAnswers
from fate_flow.peers.site_key import ED25519, KINDS, PrivateKey, load_private_key, make_private_key
from tests.kit.signing import SignedByParty

URL = "http://127.0.0.1:9380/v1/exchange/deliver/x?topic=a%2Fb&seq=0"
ALGORITHMS = {ED25519: algorithms.ED25519, "rsa": algorithms.RSA_PSS_SHA512}


class Keys(HTTPSignatureKeyResolver):
    def __init__(self, path: Path, public_pem: str) -> None:
        self._path, self._public = path, public_pem

    def resolve_public_key(self, key_id: str) -> object:
        return load_pem_public_key(self._public.encode())

    def resolve_private_key(self, key_id: str) -> object:
        return load_pem_private_key(self._path.read_bytes(), None)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, kind: str) -> Path:
    """Nothing changes it: an RSA key takes a while to make."""
    found = tmp_path_factory.mktemp("site") / "site.pem"
    make_private_key(found, kind)
    return found


@pytest.fixture(scope="module")
def key(path: Path) -> PrivateKey:
    return load_private_key(path)


def prepared(key: PrivateKey | None, body: bytes = b"{}", *, asks: bool = False) -> requests.PreparedRequest:
    now = int(datetime.now(UTC).timestamp() * 1000)
    answers = SignedAnswers({"10000"} if asks else (), lambda _: ())
    auth = SignedByParty(SiteSignature(key, lambda: now, answers)) if key else None
    return requests.Request("POST", URL, data=body, headers=headers("9999", "10000"), auth=auth).prepare()


FORMS = {False: "fate_flow", True: "fate_flow-request"}


@pytest.mark.parametrize("asks", list(FORMS))
def test_others_find_our_signature_right(path: Path, key: PrivateKey, kind: str, asks: bool) -> None:
    verifier = HTTPMessageVerifier(
        signature_algorithm=ALGORITHMS[kind], key_resolver=Keys(path, key.public.pem)
    )
    ours = prepared(key, asks=asks)
    [found] = verifier.verify(ours, expect_tag=FORMS[asks], body=b"{}", require_components=NAMES)
    assert list(found.covered_components) == [*(f'"{name}"' for name in NAMES), '"@signature-params"']
    assert found.parameters["keyid"] == key.public.key_id


@pytest.mark.parametrize("asks", list(FORMS))
def test_we_find_the_signature_of_others_right(path: Path, key: PrivateKey, kind: str, asks: bool) -> None:
    message = prepared(None)
    message.headers[DIGEST] = digest_of(b"{}")
    signer = HTTPMessageSigner(signature_algorithm=ALGORITHMS[kind], key_resolver=Keys(path, key.public.pem))
    now = datetime.now(UTC)
    signer.sign(
        message, key_id=key.public.key_id, created=now, expires=now + timedelta(seconds=60) if asks else None,
        nonce="n" * 24, label="site", tag=FORMS[asks], include_alg=asks, covered_component_ids=NAMES,
        use_existing_digest=True,
    )
    signature_input = read_signature_input(message.headers[INPUT], message.headers[SIGNATURE])
    assert signature_input is not None
    assert signature_input.asks is asks
    covered = Covered("POST", message.path_url, digest_of(b"{}"), "9999", "10000")
    assert signature_input.holds(key.public, covered)
    assert not signature_input.holds(key.public, Covered("POST", message.path_url, digest_of(b"{}"), "9999", "10001"))


def test_each_request_has_a_nonce_of_its_own(key: PrivateKey) -> None:
    inputs = {prepared(key).headers[INPUT] for _ in range(3)}
    assert len(inputs) == 3


@pytest.mark.parametrize("target", ["/v1/\u00e4", "/v1/\ud800"])
def test_what_no_sender_sends_is_not_signed_by_anybody(key: PrivateKey, target: str) -> None:
    head = prepared(key).headers
    signature_input = read_signature_input(head[INPUT], head[SIGNATURE])
    assert signature_input is not None
    assert not signature_input.holds(key.public, Covered("POST", target, digest_of(b"{}"), "9999", "10000"))


def test_an_empty_query_is_a_query() -> None:
    base = Covered("POST", "/v1/a", "d", "1", "2").base("p").decode()
    assert base.splitlines()[:3] == ['"@method": POST', '"@path": /v1/a', '"@query": ?']
