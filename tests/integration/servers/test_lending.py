"""Servers that a test spoiled are replaced: one failure made 27 others fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.kit.servers.lending import MOST_REPLACED, Servers


@dataclass
class FakeCluster:
    number: int
    is_idle: bool = True

    def check_idle(self) -> None:
        assert self.is_idle, "idle servers"


@dataclass
class Starter:
    log: list[str] = field(default_factory=list)

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        number = len(self.log)
        self.log.append(f"up {number}")
        yield FakeCluster(number)
        self.log.append(f"down {number}")


def _spoiled(servers: Servers, borrower: str) -> None:
    with servers.lent(borrower) as cluster:
        cluster.is_idle = False  # type: ignore[attr-defined]


def test_servers_start_when_they_are_borrowed_first_and_end_with_their_owner() -> None:
    start = Starter()
    with Servers(start) as servers:
        assert start.log == []
        for borrower in ("one", "two"):
            with servers.lent(borrower):
                assert start.log == ["up 0"]
    assert start.log == ["up 0", "down 0"]


def test_servers_that_were_given_back_at_work_are_replaced_for_the_next_test() -> None:
    start = Starter()
    with Servers(start) as servers:
        with pytest.raises(AssertionError, match="idle servers"):
            _spoiled(servers, "bad")
        assert start.log == ["up 0", "down 0"]
        with servers.lent("good"):
            assert start.log == ["up 0", "down 0", "up 2"]


def test_when_every_test_spoils_them_the_rest_fails_at_once() -> None:
    with Servers(Starter()) as servers:
        for number in range(MOST_REPLACED):
            with pytest.raises(AssertionError, match="idle servers"):
                _spoiled(servers, f"bad {number}")
        with pytest.raises(pytest.fail.Exception, match=r"replaced 5 times, after bad 0, bad 1"), servers.lent("next"):
            pass
