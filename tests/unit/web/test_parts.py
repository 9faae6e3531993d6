"""The parts of pages that decide something: partners, and who has to act."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.core.model.peer import PeerTrouble
from fate_flow.web.jobs.whose_move import who_acts
from fate_flow.web.partners import BAD, GOOD, UNKNOWN, partners_of


def test_both_directions_of_a_partner_are_shown_apart() -> None:
    peers = {"1": {"circuit": "closed", "commands_waiting": 2}, "2": {"circuit": "open", "error": "connection refused"},
             "4": {"circuit": "closed"}}
    troubles = {
        "3": PeerTrouble("3", silent_since=1_000, silence="no TLS connection"),
        "4": PeerTrouble("4", cut_off_since=1_000, cut_off="no answer in time"),
    }
    found = {one.party_id: one for one in partners_of(["1", "2", "3", "4", "5"], peers, troubles, 181_000)}
    assert {key: (one.there, one.back) for key, one in found.items()} == {
        "1": (GOOD, GOOD), "2": (BAD, UNKNOWN), "3": (BAD, UNKNOWN), "4": (GOOD, BAD), "5": (UNKNOWN, UNKNOWN),
    }  # fmt: skip
    assert found["1"].commands == 2
    bad = [one for one in found.values() if BAD in (one.there, one.back)]
    problems = {one.party_id: (one.there_problem, one.back_problem) for one in bad}
    assert problems == {
        "2": ("refused", ""), "3": ("TLS", ""), "4": ("", "no answer"),
    }  # fmt: skip
    assert found["3"].there_text == "does not answer for 3 min: no TLS connection"
    assert found["4"].back_text == "cannot reach this party for 3 min: no answer in time"


@pytest.mark.parametrize(("milliseconds", "text"), [
    (None, ""), (0, " within 1 ms"), (3, " within 5 ms"), (50, " within 50 ms"), (51, " within 100 ms"),
    (999, " within 1 s"), (1_500, " within 2 s"), ("x", ""), (True, ""),
])  # fmt: skip
def test_a_latency_is_rounded_so_that_the_page_stays_the_same(milliseconds: object, text: str) -> None:
    seen = {"1": {"circuit": "closed", "round_trip_ms": milliseconds, "back_ms": milliseconds}}
    [found] = partners_of(["1"], seen, {}, 0)
    assert (found.there_text, found.back_text) == (f"answers{text}", f"reaches this party{text}")


@pytest.mark.parametrize(("job", "text"), [
    ({"status": "success"}, ""),
    ({"status": "running"}, ""),
    ({"status": "running", "parties": [{"party_id": "10000", "trouble": "host 10000 has not answered for 40 s"}]},
     "The operators of party 10000: host 10000 has not answered for 40 s."),
    ({"status": "failed", "caused_by": "host 10000"}, "The people of host 10000: the cause is there."),
    ({"status": "failed", "caused_by": "guest-9999"}, "Your own party: the cause is there."),
    ({"status": "failed", "caused_by": ""}, ""),
    ({"status": "waiting", "waits_for": "release", "hold": {"by": "anna"}}, "anna holds the job"),
    ({"status": "waiting", "waits_for": "awaiting_approval", "awaiting_approval": ["host 10000"]},
     "The people of host 10000 decide whether they take part."),
    ({"status": "waiting", "waits_for": "awaiting_approval"}, "You: approve or reject the job."),
    ({"status": "waiting", "waits_for": "answer"}, "The operators of the party that does not answer."),
    ({"status": "waiting", "waits_for": "size"}, "asks for more than a party has in all"),
    ({"status": "waiting", "waits_for": "initiator"}, "Nobody here: guest 9999 knows its place"),
    ({"status": "waiting", "waits_for": "room"}, "Nobody: it starts by itself"),
])  # fmt: skip
def test_who_has_to_act(job: dict[str, Any], text: str) -> None:
    usual = {
        "parties": [], "caused_by": "", "waits_for": None, "hold": None, "awaiting_approval": [],
        "initiator": {"role": "guest", "party_id": "9999"},
    }  # fmt: skip
    found = who_acts({**usual, **job}, "9999")
    assert text in found
    assert bool(found) == bool(text)
