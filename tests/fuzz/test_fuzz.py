"""The short form of `bin/fuzz`: some hundred made-up inputs to all listeners of a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.run import run

pytestmark = pytest.mark.timeout(900)

SEED, INPUTS = 7, 400


def test_no_input_makes_a_server_fail_and_nothing_is_left(tmp_path: Path) -> None:
    outcome = run(tmp_path, SEED, INPUTS, 1, lambda _: None)
    assert outcome.violations == [], outcome.figures()
    assert sum(outcome.sent.values()) == INPUTS
    by_way = {way: set(found) for way, found in outcome.answers.items()}
    assert {"200", "400", "404"} <= by_way["gateway, a joined party"]      # the inputs reach routes, and are refused
    assert {"200", "400", "403", "405"} <= by_way["clients' port"]
    assert {"200", "400", "404"} <= by_way["plain listener"]
    assert {"200", "404"} <= by_way["listener behind a proxy"]
    assert by_way["gateway, a stranger"] == {"ended"}
    assert by_way["gateway, no handshake"] <= {"ended", "held"}
    assert sum(count for what, count in outcome.sent.items() if what.endswith(": held")) > INPUTS / 20
    assert {"0", "100", "101", "109"} <= set(outcome.retcodes)
    assert all(outcome.honest.values())
