"""Signed notes (C2SP signed-note v1): a text, and lines with signatures over it. Keys are handed in.

A key of a note has a name and an id of four bytes, which only says which key to try. A signature of a key that the
reader does not know is ignored; one of a known key that does not hold makes the whole note worthless.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import sha256

ED25519, COSIGNATURE = 0x01, 0x04
"""The types of signatures: over the note, and over the note with the time at which a witness saw it."""

KEY_BYTES, SIGNATURE_BYTES, _ID_BYTES = 32, 64, 4
MOST_SIGNATURES = 64
LONGEST_NOTE = 100_000           # bytes
_MARK = "\u2014 "
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f]")
_SURROGATE = re.compile("[\ud800-\udfff]")       # half a pair, which has no bytes
_NAME = re.compile(r"[^\s+]+")

Sign = Callable[[bytes], bytes]
Check = Callable[[bytes, bytes, bytes], bool]
"""Returns whether the Ed25519 key (32 bytes) has signed the text, with this signature."""


class BadNote(ValueError):
    """The text is no signed note, or one that must not be believed."""


@dataclass(frozen=True)
class NoteKey:
    """The public key of a signer of notes."""

    name: str
    key: bytes                   # the 32 bytes of an Ed25519 key
    kind: int = ED25519          # of the signatures that it makes

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or _CONTROL.search(self.name) or len(self.key) != KEY_BYTES:
            raise BadNote(f"{self.name!r}: a name without spaces and '+', and a key of 32 bytes are needed")
        if self.kind not in (ED25519, COSIGNATURE):
            raise BadNote(f"signatures of type {self.kind:#x} are not known here")

    @property
    def key_id(self) -> bytes:
        return sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.key).digest()[:_ID_BYTES]

    def text(self) -> str:
        """Return the key as a line of text (a *vkey*), which C2SP's tools read."""
        return f"{self.name}+{self.key_id.hex()}+{b64encode(bytes([self.kind]) + self.key).decode()}"


def read_note_key(text: str) -> NoteKey:
    """Read a vkey. Raises BadNote."""
    parts = text.strip().split("+", 2)
    raw = decoded(parts[2]) if len(parts) == 3 else b""
    if len(raw) != 1 + KEY_BYTES:
        raise BadNote(f"{text[:200]!r} is no key NAME+ID+BASE64 of type 1 or 4")
    key = NoteKey(parts[0], raw[1:], raw[0])
    if key.key_id.hex() != parts[1]:
        raise BadNote(f"{text[:200]!r}: the key has the id {key.key_id.hex()}, not {parts[1][:20]!r}")
    return key


@dataclass(frozen=True)
class Signature:
    """A line below a note. `content`: the bytes after the id of the key; for a cosignature the time comes first."""

    name: str
    key_id: bytes
    content: bytes

    def line(self) -> str:
        return f"{_MARK}{self.name} {b64encode(self.key_id + self.content).decode()}\n"


@dataclass(frozen=True)
class Note:
    """A text that ends with a line feed, and its signatures."""

    text: str
    signatures: tuple[Signature, ...] = ()

    def __str__(self) -> str:
        return f"{self.text}\n" + "".join(one.line() for one in self.signatures)

    def with_signatures(self, more: Iterable[Signature]) -> Note:
        """Return the note with these signatures, too, each once."""
        return replace(self, signatures=tuple(dict.fromkeys([*self.signatures, *more])))

    def of(self, key: NoteKey) -> tuple[Signature, ...]:
        """Return the signatures that say they are of this key."""
        return tuple(one for one in self.signatures if (one.name, one.key_id) == (key.name, key.key_id))


def check_text(text: str) -> str:
    """Return the text of a note. Raises BadNote if it does not end with a line feed, or has another control
    character, or half a surrogate pair."""
    if not text.endswith("\n") or not _has_bytes(text):
        raise BadNote("the text of a note ends with a line feed, and has no other control characters")
    return text


def sign_note(text: str, key: NoteKey, sign: Sign) -> Note:
    """Return the text signed by this key. Raises BadNote."""
    return Note(check_text(text), (Signature(key.name, key.key_id, sign(text.encode())),))


def _has_bytes(text: str) -> bool:
    """Return whether a note may have these characters. JSON can have text that no bytes of UTF-8 stand for."""
    return not _CONTROL.search(text) and (text.isascii() or not _SURROGATE.search(text))


def read_note(text: str) -> Note:
    """Read a note, and check no signature. Raises BadNote."""
    if len(text) > LONGEST_NOTE or not _has_bytes(text) or not text.endswith("\n"):
        raise BadNote(
            "a note has at most 100,000 characters, ends with a line feed, and has no control characters and no "
            "half of a surrogate pair"
        )
    body, found, below = text.rpartition("\n\n")
    lines = below.splitlines(keepends=True) if found else []
    if not lines or len(lines) > MOST_SIGNATURES:
        raise BadNote(f"a note has an empty line, and 1 to {MOST_SIGNATURES} signatures below it")
    return Note(body + "\n", read_signatures(below))


def read_signatures(text: str) -> tuple[Signature, ...]:
    """Read lines with signatures. Raises BadNote."""
    return tuple(_signature(line) for line in text.split("\n")[:-1]) if text.endswith("\n") else _refuse(text)


def _signature(line: str) -> Signature:
    name, _, encoded = line.removeprefix(_MARK).partition(" ")
    raw = decoded(encoded)
    if not line.startswith(_MARK) or not _NAME.fullmatch(name) or len(raw) <= _ID_BYTES:
        _refuse(line)
    return Signature(name, raw[:_ID_BYTES], raw[_ID_BYTES:])


def _refuse(text: str) -> tuple[Signature, ...]:
    raise BadNote(f"{text[:200]!r} is no line with a signature")


def check_note(note: Note, key: NoteKey, check: Check) -> None:
    """Check that this key has signed the note. Raises BadNote."""
    found = note.of(key)
    if not found:
        raise BadNote(f"the note has no signature of {key.name} ({key.key_id.hex()})")
    text = note.text.encode()
    if not all(len(one.content) == SIGNATURE_BYTES and check(key.key, text, one.content) for one in found):
        raise BadNote(f"the note has a signature of {key.name} ({key.key_id.hex()}) that does not hold")


def decoded(text: str) -> bytes:
    """Return the bytes of canonical base64; none if it is anything else."""
    try:
        raw = b64decode(text, validate=True)
    except (Error, ValueError):
        return b""
    return raw if b64encode(raw).decode() == text else b""
