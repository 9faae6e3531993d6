"""A party's answer to the heartbeat of an initiator: the jobs that are over, and reports that it could not deliver."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from fate_flow.core.wire.v1.heartbeat import HeartbeatReply, WayBack
from fate_flow.services.context.ports import Context
from fate_flow.store.contract.transaction import Transaction

_MOST_REPORTS = 256


_MOST_MISSED = 2


class Heartbeats:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._missed: dict[str, dict[tuple[str, int], int]] = {}     # by caller: running copies that it did not name
        self._lock = threading.Lock()

    def missing(self, caller: str, jobs: Collection[tuple[str, int]]) -> list[str]:
        """Return jobs of the caller that run here, but were missing in two heartbeats: it may have forgotten them."""
        copies = self._context.read(lambda tx: tx.copies_that_run(caller))
        with self._lock:
            before = self._missed.pop(caller, {})
            missed = {copy: before.get(copy, 0) + 1 for copy in set(copies).difference(jobs)}
            doubtful = [copy for copy, times in missed.items() if times >= _MOST_MISSED]
            if kept := {copy: times for copy, times in missed.items() if times < _MOST_MISSED}:
                self._missed[caller] = kept
        return sorted(job_id for job_id, _ in doubtful)

    def answer(self, caller: str, jobs: Sequence[tuple[str, int]]) -> HeartbeatReply:
        """Record a heartbeat and answer it. `jobs`: the jobs, with their runs, that run here as the caller knows."""
        self._context.write(lambda tx: tx.record_heartbeat(caller), is_repeatable=True)
        # Read without a lock, because there may be many jobs.
        return self._context.read(lambda tx: _reply(tx, caller, jobs))


def _reply(tx: Transaction, caller: str, jobs: Sequence[tuple[str, int]]) -> HeartbeatReply:
    ended = _ended(tx, caller, jobs)
    trouble = tx.peer_troubles().get(caller)
    if trouble is None or not trouble.silent_since:
        return HeartbeatReply(ended)
    way_back = WayBack(max(0, tx.steady() - trouble.silent_since) / 1000, trouble.silence)
    return HeartbeatReply(ended, way_back, tuple(one.body for one in tx.reports_to(caller, _MOST_REPORTS)))


def _ended(tx: Transaction, caller: str, jobs: Sequence[tuple[str, int]]) -> dict[str, str]:
    """Return which of these jobs of the initiator are over or unknown here, and why."""
    ended: dict[str, str] = {}
    running = dict(tx.copies_that_run(caller)) if jobs else {}
    for job_id, run in jobs:
        if job_id in running:
            if running[job_id] < run:
                ended[job_id] = f"it is in run {running[job_id]} here, of an older copy of the books"
            continue
        rows = [row for row in tx.jobs_here(job_id) if row.initiator.party_id == caller]
        if not rows:
            ended[job_id] = "it is not known here"
        elif all(row.is_final for row in rows):
            ended[job_id] = rows[0].reason.value if rows[0].reason else rows[0].status.value
    return ended
