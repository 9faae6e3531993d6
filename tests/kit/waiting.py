"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

SECONDS = 90.0
"""Far more than anything takes: a busy machine makes no test fail."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.04
_LONGEST_AFTER_A_LOOK = 1.0

T = TypeVar("T")


def eventually(look: Callable[[], T], what: object = "", seconds: float = SECONDS) -> T:
    """Return what `look` finds as soon as that is true.

    `what` is waited for, a text or a callable that gives one; the test fails with it after `seconds`. The pauses
    between two looks grow: what comes soon is seen soon, and what takes long costs others no processor time. A pause
    lasts twice as long as the look before it, up to a second: a look may have made servers work.
    """
    begun = time.monotonic()
    deadline, pause = begun + seconds, _FIRST_PAUSE
    while not (found := look()):
        ended = time.monotonic()
        if ended > deadline:
            pytest.fail(f"not within {seconds:g} s: {(what() if callable(what) else what) or look}")
        time.sleep(max(pause, min(2 * (ended - begun), _LONGEST_AFTER_A_LOOK)))
        pause = min(pause * 1.25, _LONGEST_PAUSE)
        begun = time.monotonic()
    return found
