"""Which signatures somebody asks for before he believes a proof (C2SP tlog-policy): keys of logs and of witnesses, and
how many of which witnesses have to have cosigned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fate_flow.core.record.checkpoint import cosigned_at
from fate_flow.core.record.entry import other_party
from fate_flow.core.record.note import COSIGNATURE, ED25519, BadNote, Check, Note, NoteKey, read_note_key

NOBODY = "none"
_ALL, _ANY = "all", "any"


@dataclass(frozen=True)
class Policy:
    """The keys that count, and the witnesses that have to have cosigned."""

    logs: Mapping[str, tuple[NoteKey, ...]] = field(default_factory=dict)   # by origin; several if one was replaced
    witnesses: Mapping[str, NoteKey] = field(default_factory=dict)          # by the name in the policy
    groups: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)     # how many of which
    quorum: str = NOBODY                                                    # a witness, a group, or `none`

    def cosigners(self, note: Note, check: Check) -> Mapping[str, int]:
        """Return the witnesses that have cosigned, and when, in seconds since 1970. Raises BadNote for a cosignature
        of one of them that does not hold."""
        found = {name: cosigned_at(note, key, check) for name, key in self.witnesses.items()}
        return {name: at for name, at in found.items() if at is not None}

    def suffices(self, names: Mapping[str, int], wanted: str = "", log: str = "") -> bool:
        """Return whether these witnesses are enough. That party alone can be a witness of a log with one other party,
        so there one member of each group is enough."""
        wanted = wanted or self.quorum
        if wanted in (NOBODY, *names):
            return True
        if wanted not in self.groups:
            return False
        least, members = self.groups[wanted]
        return sum(self.suffices(names, one, log) for one in members) >= (1 if other_party(log) else least)


def read_policy(text: str) -> Policy:
    """Read a policy; `#` begins a comment. Raises BadNote with the number of the line."""
    logs: dict[str, tuple[NoteKey, ...]] = {}
    witnesses: dict[str, NoteKey] = {}
    groups: dict[str, tuple[int, tuple[str, ...]]] = {}
    quorum = ""
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.partition("#")[0].split()
        known = {*witnesses, *groups}
        try:
            match parts:
                case []:
                    continue
                case ["log", key] | ["log", key, _]:
                    found = _key(key, ED25519)
                    logs[found.name] = (*logs.get(found.name, ()), found)
                case ["witness", name, key] | ["witness", name, key, _]:
                    witnesses[_new(name, known)] = _key(key, COSIGNATURE)
                case ["group", name, least, *members] if members:
                    groups[_new(name, known)] = (_least(least, members), _known(members, known))
                case ["quorum", name] if not quorum:
                    quorum = name if name == NOBODY else _known([name], known)[0]
                case _:
                    raise BadNote("is not log KEY, witness NAME KEY, group NAME N MEMBER... or the one quorum NAME")
        except BadNote as error:
            raise BadNote(f"line {number}: {error}") from error
    return Policy(logs, witnesses, groups, quorum or NOBODY)


def _key(text: str, kind: int) -> NoteKey:
    found = read_note_key(text)
    if found.kind != kind:
        raise BadNote(f"the key of {found.name} is of type {found.kind}, and {kind} is needed")
    return found


def _new(name: str, known: set[str]) -> str:
    if name in known or name == NOBODY:
        raise BadNote(f"the name {name} is used before")
    return name


def _known(names: list[str], known: set[str]) -> tuple[str, ...]:
    for name in names:
        if name not in known:
            raise BadNote(f"there is no witness or group {name} above")
    return tuple(names)


def _least(text: str, members: list[str]) -> int:
    least = {_ALL: len(members), _ANY: 1}.get(text, int(text) if text.isascii() and text.isdecimal() else 0)
    if not 1 <= least <= len(members):
        raise BadNote(f"{text} is not all, any or a number of 1 to {len(members)}")
    return least
