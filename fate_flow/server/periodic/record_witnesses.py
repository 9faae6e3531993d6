"""A thread that asks other parties what they hold of this party's record, and has them cosign it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fate_flow.core.model.errors import NotFound
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.paths import ADD_CHECKPOINT, HELD
from fate_flow.core.wire.v1.plain_v1 import NO_SUCH_ROUTE
from fate_flow.core.wire.v1.retcodes import retcode_of_kind
from fate_flow.core.wire.v1.witnessing import held_in
from fate_flow.peers.inquiry import Inquirer
from fate_flow.peers.site_key import has_signed
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.server.periodic.record_sealer import RecordSealer, log_signer, own_list
from fate_flow.services.context.ports import Context
from fate_flow.services.witnesses.cosigning import Cosigning, Offer
from fate_flow.settings.settings import Settings

_EVERY_SECONDS, _STAND_BY_SECONDS = 0.5, 2.0
_AT_ONCE = 8
_NO_WITNESS = (NO_SUCH_ROUTE, retcode_of_kind(NotFound))

Ask = Callable[[Party, str, Mapping[str, Any]], Answer]
AskText = Callable[[Party, str, str], tuple[int, str]]


class RecordWitnesses(PeriodicWork):
    """Works in the process that schedules, beside the one that seals."""

    def __init__(
        self, cosigning: Cosigning, ask: Ask, ask_text: AskText, may_work: Callable[[], bool],
        close: Callable[[], None],
    ) -> None:  # fmt: skip
        """The thread calls `close` at its end."""
        failure = "other parties could not be asked to cosign the record; it is tried again"
        super().__init__("witnesses", failure, close, again=_STAND_BY_SECONDS)
        self._cosigning, self._ask, self._ask_text, self._may_work = cosigning, ask, ask_text, may_work

    def step(self) -> float:
        if not self._may_work():
            return _STAND_BY_SECONDS
        questions, offers = self._cosigning.questions(), self._cosigning.offers()
        if questions or offers:
            with ThreadPoolExecutor(_AT_ONCE) as pool:       # one that is silent holds up no other one
                list(pool.map(self._question, questions))
                list(pool.map(self._offer, offers))
        return _EVERY_SECONDS

    def _question(self, party_id: str) -> None:
        ask_what_is_held(self._cosigning, self._ask, party_id)

    def _offer(self, offer: Offer) -> None:
        self._cosigning.answered(offer, *self._ask_text(Party("host", offer.party_id), ADD_CHECKPOINT, offer.text))


def of_record(
    settings: Settings, context: Context, inquirer: Inquirer, may_work: Callable[[], bool], close: Callable[[], None],
) -> tuple[RecordSealer, RecordWitnesses]:  # fmt: skip
    """Return the two threads that keep the record of a server."""
    cosigning = Cosigning(context, lambda: log_signer(settings.keys_dir, context.clock), has_signed, time.monotonic)
    return (
        RecordSealer(
            context, cosigning, may_work, close, time.monotonic, lambda: own_list(settings.keys_dir)
        ),
        RecordWitnesses(cosigning, inquirer.ask, inquirer.ask_text, may_work, close),
    )


def ask_what_is_held(cosigning: Cosigning, ask: Ask, party_id: str) -> None:
    """Ask a peer for the newest checkpoints that it holds. One that keeps no record holds none."""
    answer = ask(Party("host", party_id), HELD, {})
    notes = held_in(answer)
    if notes is not None:
        cosigning.holds(party_id, notes)
    elif answer.retcode in _NO_WITNESS:
        cosigning.is_no_witness(party_id)
    else:
        cosigning.does_not_answer(party_id)
