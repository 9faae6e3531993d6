"""A spool with an open session."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.relay.spool import Spool
from tests.kit.relay.spool_calls import HERE, PEERS, a_spool


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = a_spool(tmp_path / "spool")
    spool.open(HERE, PEERS, "token")
    return spool
