"""What an approval of one person changes, where a party wants two different people to approve."""

from __future__ import annotations

from dataclasses import replace

from fate_flow.core.access.recorded_names import client_in
from fate_flow.core.model.approval import Approval, ApprovalRule, Consent


def joint_consent(rule: ApprovalRule, known: Consent, given: Consent) -> Consent:
    """Return the party's decision after `given`, the decision of one person; `known` itself if that changes nothing.

    Any one person rejects. If two people have to approve, the first approval is kept in a decision that stays pending.
    It does not count for another document, and the same client counts once, whatever name it gives."""
    if rule.people == 1 or given.approval is not Approval.APPROVED:
        return given
    if known.is_of(given.digest):
        return known
    if not known.is_first or known.digest != given.digest:
        return replace(given, approval=Approval.PENDING)
    first, second = client_in(known.by), client_in(given.by)
    if first == second:
        return known
    message = "; ".join(filter(None, (known.message, given.message)))
    return replace(given, by=f"{first} and {second}", message=message)
