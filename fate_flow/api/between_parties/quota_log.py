"""Which answers to other parties are refusals by a quota, or by a full disk; the operator of this server reads them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fate_flow.core.model.errors import NoSpace, TooLarge, TooMany
from fate_flow.core.quotas.refusal_lines import RefusalLines
from fate_flow.core.wire.v1.retcodes import retcode_of_kind

LOG = logging.getLogger(__name__)

OF_QUOTAS = frozenset(map(retcode_of_kind, (NoSpace, TooLarge, TooMany)))
"""The retcodes of refusals by quotas."""


class QuotaLog:
    """Writes at most one line a minute about each party and retcode. `clock` returns seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._lines = RefusalLines(clock)
        self._lock = threading.Lock()

    def note(self, party_id: str, retcode: int, text: str) -> None:
        """Note an answer to a party; only refusals by quotas are written."""
        if retcode not in OF_QUOTAS:
            return
        with self._lock:
            line = self._lines.line(party_id, retcode, text)
        if line:
            LOG.warning("%s", line)
