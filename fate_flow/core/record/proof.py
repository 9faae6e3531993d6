"""Texts that carry proofs: of one entry in a log (C2SP tlog-proof v1), and what a log sends to its witness
(`add-checkpoint` of tlog-witness)."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass

from fate_flow.core.record.checkpoint import Checkpoint, read_checkpoint, read_count
from fate_flow.core.record.commitment import opens
from fate_flow.core.record.entry import Kind, read_entry
from fate_flow.core.record.note import BadNote, Note, decoded, read_note
from fate_flow.core.record.tree import HASH_BYTES, MOST_HASHES, includes, leaf_hash

_FIRST = "c2sp.org/tlog-proof@v1"
LONGEST_PROOF = 200_000


@dataclass(frozen=True)
class EntryProof:
    """That an entry is in a log at this index, up to a checkpoint with its signatures. Nobody has signed `extra`."""

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: Note
    extra: bytes | None = None

    def __str__(self) -> str:
        extra = [] if self.extra is None else [f"extra {b64encode(self.extra).decode()}"]
        lines = [_FIRST, *extra, f"index {self.index}", *map(_encoded, self.hashes)]
        return "\n".join(lines) + f"\n\n{self.checkpoint}"

    def shows(self, content: bytes) -> bool:
        """Return whether the checkpoint's log has these bytes at the index. That somebody has signed the checkpoint is
        not checked here. Raises BadNote."""
        head = read_checkpoint(self.checkpoint.text)
        return includes(leaf_hash(content), self.index, head.size, self.hashes, head.root)


@dataclass(frozen=True)
class ProvedEntry:
    """An entry and its proof. `salt` and `text` open its commitment to a message; empty: it stays closed."""

    content: bytes
    proof: EntryProof
    salt: str = ""
    text: str = ""

    @property
    def origin(self) -> str:
        """Return the name of its log."""
        return self.proof.checkpoint.text.partition("\n")[0]


@dataclass(frozen=True)
class Anchor:
    """What anchors the own log of a party for a third person: no party cosigns that log, but its heads are committed to
    in the logs with other parties, which those cosign. `entry` commits to a head; `hashes` show that it is a beginning
    of the head by which entries of the own log are proved."""

    entry: ProvedEntry
    hashes: tuple[bytes, ...]


def committed_head(content: bytes, salt: str, text: str) -> Checkpoint | None:
    """Return the head of the own log that an entry commits to, as salt and text open it; None if they do not."""
    try:
        said = read_entry(content)
        digest = said.get("own") if said["kind"] == Kind.HEAD else None
        if isinstance(digest, str) and opens(digest, "own", bytes.fromhex(salt), text.encode()):
            return read_checkpoint(text)
    except ValueError:
        pass
    return None


def read_entry_proof(text: str) -> EntryProof:
    """Raises BadNote."""
    head, note = _halves(text)
    first, *lines = head
    extra = None
    if lines and lines[0].startswith("extra "):
        encoded = lines.pop(0).removeprefix("extra ")
        extra = decoded(encoded)
        if encoded and not extra:
            raise BadNote("extra: is not base64")
    if first != _FIRST or not lines or not lines[0].startswith("index "):
        raise BadNote(f"a proof begins with {_FIRST} and an index")
    return EntryProof(read_count(lines[0].removeprefix("index ")), _hashes(lines[1:]), note, extra)


@dataclass(frozen=True)
class NewCheckpoint:
    """A newer checkpoint for a witness, and the proof that the one of size `old` is its beginning."""

    old: int
    hashes: tuple[bytes, ...]
    checkpoint: Note

    def __str__(self) -> str:
        return "\n".join([f"old {self.old}", *map(_encoded, self.hashes)]) + f"\n\n{self.checkpoint}"


def read_new_checkpoint(text: str) -> NewCheckpoint:
    """Raises BadNote."""
    head, note = _halves(text)
    if not head[0].startswith("old "):
        raise BadNote("the message to a witness begins with `old` and a size")
    return NewCheckpoint(read_count(head[0].removeprefix("old ")), _hashes(head[1:]), note)


def _halves(text: str) -> tuple[list[str], Note]:
    head, found, note = text.partition("\n\n")
    if not found or len(text) > LONGEST_PROOF:
        raise BadNote("an empty line and a checkpoint are missing, or the text is too long")
    return head.split("\n"), read_note(note)


def _encoded(one: bytes) -> str:
    return b64encode(one).decode()


def _hashes(lines: list[str]) -> tuple[bytes, ...]:
    found = tuple(decoded(line) for line in lines)
    if len(found) > MOST_HASHES or any(len(one) != HASH_BYTES for one in found):
        raise BadNote(f"a proof has at most {MOST_HASHES} lines, each with 32 bytes in base64")
    return found
