"""What is wrong with the way to another party, as text; and what another party says of its way back."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.peer import (
    LONGEST_ERROR,
    HeartbeatReply,
    PeerTrouble,
    WayBack,
    read_heartbeat_reply,
    read_way_back,
)
from tests.kit.values import GUEST, HOST

SILENT = PeerTrouble("10000", 1_000, "connection refused")
CUT_OFF = PeerTrouble("10000", cut_off_since=1_000, cut_off="no answer in time")


@pytest.mark.parametrize(
    ("trouble", "limit", "text"),
    [
        (SILENT, None, "host 10000 has not answered for 7 s (connection refused)"),
        (SILENT, 90_000, "host 10000 has not answered for 7 s (connection refused); given up in 83 s"),
        (PeerTrouble("10000", 1_000), 90_000, "host 10000 has not answered for 7 s; given up in 83 s"),
        (SILENT, 2_000, "host 10000 has not answered for 7 s (connection refused); given up in 0 s"),
        (CUT_OFF, None, "host 10000 cannot reach guest 9999 (no answer in time, for 7 s)"),
        (CUT_OFF, 90_000, "host 10000 cannot reach guest 9999 (no answer in time, for 7 s); given up in 83 s"),
        (PeerTrouble("10000", cut_off_since=1_000), None, "host 10000 cannot reach guest 9999 (for 7 s)"),
    ],
)
def test_it_says_who_cannot_reach_whom_since_when_and_how_long_that_may_last(
    trouble: PeerTrouble, limit: int | None, text: str
) -> None:
    assert trouble.explain(HOST, GUEST, 8_400, limit) == text
    assert not trouble.is_over


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"seconds": 12.5, "error": "connection refused"}, WayBack(12.5, "connection refused")),
        ({}, WayBack(0, "")),
        ({"seconds": -1, "error": 3}, WayBack(0, "")),
        ({"seconds": float("nan"), "error": "x" * 10_000}, WayBack(0, "x" * LONGEST_ERROR)),
        ({"seconds": "12"}, WayBack(0, "")),
        ("no", None),
        (None, None),
    ],
)
def test_of_another_partys_words_only_what_makes_sense_is_taken(body: object, found: WayBack | None) -> None:
    assert read_way_back(body) == found


@pytest.mark.parametrize(
    "reply",
    [
        HeartbeatReply({}),
        HeartbeatReply({"j": "done"}),
        HeartbeatReply({"j": "done"}, WayBack(3.0, "connection refused"), ({"job_id": "j"},)),
    ],
)
def test_a_reply_is_read_as_it_was_written(reply: HeartbeatReply) -> None:
    assert read_heartbeat_reply(reply.as_body()) == reply
    assert reply.is_new == (reply != HeartbeatReply({}))


@pytest.mark.parametrize("reports", [None, 7, {"a": 1}, [1, "x", None]])
def test_reports_that_are_none_are_dropped(reports: Any) -> None:
    assert read_heartbeat_reply({"ended": [], "reports": reports}) == HeartbeatReply({})
