"""The parties that have to get whole documents, because their servers do not know what is withheld (disclosure)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from fate_flow.core.model.job import Answer
from fate_flow.core.wire.v1.extensions import understands_disclosure
from fate_flow.core.wire.v1.plain_v1 import is_of_plain_v1

Ask = Callable[[str], Answer]
"""Sends `intake` to the party with this id."""

_AT_ONCE = 16


class UnawareParties:
    """What this process knows about other parties; it asks again after a while."""

    def __init__(
        self, seconds: float = 60.0, plain_seconds: float = 600.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:  # fmt: skip
        """`seconds`: for how long an answer counts; `plain_seconds`: that of a server of plain v1, to whose operator
        the question is an error in the log."""
        self._seconds, self._plain_seconds, self._monotonic = seconds, plain_seconds, monotonic
        self._known: dict[str, tuple[float, bool]] = {}      # by party id: until when, and whether it is unaware

    def unknown(self, party_ids: Collection[str]) -> list[str]:
        """Return the parties that have to be asked."""
        now = self._monotonic()
        return sorted(one for one in party_ids if one not in self._known or self._known[one][0] < now)

    def ask(self, party_ids: Collection[str], ask: Ask) -> None:
        """Ask these parties at the same time."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = zip(party_ids, pool.map(ask, party_ids), strict=True)
            for party_id, answer in answers:
                self._take(party_id, answer)

    def _take(self, party_id: str, answer: Answer) -> None:
        """A party that refuses is not known to be unaware: it would get no job in any case. What is known of one that
        does not answer stays: a `create` is sent more often than this question."""
        if answer.is_silence:
            return
        self._known.pop(party_id, None)
        if is_of_plain_v1(answer):
            self._known[party_id] = (self._monotonic() + self._plain_seconds, True)
        elif answer.is_ok:
            self._known[party_id] = (self._monotonic() + self._seconds, not understands_disclosure(answer.data))

    def among(self, party_ids: Collection[str]) -> frozenset[str]:
        """Return those of these parties that are known to need whole documents."""
        return frozenset(one for one in party_ids if self._known.get(one, (0.0, False))[1])
