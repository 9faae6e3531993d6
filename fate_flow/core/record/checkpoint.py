"""Checkpoints (C2SP tlog-checkpoint) and the cosignatures of witnesses (cosignature/v1): what somebody has signed about
a log at one size.

The word of the log: it has so many entries, with this root. The word of a witness: at this time, by its clock, it had
seen no larger one, and all that it had seen before are beginnings of this one.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from dataclasses import dataclass

from fate_flow.core.record.note import (
    COSIGNATURE,
    SIGNATURE_BYTES,
    BadNote,
    Check,
    Note,
    NoteKey,
    Sign,
    Signature,
    check_note,
    check_text,
    decoded,
)
from fate_flow.core.record.tree import EMPTY_ROOT, HASH_BYTES, MOST_SIZE

_TIME_BYTES = 8
_MOST_TIME = 2**63 - 1
LONGEST_ORIGIN = 255


@dataclass(frozen=True)
class Checkpoint:
    """The size and root of a log. `origin` names the log; `extensions`: lines that others may add, not interpreted."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the text of its note. Raises BadNote."""
        lines = [self.origin, str(self.size), b64encode(self.root).decode(), *self.extensions]
        if not all(lines) or any("\n" in line for line in lines) or len(self.origin) > LONGEST_ORIGIN:
            raise BadNote("the lines of a checkpoint are not empty, and an origin has at most 255 characters")
        return check_text("".join(f"{line}\n" for line in lines))


def read_checkpoint(text: str) -> Checkpoint:
    """Read the text of a note. Raises BadNote."""
    lines = text.split("\n")[:-1] if text.endswith("\n") else []
    if len(lines) < 3 or not all(lines) or len(lines[0]) > LONGEST_ORIGIN:
        raise BadNote("a checkpoint has an origin, a size, a root, and no empty line")
    root = decoded(lines[2])
    if len(root) != HASH_BYTES:
        raise BadNote("the third line of a checkpoint is a root of 32 bytes in base64")
    found = Checkpoint(lines[0], read_count(lines[1]), root, tuple(lines[3:]))
    if found.size == 0 and root != EMPTY_ROOT:
        raise BadNote("a log without entries has another root")
    return found


def read_count(text: str) -> int:
    """Return a decimal number without leading zeros. Raises BadNote."""
    if not text.isascii() or not text.isdecimal() or text != str(int(text[:20])) or int(text) > MOST_SIZE:
        raise BadNote(f"{text[:40]!r} is not a number of entries")
    return int(text)


def checked_checkpoint(note: Note, key: NoteKey, check: Check) -> Checkpoint:
    """Return the checkpoint that this key has signed under its own name, the origin of the log. Raises BadNote."""
    found = read_checkpoint(note.text)
    if found.origin != key.name:
        raise BadNote(f"the checkpoint is of {found.origin}, not of {key.name}")
    check_note(note, key, check)
    return found


def cosign(note: Note, key: NoteKey, at: int, sign: Sign) -> Signature:
    """Return the cosignature of a witness; `at` is in seconds since 1970, by its clock. Raises BadNote."""
    if key.kind != COSIGNATURE or not 0 <= at <= _MOST_TIME:
        raise BadNote("a witness has a key of type 4, and its time is in seconds since 1970")
    return Signature(key.name, key.key_id, struct.pack(">Q", at) + sign(_cosigned(at, note.text)))


def cosigned_at(note: Note, key: NoteKey, check: Check) -> int | None:
    """Return when this witness has cosigned the note, the newest time if it did so repeatedly; None if it did not.

    Raises BadNote if the note has a cosignature of the witness that does not hold."""
    times = [_checked_time(note, key, one, check) for one in note.of(key)]
    return max(times, default=None)


def _checked_time(note: Note, key: NoteKey, one: Signature, check: Check) -> int:
    if len(one.content) == _TIME_BYTES + SIGNATURE_BYTES:
        (at,) = struct.unpack(">Q", one.content[:_TIME_BYTES])
        if at <= _MOST_TIME and check(key.key, _cosigned(at, note.text), one.content[_TIME_BYTES:]):
            return int(at)
    raise BadNote(f"the note has a cosignature of {key.name} ({key.key_id.hex()}) that does not hold")


def _cosigned(at: int, text: str) -> bytes:
    return f"cosignature/v1\ntime {at}\n{text}".encode()
