"""Deliberate bugs in records and witnesses, and whether they show in stories with a liar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest.mock import patch

from fate_flow.core.record import comparison
from fate_flow.core.record.witness import Seen
from fate_flow.core.wire.v1.witnessing import AS_BEFORE
from fate_flow.services.witnesses import cosigning, witnessing
from fate_flow.services.witnesses.cosigning import Cosigning
from fate_flow.services.witnesses.unsigned_word import UnsignedWord
from fate_flow.services.witnesses.witnessing import Witnessing, WitnessReply
from tests.simulation.world.restored_story import last_seconds_story, restored_story
from tests.simulation.world.world import World


def nobody_is_ahead() -> AbstractContextManager[Any]:
    """A restored party goes on in the log that others hold more of."""
    return patch.object(cosigning, "_is_ahead", lambda *_: False)


def signs_before_it_has_asked() -> AbstractContextManager[Any]:
    return patch.object(Cosigning, "may_sign", lambda *_: True)


def nobody_asks_for_acknowledgements() -> AbstractContextManager[Any]:
    return patch.object(cosigning, "not_received", lambda *_: ())


def asks_for_the_last_acknowledgements_alone() -> AbstractContextManager[Any]:
    """As an earlier release: what was sent since a backup was restored hides what is lost."""
    return patch.object(UnsignedWord, "question", lambda *_: AS_BEFORE)


def a_witness_takes_what_comes_late() -> AbstractContextManager[Any]:
    """As an earlier release: also what a party has sent before it asked what is held of it."""
    add = Witnessing.add_checkpoint

    def added(self: Witnessing, caller: str, text: str, _question: str = "") -> WitnessReply:
        with self._context.store.reading() as tx:
            newest = tx.questions(caller)
        return add(self, caller, text, newest[0] if newest else "")

    return patch.object(Witnessing, "add_checkpoint", added)


def a_new_epoch_excuses_nothing() -> AbstractContextManager[Any]:
    return patch.object(comparison, "_lost_until", lambda *_: comparison._NOWHERE)


def a_witness_cosigns_everything() -> AbstractContextManager[Any]:
    """It keeps nothing of what it should, so that a liar shows it one past after the other."""
    return patch.object(witnessing, "seen_in", lambda *_: Seen.CONTINUES)


Story = Callable[[int], World]
late_requests = partial(last_seconds_story, is_late=True)

RECORD_MUTANTS: Mapping[str, tuple[Callable[[], AbstractContextManager[Any]], Story, int]] = {
    "nobody is ahead": (nobody_is_ahead, restored_story, 3),
    "signs before it has asked": (signs_before_it_has_asked, restored_story, 4),
    "nobody asks for acknowledgements": (nobody_asks_for_acknowledgements, restored_story, 10),
    "asks for the last acknowledgements alone": (asks_for_the_last_acknowledgements_alone, last_seconds_story, 1),
    "a witness takes what comes late": (a_witness_takes_what_comes_late, late_requests, 160),
    "a new epoch excuses nothing": (a_new_epoch_excuses_nothing, restored_story, 0),
    "a witness cosigns everything": (a_witness_cosigns_everything, partial(restored_story, forks=True), 1),
}
"""By name: the bug, a story that shows it, and the first seed of it that does."""
