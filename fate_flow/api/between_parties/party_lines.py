"""Which lines are written about requests of other parties: each of them decides how many requests it sends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from fate_flow.api.http.client_auth import is_for_parties
from fate_flow.api.http.party_connection import address_of, is_from_gateway
from fate_flow.core.model.grammar import shown
from fate_flow.core.quotas.lines import LineCounts
from fate_flow.core.quotas.quota import Quotas

LOG = logging.getLogger(__name__)

PARTY = "fate_flow.party"
"""The key in the WSGI environment of the party that has proved that a request is its own."""


class PartyLines:
    """Counts the lines of each party, and of each address whose party is not proved. May be shared by threads; each
    process of the server counts for itself. `clock` returns seconds that only grow."""

    def __init__(self, quotas: Quotas, clock: Callable[[], float]) -> None:
        self._quotas = quotas
        self._clock = clock
        self._counts = LineCounts()
        self._lock = threading.Lock()

    def has_one_more(self, environ: Mapping[str, Any]) -> bool:
        """Count a line about a request of another party; return whether it is to be written."""
        party_id = str(environ.get(PARTY) or address_of(environ))
        most = self._quotas.of(party_id).log_lines_per_minute
        with self._lock:
            is_written, left_out = self._counts.take(party_id, most, self._clock())
        if left_out:
            LOG.warning("%s", self._quotas.lines_left_out(shown(party_id), left_out))
        return is_written

    def has_access_line(self, environ: Mapping[str, Any]) -> bool:
        """Return whether the access log gets a line about a request; about one of a client or a person it always
        does."""
        is_of_party = is_from_gateway(environ) or is_for_parties(str(environ.get("PATH_INFO", "")))
        return not is_of_party or self.has_one_more(environ)
