"""Deliberate bugs in what keeps jobs apart, each of which the stories of `authority.py` have to catch.

`python -m tests.simulation.mutants.authority_bugs` runs them and prints the rule that caught each. Where two layers
hold the same rule, the bug is in both: one alone changes nothing that could be seen."""

from __future__ import annotations

import sys
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
from tests.simulation.authority import hunt

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
}  # fmt: skip

FIRST: dict[str, int] = {
    "anybody says align": 41, "anybody says ask stop": 43, "anybody says ask rerun": 7, "anybody says look again": 45,
    "anybody says standing": 30, "members say dependence/check": 25, "members say resource/apply": 14,
    "members say resource/return": 61, "members say start": 4, "members say update": 42,
    "members say parameter/update": 5, "members say clean": 49, "members say model": 14,
    "members say component/inheritance/check": 17, "members say task create": 36, "members say task start": 34,
    "members say task status": 38, "members say task stop": 26, "members say task collect": 17,
    "anybody asks: exchange deliver": 34, "another initiator takes a job over": 30, "a seat with other parties": 18,
    "a seat with another document": 17, "members say it of any seat: report": 13,
    "members say it of any seat: room": 11, "members say it of any seat: exchange deliver": 52,
    "only the first table counts": 100, "a running seat takes a revision": 30, "an approval outlives a change": 52,
    "nothing is looked at again": 38, "grants are not looked at again": 38, "ceilings are not looked at again": 73,
    "documents are known by their job": 17,
}  # fmt: skip
"""The seed that each hunt begins with, where it is not 0: a short story that shows the bug. All other seeds follow."""


def hunt_all(names: Iterator[str] | None = None) -> Iterator[tuple[str, str]]:
    """Each with the rule that caught it; without one: none did."""
    for name in names or iter(MUTANTS):
        yield name, hunt(MUTANTS[name], SEEDS, FIRST.get(name, 0))


if __name__ == "__main__":
    for mutant, rule in hunt_all(iter(sys.argv[1:]) if sys.argv[1:] else None):
        print(f"{mutant}: {rule or 'NOT CAUGHT'}", flush=True)
