"""A board and a browser for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.web.site import Site, running_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("browser")) as found:
        yield found
