"""Parties whose servers are of different releases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from fate_flow.services.initiator import submission


@contextmanager
def coordinators(*, reserve_early: bool) -> Iterator[None]:
    """Let coordinators ask for a reservation with `create`, where that is sensible, or never, as earlier releases."""
    if reserve_early:
        yield
        return
    with patch.object(submission, "_may_start_now", lambda unit, job: False):
        yield
