"""The spool leaves nothing half written on a disk that is full."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from fate_flow.core.model.errors import StorageFailed
from fate_flow.relay.spool import Spool
from fate_flow.relay.spool_result import Problem
from tests.kit.relay.spool_calls import BLOCK, HERE, NEW, chunks, peek, pop, push, total


def fails(code: int) -> Callable[..., int]:
    def fail(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail


def fills_up(real: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
    """A write that takes half of the bytes, then none."""
    left = [3]

    def write(fd: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken, left[0] = real(fd, data[:left[0]]), 0
        return taken

    return write


def opens_no_new(real: Callable[..., int], code: int) -> Callable[..., int]:
    def opens(path: str, flags: int, *args: object, **kwargs: object) -> int:
        if flags & os.O_CREAT and not path.endswith("total"):
            raise OSError(code, os.strerror(code))
        return real(path, flags, *args, **kwargs)

    return opens


FULL_DISKS = [
    ("write", lambda real: fails(errno.ENOSPC)),
    ("write", lambda real: fails(errno.EDQUOT)),
    ("write", fills_up),
    ("pwrite", lambda real: lambda fd, data, at: real(fd, data, at) if len(data) == 8 else fails(errno.ENOSPC)()),
    ("open", lambda real: opens_no_new(real, errno.ENOSPC)),
    ("open", lambda real: opens_no_new(real, errno.EDQUOT)),
]


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize(("call", "broken"), FULL_DISKS)
def test_a_full_disk_leaves_nothing_half_written(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, call: str, broken: Callable[..., Callable[..., int]], before: int
) -> None:
    for seq in range(before):
        push(spool, seq)
    files, used = chunks(spool), total(spool)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, broken(getattr(os, call)))
        answer = push(spool, before, b"0123456789")
    assert answer == Problem.FULL
    assert chunks(spool) == files
    assert total(spool) - used in (0, BLOCK if before == 0 else 0)  # the empty channel may stay
    assert peek(spool, before) is None
    assert push(spool, before, b"0123456789") == NEW
    assert pop(spool, before) == b"0123456789"


def test_a_session_can_be_closed_on_a_full_disk(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    push(spool, 0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fails(errno.ENOSPC))
        patch.setattr(os, "open", opens_no_new(os.open, errno.ENOSPC))
        spool.close(HERE)
    assert [push(spool, 1), chunks(spool)] == [Problem.GONE, []]


def test_another_error_of_the_disk_is_not_taken_for_a_full_one(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fails(errno.EIO))
        with pytest.raises(StorageFailed, match=os.strerror(errno.EIO)):
            push(spool, 0)
    assert [chunks(spool), push(spool, 0)] == [[], NEW]
