"""Comparing the log with another party for people: whoever wants to know of contradictions is notified of them."""

from __future__ import annotations

from collections.abc import Callable

from fate_flow.core.record.comparison import Finding
from fate_flow.core.record.note import Check
from fate_flow.services.context.notifying import notify_of_findings
from fate_flow.services.context.ports import Context
from fate_flow.services.record.reconciling import reconcile_file
from fate_flow.store.contract.transaction import Transaction


def reconcile_for_party(
    context: Context, party_id: str, text: str, check: Check, raw_of: Callable[[str], bytes]
) -> tuple[Finding, ...]:  # fmt: skip
    """Compare the log with a party with its file in one transaction, and notify people if somebody is accused. Raises
    what `reconcile_file` raises."""

    def act(tx: Transaction) -> tuple[Finding, ...]:
        found = reconcile_file(tx, context.party_id, party_id, text, check, raw_of, context.clock())
        notify_of_findings(context, tx, party_id, found)
        return found

    return context.write(act)
