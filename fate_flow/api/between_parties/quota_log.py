"""Which answers to other parties are refusals by a quota, or by a full disk; the operator of this server reads them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable

from fate_flow.core.model.job import Answer
from fate_flow.core.quotas.refusal_lines import RefusalLines
from fate_flow.core.wire.v1.job_answers import quota_in, why_in
from fate_flow.core.wire.v1.retcodes import OF_QUOTAS

LOG = logging.getLogger(__name__)


class QuotaLog:
    """Writes at most one line a minute about each party and kind of refusal. `clock` returns seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._lines = RefusalLines(clock)
        self._lock = threading.Lock()

    def note(self, party_id: str, retcode: int, text: str) -> None:
        """Note a refusal of a request of a party; only those by quotas are written."""
        if retcode in OF_QUOTAS:
            self._write(party_id, retcode, text)

    def note_answer(self, party_id: str, answer: Answer) -> None:
        """Note an answer to a command of a party; only refusals by quotas are written."""
        if quota := quota_in(answer.data):
            self._write(party_id, quota, f"it {why_in(answer.data)}")
        else:
            self.note(party_id, answer.retcode, answer.retmsg)

    def _write(self, party_id: str, kind: Hashable, text: str) -> None:
        with self._lock:
            line = self._lines.line(party_id, kind, text)
        if line:
            LOG.warning("%s", line)
