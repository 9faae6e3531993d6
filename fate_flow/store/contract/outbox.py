"""The store contract for what waits to be sent: commands to other parties, and notifications to people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from fate_flow.core.model.job import Command
from fate_flow.core.notifications.notification import Notification, Occasion
from fate_flow.core.notifications.subscribers import Target
from fate_flow.store.values import Delivery, StoredNotification


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


class Notifications(Protocol):
    """Part of `contract.Transaction`."""

    def add_notification(self, notification: Notification, targets: Iterable[Target]) -> None:
        """Store a notification for each of these targets; not for one that has this id already."""

    def waiting_channels(self) -> tuple[str, ...]:
        """Return the channels over which something waits to be sent."""

    def waiting_notifications(self, channel: str, most: int) -> tuple[StoredNotification, ...]:
        """Return what waits for this channel: what was tried least, the oldest first."""

    def note_try(self, number: int, error: str) -> bool:
        """Count a failed try; False if the notification does not wait any more."""

    def end_notification(self, number: int, state: Delivery, tries: int, error: str, at: int) -> bool:
        """Note that a notification was sent or dropped, after so many tries; False if that is noted already."""

    def drop_oldest_notifications(self, most: int, error: str, at: int) -> Mapping[str, int]:
        """Drop those waiting beyond the newest `most`; return how many, by channel."""

    def forget_notifications(self, most: int) -> int:
        """Remove those sent or dropped beyond the newest `most`; return how many."""

    def newest_notifications(self, most: int) -> tuple[StoredNotification, ...]: ...

    def name_of_job(self, job_id: str) -> str:
        """Return the name that its user has given to a job here; empty if it has none."""

    def choose_occasions(self, person: str, occasions: Collection[Occasion] | None, at: int) -> None:
        """Store what a person wants of what the configuration gives; None: all of it."""

    def chosen_occasions(self) -> Mapping[str, frozenset[Occasion]]:
        """Return what people have chosen; those who have chosen nothing are not in it."""

    def note_silence(self, party_id: str, at: int) -> None:
        """Store when people were notified that this party is silent; 0: it answers again."""

    def noted_silences(self) -> Mapping[str, int]:
        """Return the parties of whose silence people were notified, and when."""
