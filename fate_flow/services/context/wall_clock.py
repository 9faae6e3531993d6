"""The time of day of this machine, in milliseconds since 1970."""

from __future__ import annotations

import time


def now_on_the_wall() -> int:
    """Return the time of day. It may be set back. What other parties sign or certify names the time of their clocks,
    so only this one can be compared with it."""
    return time.time_ns() // 1_000_000
