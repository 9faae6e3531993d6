"""What another party has acknowledged lately, as this party's log with it says, and whether an own log still has it.

A head is cosigned seconds after its last entry. A party that was restored from a backup of these seconds finds its
entries missing only by what it has acknowledged to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fate_flow.core.record.entry import Kind, log_with, read_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.services.record.reading import size_of_epoch
from fate_flow.store.contract.transaction import Transaction

_PAGE, _ALL = 1_000, 1 << 40
_MOST = 8                   # messages


def last_acknowledged(tx: Transaction, party_id: str) -> tuple[str, ...]:
    """Return the numbers of the newest messages that this party has acknowledged, the newest first."""
    found: list[str] = []
    for entry in _backwards(tx, log_with(party_id), _PAGE):
        said = _read(entry)
        if said.get("kind") == Kind.ANSWERED and said.get("acknowledged") is True:
            found.append(str(said.get("number")))
        if len(found) == _MOST:
            break
    return tuple(found)


def not_received(tx: Transaction, party_id: str, numbers: Iterable[str]) -> tuple[str, ...]:
    """Return those of these messages of another party that the log with it does not have, nor says that it has lost."""
    wanted = set(numbers)
    for entry in _backwards(tx, log_with(party_id), _ALL) if wanted else ():
        said = _read(entry)
        if said.get("kind") == Kind.RECEIVED:
            wanted.discard(str(said.get("number")))
        elif said.get("kind") == Kind.EPOCH:
            wanted.difference_update(said.get("lost", ()))
        if not wanted:
            break
    return tuple(sorted(wanted))


def _backwards(tx: Transaction, log: str, most: int) -> Iterator[StoredEntry]:
    """Yield the entries of all epochs of a log, the newest first; `most`: of those that are sealed."""
    yield from reversed([one for one in tx.unsealed_entries(_ALL) if one.log == log])
    for epoch in reversed(tx.record_epochs(log)):
        end = size_of_epoch(tx, log, epoch)
        while end > 0 and most > 0:
            first = max(0, end - min(_PAGE, most))
            page = tx.sealed_entries(log, epoch, first, end - first)
            yield from reversed(page)
            end, most = first, most - len(page)


def _read(entry: StoredEntry) -> Mapping[str, Any]:
    return read_entry(entry.content) if entry.kind in (Kind.ANSWERED, Kind.RECEIVED, Kind.EPOCH) else {}
