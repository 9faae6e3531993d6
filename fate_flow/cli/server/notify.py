"""fate_flow notify"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import click

from fate_flow.cli.audit.record_times import time_of
from fate_flow.cli.console.display import one_line, print_json, print_table, tell
from fate_flow.cli.server.conf_option import conf_option
from fate_flow.cli.server.home_context import home_context
from fate_flow.core.model.errors import FlowError, NotFound
from fate_flow.core.model.grammar import shown
from fate_flow.core.notifications.notification import Notification, Occasion, notification_id
from fate_flow.core.notifications.subscribers import EMAIL, Target
from fate_flow.server.notifying.parts import sendings_of
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.notifications import NotificationSettings
from fate_flow.settings.reader import load_settings
from fate_flow.store.values import StoredNotification

_COLUMNS = ("time", "event", "about", "target", "person", "state", "tries", "error")


@click.group("notify")
def notify_group() -> None:
    """Try where people are notified, and show what was sent lately.

    The section `notifications` of the configuration says who is notified of what. Run these commands as the user of the
    server, whether it runs or not.

    Example: fate_flow notify test webhook/ops -c conf/service_conf.yaml
    """


@notify_group.command("test")
@conf_option
@click.argument("target", metavar="TARGET")
def try_target(conf: Path, target: str) -> None:
    """Send a notification to one target now, once; exit code 1 if it was not taken.

    TARGET is webhook/NAME with a name in notifications.webhooks, or email/PERSON with one in notifications.people.

    Example: fate_flow notify test email/anna -c conf/service_conf.yaml
    """
    settings = load_settings(conf)
    found, now = _target(settings.notifications, target), now_on_the_wall()
    sentence = f"Party {settings.party_id} tries to notify {target}."
    message_id = notification_id(settings.party_id, Occasion.TEST, now, secrets.token_hex(8))
    one = StoredNotification(0, found, Notification(message_id, Occasion.TEST, now, sentence))
    outcome = sendings_of(settings)[found.channel].send(one)
    if outcome.error:
        raise FlowError(f"{target}: {outcome.error}")
    tell(f"{target} has taken {message_id}")


def _target(found: NotificationSettings, text: str) -> Target:
    """Return the configured target. Raise NotFound."""
    channel, _, name = text.partition("/")
    target = Target(EMAIL, name) if channel == EMAIL else Target(text)
    if not found.has(target):
        known = (*found.webhooks, *(f"{EMAIL}/{one}" for one in found.addresses if found.mail is not None))
        listed = f"known here: {', '.join(known)}" if known else "there is none (notifications in the configuration)"
        raise NotFound(f"TARGET: {shown(text)} is no target; {listed}")
    return target


@notify_group.command("list")
@conf_option
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="The most that is shown.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_notifications(conf: Path, limit: int, as_json: bool) -> None:
    """Show the newest notifications, and what has become of each: waiting, sent or dropped, and why.

    Example: fate_flow notify list --limit 10 -c conf/service_conf.yaml
    """
    with home_context(load_settings(conf)) as context:
        found = context.read(lambda tx: tx.newest_notifications(limit))
    if as_json:
        print_json({"notifications": [_as_json(one) for one in found]})
        return
    print_table(_COLUMNS, ([_row(one)[column] for column in _COLUMNS] for one in found))
    if not found:
        tell("nobody was notified of anything")


def _as_json(one: StoredNotification) -> dict[str, Any]:
    about = one.notification
    return {
        "id": about.id, "event": about.occasion.value, "at": about.at, "sentence": about.sentence,
        "job_id": about.job_id, "partner": about.partner, "channel": one.target.channel, "person": one.target.person,
        "state": one.state.value, "tries": one.tries, "error": one.error, "end_time": one.end_time,
    }  # fmt: skip


def _row(one: StoredNotification) -> dict[str, str]:
    about = one.notification
    return {
        "time": time_of(about.at), "event": about.occasion.value, "about": about.job_id or about.partner,
        "target": one.target.channel, "person": one.target.person, "state": one.state.value, "tries": str(one.tries),
        "error": one_line(one.error),
    }  # fmt: skip
