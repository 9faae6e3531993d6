"""Servers that tests borrow from each other, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import pytest

from tests.kit.servers.party_servers import GUEST, HOST, OTHER, Cluster

MOST_REPLACED = 5
"""When so many tests have spoiled their servers, something is wrong with all of them."""


class Servers:
    """The parties of one `bin/cluster`, up when they are borrowed first.

    Who borrows them has to give them back idle. Those that a test gave back at work are replaced for the next one, so
    that one failure does not become many."""

    def __init__(self, start: Callable[[], AbstractContextManager[Cluster]]) -> None:
        self._start = start
        self._stack = ExitStack()
        self._running: Cluster | None = None
        self._spoiled_by: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def lent(self, borrower: str) -> Iterator[Cluster]:
        if len(self._spoiled_by) >= MOST_REPLACED:
            pytest.fail(f"servers were replaced {MOST_REPLACED} times, after {', '.join(self._spoiled_by)}")
        if self._running is None:
            self._running = self._stack.enter_context(self._start())
        is_idle = False
        try:
            yield self._running
            self._running.check_idle()
            is_idle = True
        finally:
            if not is_idle:
                self._spoiled_by.append(borrower)
                self._running = None
                with suppress(AssertionError):      # of workers that had to be killed: why they are replaced
                    self._stack.close()


PARTIES = (GUEST, HOST, OTHER)
LIMITS = {
    party_id: {"limits": {"long_backoff": 1, "poll_interval": 10, "retry_wait": 10, "launch_timeout": 600}}
    for party_id in PARTIES
}
"""A retry that is due in more than a second gives the cores back. What is late by seconds was not woken, but polled. On
a busy machine, a test that holds a spawner (`Cluster.held`) may do so for more than a minute."""


def a_root(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("servers") / "of three parties"     # a blank in every path
