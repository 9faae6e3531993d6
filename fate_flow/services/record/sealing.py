"""Sealing: entries that have been written since get the next indexes of their logs.

Any process may add entries, and one seals them. If two try, for example when one home takes over from another, the head
moves only from where both have seen it, so the second one seals nothing; no log ever forks.
"""

from __future__ import annotations

from collections.abc import Sequence

from fate_flow.core.record.log import Batch, Head, StoredEntry, next_batch
from fate_flow.store.contract.transaction import Transaction

MOST_AT_ONCE = 1_000        # entries in one transaction, for which writers on SQLite wait


Seals = Sequence[tuple[Head, Batch]]
"""What gives entries the next indexes of their logs: for each log the head that it has, and the batch that follows."""


def seal_new(tx: Transaction, at: int) -> int:
    """Seal the oldest new entries; return how many were sealed. `at`: the present time."""
    return put_seals(tx, seals_of(tx, tx.unsealed_entries(MOST_AT_ONCE), at))


def seals_of(tx: Transaction, entries: Sequence[StoredEntry], at: int) -> Seals:
    """Return the seals of these entries, one for each log. Their stored bytes are hashed, and nothing is written: in a
    transaction that only reads, no writer waits for it."""
    by_log: dict[str, list[StoredEntry]] = {}
    for one in entries:
        by_log.setdefault(one.log, []).append(one)
    heads = [(tx.record_head(log), some) for log, some in by_log.items()]
    return tuple((head, next_batch(head, some, at)) for head, some in heads)


def put_seals(tx: Transaction, seals: Seals) -> int:
    """Write them; return how many entries are sealed by that: none of a log whose head has moved since."""
    return sum(len(batch.ids) for head, batch in seals if tx.seal(head, batch))
