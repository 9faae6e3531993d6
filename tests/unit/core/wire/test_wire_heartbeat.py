"""Heartbeats and their answers, as they are written and read."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.peer import LONGEST_ERROR
from fate_flow.core.wire.v1.extensions import understands_batches
from fate_flow.core.wire.v1.heartbeat import (
    HeartbeatReply,
    WayBack,
    read_heartbeat,
    read_heartbeat_reply,
    read_way_back,
)


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
    data = reply.as_data()
    assert read_heartbeat_reply(data) == reply
    assert understands_batches(data)
    assert reply.is_new == (reply != HeartbeatReply({}))


@pytest.mark.parametrize("reports", [None, 7, {"a": 1}, [1, "x", None]])
def test_reports_that_are_none_are_dropped(reports: Any) -> None:
    assert read_heartbeat_reply({"ended": [], "reports": reports}) == HeartbeatReply({})


@pytest.mark.parametrize("run", ["x", None, True, 1.5, [1]])
def test_a_run_that_is_no_number_is_refused(run: object) -> None:
    with pytest.raises(BadRequest, match=r"^jobs: .* is not the number of a run$"):
        read_heartbeat({"jobs": [["202601010000000000000", run]]})
