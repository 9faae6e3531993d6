"""A notification as its receivers read it: the body of a webhook, or a mail. Each try makes the same text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fate_flow.core.notifications.notification import Notification, Occasion, one_line

_LONGEST_SUBJECT = 200       # characters


@dataclass(frozen=True)
class Sender:
    """The party that notifies."""

    party_id: str
    board: str               # URL at which its clients reach it, without a slash at the end


def link_of(one: Notification, sender: Sender) -> str:
    """Return the URL of the page of the board that shows more. Whoever follows it signs in there."""
    if one.occasion is Occasion.CONTRADICTION:
        return f"{sender.board}/board/audit" + (f"?party={one.partner}" if one.partner else "")
    return f"{sender.board}/board/jobs/{one.job_id}" if one.job_id else f"{sender.board}/board"


def webhook_body(one: Notification, sender: Sender, person: str, moment: str) -> bytes:
    """Return the JSON of a webhook, in the form that Standard Webhooks recommends. `moment`: when it occurred, in ISO
    8601."""
    data: dict[str, Any] = {
        "id": one.id, "party_id": sender.party_id, "person": person, "job_id": one.job_id, "job_name": one.job_name,
        "run": one.run, "partner": one.partner, "status": one.status, "reason": one.reason, "sentence": one.sentence,
        "link": link_of(one, sender),
    }  # fmt: skip
    return json.dumps({"type": one.occasion.value, "timestamp": moment, "data": data}, ensure_ascii=False).encode()


def mail_subject(one: Notification, sender: Sender) -> str:
    """Return one line of at most 200 characters."""
    about = f" {one.job_name or one.job_id}" if one.job_id else f" party {one.partner}" if one.partner else ""
    what = f"{one.occasion.value.replace('_', ' ')}{f' ({one.status})' if one.status else ''}"
    return one_line(f"[fate_flow {sender.party_id}] {what}:{about}", _LONGEST_SUBJECT).rstrip(":")


def mail_text(one: Notification, sender: Sender, moment: str) -> str:
    lines = [
        one.sentence, "", link_of(one, sender), "",
        *(f"{name}: {value}" for name, value in (
            ("party", sender.party_id), ("job", one.job_id), ("name", one.job_name), ("partner", one.partner),
            ("status", one.status), ("reason", one.reason), ("time", moment), ("id", one.id),
        ) if value),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
