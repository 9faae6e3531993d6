"""Entries as people see them: what an entry says, its place, and what lies beside it.

The server makes them from rows; in an answer to a client they are JSON, from which the client makes them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fate_flow.core.record.entry import BadEntry, other_party, read_entry
from fate_flow.core.record.log import StoredEntry

_NOT_READABLE = {"kind": "not readable", "at": 0}


@dataclass(frozen=True)
class There:
    """What the log of the other party has of the message of an entry: its place, and when, by the clock there.
    `is_agreed`: both entries commit to the same request and answer."""

    party_id: str
    epoch: int
    index: int
    at: int
    is_agreed: bool


@dataclass(frozen=True)
class ShownEntry:
    """`epoch` is 0, and `index` -1, until the entry is sealed. `person`: the name of who is meant by a random id; empty
    if nobody is, or if it is not known any more. `text`: what the entry commits to; empty if it was erased. `of`: the
    party in whose log it is; empty: in that of this party. `there`: None if no other log was looked at, or if it has
    nothing of this."""

    log: str
    epoch: int
    index: int
    content: str
    said: Mapping[str, Any]
    person: str = ""
    text: str = ""
    of: str = ""
    there: There | None = None

    @property
    def kind(self) -> str:
        return str(self.said["kind"])

    @property
    def job_id(self) -> str:
        """What it is about; empty if it is about no job."""
        return str(self.said.get("job", ""))

    @property
    def at(self) -> int:
        return int(self.said["at"])

    @property
    def other(self) -> str:
        """With which party its log is kept; empty for the own log."""
        return other_party(self.log)

    def as_document(self) -> dict[str, Any]:
        """Return its form in JSON."""
        person = {"person": self.person} if "who" in self.said else {}
        other = {**({"of": self.of} if self.of else {}), **({"there": asdict(self.there)} if self.there else {})}
        return {
            "log": self.log, "epoch": self.epoch or None, "index": self.index if self.epoch else None,
            "entry": self.content, **person, **({"text": self.text} if self.text else {}), **other,
        }  # fmt: skip


Position = Mapping[str, tuple[int, int]]
"""How far somebody has read, by log: the epoch and the index of the next entry. A log that is not named is read from
its beginning."""


@dataclass(frozen=True)
class Followed:
    """Entries that were sealed after a position, those of each log in its order. `position`: where to go on;
    `has_more`: at once, since there are more entries than these. `beyond`: the logs that end before the position, with
    where they end: they have lost entries, and are followed from there on."""

    entries: tuple[ShownEntry, ...]
    position: Position
    has_more: bool = False
    beyond: Position = field(default_factory=dict)

    def as_document(self) -> dict[str, Any]:
        """Return its form in JSON."""
        return {
            "entries": [one.as_document() for one in self.entries], "position": position_document(self.position),
            "has_more": self.has_more, "beyond": position_document(self.beyond),
        }  # fmt: skip


def read_followed(document: Mapping[str, Any]) -> Followed:
    """Return the page in an answer of a server. Raises KeyError, TypeError or ValueError for another document."""
    entries = tuple(read_shown(one) for one in document["entries"])
    beyond = read_position(document.get("beyond", {}))      # older servers do not say it
    return Followed(entries, read_position(document["position"]), document["has_more"] is True, beyond)


def read_position(document: object) -> Position:
    """Return the position in a document. Raises ValueError, with its key, for another document."""
    if not isinstance(document, Mapping):
        raise ValueError("is not an object with logs as keys")
    return {str(log): _place(str(log), place) for log, place in document.items()}


def position_document(position: Position) -> dict[str, list[int]]:
    """Return the form in JSON of a position."""
    return {log: list(place) for log, place in position.items()}


def _place(log: str, place: object) -> tuple[int, int]:
    if isinstance(place, list) and len(place) == 2 and all(type(one) is int and 0 <= one < 2**53 for one in place):
        return place[0], place[1]
    raise ValueError(f"{log}: is not a list of an epoch and an index")


def shown_entry(one: StoredEntry, person: str = "") -> ShownEntry:
    content = one.content.decode("utf-8", "replace")
    return ShownEntry(one.log, one.epoch, one.index, content, _said(one.content), person, one.text)


def read_shown(document: Mapping[str, Any]) -> ShownEntry:
    """Return the entry in an answer of a server. Raises KeyError, or TypeError, for another document."""
    content, index, there = str(document["entry"]), document["index"], document.get("there")
    return ShownEntry(
        str(document["log"]), int(document["epoch"] or 0), -1 if index is None else int(index), content,
        _said(content.encode()), str(document.get("person", "")), str(document.get("text", "")),
        str(document.get("of", "")), None if there is None else There(**there),
    )  # fmt: skip


def _said(content: bytes) -> Mapping[str, Any]:
    """Return the fields of an entry; one that cannot be read says only that."""
    try:
        return read_entry(content)
    except BadEntry:
        return _NOT_READABLE
