"""What another party has acknowledged lately, as this party's log with it says, and whether an own log still has it.

A head is cosigned seconds after its last entry. A party that was restored from a backup of these seconds finds its
entries missing only by what it has acknowledged to others.

The party that asks names the newest message of the other one that it has signed. Whatever it has acknowledged and not
signed comes after that message in the other log: it had recorded the one before it acknowledged the other. So the
answer does not depend on what was sent since the backup was restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fate_flow.core.record.entry import Kind, log_with, read_entry
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.wire.v1.witnessing import MOST_NUMBERS
from fate_flow.services.record.reading import size_of_epoch
from fate_flow.store.contract.transaction import Transaction

_PAGE, _ALL = 1_000, 1 << 40
_FURTHEST = 20_000          # entries that are looked at for one question
_NEWEST = 8                 # messages that are named whatever else is


Acknowledged = tuple[str, str]
"""The number of a message, and the commitment to its answer; empty: it is not known."""


def newest_signed(tx: Transaction, party_id: str) -> str:
    """Return the number of the newest message of another party that this one has signed; empty if there is none."""
    log = log_with(party_id)
    for epoch in reversed(tx.record_epochs(log)):
        mark = tx.newest_checkpoint(log, epoch)
        for entry in _pages_back(tx, log, epoch, mark.size if mark else 0, _FURTHEST):
            if entry.kind == Kind.RECEIVED:
                return str(_read(entry).get("number"))
    return ""


def acknowledged_by(tx: Transaction, party_id: str, after: str | None = None) -> tuple[Acknowledged, ...]:
    """Return messages that this party has acknowledged, the newest first: those that it may have acknowledged and not
    signed, if `after` is the newest message that it has signed; the last few if that is not said. Of too many,
    the oldest ones and the last few."""
    found: list[Acknowledged] = []
    sent = f'"{after}"'.encode()
    for entry in _backwards(tx, log_with(party_id), _PAGE if after is None else _FURTHEST):
        said = _read(entry)
        if said.get("kind") == Kind.ANSWERED and said.get("acknowledged") is True:
            found.append((str(said.get("number")), str(said.get("answer"))))
        is_there = bool(after) and entry.kind == Kind.SENT and sent in entry.content
        if is_there or (after is None and len(found) == _NEWEST):
            break
    if len(found) > MOST_NUMBERS:
        found = [*found[:_NEWEST], *found[_NEWEST - MOST_NUMBERS :]]
    return tuple(found)


def not_received(tx: Transaction, party_id: str, messages: Iterable[Acknowledged]) -> tuple[str, ...]:
    """Return the numbers of those of these messages of another party that the log with it does not have with this
    answer, nor says that it has lost."""
    wanted = set(messages)
    for entry in _backwards(tx, log_with(party_id), _ALL) if wanted else ():
        said = _read(entry)
        number = str(said.get("number"))
        if said.get("kind") == Kind.RECEIVED:
            wanted -= {(number, str(said.get("answer"))), (number, "")}
        elif said.get("kind") == Kind.EPOCH:
            lost = set(said.get("lost", ()))
            wanted = {one for one in wanted if one[0] not in lost}
        if not wanted:
            break
    return tuple(sorted({number for number, _ in wanted}))


def _backwards(tx: Transaction, log: str, most: int) -> Iterator[StoredEntry]:
    """Yield the entries of all epochs of a log, the newest first; `most`: of those that are sealed."""
    yield from reversed([one for one in tx.unsealed_entries(_ALL) if one.log == log])
    for epoch in reversed(tx.record_epochs(log)):
        size = size_of_epoch(tx, log, epoch)
        yield from _pages_back(tx, log, epoch, size, most)
        most -= min(size, most)


def _pages_back(tx: Transaction, log: str, epoch: int, end: int, most: int) -> Iterator[StoredEntry]:
    """Yield the entries of an epoch below this index, the newest first; at most so many."""
    while end > 0 and most > 0:
        first = max(0, end - min(_PAGE, most))
        page = tx.sealed_entries(log, epoch, first, end - first)
        yield from reversed(page)
        end, most = first, most - (end - first)


def _read(entry: StoredEntry) -> Mapping[str, Any]:
    return read_entry(entry.content) if entry.kind in (Kind.ANSWERED, Kind.RECEIVED, Kind.EPOCH) else {}
