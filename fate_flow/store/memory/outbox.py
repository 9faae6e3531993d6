"""Commands and notifications, in memory; the counterpart of `sql/outbox.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from fate_flow.core.model.frozen import changed
from fate_flow.core.model.job import Command, CommandKind
from fate_flow.core.notifications.notification import Notification, Occasion
from fate_flow.core.notifications.subscribers import Target
from fate_flow.store.memory.tables import as_json
from fate_flow.store.memory.unit import MemoryUnitOfWork
from fate_flow.store.values import Delivery, StoredNotification


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


class Notifications(MemoryUnitOfWork):
    """Part of the transaction. `contract.Transaction` documents the methods."""

    def add_notification(self, notification: Notification, targets: Iterable[Target]) -> None:
        known = {(one.notification.id, one.target) for one in self._rows.notifications.rows.values()}
        for target in targets:
            if (notification.id, target) not in known:
                number = next(self._rows.command_ids)
                self._rows.notifications.put(number, StoredNotification(number, target, notification))

    def waiting_channels(self) -> tuple[str, ...]:
        return tuple(sorted({one.target.channel for one in self._waiting_notifications()}))

    def waiting_notifications(self, channel: str, most: int) -> tuple[StoredNotification, ...]:
        found = [one for one in self._waiting_notifications() if one.target.channel == channel]
        return tuple(sorted(found, key=lambda one: (one.tries, one.number))[:most])

    def note_try(self, number: int, error: str) -> bool:
        one = self._rows.notifications.rows.get(number)
        return one is not None and self._tried(number, Delivery.WAITING, one.tries + 1, error, 0)

    def end_notification(self, number: int, state: Delivery, tries: int, error: str, at: int) -> bool:
        return self._tried(number, state, tries, error, at)

    def drop_oldest_notifications(self, most: int, error: str, at: int) -> Mapping[str, int]:
        beyond = sorted(self._waiting_notifications(), key=lambda one: -one.number)[most:]
        for one in beyond:
            row = changed(one, state=Delivery.DROPPED, error=error, end_time=at)
            self._rows.notifications.put(one.number, row)
        return Counter(one.target.channel for one in beyond)

    def forget_notifications(self, most: int) -> int:
        ended = [one for one in self.newest_notifications(1 << 30) if one.state is not Delivery.WAITING]
        return sum(self._rows.notifications.drop(one.number) for one in ended[most:])

    def newest_notifications(self, most: int) -> tuple[StoredNotification, ...]:
        return tuple(sorted(self._rows.notifications.rows.values(), key=lambda one: -one.number)[:most])

    def name_of_job(self, job_id: str) -> str:
        return next((row.document.name for row in self._of_job(job_id)), "")

    def choose_occasions(self, person: str, occasions: Collection[Occasion] | None, at: int) -> None:  # noqa: ARG002
        if occasions is None:
            self._rows.notification_choices.drop(person)
        else:
            self._rows.notification_choices.put(person, frozenset(occasions))

    def chosen_occasions(self) -> Mapping[str, frozenset[Occasion]]:
        return dict(self._rows.notification_choices.rows)

    def note_silence(self, party_id: str, at: int) -> None:
        self._rows.noted_silences.put(party_id, at)

    def noted_silences(self) -> Mapping[str, int]:
        return {party_id: at for party_id, at in self._rows.noted_silences.rows.items() if at}

    def _waiting_notifications(self) -> list[StoredNotification]:
        return [one for one in self._rows.notifications.rows.values() if one.state is Delivery.WAITING]

    def _tried(self, number: int, state: Delivery, tries: int, error: str, at: int) -> bool:
        one = self._rows.notifications.rows.get(number)
        if one is None or one.state is not Delivery.WAITING:
            return False
        self._rows.notifications.put(number, changed(one, state=state, tries=tries, error=error, end_time=at))
        return True
