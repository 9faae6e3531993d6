"""The queue: reservation rounds, whose turn it is, and who waits for a party."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.job import Blocker, Hold, PendingRequest
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_UNFINISHED, JobStatus, SeatStatus
from fate_flow.core.planning.actions import MoveJob
from fate_flow.store.contract.changes import MOST_PASSERS, MOST_PENDING
from tests.store_contract.cases import (
    ARBITER,
    GUEST,
    HOST,
    OTHER_HOST,
    Cases,
    Each,
    a_job,
    a_seat,
    an_engine,
    with_jobs,
)


class RoundCases(Cases):
    def test_a_reservation_round_begins_once(self, each: Each) -> None:
        with_jobs(each, a_job())
        assert each.begin_round(a_job().key, "me", 5)
        assert each.begin_round(a_job().key, "me", 6) is False
        assert each.begin_round(a_job().key, "you", 6) is False
        assert each.job_here("j1") == a_job(ready_owner="me", round_number=1)

    def test_only_a_waiting_job_has_reservation_rounds(self, each: Each) -> None:
        for status in JOB_UNFINISHED - {JobStatus.WAITING}:
            with_jobs(each, a_job(status.value, status=status))
            assert each.begin_round(a_job(status.value).key, "me", 5) is False

    def test_a_reservation_round_forgets_what_the_last_one_was_refused(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("j2"))
        each.add_seats([a_seat(message="has no capacity", free_cores=2, asked_cores=4), a_seat("j2", message="kept")])
        each.begin_round(a_job().key, "me", 5)
        assert each.seats("j1") == (a_seat(asked_cores=4),)
        assert each.seats("j2") == (a_seat("j2", message="kept"),)

    def test_a_reservation_round_that_does_not_begin_forgets_nothing(self, each: Each) -> None:
        with_jobs(each, a_job(status=JobStatus.RUNNING))
        each.add_seats([a_seat(message="kept")])
        assert each.begin_round(a_job().key, "me", 5) is False
        assert each.seats("j1") == (a_seat(message="kept"),)

    def test_only_its_owner_ends_a_reservation_round(self, each: Each) -> None:
        with_jobs(each, a_job())
        key = a_job().key
        assert each.end_round(key, "me", "why", "10000", 4, 99, 1, Blocker.SIZE) is False
        each.begin_round(key, "me", 5)
        assert each.end_round(key, "you", "why", "10000", 4, 99, 1, None) is False
        assert each.end_round(key, "me", "why", "10000", 4, 99, 1, Blocker.SIZE)
        waits = a_job(
            round_number=1, wait_reason="why", blocked_on="10000", retry_at=99, conflicts=1, blocked_by=Blocker.SIZE
        )
        assert each.job(key) == waits
        assert each.end_round(key, "me", "", "", 0, 0, 0, None) is False
        assert each.begin_round(key, "you", 6)
        assert each.job(key).round_number == 2

    def test_a_job_in_its_reservation_round_is_not_postponed(self, each: Each) -> None:
        with_jobs(each, a_job(), a_job("run", status=JobStatus.RUNNING))
        key = a_job().key
        assert each.postpone(key, "why", "10000", 4, 99)
        assert each.job(key) == a_job(wait_reason="why", blocked_on="10000", retry_at=99)
        each.begin_round(key, "me", 5)
        assert each.postpone(key, "other", "10001", 1, 100) is False
        assert each.postpone(a_job("run").key, "other", "10001", 1, 100) is False
        assert each.job(key).blocked_on == "10000"

    def test_another_scheduler_takes_over(self, each: Each) -> None:
        with_jobs(each, *(a_job(name, create_time=time) for name, time in (("a", 3), ("b", 2), ("c", 1), ("d", 0))))
        for name, owner in (("a", "old"), ("b", "older"), ("c", "me")):
            each.begin_round(a_job(name).key, owner, 5)
        assert each.take_over("me") == ("b", "a")
        assert each.take_over("me") == ()
        assert [each.job_here(name).ready_owner for name in "abcd"] == ["me", "me", "me", ""]
        assert each.end_round(a_job("a").key, "old", "", "", 0, 0, 0, None) is False, "fenced"
        assert each.end_round(a_job("a").key, "me", "", "", 0, 0, 0, None)

    def test_jobs_in_their_reservation_round_wait(self, each: Each) -> None:
        with_jobs(each, a_job("a"), a_job("b", create_time=1), a_job("c"))
        for name in "ab":
            each.begin_round(a_job(name).key, "me", 5)
        assert [job.job_id for job in each.jobs_in_round()] == ["b", "a"]
        each.move_job(a_job("a"), MoveJob(JobStatus.RUNNING), 6)
        assert [job.job_id for job in each.jobs_in_round()] == ["b"]


class QueueCases(Cases):
    def queue(self, each: Each) -> None:
        """a b c d e by age, with a tie between c and d; b and d lack cores of 10000, e of 10001."""
        ages = {"e": 30, "d": 20, "c": 20, "b": 10, "a": 5}
        with_jobs(each, *(a_job(name, create_time=age) for name, age in ages.items()))
        with_jobs(each, a_job("hosted", HOST, create_time=1), a_job("running", status=JobStatus.RUNNING, create_time=1))
        for name, party_id, cores in (("b", "10000", 6), ("d", "10000", 2), ("e", "10001", 4)):
            each.postpone(a_job(name).key, "no capacity", party_id, cores, 77)

    def test_first_in_first_out(self, each: Each) -> None:
        self.queue(each)
        assert [job.job_id for job in each.waiting_jobs()] == ["a", "b", "c", "d", "e"]
        assert each.count_waiting() == 5
        assert [each.place_in_queue(each.job_here(name)) for name in "abcde"] == [1, 2, 3, 4, 5]

    def test_the_order_is_that_of_the_keys_and_then_of_age(self, each: Each) -> None:
        keys = {"a": (5, 9), "b": (-7, 3), "c": (5, 8), "d": (5, 8)}
        with_jobs(each, *(a_job(name, queue_key=key, create_time=at) for name, (key, at) in keys.items()))
        assert [job.job_id for job in each.waiting_jobs()] == ["b", "c", "d", "a"]
        assert [each.place_in_queue(each.job_here(name)) for name in "bcda"] == [1, 2, 3, 4]
        assert [job.order for job in each.unblocked_waiting(2)] == [(-7, 3, "b"), (5, 8, "c")]
        for name in "acd":
            each.begin_round(a_job(name).key, "me", 5)
            each.end_round(
                a_job(name).key, "me", "no capacity", "10000", 4, 0, 0, Blocker.SIZE if name == "c" else None
            )
        assert [job.job_id for job in each.queue_heads()] == ["d"]
        assert [job.job_id for job in each.blocked_waiting("10000", 9, 9)] == ["d", "a"]

    def test_each_engine_of_a_party_has_a_head_of_its_own(self, each: Each) -> None:
        with_jobs(each, *(a_job(name, create_time=at) for at, name in enumerate("abcd")))
        there = {"d": ("10000", "aa"), "c": ("10000", "bb"), "b": ("10000", "aa"), "a": ("10001", "")}
        for name, (party_id, tag) in there.items():
            each.begin_round(a_job(name).key, "me", 5)
            assert each.end_round(
                a_job(name).key, "me", "why", party_id, 4, 0, 0, Blocker.CAPACITY, blocked_at=tag
            )  # fmt: skip
        heads = each.queue_heads()
        assert [(one.job_id, one.place) for one in heads] == [
            ("b", ("10000", "aa")), ("c", ("10000", "bb")), ("a", ("10001", "")),
        ]  # fmt: skip
        assert [one.job_id for one in each.blocked_waiting("10000", 9, 9, "aa")] == ["b", "d"]
        assert each.blocked_waiting("10000", 9, 9) == ()
        assert each.postpone(a_job("b").key, "why", "10000", 4, 77, "bb")
        assert [one.job_id for one in each.blocked_waiting("10000", 9, 9, "bb")] == ["b", "c"]
        assert each.unblocked_waiting(9) == ()
        each.begin_round(a_job("b").key, "me", 5)
        each.move_job(a_job("b"), MoveJob(JobStatus.RUNNING), 6)
        assert each.job_here("b").blocked_at == ""

    def test_a_waiting_job_takes_another_place(self, each: Each) -> None:
        with_jobs(each, a_job("a", priority=2, enqueued=50, queue_key=30), a_job("b", queue_key=20))
        with_jobs(each, a_job("run", status=JobStatus.RUNNING))
        assert each.set_priority(a_job("a").key, 4, 10)
        assert each.job_here("a") == a_job("a", priority=4, enqueued=50, queue_key=10)
        assert [job.job_id for job in each.unblocked_waiting(2)] == ["a", "b"]
        assert each.set_priority(a_job("run").key, 4, 10) is False
        assert each.set_priority(a_job("unknown").key, 4, 10) is False
        assert each.job_here("run").priority == 0

    def test_a_job_on_hold_has_no_reservation_round_and_is_no_head(self, each: Each) -> None:
        self.queue(each)
        hold = Hold("until monday", "ann", 5, 70)
        for name in "abe":
            assert each.hold_job(a_job(name).key, hold)
        assert each.job_here("a").hold == hold
        assert [job.job_id for job in each.unblocked_waiting(9)] == ["c"]
        assert [job.job_id for job in each.queue_heads()] == ["d"]
        assert [job.job_id for job in each.blocked_waiting("10000", 9, 9)] == ["d"]
        assert [each.place_in_queue(each.job_here(name)) for name in "ad"] == [1, 4], "it keeps its place"
        assert each.hold_job(a_job("running").key, hold) is False
        assert each.release_job(a_job("a").key, 90)
        freed = a_job("a", create_time=5, since=20, queued=20)
        assert each.job_here("a") == freed, "the time on hold counts for no limit"
        assert each.release_job(a_job("a").key, 90) is False
        assert [job.job_id for job in each.unblocked_waiting(9)] == ["a", "c"]

    def test_waiting_jobs_whose_time_is_over(self, each: Each) -> None:
        limits = {"a": 5, "b": 5, "c": 6, "d": 0, "e": 5, "f": 5}
        with_jobs(each, *(
            a_job(name, timeout_seconds=seconds, create_time=at, since=at)
            for at, (name, seconds) in enumerate(limits.items())
        ))  # fmt: skip
        assert each.hold_job(a_job("e").key, Hold("until monday", "ann", 5, 70))
        assert each.request_stop(a_job("f").key, Reason.STOPPED_BY_USER, "why", 3, True, "guest 9999")
        assert [job.job_id for job in each.overdue_waiting(5_001)] == ["a"]
        assert [job.job_id for job in each.overdue_waiting(5_002)] == ["a", "b"]
        assert [job.job_id for job in each.overdue_waiting(6_003)] == ["a", "b", "c"]
        each.move_job(each.job_here("a"), MoveJob(JobStatus.RUNNING), 6)
        assert [job.job_id for job in each.overdue_waiting(6_003)] == ["b", "c"]

    @pytest.mark.parametrize("end", [JobStatus.RUNNING, JobStatus.CANCELED])
    def test_what_begins_or_ends_is_not_held_any_more(self, each: Each, end: JobStatus) -> None:
        with_jobs(each, a_job())
        each.hold_job(a_job().key, Hold("why", "ann", 5, 70))
        each.move_job(a_job(), MoveJob(end, None if end is JobStatus.RUNNING else Reason.STOPPED_BY_USER), 6)
        assert each.job_here("j1").hold is None

    def test_a_held_job_that_asks_for_too_much_is_not_asked_for(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.begin_round(a_job().key, "me", 5)
        each.end_round(a_job().key, "me", "why", "10000", 4, 7, 0, Blocker.SIZE)
        each.hold_job(a_job().key, Hold("why", "ann"))
        assert each.waiting_unschedulable(9, 9) == ()

    def test_who_lacks_what_is_not_capacity_is_apart(self, each: Each) -> None:
        blocked_by = {
            "a": Blocker.SIZE,
            "b": Blocker.APPROVAL,
            "c": Blocker.CAPACITY,
            "d": Blocker.ANSWER,
            "e": Blocker.APPROVAL,
        }
        with_jobs(each, *(a_job(name) for name in blocked_by))
        for name, retry_at in zip("abcde", (7, 9, 1, 1, 8), strict=True):
            each.begin_round(a_job(name).key, "me", 5)
            each.end_round(a_job(name).key, "me", "why", "10000", 4, retry_at, 0, blocked_by[name])
        assert [job.job_id for job in each.waiting_unschedulable(9, 9)] == ["a", "e", "b"], "the longest due first"
        assert [job.job_id for job in each.waiting_unschedulable(8, 9)] == ["a", "e"]
        assert [job.job_id for job in each.queue_heads()] == ["c"]
        assert [job.job_id for job in each.blocked_waiting("10000", 9, 9)] == ["c", "d"]
        for name in "abc":
            each.hold_job(a_job(name).key, Hold("why", "ann"))
        assert [job.job_id for job in each.waiting_unschedulable(9, 9)] == ["e"]
        for name in "abc":
            each.release_job(a_job(name).key, 0)
        assert [job.job_id for job in each.waiting_unschedulable(9, 9)] == ["a", "e", "b"]
        assert [job.job_id for job in each.queue_heads()] == ["c"]
        each.begin_round(a_job("b").key, "me", 5)
        each.hold_job(a_job("b").key, Hold("why", "ann"))
        each.end_round(a_job("b").key, "me", "no capacity", "10000", 4, 0, 0, Blocker.CAPACITY)
        assert [job.job_id for job in each.blocked_waiting("10000", 9, 9)] == ["c", "d"], (
            "held in its reservation round"
        )
        each.release_job(a_job("b").key, 0)
        assert [job.job_id for job in each.blocked_waiting("10000", 9, 9)] == ["b", "c", "d"]

    def test_a_reservation_round_does_not_forget_whose_approval_is_awaited(self, each: Each) -> None:
        with_jobs(each, a_job())
        each.add_seats([a_seat(status=SeatStatus.JOINING), a_seat(party=OTHER_HOST)])
        each.move_seat(a_seat(status=SeatStatus.JOINING), SeatStatus.JOINED, "", blocked_by=Blocker.APPROVAL)
        each.begin_round(a_job().key, "me", 5)
        assert [seat.blocked_by for seat in each.seats("j1")] == [Blocker.APPROVAL, None]
        each.move_seat(each.seats("j1")[0], SeatStatus.CHECKING, "")
        assert [seat.blocked_by for seat in each.seats("j1")] == [None, None]

    def test_a_party_decides_about_a_job_until_it_is_under_way(self, each: Each) -> None:
        pending = Consent(Approval.PENDING)
        names = {"a": JobStatus.READY, "b": JobStatus.WAITING, "c": JobStatus.RUNNING, "d": JobStatus.WAITING}
        each.register_engine(an_engine(), {}, 1)
        for at, (name, status) in enumerate(names.items()):
            with_jobs(each, a_job(name, HOST, status=status, create_time=9 - at, consent=pending))
        with_jobs(each, a_job("own"))
        each.reserve(a_job("d", HOST).key, "local", 1, 0, "t", 1, 2)
        assert [job.job_id for job in each.unapproved_jobs(9)] == ["d", "c", "b", "a"]
        assert [job.job_id for job in each.unapproved_jobs(2)] == ["d", "c"]
        rejected, approved = Consent(Approval.REJECTED, "ann", "no", 5), Consent(Approval.APPROVED, "bob", "", 6)
        found = {name: each.decide_consent(a_job(name, HOST).key, rejected) for name in names}
        assert found == {"a": True, "b": True, "c": False, "d": False}
        assert each.decide_consent(a_job("own").key, approved) is False
        assert each.job(a_job("a", HOST).key).consent == rejected
        assert each.decide_consent(a_job("a", HOST).key, approved)
        assert each.job(a_job("a", HOST).key).consent == approved
        assert each.job(a_job("own").key).consent is None
        end = MoveJob(JobStatus.FAILED, Reason.PARTY_REFUSED)
        each.move_job(each.job(a_job("b", HOST).key), end, 6)
        assert each.decide_consent(a_job("b", HOST).key, approved), "for a rerun"
        first = Consent(Approval.PENDING, "ann", "", 6, "0" * 64)
        assert [each.decide_consent(a_job(name, HOST).key, first) for name in ("c", "d")] == [True, True]
        assert (first.is_first, each.job(a_job("c", HOST).key).consent) == (True, first)
        assert each.decide_consent(a_job("c", HOST).key, pending) is False, "it is under way"
        others = pending, rejected, replace(first, by="bob"), replace(first, digest="1" * 64)
        assert [each.decide_consent(a_job("c", HOST).key, approved, one) for one in others] == [False] * 4
        assert each.decide_consent(a_job("d", HOST).key, replace(first, by="eve"), first), "it is as it was known"
        given = [each.decide_consent(a_job(name, HOST).key, approved) for name in ("c", "c", "d", "d")]
        assert given == [True, False, True, False], "an older release has let them begin"

    def test_a_job_that_is_to_be_asked_again_is_due(self, each: Each) -> None:
        self.queue(each)
        assert each.ask_again("b")
        assert [(head.job_id, head.retry_at) for head in each.queue_heads()] == [("b", 0), ("e", 77)]
        each.begin_round(a_job("d").key, "me", 5)
        assert [each.ask_again(name) for name in ("d", "running", "hosted", "unknown")] == [False] * 4

    def test_a_job_at_rest_is_not_asked_again_before_its_time(self, each: Each) -> None:
        resting = a_job(status=JobStatus.RUNNING)
        with_jobs(each, resting)
        assert each.requeue_job(resting, "retry_backoff", 70_000)
        assert each.ask_again("j1") is False
        assert each.job_here("j1").retry_at == 70_000

    def test_one_job_of_each_other_initiator_that_waits(self, each: Each) -> None:
        theirs = [Party("guest", one) for one in ("10001", "10002", "10003")]
        rows = (("a", 0, HOST), ("b", 0, HOST), ("c", 1, HOST), ("c", 1, ARBITER), ("d", 2, HOST))
        for name, initiator, seat in rows:
            with_jobs(each, a_job(name, seat, initiator=theirs[initiator], is_initiator=False))
        with_jobs(each, a_job("own"))
        each.move_job(each.job(a_job("d", HOST).key), MoveJob(JobStatus.RUNNING), 6)
        found = sorted((job.job_id, str(job.party)) for job in each.others_waiting())
        assert found == [("a", "host 10000"), ("c", "arbiter 10000"), ("c", "host 10000")]

    def test_the_hold_of_a_party_is_kept_until_it_is_released(self, each: Each) -> None:
        assert each.intake_hold() is None
        assert each.release_intake() is False
        each.hold_intake(Hold("maintenance", "ann", 5, 7))
        each.hold_intake(Hold("longer", "bob", 6, 8))
        assert each.intake_hold() == Hold("longer", "bob", 6, 8)
        assert each.release_intake()
        assert each.intake_hold() is None

    def test_unblocked_ones(self, each: Each) -> None:
        self.queue(each)
        first, second = each.unblocked_waiting(10)
        assert (first.job_id, first.create_time, first.parties) == ("a", 5, ("9999", "10000"))
        assert (first.blocked_on, first.blocked_cores, first.retry_at, first.passes) == ("", 0, 0, 0)
        assert second.job_id == "c"
        assert each.unblocked_waiting(1) == (first,)
        each.begin_round(a_job("a").key, "me", 5)
        assert each.unblocked_waiting(10) == (second,)

    def test_a_party_with_two_seats_is_named_twice(self, each: Each) -> None:
        with_jobs(each, a_job(parties=(GUEST, HOST, ARBITER)))
        assert each.unblocked_waiting(1)[0].parties == ("9999", "10000", "10000")

    def test_heads_are_the_first_of_each_party(self, each: Each) -> None:
        self.queue(each)
        heads = each.queue_heads()
        assert [(one.blocked_on, one.job_id, one.blocked_cores, one.retry_at) for one in heads] == [
            ("10000", "b", 6, 77),
            ("10001", "e", 4, 77),
        ]
        each.begin_round(a_job("b").key, "me", 5)
        assert [head.job_id for head in each.queue_heads()] == ["b", "e"], "a head in its reservation round stays one"
        each.move_job(each.job_here("b"), MoveJob(JobStatus.RUNNING), 6)
        assert [head.job_id for head in each.queue_heads()] == ["d", "e"]

    def test_blocked_ones_that_a_party_has_capacity_for(self, each: Each) -> None:
        self.queue(each)
        assert [one.job_id for one in each.blocked_waiting("10000", 6, 10)] == ["b", "d"]
        assert [one.job_id for one in each.blocked_waiting("10000", 6, 1)] == ["b"]
        assert [one.job_id for one in each.blocked_waiting("10000", 5, 10)] == ["d"]
        assert each.blocked_waiting("10000", 1, 10) == ()
        assert each.blocked_waiting("10002", 9, 10) == ()
        each.begin_round(a_job("b").key, "me", 5)
        assert [one.job_id for one in each.blocked_waiting("10000", 6, 10)] == ["d"]

    def test_one_that_nobody_works_on(self, each: Each) -> None:
        self.queue(each)
        names = ("a", "b", "running", "hosted", "unknown")
        assert [each.waiting(name) for name in names[2:]] == [None, None, None]
        found = [each.waiting(name) for name in names[:2]]
        assert [(one.job_id, one.blocked_on, one.blocked_cores) for one in found] == [("a", "", 0), ("b", "10000", 6)]
        assert found[1] in each.queue_heads()
        each.begin_round(a_job("b").key, "me", 5)
        assert each.waiting("b") is None, "it is in its reservation round"
        each.move_job(each.job_here("a"), MoveJob(JobStatus.CANCELED, Reason.STOPPED), 6)
        each.begin_again(each.job_here("a"), 1, 7, "")
        assert each.waiting("a") is None, "not every party knows that it begins again"
        each.all_rejoined(a_job("a").key)
        assert each.waiting("a").job_id == "a"
        each.hold_job(a_job("a").key, Hold("not yet", "somebody"))
        assert each.waiting("a") is None, "somebody holds it"

    def test_a_pass_counts_for_a_waiting_job_of_this_initiator(self, each: Each) -> None:
        self.queue(each)
        for name in ("b", "b", "running", "hosted", "unknown"):
            each.count_pass(name, "c")
        assert {head.job_id: head.passes for head in each.queue_heads()} == {"b": 2, "e": 0}
        assert [each.job_here(name).passes for name in ("b", "running")] == [2, 0]
        assert [each.job_here(name).passers for name in ("b", "running")] == [("c",), ()]

    def test_a_waiting_job_remembers_the_newest_that_passed_it(self, each: Each) -> None:
        self.queue(each)
        ids = [str(number) for number in range(MOST_PASSERS + 2)]
        for one in (*ids, ids[-2]):
            each.count_pass("b", one)
        found = each.job_here("b")
        assert found.passes == MOST_PASSERS + 3
        assert found.passers == (ids[-2], ids[-1], *reversed(ids[2:-2]))
        each.move_job(found, MoveJob(JobStatus.RUNNING), 6)
        assert each.job_here("b").passers == found.passers, "people may still ask, as for `passes`"
        each.move_job(each.job_here("b"), MoveJob(JobStatus.STOPPING, Reason.STOPPED, "", JobStatus.CANCELED), 7)
        each.move_job(each.job_here("b"), MoveJob(JobStatus.CANCELED, Reason.STOPPED), 8)
        each.begin_again(each.job_here("b"), 1, 9, "")
        assert (each.job_here("b").passes, each.job_here("b").passers) == (0, ())

    def test_a_job_that_asks_for_more_than_there_is_in_all_is_no_head(self, each: Each) -> None:
        self.queue(each)
        for name, blocked_by, retry_at in (
            ("b", Blocker.SIZE, 77),
            ("d", Blocker.CAPACITY, 77),
            ("e", Blocker.SIZE, 78),
        ):
            each.begin_round(a_job(name).key, "me", 5)
            blocked_on = each.job_here(name).blocked_on
            each.end_round(a_job(name).key, "me", "why", blocked_on, 4, retry_at, 0, blocked_by)
        assert [(head.job_id, head.blocked_by) for head in each.queue_heads()] == [("d", Blocker.CAPACITY)]
        assert [job.job_id for job in each.waiting_unschedulable(76, 9)] == []
        assert [job.job_id for job in each.waiting_unschedulable(77, 9)] == ["b"]
        assert [job.job_id for job in each.waiting_unschedulable(78, 9)] == ["b", "e"]
        assert {job.blocked_by for job in each.waiting_unschedulable(78, 9)} == {Blocker.SIZE}
        assert [job.job_id for job in each.waiting_unschedulable(78, 1)] == ["b"]
        each.postpone(a_job("b").key, "behind", "10001", 4, 76)
        assert each.job_here("b").blocked_by is Blocker.SIZE
        each.begin_round(a_job("b").key, "me", 5)
        assert [job.job_id for job in each.waiting_unschedulable(99, 9)] == ["e"], "it is being asked for"
        each.move_job(each.job_here("b"), MoveJob(JobStatus.RUNNING), 6)
        assert each.job_here("b").blocked_by is None

    def test_waiting_jobs_that_are_to_stop(self, each: Each) -> None:
        self.queue(each)
        for name in ("d", "a", "running"):
            each.request_stop(a_job(name).key, Reason.STOPPED_BY_USER, "", 5, True, "")
        assert each.cancelled_waiting() == ("a", "d")

    def test_an_empty_queue(self, each: Each) -> None:
        assert (each.waiting_jobs(), each.count_waiting(), each.cancelled_waiting()) == ((), 0, ())
        assert (each.unblocked_waiting(9), each.queue_heads(), each.blocked_waiting("1", 9, 9)) == ((), (), ())
        assert each.place_in_queue(a_job()) == 1
        assert each.waiting_unschedulable(9, 9) == ()
        each.count_pass("1", "2")


class PendingCases(Cases):
    def test_a_request_begins_with_the_first_refusal_and_is_repeated(self, each: Each) -> None:
        with_jobs(each, a_job(party=HOST))
        key = a_job(party=HOST).key
        assert each.job(key).pending == PendingRequest()
        each.pending(key, 5)
        each.pending(key, 9)
        each.count_bypass(key)
        each.count_bypass(key)
        assert each.job(key).pending == PendingRequest(5, 9, 2)
        each.forget_pending(key)
        assert each.job(key) == a_job(party=HOST)
        each.pending(key, 9, -5)
        each.pending(key, 10)
        assert each.job(key).queue_key == -5, "what its initiator told stays"

    def test_the_first_is_the_one_that_was_refused_first_of_those_that_still_ask(self, each: Each) -> None:
        with_jobs(each, *(a_job(name, create_time=9 - number) for number, name in enumerate("abcd")))
        each.register_engine(an_engine(), {}, 1)
        assert each.first_pending(0) is None
        for name, at in (("b", 3), ("a", 4), ("c", 4), ("b", 5), ("c", 6)):
            each.pending(a_job(name).key, at)
        firsts = [each.first_pending(after) for after in range(7)]
        assert [job.job_id if job else "" for job in firsts] == ["b", "b", "b", "b", "b", "c", ""]
        each.reserve(a_job("b").key, "local", 1, 0, "t", 1, 2)
        assert each.first_pending(0).job_id == "a", "what is held is not lacking"
        each.give_back(a_job("b").key, None, 3)
        assert each.first_pending(0) == each.job(a_job("b").key)
        each.move_job(each.job_here("b"), MoveJob(JobStatus.RUNNING), 6)
        assert each.first_pending(0).job_id == "a", "and what runs does not wait"

    def test_requests_stand_in_the_order_of_their_first_refusals(self, each: Each) -> None:
        with_jobs(each, *(a_job(name, create_time=9 - number) for number, name in enumerate("abcd")))
        with_jobs(each, a_job("b", party=HOST, is_initiator=False))
        each.register_engine(an_engine(), {}, 1)
        assert each.pending_requests(0) == ()
        for name, at in (("b", 3), ("a", 4), ("c", 4), ("b", 5), ("c", 6)):
            each.pending(a_job(name).key, at)
        each.pending(a_job("b", party=HOST).key, 3)
        found = [[(one.job_id, one.party.role) for one in each.pending_requests(after)] for after in range(7)]
        every = [("b", "guest"), ("b", "host"), ("a", "guest"), ("c", "guest")]
        assert found[:3] == [every] * 3
        assert found[3:] == [[every[0], *every[2:]], [every[0], every[3]], [every[3]], []]
        each.reserve(a_job("b").key, "local", 1, 0, "t", 1, 2)
        assert [one.key for one in each.pending_requests(4)] == [a_job("c").key], "what is held is not lacking"
        assert each.pending_requests(4) == (each.job(a_job("c").key),)

    def test_of_very_many_requests_the_first_are_looked_at(self, each: Each) -> None:
        names = [f"j{number:03}" for number in range(MOST_PENDING + 1)]
        with_jobs(each, *(a_job(name, create_time=5) for name in names))
        for name in names:
            each.pending(a_job(name).key, 4)
        assert [one.job_id for one in each.pending_requests(0)] == names[:MOST_PENDING]

    def test_requests_of_no_job(self, each: Each) -> None:
        each.pending(a_job().key, 5)
        each.count_bypass(a_job().key)
        each.forget_pending(a_job().key)
        assert each.first_pending(0) is None
