"""What is sent to one party next, and when; time is in the test's hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.model.spec import Party
from fate_flow.peers.send_queue import CLOSED, LONGEST_PAUSE, MAY_FAIL, MOST_AT_ONCE, OPEN, PROBING, SendQueue, Work

K = CommandKind
HOST = Party("host", "10000")


def a_command(number: int, kind: CommandKind = K.STATUS) -> Command:
    return Command(kind, "j", HOST, id=number)


A, B, C = (a_command(number) for number in (1, 2, 3))
APPLY, CREATE = a_command(4, K.APPLY), a_command(5, K.CREATE)


def a_queue(*commands: Command, understands_batches: bool = True) -> SendQueue:
    queue = SendQueue(party_silence=90.0, understands_batches=understands_batches)
    queue.post(commands)
    return queue


def failed(*commands: Command, at: float = 0.0) -> SendQueue:
    """One whose first try failed then."""
    queue = a_queue(*commands)
    queue.failed(queue.take(at).batch, "refused", at)
    return queue


def test_commands_leave_in_order_one_by_one_until_the_peer_understands_several() -> None:
    queue = a_queue(A, B, C, understands_batches=False)
    assert queue.take(0).batch == (A,)
    queue.understands_batches = True
    assert queue.take(0).batch == (B, C)
    many = tuple(map(a_command, range(MOST_AT_ONCE + 1)))
    assert [len(queue.take(0).batch) for queue in [a_queue(*many)] for _ in range(2)] == [MOST_AT_ONCE, 1]


def ahead(number: int, kind: CommandKind = K.APPLY) -> Command:
    return replace(a_command(number, kind), body={"is_ahead": True})


def test_what_goes_ahead_leaves_in_one_request_with_create_or_not_at_all() -> None:
    check, apply = ahead(6, K.CHECK), ahead(7)
    assert a_queue(CREATE, check, apply, A).take(0).batch == (CREATE, check, apply, A)
    alone = a_queue(CREATE, check, apply, A, understands_batches=False)
    assert alone.take(0).batch == (CREATE,)
    alone.understands_batches = True
    assert alone.take(0) == Work((check, apply), why="is sent only in one request with create")
    assert alone.take(0).batch == (A,)


def test_what_went_ahead_and_got_no_answer_is_not_sent_again() -> None:
    check, apply = ahead(6, K.CHECK), ahead(7)
    queue = a_queue(CREATE, check, apply)
    assert queue.failed(queue.take(0).batch, "refused", 0).lost == (CREATE, check, apply)
    assert not queue.has_work(LONGEST_PAUSE)


def test_the_newest_heartbeat_alone_goes_before_the_commands() -> None:
    queue = a_queue(A)
    queue.beat((("j1", 0),))
    queue.beat((("j2", 0),))
    assert queue.take(0) == Work((), (A,), (("j2", 0),))
    assert not queue.has_work(0)


def test_there_is_nothing_to_do_until_something_is_posted() -> None:
    queue = a_queue()
    assert (queue.has_work(0), queue.patience(0)) == (False, None)
    queue.beat(())
    assert queue.has_work(0)


def test_what_must_arrive_is_the_next_again_and_what_may_fail_is_lost() -> None:
    queue = a_queue(A, APPLY, B)
    batch = queue.take(10).batch
    queue.post([C])
    found = queue.failed(batch, "refused", 12)
    assert (found.lost, found.silent_seconds, found.pause, found.is_new) == ((APPLY,), 2, 0.25, True)
    assert not queue.has_work(12.2)
    assert queue.take(12.25).batch == (A, B, C)


def test_pauses_double_up_to_the_longest_and_end_with_an_answer() -> None:
    queue, now, pauses = a_queue(A), 0.0, []
    for _ in range(7):
        found = queue.failed(queue.take(now).batch, "refused", now)
        pauses.append(found.pause)
        now += found.pause
    assert pauses == [0.25, 0.5, 1, 2, 4, LONGEST_PAUSE, LONGEST_PAUSE]
    assert (queue.health.failures, found.is_new) == (7, False)
    assert queue.failed((), "another error", now).is_new
    queue.take(now)
    assert queue.answered().failures == 8
    assert (queue.health.failures, queue.circuit(now)) == (0, CLOSED)
    assert queue.failed((), "refused", now).pause == 0.25


@pytest.mark.parametrize("kind", sorted(MAY_FAIL - {K.CREATE}, key=str))
def test_in_a_pause_what_may_fail_fails_without_being_sent(kind: CommandKind) -> None:
    queue, lost = failed(A, at=1), a_command(9, kind)
    queue.post([lost, B])
    assert queue.has_work(1.1)
    assert queue.take(1.1) == Work(hopeless=(lost,))
    assert not queue.has_work(1.1)
    assert queue.take(1.25).batch == (A, B)


def test_a_user_who_waits_has_a_party_probed_before_its_pause_is_over() -> None:
    queue = failed(A)
    for _ in range(5):
        queue.failed((), "refused", 0.0)
    queue.post([CREATE])
    assert queue.take(0.9) == Work(hopeless=(CREATE,))
    queue.post([CREATE])
    assert queue.take(1.0).batch == (A, CREATE)


def test_the_circuit_is_open_in_a_pause_and_probing_after_it() -> None:
    queue = failed(A)
    assert (queue.circuit(0.1), queue.circuit(0.25)) == (OPEN, PROBING)
    queue.take(0.3)
    assert queue.circuit(0.3) == PROBING
    queue.failed((), "refused", 1.3)
    assert queue.circuit(1.4) == OPEN


def test_silence_counts_from_the_first_question_that_got_no_answer() -> None:
    """Not from when it was given up: the party counts from when it heard from us."""
    queue = a_queue(A)
    batch = queue.take(100).batch
    assert queue.failed(batch, "no answer in time", 130).silent_seconds == 30
    queue.failed(queue.take(140).batch, "no answer in time", 170)
    assert queue.silence(190) is None
    assert queue.silence(191) == 91
    queue.answered()
    assert queue.silence(1_000) is None


def test_a_request_that_our_own_sleep_cut_off_counts_as_long_as_it_may_take() -> None:
    queue = SendQueue(party_silence=90.0, longest_exchange=30.0)
    queue.post([A])
    batch = queue.take(1_000.0).batch
    assert queue.failed(batch, "timed out", 5_000.0).silent_seconds == 30.0
    assert queue.silence(5_000.0) is None
    assert queue.silence(5_061.0) == 91.0


@pytest.mark.parametrize("looks", ["silence", "take", "failed"])
def test_our_own_sleep_is_no_silence_of_a_party_that_was_silent_before(looks: str) -> None:
    """It may have come back meanwhile, and is asked before it counts as lost."""
    queue = SendQueue(party_silence=90.0, longest_exchange=30.0, longest_gap=15.0)
    queue.post([A])
    queue.failed(queue.take(1.0).batch, "refused", 2.0)
    for now in range(10, 61, 10):
        assert queue.silence(now) is None
    to_reconsider = 5_000.0
    if looks == "take":
        assert queue.take(to_reconsider).batch == (A,)
    elif looks == "failed":
        assert queue.failed((), "timed out", to_reconsider).silent_seconds == 59.0
    assert queue.silence(to_reconsider) is None
    for later in (14, 28):
        assert queue.silence(to_reconsider + later) is None
    assert queue.silence(to_reconsider + 32) == 91.0


def test_who_looks_seldom_but_often_enough_counts_all_of_the_silence() -> None:
    queue = SendQueue(party_silence=90.0, longest_gap=15.0)
    queue.post([A])
    queue.failed(queue.take(1.0).batch, "refused", 1.0)
    assert [queue.silence(now) for now in range(15, 106, 15)] == [None] * 6 + [104.0]


def test_what_is_forgotten_is_not_sent_and_what_was_being_sent_not_again() -> None:
    queue = a_queue(A, B, understands_batches=False)
    batch = queue.take(0).batch
    queue.beat(())
    queue.forget()
    assert queue.failed(batch, "refused", 1).lost == ()
    assert (len(queue), queue.has_work(9)) == (0, False)


def test_after_it_was_told_to_forget_what_fails_is_put_back_as_before() -> None:
    """A process that lost the scheduling may be chosen again."""
    queue = a_queue(A)
    queue.take(0)
    queue.forget()
    queue.failed((A,), "refused", 1)
    queue.post([B])
    queue.failed(queue.take(9).batch, "refused", 10)
    assert queue.take(20).batch == (B,)


def test_what_was_to_follow_a_heartbeat_that_nobody_heard_is_put_back() -> None:
    queue = a_queue(A, B)
    queue.beat(())
    work = queue.take(0)
    queue.failed((), "refused", 1)
    queue.put_back(work.batch)
    assert queue.take(9).batch == (A, B)
