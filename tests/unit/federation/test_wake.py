"""A bell is heard, never blocks, and never breaks who rings it."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator

import pytest

from fate_flow.federation.wake import Bell


@pytest.fixture
def bell() -> Iterator[Bell]:
    bell = Bell()
    yield bell
    bell.close()


def test_nothing_is_heard_when_nobody_rang(bell: Bell) -> None:
    assert bell.wait(0) == []


def test_a_wait_takes_all_that_is_pending_in_order(bell: Bell) -> None:
    for payload in (b"a", b"", b"c"):
        bell.ring(payload)
    assert bell.wait(5) == [b"a", b".", b"c"]
    assert bell.wait(0) == []


def test_a_wait_ends_after_its_time(bell: Bell) -> None:
    began = time.monotonic()
    assert bell.wait(0.02) == []
    assert time.monotonic() - began >= 0.015


def test_a_full_buffer_loses_rings_and_blocks_nobody(bell: Bell) -> None:
    for number in range(10_000):
        bell.ring(str(number).encode())
    heard = bell.wait(5)
    assert heard[0] == b"0"
    assert len(heard) < 10_000
    bell.ring(b"again")
    assert bell.wait(5) == [b"again"]


def test_ringing_for_a_listener_that_is_gone_is_no_error(bell: Bell) -> None:
    bell._heard.close()
    bell.ring(b"anybody?")
    bell._rung.close()
    bell.ring(b"not even me")


def test_a_payload_that_would_be_cut_is_refused(bell: Bell) -> None:
    with pytest.raises(ValueError, match="4097 bytes"):
        bell.ring(b"x" * 4097)


def test_several_forked_processes_ring_one_bell(bell: Bell) -> None:
    children = []
    for number in range(3):
        child = os.fork()
        if child == 0:
            bell.ring(str(number).encode())
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    assert sorted(bell.wait(5)) == [b"0", b"1", b"2"]


def test_a_caller_may_select_on_it(bell: Bell) -> None:
    assert not select.select([bell], [], [], 0)[0]
    bell.ring()
    assert select.select([bell], [], [], 5)[0] == [bell]


def test_programs_that_are_executed_do_not_inherit_it(bell: Bell) -> None:
    assert not os.get_inheritable(bell.fileno())
    assert bell._rung.type & socket.SOCK_SEQPACKET
