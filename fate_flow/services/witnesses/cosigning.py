"""This party as a log with witnesses: it asks its peers before it signs, and has them cosign what it has signed.

After a start it asks each peer for the newest checkpoint that the peer holds. Until a peer has answered, nothing is
signed in the log with it: if this home was restored from a backup, the peer holds what was signed after the backup, and
a second signature for one size would accuse this party of a lie. The own log waits, too: for all peers, but only for a
minute if some of them have said what they hold, and for all its other witnesses. A peer that does not answer for a day
is given up: the log with it goes on in the next epoch, which cannot contradict anything, and its first entry says so.

A peer may say anything. What this party has signed counts whenever a peer shows it. What nobody has signed, namely
which messages this party has acknowledged, counts in the first answer, and once more a minute later
(`unsigned_word.py`). A head by a key that is not here counts in the first answer alone: the home may have been lost
with its keys. A peer that was heard once holds up the log with it and no other one, and whoever answers what does not
fit is asked every ten seconds at most.

Each question has a random id, and a checkpoint names the question whose answer it follows from. So a peer refuses one
that was sent before a backup was restored here, and that it takes up only after it has been asked.

Nothing here sends a request. A caller does so for what `questions` and `offers` return, and hands back the answers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from fate_flow.core.access.key_list import KeyState
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.record.checkpoint import Checkpoint, checked_checkpoint, read_checkpoint, read_count
from fate_flow.core.record.commitment import number_of
from fate_flow.core.record.entry import OWN_LOG, log_with, other_party
from fate_flow.core.record.log import Head, StoredCheckpoint
from fate_flow.core.record.note import BadNote, Check, NoteKey, read_note
from fate_flow.core.record.proof import NewCheckpoint
from fate_flow.core.record.tree import Edge, consistency_from_edge
from fate_flow.core.record.witness import Seen
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.witnessing import ASKED_SINCE, AskedHeld, Held
from fate_flow.services.context.ports import Context
from fate_flow.services.record.acknowledged import newest_signed, not_received
from fate_flow.services.record.checkpoints import LogSigner, place_in, sealed_hashes
from fate_flow.services.record.epochs import LOST, open_next_epoch
from fate_flow.services.witnesses.cosignatures import keys_of_witness, with_cosignature
from fate_flow.services.witnesses.unsigned_word import UnsignedWord
from fate_flow.store.contract.transaction import Transaction

LOG = logging.getLogger(__name__)

IDLE_SECONDS = 60.0          # between two cosignatures of a log that does not grow
OWN_SECONDS = 60.0           # for which the own log waits for those who do not answer
GIVE_UP_SECONDS = 24 * 3600.0
_SOON_SECONDS = 5.0          # in which a heartbeat may take a new checkpoint along
_ALONG_SECONDS = 20.0        # a heartbeat takes along what would be offered in this time
_AGAIN_SECONDS = 10.0        # after a peer has not answered, or has answered what does not fit
_LATER_SECONDS = 600.0       # after a peer has said that it is no witness
_NO_WITNESS, _NOT_NOW = 404, (0, 500, 503)
_LONGEST_TEXT = 200


@dataclass(frozen=True)
class Offer:
    """A checkpoint for a peer to cosign: `text` is the body of `add-checkpoint`. It continues the one of size `old`.
    `question`: the id of the question to this peer that was answered last."""

    party_id: str
    checkpoint: StoredCheckpoint
    old: int
    text: str
    question: str


@dataclass(frozen=True)
class _Held:
    """A checkpoint that a peer holds; `is_signed`: by a key that is in this home."""

    epoch: int
    checkpoint: Checkpoint
    is_signed: bool


@dataclass
class _Peer:
    """What is known of a peer as a witness, since the start of this process. Times are those of `monotonic`."""

    is_known: bool = False       # what it holds; also if it keeps no record, or is given up
    has_said: bool = False       # it has said itself what it holds
    epoch: int = 0               # of the log with it
    holds: int = 0               # the size of its newest checkpoint in this epoch
    question: str = ""           # the id of the one that it has answered last
    has_been_asked: bool = False
    asked_since: float | None = None     # the first question since this process is in charge
    is_witness: bool = True      # it has not said otherwise; it is asked again before anything more is offered
    ask_at: float = 0.0
    offer_at: float = 0.0
    rests_until: float = 0.0     # nothing is offered before
    is_stale: bool = False       # its last answer was that it holds another size

    def has_to_be_asked(self, now: float) -> bool:
        return self.ask_at <= now and not (self.is_known and self.is_witness)

    def due_at(self) -> float:
        """Return when it has to be asked, or something to be offered to it."""
        return max(self.offer_at, self.rests_until) if self.is_known and self.is_witness else self.ask_at

    def may_be_offered(self, now: float) -> bool:
        return self.is_known and self.is_witness and self.rests_until <= now

    def is_silent_for(self, seconds: float, now: float) -> bool:
        return not self.is_known and self.asked_since is not None and now - self.asked_since >= seconds


class OwnLogWitnesses(Protocol):
    """Witnesses of the own log that are no parties."""

    def heard(self) -> tuple[int, int]:
        """Return how many have said what they hold since the start, and how many may still hold something newer."""
        ...

    def have_been_asked(self) -> bool:
        """Return whether each has answered once, or has not answered."""
        ...

    def has_begun_anew(self) -> bool:
        """Return whether the own log has begun anew because of them since the start."""
        ...

    def has_signed(self) -> None: ...


class NoWitnesses:
    def heard(self) -> tuple[int, int]:
        return 0, 0

    def have_been_asked(self) -> bool:
        return True

    def has_begun_anew(self) -> bool:
        return False

    def has_signed(self) -> None: ...


@dataclass
class Cosigning:
    """Where this party stands with each of its witnesses. May be shared by threads."""

    context: Context
    signer: Callable[[], LogSigner | None]
    check: Check
    monotonic: Callable[[], float]
    rouse: Callable[[], None] = lambda: None     # called when something has to be offered at once
    others: OwnLogWitnesses = field(default_factory=NoWitnesses)
    _peers: dict[str, _Peer] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._has_looked = self._has_begun_own_anew = False
        self._known_at: dict[str, float] = {}    # when it was known last what a peer holds; also of those that are gone
        self._word = UnsignedWord()
        self._being_asked: set[str] = set()      # nothing is offered to them: it would name an older question

    # ------------------------------------------------------------------ before the first signature

    def questions(self) -> tuple[str, ...]:
        """Return the peers that have to be asked now for what they hold of this party's logs."""
        self.look()
        now = self.monotonic()
        with self._lock:
            found = {one: peer for one, peer in self._peers.items() if peer.has_to_be_asked(now)}
            for peer in found.values():
                peer.asked_since = now if peer.asked_since is None else peer.asked_since
            known = [one for one, peer in self._peers.items() if peer.is_known and one not in found]
        return (*found, *self._word.are_due(known, now))

    def question(self, party_id: str) -> AskedHeld:
        """Return what a peer is asked."""
        asked = self._word.question(party_id, lambda: self.context.read(lambda tx: newest_signed(tx, party_id)))
        with self._lock:
            self._being_asked.add(party_id)
        return replace(asked, question=number_of(bytes.fromhex(self.context.fresh_salt())))

    def stands_by(self) -> None:
        """Note that another process is in charge: silence counts from the next question."""
        with self._lock:
            for peer in self._peers.values():
                peer.asked_since = None

    def look(self) -> None:
        """Look which parties are peers now."""
        has_key = self._own() is not None        # without a key nothing is signed
        parties = self.context.read(self._parties) if has_key else ()
        with self._lock:
            self._peers = {one: self._peers.get(one) or _Peer() for one in parties}
            self._has_looked = True

    def seconds_until_due(self, most: float) -> float:
        """Return for how long there is nothing to ask or offer; at most `most`."""
        now = self.monotonic()
        with self._lock:
            due = [one.due_at() for one in self._peers.values()]
            again = [self._word.due_at(one) for one, peer in self._peers.items() if peer.is_known]
            due += [one for one in again if one is not None]
        return max(0.0, min([most, *(one - now for one in due)]))

    def _parties(self, tx: Transaction) -> tuple[str, ...]:
        """Return the peers that may hold a checkpoint, and can be reached."""
        joined = [keys.party_id for keys in tx.all_party_keys() if keys.state is KeyState.JOINED]
        return tuple(one for one in joined if one in self.context.routes)

    def may_sign(self, log: str) -> bool:
        """Return whether all who may hold a later state of this log have been heard. Nobody holds one of an epoch of
        the own log that has begun in this process. A peer that was heard once speaks of the own log no more."""
        now = self.monotonic()
        with self._lock:
            silent = {one: peer for one, peer in self._peers.items() if not peer.is_known}
            if log != OWN_LOG:
                return self._has_looked and other_party(log) not in silent
            silent = {one: peer for one, peer in silent.items() if one not in self._known_at}
            said, unheard = self.others.heard()
            is_late = all(one.is_silent_for(OWN_SECONDS, now) for one in silent.values())
            has_heard_some = said > 0 or any(one.has_said for one in self._peers.values())
            is_heard = not unheard and (not silent or (is_late and has_heard_some))
            return self._has_looked and (is_heard or self.has_begun_own_anew())

    def has_begun_own_anew(self) -> bool:
        """Return whether the own log has begun anew in this process."""
        return self._has_begun_own_anew or self.others.has_begun_anew()

    @property
    def has_asked(self) -> bool:
        """Whether each peer and each other witness has answered once, or has not answered."""
        with self._lock:
            has_asked = all(one.is_known or one.has_been_asked for one in self._peers.values())
        return self._has_looked and has_asked and self.others.have_been_asked()

    def does_not_answer(self, party_id: str) -> None:
        now = self.monotonic()
        with self._lock:
            peer = self._peers.setdefault(party_id, _Peer())
            self._being_asked.discard(party_id)
            self._word.is_silent(party_id, now)
            if peer.is_known and peer.is_witness:
                return               # it was asked for its word once more
            peer.ask_at, peer.has_been_asked = now + _AGAIN_SECONDS, True
            peer.asked_since = now if peer.asked_since is None else peer.asked_since
            is_over = peer.is_silent_for(GIVE_UP_SECONDS, now)
            somebody = any(one.has_said for one in self._peers.values()) or self.others.heard()[0] > 0
        if is_over:
            why = f"party {party_id} has not said for a day what it holds of this log"
            with_own = not somebody and not self.has_begun_own_anew()
            self._begin_anew([log_with(party_id), *([OWN_LOG] if with_own else [])], why)
            self._knows(party_id, 0)

    def is_no_witness(self, party_id: str) -> None:
        """The peer keeps no record, so it holds nothing."""
        self._knows(party_id, 0)
        self._word.says_nothing(party_id)
        with self._lock:
            peer = self._peers[party_id]
            peer.is_witness, peer.ask_at = False, self.monotonic() + _LATER_SECONDS

    def holds(self, party_id: str, said: Held, question: str) -> None:
        """Take the answer of a peer to the question with this id: what it has of this party's log with it. If that is
        ahead of what is here, that log and the own one begin anew, the own one once in a process: nobody can hold
        anything of it from before."""
        signer = self._own()
        if signer is None:
            return
        held = [one for one in (self._held(party_id, text, signer) for text in said.notes) if one is not None]
        is_first, counts = self._word.is_first(party_id), self._word.counts(party_id, self.monotonic())
        epoch, theirs = _newest([one for one in held if one.is_signed])
        of_no_key = _newest([one for one in held if is_first and not one.is_signed])

        def look(tx: Transaction) -> tuple[Head, str, Sequence[str]]:
            head = tx.record_head(log_with(party_id))
            lost = not_received(tx, party_id, said.messages() if counts else ())
            why = "has acknowledgements that are not here" if lost else ""
            if _is_ahead(tx, head, *of_no_key):
                why = "holds a head that no key of this home has signed"
            return head, "is ahead" if _is_ahead(tx, head, epoch, theirs) else why, lost

        head, why, lost = self.context.read(look)
        if why:
            why = f"party {party_id} {why}"
            logs = [log_with(party_id), *([] if self.has_begun_own_anew() else [OWN_LOG])]
            self._begin_anew(logs, f"{LOST}: {why}", theirs, epoch, lost)
            self._knows(party_id, 0, question, has_said=True)
        else:
            self._knows(party_id, theirs.size if theirs and epoch == head.epoch else 0, question, has_said=True)
        self._word.is_taken(party_id, self.monotonic(), has_begun_anew=bool(why))

    def _own(self) -> LogSigner | None:
        """Return the key of this party; None also for one that cannot be used, which `sign` reports."""
        try:
            return self.signer()
        except BadSettings:
            return None

    def _held(self, party_id: str, text: str, signer: LogSigner) -> _Held | None:
        """Return what a note says of the log with a peer; None if it is of another log, or a signature is wrong."""
        try:
            note = read_note(text)
            origin = note.text.partition("\n")[0]
            _, log, epoch = place_in(origin)
            if log != log_with(party_id):
                raise BadNote(f"it is of {origin}")
            keys = [NoteKey(origin, one) for one in (signer.key, *signer.earlier)]
            key = next((key for key in keys if note.of(key)), None)
            if key is not None:
                return _Held(epoch, checked_checkpoint(note, key, self.check), True)
            LOG.warning("party %s holds a checkpoint that no key of this home has signed: %s", party_id, origin)
            return _Held(epoch, read_checkpoint(note.text), False)
        except BadNote as error:
            LOG.warning("party %s holds a checkpoint of this party that is not believed: %s", party_id, error)
            return None

    def _begin_anew(
        self, logs: Sequence[str], why: str, theirs: Checkpoint | None = None, epoch: int = 0,
        lost: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """`theirs`: the head that a peer holds of the first log, in this epoch."""
        now = self.context.clock()

        def act(tx: Transaction) -> bool:
            ended = tx.record_head(OWN_LOG).epoch
            for log in logs:
                held = (None, 0, ()) if log == OWN_LOG else (theirs, epoch, lost)
                open_next_epoch(tx, log, now, why, *held)
            return tx.record_head(OWN_LOG).epoch != ended

        self._has_begun_own_anew |= self.context.write(act)
        held = f"; it holds {theirs.size} entries of epoch {epoch}" if theirs else ""
        LOG.warning("the record goes on in the next epoch (%s): %s%s", ", ".join(logs), why, held)

    def _knows(self, party_id: str, size: int, question: str = "", has_said: bool = False) -> None:
        epoch = self.context.read(lambda tx: tx.record_head(log_with(party_id))).epoch
        now = self.monotonic()
        with self._lock:
            self._peers[party_id] = _Peer(True, has_said, epoch, size, question, has_been_asked=True, offer_at=now)
            self._known_at[party_id] = now
            self._being_asked.discard(party_id)

    # ------------------------------------------------------------------ what it has signed

    def has_signed(self, is_urgent: bool) -> None:
        """Note that there may be new checkpoints; `is_urgent`: they do not wait for heartbeats."""
        at = self.monotonic() + (0.0 if is_urgent else _SOON_SECONDS)
        with self._lock:
            for peer in self._peers.values():
                peer.offer_at = min(peer.offer_at, at)
        self.others.has_signed()
        if is_urgent:
            self.rouse()

    def offers(self) -> tuple[Offer, ...]:
        """Return what to send now to which peers."""
        now = self.monotonic()
        with self._lock:
            due = {one: peer for one, peer in self._peers.items() if self._may_offer(one, now) and peer.offer_at <= now}
            for peer in due.values():
                peer.offer_at = now + IDLE_SECONDS
        found = [self.context.read(lambda tx, one=one: self._offer(tx, *one)) for one in due.items()]  # type: ignore[misc]
        return tuple(one for one in found if one is not None)

    def _may_offer(self, party_id: str, now: float) -> bool:
        peer = self._peers.get(party_id)
        return peer is not None and peer.may_be_offered(now) and party_id not in self._being_asked

    def _offer(self, tx: Transaction, party_id: str, peer: _Peer) -> Offer | None:
        head = tx.record_head(log_with(party_id))
        newest = tx.newest_checkpoint(head.log, head.epoch)
        if newest is None or not keys_of_witness(tx, party_id):
            return None
        with self._lock:
            if peer.epoch != head.epoch:         # it has begun anew when it was signed
                peer.epoch, peer.holds = head.epoch, 0
            holds, question = peer.holds, peer.question
        old = edge_of(tx, head, holds)
        if old is None or old.size > newest.size:
            self._ask_again(party_id)
            return None
        leaves = sealed_hashes(tx, head, old.size, newest.size - old.size) if newest.size > old.size else ()
        hashes = consistency_from_edge(old, leaves) if old.size else ()
        text = str(NewCheckpoint(old.size, hashes, read_note(newest.note)))
        return Offer(party_id, newest, old.size, text, question)

    def for_heartbeat(self, party_id: str) -> Offer | None:
        """Return what the next heartbeat to this party takes along: a new checkpoint, or one that is due soon."""
        with self._lock:
            now = self.monotonic()
            if not self._may_offer(party_id, now):
                return None
            peer = self._peers[party_id]
            is_due = peer.offer_at <= now + _ALONG_SECONDS
        found = self.context.read(lambda tx: self._offer(tx, party_id, peer))
        return found if found is not None and (is_due or found.checkpoint.size > found.old) else None

    def answered(self, offer: Offer, status: int, text: str) -> None:
        """Take the answer of a peer to `add-checkpoint`; status 0: it has not answered."""
        is_kept = status == Seen.CONTINUES.status and self._keep(offer, text)
        with self._lock:
            now, peer = self.monotonic(), self._peers.setdefault(offer.party_id, _Peer())
            if not peer.is_known or peer.epoch != offer.checkpoint.epoch:
                return               # the log has begun anew meanwhile, or the peer is asked again
            if is_kept:
                peer.holds = max(peer.holds, offer.checkpoint.size)
                peer.offer_at, peer.is_stale = now + IDLE_SECONDS, False
            elif status == Seen.STALE.status:
                self._is_stale(offer, peer, text)
            elif status == ASKED_SINCE:
                self._is_of_older_question(offer, peer)
            elif status in _NOT_NOW:
                peer.offer_at = peer.rests_until = now + _AGAIN_SECONDS
            else:
                peer.is_witness, peer.ask_at = False, now + _LATER_SECONDS
                why = sanitized(text, _LONGEST_TEXT).strip() or "no cosignature that holds"
                message = "party %s does not cosign the record of this party: HTTP status %d: %s"
                LOG.log(logging.INFO if status == _NO_WITNESS else logging.ERROR, message, offer.party_id, status, why)

    def _is_stale(self, offer: Offer, peer: _Peer, text: str) -> None:
        """Offer the peer what continues the size that it holds: at once, but a second time in a row later."""
        try:
            size = read_count(text.strip())
        except BadNote:
            size = offer.old
        if size == offer.old:
            self._ask_again(offer.party_id)      # it has this size, and another root
        else:
            again = self.monotonic() + (_AGAIN_SECONDS if peer.is_stale else 0.0)
            peer.holds, peer.offer_at, peer.rests_until, peer.is_stale = size, again, again, True

    def _is_of_older_question(self, offer: Offer, peer: _Peer) -> None:
        """Offer it again if the newer question is one of this process that was answered meanwhile; otherwise ask: it
        was one that has got no answer, or of another process of this party."""
        if peer.question != offer.question:
            peer.offer_at = self.monotonic()
        else:
            self._ask_again(offer.party_id)

    def _ask_again(self, party_id: str) -> None:
        """What the peer holds is not here: nothing more is signed in the log with it before it has been asked."""
        now = self.monotonic()
        with self._lock:
            known_at, peer = self._known_at.get(party_id), self._peers.get(party_id, _Peer())
            is_soon = known_at is not None and now - known_at < _LATER_SECONDS
            ask_at = now + (_AGAIN_SECONDS if is_soon else 0.0)
            self._peers[party_id] = _Peer(has_said=peer.has_said, has_been_asked=True, ask_at=ask_at)

    def _keep(self, offer: Offer, text: str) -> bool:
        """Keep the cosignature beside the checkpoint; False if it is none of this peer."""
        log = log_with(offer.party_id)

        def act(tx: Transaction) -> bool:
            kept = tx.checkpoint(log, offer.checkpoint.epoch, offer.checkpoint.size)
            if kept is None:
                return False             # it was restored away meanwhile
            note = with_cosignature(read_note(kept.note), text, keys_of_witness(tx, offer.party_id), self.check)
            if note is not None:
                tx.put_checkpoint(log, StoredCheckpoint(kept.epoch, kept.size, str(note), kept.at, kept.edge))
            return note is not None

        return self.context.write(act)


def _newest(held: Sequence[_Held]) -> tuple[int, Checkpoint | None]:
    newest = max(held, key=lambda one: (one.epoch, one.checkpoint.size), default=None)
    return (newest.epoch, newest.checkpoint) if newest else (0, None)


def _is_ahead(tx: Transaction, head: Head, epoch: int, theirs: Checkpoint | None) -> bool:
    """Return whether what a peer holds, if anything, is not a beginning of the log as it is here."""
    if theirs is None:
        return False
    if epoch != head.epoch:
        return epoch > head.epoch
    edge = edge_of(tx, head, theirs.size)
    return edge is None or edge.root != theirs.root


def edge_of(tx: Transaction, head: Head, size: int) -> Edge | None:
    """Return the tree as it was at this size; None if the log is smaller. It is mostly found beside a checkpoint."""
    kept = tx.checkpoint(head.log, head.epoch, size)
    if kept is not None and kept.edge is not None:
        return kept.edge
    return Edge().with_leaves(sealed_hashes(tx, head, 0, size)) if size <= head.size else None
