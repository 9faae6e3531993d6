"""How much space the metrics of a job have left at this party, asked for each report of a worker."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from fate_flow.core.model.errors import OperationFailed
from fate_flow.services.artifacts.metrics import too_many
from fate_flow.store.contract.transaction import Transaction

_MOST_JOBS = 1_000
_COUNTED_AGAIN = 1_000       # reports


@dataclass
class _Known:
    stored: int
    added: int = 0
    reports: int = 0


class MetricSpace:
    """The sum over all rows of a job is read now and then, and not for each report: a program that reports a lot would
    hold the database otherwise.

    It is read again before anything is refused, after a thousand reports, and after an eighth of the most: results
    replace what was reported, and another server of this party may store some as well. May be shared by threads."""

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes`: of all metrics of one job here (`limits.metrics_max_bytes`)."""
        self._most = most_bytes
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, tx: Transaction, job_id: str, more: int) -> None:
        """Count bytes that this transaction stores. Raises OperationFailed if there is no space for them."""
        with self._lock:
            known = self._known.get(job_id)
            if known is None or self._is_old(known) or known.stored + known.added + more > self._most:
                known = _Known(tx.metric_size(job_id))
            self._known[job_id] = known
            self._known.move_to_end(job_id)
            while len(self._known) > _MOST_JOBS:
                self._known.popitem(last=False)
            if known.stored + known.added + more > self._most:
                raise OperationFailed(too_many(job_id, self._most))
            known.added += more
            known.reports += 1

    def _is_old(self, known: _Known) -> bool:
        return known.reports >= _COUNTED_AGAIN or known.added * 8 > self._most
