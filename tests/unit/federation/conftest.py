"""A peer with a sender for it, and a spool with an open session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peer_server import Heard, Peer, make_lane
from spool_calls import HERE, PEERS, a_spool

from fate_flow.federation.lanes import Lane
from fate_flow.federation.spool import Spool


@pytest.fixture
def peer() -> Iterator[Peer]:
    one = Peer()
    yield one
    one.close()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def lane(peer: Peer, heard: Heard) -> Iterator[Lane]:
    one = make_lane(peer.port, heard)
    yield one
    one.close()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = a_spool(tmp_path / "spool")
    spool.open(HERE, PEERS, "token")
    return spool
