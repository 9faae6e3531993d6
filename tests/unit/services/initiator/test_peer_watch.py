"""What is stored of the ways to and from a party, and when it goes again."""

from __future__ import annotations

from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.status import SeatStatus
from fate_flow.core.wire.v1.heartbeat import WayBack
from fate_flow.services.initiator.peers import LEAST_NOTED, PeerWatch
from fate_flow.store.values import Document
from tests.kit.services.hand_server import HandServer
from tests.kit.values import HOST, JOB_ID, a_job, seats

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


def silences(server: HandServer) -> list[tuple[str, str]]:
    with server.store.reading() as tx:
        history = tx.history(JOB_ID)
    return [(one.new, str(one.party)) for one in history if one.level is HistoryLevel.SILENCE]


def test_a_long_silence_is_in_the_history_of_jobs_that_run_there_once() -> None:
    server, watch = HandServer(), PeerWatch()
    with server.store.transaction() as tx:
        tx.add_job(a_job(), Document({}, {}, {}))
        tx.add_seats(seats(SeatStatus.STARTED))
    for seconds in (1.0, LEAST_NOTED, 20.0):
        with at(server, 60_000).unit() as unit:
            watch.fails(unit, HOST.party_id, seconds, "refused")
    assert silences(server) == [("does not answer", str(HOST))]
    for way_back in (LOST, None):
        with server.unit() as unit:
            watch.way_back(unit, HOST.party_id, way_back)
    assert silences(server) == [("does not answer", str(HOST)), ("answers again", str(HOST))]


def test_a_lost_request_and_a_job_that_waits_have_no_silence_in_their_history() -> None:
    for status, seconds in ((SeatStatus.STARTED, 2.0), (SeatStatus.JOINED, 20.0)):
        server, watch = HandServer(), PeerWatch()
        with server.store.transaction() as tx:
            tx.add_job(a_job(), Document({}, {}, {}))
            tx.add_seats(seats(status))
        with at(server, 60_000).unit() as unit:
            watch.fails(unit, HOST.party_id, seconds, "refused")
            watch.answers(unit, HOST.party_id)
        assert silences(server) == []


def test_a_party_is_cut_off_since_it_first_said_so_and_until_it_does_no_more() -> None:
    server, watch = HandServer(), PeerWatch()
    for steady, seconds in ((10_000, 3.0), (15_000, 8.0), (15_000, 0.0)):       # 0: it does not say for how long
        with at(server, steady).unit() as unit:
            watch.way_back(unit, "10000", WayBack(seconds, LOST.error))
        assert troubles(server) == [PeerTrouble("10000", 0, "", 10_000, "no answer in time")]
    with at(server, 20_000).unit() as unit:
        watch.way_back(unit, "10000", None)
    assert troubles(server) == []


def test_a_party_that_has_reached_this_server_in_between_is_cut_off_since_then() -> None:
    """Several short silences were one long one, after which a job went on without the party."""
    server, watch = HandServer(), PeerWatch()
    for steady, since in ((10_000, 10_000), (30_000, 27_000)):
        with at(server, steady).unit() as unit:
            watch.way_back(unit, "10000", LOST)
        assert troubles(server) == [PeerTrouble("10000", 0, "", since, "no answer in time")]


def test_what_a_party_said_last_is_forgotten_when_nobody_asks_it_any_more() -> None:
    server, watch = HandServer(), PeerWatch()
    with at(server, 10_000).unit() as unit:
        watch.way_back(unit, "10000", LOST)
        watch.fails(unit, "10000", 2.0, "no answer in time")
    with at(server, 12_000).unit() as unit:
        watch.forget(unit, "10000")
    assert troubles(server) == []
