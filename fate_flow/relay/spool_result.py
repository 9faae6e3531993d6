"""The answers of the spool: a chunk was stored or found, or why not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fate_flow.relay.channel_files import Message
from fate_flow.relay.spool_session import Session


@dataclass(frozen=True)
class Stored:
    """The spool has the chunk; `new` is false if it had it before."""

    new: bool


class Problem(Enum):
    """Why the spool refuses."""

    NOT_STARTED = "not_started"  # the session is not open here yet, or no longer known
    GONE = "gone"                # the session has ended
    STRANGER = "stranger"        # no such party in this task
    SKIPPED = "skipped"          # the number is not the next one
    DIFFERENT = "different"      # the chunk with this number has other bytes
    TOO_LARGE = "too_large"      # the chunk is too large
    BACKLOG = "backlog"          # the reader is too far behind
    FULL = "full"                # the spool or the disk is full


@dataclass(frozen=True)
class Refusal:
    """A refusal of the spool; the message names the wrong value."""

    problem: Problem
    message: str


PutResult = Stored | Refusal
GetResult = Message | Refusal | None


def gone(session: Session) -> Refusal:
    return Refusal(Problem.GONE, f"session {session}: has ended")


def skipped(seq: int, following: int) -> Refusal:
    return Refusal(Problem.SKIPPED, f"seq: {seq} skips numbers, {following} is the next of this topic")
