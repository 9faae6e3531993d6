"""When a transaction is begun anew: the one place that decides it, for both databases and for all that use them.

| what happened | error | begun anew |
|---|---|---|
| locked, a deadlock, the connection or the server gone, before the commit was asked for | StorageUnavailable | always |
| the connection was lost while the commit was under way | CommitUnknown | when doing it twice is doing it once |
| all else: a full disk, a constraint, a broken file | StorageFailed | never |

What is tried again is the whole use case with a new view, never a statement: what it decided on has been rolled back.
Pauses grow and have a random part, since the two of a deadlock must not meet again in step. After `PATIENCE_SECONDS`
the error is the caller's, also when a single attempt has waited so long for a lock.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from fate_flow.core.model.errors import CommitUnknown, StorageFailed, StorageUnavailable

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0

T = TypeVar("T")


class Retry:
    """Carries something out until it is through, as far as that is safe and the patience lasts."""

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self._monotonic, self._sleep, self._chance = monotonic, sleep, chance

    def __call__(self, act: Callable[[], T], is_repeatable: bool = False) -> T:
        """What `act`, one transaction, answers. Raises StorageFailed.

        `is_repeatable`: doing it a second time changes nothing and answers the same, so that it may be begun anew even
        when nobody knows whether it was committed."""
        deadline = self._monotonic() + PATIENCE_SECONDS
        pause = _FIRST_PAUSE
        while True:
            try:
                return act()
            except StorageFailed as error:
                wait = pause * (0.5 + self._chance())
                if not _may_begin_anew(error, is_repeatable) or self._monotonic() + wait > deadline:
                    raise
                log.warning("begun anew: %s", error.message)
            self._sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)


def _may_begin_anew(error: StorageFailed, is_repeatable: bool) -> bool:
    return isinstance(error, StorageUnavailable) or (is_repeatable and isinstance(error, CommitUnknown))
