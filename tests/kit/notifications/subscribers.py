"""People who are notified, and what they are notified of."""

from __future__ import annotations

from typing import Any

from fate_flow.core.notifications.notification import OCCASIONS, Notification, Occasion
from fate_flow.core.notifications.subscribers import EMAIL, Person, Subscribers, Target, webhook_channel
from fate_flow.store.values import StoredNotification
from tests.kit.services.hand_server import HandServer
from tests.kit.values import JOB_ID, NOW

OPS = Target(webhook_channel("ops"))
ANN, BEN = Target(EMAIL, "ann"), Target(EMAIL, "ben")


def a_person(name: str, *occasions: Occasion, has_all_jobs: bool = False) -> Person:
    return Person(name, (Target(EMAIL, name),), frozenset(occasions or OCCASIONS), has_all_jobs)


ALL = Subscribers({OPS.channel: frozenset(OCCASIONS)}, {"ann": a_person("ann"), "ben": a_person("ben")})


def notified(server: HandServer, subscribers: Subscribers = ALL) -> HandServer:
    """Return the server, whose operator has configured who is notified."""
    object.__setattr__(server.context, "subscribers", subscribers)
    return server


def notifications(server: HandServer) -> list[StoredNotification]:
    """Return what is stored, the oldest first."""
    with server.store.reading() as tx:
        return list(reversed(tx.newest_notifications(99)))


def a_notification(number: int = 1, at: int = NOW, **fields: Any) -> Notification:
    known = {"job_id": JOB_ID, "job_name": "a job", "run": 0, "status": "success", "reason": "done", **fields}
    return Notification(f"msg_{number:032x}", Occasion.JOB_ENDED, at, f"Job {JOB_ID} ended as success.", **known)
