"""The store contract for commands that wait for their answer."""

from __future__ import annotations

from typing import Protocol

from fate_flow.core.model.job import Command


class Outbox(Protocol):
    """Part of `contract.Transaction`."""

    def put_command(self, command: Command, at: int, since: int = 0) -> int:
        """Store a command and return the id of its row; `since` is the steady time."""

    def commands_after(self, command_id: int) -> tuple[Command, ...]: ...

    def commands_before(self, since: int) -> tuple[Command, ...]:
        """Return the commands that were stored before this steady time, in order."""

    def reports_to(self, party_id: str, limit: int) -> tuple[Command, ...]:
        """Return the newest `limit` reports on shares that wait to be sent to this initiator, in order."""

    def take_command(self, command_id: int) -> bool:
        """Remove a command; False if it is removed already."""
