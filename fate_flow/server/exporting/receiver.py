"""What programs that collect logs have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fate_flow.core.record.entry import Kind
from fate_flow.core.record.shown import ShownEntry

_WARNED_OF = (Kind.REFUSED, Kind.EPOCH)


class NotTaken(Exception):
    """A receiver has not taken entries, or has not said that it has. The text says why, without secrets."""


class Receiver(Protocol):
    """A program that collects logs."""

    def send(self, entries: Sequence[ShownEntry]) -> None:
        """Return once it has taken them all. Raise NotTaken; some may have arrived then."""

    def abort(self) -> None:
        """Let a `send` of another thread raise NotTaken, and all later ones."""


def is_warning(one: ShownEntry) -> bool:
    """Return whether operators should look at an entry."""
    return one.kind in _WARNED_OF
