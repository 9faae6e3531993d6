"""Warnings at the start, for the operator of this server."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from fate_flow.core.model.errors import BadSettings
from fate_flow.engines.local.programs import unusable
from fate_flow.peers.key_changes import check_own_tls
from fate_flow.server.notifying.parts import secret_problems
from fate_flow.settings.engines.ray import RaySettings
from fate_flow.settings.people import people_file
from fate_flow.settings.reading.security import is_loopback
from fate_flow.settings.settings import Settings


def start_warnings(settings: Settings) -> Iterator[str]:
    """Yield the warnings, a sentence each."""
    yield from readable_secrets(settings.conf_path)
    if settings.client_keys is None:
        yield (
            "clients need not sign their requests: every user and program of this machine can send requests as a "
            "client (authentication.client.switch: true makes keys and requires signatures)"
        )
        if people_file(settings.shared).exists():
            yield (
                f"the client roles in {people_file(settings.shared)} have no effect, since clients need not sign "
                "(authentication.client.switch)"
            )
    if not is_loopback(settings.host):
        what = "encryption" if settings.site.is_on else "encryption, and without signed requests of other parties"
        yield f"listening on {settings.host} without {what} (fateflow.insecure_listen, which is for tests)"
    if settings.permission.is_on and settings.permission.is_default:
        yield (
            f"permission.switch is not set, and {settings.connected_by} connects this server with other machines: "
            "jobs of other parties may use only what was granted to them, also those that run (fate_flow grants show); "
            "set permission.switch to true to keep that, or to false to allow everything"
        )
    yield from _without_tls(settings)
    for party_id in sorted(settings.site.unsigned_from):
        yield (
            f"party {party_id} is accepted without a signature (authentication.site.unsigned_from): anybody who "
            "reaches the port can impersonate it"
        )
    if settings.site.due_to and not settings.site.is_on:
        yield (
            f"nothing proves who sends requests and answers (authentication.site.switch: false), and "
            f"{settings.site.due_to} leads to another machine without TLS that ends at a key of the party: a proxy, or "
            "whoever is between the servers, can speak in the name of any party"
        )
    if unproved := [party_id for party_id in sorted(settings.routes) if _is_unproved(settings, party_id)]:
        yield (
            f"answers of {', '.join(f'party {one}' for one in unproved)} are not proved: a proxy, or whoever is "
            f"between the servers, can answer in that name (routes.{unproved[0]}.signed_answers: false)"
        )
    yield from _ray_without_protection(settings)
    yield from unusable(settings.commands)
    yield from secret_problems(settings)


def _ray_without_protection(settings: Settings) -> Iterator[str]:
    for one in settings.engines.values():
        if not isinstance(one, RaySettings):
            continue
        parts = urlsplit(one.address)
        if one.token_file is None:
            yield f"{one.section}.token_file is not set: whoever reaches that Ray can run anything as its user"
        elif parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            yield (
                f"{one.section}.address: {one.address}: the token of Ray goes there unencrypted: use https, by a proxy "
                "in front of Ray, or a network of its own"
            )


def _without_tls(settings: Settings) -> Iterator[str]:
    if (proxied := settings.parties_behind_proxy) and not is_loopback(proxied.host):
        yield (
            f"parties.behind_proxy.host: {proxied.host}: nothing is encrypted between the proxy and this server; let "
            "the proxy run on this machine, and set the host to 127.0.0.1"
        )
    if plain := settings.plain_parties:
        for party_id in sorted(plain.party_ids):
            yield (
                f"party {party_id} is believed by its name at {plain.listen.host}, port {plain.listen.port} "
                "(parties.plain): anybody who reaches that port can impersonate it, and nothing is encrypted"
            )


def _is_unproved(settings: Settings, party_id: str) -> bool:
    """Return whether a party has to sign its requests, and neither its answers nor its connections prove who it is."""
    route = settings.routes[party_id]
    is_open = not route.shows_key and not route.is_local
    return settings.site.needs_saved_key(party_id) and route.signed_answers is False and is_open


def key_problems(settings: Settings, now: int) -> Iterator[str]:
    """Yield why a server with this configuration has nothing to show to other parties.

    `now`: milliseconds since 1970."""
    if settings.parties_listen is None and not settings.parties_dial:
        return
    try:
        check_own_tls(settings.keys_dir, settings.parties_certificate, now)
    except BadSettings as error:
        yield error.message


def readable_secrets(conf: Path) -> Iterator[str]:
    """Yield a warning for each file of this configuration that has secrets and that other users may read."""
    for path in (conf, conf.parent / f"local.{conf.name}"):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError, UnicodeDecodeError):
            continue
        names = list(_secrets_in(document if isinstance(document, dict) else {}))
        if names and mode & (stat.S_IRGRP | stat.S_IROTH):
            yield f"{path} has secrets ({', '.join(names)}) and mode {mode:04o}: others may read them; chmod 600"


def _secrets_in(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys whose values have a secret."""
    if _at(document, "authentication", "client").get("http_secret_key"):
        yield "authentication.client.http_secret_key"
    if _has_password(_at(document, "database").get("url")):
        yield "database.url"
    for name in _at(document, "connectors"):
        if _has_password(_at(document, "connectors", name).get("url")):
            yield f"connectors.{name}.url"


def _at(document: Mapping[str, Any], *keys: object) -> Mapping[Any, Any]:
    """Return the section at these keys; {} if there is none."""
    found: Any = document
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _has_password(url: object) -> bool:
    try:
        return bool(urlsplit(str(url or "")).password)
    except ValueError:
        return False
