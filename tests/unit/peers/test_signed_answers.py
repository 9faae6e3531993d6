"""Answers that a party has to sign: what counts, what does not, and what is said about it. Each change that somebody
between two servers could make has a test here by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler

import pytest
import requests
from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver, InvalidSignature, algorithms
from requests.structures import CaseInsensitiveDict

from fate_flow.core.access.site import SiteKey
from fate_flow.core.model.errors import StorageFailed
from fate_flow.core.wire.v1.envelope import headers
from fate_flow.peers.peer_http import PeerHttp, PeerResponse
from fate_flow.peers.signature import DIGEST, INPUT, SIGNATURE, SiteSignature, digest_of
from fate_flow.peers.signed_answers import CoveredAnswer, NotProved, SignedAnswers, sign_answer
from fate_flow.peers.site_key import PrivateKey
from tests.kit.peers.peer_server import WAIT, Peer, answer
from tests.kit.signing import SignedByParty
from tests.kit.site_keys import private_key, rsa_private_key, site_key

NOW = 1_700_000_000_000
OURS, THEIRS, FOREIGN = private_key(1), private_key(2), private_key(3)
BODY = b'{"retcode": 0, "retmsg": "success"}'
URL = "http://127.0.0.1:9380/v1/party/heartbeat?a=1"
IDENTIFIERS = (
    '"@status"', '"content-digest"', '"src-party-id"', '"signature-input";req;key="site"',
    '"signature";req;key="site"',
)  # fmt: skip


def keys_of(party_id: str) -> tuple[SiteKey, ...]:
    return (site_key(party_id, THEIRS),) if party_id == "10000" else ()


ANSWERS = SignedAnswers({"10000", "10001"}, keys_of)
SIGNER = SiteSignature(OURS, lambda: NOW, ANSWERS)


def request(signer: SiteSignature = SIGNER, to: str = "10000", body: bytes = b"{}") -> requests.PreparedRequest:
    return requests.Request("POST", URL, data=body, headers=headers("9999", to), auth=SignedByParty(signer)).prepare()


@dataclass(frozen=True)
class Answered:
    """An answer that arrives, and the request that it is taken for."""

    request: requests.PreparedRequest
    head: dict[str, str]
    status: int = 200
    body: bytes = BODY

    def response(self) -> requests.Response:
        found = requests.Response()
        found.request, found.status_code, found.headers = self.request, self.status, CaseInsensitiveDict(self.head)
        return found

    def check(self, party_id: str = "10000") -> None:
        self.check_by(ANSWERS, party_id)

    def check_by(self, answers: SignedAnswers | SiteSignature, party_id: str = "10000") -> None:
        check = answers.check if isinstance(answers, SignedAnswers) else answers.check_answer
        check(party_id, dict(self.request.headers), self.status, CaseInsensitiveDict(self.head), self.body)

    def with_head(self, **changed: str) -> Answered:
        names = {"digest": DIGEST, "input": INPUT, "signature": SIGNATURE, "source": "SRC-PARTY-ID"}
        return replace(self, head=self.head | {names[name]: value for name, value in changed.items()})


def answered(
    to: requests.PreparedRequest, key: PrivateKey = THEIRS, status: int = 200, body: bytes = BODY, by: str = "10000"
) -> Answered:
    covered = CoveredAnswer(status, digest_of(body), by, str(to.headers[INPUT]), str(to.headers[SIGNATURE]))
    return Answered(to, sign_answer(key, covered), status, body)


def refusal(of: Answered, party_id: str = "10000") -> str:
    with pytest.raises(NotProved) as caught:
        of.check(party_id)
    return str(caught.value)


def test_a_signed_answer_counts() -> None:
    for status, body in ((200, BODY), (500, b""), (403, b"\x00\xff")):
        answered(request(), status=status, body=body).check()


def test_only_a_party_that_has_to_sign_is_asked_to() -> None:
    plain = request(to="10002")
    assert 'tag="fate_flow"' in str(plain.headers[INPUT])
    assert 'tag="fate_flow-request"' in str(request().headers[INPUT])
    Answered(plain, {}).check_by(SIGNER, "10002")
    with pytest.raises(NotProved):
        Answered(request(), {}).check_by(SIGNER)
    Answered(request(), {}).check_by(SiteSignature(OURS, lambda: NOW))


# ---------------------------------------------------------------------- attacks


CHANGED = "signature: does not match its answer to this request"
ATTACKS: dict[str, tuple[Callable[[Answered], Answered], str]] = {
    "the status": (lambda one: replace(one, status=500), CHANGED),
    "the body": (lambda one: replace(one, body=b"{}"), "Content-Digest: is not that of its answer"),
    "no body": (lambda one: replace(one, body=b""), "Content-Digest: is not that of its answer"),
    "the body with its digest": (
        lambda one: replace(one, body=b"{}").with_head(digest=digest_of(b"{}")), CHANGED),
    "another digest": (lambda one: one.with_head(digest="sha-512=:AAAA:"), "Content-Digest: is not that of"),
    "two digests": (
        lambda one: one.with_head(digest=f"{one.head[DIGEST]}, sha-512=:AAAA:"), "Content-Digest: is not that of"),
    "no digest": (lambda one: one.with_head(digest=""), "Content-Digest: is not that of"),
    "who answers": (lambda one: one.with_head(source="10001"), CHANGED),
    "nobody answers": (lambda one: one.with_head(source=""), CHANGED),
    "a name that is not ASCII": (lambda one: one.with_head(source="1000\u0660"), CHANGED),
    "no signature": (lambda one: one.with_head(input="", signature=""), "its answer is not signed, as routes.10000."),
    "only an input": (lambda one: one.with_head(signature=""), "Signature-Input: the signature of its answer has"),
    "only a signature": (lambda one: one.with_head(input=""), "Signature-Input: the signature of its answer has"),
    "two inputs": (lambda one: one.with_head(input=f"{one.head[INPUT]}, {one.head[INPUT]}"), "another form"),
    "two signatures": (
        lambda one: one.with_head(signature=f"{one.head[SIGNATURE]}, {one.head[SIGNATURE]}"), "another form"),
    "fewer components": (
        lambda one: one.with_head(input=one.head[INPUT].replace('"@status" ', "")), "another form"),
    "another algorithm": (
        lambda one: one.with_head(input=one.head[INPUT].replace('alg="ed25519"', 'alg="rsa-pss-sha512"')), CHANGED),
    "an unknown algorithm": (
        lambda one: one.with_head(input=one.head[INPUT].replace('alg="ed25519"', 'alg="hmac-sha256"')), "another form"),
    "no algorithm": (lambda one: one.with_head(input=one.head[INPUT].replace(';alg="ed25519"', "")), "another form"),
    "the tag of requests": (
        lambda one: one.with_head(input=one.head[INPUT].replace("fate_flow-answer", "fate_flow-request")),
        "another form"),
    "our own request as the answer": (
        lambda one: one.with_head(input=str(one.request.headers[INPUT]),
                                  signature=str(one.request.headers[SIGNATURE])), "another form"),
    "the key of another party": (lambda one: answered(one.request, FOREIGN), "keyid: its answer was signed with key"),
    "another key under the name of the right one": (
        lambda one: answered(one.request, FOREIGN).with_head(
            input=answered(one.request, FOREIGN).head[INPUT].replace(FOREIGN.public.key_id, THEIRS.public.key_id)),
        CHANGED),
    "the answer to another request": (lambda one: replace(answered(request()), request=one.request), CHANGED),
    "the answer to the same request, sent before": (
        lambda one: replace(one, request=request()), CHANGED),
}  # fmt: skip


@pytest.mark.parametrize(("change", "why"), ATTACKS.values(), ids=list(ATTACKS))
def test_an_answer_that_somebody_has_changed_does_not_count(
    change: Callable[[Answered], Answered], why: str
) -> None:
    good = answered(request())
    assert why in refusal(change(good))
    good.check()


def test_a_party_without_a_key_here_proves_nothing() -> None:
    assert refusal(answered(request(to="10001")), "10001") == (
        "its answer cannot be checked: there is no public key of party 10001 here"
    )


def test_keys_that_cannot_be_read_prove_nothing() -> None:
    def failing(_: str) -> tuple[SiteKey, ...]:
        raise StorageFailed("the database does not answer")

    with pytest.raises(NotProved, match=r"^its answer cannot be checked: the database does not answer$"):
        answered(request()).check_by(SignedAnswers({"10000"}, failing))


def test_rsa_keys_sign_answers() -> None:
    rsa = rsa_private_key()
    both = SignedAnswers({"10000"}, lambda party_id: (site_key(party_id, THEIRS), site_key(party_id, rsa)))
    for key in (THEIRS, rsa):
        answered(request(), key).check_by(both)


def test_over_a_connection_an_answer_counts_only_if_it_is_signed(peer: Peer) -> None:
    def signing(handler: BaseHTTPRequestHandler) -> None:
        covered = CoveredAnswer(200, digest_of(BODY), "10000", handler.headers[INPUT], handler.headers[SIGNATURE])
        answer(handler, BODY, **sign_answer(THEIRS, covered))

    http = PeerHttp(SIGNER)

    def asked(to: str) -> PeerResponse:
        url = f"http://127.0.0.1:{peer.port}/v1/x"
        return http.post(url, b"{}", headers("9999", to), seconds=WAIT, most_bytes=1000)

    peer.replies.put(signing)
    assert asked("10000") == PeerResponse(200, BODY, "10000")
    peer.replies.put((200, BODY))
    with pytest.raises(NotProved, match="its answer is not signed"):
        asked("10000")
    peer.replies.put((200, BODY))
    assert asked("10002") == PeerResponse(200, BODY, ""), "whose route does not require it"
    http.close()


# ---------------------------------------------------------------------- what is said about it


def test_a_refusal_is_passed_on_as_what_nothing_proves() -> None:
    body = json.dumps({"retcode": 109, "retmsg": "created: is 75 s\n after\u001b[31m the time"}).encode()
    assert refusal(Answered(request(), {}, 200, body)) == (
        "its answer is not signed, as routes.10000.signed_answers requires (HTTP status 200, says: created: is 75 s "
        "after?[31m the time)"
    )


@pytest.mark.parametrize(("body", "said"), [
    (b"<h1>502 Bad Gateway</h1>\n", ", says: <h1>502 Bad Gateway</h1>"),
    (b"", ""),
    (b'{"retmsg": 7}', ""),
    (b"[" * 3_900, f", says: {'[' * 150}"),
    (b"x" * 1_000_000, f", says: {'x' * 150}"),
    (b'"\\ud800"', ', says: "\\ud800"'),
    (b"\xff\xfe", ", says: \ufffd\ufffd"),
])  # fmt: skip
def test_what_a_proxy_says_is_short_and_harmless(body: bytes, said: str) -> None:
    assert refusal(Answered(request(), {}, 502, body)).endswith(f"(HTTP status 502{said})")


def test_neither_keys_nor_signatures_are_in_a_message() -> None:
    good = answered(request())
    for change, _ in ATTACKS.values():
        said = refusal(change(good))
        for secret in (good.head[SIGNATURE], THEIRS.public.key_id, FOREIGN.public.key_id, good.head[DIGEST]):
            assert secret not in said


# ---------------------------------------------------------------------- others' implementation of RFC 9421


class Keys(HTTPSignatureKeyResolver):
    def resolve_public_key(self, key_id: str) -> object:
        return {one.public.key_id: one.public._key for one in (OURS, THEIRS)}[key_id]


VERIFIER = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=Keys())
VERIFIER.require_created = False         # an answer belongs to a request, which says when it was made


def test_others_find_our_signed_answer_right() -> None:
    good = answered(request())
    [found] = VERIFIER.verify(
        good.response(), expect_tag="fate_flow-answer", body=BODY, require_components=IDENTIFIERS, max_age=None
    )
    assert list(found.covered_components) == [*IDENTIFIERS, '"@signature-params"']
    assert found.parameters["keyid"] == THEIRS.public.key_id


def test_others_see_that_an_answer_belongs_to_another_request() -> None:
    with pytest.raises(InvalidSignature):
        VERIFIER.verify(replace(answered(request()), request=request()).response(), expect_tag="fate_flow-answer")
