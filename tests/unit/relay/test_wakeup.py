"""A wake-up is received, never blocks, and never breaks its sender."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator

import pytest

from fate_flow.relay.wakeup import QuietWakeup, Wakeup


@pytest.fixture
def wakeup() -> Iterator[Wakeup]:
    wakeup = Wakeup()
    yield wakeup
    wakeup.close()


def test_nothing_is_received_when_nobody_sent_a_wakeup(wakeup: Wakeup) -> None:
    assert wakeup.wait(0) == []


def test_a_wait_takes_all_that_is_pending_in_order(wakeup: Wakeup) -> None:
    for payload in (b"a", b"", b"c"):
        wakeup.wake(payload)
    assert wakeup.wait(5) == [b"a", b".", b"c"]
    assert wakeup.wait(0) == []


def test_a_wait_ends_after_its_time(wakeup: Wakeup) -> None:
    began = time.monotonic()
    assert wakeup.wait(0.02) == []
    assert time.monotonic() - began >= 0.015


def test_a_full_buffer_loses_wakeups_and_blocks_nobody(wakeup: Wakeup) -> None:
    for number in range(10_000):
        wakeup.wake(str(number).encode())
    heartbeats = wakeup.wait(5)
    assert heartbeats[0] == b"0"
    assert len(heartbeats) < 10_000
    wakeup.wake(b"again")
    assert wakeup.wait(5) == [b"again"]


def test_ringing_for_a_listener_that_is_gone_is_no_error(wakeup: Wakeup) -> None:
    wakeup._receiver.close()
    wakeup.wake(b"anybody?")
    wakeup._sender.close()
    wakeup.wake(b"not even me")


def test_a_payload_that_would_be_cut_is_refused(wakeup: Wakeup) -> None:
    with pytest.raises(ValueError, match="4097 bytes"):
        wakeup.wake(b"x" * 4097)


def test_several_forked_processes_send_wakeups_to_one_listener(wakeup: Wakeup) -> None:
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            wakeup.wake(str(number).encode())
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert sorted(wakeup.wait(5)) == [b"0", b"1", b"2"]


def test_a_caller_may_select_on_it(wakeup: Wakeup) -> None:
    assert not select.select([wakeup], [], [], 0)[0]
    wakeup.wake()
    assert select.select([wakeup], [], [], 5)[0] == [wakeup]


def test_programs_that_are_executed_do_not_inherit_it(wakeup: Wakeup) -> None:
    assert not os.get_inheritable(wakeup.fileno())
    assert wakeup._sender.type & socket.SOCK_SEQPACKET


def test_a_listener_that_is_awake_is_called_and_not_woken_until_it_listens_again() -> None:
    wakeup = QuietWakeup()

    def wake() -> None:
        """As another process does."""
        child = os.fork()
        if child == 0:
            wakeup.wake()
            os._exit(0)
        os.waitpid(child, 0)

    assert not wakeup.was_called()
    wake()
    wake()
    assert wakeup.wait(5) == [b"."]
    assert (wakeup.was_called(), wakeup.was_called()) == (True, False)
    wake()
    assert wakeup.wait(0) == [], "it is awake"
    assert wakeup.was_called()
    wakeup.listen()
    wake()
    assert wakeup.wait(5) == [b"."]
    wakeup.close()
