"""The queue as clients see and change it: places, priorities, holds, approvals."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from fate_flow.core.access.authority import document_digest
from fate_flow.core.model.errors import UNREACHABLE
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.store.views import snapshots
from tests.kit.api.client_world import GUEST, HOST, START, World


def test_a_waiting_job_is_given_a_priority(world: World) -> None:
    job_id = world.add_job()
    assert world.ask("job/priority", {"job_id": job_id, "priority": -3})["retmsg"] == "set job priority success"
    assert world.ask("job/explain", {"job_id": job_id})["data"]["priority"] == -3


@pytest.mark.parametrize("priority", [1_001, -1_001, "high", 1.5])
def test_a_priority_out_of_bounds_is_refused(world: World, priority: object) -> None:
    answer = world.ask("job/priority", {"job_id": world.add_job(), "priority": priority})
    assert answer["retcode"] == 101
    assert answer["retmsg"].startswith("priority: ")


def test_a_job_on_hold_says_so_and_keeps_its_place(world: World) -> None:
    world.add_job()
    job_id = world.add_job()
    assert world.ask("job/hold", {"job_id": job_id, "message": "until monday", "author": "ann"})["retcode"] == 0
    described = world.ask("job/explain", {"job_id": job_id})["data"]
    assert described["wait_reason"] == "on hold by ann: until monday; 2nd in the queue"
    assert {key: described["hold"][key] for key in ("message", "by")} == {"message": "until monday", "by": "ann"}
    assert described["hold"]["time"] > 0
    listed = world.ask("job/query", {"job_id": job_id})["data"][0]
    assert listed["f_wait_reason"] == described["wait_reason"]
    assert world.ask("job/release", {"job_id": job_id})["retcode"] == 0
    assert world.ask("job/explain", {"job_id": job_id})["data"]["hold"] is None
    assert "not on hold" in world.ask("job/release", {"job_id": job_id})["retmsg"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"message": ""}, "message: is missing or empty"),
        ({"message": "a\nb"}, "message: 'a\\nb' is not one line of up"),
        ({"message": "x" * 501}, "is not one line of up to 500 characters"), ({"message": 7}, "message: 7 is not text"),
        ({"message": "why", "author": "x" * 101}, "author: "),
    ],
)  # fmt: skip
def test_a_hold_without_text_for_people_is_refused(world: World, body: dict[str, object], text: str) -> None:
    for path, more in (("job/hold", {"job_id": world.add_job()}), ("queue/hold", {})):
        answer = world.ask(path, {**more, **body})
        assert answer["retcode"] == 101
        assert text in answer["retmsg"]


def test_a_party_on_hold_shows_it(world: World) -> None:
    assert world.ask("party/list")["data"]["own"] == {"party_id": "9999", "hold": None}
    assert world.ask("queue/hold", {"message": "maintenance"})["retcode"] == 0
    hold = world.ask("party/list")["data"]["own"]["hold"]
    assert (hold["message"], hold["by"]) == ("maintenance", "party 9999")
    assert world.ask("queue/release")["retcode"] == 0
    assert world.ask("queue/release")["retmsg"] == "party 9999 is not on hold"


HELD = {"message": "maintenance", "by": "ann", "time": 5}


@pytest.mark.parametrize(
    ("described", "hold"),
    [
        ({"hold": HELD}, HELD), ({"hold": None}, None), (None, None), ("text", None), ({"hold": "x"}, None),
        ({"hold": {"message": "a\nb" + "x" * 600, "by": 7, "time": "now"}},
         {"message": "a\nb" + "x" * 497, "by": "", "time": 0}),
    ],
)  # fmt: skip
def test_the_holds_of_other_parties_are_shown_as_they_tell_them(world: World, described: object, hold: object) -> None:
    world.peers.answers["/party/intake"] = Answer(data=described)
    assert {one["party_id"]: one["hold"] for one in world.ask("party/list")["data"]["parties"]} == {"10000": hold}
    assert world.peers.asked == [(Party("host", "10000"), "/party/intake")]


@pytest.mark.parametrize(
    ("answer", "status", "message"),
    [
        (Answer(data={"hold": None}), "answers", ""),
        (Answer(data={"hold": None, "way_back": None}), "answers", ""),
        (Answer(404, "it has no such route: it speaks plain v1"), "answers", ""),
        (Answer(100, "<NotFound '404: Not Found'>"), "answers", ""),
        (Answer(101, "this server is party 7777"), "does not answer",
         "this server is party 7777; silent for 3.5 s and 4 tries (no answer in time), asked again in 2.0 s; "
         "7 commands wait for it"),
        (Answer(UNREACHABLE, "party 10000 does not answer: connection refused"), "does not answer",
         "connection refused; silent for 3.5 s and 4 tries (no answer in time), asked again in 2.0 s; "
         "7 commands wait for it"),
        (Answer(data={"hold": None, "way_back": {"seconds": 0, "error": "connection refused"}}),
         "cannot reach this party", "cannot reach party 9999: connection refused"),
    ],
)  # fmt: skip
def test_the_parties_are_asked_when_their_list_is_asked_for(
    world: World, answer: Answer, status: str, message: str
) -> None:
    """Whatever the scheduler has seen of them last."""
    seen = {"circuit": "open", "silent_seconds": 3.5, "failures": 4, "error": "no answer in time",
            "next_try_seconds": 2.0, "commands_waiting": 7}  # fmt: skip
    world.write_peers(json.dumps({"10000": seen} if status == "does not answer" else {}))
    world.peers.answers["/party/intake"] = answer
    [found] = world.ask("party/list")["data"]["parties"]
    assert (found["status"], found["message"], found["hold"]) == (status, message, None)
    problem = {"answers": "", "cannot reach this party": "refused"}
    assert found["problem"] == problem.get(status, "refused" if "connection refused" in message else "name")


@pytest.mark.parametrize(("data", "offers", "offset"), [
    ({"clock": 1_500, "extensions": {"batch": 1, "disclosure": 1}}, ["batch", "disclosure"], 500),
    ({"hold": None}, [], None),
])  # fmt: skip
def test_a_party_is_shown_with_what_it_offers_and_its_clock(
    world: World, data: object, offers: list[str], offset: int | None
) -> None:
    object.__setattr__(world.services.context, "clock", lambda: 1_000)
    world.peers.answers["/party/intake"] = Answer(data=data)
    [found] = world.ask("party/list")["data"]["parties"]
    assert (found["offers"], found["clock_offset"]) == (offers, offset)


def test_why_a_party_is_silent_is_said_once(world: World) -> None:
    seen = {"circuit": "open", "silent_seconds": 0.5, "failures": 1, "error": "connection refused",
            "next_try_seconds": 2.0, "commands_waiting": 0}  # fmt: skip
    world.write_peers(json.dumps({"10000": seen}))
    world.peers.answers["/party/intake"] = Answer(UNREACHABLE, "party 10000 does not answer: connection refused")
    [found] = world.ask("party/list")["data"]["parties"]
    assert found["message"] == "connection refused; silent for 0.5 s and 1 try, asked again in 2.0 s"


def test_nobody_is_asked_where_too_many_handlers_wait_already(world: World) -> None:
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(world.services.use_cases.submits.waiting())
        [found] = world.ask("party/list")["data"]["parties"]
    assert (found["status"], world.peers.asked) == ("not asked", [])


def test_another_party_is_told_of_a_hold_where_there_is_a_route_to_it(world: World) -> None:
    world.ask("queue/hold", {"message": "maintenance"})
    said = world.ask("party/intake", headers={"SRC-PARTY-ID": "10000"})
    assert said["data"]["hold"]["message"] == "maintenance"
    refused = world.ask("party/intake", headers={"SRC-PARTY-ID": "555"})
    assert (refused["retcode"], refused["retmsg"][:27]) == (108, "party 555 has no route here")


def test_a_job_of_another_that_has_to_be_approved_says_so(world: World) -> None:
    job_id = world.add_job(party=GUEST, initiator=HOST, f_approval="pending")
    why = "nobody at guest 9999 has approved it yet: flow job approve, or flow job reject"
    described = world.ask("job/explain", {"job_id": job_id})["data"]
    assert (described["wait_reason"], described["approval"]["status"]) == (why, "pending")
    assert described["waits_for"] == "awaiting_approval"
    [row] = world.ask("job/query", {"job_id": job_id})["data"]
    document = world.ask("job/config", {"job_id": job_id, "role": "guest", "party_id": 9999})["data"]
    digest = document_digest(document["dsl"], document["runtime_conf"])
    assert (row["f_wait_reason"], row["f_document_digest"]) == (why, digest)
    [queued] = world.ask("queue/list")["data"]["unapproved"]
    [listed] = world.ask("job/list/job", {"job_id": job_id})["data"]["jobs"]
    shown = (described["approval"]["digest"], document["digest"], queued["digest"], listed["document_digest"])
    assert shown == (digest,) * 4
    assert world.ask("job/reject", {"job_id": job_id})["retcode"] == 101
    assert world.ask("job/reject", {"job_id": job_id, "reason": "no", "author": "ann"})["retcode"] == 0
    described = world.ask("job/explain", {"job_id": job_id})["data"]["approval"]
    assert (described["status"], described["by"], described["message"]) == ("rejected", "ann", "no")
    for said, message in (({}, ""), ({"reason": "contract 7"}, "contract 7")):
        assert world.ask("job/approve", {"job_id": job_id, **said})["retcode"] == 0
        described = world.ask("job/explain", {"job_id": job_id})["data"]["approval"]
        assert (described["status"], described["message"]) == ("approved", message)
    assert world.ask("job/approve", {"job_id": job_id, "reason": "a\nb"})["retcode"] == 101
    digest, short = described["digest"], described["digest"][:32]
    approved = world.ask("job/approve", {"job_id": job_id, "digest": short})
    assert approved["data"] == {"digest": digest, "revision": 0, "status": "approved"}
    wrong = [digest.upper(), short[:31], f"{short}0", "0" * 32, "0" * 64, 7]
    assert [world.ask("job/approve", {"job_id": job_id, "digest": one})["retcode"] for one in wrong] == [
        101, 101, 101, 100, 100, 101]  # fmt: skip
    revisions = (described["revision"], "0", 1, -1, "x")
    assert [world.ask("job/approve", {"job_id": job_id, "revision": one})["retcode"] for one in revisions] == [
        0, 0, 100, 101, 101]  # fmt: skip


def test_what_a_job_waits_for_is_one_word_too(world: World) -> None:
    job_id = world.add_job(f_blocked_on="10000", f_lacks="approval", f_apart=True, f_wait_reason="host 10000 has not")
    world.add_seats(job_id)
    world.write("t_seat", {"f_job_id": job_id, "f_role": "host"}, f_lacks="approval")
    described = world.ask("job/explain", {"job_id": job_id})["data"]
    assert (described["waits_for"], described["lacks"]) == ("awaiting_approval", "approval")
    assert described["awaiting_approval"] == ["host 10000"]


def test_the_queue_is_listed_in_its_order_with_what_each_job_waits_for(world: World) -> None:
    free, held, short, pending = (world.add_job(f_queue_key=key) for key in (5, 7, 3, 9))
    world.write("t_job", {"f_job_id": held}, f_name="later")
    world.add_seats(short)
    world.write("t_job", {"f_job_id": short}, f_blocked_on="10000", f_lacks="room", f_wait_reason="has no capacity",
                f_passes=2, f_passers=json.dumps([held, "gone"]), f_priority=4, f_retry_at=2_500)
    world.write("t_job", {"f_job_id": pending}, f_blocked_on="10000", f_lacks="approval", f_apart=True)
    world.ask("job/hold", {"job_id": held, "message": "later", "author": "ann"})
    found = world.ask("queue/list")["data"]
    assert (found["count"], found["hold"], found["unapproved"]) == (4, None, [])
    assert [(one["place_in_queue"], one["job_id"]) for one in found["jobs"]] == [
        (1, short), (2, free), (3, held), (4, pending),
    ]  # fmt: skip
    assert [one["waits_for"] for one in found["jobs"]] == ["room", "turn", "release", "awaiting_approval"]
    assert [one["estimate_seconds"] for one in found["jobs"]] == [None, 0, None, None]
    assert [bool(one["no_estimate_because"]) for one in found["jobs"]] == [True, False, True, True]
    first = found["jobs"][0]
    assert (first["priority"], first["passed_by"], first["asked_again_seconds"]) == (4, 2, 2.5)
    assert first["passers"] == [{"job_id": held, "name": "later"}, {"job_id": "gone", "name": ""}]
    assert first["parties"][1] == {"role": "host", "party_id": "10000", "asked_cores": 2}
    for one in found["jobs"]:
        described = world.ask("job/explain", {"job_id": one["job_id"]})["data"]
        same = ("wait_reason", "waits_for", "lacks", "place_in_queue", "hold", "passed_by", "passers")
        assert all(described[key] == one[key] for key in same)


def test_a_page_of_the_queue_knows_its_places(world: World) -> None:
    ids = [world.add_job() for _ in range(5)]
    found = world.ask("queue/list", {"limit": 2, "page": 2})["data"]
    assert [(one["place_in_queue"], one["job_id"]) for one in found["jobs"]] == [(3, ids[2]), (4, ids[3])]
    assert found["count"] == 5
    assert [one["create_time"] for one in found["jobs"]] == [START + 2, START + 3]
    assert world.ask("queue/list", {"limit": 0})["retcode"] == 101


def test_the_queue_lists_what_awaits_the_approval_of_this_party(world: World) -> None:
    job_id = world.add_job(party=GUEST, initiator=HOST, f_approval="pending", f_asked_cores=3)
    world.add_job(party=GUEST, initiator=HOST, f_approval="approved")
    world.add_job(party=GUEST, initiator=HOST, f_approval="pending", status=JobStatus.FAILED)
    world.ask("queue/hold", {"message": "maintenance", "author": "ann"})
    found = world.ask("queue/list")["data"]
    assert (found["jobs"], found["hold"]["by"]) == ([], "ann")
    [one] = found["unapproved"]
    assert found["unapproved_count"] == 1
    assert (one["job_id"], one["initiator"], one["asked_cores"]) == (job_id, {"role": "host", "party_id": "10000"}, 3)


def test_approvals_that_a_list_leaves_out_are_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        world.add_job(party=GUEST, initiator=HOST, f_approval="pending")
    monkeypatch.setattr(snapshots, "MOST_ROWS", 2)
    found = world.ask("queue/list")["data"]
    assert (len(found["unapproved"]), found["unapproved_count"]) == (2, 3)


def at_steady_time(world: World, milliseconds: int) -> None:
    with world.store.transaction() as tx:
        owner, counter = tx.scheduler()
        assert tx.take_scheduler_lease(owner, counter, "me")
        assert tx.renew_scheduler_lease("me", milliseconds)


def test_a_job_that_pauses_before_its_next_attempt_says_when_it_is_over(world: World) -> None:
    resting = world.add_job(f_rerun_signal=True, f_retry_at=40_000, f_wait_reason="retry_backoff: toy_0 begins again")
    world.add_job(f_rerun_signal=True)
    for after, seconds in ((0, 40), (12_000, 28), (50_000, 0)):
        at_steady_time(world, after)
        text = f"retry_backoff: toy_0 begins again in {seconds} s"
        assert world.ask("job/explain", {"job_id": resting})["data"]["wait_reason"] == text
        assert world.ask("queue/list")["data"]["jobs"][0]["wait_reason"] == f"{text}; 1st in the queue"
        assert world.ask("job/query", {"job_id": resting})["data"][0]["f_wait_reason"].startswith(text)
    at_steady_time(world, 0)
    found = world.ask("queue/list")["data"]["jobs"]
    assert [one["waits_for"] for one in found] == ["retry_backoff", "parties"]
    assert [one["asked_again_seconds"] for one in found] == [40, None]
    assert [one["estimate_seconds"] for one in found] == [None, None]
