"""A server of one party, for the tests of its routes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.api.client_world import World, make_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """As it is set up where nothing else is said; a test file that needs another one has its own."""
    world = make_world(tmp_path)
    yield world
    world.store.close()
