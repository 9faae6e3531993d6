"""Verifying all logs of a party, and how far the own log is anchored.

Other parties cosign the logs with them alone. They hold the own log by the commitments to its head in these logs: an
entry that is cosigned and opens to a head of the own log says that this head was there at the time of the cosignature.

If others were asked what they hold now, that counts as well: a log that does not begin with it is broken. What they say
that this party has acknowledged is their word alone, so it changes no result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fate_flow.core.model.errors import TooLarge
from fate_flow.core.record.checkpoint import Checkpoint, read_checkpoint
from fate_flow.core.record.commitment import opens
from fate_flow.core.record.entry import OWN_LOG, Kind, log_with, read_entry
from fate_flow.core.record.log import Head, StoredEntry
from fate_flow.core.record.note import BadNote
from fate_flow.core.record.tree import root_of
from fate_flow.core.text.phrases import counted
from fate_flow.core.wire.v1.witnessing import Held
from fate_flow.services.record.acknowledged import not_received
from fate_flow.services.record.asking import HeldNow, held_epochs
from fate_flow.services.record.checkpoints import origin_of, sealed_hashes
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
    """Verify each epoch of each log, in the order of their names. `now`: what other parties said before this
    transaction; None: they were not asked."""
    found = [
        verify_log(tx, head, epoch, keys)
        for head in tx.record_heads() for epoch in sorted({*tx.record_epochs(head.log), head.epoch})
    ]  # fmt: skip
    if now is not None and keys is not None:
        for party_id, held in now.heard.items():
            found = _with_held(tx, found, party_id, held, keys, now.at)
    anchored = [one for one in found if one.log != OWN_LOG and one.state is State.ANCHORED]
    return [_with_anchor(tx, one, anchored, keys) if one.log == OWN_LOG and keys else one for one in found]


def _with_held(
    tx: Transaction, reports: Sequence[LogReport], party_id: str, held: Held, keys: Keys, at: int
) -> list[LogReport]:  # fmt: skip
    """Return the reports with what a party says that it holds now. An earlier epoch may be behind that: the next one
    says so in its first entry."""
    log = log_with(party_id)
    checkpoints = dict(held_epochs(held, party_id, keys.root, keys.own, keys.check))
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
    elif root_of(sealed_hashes(tx, Head(one.log, one.epoch), 0, theirs.size)) != theirs.root:
        broken_at, why = min(one.anchored_to, theirs.size - 1), f"{held}, with another root"
    if why:
        return replace(one, state=State.BROKEN, broken_at=broken_at, why=why) if is_present else one
    if not theirs.size or theirs.size < one.anchored_to:
        return one
    return replace(one, state=State.ANCHORED, anchored_to=theirs.size, anchored_by=party_id, anchored_at=at)


def _said_to_be_lost(tx: Transaction, party_id: str, held: Held) -> str:
    """Return what a party says is missing here; empty if nothing. No signature of this party is on these numbers."""
    lost = not_received(tx, party_id, held.acknowledged)
    if not lost:
        return ""
    messages = counted(len(lost), "message")
    return f"party {party_id} says that this party has acknowledged {messages} of it that the log does not have"


def _with_anchor(tx: Transaction, own: LogReport, others: list[LogReport], keys: Keys) -> LogReport:
    """Return the report of the own log with the largest of its heads that a cosigned commitment opens to."""
    if own.state is State.BROKEN:
        return own
    origin, found = origin_of(keys.root, OWN_LOG, own.epoch), own
    for other in others:
        head = _newest_commitment(tx, other, origin)
        if head is None:
            continue
        held = f"party {other.anchored_by} holds a head of {head.size} entries"
        if head.size > own.size:
            return replace(own, state=State.BROKEN, broken_at=own.size, why=f"{held}, and {own.size} are there")
        if root_of(sealed_hashes(tx, Head(OWN_LOG, own.epoch), 0, head.size)) != head.root:
            return replace(own, state=State.BROKEN, broken_at=0, why=f"{held} with another root")
        if head.size > found.anchored_to:
            found = replace(
                found, state=State.ANCHORED, anchored_to=head.size, anchored_by=other.anchored_by,
                anchored_at=other.anchored_at,
            )  # fmt: skip
    return found


def _newest_commitment(tx: Transaction, log: LogReport, origin: str) -> Checkpoint | None:
    """Return the head of the own log that the last cosigned entry of its kind opens to; None if there is none, or if
    what it commits to was erased."""
    end = log.anchored_to
    while end > 0:
        first = max(0, end - _PAGE)
        page = tx.sealed_entries(log.log, log.epoch, first, end - first)
        for entry in reversed(page):
            if entry.kind == Kind.HEAD and (head := _opened(entry)) and head.origin == origin:
                return head
        end = first
    return None


def _opened(entry: StoredEntry) -> Checkpoint | None:
    digest = read_entry(entry.content).get("own")
    try:
        if isinstance(digest, str) and opens(digest, "own", bytes.fromhex(entry.salt), entry.text.encode()):
            return read_checkpoint(entry.text)
    except (ValueError, BadNote):
        pass
    return None
