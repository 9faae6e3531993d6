"""Other parties that are invited alone, so that a test sees each step of the way of a job."""

from __future__ import annotations

from fate_flow.core.wire.v1.job_bodies import is_ahead
from fate_flow.store.contract.transaction import Transaction


def drop_what_goes_ahead(tx: Transaction) -> None:
    """Drop the commands that would go in one request with `create`, as the sender to a party does that takes one
    command at a time."""
    for one in tx.commands_after(0):
        if is_ahead(one.body):
            tx.take_command(one.id)
