"""Deliberate bugs in records and witnesses, and whether they show in stories with a liar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from fate_flow.core.record import comparison
from fate_flow.core.record.witness import Seen
from fate_flow.services.witnesses import cosigning, witnessing
from fate_flow.services.witnesses.cosigning import Cosigning


def nobody_is_ahead() -> AbstractContextManager[Any]:
    """A restored party goes on in the log that others hold more of."""
    return patch.object(cosigning, "_is_ahead", lambda *_: False)


def signs_before_it_has_asked() -> AbstractContextManager[Any]:
    return patch.object(Cosigning, "may_sign", lambda *_: True)


def nobody_asks_for_acknowledgements() -> AbstractContextManager[Any]:
    return patch.object(cosigning, "not_received", lambda *_: ())


def a_new_epoch_excuses_nothing() -> AbstractContextManager[Any]:
    return patch.object(comparison, "_lost_until", lambda *_: comparison._NOWHERE)


def a_witness_cosigns_everything() -> AbstractContextManager[Any]:
    """It keeps nothing of what it should, so that a liar shows it one past after the other."""
    return patch.object(witnessing, "seen_in", lambda *_: Seen.CONTINUES)


RECORD_MUTANTS: Mapping[str, tuple[Callable[[], AbstractContextManager[Any]], bool, int]] = {
    "nobody is ahead": (nobody_is_ahead, False, 3),
    "signs before it has asked": (signs_before_it_has_asked, False, 4),
    "nobody asks for acknowledgements": (nobody_asks_for_acknowledgements, False, 10),
    "a new epoch excuses nothing": (a_new_epoch_excuses_nothing, False, 0),
    "a witness cosigns everything": (a_witness_cosigns_everything, True, 1),
}
"""By name: the bug, whether it needs a liar, and the first seed of `restored_story` that shows it."""
