"""Commands, in memory; the counterpart of `sql/outbox.py`."""

from __future__ import annotations

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import Command, CommandKind
from fate_flow.store.memory.tables import as_json
from fate_flow.store.memory.unit import MemoryUnitOfWork


class Outbox(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def put_command(self, command: Command, at: int, since: int = 0) -> int:  # noqa: ARG002
        number = next(self._rows.command_ids)
        self._rows.outbox.put(number, changed(command, body=as_json(command.body), id=number, attempts=0, since=since))
        return number

    def commands_after(self, command_id: int) -> tuple[Command, ...]:
        outbox = self._rows.outbox.rows
        return tuple(outbox[number] for number in sorted(number for number in outbox if number > command_id))

    def commands_before(self, since: int) -> tuple[Command, ...]:
        return tuple(one for one in self.commands_after(0) if one.since < since)

    def reports_to(self, party_id: str, limit: int) -> tuple[Command, ...]:
        found = (one for one in self.commands_after(0) if one.to.party_id == party_id)
        return tuple(one for one in found if one.kind is CommandKind.REPORT)[-limit:]

    def take_command(self, command_id: int) -> bool:
        return self._rows.outbox.drop(command_id)
