"""A bundle: entries of one party's logs with their proofs, in one file, which a third person checks without any server.

Nobody has signed the bundle itself. What counts are the signatures in its proofs, by the keys of the reader's policy.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from fate_flow.core.record.checkpoint import Checkpoint, checked_checkpoint, read_checkpoint
from fate_flow.core.record.commitment import opens
from fate_flow.core.record.entry import BadEntry, log_in, read_entry
from fate_flow.core.record.note import BadNote, Check, decoded
from fate_flow.core.record.offline.policy import Policy
from fate_flow.core.record.proof import Anchor, ProvedEntry, committed_head, read_entry_proof
from fate_flow.core.record.tree import MOST_HASHES, is_consistent
from fate_flow.core.text.strict_json import read_strict_json

FORMAT = "fate_flow record bundle"
VERSION = 1
LONGEST_BUNDLE = 256 << 20       # bytes
_MOST_ANCHORS = 1_000


class BadBundle(ValueError):
    """The file is no bundle."""


@dataclass(frozen=True)
class Bundle:
    """What a file has. `anchors`: of the own log of the party."""

    entries: tuple[ProvedEntry, ...]
    anchors: tuple[Anchor, ...] = ()


@dataclass(frozen=True)
class CheckedEntry:
    """What the signatures of a proof say about an entry."""

    origin: str
    index: int
    fields: Mapping[str, Any]
    text: str                    # which the entry commits to; empty if the bundle does not open it
    cosigned: Mapping[str, int]  # by witness: when, in seconds since 1970
    is_enough: bool              # for the policy


def bundle_text(entries: Sequence[ProvedEntry], anchors: Sequence[Anchor] = ()) -> str:
    """Return the file."""
    document = {
        "format": FORMAT, "version": VERSION, "entries": [_document(one) for one in entries],
        "anchors": [
            {**_document(one.entry), "consistency": [b64encode(hashed).decode() for hashed in one.hashes]}
            for one in anchors
        ],
    }  # fmt: skip
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _document(one: ProvedEntry) -> dict[str, Any]:
    opened = {"salt": one.salt, "text": one.text} if one.salt and one.text else {}
    return {"entry": one.content.decode(), "proof": str(one.proof), **opened}


def document_in(text: str) -> Mapping[str, Any]:
    """Return the object of JSON that a file has. Raises BadBundle."""
    try:
        found = read_strict_json(text)
    except (ValueError, RecursionError) as error:
        raise BadBundle(f"the file is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadBundle("the file is no object of JSON")
    return found


def read_bundle(text: str) -> Bundle:
    """Raises BadBundle."""
    return bundle_in(document_in(text))


def bundle_in(found: Mapping[str, Any]) -> Bundle:
    """Raises BadBundle."""
    if (found.get("format"), found.get("version")) != (FORMAT, VERSION):
        raise BadBundle(f"the file is not a {FORMAT} of version {VERSION}")
    listed, anchors = found.get("entries"), found.get("anchors", [])
    if not isinstance(listed, list):
        raise BadBundle("entries: is not a list")
    if not isinstance(anchors, list):
        raise BadBundle("anchors: is not a list")
    if len(anchors) > _MOST_ANCHORS:
        raise BadBundle(f"anchors: has more than {_MOST_ANCHORS}")
    return Bundle(
        tuple(_read(f"entries[{number}]", one) for number, one in enumerate(listed)),
        tuple(_read_anchor(f"anchors[{number}]", one) for number, one in enumerate(anchors)),
    )


def _read(where: str, one: object) -> ProvedEntry:
    texts = {key: one.get(key, "") if isinstance(one, dict) else None for key in ("entry", "proof", "salt", "text")}
    if not all(isinstance(value, str) for value in texts.values()):
        raise BadBundle(f"{where}: needs entry and proof, and may have salt and text, all of them text")
    try:
        content = str(texts["entry"]).encode()
        return ProvedEntry(content, read_entry_proof(str(texts["proof"])), str(texts["salt"]), str(texts["text"]))
    except (BadNote, UnicodeEncodeError) as error:
        raise BadBundle(f"{where}: {error}") from error


def _read_anchor(where: str, one: object) -> Anchor:
    entry = _read(where, one)
    lines = one.get("consistency") if isinstance(one, dict) else None
    if not isinstance(lines, list) or len(lines) > MOST_HASHES or not all(isinstance(line, str) for line in lines):
        raise BadBundle(f"{where}: needs consistency, a list of at most {MOST_HASHES} hashes in base64")
    return Anchor(entry, tuple(decoded(line) for line in lines))


def check_bundle(bundle: Bundle, policy: Policy, check: Check) -> tuple[CheckedEntry, ...]:
    """Check all proofs. Whoever has cosigned an anchor vouches for the entries of the own log up to the head that it
    commits to. Raises BadBundle if one does not hold, or if no log of the policy has signed it."""
    check = cache(check)         # most entries have the same checkpoint
    anchors = [_check_anchor(f"anchors[{at}]", one, policy, check) for at, one in enumerate(bundle.anchors)]
    return tuple(_anchored(one, check_entry(one, policy, check), anchors, policy) for one in bundle.entries)


def _check_anchor(where: str, one: Anchor, policy: Policy, check: Check) -> _Held:
    opened = committed_head(one.entry.content, one.entry.salt, one.entry.text)
    if opened is None:
        raise BadBundle(f"{where}: is no entry that commits to a head, with the salt and the text that open it")
    if opened.origin.partition("/")[0] != one.entry.origin.partition("/")[0]:
        raise BadBundle(f"{where}: a log of {one.entry.origin} anchors no other party's {opened.origin}")
    checked = check_entry(replace(one.entry, salt="", text=""), policy, check)
    return _Held(where, opened, one.hashes, checked.cosigned)


@dataclass(frozen=True)
class _Held:
    """A head of the own log that witnesses hold."""

    where: str
    head: Checkpoint
    hashes: tuple[bytes, ...]
    cosigned: Mapping[str, int]


def _anchored(
    one: ProvedEntry, found: CheckedEntry, anchors: Sequence[_Held], policy: Policy
) -> CheckedEntry:  # fmt: skip
    """Return the entry with those who hold it by an anchor."""
    cosigned = dict(found.cosigned)
    for anchor in anchors:
        if anchor.head.origin != found.origin or found.index >= anchor.head.size:
            continue
        whole = read_checkpoint(one.proof.checkpoint.text)
        if not is_consistent(anchor.head.size, anchor.head.root, whole.size, whole.root, anchor.hashes):
            raise BadBundle(f"{anchor.where}: its head is no beginning of the log that entry {found.index} is in")
        for name, at in anchor.cosigned.items():
            cosigned[name] = max(at, cosigned.get(name, at))
    return replace(found, cosigned=cosigned, is_enough=policy.suffices(cosigned, log=log_in(found.origin)))


def check_entry(one: ProvedEntry, policy: Policy, check: Check) -> CheckedEntry:
    """Check the proof of an entry. Raises BadBundle if it does not hold, or if no log of the policy has signed it."""
    note, origin = one.proof.checkpoint, one.origin
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
    is_enough = policy.suffices(cosigned, log=log_in(origin))
    return CheckedEntry(origin, one.proof.index, fields, one.text, cosigned, is_enough)


def _is_opened(one: ProvedEntry, fields: Mapping[str, Any]) -> bool:
    digest = fields.get("message")
    try:
        return isinstance(digest, str) and opens(digest, "message", bytes.fromhex(one.salt), one.text.encode())
    except ValueError:
        return False
