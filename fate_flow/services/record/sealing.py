"""Sealing: entries that have been written since get the next indexes of their logs.

Any process may add entries, and one seals them. If two try, for example when one home takes over from another, the head
moves only from where both have seen it, so the second one seals nothing; no log ever forks.
"""

from __future__ import annotations

from collections.abc import Sequence

from fate_flow.core.record.log import StoredEntry, next_batch
from fate_flow.store.contract.transaction import Transaction

MOST_AT_ONCE = 1_000        # entries in one transaction, for which writers on SQLite wait


def seal_new(tx: Transaction, at: int) -> int:
    """Seal the oldest new entries; return how many were sealed. `at`: the present time."""
    return seal_entries(tx, tx.unsealed_entries(MOST_AT_ONCE), at)


def seal_entries(tx: Transaction, entries: Sequence[StoredEntry], at: int) -> int:
    """Seal these entries, one batch for each log; return how many were sealed. `at`: the present time."""
    by_log: dict[str, list[StoredEntry]] = {}
    for one in entries:
        by_log.setdefault(one.log, []).append(one)
    return sum(_seal(tx, log, some, at) for log, some in by_log.items())


def _seal(tx: Transaction, log: str, entries: Sequence[StoredEntry], at: int) -> int:
    head = tx.record_head(log)
    return len(entries) if tx.seal(head, next_batch(head, entries, at)) else 0
