"""Whether the configuration connects a server with other machines, or only servers of one machine with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from fate_flow.settings.parties import PartyListeners, Route
from fate_flow.settings.reading.security import is_loopback


def connecting_key(host: str, parties: PartyListeners, routes: Mapping[str, Route]) -> str:
    """Return a key, with its value, that connects the server with other machines; "" if there is none.

    `host` is that of the port of clients, which other parties use, too. A proxy of the same machine hides who connects
    to the server, so the addresses of other parties count like those where it listens."""
    found = (f"{key}: {value}" for key, value, at in _places(host, parties, routes) if not is_loopback(at))
    if parties.behind_proxy:
        return f"parties.behind_proxy.port: {parties.behind_proxy.port}"
    return next(found, "parties.dial: true" if parties.dials else "")


def _places(host: str, parties: PartyListeners, routes: Mapping[str, Route]) -> Iterator[tuple[str, str, str]]:
    """Yield each key that leads to a place, its value, and the host in it."""
    yield "fateflow.host", host, host
    for key, listen in parties.listens.items():
        yield f"{key}.host", listen.host, listen.host
    if parties.address:
        yield "parties.address", parties.address, urlsplit(parties.address).hostname or ""
    for party_id, route in routes.items():
        if not route.is_dialed:
            yield f"routes.{party_id}.url", route.url, urlsplit(route.url).hostname or ""
