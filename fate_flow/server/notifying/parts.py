"""Build what sends notifications, from the settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.notifications.rendering import Sender
from fate_flow.core.notifications.subscribers import EMAIL, Target
from fate_flow.server.notifying.notifier import Notifier
from fate_flow.server.notifying.sending import Sending
from fate_flow.server.notifying.webhook import WebhookSending, read_secret_file, text_of_secret
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.services.context.ports import Context
from fate_flow.settings.people import newest_of, read_people
from fate_flow.settings.settings import Settings


def sendings_of(settings: Settings) -> dict[str, Sending]:
    """Return a way to send over each configured channel."""
    found, sender = settings.notifications, Sender(settings.party_id, settings.notifications.board or settings.url)
    sendings: dict[str, Sending] = {
        channel: WebhookSending(hook, _key_of(channel), sender)
        for channel, hook in found.webhooks.items()
    }
    if found.mail is not None:
        from fate_flow.server.notifying.mail import MailSending  # Python's email takes long to import

        sendings[EMAIL] = MailSending(found.mail, found.addresses, sender)
    return sendings


def secret_problems(settings: Settings) -> Iterator[str]:
    """Yield what is wrong with files of secrets without which notifications are not sent."""
    found = settings.notifications
    for channel, hook in found.webhooks.items():
        try:
            read_secret_file(hook.secret_file, f"{_key_of(channel)}.secret_file")
        except BadSettings as error:
            yield error.message
    if found.mail is not None and found.mail.password_file is not None:
        try:
            text_of_secret(found.mail.password_file, "notifications.email.password_file")
        except BadSettings as error:
            yield error.message


def _key_of(channel: str) -> str:
    return f"notifications.webhooks.{channel.partition('/')[2]}"


def why_no_more(settings: Settings, target: Target) -> str:
    """Return why this target gets no notifications any more; empty if it does. Raise BadSettings."""
    if not settings.notifications.has(target):
        return "its target is not in the configuration any more"
    clients = newest_of(read_people(settings.shared)) if target.person else ()
    if any(one.name == target.person and not one.is_valid for one in clients):
        return f"the key of {target.person} was revoked"
    return ""


def notifying_work(
    settings: Settings, context: Context, may_work: Callable[[], bool], close: Callable[[], None],
) -> tuple[PeriodicWork, ...]:  # fmt: skip
    """Return the thread that sends notifications; none if nobody is notified of anything."""
    if not settings.notifications.subscribers.are_some:
        return ()
    sendings = sendings_of(settings)
    return (
        Notifier(context, sendings, lambda target: why_no_more(settings, target), may_work, close, time.monotonic),
    )
