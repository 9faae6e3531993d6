"""A gang of placed workers begins when all of it is there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.job import CommandKind, Task
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.planning.actions import LetBegin, Send
from fate_flow.core.planning.gang import BEGINS, GATHERED, may_begin
from tests.kit.core.job_views import ALL, R, S, W, plan, task_to
from tests.kit.values import GUEST, HOST, INCARNATION, OTHER, a_task, a_view

SLURM = "waits in Slurm for 2 nodes: Resources"


def shares(**waits: str | TaskStatus) -> tuple[Task, ...]:
    """The shares of a running task: each waits for something, or has this status."""
    found = []
    for party, said in zip(ALL, waits.values(), strict=True):
        is_text = isinstance(said, str)
        row = a_task("a", party, W if is_text else said, R)
        found.append(replace(row, waits=said) if isinstance(said, str) else row)
    return tuple(found)


def let_begin(*rows: Task) -> list[Party]:
    """Whose share begins, by a plan that does nothing else about it."""
    found = [one for one in plan(a_view(tasks=rows)) if isinstance(one, LetBegin)]
    for one in found:
        command = task_to(one.share.party, CommandKind.TASK_START, gathered=True, incarnation=INCARNATION)
        assert Send(one.command) == command
    return [one.share.party for one in found]


@pytest.mark.parametrize(("guest", "host", "other", "begin"), [
    (R, GATHERED, R, [HOST]),
    (GATHERED, GATHERED, GATHERED, [GUEST, HOST, OTHER]),
    (BEGINS, GATHERED, R, [HOST]),
    (S, GATHERED, R, [HOST]),
    (R, SLURM, R, []),
    (GATHERED, SLURM, R, []),
    (GATHERED, "", R, []),
    (BEGINS, BEGINS, R, []),
    (R, R, R, []),
])  # fmt: skip
def test_gathered_shares_begin_when_no_share_waits_for_anything_else(
    guest: str | TaskStatus, host: str | TaskStatus, other: str | TaskStatus, begin: list[Party]
) -> None:
    assert let_begin(*shares(guest=guest, host=host, other=other)) == begin


@pytest.mark.parametrize(("share", "may"), [
    (a_task(waits=SLURM), False), (a_task(waits=GATHERED), False), (a_task(waits=BEGINS), True),
    (a_task(party_status=R, waits=GATHERED), True),
])  # fmt: skip
def test_a_worker_that_has_arrived_begins_when_its_share_may(share: Task, may: bool) -> None:
    assert may_begin(share) is may
