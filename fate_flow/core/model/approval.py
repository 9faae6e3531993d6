"""Approval: whether a party must approve another party's job before it takes part, and its decision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Approval(Enum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Consent:
    """A party's decision about a job. It is about the job's document, so it applies to every run of the job.

    A pending one has in `by` the first of two people who have to approve, once that one has."""

    approval: Approval
    by: str = ""
    message: str = ""
    time: int = 0
    digest: str = ""         # of the document that the decision is about

    @property
    def is_given(self) -> bool:
        return self.approval is Approval.APPROVED

    def is_of(self, digest: str) -> bool:
        """Return whether the document with this digest is approved."""
        return self.is_given and self.digest == digest

    @property
    def is_first(self) -> bool:
        """Return whether this is the approval of the first of two people."""
        return self.approval is Approval.PENDING and bool(self.by)

    @property
    def text(self) -> str:
        done = "approved, as the first of two people," if self.is_first else self.approval.value
        return f"{done} by {self.by}" + (f": {self.message}" if self.message else "")


@dataclass(frozen=True)
class ApprovalRule:
    """Which jobs need this party's approval."""

    required: bool = False
    except_from: frozenset[str] = frozenset()      # ids of parties whose jobs need no approval
    people: int = 1                                # how many different people have to approve: 1 or 2

    def asks(self, initiator: str, own: str) -> bool:
        """Return whether a job of this initiator needs approval; the party's own jobs never do."""
        return self.required and initiator != own and initiator not in self.except_from


SHORT_DIGEST = 32
"""How many hex digits of a document's digest name it for people. 32 digits (128 bits) are safe against an initiator
who looks for two documents with the same ones; with 16 digits such a pair could be found."""


def is_digest_of(given: str, digest: str) -> bool:
    """Return whether `given`, a digest or its first digits, names the document with this digest."""
    return len(given) >= SHORT_DIGEST and digest.startswith(given)
