"""Witnesses that are no parties: they cosign the own log by C2SP tlog-witness, at addresses of the configuration.

They are asked before the first signature after a start, as peers are. A witness has no question for what it holds, so
it is sent what it has cosigned last, as far as that is known here: the newest checkpoint once more, or one of no
entries. Neither says anything new, so nothing that is restored from a backup is signed before a witness has answered.
If it holds more, or another past, the own log goes on in the next epoch.

An answer says what a witness holds only if the protocol says so: a cosignature that holds, 409 with a size, or 422.
Anything else may be of a proxy, and is silence. But a witness that does not know the log (403, 404) is not waited for
if no checkpoint of this epoch has its cosignature: it has never known it, as far as is known here.

Nothing here sends a request. A caller does so for what `due` returns, and hands back the answers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.record.checkpoint import Checkpoint, read_count
from fate_flow.core.record.entry import OWN_LOG
from fate_flow.core.record.log import StoredCheckpoint
from fate_flow.core.record.note import BadNote, Check, NoteKey, read_note, sign_note
from fate_flow.core.record.proof import NewCheckpoint
from fate_flow.core.record.tree import EMPTY_ROOT, consistency_from_edge
from fate_flow.core.record.witness import Seen
from fate_flow.core.text.phrases import sanitized
from fate_flow.services.context.ports import Context
from fate_flow.services.record.checkpoints import LogSigner, origin_of, sealed_hashes
from fate_flow.services.record.epochs import LOST, open_next_epoch
from fate_flow.services.witnesses.cosignatures import with_cosignature
from fate_flow.services.witnesses.cosigning import GIVE_UP_SECONDS, IDLE_SECONDS, edge_of
from fate_flow.store.contract.transaction import Transaction

LOG = logging.getLogger(__name__)

_AGAIN_SECONDS = 10.0        # after a witness has not answered
_LATER_SECONDS = 600.0       # after it has refused
_SAY_SECONDS = 60.0          # of silence at the start, before the log of the server says so
_TOO_MANY, _SERVER_ERRORS = 429, 500
_NOT_KNOWN = (403, 404)      # "no known key has signed it", "unknown log"; proxies say so, too
_LONGEST_TEXT = 200


@dataclass(frozen=True)
class ForeignOffer:
    """What to send to a witness: `text` is the body of `add-checkpoint`, of a checkpoint of this size that continues
    the one of size `old`."""

    name: str
    epoch: int
    old: int
    size: int
    text: str


@dataclass
class _Witness:
    """What is known of a witness since the start of this process. Times are those of `monotonic`."""

    key: NoteKey
    has_said: bool = False       # what it holds
    is_waited_for: bool = True   # it may hold something newer than what is here
    has_been_asked: bool = False
    asked_since: float | None = None     # the first question since this process is in charge
    has_begun_anew: bool = False         # because of it the own log has begun anew
    epoch: int = -1              # of the own log, for which it is known what the witness holds; -1: none
    holds: int = 0
    cosigned_epoch: int = -1     # one of which a checkpoint here has its cosignature
    due_at: float = 0.0
    complaint: str = ""          # the last one in the log of the server


class ForeignWitnesses:
    """Where this party stands with these witnesses. May be shared by threads."""

    def __init__(
        self, context: Context, keys: Sequence[tuple[str, NoteKey]], signer: Callable[[], LogSigner | None],
        check: Check, monotonic: Callable[[], float],
    ) -> None:  # fmt: skip
        """`keys`: by the names of the witnesses in the configuration."""
        self._context, self._signer, self._check, self._monotonic = context, signer, check, monotonic
        self._witnesses = {name: _Witness(key) for name, key in keys}
        self._lock = threading.RLock()
        self.rouse: Callable[[], None] = lambda: None            # called when something has to be sent at once
        self.has_begun_own_anew: Callable[[], bool] = self.has_begun_anew    # also because of parties
        self._begun: set[int] = set()    # epochs of the own log that have begun here

    def heard(self) -> tuple[int, int]:
        """Return how many witnesses have said what they hold since the start, and how many are still waited for."""
        with self._lock:
            found = self._witnesses.values()
            return sum(one.has_said for one in found), sum(one.is_waited_for for one in found)

    def have_been_asked(self) -> bool:
        """Return whether each witness has answered once, or has not answered."""
        with self._lock:
            return all(one.has_been_asked for one in self._witnesses.values())

    def has_begun_anew(self) -> bool:
        """Return whether the own log has begun anew here because of a witness."""
        return any(one.has_begun_anew for one in self._witnesses.values())

    def stands_by(self) -> None:
        """Note that another process is in charge: silence counts from the next question."""
        with self._lock:
            for one in self._witnesses.values():
                one.asked_since = None

    def has_signed(self) -> None:
        """Note that the own log may have a new checkpoint."""
        with self._lock:
            for one in self._witnesses.values():
                if one.epoch >= 0:
                    one.due_at = self._monotonic()
        self.rouse()

    def seconds_until_due(self, most: float) -> float:
        """Return for how long there is nothing to send; at most `most`."""
        now = self._monotonic()
        with self._lock:
            return max(0.0, min([most, *(one.due_at - now for one in self._witnesses.values())]))

    def due(self) -> tuple[ForeignOffer, ...]:
        """Return what to send now to which witnesses."""
        try:
            signer = self._signer()
        except BadSettings:              # the thread that signs says so
            signer = None
        if signer is None:
            return ()
        now, found = self._monotonic(), []
        with self._lock:
            waiting = [name for name, one in self._witnesses.items() if one.due_at <= now]
            for name in waiting:
                one = self._witnesses[name]
                one.due_at, one.asked_since = now + IDLE_SECONDS, now if one.asked_since is None else one.asked_since
        for name in waiting:
            offer = self._context.read(partial(self._offer, name=name, signer=signer))
            found += [offer] if offer is not None else []
        return tuple(found)

    def _offer(self, tx: Transaction, name: str, signer: LogSigner) -> ForeignOffer | None:
        head = tx.record_head(OWN_LOG)
        newest = tx.newest_checkpoint(OWN_LOG, head.epoch)
        with self._lock:
            one = self._witnesses[name]
            holds = one.holds if one.epoch == head.epoch else None
        old = None if holds is None or newest is None else edge_of(tx, head, holds)
        if newest is not None and old is not None and old.size <= newest.size:
            leaves = sealed_hashes(tx, head, old.size, newest.size - old.size) if newest.size > old.size else ()
            hashes = consistency_from_edge(old, leaves) if old.size else ()
            text = str(NewCheckpoint(old.size, hashes, read_note(newest.note)))
            return ForeignOffer(name, head.epoch, old.size, newest.size, text)
        if newest is not None:
            text = str(NewCheckpoint(newest.size, (), read_note(newest.note)))
            return ForeignOffer(name, head.epoch, newest.size, newest.size, text)
        if holds is not None:
            return None                  # nothing was signed in this epoch yet
        origin = origin_of(signer.root, OWN_LOG, head.epoch)
        note = sign_note(Checkpoint(origin, 0, EMPTY_ROOT).text(), signer.key_of(origin), signer.sign)
        return ForeignOffer(name, head.epoch, 0, 0, str(NewCheckpoint(0, (), note)))

    def answered(self, offer: ForeignOffer, status: int, text: str) -> None:
        """Take the answer of a witness; status 0: it has not answered."""
        with self._lock:
            self._witnesses[offer.name].has_been_asked = True
        if status == Seen.CONTINUES.status:
            if self._keep(offer, text):
                self._holds(offer, offer.size, IDLE_SECONDS)
            else:
                self._refuses(offer, "has answered with no cosignature that holds")
        elif status == Seen.STALE.status:
            self._is_stale(offer, text)
        elif status == Seen.INCONSISTENT.status:
            self._has_another(offer, "holds another past")
        elif status == 0 or status == _TOO_MANY or status >= _SERVER_ERRORS:
            self._does_not_answer(offer, "does not answer" + (f": HTTP status {status}" if status else ""))
        else:
            why = sanitized(text, _LONGEST_TEXT).strip() or "it does not say why"
            is_new = status in _NOT_KNOWN and not self._has_cosigned(offer)
            self._refuses(offer, f"does not cosign the own log of this party: HTTP status {status}: {why}", is_new)

    def _has_cosigned(self, offer: ForeignOffer) -> bool:
        """Return whether a checkpoint here, of this epoch, has a cosignature of this witness."""
        with self._lock:
            one = self._witnesses[offer.name]
            if not one.is_waited_for or one.cosigned_epoch == offer.epoch:
                return True              # or it does not matter

        def look(tx: Transaction) -> bool:
            newest = tx.newest_checkpoint(OWN_LOG, offer.epoch)
            if newest is None or read_note(newest.note).of(one.key):
                return newest is not None
            return any(read_note(each.note).of(one.key) for each in tx.checkpoints(OWN_LOG, offer.epoch))

        has_cosigned = self._context.read(look)
        with self._lock:
            one.cosigned_epoch = offer.epoch if has_cosigned else -1
        return has_cosigned

    def _holds(self, offer: ForeignOffer, size: int, again: float) -> None:
        with self._lock:
            one = self._witnesses[offer.name]
            is_newer = one.epoch != offer.epoch or size > one.holds or again <= 0
            one.has_said, one.is_waited_for, one.complaint, one.epoch = True, False, "", offer.epoch
            one.holds = size if is_newer else one.holds
            one.due_at = min(one.due_at, self._monotonic() + again)

    def _is_stale(self, offer: ForeignOffer, text: str) -> None:
        try:
            size = read_count(text.strip())
        except BadNote:
            self._refuses(offer, "does not say which size it holds")
            return
        newest = self._context.read(lambda tx: tx.newest_checkpoint(OWN_LOG, offer.epoch))
        if size > (newest.size if newest else 0):
            self._has_another(offer, f"holds {size} entries", is_ahead=True)
        elif size == offer.old == offer.size:
            self._has_another(offer, f"holds another past of {size} entries")
        elif size == offer.old:
            self._refuses(offer, f"says that it does not hold {size} entries, and that it does")
        else:
            self._holds(offer, size, 0.0)

    def _has_another(self, offer: ForeignOffer, what: str, is_ahead: bool = False) -> None:
        """What the witness holds is not here: the own log begins anew. Once for each witness: nobody can hold anything
        of an epoch that has just begun, and a witness that says so all the same would have the log begin for ever."""
        with self._lock:
            one = self._witnesses[offer.name]
            is_wrong = one.has_begun_anew or (offer.size == 0 and offer.epoch in self._begun)
        if is_wrong:
            self._refuses(offer, f"{what}, and that cannot be: the own log has just begun anew")
            return
        why = f"witness {offer.name} {what}"
        self._begin_anew(offer, f"{LOST}: {why}" if is_ahead else why)

    def _begin_anew(self, offer: ForeignOffer, why: str) -> None:
        """Begin the next epoch of the own log, unless it has begun meanwhile."""
        now = self._context.clock()

        def act(tx: Transaction) -> int | None:
            is_present = tx.record_head(OWN_LOG).epoch == offer.epoch
            begun = open_next_epoch(tx, OWN_LOG, now, why) if is_present else offer.epoch
            return begun if begun != offer.epoch else None

        begun = self._context.write(act)
        with self._lock:
            one = self._witnesses[offer.name]
            one.epoch, one.due_at = -1, self._monotonic()
            if begun is not None:
                self._begun.add(begun)
                one.has_begun_anew, one.is_waited_for = True, False
        if begun is not None:
            LOG.warning("the record goes on in the next epoch (%s): %s", OWN_LOG, why)

    def _does_not_answer(self, offer: ForeignOffer, what: str, say_after: float = _SAY_SECONDS) -> None:
        """Nothing more is signed in this epoch before the witness has said what it holds, if it has not done so since
        the start; after a day the own log goes on in the next one."""
        now, has_begun = self._monotonic(), self.has_begun_own_anew()
        with self._lock:
            one = self._witnesses[offer.name]
            one.due_at = now + _AGAIN_SECONDS
            is_waited_for = one.is_waited_for and not has_begun
            silent = now - one.asked_since if is_waited_for and one.asked_since is not None else -1.0
        if silent >= GIVE_UP_SECONDS:
            self._begin_anew(offer, f"witness {offer.name} has not said for a day what it holds")
        elif silent >= say_after:
            self._complain(offer, f"{what}; the own log is not signed before it says what it holds, for a day at most")

    def _refuses(self, offer: ForeignOffer, why: str, is_new: bool = False) -> None:
        """The witness cosigns nothing now. `is_new`: it has never cosigned this log."""
        has_begun = self.has_begun_own_anew()
        with self._lock:
            one = self._witnesses[offer.name]
            one.epoch, one.is_waited_for = -1, one.is_waited_for and not is_new
            one.due_at = self._monotonic() + _LATER_SECONDS
            is_waited_for = one.is_waited_for and not has_begun
        if is_waited_for:
            self._does_not_answer(offer, why, 0.0)
        else:
            self._complain(offer, why)

    def _complain(self, offer: ForeignOffer, why: str) -> None:
        with self._lock:
            one = self._witnesses[offer.name]
            is_new, one.complaint = one.complaint != why, why
        if is_new:
            LOG.error("witness %s %s (the keys of the log: fate_flow audit keys)", offer.name, why)

    def _keep(self, offer: ForeignOffer, text: str) -> bool:
        """Keep the cosignature beside the checkpoint; False if it is none of this witness."""
        key, sent = self._witnesses[offer.name].key, read_note(offer.text.partition("\n\n")[2])

        def act(tx: Transaction) -> bool:
            kept = tx.checkpoint(OWN_LOG, offer.epoch, offer.size)
            note = with_cosignature(read_note(kept.note) if kept else sent, text, [key], self._check)
            if kept is not None and note is not None:
                tx.put_checkpoint(OWN_LOG, StoredCheckpoint(kept.epoch, kept.size, str(note), kept.at, kept.edge))
            return note is not None

        return self._context.write(act)
