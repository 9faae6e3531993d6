"""Joining over real TLS connections: the certificate that counts is the one of the connection that was used."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.access.invitation import Invitation
from fate_flow.core.model.errors import FlowError, PeerUnreachable, PermissionDenied
from fate_flow.peers.joining import Joining, join
from fate_flow.peers.tls import server_context
from tests.kit.peers.handshakes import TlsParty, tls_party
from tests.kit.peers.joining_world import ADDRESSES, INVITED, INVITER, JoiningWorld
from tests.kit.peers.tls_peer import TlsPeer


@pytest.fixture
def world(tmp_path: Path) -> JoiningWorld:
    return JoiningWorld(tmp_path)


@pytest.fixture
def server(world: JoiningWorld) -> Iterator[TlsPeer]:
    found = served(world, world.tls[INVITER])
    yield found
    found.close()


def served(world: JoiningWorld, shown: TlsParty) -> TlsPeer:
    """The inviting server, or somebody in between with another certificate who passes messages on."""
    found = TlsPeer(server_context(shown.own, (), lets_strangers=True))

    def answer(body: bytes) -> Any:
        try:
            return {"retcode": 0, "retmsg": "success", "data": {"text": world.answer(json.loads(body)["text"])}}
        except FlowError as error:
            return {"retcode": 108, "retmsg": error.message}

    found.answers = answer
    return found


def joined(world: JoiningWorld, invitation: Invitation, url: str) -> Joining:
    there = replace(invitation, address=url)
    return join(there, INVITED, ADDRESSES[INVITED], world.list_of(INVITED), "bob", lambda: world.now)


def test_a_party_joins(world: JoiningWorld, server: TlsPeer) -> None:
    found = joined(world, world.invite(), server.url)
    assert found.root_id == world.roots[INVITER].public.key_id
    assert [one.party.phrase for one in world.saved] == [found.party.phrase]
    assert server.shown == [None], "it shows no certificate itself"


def test_somebody_in_between_is_noticed(world: JoiningWorld) -> None:
    between = served(world, tls_party(INVITER, clock=lambda: world.now))
    try:
        with pytest.raises(PermissionDenied, match="key: somebody in between has answered"):
            joined(world, world.invite(), between.url)
    finally:
        between.close()


def test_a_refusal_is_shown_with_where_it_came_from(world: JoiningWorld, server: TlsPeer) -> None:
    invitation = world.invite()
    joined(world, invitation, server.url)
    with pytest.raises(PermissionDenied, match=r"\(party 9999\) answers: secret: no invitation with this"):
        joined(world, invitation, server.url)


def test_an_invitation_that_is_over_says_since_when(world: JoiningWorld, server: TlsPeer) -> None:
    invitation = world.invite()
    world.now = invitation.until + 1000
    ended = f"It has ended at {datetime.fromtimestamp(invitation.until // 1000, UTC):%F %T}Z"
    with pytest.raises(PermissionDenied, match=rf"secret: no invitation .* {ended}, by the clock of"):
        joined(world, invitation, server.url)
    server.context = server_context(world.tls[INVITER].own, ())
    with pytest.raises(PeerUnreachable, match=rf"no invitation is open there.* {ended}"):
        joined(world, invitation, server.url)


@pytest.mark.parametrize("answer", [
    [], 1, {"retcode": 0}, {"retcode": 0, "data": {"text": 1}}, {"retcode": 0, "data": []},
    {"retcode": 0, "data": {"text": "x"}}, {"retcode": 108, "retmsg": "\x1b[31m" + "x" * 10_000},
])  # fmt: skip
def test_what_a_hostile_server_answers_is_an_error_of_one_line(
    world: JoiningWorld, server: TlsPeer, answer: object
) -> None:
    server.answers = lambda _: answer
    with pytest.raises(FlowError) as error:
        joined(world, world.invite(), server.url)
    assert len(error.value.message) < 1000
    assert "\x1b" not in error.value.message
    assert world.saved == []


def test_a_server_that_lets_nobody_join_says_so(world: JoiningWorld, server: TlsPeer) -> None:
    server.context = server_context(world.tls[INVITER].own, ())
    with pytest.raises(PeerUnreachable, match=r"secret: .* lets nobody join now|no invitation is open there"):
        joined(world, world.invite(), server.url)


def test_an_address_where_nobody_listens_is_the_port(world: JoiningWorld) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(PeerUnreachable, match=r"port: https://127\.0\.0\.1:\d+ \(party 9999\) does not answer"):
            joined(world, world.invite(), url)
