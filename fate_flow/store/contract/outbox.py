"""What every store promises of commands that wait for their answer."""

from __future__ import annotations

from typing import Protocol

from fate_flow.core.model.job import Command


class Outbox(Protocol):
    """Part of `contract.Transaction`."""

    def put_command(self, command: Command, at: int, since: int = 0) -> int:
        """The number of its row; `since` is the steady time."""

    def commands_after(self, command_id: int) -> tuple[Command, ...]: ...

    def commands_before(self, since: int) -> tuple[Command, ...]:
        """Those that were stored before this steady time, in their order."""

    def reports_to(self, party_id: str, limit: int) -> tuple[Command, ...]:
        """The newest so many reports on shares that wait for their way to this initiator, in their order."""

    def take_command(self, command_id: int) -> bool:
        """Remove it; False when somebody has already."""
