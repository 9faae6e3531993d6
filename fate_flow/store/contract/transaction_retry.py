"""When a transaction is tried again: the only place that decides it, for both databases and all their users.

| what happened | error | tried again |
|---|---|---|
| before the commit: a lock, a deadlock, the connection or the server was lost | StorageUnavailable | always |
| during the commit: the connection was lost | CommitUnknown | if doing it twice is the same as doing it once |
| the disk of the database is full | DiskFull | once, if space was made: a reserve is given back |
| anything else: a constraint, a broken file | StorageFailed | never |

The whole use case is tried again with a new view, never a single statement, because everything that it read has been
rolled back. Pauses grow and have a random part, so that the two transactions of a deadlock do not meet again. After
`PATIENCE_SECONDS` the error is raised to the caller, also if a single attempt has waited so long for a lock.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from fate_flow.core.model.errors import CommitUnknown, DiskFull, StorageFailed, StorageUnavailable

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0

T = TypeVar("T")


class Retry:
    """Repeats a transaction until it succeeds, as long as that is safe and `PATIENCE_SECONDS` are not over."""

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random, make_space: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        """`make_space` is called when the disk is full, and returns whether it is so no longer."""
        self._make_space = make_space
        self._monotonic, self._sleep, self._chance = monotonic, sleep, chance

    def __call__(self, act: Callable[[], T], is_repeatable: bool = False) -> T:
        """Run `act`, one transaction, and return its result. Raises StorageFailed.

        `is_repeatable`: a second run changes nothing and gives the same result. Then `act` is tried again even if it is
        unknown whether the first run was committed."""
        deadline = self._monotonic() + PATIENCE_SECONDS
        pause, may_make_space = _FIRST_PAUSE, True
        while True:
            try:
                return act()
            except StorageFailed as error:
                if isinstance(error, DiskFull) and may_make_space and self._make_space():
                    may_make_space = False
                    continue
                wait = pause * (0.5 + self._chance())
                if not _may_begin_anew(error, is_repeatable) or self._monotonic() + wait > deadline:
                    raise
                log.warning("a transaction is tried again: %s", error.message)
            self._sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)


def _may_begin_anew(error: StorageFailed, is_repeatable: bool) -> bool:
    return isinstance(error, StorageUnavailable) or (is_repeatable and isinstance(error, CommitUnknown))
