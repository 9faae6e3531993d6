"""What other processes of a server tell its scheduler arrives as it was sent."""

from __future__ import annotations

import pytest

from fate_flow.relay.wakeup import Wakeup
from fate_flow.server.runtime import wake_scheduler
from fate_flow.server.scheduling import read_wakeup
from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.scheduling.events import JobChanged, OutboxFilled, QueueChanged

JOB_ID = "2026112710000000000001234"
LARGEST = 2**31 - 1


def test_events_of_each_kind_arrive() -> None:
    wakeup = Wakeup()
    wake_scheduler(wakeup)([JOB_ID], True, True, "10000", [CapacityNotice(JOB_ID, "10000", 4)])
    found = [event for payload in wakeup.wait(1.0) for event in read_wakeup(payload)]
    assert found == [OutboxFilled(), JobChanged(JOB_ID), QueueChanged("10000"), CapacityNotice(JOB_ID, "10000", 4)]


@pytest.mark.parametrize("engines", [0, 1, 50])
def test_each_of_many_notices_arrives_once_whatever_it_names(engines: int) -> None:
    """The scheduler keeps events of one round apart by their values."""
    places = tuple((f"tag{number:017d}", LARGEST) for number in range(engines))
    sent = [CapacityNotice(JOB_ID, str(10_000 + number), LARGEST, places) for number in range(40)]
    wakeup = Wakeup()
    wake_scheduler(wakeup)([], False, False, "", sent)
    found = [event for payload in wakeup.wait(1.0) for event in read_wakeup(payload)]
    assert list(dict.fromkeys(found)) == sent
