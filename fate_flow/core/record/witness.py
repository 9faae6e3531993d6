"""What a witness says to a new checkpoint of a log (`add-checkpoint` of C2SP tlog-witness): nothing but the checkpoint
that it has cosigned last decides."""

from __future__ import annotations

from enum import Enum

from fate_flow.core.record.checkpoint import Checkpoint
from fate_flow.core.record.proof import NewCheckpoint
from fate_flow.core.record.tree import EMPTY_ROOT, is_consistent


def witness_name(root: str) -> str:
    """Return the name by which a party cosigns. `root`: the fingerprint of its root key."""
    return f"{root}/witness"


class Seen(Enum):
    """What a witness sees in a new checkpoint; by value, the status of its answer."""

    CONTINUES = 200              # it is cosigned
    MALFORMED = 400              # it is smaller than what it should continue
    STALE = 409                  # it continues another one than the newest
    OTHER_ROOT = 4090            # it has the size of the newest one, and another root: its log has two pasts
    INCONSISTENT = 422           # the proof does not show that the newest one is its beginning

    @property
    def status(self) -> int:
        return 409 if self is Seen.OTHER_ROOT else self.value


def seen_in(said: NewCheckpoint, new: Checkpoint, kept: Checkpoint | None) -> Seen:
    """Compare a new checkpoint, whose signature holds, with the newest one of its log that was cosigned here."""
    size, root = (kept.size, kept.root) if kept else (0, EMPTY_ROOT)
    if new.size == size and new.root != root:
        return Seen.OTHER_ROOT
    if said.old > new.size:
        return Seen.MALFORMED
    if said.old != size:
        return Seen.STALE
    if not is_consistent(size, root, new.size, new.root, said.hashes):
        return Seen.INCONSISTENT
    return Seen.CONTINUES
