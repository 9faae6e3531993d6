"""A world takes the package's log for itself; after its test the log is as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation.chaos import no_gc


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    logger = logging.getLogger("fate_flow")
    handlers, propagates = logger.handlers[:], logger.propagate
    yield
    logger.handlers[:] = handlers
    logger.propagate = propagates


@pytest.fixture(autouse=True)
def _no_gc() -> Iterator[None]:
    """A world refers to itself in many ways: the collector looks at all of it again and again, and finds nothing."""
    with no_gc():
        yield
