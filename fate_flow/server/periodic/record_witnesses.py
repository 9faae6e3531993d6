"""A thread that asks other parties what they hold of this party's record, and has them cosign it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from fate_flow.core.model.errors import FlowError, NotFound
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

LOG = logging.getLogger(__name__)

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


class HeadsForHeartbeats:
    """The heads that heartbeats take along. What goes wrong with them stops no heartbeat."""

    def __init__(self, cosigning: Cosigning) -> None:
        self._cosigning = cosigning

    def for_heartbeat(self, party_id: str) -> tuple[str, Callable[[int, str], None]] | None:
        try:
            offer = self._cosigning.for_heartbeat(party_id)
        except FlowError as error:
            LOG.warning("a heartbeat to party %s goes without a checkpoint: %s", party_id, error.message)
            return None
        return None if offer is None else (offer.text, partial(self._answered, offer))

    def _answered(self, offer: Offer, status: int, text: str) -> None:
        try:
            self._cosigning.answered(offer, status, text)
        except FlowError as error:
            LOG.warning("a cosignature of party %s is not kept: %s", offer.party_id, error.message)


@dataclass(frozen=True)
class RecordWork:
    """What keeps the record of a server: two threads, and what heartbeats take along."""

    threads: tuple[PeriodicWork, ...]
    heads: HeadsForHeartbeats


def record_work(
    settings: Settings, context: Context, inquirer: Inquirer, may_work: Callable[[], bool], close: Callable[[], None],
) -> RecordWork:  # fmt: skip
    """Return what keeps the record of a server."""
    cosigning = Cosigning(context, lambda: log_signer(settings.keys_dir, context.clock), has_signed, time.monotonic)
    sealer = RecordSealer(
        context, cosigning, may_work, close, time.monotonic, lambda: own_list(settings.keys_dir)
    )  # fmt: skip
    witnesses = RecordWitnesses(cosigning, inquirer.ask, inquirer.ask_text, may_work, close)
    return RecordWork((sealer, witnesses), HeadsForHeartbeats(cosigning))


def ask_what_is_held(cosigning: Cosigning, ask: Ask, party_id: str) -> None:
    """Ask a peer for the newest checkpoints that it holds. One that keeps no record holds none."""
    answer = ask(Party("host", party_id), HELD, {})
    held = held_in(answer)
    if held is not None:
        cosigning.holds(party_id, held)
    elif answer.retcode in _NO_WITNESS:
        cosigning.is_no_witness(party_id)
    else:
        cosigning.does_not_answer(party_id)
