"""When other parties were last heard and reached over TLS: noted at most once a minute, and never in the way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fate_flow.core.access.joined_party import Contact
from fate_flow.core.model.errors import FlowError

LOG = logging.getLogger(__name__)

_EVERY_MS = 60_000


class ContactNotes:
    """`store` keeps a contact, and may raise FlowError; `clock` returns milliseconds since 1970.

    Threads may share it."""

    def __init__(self, store: Callable[[Contact], None], clock: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock
        self._noted: dict[tuple[str, str], Contact] = {}
        self._lock = threading.Lock()

    def note(self, direction: str, party_id: str, tls: str, key_id: str) -> None:
        """Note a contact, unless the same was noted within a minute. Never raises FlowError."""
        found = Contact(party_id, direction, self._clock(), tls, key_id)
        with self._lock:
            last = self._noted.get((party_id, direction))
            is_same = last is not None and (last.tls, last.key_id) == (tls, key_id)
            if is_same and last is not None and 0 <= found.at - last.at < _EVERY_MS:
                return
            self._noted[party_id, direction] = found
        try:
            self._store(found)
        except FlowError as error:       # the request matters more than the note of it
            LOG.warning("the contact with party %s was not noted: %s", party_id, error.message)
