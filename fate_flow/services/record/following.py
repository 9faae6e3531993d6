"""Following the record: the entries that were sealed since a reader looked last, page by page.

Where a reader stands is a place in each log, and not the id of a row: rows of transactions that overlap appear in
another order than their ids, and a reader who remembers the largest id would miss those that appear late.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from fate_flow.core.record.log import Head, StoredEntry
from fate_flow.core.record.shown import Followed, Position
from fate_flow.services.record.reading import PAGE, shown
from fate_flow.store.contract.transaction import Transaction


def newest_position(tx: Transaction) -> Position:
    """Return the end of all logs."""
    return {head.log: (head.epoch, head.size) for head in tx.record_heads()}


def followed(tx: Transaction, position: Position, most: int = PAGE) -> Followed:
    """Return the entries that were sealed after this position, at most so many of all logs together."""
    beyond = beyond_ends(tx, position)
    entries, after = sealed_since(tx, {**position, **beyond}, most)
    return Followed(tuple(shown(tx, entries)), after, len(entries) == most, beyond)


def beyond_ends(tx: Transaction, position: Position) -> Position:
    """Return the logs that end before the position of a reader, with where they end, such as those of a database that
    was restored from a backup."""
    heads = {head.log: head for head in tx.record_heads()}
    ends = {log: _end_before(tx, heads.get(log, Head(log)), place) for log, place in position.items()}
    return {log: end for log, end in ends.items() if end < position[log]}


def _end_before(tx: Transaction, head: Head, place: tuple[int, int]) -> tuple[int, int]:
    """Return this place, or where its epoch ends, or the log, if that is before."""
    epoch, index = place
    if epoch < head.epoch:
        return epoch, min(index, tx.epoch_size(head.log, epoch)) if index else 0
    return min(place, (head.epoch, head.size))


def waiting(tx: Transaction, position: Position) -> int:
    """Return how many entries were sealed after this position."""
    return sum(_size_after(tx, head, position.get(head.log, (0, 0))) for head in tx.record_heads())


def _size_after(tx: Transaction, head: Head, place: tuple[int, int]) -> int:
    epoch, index = place
    if epoch >= head.epoch:
        return max(0, head.size - index) if epoch == head.epoch else 0
    earlier = (one for one in tx.record_epochs(head.log) if epoch <= one < head.epoch)
    sizes = (tx.epoch_size(head.log, one) - (index if one == epoch else 0) for one in earlier)
    return head.size + sum(max(0, one) for one in sizes)


def sealed_since(tx: Transaction, position: Position, most: int) -> tuple[tuple[StoredEntry, ...], Position]:
    """Return the entries that were sealed after this position, and where they end."""
    heads = tx.record_heads()
    after = {head.log: position.get(head.log, (0, 0)) for head in heads}
    logs = [list(_next(tx, head, after[head.log], most)) for head in heads]
    found = tuple(islice(merge(*logs, key=lambda one: one.id), most))
    after.update((one.log, (one.epoch, one.index + 1)) for one in found)
    return found, after


def _next(tx: Transaction, head: Head, place: tuple[int, int], most: int) -> Iterator[StoredEntry]:
    """Yield the next entries of a log, at most so many. Most logs have none, which the head alone says."""
    epoch, index = place
    if place == (head.epoch, head.size):
        return
    for one in tx.record_epochs(head.log) if epoch < head.epoch else (head.epoch,):
        if one >= epoch and most > 0:
            some = tx.sealed_entries(head.log, one, index if one == epoch else 0, most)
            most -= len(some)
            yield from some
