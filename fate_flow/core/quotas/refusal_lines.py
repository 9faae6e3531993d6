"""The lines with which the operator of this server sees that a quota, or a full disk, has refused another party."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from fate_flow.core.model.grammar import shown
from fate_flow.core.quotas.seldom import Seldom
from fate_flow.core.text.phrases import counted


class RefusalLines:
    """At most one line a minute about each party and kind of refusal. Threads that share it hold a lock.

    `clock` returns seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seldom = Seldom()

    def line(self, party_id: str, kind: Hashable, text: str) -> str:
        """Return the line about a refusal; empty if it is left out."""
        left_out = self._seldom.due((party_id, kind), self._clock())
        if left_out is None:
            return ""
        more = f" ({counted(left_out, 'more refusal')} since the last such line)" if left_out else ""
        return f"a quota refuses party {shown(party_id)}: {text}{more}"
