"""Deliberate bugs in what keeps jobs apart, each of which the stories of `authority.py` have to catch.

`python -m tests.simulation.mutants.authority_bugs` runs them and prints the rule that caught each; with `--seeds` a
seed of each for `FIRST`. Where two layers hold a rule, the bug is in both: one alone changes nothing that is seen."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from fate_flow.core.access import authority, permission
from fate_flow.core.access.authority import STATEMENTS, Query, Speaker
from fate_flow.core.model.approval import Approval, Consent
from fate_flow.core.model.job import CommandKind
from fate_flow.services.context import unit_of_work
from fate_flow.services.participant import admission, parameters, participant
from fate_flow.services.workers import allowed, launching
from fate_flow.store.memory.store import MemoryTransaction
from tests.simulation.authority import STUMBLED, ShareFailed, Story, hunt

Patched = Callable[[], AbstractContextManager[Any]]
SEEDS = 300


def _table_says(statement: Any, speaker: Speaker) -> Patched:
    """One line of the table is another one."""
    return lambda: patch.dict(STATEMENTS, {statement: speaker})     # type: ignore[arg-type]


def _without(module: Any, name: str) -> Patched:
    """A check that never objects."""
    return lambda: patch.object(module, name, lambda *_: "")


def _only_the_first_table_counts() -> AbstractContextManager[Any]:
    """What a task needs that comes after one with a table needs no grant."""
    keep = permission._needed

    def needed(*which: Any) -> Iterator[Any]:
        for thing in keep(*which):
            yield thing
            if thing.kind is permission.Kind.DATASET:
                return

    return patch.object(permission, "_needed", needed)


def _difference_ignores(**same: str) -> Patched:
    """One part of a job is not compared."""
    keep = authority.difference

    def difference(bound: Any, offered: Any) -> str:
        return keep(bound, replace(offered, **{key: getattr(bound, key) for key in same}))

    return lambda: _in_all("difference", difference, authority, parameters)


def _seats_of_others() -> AbstractContextManager[Any]:
    """That the seat is one of the job is not looked at."""
    return patch.object(authority, "_sits_in", lambda *_: True)


def _only_the_seat_that_is_asked() -> AbstractContextManager[Any]:
    """Of the seats here one is checked."""

    def first_alone(unit: Any, spec: Any) -> str:
        return admission.not_granted(unit, spec, admission.own_seats(unit.context, spec)[0])

    return patch.object(admission, "why_not_granted", first_alone)


def _one_row_takes_a_revision() -> AbstractContextManager[Any]:
    keep = parameters._revise_row

    def revise_row(one: Any, row: Any, terms: Any) -> None:
        if row.party.role == "arbiter":
            keep(one, row, terms)

    return patch.object(parameters, "_revise_row", revise_row)


def _a_running_seat_takes_a_revision() -> AbstractContextManager[Any]:
    """What is approved is changed while it runs."""
    keep = MemoryTransaction.jobs_here

    @contextmanager
    def patched() -> Iterator[None]:
        def revise(one: Any, bound: Any, terms: Any) -> None:
            rows = keep(one.tx, bound.job_id)
            if one.rebind(bound, unit_of_work.digest_of(terms.document), terms.revision):
                for row in rows:
                    parameters._revise_row(one, row, terms)

        with patch.object(parameters, "_revise", revise), _an_approval_outlives_a_change():
            yield

    return patched()


def _an_approval_outlives_a_change() -> AbstractContextManager[Any]:
    """A change asks for no new approval, and nobody looks at which document it was of."""
    keep = MemoryTransaction.decide_consent

    def decide_consent(self: Any, key: Any, consent: Consent, known: Consent | None = None) -> bool:
        return consent.approval is Approval.PENDING or keep(self, key, consent, known)

    stack = ExitStack()
    stack.enter_context(patch.object(MemoryTransaction, "decide_consent", decide_consent))
    stack.enter_context(patch.object(allowed, "_not_approved", lambda *_: ""))
    return stack


def _nothing_is_looked_at_again() -> AbstractContextManager[Any]:
    return patch.object(launching, "why_not_now", lambda *_: "")


def _documents_are_known_by_their_job() -> AbstractContextManager[Any]:
    """What was parsed once for a job id is what it runs, whatever the job is bound to since."""
    keep = unit_of_work.UnitOfWork.spec

    def spec(self: Any, job_id: str) -> Any:
        specs = self.context.specs
        if job_id not in specs and (found := keep(self, job_id)) is not None:
            specs[job_id] = found
        return specs.get(job_id)

    return patch.object(unit_of_work.UnitOfWork, "spec", spec)


def _a_create_moves_any_document() -> AbstractContextManager[Any]:
    """A seat that is not here yet brings its own document with it, and the binding stays."""
    return patch.object(participant, "take_document", lambda *_: None)


def _a_forgotten_job_frees_its_id() -> AbstractContextManager[Any]:
    """Another party takes over the id of a job that was refused, and its log."""
    keep = MemoryTransaction.forget_seat

    def forget_seat(self: Any, key: Any) -> None:
        keep(self, key)
        self.unbind(key.job_id)

    return patch.object(MemoryTransaction, "forget_seat", forget_seat)


def _an_id_is_freed_while_its_job_is_here() -> AbstractContextManager[Any]:
    return patch.object(MemoryTransaction, "_with_rows", lambda _: set())


def _in_all(name: str, new: Any, *modules: Any) -> AbstractContextManager[Any]:
    stack = ExitStack()
    for module in modules:
        stack.enter_context(patch.object(module, name, new))
    return stack


MUTANTS: dict[str, Patched] = {
    "nobody objects": lambda: _in_all("objection", lambda *_: "", authority, admission, participant, parameters),
    **{
        f"anybody says {kind.value}": _table_says(kind, Speaker.ANYONE)
        for kind, speaker in STATEMENTS.items() if speaker is Speaker.MEMBER and isinstance(kind, CommandKind)
    },
    **{
        f"members say {kind.value}": _table_says(kind, Speaker.MEMBER)
        for kind, speaker in STATEMENTS.items() if speaker is Speaker.INITIATOR and isinstance(kind, CommandKind)
    },
    **{
        f"anybody asks: {query.value}": _table_says(query, Speaker.ANYONE)
        for query in (Query.HISTORY, Query.TASK_LOG, Query.OUTPUT_TABLE, Query.DELIVER, Query.STREAM)
    },
    "another initiator takes a job over": _difference_ignores(initiator=""),
    "a seat with other parties": _difference_ignores(parties=""),
    "a seat with another document": _difference_ignores(digest=""),
    **{
        f"members say it of any seat: {statement.value}": _table_says(statement, Speaker.MEMBER)
        for statement in (CommandKind.REPORT, CommandKind.CAPACITY, Query.DELIVER, Query.STREAM)
    },
    "seats of others": _seats_of_others,
    "only the first table counts": _only_the_first_table_counts,
    "only one own seat is checked": _only_the_seat_that_is_asked,
    "one row takes a revision": _one_row_takes_a_revision,
    "a running seat takes a revision": _a_running_seat_takes_a_revision,
    "an approval outlives a change": _an_approval_outlives_a_change,
    "nothing is looked at again": _nothing_is_looked_at_again,
    "grants are not looked at again": _without(allowed, "not_granted"),
    "ceilings are not looked at again": _without(allowed, "above_ceilings"),
    "documents are known by their job": _documents_are_known_by_their_job,
    "a create moves any document": _a_create_moves_any_document,
    "a forgotten job frees its id": _a_forgotten_job_frees_its_id,
    "an id is freed while its job is here": _an_id_is_freed_while_its_job_is_here,
}  # fmt: skip

FIRST: dict[str, int] = {
    "nobody objects": 33, "anybody says align": 11, "anybody says document/compare": 64, "anybody says ask stop": 13,
    "anybody says ask rerun": 15, "anybody says look again": 1, "anybody says standing": 12, "members say status": 5,
    "members say dependence/check": 20, "members say resource/apply": 0, "members say resource/return": 42,
    "members say start": 4, "members say update": 13, "members say parameter/update": 11, "members say stop": 9,
    "members say clean": 17, "members say model": 4, "members say component/inheritance/check": 6,
    "members say task create": 2, "members say task start": 23, "members say task status": 14,
    "members say task stop": 9, "members say task collect": 11, "anybody asks: history": 3, "anybody asks: task log": 2,
    "anybody asks: output table": 6, "anybody asks: exchange deliver": 8, "anybody asks: stream": 9,
    "another initiator takes a job over": 11, "a seat with other parties": 21, "a seat with another document": 6,
    "members say it of any seat: report": 15, "members say it of any seat: room": 11,
    "members say it of any seat: exchange deliver": 8, "members say it of any seat: stream": 4, "seats of others": 1,
    "only the first table counts": 9, "only one own seat is checked": 20, "one row takes a revision": 10,
    "a running seat takes a revision": 8, "an approval outlives a change": 51, "nothing is looked at again": 8,
    "grants are not looked at again": 14, "ceilings are not looked at again": 8, "documents are known by their job": 41,
    "a create moves any document": 5, "a forgotten job frees its id": 6, "an id is freed while its job is here": 13,
}  # fmt: skip
"""The seed that each hunt begins with: of a short story that shows the bug, so that `bin/test` has the time for all of
them. All other seeds follow. When a change of the stories has made that longer, `--seeds` names short ones again."""


def hunt_all(names: Iterator[str] | None = None) -> Iterator[tuple[str, str]]:
    """Each with the rule that caught it; without one: none did."""
    for name in names or iter(MUTANTS):
        yield name, hunt(MUTANTS[name], SEEDS, FIRST[name])


def short_seeds(name: str, seeds: int = 100) -> list[int]:
    """Those of the first seeds whose stories show this bug, the quickest first."""
    found = []
    with MUTANTS[name]():
        for seed in range(seeds):
            begin = time.process_time()
            try:
                Story(seed).run()
            except ShareFailed as error:
                if STUMBLED not in str(error):
                    found.append((time.process_time() - begin, seed))
    return [seed for _, seed in sorted(found)]


if __name__ == "__main__":
    names = [one for one in sys.argv[1:] if one != "--seeds"] or [*MUTANTS]
    if "--seeds" in sys.argv:
        for mutant in names:
            print(f'"{mutant}": {next(iter(short_seeds(mutant)), "NOT CAUGHT")}', flush=True)
    else:
        for mutant, rule in hunt_all(iter(names)):
            print(f"{mutant}: {rule or 'NOT CAUGHT'}", flush=True)
