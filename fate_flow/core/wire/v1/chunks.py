"""The query of a chunk for a worker: of `exchange/deliver` between servers, and of a worker's push to its own server.

All values of a query are text. Each reader raises BadRequest for a missing or wrong value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fate_flow.core.access.bound_document import check_document_name
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_topic, shown

_NUMBER = re.compile(r"[0-9]{1,18}")
_FLAG = re.compile(r"[01]")


@dataclass(frozen=True)
class Chunk:
    """One part of a message; its bytes are the body of the request."""

    topic: str
    seq: int                  # counts the chunks of the topic between two parties
    is_last: bool             # whether the message ends with it
    document: str = ""        # the document of the sending party (`bound_document.py`); empty: it names none

    def as_query(self) -> dict[str, str | int]:
        query: dict[str, str | int] = {"topic": self.topic, "seq": self.seq, "last": int(self.is_last)}
        return {**query, "document": self.document} if self.document else query


def read_chunk(query: Mapping[str, str]) -> Chunk:
    topic, seq, last = topic_in(query), number_in(query, "seq"), value_in(query, "last")
    if not _FLAG.fullmatch(last):
        raise BadRequest(f"last: {shown(last)} is not 0 or 1")
    return Chunk(topic, seq, last == "1", check_document_name(value_in(query, "document", ""), "document"))


def value_in(query: Mapping[str, str], key: str, default: str | None = None) -> str:
    value = query.get(key, default)
    if value is None:
        raise BadRequest(f"{key}: is missing")
    return value


def topic_in(query: Mapping[str, str]) -> str:
    return check_topic(value_in(query, "topic"))


def number_in(query: Mapping[str, str], key: str, default: str | None = None) -> int:
    value = value_in(query, key, default)
    if not _NUMBER.fullmatch(value):
        raise BadRequest(f"{key}: {shown(value)} is not a whole number")
    return int(value)
