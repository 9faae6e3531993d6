"""Verifying a stored log: whether its entries are those that were sealed and signed, and which is the first that is
not.

What lies in one database can be written anew as a whole, by whoever has the keys. So a log in which everything fits is
only *consistent in itself*; it is *anchored* up to where another party has cosigned it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fate_flow.core.record.checkpoint import checked_checkpoint, cosigned_at
from fate_flow.core.record.commitment import opens
from fate_flow.core.record.log import Head, StoredCheckpoint, StoredEntry
from fate_flow.core.record.note import BadNote, Check, Note, NoteKey, read_note
from fate_flow.core.record.tree import Edge, leaf_hash
from fate_flow.services.record.checkpoints import origin_of, place_in, sealed_hashes
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.segment_files import DamagedSegment

_PAGE = 1_000


class State(StrEnum):
    """How far a log can be relied on."""

    ANCHORED = "anchored"                # another party has cosigned it
    CONSISTENT = "consistent in itself"  # nobody else vouches for it
    BROKEN = "broken"


@dataclass(frozen=True)
class LogReport:
    """What verifying one log has found."""

    log: str
    epoch: int
    size: int
    state: State
    broken_at: int = -1                  # the index of the first entry that is wrong, or that follows what is right
    why: str = ""
    signed_to: int = 0                   # the largest checkpoint of the party itself
    anchored_to: int = 0                 # the largest checkpoint that another party has cosigned
    anchored_by: str = ""                # a party id, or the name of a witness, which begins with a letter
    anchored_at: int = 0                 # seconds since 1970, by the clock of the other party
    warning: str = ""                    # what another party says of it and cannot prove

    @property
    def who_anchors(self) -> str:
        """Return who has cosigned it, for people: `party 10000`, or `witness NAME` of the configuration."""
        return f"{'party' if self.anchored_by.isdecimal() else 'witness'} {self.anchored_by}"

    def as_document(self) -> dict[str, Any]:
        """Return its form in JSON."""
        broken_at = self.broken_at if self.state is State.BROKEN else None
        return {
            "log": self.log, "epoch": self.epoch, "size": self.size, "state": self.state.value, "broken_at": broken_at,
            "why": self.why, "signed_to": self.signed_to, "anchored_to": self.anchored_to,
            "anchored_by": self.anchored_by, "anchored_at": self.anchored_at or None,
            "warning": self.warning,
        }  # fmt: skip


@dataclass(frozen=True)
class Keys:
    """The public keys that count: of the party's own logs, and of other parties as witnesses, by party id."""

    root: str                            # fingerprint of the own root key, with which new origins begin
    own: Sequence[bytes]                 # Ed25519: the present record key, and those before
    witnesses: Sequence[tuple[str, NoteKey]]
    check: Check


class _Broken(Exception):
    def __init__(self, index: int, why: str) -> None:
        self.index, self.why = index, why
        super().__init__(why)


def verify_log(tx: Transaction, head: Head, epoch: int, keys: Keys | None) -> LogReport:
    """Read all entries of an epoch of a log, and check them. `head`: of its newest epoch. `keys`: None: no signature is
    checked, and nothing counts as signed."""
    signed: list[tuple[Edge, StoredCheckpoint, Note]] = []
    edge = Edge()
    marks = list(tx.checkpoints(head.log, epoch))
    try:
        for leaves in _leaves(tx, head, epoch, [mark.size for mark in marks]):
            edge = edge.with_leaves(leaves)
            while marks and marks[0].size == edge.size:
                mark = marks.pop(0)
                signed.append((edge, mark, _checked(mark, edge, head.log, epoch, keys, signed)))
        _check_end(head, epoch, edge, marks)
        by, size, at = _anchor(signed, keys)
    except DamagedSegment as damaged:
        first = max(damaged.segment.first, edge.size)
        return LogReport(head.log, epoch, edge.size, State.BROKEN, first, damaged.why, _last(signed))
    except _Broken as broken:
        return LogReport(head.log, epoch, edge.size, State.BROKEN, broken.index, broken.why, _last(signed))
    state = State.ANCHORED if by else State.CONSISTENT
    return LogReport(head.log, epoch, edge.size, state, -1, "", _last(signed), size, by, at)


def _leaves(tx: Transaction, head: Head, epoch: int, ends: Sequence[int]) -> Iterator[tuple[bytes, ...]]:
    """Yield the leaf hashes in order, in parts that end at these sizes. Raises _Broken at the first entry that is
    missing, or is not what was sealed; the part before it has been yielded."""
    first, of_epoch, left = 0, Head(head.log, epoch), deque(ends)
    while True:
        part: list[bytes] = []
        page = tx.sealed_entries(head.log, epoch, first, _PAGE)
        hashes = sealed_hashes(tx, of_epoch, first, _PAGE)
        for place, entry in enumerate(page):
            if why := _objection(entry, first + place, hashes[place] if place < len(hashes) else None):
                yield tuple(part)
                raise _Broken(first + place, why)
            part.append(hashes[place])
            if left and left[0] == entry.index + 1:
                left.popleft()
                yield tuple(part)
                part.clear()
        yield tuple(part)
        if len(hashes) > len(page):
            raise _Broken(first + len(page), "the entry is missing")
        if len(page) < _PAGE:
            return
        first += _PAGE


def _objection(entry: StoredEntry, index: int, sealed: bytes | None) -> str:
    """Return why this is not the entry that was sealed at this index; empty if it is. What lies beside the entry, by
    which it is found, has to be what the entry says. Its bytes are not put into canonical form again."""
    if entry.index != index:
        return "the entry is missing"
    if sealed is None:
        return "no batch has sealed the entry"
    if leaf_hash(entry.content) != sealed:
        return "the entry is not what was sealed"
    try:
        said = json.loads(entry.content)
        found = (said["kind"], said["at"], said.get("job", ""))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "the entry cannot be read"
    if found != (entry.kind, entry.at, entry.job_id):
        return "kind, time or job beside the entry are not what it says"
    digest = said.get("message")
    if digest and entry.salt and entry.text and not _is_text_of(digest, entry):
        return "the text beside the entry is not what it commits to"
    return ""


def _is_text_of(digest: object, entry: StoredEntry) -> bool:
    try:
        return isinstance(digest, str) and opens(digest, "message", bytes.fromhex(entry.salt), entry.text.encode())
    except ValueError:
        return False


def _checked(
    mark: StoredCheckpoint, edge: Edge, log: str, epoch: int, keys: Keys | None,
    before: Sequence[tuple[Edge, StoredCheckpoint, Note]],
) -> Note:  # fmt: skip
    """Return the note of a checkpoint of this size. Raises _Broken if it says something else than the entries."""
    first = before[-1][0].size if before else 0
    between = f"one of the entries {first} to {edge.size - 1} is not what was signed"
    try:
        note = read_note(mark.note)
        if keys is None:
            return note
        origin = note.text.partition("\n")[0]
        signers = [NoteKey(origin, one) for one in keys.own] if place_in(origin)[1:] == (log, epoch) else []
        key = next((one for one in signers if note.of(one)), None)
        if key is None:
            raise BadNote(f"no record key of this party has signed it as {origin_of(keys.root, log, epoch)}")
        found = checked_checkpoint(note, key, keys.check)
    except BadNote as error:
        raise _Broken(first, f"the checkpoint of {mark.size} entries: {error}") from error
    if (found.size, found.root) != (edge.size, edge.root):
        raise _Broken(first, between)
    return note


def _check_end(head: Head, epoch: int, edge: Edge, marks: Sequence[StoredCheckpoint]) -> None:
    if marks:
        raise _Broken(edge.size, f"{marks[-1].size} entries were signed, and {edge.size} are there")
    if epoch != head.epoch:
        return
    if head.size != edge.size:
        raise _Broken(min(edge.size, head.size), f"the head has {head.size} entries, and {edge.size} are there")
    if head.edge != edge:
        raise _Broken(0, "the head has another tree than the entries")


def _anchor(
    signed: Sequence[tuple[Edge, StoredCheckpoint, Note]], keys: Keys | None
) -> tuple[str, int, int]:  # fmt: skip
    """Return who has cosigned the largest checkpoint that anybody has, its size, and when; ("", 0, 0) if nobody."""
    for edge, mark, note in reversed(signed):
        for party_id, key in keys.witnesses if keys else ():
            try:
                at = cosigned_at(note, key, keys.check) if keys else None
            except BadNote as error:
                raise _Broken(edge.size, f"the checkpoint of {mark.size} entries: {error}") from error
            if at is not None:
                return party_id, edge.size, at
    return "", 0, 0


def _last(signed: Sequence[tuple[Edge, StoredCheckpoint, Note]]) -> int:
    return signed[-1][0].size if signed else 0
