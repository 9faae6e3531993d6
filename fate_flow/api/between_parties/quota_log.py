"""The lines with which the operator of this server sees that a quota, or a full disk, has refused another party."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fate_flow.core.model.errors import NoSpace, TooLarge, TooMany
from fate_flow.core.model.grammar import shown
from fate_flow.core.quotas.seldom import Seldom
from fate_flow.core.text.phrases import counted
from fate_flow.core.wire.v1.retcodes import retcode_of_kind

LOG = logging.getLogger(__name__)

OF_QUOTAS = frozenset(map(retcode_of_kind, (NoSpace, TooLarge, TooMany)))
"""The retcodes of refusals by quotas."""


class QuotaLog:
    """Writes at most one line a minute about each party and retcode. `clock` returns seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seldom = Seldom()
        self._lock = threading.Lock()

    def note(self, party_id: str, retcode: int, text: str) -> None:
        """Note an answer to a party; only refusals by quotas are written."""
        if retcode not in OF_QUOTAS:
            return
        with self._lock:
            left_out = self._seldom.due((party_id, retcode), self._clock())
        if left_out is not None:
            more = f" ({counted(left_out, 'more refusal')} since the last such line)" if left_out else ""
            LOG.warning("a quota refuses party %s: %s%s", shown(party_id), text, more)
