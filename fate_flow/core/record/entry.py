"""Entries of the record: what one party says has happened, in canonical JSON, as it is hashed and kept for ever.

Each entry has `v` (the version of this form), `kind`, `at` (milliseconds since 1970, by the clock of its party: a
claim), and `job` if it is about one. An entry is in one of two kinds of logs: the party's own log, or the log that it
keeps with one other party (`with/<party id>`), which that party may read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fate_flow.core.record.canonical import MOST_INTEGER, NotCanonical, canonical, read_canonical

VERSION = 1
MOST_BYTES = 65_535              # so that an entry fits the bundles of C2SP's tlog-tiles
OWN_LOG = "own"
_WITH = "with/"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Kind(StrEnum):
    """What an entry is about."""

    STATUS = "status"            # a job, seat, task, share or worker has changed its status (own log)
    ACT = "act"                  # a person or an operator has asked for something (own log)
    QUESTION = "question"        # another party was asked for a client, and has answered (own log)
    REPLIED = "replied"          # another party has asked about a job, and this one has answered (own log)
    DECISION = "decision"        # this party has accepted or refused what another one has asked for (own log)
    REFUSED = "refused"          # how many requests of a caller were refused within a minute (own log)
    REQUESTS = "requests"        # how many requests without entries of their own passed within an hour (own log)
    WORKER = "worker"            # a worker was ordered, or has ended: what it was given and has made (own log)
    EXCHANGE = "exchange"        # what an attempt of a task has got from another seat, or sent to it (own log)
    KEYS = "keys"                # the key list by which others know this party from now on (own log)
    SERVER = "server"            # a server of this party has begun to keep the record, or ended to (own log)
    SEGMENT = "segment"          # entries of a log lie in a file from now on, and no longer in the database (own log)
    SENT = "sent"                # this party has a message for the other one
    ANSWERED = "answered"        # the other party has answered it
    RECEIVED = "received"        # this party has carried out, or refused, a message of the other one, and answers so
    HEAD = "head"                # commits to the head of the own log (log with another party)
    EPOCH = "epoch"              # the log begins anew: an older state was restored, or the root key was replaced


class BadEntry(ValueError):
    """Bytes that are no entry."""


@dataclass(frozen=True)
class NewEntry:
    """An entry that is about to be stored, and what lies beside it."""

    log: str
    content: bytes
    kind: Kind
    at: int
    job_id: str = ""
    salt: str = ""               # hex; of its commitments; empty if it has none
    text: str = ""               # what it commits to as `message`


def log_with(party_id: str) -> str:
    """Return the name of the log that is kept with this other party."""
    return _WITH + party_id


def other_party(log: str) -> str:
    """Return with whom the log is kept; empty for the own log."""
    return log.removeprefix(_WITH) if log.startswith(_WITH) else ""


def log_in(origin: str) -> str:
    """Return which log of its party this is, by its name for everybody: ROOT KEY/LOG/EPOCH."""
    return origin.partition("/")[2].rpartition("/")[0]


def new_entry(
    log: str, kind: Kind, at: int, fields: Mapping[str, Any], *, job_id: str = "", trace: str = "", salt: str = "",
    text: str = "",
) -> NewEntry:  # fmt: skip
    """Return an entry with these fields, without those that are empty; an integer beyond 53 bits is text.

    Raises BadEntry if it is too long, or has a value without a canonical form."""
    said: dict[str, Any] = {}
    for key, value in fields.items():
        if type(value) is str and value.isascii():       # as most are
            if value:
                said[key] = value
        elif value is not None and value != "":
            said[key] = _safe(value)
    if job_id:
        said["job"] = job_id
    if trace:
        said["trace"] = trace
    said["v"], said["kind"], said["at"] = VERSION, kind.value, at
    try:
        content = canonical(said)
    except NotCanonical as error:
        raise BadEntry(f"an entry of kind {kind.value}: {error}") from error
    if len(content) > MOST_BYTES:
        raise BadEntry(f"an entry of kind {kind.value} has {len(content)} bytes, and the most is {MOST_BYTES}")
    return NewEntry(log, content, kind, at, job_id, salt, text)


def _safe(value: Any) -> Any:
    """Return a value with a canonical form for one of another party, such as a version: two large integers may have one
    canonical form, and half a surrogate pair has none."""
    if type(value) is int and not -MOST_INTEGER <= value <= MOST_INTEGER:
        return str(value)
    return value.encode("utf-8", "replace").decode() if type(value) is str and not value.isascii() else value


def read_entry(content: bytes) -> Mapping[str, Any]:
    """Return the fields of an entry. Raises BadEntry. A kind that is not known here is no error: a later release may
    have written it."""
    if len(content) > MOST_BYTES:
        raise BadEntry(f"an entry has at most {MOST_BYTES} bytes")
    try:
        found = read_canonical(content)
    except NotCanonical as error:
        raise BadEntry(str(error)) from error
    if not isinstance(found, dict) or found.get("v") != VERSION:
        raise BadEntry(f"no entry of version {VERSION}")
    if not isinstance(found.get("kind"), str) or not _is_time(found.get("at")):
        raise BadEntry("an entry has a kind, and a time in milliseconds")
    return found


def is_digest(value: object) -> bool:
    """Return whether this is a commitment, as far as its form says."""
    return isinstance(value, str) and bool(_DIGEST.fullmatch(value))


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
