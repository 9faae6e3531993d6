"""Stories of `authority.py` in which the grants of the initiators have limits: uses of a table a day, cores and GPUs at
once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fate_flow.core.access.limits import DAY, Grants, PartyLimits, TableLimits
from fate_flow.core.access.permission import Kind, Thing
from fate_flow.core.model.approval import ApprovalRule
from fate_flow.core.model.job import TaskKey
from fate_flow.services.context.ports import LaunchOrder
from fate_flow.services.use_cases.grants import GrantFiles
from tests.simulation.authority import ARBITER, HOST, INITIATORS, JOBS, TABLES, THINGS, ShareFailed, Story, table_at

HOURS_6 = DAY // 4
TABLE = Thing(Kind.DATASET, TABLES[0], "demo")


class LimitStory(Story):
    """No approval is needed, so that more workers start."""

    devices = ("0", "1", "2", "3")

    def __init__(self, seed: int) -> None:
        self.uses: dict[tuple[str, TaskKey], int] = {}       # by founder and share: when it began
        self.held: set[Any] = set()
        super().__init__(seed)
        self._with(approval=ApprovalRule())

    def acts(self) -> tuple[Callable[[], None], ...]:
        return (*(self._push_on,) * 8, *(self._let_run,) * 2, *(self._change,) * 3, self._limit, self._wait)

    def _limit(self) -> None:
        """The people of this party apply a file of grants."""
        pick = self.random.choice
        limits = {TABLE: TableLimits(uses_a_day=pick((1, 2, 3)))} if pick((True, True, False)) else {}
        of_party = PartyLimits(cores=pick((None, 1, 2, 3)), gpus=pick((None, None, 1, 2, 3)))
        grants = Grants(frozenset(THINGS), limits, of_party)
        GrantFiles(self.server.context).apply({pick(INITIATORS): grants}, "ada")

    def _wait(self) -> None:
        self.server.now += HOURS_6

    def _check_launch(self, order: LaunchOrder) -> None:
        key = order.worker.task
        known = self.known.get(key.job_id)
        if known is None or key.name != "a" or table_at(known.document, key.party) != TABLES[0]:
            return
        now, founder = self.server.now, known.founder
        most = self._limits_of(founder).limits_of(TABLE).uses_a_day
        if most is None or (founder, key) in self.uses:     # without a limit, uses are not counted; a worker that is
            return                                          # ordered again is no further use, also if it was lowered
        self.uses[founder, key] = now
        used = sum(1 for (one, _), at in self.uses.items() if one == founder and at > now - DAY)
        self._expect(used <= most, f"{key} is use {used} of {TABLE} by {founder}, {most} are granted")

    def _check_jobs(self) -> None:
        """Whoever has reserved in this step was granted the cores and the GPUs."""
        with self.server.store.reading() as tx:
            rows = [row for job_id in JOBS for row in tx.jobs_here(job_id) if row.party in (HOST, ARBITER)]
        held = {row.key: row for row in rows if row.holds and row.claim.cores}
        for key in held.keys() - self.held:
            founder = held[key].initiator.party_id
            limits = self._limits_of(founder).limits
            theirs = [row.claim for row in held.values() if row.initiator.party_id == founder]
            for most, asked, all_held, noun in (
                (limits.cores, held[key].claim.cores, sum(one.cores for one in theirs), "cores"),
                (limits.gpus, held[key].claim.gpus, sum(one.gpus for one in theirs), "GPUs"),
            ):  # fmt: skip
                is_within = most is None or not asked or all_held <= most
                self._expect(is_within, f"{founder} holds {all_held} {noun}, {most} are granted")
        self.held = set(held)
        for job_id in JOBS:
            if not any(row.job_id == job_id for row in rows):
                self.known.pop(job_id, None)

    def _limits_of(self, party_id: str) -> Grants:
        with self.server.store.reading() as tx:
            return tx.grants(party_id)


def hunt(patched: Callable[[], Any], seeds: int) -> str:
    """The rule that catches a deliberate bug; empty: none does."""
    with patched():
        for seed in range(seeds):
            try:
                LimitStory(seed).run(120)
            except ShareFailed as error:
                return str(error).splitlines()[-1]
    return ""
