"""The section `notifications`: who is notified of what, and where. Only the operator sets addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.notifications.notification import OCCASIONS, Occasion
from fate_flow.core.notifications.subscribers import EMAIL, Person, Subscribers, Target, webhook_channel
from fate_flow.settings.reading.section import Section, collected, split_url, without_login
from fate_flow.settings.reading.security import check_authorities, is_loopback

MOST_WEBHOOKS, MOST_PEOPLE = 16, 1_000
STARTTLS, TLS, NO_TLS = "starttls", "tls", "none"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190}")
_JOBS = ("own", "all")
_ALL = [one.value for one in OCCASIONS]


@dataclass(frozen=True)
class Webhook:
    """Where notifications are posted, and the file with the secrets that sign them, which is read for each try."""

    url: str = field(repr=False)       # it may have a token in its path
    secret_file: Path
    ca_file: str = ""                  # authorities of its server; empty: those of the system


@dataclass(frozen=True)
class MailServer:
    """The server that takes mail."""

    host: str
    port: int
    security: str
    sender: str
    ca_file: str = ""
    user: str = ""                     # empty: without a login
    password_file: Path | None = None


@dataclass(frozen=True)
class NotificationSettings:
    subscribers: Subscribers = field(default_factory=Subscribers)
    webhooks: Mapping[str, Webhook] = field(default_factory=dict)        # by channel
    mail: MailServer | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)           # of mail, by person
    board: str = ""                    # URL of the board in links; empty: that of this server

    @property
    def with_own_jobs(self) -> tuple[str, ...]:
        """Return the people who are to be notified of the jobs that they have submitted, and of no others."""
        people = self.subscribers.people.values()
        return tuple(one.name for one in people if Occasion.JOB_ENDED in one.occasions and not one.has_all_jobs)

    def has(self, target: Target) -> bool:
        """Return whether the configuration still has this target."""
        is_mail = target.channel == EMAIL
        return self.mail is not None and target.person in self.addresses if is_mail else target.channel in self.webhooks


def read_notifications(section: Section) -> NotificationSettings:
    listed = section.section("webhooks")
    hooks = dict(filter(None, (_webhook(listed, name) for name in _names(listed, MOST_WEBHOOKS) or ())))
    mail = _mail(section.section("email"))
    people_listed = section.section("people")
    people = dict(filter(None, (
        _person(people_listed, name, hooks, mail) for name in _names(people_listed, MOST_PEOPLE) or ()
    )))  # fmt: skip
    found = NotificationSettings(
        Subscribers(
            {webhook_channel(name): occasions for name, (_, occasions) in hooks.items() if occasions},
            {name: person for name, (person, _) in people.items()},
            int(section.number("silence_seconds", 60.0, 5.0) * 1000),
        ),
        {webhook_channel(name): hook for name, (hook, _) in hooks.items()},
        mail, {name: address for name, (_, address) in people.items() if address}, _board(section) or "",
    )  # fmt: skip
    section.refuse_others()
    return found


@collected
def _names(section: Section, most: int) -> list[str]:
    names = section.names()
    if len(names) > most:
        raise BadSettings(f"{section.path}: has {len(names)} names, more than {most}")
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise BadSettings(f"{section.name(str(name))}: is not a name of 1 to 32 letters, digits and - . _")
    return names


@collected
def _webhook(section: Section, name: str) -> tuple[str, tuple[Webhook, frozenset[Occasion]]]:
    one = section.section(name)
    url, where = one.text("url"), one.name("url")
    parts = split_url(url, where)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not is_safe or not parts.hostname or parts.username is not None or parts.fragment or not url.isprintable():
        raise BadSettings(f"{where}: is not an https URL without user and fragment; http is only for 127.0.0.1")
    secret, ca_file = one.full_path("secret_file"), one.full_path("ca_file")
    if not secret:
        raise BadSettings(f"{one.name('secret_file')}: is missing; name the file with its secret, of mode 0600")
    if ca_file:
        check_authorities(ca_file, parts.scheme, one.name("ca_file"))
    occasions = _occasions(one, [])
    one.refuse_others()
    return name, (Webhook(url, Path(secret), ca_file), occasions)


@collected
def _mail(section: Section) -> MailServer | None:
    host, security = section.text("host"), section.text("security", STARTTLS)
    found = MailServer(
        host, section.whole("port", 587, 1, 65535), security, section.text("sender"), section.full_path("ca_file"),
        section.text("user"), Path(section.full_path("password_file")) if section.text("password_file") else None,
    )  # fmt: skip
    section.refuse_others()
    if not host:
        return None
    if security not in (STARTTLS, TLS, NO_TLS):
        raise BadSettings(f"{section.name('security')}: {security!r} is not {STARTTLS}, {TLS} or {NO_TLS}")
    if security == NO_TLS and not is_loopback(host):
        raise BadSettings(
            f"{section.name('security')}: is {NO_TLS}, and {host} is another machine: nothing would be encrypted; set "
            f"{STARTTLS} or {TLS}"
        )
    if not _ADDRESS.fullmatch(found.sender):
        raise BadSettings(f"{section.name('sender')}: {found.sender!r} is not an address, such as fate@example.org")
    if bool(found.user) != (found.password_file is not None):
        raise BadSettings(f"{section.name('user')}: a login needs both user and password_file")
    if found.user and security == NO_TLS:
        raise BadSettings(f"{section.name('user')}: no password is sent without TLS ({section.name('security')})")
    if found.ca_file:
        check_authorities(found.ca_file, "https", section.name("ca_file"))
    return found


@collected
def _person(
    section: Section, name: str, hooks: Mapping[str, Any], mail: MailServer | None
) -> tuple[str, tuple[Person, str]]:  # fmt: skip
    one = section.section(name)
    address, used, jobs = one.text("email"), one.get("webhooks", []), one.text("jobs", _JOBS[0])
    if address and not _ADDRESS.fullmatch(address):
        raise BadSettings(f"{one.name('email')}: {address!r} is not an address, such as somebody@example.org")
    if address and mail is None:
        raise BadSettings(f"{one.name('email')}: no mail is sent without notifications.email.host")
    if not isinstance(used, list) or not all(isinstance(each, str) and each in hooks for each in used):
        raise BadSettings(f"{one.name('webhooks')}: {used!r} is not a list of names in notifications.webhooks")
    if not address and not used:
        raise BadSettings(f"{one.name('email')}: is missing, and webhooks too: {name} could not be notified")
    if jobs not in _JOBS:
        raise BadSettings(f"{one.name('jobs')}: {jobs!r} is not {' or '.join(_JOBS)}")
    mails = (Target(EMAIL, name),) if address else ()
    targets = (*mails, *(Target(webhook_channel(each), name) for each in dict.fromkeys(used)))
    occasions = _occasions(one, _ALL)
    one.refuse_others()
    return name, (Person(name, targets, occasions, jobs == "all"), address)


def _occasions(section: Section, default: list[str]) -> frozenset[Occasion]:
    """Return the value of `events`. Raise BadSettings."""
    listed = section.get("events", default)
    if not isinstance(listed, list) or not all(one in _ALL for one in listed):
        raise BadSettings(f"{section.name('events')}: {listed!r} is not a list of {', '.join(_ALL)}")
    return frozenset(map(Occasion, listed))


@collected
def _board(section: Section) -> str:
    url, where = section.text("board_url"), section.name("board_url")
    parts = split_url(url, where)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment):
        raise BadSettings(f"{where}: {without_login(url)} is not a URL, such as https://fate.example.org")
    return url.rstrip("/")
