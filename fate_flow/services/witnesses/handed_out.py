"""The log with another party, as it is handed to that party: it may read what this one has signed about both."""

from __future__ import annotations

from fate_flow.core.record.entry import log_with
from fate_flow.core.wire.v1.witnessing import AskedPart, LogPart
from fate_flow.store.contract.transaction import Transaction

MOST_ENTRIES = 500           # of a part
_MOST_BYTES = 4 << 20


def part_of_log(tx: Transaction, party_id: str, asked: AskedPart) -> LogPart:
    """Return the entries from this place on that the newest checkpoint of the epoch covers, as many as one answer has;
    without the texts that they commit to."""
    log = log_with(party_id)
    newest = {epoch: tx.newest_checkpoint(log, epoch) for epoch in sorted(tx.record_epochs(log))}
    signed = {epoch: one for epoch, one in newest.items() if one is not None}
    epoch = asked.epoch or next(iter(signed), 0)
    mark = signed.get(epoch)
    if mark is None:
        return LogPart(tuple(signed))
    most, size, found = min(MOST_ENTRIES, max(0, mark.size - asked.first)), 0, list[str]()
    for one in tx.sealed_entries(log, epoch, asked.first, most):
        size += len(one.content)
        if found and size > _MOST_BYTES:
            break
        found.append(one.content.decode(errors="replace"))      # damage is seen where its hash is compared
    return LogPart(tuple(signed), epoch, mark.note, found)
