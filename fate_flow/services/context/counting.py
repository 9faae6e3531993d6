"""Count what a stored unit of work has ended, by the entries of the history and by its steps."""

from __future__ import annotations

from fate_flow.core.metrics.measures import JOB_ENDS, RESERVATION_ROUNDS, TASK_ENDS, WORKER_ENDS, Measure, Measures
from fate_flow.core.metrics.spans import StepName
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JOB_END, TASK_END, WorkerStatus
from fate_flow.services.context.pending import Pending

LOCAL_ROLE = "local"         # a job within one party; its party id is 0
_ROUND_ENDS = (StepName.ROUND_RESERVED, StepName.ROUND_FAILED)
_ENDS: dict[HistoryLevel, tuple[Measure, frozenset[str]]] = {
    HistoryLevel.JOB: (JOB_ENDS, frozenset(status.value for status in JOB_END)),
    HistoryLevel.PARTY_TASK: (TASK_ENDS, frozenset(status.value for status in TASK_END)),
    HistoryLevel.WORKER: (WORKER_ENDS, frozenset({WorkerStatus.EXITED.value})),
}


def count_pending(measures: Measures, pending: Pending, own_party_id: str) -> None:
    """Count what ended at this party. A coordinator has entries about the shares of other parties as well."""
    for entry in pending.moved:
        if entry.party is not None and (entry.party.party_id == own_party_id or entry.party.role == LOCAL_ROLE):
            _count(measures, entry, entry.party)
    for step in pending.steps:
        if step.name in _ROUND_ENDS:
            measures.count(RESERVATION_ROUNDS, step.reason)
    for measure, value in pending.observed:
        measures.observe(measure, value=value)


def _count(measures: Measures, entry: HistoryEntry, party: Party) -> None:
    measure, ends = _ENDS.get(entry.level, (None, frozenset()))
    if measure is None or entry.new not in ends or entry.new == entry.old:
        return
    if measure is WORKER_ENDS:
        measures.count(measure, entry.reason)
    else:
        measures.count(measure, party.role, entry.new, entry.reason)
