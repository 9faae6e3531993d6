"""What is wrong with the way to another party, as text; and what another party says of its way back."""

from __future__ import annotations

import pytest

from fate_flow.core.model.peer import (
    PeerTrouble,
)
from tests.kit.values import GUEST, HOST

SILENT = PeerTrouble("10000", 1_000, "connection refused")
CUT_OFF = PeerTrouble("10000", cut_off_since=1_000, cut_off="no answer in time")


@pytest.mark.parametrize(
    ("trouble", "limit", "text"),
    [
        (SILENT, None, "host 10000 has not answered for 7 s (connection refused)"),
        (SILENT, 90_000, "host 10000 has not answered for 7 s (connection refused); given up in 83 s"),
        (PeerTrouble("10000", 1_000), 90_000, "host 10000 has not answered for 7 s; given up in 83 s"),
        (SILENT, 2_000, "host 10000 has not answered for 7 s (connection refused); given up in 0 s"),
        (CUT_OFF, None, "host 10000 cannot reach guest 9999 (no answer in time, for 7 s)"),
        (CUT_OFF, 90_000, "host 10000 cannot reach guest 9999 (no answer in time, for 7 s); given up in 83 s"),
        (PeerTrouble("10000", cut_off_since=1_000), None, "host 10000 cannot reach guest 9999 (for 7 s)"),
    ],
)
def test_it_says_who_cannot_reach_whom_since_when_and_how_long_that_may_last(
    trouble: PeerTrouble, limit: int | None, text: str
) -> None:
    assert trouble.explain(HOST, GUEST, 8_400, limit) == text
    assert not trouble.is_over
