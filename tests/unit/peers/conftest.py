"""A peer, with a sender for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fate_flow.peers.peer_senders import PeerSender
from tests.kit.peers.peer_server import Peer, Recorder, make_sender


@pytest.fixture
def peer() -> Iterator[Peer]:
    one = Peer()
    yield one
    one.close()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def sender(peer: Peer, recorder: Recorder) -> Iterator[PeerSender]:
    one = make_sender(peer.port, recorder)
    yield one
    one.close()
