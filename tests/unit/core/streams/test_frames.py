"""The frames of a stream, however the bytes of a connection are cut."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.streams.frames import (
    ALIVE,
    END,
    LONGEST,
    BadFrame,
    Frame,
    FrameReader,
    Kind,
    credit_frame,
    data_head,
    error_frame,
)

FRAMES = st.one_of(
    st.binary(min_size=1, max_size=300).map(lambda data: (Kind.DATA, data)),
    st.integers(0, 2**32 - 1).map(lambda count: (Kind.CREDIT, count)),
    st.sampled_from([(Kind.END, b""), (Kind.ALIVE, b"")]),
    st.text(max_size=40).map(lambda text: (Kind.ERROR, text)),
)


def encoded(kind: Kind, value: object) -> bytes:
    if kind is Kind.DATA:
        assert isinstance(value, bytes)
        return data_head(len(value)) + value
    if kind is Kind.CREDIT:
        assert isinstance(value, int)
        return credit_frame(value)
    return error_frame(str(value)) if kind is Kind.ERROR else END if kind is Kind.END else ALIVE


def said(frames: list[Frame]) -> list[tuple[Kind, object]]:
    """The frames with their values; pieces of data that follow each other are one."""
    found: list[tuple[Kind, object]] = []
    for one in frames:
        if one.kind is Kind.DATA and found and found[-1][0] is Kind.DATA:
            before = found.pop()[1]
            assert isinstance(before, bytes)
            found.append((Kind.DATA, before + bytes(one.content)))
        elif one.kind is Kind.CREDIT:
            found.append((one.kind, one.credit))
        else:
            found.append((one.kind, one.text if one.kind is Kind.ERROR else bytes(one.content)))
    return found


def joined(frames: list[tuple[Kind, object]]) -> list[tuple[Kind, object]]:
    return said([Frame(kind, encoded(kind, value)[5:]) for kind, value in frames])


@given(st.lists(FRAMES, max_size=12), st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    frames: list[tuple[Kind, object]], sizes: list[int]
) -> None:
    sent, reader, found, number = b"".join(encoded(*one) for one in frames), FrameReader(), [], 0
    while sent:
        size = sizes[number % len(sizes)]
        found += list(reader.read(sent[:size]))
        sent, number = sent[size:], number + 1
    assert said(found) == joined(frames)


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ((0, 4), "unknown kind 0"), ((9, 0), "unknown kind 9"), ((1, LONGEST + 1), f"DATA frame of {LONGEST + 1}"),
        ((1, 0), "DATA frame of 0"), ((2, 8), "CREDIT frame of 8"), ((3, 1), "END frame of 1"),
        ((5, 100_000), "ERROR frame of 100000"),
    ],
)  # fmt: skip
def test_what_is_no_frame_is_refused_by_its_head(head: tuple[int, int], text: str) -> None:
    with pytest.raises(BadFrame, match=text):
        list(FrameReader().read(struct.pack("!BI", *head)))


def test_a_long_reason_is_cut() -> None:
    [frame] = FrameReader().read(error_frame("x" * 5000))
    assert frame.text == "x" * 1000
