"""The parts of pages that decide something: partners, and who has to act."""

from __future__ import annotations

from typing import Any

import pytest

from fate_flow.api.http.shapes import WAITED_FOR
from fate_flow.api.monitoring.peer_states import freshness
from fate_flow.cli.audit.record_times import time_of
from fate_flow.core.access.key_list import MESSAGE, KeyList, KeyState, ListedKey
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.settings.limits import Limits
from fate_flow.store.views.board import SavedKeys
from fate_flow.web.jobs.whose_move import WAITING, who_acts
from fate_flow.web.pages import moment
from fate_flow.web.partners import BAD, GOOD, UNKNOWN, KeyInUse, PartnerKeys, keys_of, partners_of
from tests.kit.site_keys import private_key

FRESH = freshness(Limits())
LATELY = ", last less than 2 min ago"


def test_both_directions_of_a_partner_are_shown_apart() -> None:
    peers = {
        "1": {"circuit": "closed", "commands_waiting": 2, "answered_at": 1, "back_ms": 1},
        "2": {"circuit": "open", "error": "connection refused", "answered_at": 1},
        "4": {"circuit": "closed", "answered_at": 1},
        "6": {"circuit": "closed", "answered_at": 1},
    }  # fmt: skip
    troubles = {
        "3": PeerTrouble("3", silent_since=1_000, silence="no TLS connection"),
        "4": PeerTrouble("4", cut_off_since=1_000, cut_off="no answer in time"),
    }
    listed = partners_of(["1", "2", "3", "4", "5", "6"], peers, troubles, 181_000, {}, 2, FRESH)
    found = {one.party_id: one for one in listed}
    assert {key: (one.there, one.back) for key, one in found.items()} == {
        "1": (GOOD, GOOD), "2": (BAD, UNKNOWN), "3": (BAD, UNKNOWN), "4": (GOOD, BAD), "5": (UNKNOWN, UNKNOWN),
        "6": (GOOD, UNKNOWN),
    }  # fmt: skip
    assert found["1"].commands == 2
    bad = [one for one in found.values() if BAD in (one.there, one.back)]
    problems = {one.party_id: (one.there_problem, one.back_problem) for one in bad}
    assert problems == {
        "2": ("refused", ""), "3": ("TLS", ""), "4": ("", "no answer"),
    }  # fmt: skip
    assert found["3"].there_text == "does not answer for 3 min: no TLS connection"
    assert found["6"].back_text == "it does not say whether it reaches this party"
    assert found["4"].back_text == "cannot reach this party for 3 min: no answer in time"


@pytest.mark.parametrize(("seen", "text"), [
    ({}, "not known yet"), ({"1": {"circuit": "closed"}}, "closed: requests go out at once"),
    ({"1": {"circuit": "open"}}, "open: no requests for a pause"),
    ({"1": {"circuit": "probing"}}, "probing: it is asked once again"), ({"1": {"circuit": "odd"}}, "not known"),
])  # fmt: skip
def test_the_circuit_of_a_partner_is_said_in_words(seen: dict[str, Any], text: str) -> None:
    [found] = partners_of(["1"], seen, {}, 0, {}, 0, FRESH)
    assert found.circuit == text


MINUTE = 60_000


@pytest.mark.parametrize(("age", "mark", "text", "back"), [
    (None, UNKNOWN, "has not answered since this server started; flow party list asks it",
     "not known while it is not asked"),
    (-3 * MINUTE, GOOD, f"answers within 5 ms{LATELY}", "reaches this party within 5 ms"),      # the clock was set back
    (FRESH, GOOD, f"answers within 5 ms{LATELY}", "reaches this party within 5 ms"),
    *((age, UNKNOWN, f"answered {ago} ago, not asked since; flow party list asks it", "not known while it is not asked")
      for age, ago in ((FRESH + 1, "1 min"), (3 * MINUTE, "3 min"), (119 * MINUTE, "119 min"),
                       (120 * MINUTE, "2 h"), (47 * 60 * MINUTE, "47 h"), (100 * 60 * MINUTE, "4 days"))),
])  # fmt: skip
def test_an_answer_says_how_things_stand_only_while_it_is_new(age: int | None, mark: str, text: str, back: str) -> None:
    seen = {"1": {"circuit": "closed", "round_trip_ms": 3, "back_ms": 3,
                  "answered_at": None if age is None else NOW - age}}  # fmt: skip
    [found] = partners_of(["1"], seen, {}, 0, {}, NOW, FRESH)
    assert (found.there, found.there_text, found.back, found.back_text) == (mark, text, mark, back)
    assert (found.there_problem, found.back_problem) == ("", "")


def test_a_party_that_does_not_answer_is_bad_however_old_its_last_answer_is() -> None:
    seen = {"1": {"circuit": "open", "error": "connection refused", "answered_at": NOW - 60 * MINUTE}}
    [found] = partners_of(["1"], seen, {}, 0, {}, NOW, FRESH)
    assert (found.there, found.there_text) == (BAD, "does not answer: connection refused")


OLD, NEW = private_key(1).public, private_key(2).public


def shown_of(*keys: ListedKey, state: KeyState | None = KeyState.JOINED) -> PartnerKeys:
    return keys_of(SavedKeys(state, KeyList("10000", 1, 1, keys).content(), ""), NOW)


NOW = 1_700_000_000_000
DAY = 24 * 3600 * 1000


def test_the_key_of_a_partner_that_counts_is_shown_with_what_follows_it() -> None:
    old = ListedKey(MESSAGE, OLD.pem, 1, NOW + 3 * DAY)
    found = shown_of(old, ListedKey(MESSAGE, NEW.pem, NOW + DAY))
    assert found.keys == (KeyInUse(MESSAGE, OLD.key_id, NOW + 3 * DAY, NEW.key_id, NOW + DAY),)
    assert found.warnings == ()
    [used] = shown_of(old, ListedKey(MESSAGE, NEW.pem, NOW - DAY)).keys
    assert (used.key_id, used.until, used.next_id) == (NEW.key_id, None, "")


def test_a_key_of_a_partner_that_ends_soon_is_warned_of_before() -> None:
    [text] = shown_of(ListedKey(MESSAGE, OLD.pem, 1, NOW + 3 * DAY)).warnings
    assert "the last message key of party 10000 ends in 3 days" in text
    assert shown_of(ListedKey(MESSAGE, OLD.pem, 1, NOW + 40 * DAY)).warnings == ()
    ended = shown_of(ListedKey(MESSAGE, OLD.pem, 1, NOW - DAY))
    assert (ended.keys, ended.text, ended.is_bad) == ((), "all its keys have ended", True)
    assert "has ended" in ended.warnings[0]


def test_a_partner_without_keys_that_count_says_why() -> None:
    assert keys_of(None, NOW).text == "no key of it is saved here"
    assert keys_of(SavedKeys(None, "", "ab"), NOW).keys == (KeyInUse(MESSAGE, "ab", None, "", 0),)
    listed = ListedKey(MESSAGE, OLD.pem, 1)
    assert shown_of(listed, state=KeyState.REVOKED).is_bad
    assert shown_of(listed, state=KeyState.REMOVED).keys == ()


@pytest.mark.parametrize(("milliseconds", "text"), [
    (None, ""), (0, " within 1 ms"), (3, " within 5 ms"), (50, " within 50 ms"), (51, " within 100 ms"),
    (999, " within 1 s"), (1_500, " within 2 s"), ("x", ""), (True, ""),
])  # fmt: skip
def test_a_latency_is_rounded_so_that_the_page_stays_the_same(milliseconds: object, text: str) -> None:
    seen = {"1": {"circuit": "closed", "round_trip_ms": milliseconds, "back_ms": milliseconds, "answered_at": NOW}}
    [found] = partners_of(["1"], seen, {}, 0, {}, NOW, FRESH)
    back = f"reaches this party{text}" if text else "it does not say whether it reaches this party"
    assert (found.there_text, found.back_text) == (f"answers{text}{LATELY}", back)


@pytest.mark.parametrize(("limits", "seconds"), [
    (Limits(), 60 + 2 * 5 + 30), (Limits(idle_heartbeat_interval=0), 3 * 5 + 30),
    (Limits(idle_heartbeat_interval=1, party_silence=20), 3 * 5 + 20),
])  # fmt: skip
def test_an_answer_is_new_for_as_long_as_a_partner_that_answers_may_not_be_asked(limits: Limits, seconds: int) -> None:
    assert freshness(limits) == seconds * 1000


def _seat(message: str, status: str = "joined") -> dict[str, str]:
    return {"role": "host", "party_id": "10000", "message": message, "status": status}


REFUSED = "does not answer: connection refused"


@pytest.mark.parametrize(("job", "text"), [
    ({"status": "success"}, ""),
    ({"status": "running"}, ""),
    ({"status": "running", "parties": [{"party_id": "10000", "trouble": "host 10000 has not answered for 40 s"}]},
     "The operators of party 10000: host 10000 has not answered for 40 s."),
    ({"status": "running", "initiator_trouble": "guest 9999 has not answered for 40 s"},
     "The operators of party 9999: guest 9999 has not answered for 40 s."),
    ({"status": "timeout", "caused_by": "host 10000"}, "The people of host 10000: the cause is there."),
    ({"status": "canceled", "caused_by": "host 10000"}, "The people of host 10000: the job was stopped there."),
    ({"status": "canceled", "caused_by": ""}, ""),
    ({"status": "failed", "caused_by": "host 10000"}, "The people of host 10000: the cause is there."),
    ({"status": "failed", "caused_by": "guest-9999"}, "Your own party: the cause is there."),
    ({"status": "failed", "caused_by": ""}, ""),
    ({"status": "waiting", "waits_for": "release", "hold": {"by": "anna"}}, "anna holds the job"),
    ({"status": "waiting", "waits_for": "awaiting_approval", "awaiting_approval": ["host 10000"]},
     "The people of host 10000 decide whether they take part."),
    ({"status": "waiting", "waits_for": "awaiting_approval"}, "You: approve or reject the job."),
    ({"status": "waiting", "waits_for": "answer", "parties": [_seat(REFUSED)]},
     "The operators of host 10000, which does not answer: connection refused."),
    ({"status": "waiting", "waits_for": "answer", "parties": [_seat(""), _seat("is not ready: on hold by ann: lunch")]},
     "The people of host 10000, which is not ready: on hold by ann: lunch."),
    ({"status": "waiting", "waits_for": "answer"}, "The people of the party that is not ready."),
    ({"status": "waiting", "waits_for": "size"}, "asks for more than a party has in all"),
    ({"status": "waiting", "waits_for": "initiator"}, "Nobody here: guest 9999 knows its place"),
    ({"status": "waiting", "waits_for": "parties", "parties": [_seat(REFUSED)]},
     f"The operators of host 10000, which {REFUSED}."),
    ({"status": "waiting", "waits_for": "parties", "parties": [_seat("", "joining")]},
     "The operators of host 10000, unless it confirms soon that the job begins again."),
    ({"status": "waiting", "waits_for": "parties", "parties": [_seat("")]}, "Nobody: it goes on by itself"),
    ({"status": "waiting", "waits_for": "retry_backoff", "parties": [_seat("")]},
     "Nobody: it begins again by itself when its pause is over."),
    ({"status": "waiting", "waits_for": "retry_backoff", "parties": [_seat(REFUSED, "joining")]},
     f"The operators of host 10000, which {REFUSED}."),
    ({"status": "waiting", "waits_for": "room"}, "Nobody: it starts by itself when the cores are free."),
    ({"status": "waiting", "waits_for": "turn"}, "Nobody: it starts by itself when its turn comes."),
])  # fmt: skip
def test_who_has_to_act(job: dict[str, Any], text: str) -> None:
    usual = {
        "parties": [], "caused_by": "", "waits_for": None, "hold": None, "awaiting_approval": [],
        "initiator": {"role": "guest", "party_id": "9999"}, "initiator_trouble": None,
    }  # fmt: skip
    found = who_acts({**usual, **job}, "9999")
    assert text in found
    assert bool(found) == bool(text)


def test_each_word_for_what_a_job_waits_for_has_its_own_sentence_about_who_acts() -> None:
    assert set(WAITING) == WAITED_FOR
    job = {"parties": [], "hold": None, "awaiting_approval": [], "initiator": {"role": "guest", "party_id": "9999"},
           "initiator_trouble": None}  # fmt: skip
    said = {word: who_acts({**job, "status": "waiting", "waits_for": word}, "9999") for word in WAITED_FOR}
    assert all(said.values())
    assert len(set(said.values())) == len(WAITED_FOR)


@pytest.mark.parametrize(("at", "machine", "person"), [
    (0, "", ""), (1_000, "1970-01-01T00:00:01.000+00:00", "1970-01-01 00:00:01 UTC"),
    (4 * 10**18, "", "4000000000000000000 ms after 1970 began"),
    (10**400, "", "a very long number ms after 1970 began"),
])  # fmt: skip
def test_a_time_that_no_calendar_has_is_shown_as_a_number(at: int, machine: str, person: str) -> None:
    assert moment(at) == {"machine": machine, "person": person}
    assert time_of(at) == (person if at > 1_000 else f"1970-01-01 00:00:0{at // 1_000}.000")
