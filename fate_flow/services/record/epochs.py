"""The next epoch of a log: it begins anew when an older state of this party was restored from a backup.

What this party has signed after the backup is not here any more, and others hold it. To go on in that log would mean
to sign two pasts. So nothing more of it is signed, and a new log begins, whose first entry says why.

A log also begins anew when the root key is replaced, which is in its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.record.checkpoint import Checkpoint
from fate_flow.core.record.entry import Kind, is_digest, new_entry
from fate_flow.core.record.log import Head, next_batch
from fate_flow.store.contract.transaction import Transaction

_ALL = 1 << 40
LOST = "an older state of this party was restored"


@dataclass(frozen=True)
class Ended:
    """What the first entry of an epoch says of the one before: with which size and root it has ended."""

    epoch: int
    size: int
    root: bytes


def ended_in(first: Mapping[str, Any]) -> Ended | None:
    """Return what the first entry of an epoch says of the one before; None if it says nothing that can be read."""
    said = first.get("ended") if first.get("kind") == Kind.EPOCH else None
    if not isinstance(said, dict):
        return None
    epoch, size, root = said.get("epoch"), said.get("size"), said.get("root")
    if type(epoch) is not int or type(size) is not int or size < 0 or not is_digest(root):
        return None
    return Ended(epoch, size, bytes.fromhex(str(root)))


def open_next_epoch(
    tx: Transaction, log: str, at: int, reason: str, theirs: Checkpoint | None = None, their_epoch: int = 0,
    lost: Sequence[str] = (),
) -> int:  # fmt: skip
    """Begin the log anew, and return the number of its new epoch. `theirs`: the head that another party holds of it;
    `lost`: numbers of messages that the other party has seen acknowledged, and that are not here.

    The number is made of the clock, in seconds: a state that was restored twice does not find the same one again."""
    head = tx.record_head(log)
    number = max(head.epoch + 1, their_epoch + 1, at // 1000)
    if not tx.open_epoch(head, number):
        return head.epoch            # somebody else has moved the log on: the caller looks again
    fields = {
        "ended": {"epoch": head.epoch, "size": head.size, "root": head.edge.root.hex()},
        "theirs": {"epoch": their_epoch, "size": theirs.size, "root": theirs.root.hex()} if theirs else None,
        "reason": reason, "lost": list(lost) or None,
    }  # fmt: skip
    tx.add_to_record([new_entry(log, Kind.EPOCH, at, fields)])
    first = [one for one in tx.unsealed_entries(_ALL) if (one.log, one.kind) == (log, Kind.EPOCH)][-1]
    tx.seal(Head(log, number), next_batch(Head(log, number), [first], at))
    return number
