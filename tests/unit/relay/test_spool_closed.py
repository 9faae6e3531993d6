"""A spool that takes nothing new, because the disk is nearly full, still gives back what it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_result import Problem, Refusal
from tests.kit.relay.spool_calls import AGAIN, GUEST, HERE, NEW, PEERS, pop, push

WHY = "party 10000 takes nothing new now"


@pytest.fixture
def why() -> list[str]:
    return []


@pytest.fixture
def closed(tmp_path: Path, why: list[str]) -> Spool:
    spool = Spool(tmp_path, SpoolLimits(), lambda: None, lambda: "".join(why))
    spool.open(HERE, PEERS, "token")
    return spool


def test_it_refuses_chunks_and_gives_back_what_it_has(closed: Spool, why: list[str]) -> None:
    assert push(closed, 0) == NEW
    why.append(WHY)
    assert (push(closed, 1), push(closed, 0, topic="u")) == (Problem.FULL, Problem.FULL)
    assert closed.put(HERE, "t", GUEST, 1, True, b"x") == Refusal(Problem.FULL, WHY)
    assert push(closed, 0) == AGAIN, "a push that is repeated is answered as before"
    assert pop(closed, 0) == b"chunk 0"
    closed.close(HERE)
    closed.purge(HERE.job_id)


def test_it_goes_on_once_there_is_space(closed: Spool, why: list[str]) -> None:
    why.append(WHY)
    assert push(closed, 0) == Problem.FULL
    why.clear()
    assert (push(closed, 0), push(closed, 1)) == (NEW, NEW)
