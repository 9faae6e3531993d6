"""Fetch newer key lists of other parties: a party that changes its keys announces them, and nobody carries files.

A fetched list counts only if the root key of the saved one, or the root key that it announced, has signed it. Of one
party only so many are saved in a day: each one that is replaced stays stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from fate_flow.core.access.key_list import KeyState, PartyKeys, read_signed_key_list
from fate_flow.core.model.errors import FlowError
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.paths import KEYS
from fate_flow.peers.key_lists import check_key_list
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.services.context.ports import Context
from fate_flow.services.use_cases.keys import save_key_list

LOG = logging.getLogger(__name__)

MOST_A_DAY = 12                      # lists of one party
_DAY = 24 * 3600 * 1000
_FIRST_SECONDS, _EVERY_SECONDS = 30.0, 1800.0

Ask = Callable[[Party, str, Mapping[str, Any]], Answer]
"""Asks another party's server, at a path below `/v1`, with this body."""


class ListFetcher(PeriodicWork):
    """A thread that asks each party whose keys count for its newest key list."""

    def __init__(
        self, context: Context, ask: Ask, may_ask: Callable[[], bool], close: Callable[[], None]
    ) -> None:
        """`may_ask`: whether this process is the one that asks now; the thread calls `close` at its end."""
        failure = "the key lists of other parties could not be fetched"
        super().__init__("key lists", failure, close, first=_FIRST_SECONDS, again=_EVERY_SECONDS)
        self._context = context
        self._ask = ask
        self._may_ask = may_ask

    def step(self) -> float:
        if self._may_ask():
            self.look()
        return _EVERY_SECONDS

    def look(self) -> None:
        """Ask every party that has joined and whose address is known; save what is newer."""
        for keys in self._context.read(lambda tx: tx.all_party_keys()):
            if self._is_over.is_set():
                return
            if keys.state is KeyState.JOINED and keys.party_id in self._context.routes:
                self._fetch(keys)

    def _fetch(self, saved: PartyKeys) -> None:
        answer = self._ask(Party("host", saved.party_id), KEYS, {})
        text = answer.data.get("key_list") if answer.is_ok and isinstance(answer.data, Mapping) else None
        if not isinstance(text, str):
            return                       # it does not answer, or is of an older release
        try:
            signed = read_signed_key_list(text)
            if signed == saved.signed:
                return
            found, root = check_key_list(signed)
            if found.party_id != saved.party_id:
                LOG.warning("party %s has sent the key list of party %s", saved.party_id, found.party_id)
            elif found.number > saved.number and self._has_too_many(saved.party_id):
                LOG.warning(
                    "the key list %d that party %s has sent is not saved yet: %d of its lists were replaced in the "
                    "last 24 hours; flow key save takes it at once", found.number, saved.party_id, MOST_A_DAY,
                )  # fmt: skip
            elif found.number >= saved.number:
                save_key_list(self._context, found, signed, root.key_id, False, f"party {saved.party_id} itself")
        except FlowError as error:
            LOG.warning("the key list that party %s has sent is not saved: %s", saved.party_id, error.message)

    def _has_too_many(self, party_id: str) -> bool:
        """Return whether so many lists of a party were replaced in the last day that it has to wait with the next."""
        replaced = self._context.read(lambda tx: tx.replaced_key_lists(party_id))[-MOST_A_DAY:]
        return len(replaced) == MOST_A_DAY and replaced[0].replaced_at > self._context.clock() - _DAY
