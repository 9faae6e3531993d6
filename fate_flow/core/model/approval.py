"""Whether a party wants to look at jobs of others before it takes part in them, and what it has said."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Approval(Enum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Consent:
    """What a party has said to a job; it is about its document, so every run of the job has it."""

    approval: Approval
    by: str = ""
    message: str = ""
    time: int = 0
    digest: str = ""         # of the document that was decided about

    @property
    def is_given(self) -> bool:
        return self.approval is Approval.APPROVED

    def is_of(self, digest: str) -> bool:
        """Whether a job with this document is approved."""
        return self.is_given and self.digest == digest

    @property
    def text(self) -> str:
        return f"{self.approval.value} by {self.by}" + (f": {self.message}" if self.message else "")


@dataclass(frozen=True)
class ApprovalRule:
    """Which jobs a party wants to approve."""

    required: bool = False
    except_from: frozenset[str] = frozenset()      # ids of parties whose jobs need none

    def asks(self, initiator: str, own: str) -> bool:
        """Whether a job of this party has to be approved; the own ones never."""
        return self.required and initiator != own and initiator not in self.except_from


SHORT_DIGEST = 32
"""Hex digits of a document's digest that name it for people. Nobody finds two documents that share so many: who writes
both, as the initiator of a job does, would find two that share 16."""


def is_digest_of(given: str, digest: str) -> bool:
    """Whether somebody who names a document so means this one."""
    return len(given) >= SHORT_DIGEST and digest.startswith(given)


AWAITS = "awaits"
APPROVAL = "approval"
"""In the data of an answer: `awaits: approval`, the party has not decided yet."""

APPROVED = "approved"
"""In the data of an answer: by whom of the party the job was approved, and why."""

IS_REJECTED = "is_rejected"
"""In the data of an answer: the party has decided against the job."""
