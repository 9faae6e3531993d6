"""How many frames a gateway takes of one other party, on all of its streams."""

from __future__ import annotations

FRAMES_PER_SECOND = 30_000
"""More than a gateway sends if workers write byte by byte. To take so many is a sixth of a processor."""


class FramePace:
    """Lets frames through at a rate; what has come beyond it has to be waited for afterwards. Times are in seconds."""

    def __init__(self, now: float) -> None:
        self._left = float(FRAMES_PER_SECOND)
        self._at = now

    def spend(self, now: float, count: int) -> float:
        """Count frames that were taken, and return for how long no further one is to be taken."""
        refilled = self._left + max(0.0, now - self._at) * FRAMES_PER_SECOND
        self._left = min(float(FRAMES_PER_SECOND), refilled) - count
        self._at = max(self._at, now)
        return max(0.0, -self._left / FRAMES_PER_SECOND)
