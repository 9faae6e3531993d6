"""A bundle: entries of one party's logs with their proofs, in one file, which a third person checks without any server.

Nobody has signed the bundle itself. What counts are the signatures in its proofs, by the keys of the reader's policy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.record.checkpoint import checked_checkpoint
from fate_flow.core.record.commitment import opens
from fate_flow.core.record.entry import BadEntry, read_entry
from fate_flow.core.record.note import BadNote, Check
from fate_flow.core.record.policy import Policy
from fate_flow.core.record.proof import EntryProof, read_entry_proof
from fate_flow.core.text.strict_json import read_strict_json

FORMAT = "fate_flow record bundle"
VERSION = 1
LONGEST_BUNDLE = 256 << 20       # bytes


class BadBundle(ValueError):
    """The file is no bundle."""


@dataclass(frozen=True)
class ProvedEntry:
    """An entry and its proof. `salt` and `text` open its commitment to a message; empty: it stays closed."""

    content: bytes
    proof: EntryProof
    salt: str = ""
    text: str = ""


@dataclass(frozen=True)
class CheckedEntry:
    """What the signatures of a proof say about an entry."""

    origin: str
    index: int
    fields: Mapping[str, Any]
    text: str                    # which the entry commits to; empty if the bundle does not open it
    cosigned: Mapping[str, int]  # by witness: when, in seconds since 1970
    is_enough: bool              # for the policy


def bundle_text(entries: Sequence[ProvedEntry]) -> str:
    """Return the file."""
    listed = [
        {
            "entry": one.content.decode(), "proof": str(one.proof),
            **({"salt": one.salt, "text": one.text} if one.salt and one.text else {}),
        }
        for one in entries
    ]  # fmt: skip
    return json.dumps({"format": FORMAT, "version": VERSION, "entries": listed}, indent=1, ensure_ascii=False) + "\n"


def read_bundle(text: str) -> tuple[ProvedEntry, ...]:
    """Raises BadBundle."""
    try:
        found = read_strict_json(text)
    except (ValueError, RecursionError) as error:
        raise BadBundle(f"the file is no JSON: {error}") from error
    if not isinstance(found, dict) or (found.get("format"), found.get("version")) != (FORMAT, VERSION):
        raise BadBundle(f"the file is not a {FORMAT} of version {VERSION}")
    listed = found.get("entries")
    if not isinstance(listed, list):
        raise BadBundle("entries: is not a list")
    return tuple(_read(number, one) for number, one in enumerate(listed))


def _read(number: int, one: object) -> ProvedEntry:
    texts = {key: one.get(key, "") if isinstance(one, dict) else None for key in ("entry", "proof", "salt", "text")}
    if not all(isinstance(value, str) for value in texts.values()):
        raise BadBundle(f"entries[{number}]: needs entry and proof, and may have salt and text, all of them text")
    try:
        content = str(texts["entry"]).encode()
        return ProvedEntry(content, read_entry_proof(str(texts["proof"])), str(texts["salt"]), str(texts["text"]))
    except (BadNote, UnicodeEncodeError) as error:
        raise BadBundle(f"entries[{number}]: {error}") from error


def check_entry(one: ProvedEntry, policy: Policy, check: Check) -> CheckedEntry:
    """Check the proof of an entry. Raises BadBundle if it does not hold, or if no log of the policy has signed it."""
    note = one.proof.checkpoint
    origin = note.text.partition("\n")[0]
    keys = policy.logs.get(origin)
    if not keys:
        raise BadBundle(f"the policy has no key for the log {origin}")
    key = next((one for one in keys if note.of(one)), keys[0])
    try:
        checked_checkpoint(note, key, check)
        if not one.proof.shows(one.content):
            raise BadBundle(f"log {origin}, entry {one.proof.index}: the proof is of another entry")
        fields = read_entry(one.content)
        cosigned = policy.cosigners(note, check)
    except (BadNote, BadEntry) as error:
        raise BadBundle(f"log {origin}, entry {one.proof.index}: {error}") from error
    if one.text and not _is_opened(one, fields):
        raise BadBundle(f"log {origin}, entry {one.proof.index}: the text is not what the entry commits to")
    return CheckedEntry(origin, one.proof.index, fields, one.text, cosigned, policy.suffices(cosigned))


def _is_opened(one: ProvedEntry, fields: Mapping[str, Any]) -> bool:
    digest = fields.get("message")
    try:
        return isinstance(digest, str) and opens(digest, "message", bytes.fromhex(one.salt), one.text.encode())
    except ValueError:
        return False
