"""A thread that asks other parties what they hold of this party's record, and has them cosign it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any

from fate_flow.core.model.errors import FlowError, NotFound
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.paths import ADD_CHECKPOINT, HELD
from fate_flow.core.wire.v1.plain_v1 import NO_SUCH_ROUTE
from fate_flow.core.wire.v1.retcodes import retcode_of_kind
from fate_flow.core.wire.v1.witnessing import QUESTION, AskedHeld, held_in
from fate_flow.peers.inquiry import Inquirer
from fate_flow.peers.key_changes import RecordKey
from fate_flow.peers.peer_senders import HeartbeatHead
from fate_flow.peers.site_key import has_signed
from fate_flow.relay.wakeup import QuietWakeup
from fate_flow.server.periodic.foreign_witnesses import ForeignRounds, sending_to
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.server.periodic.record_sealer import (
    POLL_SECONDS,
    SEAL_SECONDS,
    RecordSealer,
    WithoutSync,
    log_signer,
    own_list,
)
from fate_flow.server.periodic.server_steps import ServerSteps, own_server
from fate_flow.services.context.ports import Context
from fate_flow.services.witnesses.cosigning import Cosigning, Offer
from fate_flow.services.witnesses.foreign import ForeignWitnesses
from fate_flow.settings.settings import Settings

LOG = logging.getLogger(__name__)

_LOOK_SECONDS, _STAND_BY_SECONDS = 2.0, 2.0      # between two looks for new peers, and whether this process schedules
_LEAST_SECONDS = 0.2
_AT_ONCE = 8
_NO_WITNESS = (NO_SUCH_ROUTE, retcode_of_kind(NotFound))

Ask = Callable[[Party, str, Mapping[str, Any]], Answer]
AskText = Callable[[Party, str, str, Mapping[str, str]], tuple[int, str]]
_Take = Callable[[], None]


class RecordWitnesses(PeriodicWork):
    """Works in the process that schedules, beside the one that seals."""

    def __init__(
        self, cosigning: Cosigning, ask: Ask, ask_text: AskText, may_work: Callable[[], bool],
        close: Callable[[], None],
    ) -> None:  # fmt: skip
        """The thread calls `close` at its end."""
        failure = "other parties could not be asked to cosign the record; it is tried again"
        super().__init__("witnesses", failure, self._end, again=_STAND_BY_SECONDS)
        self._cosigning, self._ask, self._ask_text, self._may_work = cosigning, ask, ask_text, may_work
        self._pool, self._close_thread = ThreadPoolExecutor(_AT_ONCE, "witness"), close
        cosigning.rouse = self.rouse

    def step(self) -> float:
        if not self._may_work():
            self._cosigning.stands_by()
            return _STAND_BY_SECONDS
        asked = [partial(self._question, one, self._cosigning.question(one)) for one in self._cosigning.questions()]
        asked += [partial(self._offer, one) for one in self._cosigning.offers()]
        failures = list[Exception]()
        for answer in self._answers(asked):
            try:
                answer()()
            except Exception as error:  # noqa: BLE001  # it is raised when the other parties have been heard
                failures.append(error)
        if failures:
            raise failures[0]
        return max(_LEAST_SECONDS, self._cosigning.seconds_until_due(_LOOK_SECONDS))

    def _answers(self, asked: Sequence[Callable[[], _Take]]) -> Iterator[Callable[[], _Take]]:
        """Send these requests, and yield each answer as it comes: one that is silent holds up no other one. It is taken
        in this thread, which has a connection to the database."""
        if len(asked) == 1:
            yield asked[0]
            return
        for done in as_completed([self._pool.submit(one) for one in asked]):
            yield done.result

    def _question(self, party_id: str, asked: AskedHeld) -> _Take:
        answer = self._ask(Party("host", party_id), HELD, asked.as_body())
        return partial(take_what_is_held, self._cosigning, party_id, answer, asked.question)

    def _offer(self, offer: Offer) -> _Take:
        status, text = self._ask_text(
            Party("host", offer.party_id), ADD_CHECKPOINT, offer.text, {QUESTION: offer.question}
        )
        return partial(self._cosigning.answered, offer, status, text)

    def _end(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._close_thread()


class HeadsForHeartbeats:
    """The heads that heartbeats take along. What goes wrong with them stops no heartbeat."""

    def __init__(self, cosigning: Cosigning) -> None:
        self._cosigning = cosigning

    def for_heartbeat(self, party_id: str) -> HeartbeatHead | None:
        try:
            offer = self._cosigning.for_heartbeat(party_id)
        except FlowError as error:
            LOG.warning("a heartbeat to party %s goes without a checkpoint: %s", party_id, error.message)
            return None
        return None if offer is None else HeartbeatHead(offer.text, offer.question, partial(self._answered, offer))

    def _answered(self, offer: Offer, status: int, text: str) -> None:
        try:
            self._cosigning.answered(offer, status, text)
        except FlowError as error:
            LOG.warning("a cosignature of party %s is not kept: %s", offer.party_id, error.message)


@dataclass(frozen=True)
class RecordWork:
    """What keeps the record of a server: its threads, and what heartbeats take along."""

    threads: tuple[PeriodicWork, ...]
    heads: HeadsForHeartbeats


def record_work(
    settings: Settings, context: Context, inquirer: Inquirer, may_work: Callable[[], bool], close: Callable[[], None],
    wakeup: QuietWakeup, without_sync: WithoutSync,
) -> RecordWork:  # fmt: skip
    """Return what keeps the record of a server. `wakeup` comes after its entries; those of other servers of the party,
    which share its database, are looked for as often as entries have to be sealed. In the block of `without_sync`
    commits do not wait for the disk."""
    key = RecordKey(settings.keys_dir)
    cosigning = Cosigning(context, lambda: log_signer(key, context.clock()), has_signed, time.monotonic)
    poll_seconds = POLL_SECONDS if settings.one_of is None else SEAL_SECONDS
    sealer = RecordSealer(
        context, cosigning, may_work, close, time.monotonic, wakeup, lambda: own_list(settings.keys_dir), poll_seconds,
        without_sync, ServerSteps(context, own_server(settings)),
    )  # fmt: skip
    witnesses = RecordWitnesses(cosigning, inquirer.ask, inquirer.ask_text, may_work, close)
    threads: tuple[PeriodicWork, ...] = (sealer, witnesses)
    if settings.recording.witnesses:
        threads = (*threads, _foreign_rounds(settings, context, cosigning, may_work, close))
    return RecordWork(threads, HeadsForHeartbeats(cosigning))


def _foreign_rounds(
    settings: Settings, context: Context, cosigning: Cosigning, may_work: Callable[[], bool], close: Callable[[], None]
) -> ForeignRounds:
    listed = settings.recording.witnesses
    foreign = ForeignWitnesses(
        context, [(one.name, one.key) for one in listed], cosigning.signer, cosigning.check, time.monotonic
    )  # fmt: skip
    cosigning.others, foreign.has_begun_own_anew = foreign, cosigning.has_begun_own_anew
    return ForeignRounds(foreign, sending_to(listed), may_work, close)


def take_what_is_held(cosigning: Cosigning, party_id: str, answer: Answer, question: str) -> None:
    """Take the answer of a peer that was asked for the newest checkpoints that it holds. One that keeps no record holds
    none."""
    held = held_in(answer)
    if held is not None:
        cosigning.holds(party_id, held, question)
    elif answer.retcode in _NO_WITNESS:
        cosigning.is_no_witness(party_id)
    else:
        cosigning.does_not_answer(party_id)
