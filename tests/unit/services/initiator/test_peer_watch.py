"""What is stored of the ways to and from a party, and when it goes again."""

from __future__ import annotations

from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.wire.v1.heartbeat import WayBack
from fate_flow.services.initiator.peers import PeerWatch
from tests.kit.services.hand_server import HandServer

LOST = WayBack(3.0, "no answer in time")


def troubles(server: HandServer) -> list[PeerTrouble]:
    with server.store.reading() as tx:
        return list(tx.peer_troubles().values())


def at(server: HandServer, steady: int) -> HandServer:
    server.steady = steady
    return server


def test_an_answered_heartbeat_ends_a_silence() -> None:
    """It stayed in the row: after one lost heartbeat the other party was told of it until it gave up the job."""
    server, watch = HandServer(), PeerWatch()
    with at(server, 10_000).unit() as unit:
        watch.fails(unit, "10000", 2.0, "no answer in time")
    assert troubles(server) == [PeerTrouble("10000", 8_000, "no answer in time")]
    with at(server, 15_000).unit() as unit:
        watch.way_back(unit, "10000", None)
    assert troubles(server) == []


def test_a_party_is_cut_off_since_it_first_said_so_and_until_it_does_no_more() -> None:
    server, watch = HandServer(), PeerWatch()
    for steady in (10_000, 15_000):
        with at(server, steady).unit() as unit:
            watch.way_back(unit, "10000", LOST)
        assert troubles(server) == [PeerTrouble("10000", 0, "", 10_000, "no answer in time")]
    with at(server, 20_000).unit() as unit:
        watch.way_back(unit, "10000", None)
    assert troubles(server) == []


def test_what_a_party_said_last_is_forgotten_when_nobody_asks_it_any_more() -> None:
    server, watch = HandServer(), PeerWatch()
    with at(server, 10_000).unit() as unit:
        watch.way_back(unit, "10000", LOST)
    with at(server, 12_000).unit() as unit:
        [trouble] = watch.troubles(unit)
        watch.forget_way_back(unit, trouble)
    assert troubles(server) == []
