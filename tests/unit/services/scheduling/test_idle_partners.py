"""Heartbeats to parties that no job binds."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from random import Random

import pytest

from fate_flow.core.access.key_list import KeyState
from fate_flow.core.wire.v1.heartbeat import WayBack
from fate_flow.services.context.ports import Rules
from fate_flow.services.scheduling.events import HeartbeatAnswered, PartyFails
from fate_flow.services.scheduling.idle_partners import IdlePartners
from tests.kit.services.hand_scheduler import Process, chosen, running
from tests.kit.services.hand_server import HandServer
from tests.kit.services.witness_parties import RecordKeys
from tests.kit.values import JOB_ID

GAP, INTERVAL, HOUR = 5_000, 60_000, 3_600_000


@pytest.mark.parametrize("interval", [INTERVAL, GAP, 1])
def test_each_idle_party_is_due_within_each_interval_and_never_all_at_once(interval: int) -> None:
    idle = [str(10_000 + one) for one in range(50)]
    partners, at = IdlePartners(interval, GAP, Random(1).randrange), defaultdict[str, list[int]](list)
    most = 0
    for now in range(0, HOUR, GAP):
        due = partners.due(idle, now)
        most = max(most, len(due))
        for one in due:
            at[one].append(now)
    pauses = [later - one for times in at.values() for one, later in pairwise(times)]
    assert set(at) == set(idle)
    assert max(times[0] for times in at.values()) <= interval // 4 + GAP, "after a start nobody waits long"
    assert max(pauses) <= max(interval, GAP)
    if interval == INTERVAL:
        assert min(pauses) >= INTERVAL // 2
        assert most < 35, "the first ones, after a start; later they are spread over the minute"


def test_no_party_is_due_if_the_configuration_says_so() -> None:
    assert IdlePartners(0, GAP, Random(1).randrange).due(["10000"], HOUR) == ()


def beats(process: Process, seconds: float) -> dict[str, int]:
    """The heartbeats of so many seconds, by party."""
    found: dict[str, int] = {}
    for _ in range(int(seconds * 1000) // GAP):
        process.seconds += GAP / 1000
        process.transport.heartbeats.clear()
        process.scheduler.beat()
        for party_id in process.transport.heartbeats:
            found[party_id] = found.get(party_id, 0) + 1
    return found


def idle(interval: int = INTERVAL) -> Process:
    return chosen(HandServer("9999", rules=Rules(idle_heartbeat=interval)))


def test_parties_that_no_job_binds_get_a_heartbeat_about_once_a_minute() -> None:
    found = beats(idle(), 600)
    assert set(found) == {"10000", "10001"}, "all that have an address, without this party"
    assert all(10 <= one <= 14 for one in found.values())
    assert beats(idle(interval=0), 600) == {}


def test_a_party_that_a_job_binds_gets_each_heartbeat_and_no_other_does() -> None:
    process = idle()
    running(process)
    found = beats(process, 600)
    assert found["10000"] == 120
    assert 10 <= found["10001"] <= 14
    assert process.transport.heartbeats["10000"] == ((JOB_ID, 0),)


@pytest.mark.parametrize("interval", [INTERVAL, 0])
@pytest.mark.parametrize("event", [
    PartyFails("10001", 3.0, "connection refused"), HeartbeatAnswered("10001", {}, way_back=WayBack(3.0, "no answer")),
])  # fmt: skip
def test_a_party_in_trouble_gets_each_heartbeat_until_that_is_over(
    interval: int, event: PartyFails | HeartbeatAnswered
) -> None:
    process = idle(interval)
    process.scheduler.step([event])
    process.scheduler.poll()
    assert beats(process, 60)["10001"] == 12
    assert process.scheduler.is_unsure_of("10001"), "so its next answer is an event"
    process.scheduler.step([HeartbeatAnswered("10001", {})])
    assert beats(process, 60).get("10001", 0) <= 2
    assert process.server.context.read(lambda tx: tx.peer_troubles()) == {}


def test_the_trouble_of_a_party_that_has_no_address_any_more_is_forgotten() -> None:
    process = idle()
    process.scheduler.step([PartyFails("10007", 3.0, "connection refused"), PartyFails("10001", 3.0, "no answer")])
    process.scheduler.beat()
    process.scheduler.poll()
    assert set(process.server.context.read(lambda tx: tx.peer_troubles())) == {"10001"}


def test_a_party_that_was_revoked_is_not_asked_and_has_no_trouble() -> None:
    """An alert about it would never end: its operator has no key with which it could answer."""
    process = idle()
    with process.server.store.transaction() as tx:
        tx.add_party_keys(RecordKeys("10001").listed(state=KeyState.REVOKED))
        tx.add_party_keys(RecordKeys("10000").listed())
    process.scheduler.step([PartyFails("10001", 3.0, "no TLS connection"), PartyFails("10000", 3.0, "no answer")])
    assert beats(process, 60) == {"10000": 12}
    process.scheduler.poll()
    assert set(process.server.context.read(lambda tx: tx.peer_troubles())) == {"10000"}
