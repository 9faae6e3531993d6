"""A peer with a sender for it, and a spool with an open session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peer_server import Peer, Recorder, make_sender
from spool_calls import HERE, PEERS, a_spool

from fate_flow.peers.peer_senders import PeerSender
from fate_flow.relay.spool import Spool


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


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = a_spool(tmp_path / "spool")
    spool.open(HERE, PEERS, "token")
    return spool
