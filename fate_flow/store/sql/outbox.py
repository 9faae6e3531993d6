"""Commands that wait for their answer."""

from __future__ import annotations

from peewee import Value

from fate_flow.core.model.job import Command, CommandKind
from fate_flow.store.database.json_text import to_json
from fate_flow.store.database.models import OutboxRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import hit
from fate_flow.store.database.rows import COMMAND_COLUMNS, command_of
from fate_flow.store.sql.unit import SqlUnitOfWork


class Outbox(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def put_command(self, command: Command, at: int, since: int = 0) -> int:
        return _PUT_COMMAND.insert(
            self._database, command.kind.value, command.job_id, command.to.role, command.to.party_id, command.run,
            command.task, command.version, command.argument, to_json(dict(command.body)), at, since, command.salt,
            command.trace,
        )  # fmt: skip

    def commands_after(self, command_id: int) -> tuple[Command, ...]:
        return tuple(command_of(row) for row in _COMMANDS_AFTER.rows(self._database, command_id))

    def commands_before(self, since: int) -> tuple[Command, ...]:
        return tuple(command_of(row) for row in _COMMANDS_BEFORE.rows(self._database, since))

    def reports_to(self, party_id: str, limit: int) -> tuple[Command, ...]:
        is_one = (OutboxRow.f_party_id == party_id) & (OutboxRow.f_kind == CommandKind.REPORT.value)
        rows = OutboxRow.select(*COMMAND_COLUMNS).where(is_one).order_by(OutboxRow.f_id.desc()).limit(limit).tuples()
        return tuple(command_of(row) for row in rows)[::-1]

    def take_command(self, command_id: int) -> bool:
        return hit(OutboxRow.delete().where(OutboxRow.f_id == command_id))


_PUT_COMMAND = Prepared(
    lambda kind, job_id, role, party_id, run, task, version, argument, body, at, since, salt, trace: OutboxRow.insert(
        f_kind=kind, f_job_id=job_id, f_role=role, f_party_id=party_id, f_run=Value(run, converter=False),
        f_component_name=task, f_task_version=Value(version, converter=False), f_argument=argument, f_body=body,
        f_create_time=Value(at, converter=False), f_since=Value(since, converter=False), f_salt=salt,
        f_trace=trace,
    ),
    13,
)  # fmt: skip
_COMMANDS_AFTER = Prepared(
    lambda command_id: (
        OutboxRow.select(*COMMAND_COLUMNS)
        .where(OutboxRow.f_id > Value(command_id, converter=False))
        .order_by(OutboxRow.f_id)
    ),
    1,
)
_COMMANDS_BEFORE = Prepared(
    lambda since: (
        OutboxRow.select(*COMMAND_COLUMNS)
        .where(OutboxRow.f_since < Value(since, converter=False))
        .order_by(OutboxRow.f_id)
    ),
    1,
)
