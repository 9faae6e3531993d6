"""Behind a proxy that ends the TLS, the party itself signs that it carries a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import h11
import pytest

from fate_flow.core.access.site import SiteKey
from fate_flow.core.wire.v1.envelope import headers
from fate_flow.gateway.application import Answer
from fate_flow.gateway.bodies import Body
from fate_flow.gateway.unproved import Unproved
from fate_flow.peers.signature import INPUT, SIGNATURE, SiteSignature, digest_of
from fate_flow.peers.signed_answers import CoveredAnswer, SignedAnswers, sign_answer
from fate_flow.streams.ways import Way
from tests.kit.site_keys import private_key, site_key
from tests.kit.streams.two_gateways import GUEST, HOST, AskedApplication, Ways, World, answered, echo, world_in

NOW = 1_700_000_000_000
OURS, THEIRS, FOREIGN = private_key(1), private_key(2), private_key(3)


def keys_of(party_id: str) -> tuple[SiteKey, ...]:
    return (site_key(party_id, THEIRS),)


SIGNER = SiteSignature(OURS, lambda: NOW, SignedAnswers({GUEST.party_id}, keys_of))


@dataclass
class SignedWays(Ways):
    """Requests are signed, and ask for signed answers."""

    def to(self, party_id: str) -> Way:
        def check(asked: Mapping[str, str], answered: Mapping[str, str]) -> None:
            SIGNER.check_upgrade(party_id, asked, answered)

        return replace(super().to(party_id), check_upgrade=check)

    def _fields(self, target: str) -> Mapping[str, str]:
        head = headers(HOST.party_id, GUEST.party_id)
        return head | SIGNER.fields("POST", target, head, b"")


@dataclass
class SigningApplication(AskedApplication):
    """Signs as a test says: with which key, and a status or a request of which it is the answer."""

    key: object = THEIRS
    status: int = 200
    is_signed: bool = True
    of_another_request: bool = False

    async def ask(self, identity: bytes, request: h11.Request, body: Body) -> Answer:
        answer = await super().ask(identity, request, body)
        fields = {name.decode(): value.decode() for name, value in request.headers}
        content = b"".join(answer.body.pieces())
        signature = "site=:AAAA:" if self.of_another_request else fields[SIGNATURE.lower()]
        covered = CoveredAnswer(self.status, digest_of(content), GUEST.party_id, fields[INPUT.lower()], signature)
        signed = sign_answer(self.key, covered) if self.is_signed else {}  # type: ignore[arg-type]
        return Answer(h11.Response(status_code=200, headers=list(signed.items())), answer.body)


def signed(world: World, **how: object) -> None:
    """Both gateways of the world sign from now on."""
    ways = SignedWays(world.ways.urls)
    world.host.streams._ways = ways
    for name, value in how.items():
        setattr(world.application, name, value)


def test_only_the_party_can_open_a_stream(tmp_path: Path) -> None:
    async def test() -> None:
        async with world_in(tmp_path, kind=Unproved.PROXY, application=SigningApplication(tmp_path)) as world:
            signed(world)
            await world.open()
            assert await world.host.call() == ""
            async with await world.listen(echo):
                assert await answered(world, b"hello") == b"<hello>"

    asyncio.run(test())


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"is_signed": False}, "its answer is not signed, as routes.9999.signed_answers requires (HTTP status 101)"),
        ({"key": FOREIGN}, "keyid: its answer was signed with key"),
        ({"status": 403}, "signature: does not match its answer to this request"),
        ({"of_another_request": True}, "signature: does not match its answer to this request"),
    ],
)
def test_an_answer_of_somebody_else_opens_none(tmp_path: Path, how: dict[str, object], why: str) -> None:
    async def test() -> None:
        async with world_in(tmp_path, kind=Unproved.PROXY, application=SigningApplication(tmp_path)) as world:
            signed(world, **how)
            assert why in await world.host.call()

    asyncio.run(test())
