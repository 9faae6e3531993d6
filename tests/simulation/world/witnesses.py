"""The record of a party in the simulation: its sealer and its witnesses, on virtual time and over the faulty network.

It draws from random numbers of its own, so a world with a record tells the same story as one without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from fate_flow.core.record.checkpoint import read_checkpoint
from fate_flow.core.record.entry import Kind, log_with, read_entry
from fate_flow.core.record.note import read_note
from fate_flow.core.wire.v1.witnessing import AskedHeld, Held
from fate_flow.services.context.ports import Context
from fate_flow.services.record.checkpoints import sign_heads
from fate_flow.services.record.sealing import MOST_AT_ONCE, Seals, put_seals, seals_of
from fate_flow.services.witnesses.cosigning import Cosigning, Offer
from fate_flow.services.witnesses.witnessing import Witness, Witnessing, WitnessReply
from tests.kit.core.signers import has_signed
from tests.kit.services.witness_parties import RecordKeys
from tests.kit.store.record_backup import RecordBackup

if TYPE_CHECKING:
    from tests.simulation.world.party import Server, SimParty
    from tests.simulation.world.process import Process
    from tests.simulation.world.world import World

T = TypeVar("T")

_STEP, _TIMEOUT, _LATE = 1_000, 1_500, 6_000
_ALL = 1 << 40
_HASHING = 7                 # milliseconds between the look at new entries and the transaction that seals them
_LONGEST_WAIT = 10_000       # until what is new is sealed, whether or not others have answered


class Liar(Cosigning):
    """Goes on in the past that it has, whatever others hold of another one."""

    def holds(self, party_id: str, said: Held, question: str = "") -> None:
        size = max((read_checkpoint(read_note(one).text).size for one in said.notes), default=0)
        self._knows(party_id, size, question)

    def _ask_again(self, party_id: str) -> None:
        """It knows better."""


class StrangeWitness:
    """Answers whatever may lead the log of another party astray, as often as it is asked."""

    def __init__(self, true: Witnessing, draw: Random) -> None:
        self._true, self._draw = true, draw

    def held_of(self, caller: str, asked: AskedHeld) -> Held:
        notes = self._true.held_of(caller, asked).notes
        return Held(notes[: self._draw.randint(0, len(notes))], (f"{self._draw.getrandbits(128):032x}",))

    def add_checkpoint(self, caller: str, text: str, question: str) -> WitnessReply:
        old = int(text.partition("\n")[0].removeprefix("old "))
        size, status = self._draw.choice([old, old, 0, 1, old + 1]), self._draw.choice([409, 409, 409, 412, 422, 503])
        if self._draw.random() < 0.3:
            return self._true.add_checkpoint(caller, text, question)
        return WitnessReply(status, f"{size}\n")


class SimWitnessing:
    """A party as a witness, and its keys for the record."""

    def __init__(self, party: SimParty, context: Context) -> None:
        self.keys = RecordKeys(party.party_id)
        self.context = replace(context, store=party.store)
        witness = Witness(self.keys.witness.key, self.keys.witness.sign)
        self._true = Witnessing(self.context, lambda: witness, has_signed)
        self._world = party.world
        with party.store.transaction() as tx:
            for other in party.world.party_ids:
                if other != party.party_id:
                    tx.add_party_keys(RecordKeys(other).listed())

    @property
    def witnessing(self) -> Witnessing | StrangeWitness:
        is_strange = self.keys.party_id in self._world.strange
        return StrangeWitness(self._true, self._world.record_random) if is_strange else self._true


class SimRecordWork:
    """What a scheduling process does for the record, as `RecordSealer` and `RecordWitnesses` do."""

    def __init__(self, server: Server, process: Process) -> None:
        self._party, self._process = server.party, process
        self._world: World = server.party.world
        self._is_in_charge: Callable[[], bool] = lambda: server.scheduler.is_in_charge
        self.restart()
        process.at(self._world.now + 2, self._step)

    def restart(self) -> None:
        """Begin with no memory of what was asked and answered; what is on its way is answered in vain."""
        of_party = self._party.witnessing
        self._began = self._world.now
        kind = Liar if self._party.party_id in self._world.forkers else Cosigning
        self.cosigning = kind(
            of_party.context, lambda: of_party.keys.signer, has_signed, lambda: self._world.now / 1000
        )

    def _step(self) -> None:
        self._process.at(self._world.now + _STEP, self._step)
        if not self._is_in_charge():
            return
        for party_id in self.cosigning.questions():
            self._ask(party_id)
        if self.cosigning.has_asked or self._world.now - self._began >= _LONGEST_WAIT:
            context = self._party.witnessing.context
            with context.store.reading() as tx:
                seals = seals_of(tx, tx.unsealed_entries(MOST_AT_ONCE), context.clock())
            self._process.at(self._world.now + _HASHING, partial(self._sign, seals, self.cosigning))
        for offer in self.cosigning.offers():
            self._offer(offer)

    def _sign(self, seals: Seals, made_by: Cosigning) -> None:
        """Write the seals that were made of what there was a moment ago, and sign what there is now."""
        if self.cosigning is not made_by or not self._is_in_charge():
            return
        context, keys = self._party.witnessing.context, self._party.witnessing.keys
        with context.store.transaction() as tx:
            put_seals(tx, seals)
        with context.store.transaction() as tx:
            sign_heads(tx, keys.signer, context.clock(), context.fresh_salt, may_sign=self.cosigning.may_sign)
        self.cosigning.has_signed(is_urgent=True)

    def _ask(self, party_id: str) -> None:
        own, cosigning, asked = self._party.party_id, self.cosigning, self.cosigning.question(party_id)
        self._call(
            party_id, lambda other: other.held_of(own, asked),
            lambda held: cosigning.holds(party_id, held, asked.question),
            lambda: cosigning.does_not_answer(party_id),
        )  # fmt: skip

    def _offer(self, offer: Offer) -> None:
        own, cosigning = self._party.party_id, self.cosigning
        self._call(
            offer.party_id, lambda other: other.add_checkpoint(own, offer.text, offer.question),
            lambda reply: cosigning.answered(offer, reply.status, reply.text),
            lambda: cosigning.answered(offer, 0, ""),
        )  # fmt: skip

    def _call(
        self, to: str, serve: Callable[[Witnessing | StrangeWitness], T], answered: Callable[[T], None],
        failed: Callable[[], None],
    ) -> None:  # fmt: skip
        """One request. A reply that comes late is taken all the same; `failed` is called if there is none in time."""
        world, own, faults, draw = self._world, self._party.party_id, self._world.faults, self._world.record_random
        replies, asked_by = list[T](), self.cosigning

        def arrive(reply: T) -> None:
            replies.append(reply)
            if self.cosigning is asked_by:
                answered(reply)

        def deliver() -> None:
            other = world.parties[to]
            if any(server.http.is_up and not server.http.is_stopped for server in other.servers):
                reply = serve(other.witnessing.witnessing)
                if (to, own) not in world.cuts and draw.random() >= faults.lose_reply:
                    self._process.at(world.now + self._delay(faults.late_reply), lambda: arrive(reply))

        self._process.at(world.now + _TIMEOUT, lambda: None if replies else failed())
        if own not in world.unheard and not {(own, to)} & (world.dead_routes | world.cuts):
            for probability in (1 - faults.lose_request, faults.repeat_request):
                if draw.random() < probability:
                    world.at(world.now + self._delay(faults.late_request), deliver)

    def _delay(self, late: float) -> int:
        """`late`: how probable it is that something takes long."""
        draw, faults = self._world.record_random, self._world.faults
        return draw.randint(1, max(1, faults.delay)) + (draw.randint(1, _LATE) if draw.random() < late else 0)


def restore_record(party: SimParty, backup: RecordBackup) -> None:
    """Put the record of a party back to an older state, as a restored database has it, and begin anew with it.

    Notes who holds more of it than is left, and who has acknowledgements of what is not left."""
    backup.restore(party.store)
    world = party.world
    for other in (one for one in world.parties.values() if one is not party):
        log = log_with(other.party_id)
        with party.store.reading() as tx:
            epoch = tx.record_head(log).epoch
            newest = tx.newest_checkpoint(log, epoch)
        is_left = (epoch, newest.size if newest else 0)
        if _holds_more(other, party):
            world.restored[party.party_id, other.party_id] = is_left
        if has_forgotten(party, other):
            world.forgotten[party.party_id, other.party_id] = is_left
    for server in party.servers:
        if server.record_work is not None:
            server.record_work.restart()


def has_forgotten(party: SimParty, other: SimParty) -> bool:
    """Return whether a party has acknowledged messages of another one that are not in its log."""
    return bool(_acknowledged(other, party) - _received(party, other))


def _acknowledged(sender: SimParty, receiver: SimParty) -> set[tuple[object, object]]:
    """Return the messages of one party that another one has acknowledged, each with its answer."""
    said = _said(sender, receiver)
    return {(one["number"], one["answer"]) for one in said if one["kind"] == Kind.ANSWERED and one.get("acknowledged")}


def _received(receiver: SimParty, sender: SimParty) -> set[tuple[object, object]]:
    return {(one["number"], one["answer"]) for one in _said(receiver, sender) if one["kind"] == Kind.RECEIVED}


def _said(party: SimParty, other: SimParty) -> list[Mapping[str, Any]]:
    """Return the entries of the log of a party with another one."""
    log = log_with(other.party_id)
    with party.store.reading() as tx:
        found = [one for epoch in tx.record_epochs(log) for one in tx.sealed_entries(log, epoch, 0, _ALL)]
        found += [one for one in tx.unsealed_entries(_ALL) if one.log == log]
    return [read_entry(one.content) for one in found]


def _holds_more(witness: SimParty, party: SimParty) -> bool:
    log = log_with(witness.party_id)
    with party.store.reading() as tx:
        head = tx.record_head(log)
        left = head.size + sum(one.log == log for one in tx.unsealed_entries(_ALL))     # they get the same indexes
    with witness.store.reading() as tx:
        kept = tx.witnessed(f"{party.witnessing.keys.root}/{head.log}/{head.epoch}")
    return kept is not None and kept.size > left
