"""A traceback in the log is a bug of the server: what a database that is away does to work beside requests has none."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest
from flask import Flask

from fate_flow.api.http.errors import log_failure
from fate_flow.core.model.errors import Busy, CommitUnknown, FlowError, StorageFailed, StorageUnavailable
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.server.runtime import EffectRunner

Fail = Callable[[], None]


class Once(PeriodicWork):
    """Its only step does this."""

    def __init__(self, act: Fail) -> None:
        self.is_done = threading.Event()
        super().__init__("once", "the step failed", self.is_done.set, again=0.0)
        self._act = act

    def step(self) -> float:
        self._is_over.set()
        self._act()
        return 0.0


def in_a_step(act: Fail) -> None:
    once = Once(act)
    once.start()
    assert once.is_done.wait(60)


def in_an_effect(act: Fail) -> None:
    runner = EffectRunner()
    runner.take([act])
    runner.finish(60)


def of_a_request(act: Fail) -> None:
    with Flask("test").test_request_context("/v1/job/submit", method="POST"):
        try:
            act()
        except FlowError as error:
            log_failure(error)


@pytest.mark.parametrize(("error", "is_bug"), [
    (StorageUnavailable("locked"), False), (CommitUnknown("gone"), False), (StorageFailed("broken"), True),
])  # fmt: skip
@pytest.mark.parametrize("run", [in_a_step, in_an_effect, of_a_request])
def test_a_database_that_is_away_is_one_line(
    run: Callable[[Fail], None], error: FlowError, is_bug: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    run(fail)
    [line] = caplog.records
    assert line.levelno == logging.ERROR
    assert error.message in line.getMessage()
    assert bool(line.exc_info) is is_bug


def test_a_request_that_was_too_much_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise Busy("too many submits are waiting")

    of_a_request(fail)
    [line] = caplog.records
    assert not line.exc_info
