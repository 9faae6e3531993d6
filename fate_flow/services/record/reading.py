"""Reading the record for people: the entries about a job, and those that have some features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.record.entry import other_party
from fate_flow.core.record.log import StoredEntry
from fate_flow.core.record.shown import ShownEntry, shown_entry
from fate_flow.store.contract.transaction import Transaction

PAGE = 1_000


@dataclass(frozen=True)
class Wanted:
    """The features of the entries that are searched for; an empty one fits every entry.

    `party`: with which the log is kept, or which the entry is about; `person`: a name; `status`: a change to it;
    `since` and `until`: milliseconds since 1970; `digest`: a commitment, a message number, the id of a trace, or what
    else the entry or the text beside it has, such as the digest of a model."""

    party: str = ""
    person: str = ""
    kind: str = ""
    status: str = ""
    since: int = 0
    until: int = 0
    digest: str = ""

    def has(self, one: ShownEntry) -> bool:
        said: Mapping[str, Any] = one.said
        return (
            (not self.party or other_party(one.log) == self.party or _is_about(said, self.party))
            and (not self.person or one.person == self.person)
            and (not self.kind or one.kind == self.kind)
            and (not self.status or said.get("new") == self.status)
            and one.at >= self.since
            and (not self.until or one.at < self.until)
            and (not self.digest or self.digest in one.text or _has(said, self.digest))
        )


def _is_about(said: Mapping[str, Any], party_id: str) -> bool:
    """Return whether an entry names this party, by its id or by a seat of it, such as `host 10000`."""
    named = (said.get(key) for key in ("party", "seat", "other"))
    return any(isinstance(one, str) and one.rpartition(" ")[2] == party_id for one in named)


def _has(value: object, wanted: str) -> bool:
    """Return whether this is the text, or has it, however deep."""
    if isinstance(value, Mapping):
        return any(_has(one, wanted) for one in value.values())
    return any(_has(one, wanted) for one in value) if isinstance(value, (list, tuple)) else value == wanted


@dataclass(frozen=True)
class Page:
    """Some entries, and after which id of an entry the search goes on; None: it is over. `last`: the id of the last
    entry that was looked at."""

    entries: tuple[ShownEntry, ...]
    after: int | None
    last: int


def entries_of_job(tx: Transaction, job_id: str) -> tuple[ShownEntry, ...]:
    """Return the entries about a job, in the order of writing."""
    return tuple(shown(tx, tx.record_of_job(job_id)))


def size_of(tx: Transaction, log: str) -> int:
    """Return how many sealed entries a log has in all its epochs."""
    return sum(size_of_epoch(tx, log, epoch) for epoch in {*tx.record_epochs(log), tx.record_head(log).epoch})


def size_of_epoch(tx: Transaction, log: str, epoch: int) -> int:
    """Return how many sealed entries an epoch of a log has, whether they are signed or not."""
    head = tx.record_head(log)
    return head.size if head.epoch == epoch else tx.epoch_size(log, epoch)


def sealed_in(tx: Transaction, log: str, epoch: int) -> Iterator[StoredEntry]:
    """Yield the sealed entries of an epoch of a log, in the order of their indexes."""
    first, page = 0, tx.sealed_entries(log, epoch, 0, PAGE)
    while page:
        yield from page
        first += len(page)
        page = tx.sealed_entries(log, epoch, first, PAGE) if len(page) == PAGE else ()


def search(tx: Transaction, wanted: Wanted, after: int = 0, most: int = PAGE) -> Page:
    """Look at the next entries, in the order of writing, at most at so many of them."""
    found = tx.record_after(after, most)
    entries = tuple(one for one in shown(tx, found) if wanted.has(one))
    last = found[-1].id if found else after
    return Page(entries, last if len(found) == most else None, last)


def shown(tx: Transaction, entries: Iterable[StoredEntry]) -> Iterable[ShownEntry]:
    """Yield entries as people see them, with the names of who is meant."""
    names: dict[str, str] = {}
    for one in entries:
        found = shown_entry(one)
        who = str(found.said.get("who", ""))
        if who and who not in names:
            names[who] = tx.person_name(who)
        yield shown_entry(one, names[who]) if who else found
