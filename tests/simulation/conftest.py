"""A world takes the package's log for itself; after its test the log is as it was."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    logger = logging.getLogger("fate_flow")
    handlers, propagates = logger.handlers[:], logger.propagate
    yield
    logger.handlers[:] = handlers
    logger.propagate = propagates
