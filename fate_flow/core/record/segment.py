"""Segments: entries of a log that lie in a file, and no longer in rows of the database.

A file has one line of JSON for what it is, and one for each entry with its id, and with the salt and the text beside it
unless they were erased. What is not in the file is found in the entry. Leaf hashes stay in the database.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.record.log import StoredEntry

SEGMENT_ENTRIES = 1_024
"""Entries of a segment: a power of two, so that its root is a node of the tree of its log."""

_FORMAT = "fate_flow record segment"
_VERSION = 1


class BadSegment(ValueError):
    """The text is not that of the segment."""


@dataclass(frozen=True)
class Segment:
    """Entries `first` to `end - 1` of an epoch of a log, and the file in which they lie. `digest`: SHA-256 of it, empty
    until it is written."""

    log: str
    epoch: int
    first: int
    end: int
    first_id: int                    # of the entry that was written first
    last_id: int
    newest: int                      # the latest time of an entry, in milliseconds since 1970
    has_texts: bool                  # or salts beside its entries
    digest: str = ""

    @property
    def file(self) -> str:
        """Return the path of its file below the folder of segments."""
        return f"{folder_of(self.log)}/{self.epoch}/{self.first:012d}-{self.digest[:16]}.jsonl.gz"

    def __str__(self) -> str:
        return f"{self.log}, epoch {self.epoch}, entries {self.first} to {self.end - 1}"


def folder_of(log: str) -> str:
    """Return the folder of the files of a log, below that of all segments."""
    return log.replace("/", "-")


def segment_of(entries: Sequence[StoredEntry]) -> Segment:
    """Return the segment of entries that follow each other; its file is not written yet."""
    ids, one = [entry.id for entry in entries], entries[0]
    has_texts = any(entry.salt or entry.text for entry in entries)
    newest = max(entry.at for entry in entries)
    return Segment(one.log, one.epoch, one.index, one.index + len(entries), min(ids), max(ids), newest, has_texts)


def segment_text(segment: Segment, entries: Sequence[StoredEntry]) -> bytes:
    """Return what its file has, before it is compressed."""
    return "".join(map(_line, [_about(segment), *map(_document, entries)])).encode()


def read_segment_text(segment: Segment, text: bytes) -> tuple[StoredEntry, ...]:
    """Return the entries. Raises BadSegment."""
    try:
        about, *lines = [json.loads(line) for line in text.splitlines()]
        found = tuple(_entry(segment, segment.first + place, one) for place, one in enumerate(lines))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadSegment(f"it cannot be read: {error}") from error
    if about != _about(segment) or len(found) != segment.end - segment.first:
        raise BadSegment("it has other entries")
    return found


def _about(segment: Segment) -> dict[str, Any]:
    return {
        "format": _FORMAT, "version": _VERSION, "log": segment.log, "epoch": segment.epoch, "first": segment.first,
        "end": segment.end,
    }  # fmt: skip


def _document(one: StoredEntry) -> dict[str, Any]:
    beside = {"salt": one.salt, "text": one.text}
    return {"id": one.id, "entry": one.content.decode(), **{key: text for key, text in beside.items() if text}}


def _entry(segment: Segment, index: int, one: dict[str, Any]) -> StoredEntry:
    content = str(one["entry"])
    said = json.loads(content)
    return StoredEntry(
        int(one["id"]), segment.log, content.encode(), str(said["kind"]), int(said["at"]), str(said.get("job", "")),
        str(one.get("salt", "")), str(one.get("text", "")), segment.epoch, index,
    )  # fmt: skip


def _line(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n"
