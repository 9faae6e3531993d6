"""Connections that are held open: what is sent over them, and what is known of them when they are let go."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.fuzz.inputs import Input, Way
from tests.fuzz.lines import HELD, SECONDS, Answer, HeldLines

REFUSAL = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=HELD + 2) as found:
        found.settimeout(SECONDS)
        yield found


@pytest.fixture
def lines(listener: socket.socket) -> HeldLines:
    return HeldLines(listener.getsockname()[1], None, lambda *_: {})


def held(number: int, hold_at: float = 0.5) -> Input:
    return Input(number, "held", Way.CLIENT, raw=b"abcd", hold_at=hold_at)


def received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := connection.recv(count - len(data))):
        data += piece
    return data


def test_a_connection_gets_a_part_of_its_input_and_a_byte_more_with_each_other_one(
    listener: socket.socket, lines: HeldLines
) -> None:
    assert lines.send(held(1)) == []
    first, _ = listener.accept()
    with first:
        first.settimeout(SECONDS)
        assert received(first, 2) == b"ab"
        for number, byte in ((2, b"c"), (3, b"d"), (4, b"")):
            assert lines.send(held(number, 0.0)) == []
            assert received(first, len(byte)) == byte
        first.sendall(REFUSAL)
        first.shutdown(socket.SHUT_WR)
        ended = {one.number: answer for one, answer in lines.let_go()}
        assert ended[1] == Answer((408,))
        assert [ended[number] for number in (2, 3, 4)] == [Answer((), is_open=True)] * 3
        assert first.recv(1) == b""
    assert lines.let_go() == []


def test_the_oldest_one_is_let_go_if_there_are_too_many(lines: HeldLines) -> None:
    ended = [one.number for number in range(HELD + 2) for one, _ in lines.send(held(number))]
    assert ended == [0, 1]
    assert len(lines.let_go()) == HELD


def test_a_connection_that_is_refused_has_ended(listener: socket.socket, lines: HeldLines) -> None:
    listener.close()
    assert lines.send(held(1)) == [(held(1), Answer(()))]
