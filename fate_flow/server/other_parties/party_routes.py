"""The addresses of other parties: those in the configuration, and those of parties that have joined since the start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from fate_flow.core.access.joined_party import dialed_url
from fate_flow.core.model.errors import FlowError
from fate_flow.server.other_parties.stored_rows import recent_rows
from fate_flow.settings.parties import Route
from fate_flow.settings.settings import Settings
from fate_flow.store.sql.store import SqlStore


def with_joined_routes(settings: Settings, store: SqlStore) -> Settings:
    """Return the settings of a process whose routes follow the parties that join while it runs."""
    stored = recent_rows(store, lambda tx: {one.party_id: one.address for one in tx.joined_parties()}, time.monotonic)
    return replace(settings, routes=PartyRoutes(settings.routes, stored.read))


class PartyRoutes(Mapping[str, Route]):
    """A route of the configuration comes before the address with which a party has joined.

    `joined` returns the addresses by party id, of this moment, and may raise FlowError."""

    def __init__(self, configured: Mapping[str, Route], joined: Callable[[], Mapping[str, str]]) -> None:
        self._configured = configured
        self._joined = joined

    def __getitem__(self, party_id: str) -> Route:
        found = self._configured.get(party_id)
        return Route(self._addresses()[party_id] or dialed_url(party_id)) if found is None else found

    def __iter__(self) -> Iterator[str]:
        yield from {**self._addresses(), **self._configured}

    def __len__(self) -> int:
        return len({**self._addresses(), **self._configured})

    def _addresses(self) -> Mapping[str, str]:
        try:
            return self._joined()
        except FlowError:            # the database was never there since the start: then nothing else works either
            return {}


class RouteUrls(Mapping[str, str]):
    """The URLs of routes."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self._routes = routes

    def __getitem__(self, party_id: str) -> str:
        return self._routes[party_id].url

    def __iter__(self) -> Iterator[str]:
        return iter(self._routes)

    def __len__(self) -> int:
        return len(self._routes)
