"""Verifying all logs of a party, and how far the own log is anchored.

Other parties cosign the logs with them alone. They hold the own log by the commitments to its head in these logs: an
entry that is cosigned and opens to a head of the own log says that this head was there at the time of the cosignature.
So it is seen if the own log is gone as a whole. An epoch that is gone, or has lost its end, is seen by the next one,
whose first entry says with which size and root it has ended.

If others were asked what they hold now, that counts as well: a log that does not begin with it is broken. What they say
that this party has acknowledged is their word alone, so it changes no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import merge

from fate_flow.core.model.errors import TooLarge
from fate_flow.core.record.checkpoint import Checkpoint
from fate_flow.core.record.entry import OWN_LOG, BadEntry, Kind, log_with, read_entry
from fate_flow.core.record.log import Head
from fate_flow.core.record.note import BadNote
from fate_flow.core.record.proof import committed_head
from fate_flow.core.record.tree import Edge
from fate_flow.core.text.phrases import counted
from fate_flow.core.wire.v1.witnessing import Held
from fate_flow.services.record.acknowledged import not_received
from fate_flow.services.record.asking import HeldNow, held_epochs
from fate_flow.services.record.checkpoints import edge_at, place_in
from fate_flow.services.record.epochs import Ended, ended_in
from fate_flow.services.record.reading import size_of
from fate_flow.services.record.verifying import Keys, LogReport, State, verify_log
from fate_flow.store.contract.transaction import Transaction

MOST_VERIFIED = 200_000
"""Entries that a request verifies: it holds a thread of the server meanwhile."""

_PAGE = 1_000


def verify_for_request(tx: Transaction, keys: Keys | None, now: HeldNow | None = None) -> list[LogReport]:
    """Verify all logs, unless that takes too long for a request. Raise TooLarge."""
    size = sum(size_of(tx, one.log) for one in tx.record_heads())
    if size > MOST_VERIFIED:
        raise TooLarge(
            f"the record has {size} entries, and a request verifies at most {MOST_VERIFIED}: "
            "use fate_flow audit verify on the machine of the server"
        )
    return verify_all(tx, keys, now)


def verify_all(tx: Transaction, keys: Keys | None, now: HeldNow | None = None) -> list[LogReport]:
    """Verify each epoch of each log, in the order of their names, and report those that are gone. `now`: what other
    parties said before this transaction; None: they were not asked."""
    found = [
        verify_log(tx, head, epoch, keys)
        for head in tx.record_heads() for epoch in sorted({*tx.record_epochs(head.log), head.epoch})
    ]  # fmt: skip
    if now is not None and keys is not None:
        for party_id, held in now.heard.items():
            found = _with_held(tx, found, party_id, held, keys, now.at)
    found = _with_ends(tx, found)
    if keys is not None:
        found = _with_commitments(tx, found)
    return sorted(found, key=lambda one: (one.log, one.epoch))


def _with_ends(tx: Transaction, reports: Sequence[LogReport]) -> list[LogReport]:
    """Return the reports, with those epochs broken that have not ended as the next one says in its first entry."""
    found = {(one.log, one.epoch): one for one in reports}
    for later in reports:
        ended = _ended_before(tx, later)
        if ended is None or not ended.size:
            continue
        place = later.log, ended.epoch
        one = found.get(place) or LogReport(*place, 0, State.CONSISTENT)
        if one.state is not State.BROKEN and (why := _other_end(tx, one, ended)):
            broken_at = min(one.size, ended.size) if one.size != ended.size else one.signed_to
            why = f"epoch {later.epoch} says that this one has ended with {why}"
            one = replace(one, state=State.BROKEN, broken_at=broken_at, why=why)
        found[place] = one
    return list(found.values())


def _ended_before(tx: Transaction, report: LogReport) -> Ended | None:
    """Return what the first entry of an epoch says of the one before; None also if that entry is not right itself."""
    first = tx.sealed_entries(report.log, report.epoch, 0, 1) if report.broken_at != 0 else ()
    try:
        return ended_in(read_entry(first[0].content)) if first else None
    except BadEntry:
        return None


def _other_end(tx: Transaction, one: LogReport, ended: Ended) -> str:
    """Return what is said of the end of an epoch that is not so; empty if all is."""
    size = counted(ended.size, "entry", "entries")
    if one.size != ended.size:
        return f"{size}, and {one.size or 'none'} are there"
    return "" if edge_at(tx, Head(one.log, one.epoch), one.size).root == ended.root else f"{size} with another root"


def _with_held(
    tx: Transaction, reports: Sequence[LogReport], party_id: str, held: Held, keys: Keys, at: int
) -> list[LogReport]:  # fmt: skip
    """Return the reports with what a party says that it holds now. An earlier epoch may be behind that: the next one
    says so in its first entry."""
    log = log_with(party_id)
    checkpoints = dict(held_epochs(held, party_id, keys.own, keys.check))
    present = max((one.epoch for one in reports if one.log == log), default=0)
    found = []
    for one in reports:
        theirs = checkpoints.pop(one.epoch, None) if one.log == log else None
        if theirs is not None and one.state is not State.BROKEN:
            one = _compared(tx, one, theirs, party_id, at, is_present=one.epoch == present)
        if one.log == log and one.epoch == present and one.state is not State.BROKEN:
            one = replace(one, warning=_said_to_be_lost(tx, party_id, held))
        found.append(one)
    for epoch, theirs in sorted(checkpoints.items()):
        if epoch > present and theirs.size:
            why = f"party {party_id} holds {theirs.size} entries of this epoch now, and none are there"
            found.append(LogReport(log, epoch, 0, State.BROKEN, 0, why))
    return found


def _compared(
    tx: Transaction, one: LogReport, theirs: Checkpoint, party_id: str, at: int, *, is_present: bool
) -> LogReport:  # fmt: skip
    held = f"party {party_id} holds {theirs.size} entries of it now"
    broken_at, why = -1, ""
    if theirs.size > one.size:
        broken_at, why = one.size, f"{held}, and {one.size} are there"
    elif edge_at(tx, Head(one.log, one.epoch), theirs.size).root != theirs.root:
        broken_at, why = min(one.anchored_to, theirs.size - 1), f"{held}, with another root"
    if why:
        return replace(one, state=State.BROKEN, broken_at=broken_at, why=why) if is_present else one
    if not theirs.size or theirs.size < one.anchored_to:
        return one
    return replace(one, state=State.ANCHORED, anchored_to=theirs.size, anchored_by=party_id, anchored_at=at)


def _said_to_be_lost(tx: Transaction, party_id: str, held: Held) -> str:
    """Return what a party says is missing here; empty if nothing. No signature of this party is on these numbers."""
    lost = not_received(tx, party_id, held.messages())
    if not lost:
        return ""
    messages = counted(len(lost), "message")
    return f"party {party_id} says that this party has acknowledged {messages} of it that the log does not have"


def _with_commitments(tx: Transaction, reports: Sequence[LogReport]) -> list[LogReport]:
    """Return the reports, those of the own log with the largest of its heads that a cosigned commitment opens to.

    Every commitment counts, also an older one: whoever has made the own log anew may have committed to it since."""
    found = {(one.log, one.epoch): one for one in reports}
    others = [one for one in reports if one.log != OWN_LOG and one.state is State.ANCHORED]
    edge, edge_of = Edge(), 0
    for epoch, head, other in merge(*(_commitments(tx, one) for one in others), key=_place_of):
        own = found.get((OWN_LOG, epoch)) or LogReport(OWN_LOG, epoch, 0, State.CONSISTENT)
        if own.state is State.BROKEN or not head.size:
            continue
        before = edge if epoch == edge_of and edge.size <= head.size else Edge()
        edge, edge_of = edge_at(tx, Head(OWN_LOG, epoch), head.size, before), epoch
        found[OWN_LOG, epoch] = _held_to(own, head, edge, before.size, other)
    return list(found.values())


def _held_to(own: LogReport, head: Checkpoint, edge: Edge, before: int, other: LogReport) -> LogReport:
    """`edge`: of the own log at this head, as it is here; `before`: the size of a smaller head that fits."""
    held = f"party {other.anchored_by} holds a head of {counted(head.size, 'entry', 'entries')}"
    if head.size > own.size:
        why = f"{held}, and {own.size or 'none'} are there"
        return replace(own, state=State.BROKEN, broken_at=own.size, why=why)
    if edge.root != head.root:
        broken_at = min(before, head.size - 1)
        return replace(own, state=State.BROKEN, broken_at=broken_at, why=f"{held} with another root")
    if head.size <= own.anchored_to:
        return own
    return replace(
        own, state=State.ANCHORED, anchored_to=head.size, anchored_by=other.anchored_by, anchored_at=other.anchored_at
    )


def _commitments(tx: Transaction, log: LogReport) -> Iterator[tuple[int, Checkpoint, LogReport]]:
    """Yield the heads of the own log that cosigned entries of a log open to, with their epochs, in order. An entry is
    left out if what it commits to was erased."""
    for first in range(0, log.anchored_to, _PAGE):
        for entry in tx.sealed_entries(log.log, log.epoch, first, min(_PAGE, log.anchored_to - first)):
            head = committed_head(entry.content, entry.salt, entry.text) if entry.kind == Kind.HEAD else None
            if head is not None and (epoch := _own_epoch(head.origin)):
                yield epoch, head, log


def _place_of(found: tuple[int, Checkpoint, LogReport]) -> tuple[int, int]:
    return found[0], found[1].size


def _own_epoch(origin: str) -> int:
    """Return which epoch of the own log this is the name of; 0 if it is none."""
    try:
        _, log, epoch = place_in(origin)
    except BadNote:
        return 0
    return epoch if log == OWN_LOG else 0
