"""What other parties say now that they hold of this party's record, for whoever verifies it.

A cosignature that is kept here says how far a log had got when it was made. A party that is asked now also says what
was there since then: so it is seen if somebody has put an older state of the whole database back, or cut off its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from fate_flow.core.access.key_list import KeyState
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.record.checkpoint import Checkpoint, checked_checkpoint
from fate_flow.core.record.entry import log_with
from fate_flow.core.record.note import BadNote, Check, NoteKey, read_note
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.paths import HELD
from fate_flow.core.wire.v1.witnessing import OF_AN_AUDIT, Held, held_in
from fate_flow.services.record.checkpoints import place_in
from fate_flow.store.contract.transaction import Transaction

_AT_ONCE = 8
_LONGEST_WHY = 200

Ask = Callable[[Party, str, Mapping[str, Any]], Answer]


@dataclass(frozen=True)
class HeldNow:
    """The answers of the parties that were asked at the same time, before the record is read."""

    at: int                                                          # seconds since 1970, by the own clock
    heard: Mapping[str, Held] = field(default_factory=dict)          # by party id
    unheard: Mapping[str, str] = field(default_factory=dict)         # by party id, why nothing is known


def parties_to_ask(tx: Transaction, routes: Collection[str]) -> tuple[str, ...]:
    """Return the parties that may hold a checkpoint of this party; those without a route are among them only if they
    have joined."""
    known = {*routes, *(one.party_id for one in tx.joined_parties())}
    return tuple(one.party_id for one in tx.all_party_keys() if one.state is KeyState.JOINED and one.party_id in known)


def ask_what_is_held(parties: Sequence[str], ask: Ask, at: int) -> HeldNow:
    """Ask all of them at once. `ask` may be called by several threads; `at`: milliseconds since 1970."""
    if not parties:
        return HeldNow(at // 1000)
    body = OF_AN_AUDIT.as_body()
    with ThreadPoolExecutor(min(_AT_ONCE, len(parties)), "held") as pool:
        answers = dict(zip(parties, pool.map(lambda one: ask(Party("host", one), HELD, body), parties), strict=True))
    found = {party_id: held_in(answer) for party_id, answer in answers.items()}
    unheard = {party_id: why_not_said(answers[party_id]) for party_id, held in found.items() if held is None}
    return HeldNow(at // 1000, {party_id: held for party_id, held in found.items() if held is not None}, unheard)


def why_not_said(answer: Answer) -> str:
    """Return why an answer does not say what was asked for."""
    said = "" if answer.is_ok else sanitized(answer.retmsg, _LONGEST_WHY)
    return said or "it answers in a form that is not known here"


def held_epochs(held: Held, party_id: str, own: Sequence[bytes], check: Check) -> Mapping[int, Checkpoint]:
    """Return the newest checkpoint of each epoch that a party holds of the log with it, as far as a key of this party
    has signed it: nobody can accuse it by another one."""
    found: dict[int, Checkpoint] = {}
    for text in held.notes:
        try:
            note = read_note(text)
            origin = note.text.partition("\n")[0]
            key = next((one for one in (NoteKey(origin, raw) for raw in own) if note.of(one)), None)
            _, log, epoch = place_in(origin)
            if key is None or log != log_with(party_id):
                continue
            one = checked_checkpoint(note, key, check)
        except BadNote:
            continue
        if epoch not in found or found[epoch].size < one.size:
            found[epoch] = one
    return found
