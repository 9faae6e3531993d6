"""Commands that wait for their answer, and notifications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from peewee import Value

from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.notifications.notification import Notification, Occasion
from fate_flow.core.notifications.subscribers import Target
from fate_flow.store.database.json_text import to_json
from fate_flow.store.database.models import JobRow, NotificationChoiceRow, NotificationRow, OutboxRow, PeerRow
from fate_flow.store.database.prepared import Prepared
from fate_flow.store.database.queries import hit, insert_new
from fate_flow.store.database.rows import COMMAND_COLUMNS, command_of
from fate_flow.store.sql.unit import SqlUnitOfWork
from fate_flow.store.values import Delivery, StoredNotification


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
        return bool(_TAKE_COMMAND.run(self._database, command_id))


_PUT_COMMAND = Prepared(
    lambda kind, job_id, role, party_id, run, task, version, argument, body, at, since, salt, trace: OutboxRow.insert(
        f_kind=kind, f_job_id=job_id, f_role=role, f_party_id=party_id, f_run=Value(run, converter=False),
        f_component_name=task, f_task_version=Value(version, converter=False), f_argument=argument, f_body=body,
        f_create_time=Value(at, converter=False), f_since=Value(since, converter=False), f_salt=salt,
        f_trace=trace,
    ),
    13,
)  # fmt: skip
_TAKE_COMMAND = Prepared(
    lambda command_id: OutboxRow.delete().where(OutboxRow.f_id == Value(command_id, converter=False)), 1
)
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


class Notifications(SqlUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_notification(self, notification: Notification, targets: Iterable[Target]) -> None:
        one, row = notification, NotificationRow
        for target in targets:
            is_there = (
                (row.f_message_id == one.id) & (row.f_channel == target.channel) & (row.f_person == target.person)
            )
            insert_new(self._database, row, {
                "f_message_id": one.id, "f_channel": target.channel, "f_person": target.person,
                "f_occasion": one.occasion.value, "f_time": one.at, "f_sentence": one.sentence, "f_job_id": one.job_id,
                "f_job_name": one.job_name, "f_run": one.run, "f_partner": one.partner, "f_status_then": one.status,
                "f_reason": one.reason,
            }, is_there)  # fmt: skip

    def waiting_channels(self) -> tuple[str, ...]:
        return tuple(row[0] for row in _CHANNELS.rows(self._database))

    def waiting_notifications(self, channel: str, most: int) -> tuple[StoredNotification, ...]:
        row = NotificationRow
        query = row.select(*_COLUMNS).where(_WAITS & (row.f_channel == channel)).order_by(row.f_tries, row.f_id)
        return tuple(map(_stored, query.limit(most).tuples()))

    def note_try(self, number: int, error: str) -> bool:
        row = NotificationRow
        return hit(row.update(f_tries=row.f_tries + 1, f_error=error).where(_WAITS & (row.f_id == number)))

    def end_notification(self, number: int, state: Delivery, tries: int, error: str, at: int) -> bool:
        row = NotificationRow
        change = row.update(f_tries=tries, f_state=state.value, f_error=error, f_end_time=at)
        return hit(change.where(_WAITS & (row.f_id == number)))

    def drop_oldest_notifications(self, most: int, error: str, at: int) -> Mapping[str, int]:
        row = NotificationRow
        last = row.select(row.f_id).where(_WAITS).order_by(row.f_id.desc()).limit(1).offset(most).scalar()
        if last is None:
            return {}
        beyond = _WAITS & (row.f_id <= last)
        found = Counter(one[0] for one in row.select(row.f_channel).where(beyond).tuples())
        hit(row.update(f_state=Delivery.DROPPED.value, f_error=error, f_end_time=at).where(beyond))
        return found

    def forget_notifications(self, most: int) -> int:
        row = NotificationRow
        last = row.select(row.f_id).where(~_WAITS).order_by(row.f_id.desc()).limit(1).offset(most).scalar()
        return 0 if last is None else int(row.delete().where(~_WAITS & (row.f_id <= last)).execute())

    def newest_notifications(self, most: int) -> tuple[StoredNotification, ...]:
        query = NotificationRow.select(*_COLUMNS).order_by(NotificationRow.f_id.desc()).limit(most)
        return tuple(map(_stored, query.tuples()))

    def name_of_job(self, job_id: str) -> str:
        row = _NAME_OF_JOB.row(self._database, job_id)
        return str(row[0] or "") if row else ""

    def choose_occasions(self, person: str, occasions: Collection[Occasion] | None, at: int) -> None:
        row = NotificationChoiceRow
        row.delete().where(row.f_person == person).execute()
        if occasions is not None:
            text = ",".join(sorted(one.value for one in occasions))
            row.insert(f_person=person, f_occasions=text, f_time=at).execute()

    def chosen_occasions(self) -> Mapping[str, frozenset[Occasion]]:
        return {person: _occasions(text) for person, text in _CHOICES.rows(self._database)}

    def note_silence(self, party_id: str, at: int) -> None:
        PeerRow.insert(f_party_id=party_id, f_heard=0).on_conflict_ignore().execute()
        PeerRow.update(f_silence_notified=at).where(PeerRow.f_party_id == party_id).execute()

    def noted_silences(self) -> Mapping[str, int]:
        return dict(_SILENCES.rows(self._database))


_WAITS = NotificationRow.f_state == Delivery.WAITING.value
_COLUMNS = (
    NotificationRow.f_id, NotificationRow.f_channel, NotificationRow.f_person, NotificationRow.f_message_id,
    NotificationRow.f_occasion, NotificationRow.f_time, NotificationRow.f_sentence, NotificationRow.f_job_id,
    NotificationRow.f_job_name, NotificationRow.f_run, NotificationRow.f_partner, NotificationRow.f_status_then,
    NotificationRow.f_reason, NotificationRow.f_state, NotificationRow.f_tries, NotificationRow.f_error,
    NotificationRow.f_end_time,
)  # fmt: skip
_CHANNELS = Prepared(lambda: NotificationRow.select(NotificationRow.f_channel).where(_WAITS).distinct(), 0)
_NAME_OF_JOB = Prepared(lambda job_id: JobRow.select(JobRow.f_name).where(JobRow.f_job_id == job_id).limit(1), 1)
_CHOICES = Prepared(
    lambda: NotificationChoiceRow.select(NotificationChoiceRow.f_person, NotificationChoiceRow.f_occasions), 0
)
_SILENCES = Prepared(
    lambda: PeerRow.select(PeerRow.f_party_id, PeerRow.f_silence_notified).where(PeerRow.f_silence_notified > 0), 0
)


def _stored(row: tuple[Any, ...]) -> StoredNotification:
    number, channel, person, message_id, occasion, *about, state, tries, error, end_time = row
    notification = Notification(message_id, Occasion(occasion), *about)
    return StoredNotification(number, Target(channel, person), notification, Delivery(state), tries, error, end_time)


def _occasions(text: str) -> frozenset[Occasion]:
    return frozenset(Occasion(one) for one in text.split(",") if one)
