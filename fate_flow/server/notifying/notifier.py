"""A thread that sends the stored notifications: one at a time over each channel, again after a failure, and none for
ever."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from fate_flow.core.metrics.measures import NOTIFICATIONS
from fate_flow.core.notifications.retrying import (
    LONGEST_AGE,
    MOST_ENDED,
    MOST_TRIES,
    MOST_WAITING,
    pause_after,
    rest_after,
)
from fate_flow.core.notifications.subscribers import Target, kind_of
from fate_flow.server.notifying.sending import Outcome, Sending, Try
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.services.context.ports import Context
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import Delivery, StoredNotification

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_SECONDS, _BUSY_SECONDS, _STAND_BY_SECONDS = 1.0, 0.05, 2.0
_TIDY_SECONDS = 10.0
_READ_AT_ONCE = 50


@dataclass
class _Channel:
    """What is known of a channel since this process sends over it."""

    under_way: Try | None = None
    failures: int = 0                # one after the other
    rests_until: float = 0.0         # monotonic


class Notifier(PeriodicWork):
    """Works in the process that schedules. If another one still sends, too, receivers get a notification twice, with
    one id."""

    def __init__(
        self, context: Context, sendings: Mapping[str, Sending], why_not: Callable[[Target], str],
        may_work: Callable[[], bool], close: Callable[[], None], monotonic: Callable[[], float],
    ) -> None:  # fmt: skip
        """`sendings`: by channel; `why_not` says why a target gets nothing any more, and may raise FlowError. The
        thread calls `close` at its end."""
        failure = "notifications could not be sent; it is tried again"
        super().__init__("notifications", failure, close, again=_STAND_BY_SECONDS)
        self._context, self._sendings, self._why_not = context, sendings, why_not
        self._may_work, self._monotonic = may_work, monotonic
        self._channels: dict[str, _Channel] = {}
        self._due: dict[int, float] = {}         # by number, monotonic: the next try after a failed one
        self._is_tidy, self._tidy_at = False, 0.0

    def step(self) -> float:
        if not self._may_work():
            self._due.clear()
            return _STAND_BY_SECONDS
        is_one_over = self._take_outcomes()
        if not self._is_tidy and self._monotonic() >= self._tidy_at:
            self._is_tidy = True
            self._tidy_at = self._monotonic() + _TIDY_SECONDS
            self._tidy()
        if is_one_over or not self._is_busy:
            for channel in self._context.read(lambda tx: tx.waiting_channels()):
                self._begin(channel)
        return _BUSY_SECONDS if self._is_busy else _LOOK_SECONDS

    def end(self) -> None:
        super().end()
        for one in self._channels.values():
            if one.under_way is not None:
                one.under_way.abort()

    @property
    def _is_busy(self) -> bool:
        return any(one.under_way is not None for one in self._channels.values())

    # ------------------------------------------------------------------ the next one

    def _begin(self, channel: str) -> None:
        """Begin to send what is due over a channel, unless something is under way there, or it rests."""
        known, now = self._channels.setdefault(channel, _Channel()), self._monotonic()
        if known.under_way is not None or now < known.rests_until:
            return
        self._is_tidy = False
        for one in self._context.read(lambda tx: tx.waiting_notifications(channel, _READ_AT_ONCE)):
            if self._due.get(one.number, now) > now:
                continue
            why = self._why_dropped(one)
            if not why:
                known.under_way = Try(one, self._sendings[channel], self._monotonic)
                return
            self._drop(one, one.tries, why)

    def _why_dropped(self, one: StoredNotification) -> str:
        """Return why a notification is not tried any more; empty if it is."""
        if one.target.channel not in self._sendings:
            return "its target is not in the configuration any more"
        if self._context.clock() - one.notification.at > LONGEST_AGE:
            return f"it is older than {LONGEST_AGE // 3_600_000} h"
        return self._why_not(one.target)

    # ------------------------------------------------------------------ what has come of it

    def _take_outcomes(self) -> bool:
        """Store what has come of tries; return whether any is over. If that cannot be stored now, it is later."""
        is_one_over = False
        for known in self._channels.values():
            outcome = known.under_way.look() if known.under_way is not None else None
            if known.under_way is not None and outcome is not None:
                self._take(known, known.under_way.one, outcome)
                known.under_way, is_one_over = None, True
        return is_one_over

    def _take(self, known: _Channel, one: StoredNotification, outcome: Outcome) -> None:
        tries, pause = one.tries + 1, pause_after(one.tries + 1)
        if not outcome.error:
            self._write(lambda tx: tx.end_notification(one.number, Delivery.SENT, tries, "", self._context.clock()))
            self._due.pop(one.number, None)
            self._count(one.target.channel, "sent")
        elif outcome.is_final:
            self._drop(one, tries, outcome.error)
        elif pause is None:
            self._drop(one, tries, f"given up after {MOST_TRIES} tries: {outcome.error}")
        else:
            self._write(lambda tx: tx.note_try(one.number, outcome.error))
            self._due[one.number] = self._monotonic() + pause
            self._count(one.target.channel, "failed")
            if not known.failures:
                log.warning(
                    "notification %s was not sent over %s: %s; tried again in %g s",
                    one.notification.id, one.target.channel, outcome.error, pause,
                )  # fmt: skip
        known.failures = known.failures + 1 if outcome.error and outcome.is_of_channel else 0
        known.rests_until = self._monotonic() + rest_after(known.failures)

    def _drop(self, one: StoredNotification, tries: int, why: str) -> None:
        self._write(lambda tx: tx.end_notification(one.number, Delivery.DROPPED, tries, why, self._context.clock()))
        self._due.pop(one.number, None)
        self._count(one.target.channel, "dropped")
        log.error("notification %s over %s was dropped: %s", one.notification.id, one.target.channel, why)

    def _tidy(self) -> None:
        """Keep the table within its bounds."""
        why = f"more than {MOST_WAITING} notifications waited"
        dropped = self._write(
            lambda tx: tx.drop_oldest_notifications(MOST_WAITING, why, self._context.clock())
        )  # fmt: skip
        self._write(lambda tx: tx.forget_notifications(MOST_ENDED))
        for channel, count in dropped.items():
            self._count(channel, "dropped", count)
            log.error("%d notifications over %s were dropped: %s", count, channel, why)

    def _write(self, act: Callable[[Transaction], T]) -> T:
        return self._context.write(act, is_repeatable=True)

    def _count(self, channel: str, outcome: str, by: int = 1) -> None:
        self._context.measures.count(NOTIFICATIONS, kind_of(channel), outcome, by=by)
