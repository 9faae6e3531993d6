"""Evidence against another party: two heads of one of its logs that do not fit together.

What is proof goes into a file, which a third person checks without any server."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.record.checkpoint import Checkpoint, checked_checkpoint, read_checkpoint
from fate_flow.core.record.note import BadNote, Check, Note, decoded, read_note
from fate_flow.core.record.offline.bundle import BadBundle
from fate_flow.core.record.offline.policy import Policy
from fate_flow.core.record.tree import HASH_BYTES, MOST_HASHES, is_consistent

FORMAT = "fate_flow record evidence"
VERSION = 1
_MOST = 10_000


@dataclass(frozen=True)
class Evidence:
    """Two checkpoints of one log that another party has signed, and that do not fit together."""

    party_id: str
    is_proof: bool                   # the log has two pasts; else nobody has shown that the first is a beginning
    origin: str
    size: int                        # of the first one
    first: str                       # the signed note that this party has kept before
    second: str
    at: int                          # milliseconds since 1970
    shown: tuple[bytes, ...] = ()    # of a proof with a larger second one: `TwoPasts.shown`


@dataclass(frozen=True)
class TwoPasts:
    """Two signed heads of one log. `shown`: if the second is larger, the root that its log had at the size of the
    first, and the hashes of the proof (RFC 6962) of that."""

    first: Note
    second: Note
    shown: tuple[bytes, ...] = ()

    @property
    def origin(self) -> str:
        """Return the name of the log."""
        return self.first.text.partition("\n")[0]

    def heads(self, policy: Policy, check: Check) -> tuple[Checkpoint, Checkpoint]:
        """Return what was signed. Raises BadBundle if the log of the policy has not signed both, or if one log could
        have both heads."""
        first, second = (_signed(note, policy, check) for note in (self.first, self.second))
        if not self._differ(first, second):
            raise BadBundle(
                f"log {first.origin}: nothing shows that the head of {first.size} entries is no beginning of the head "
                f"of {second.size}"
            )
        return first, second

    def _differ(self, first: Checkpoint, second: Checkpoint) -> bool:
        if first.origin != second.origin:
            return False
        if first.size == second.size:
            return first.root != second.root
        root, hashes = self.shown[:1], self.shown[1:]
        is_shown = bool(root) and is_consistent(first.size, root[0], second.size, second.root, hashes)
        return is_shown and root[0] != first.root


def _signed(note: Note, policy: Policy, check: Check) -> Checkpoint:
    """One key of the log is enough: who adds a wrong signature of another one has signed all the same."""
    try:
        keys = policy.logs.get(read_checkpoint(note.text).origin, ())
    except BadNote as error:
        raise BadBundle(str(error)) from error
    why = f"the policy has no key for the log {note.text.partition(chr(10))[0]}"
    for key in keys:
        try:
            return checked_checkpoint(note, key, check)
        except BadNote as error:
            why = str(error)
    raise BadBundle(why)


def evidence_text(listed: Iterable[Evidence]) -> str:
    """Return the file with what is proof of it."""
    proofs = [
        {"first": one.first, "second": one.second, **({"shown": shown_texts(one)} if one.shown else {})}
        for one in listed if one.is_proof
    ]  # fmt: skip
    return json.dumps({"format": FORMAT, "version": VERSION, "evidence": proofs}, indent=1, ensure_ascii=False) + "\n"


def shown_texts(one: Evidence) -> list[str]:
    """Return the hashes of what it shows, in base64."""
    return [b64encode(each).decode() for each in one.shown]


def evidence_in(found: Mapping[str, Any]) -> tuple[TwoPasts, ...]:
    """Return what is in a file. Raises BadBundle."""
    listed = found.get("evidence")
    if found.get("version") != VERSION or not isinstance(listed, list) or len(listed) > _MOST:
        raise BadBundle(f"the file is no {FORMAT} of version {VERSION} with a list of at most {_MOST} objects")
    return tuple(_read(f"evidence[{at}]", one) for at, one in enumerate(listed))


def _read(where: str, one: object) -> TwoPasts:
    said = one if isinstance(one, dict) else {}
    first, second = said.get("first"), said.get("second")
    if not isinstance(first, str) or not isinstance(second, str):
        raise BadBundle(f"{where}: needs first and second, both signed notes")
    try:
        return TwoPasts(read_note(first), read_note(second), _hashes(said.get("shown", [])))
    except BadNote as error:
        raise BadBundle(f"{where}: {error}") from error


def _hashes(lines: object) -> tuple[bytes, ...]:
    listed: Sequence[object] = lines if isinstance(lines, list) else [None]
    found = tuple(decoded(line) if isinstance(line, str) else b"" for line in listed)
    if len(found) > MOST_HASHES + 1 or any(len(one) != HASH_BYTES for one in found):
        raise BadNote(f"shown: is no list of at most {MOST_HASHES + 1} hashes of 32 bytes in base64")
    return found
