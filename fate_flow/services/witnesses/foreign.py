"""Witnesses that are no parties: they cosign the own log by C2SP tlog-witness, at addresses of the configuration.

They are asked before the first signature after a start, as peers are. A witness has no question for what it holds, so
it is sent what it has cosigned last, as far as that is known here: the newest checkpoint once more, or one of no
entries. Neither says anything new, so nothing that is restored from a backup is signed before a witness has answered.
If it holds more, or another past, the own log goes on in the next epoch.

Nothing here sends a request. A caller does so for what `due` returns, and hands back the answers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
from fate_flow.services.witnesses.cosigning import GIVE_UP_SECONDS, IDLE_SECONDS, edge_of, with_cosignature
from fate_flow.store.contract.transaction import Transaction

LOG = logging.getLogger(__name__)

_AGAIN_SECONDS = 10.0        # after a witness has not answered
_LATER_SECONDS = 600.0       # after it has refused
_TOO_MANY, _SERVER_ERRORS = 429, 500
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
    is_heard: bool = False
    epoch: int = -1              # of the own log, for which it is known what the witness holds; -1: none
    holds: int = 0
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
        self._began = monotonic()
        self._lock = threading.RLock()
        self.rouse: Callable[[], None] = lambda: None            # called when something has to be sent at once
        self.hears_a_party: Callable[[], bool] = lambda: False   # whether a party has said what it holds

    def heard(self) -> tuple[int, int]:
        """Return how many witnesses have answered since the start, and how many have not."""
        with self._lock:
            heard = sum(one.is_heard for one in self._witnesses.values())
            return heard, len(self._witnesses) - heard

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
                self._witnesses[name].due_at = now + IDLE_SECONDS
        for name in waiting:
            offer = self._context.read(lambda tx, name=name: self._offer(tx, name, signer))  # type: ignore[misc]
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
        if status == Seen.CONTINUES.status:
            if self._keep(offer, text):
                self._holds(offer, offer.size, IDLE_SECONDS)
            else:
                self._refuses(offer, "has answered with no cosignature that holds")
        elif status == Seen.STALE.status:
            self._is_stale(offer, text)
        elif status == Seen.INCONSISTENT.status:
            self._is_ahead(offer, "holds another past")
        elif status == 0 or status == _TOO_MANY or status >= _SERVER_ERRORS:
            self._does_not_answer(offer)
        else:
            why = sanitized(text, _LONGEST_TEXT).strip() or "it does not say why"
            self._refuses(offer, f"does not cosign the own log of this party: HTTP status {status}: {why}")

    def _holds(self, offer: ForeignOffer, size: int, again: float) -> None:
        with self._lock:
            one = self._witnesses[offer.name]
            is_newer = one.epoch != offer.epoch or size > one.holds or again <= 0
            one.is_heard, one.complaint, one.epoch = True, "", offer.epoch
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
            self._is_ahead(offer, f"holds {size} entries")
        elif size == offer.old == offer.size:
            self._is_ahead(offer, f"holds another past of {size} entries")
        elif size == offer.old:
            self._refuses(offer, f"says that it does not hold {size} entries, and that it does")
        else:
            self._holds(offer, size, 0.0)

    def _is_ahead(self, offer: ForeignOffer, what: str) -> None:
        """What the witness holds is not here: the own log begins anew, unless it has done so meanwhile."""
        now, why = self._context.clock(), f"{LOST}: witness {offer.name} {what}"

        def act(tx: Transaction) -> bool:
            is_present = tx.record_head(OWN_LOG).epoch == offer.epoch
            if is_present:
                open_next_epoch(tx, OWN_LOG, now, why)
            return is_present

        if self._context.write(act):
            LOG.warning("the record goes on in the next epoch (%s): %s", OWN_LOG, why)
        with self._lock:
            one = self._witnesses[offer.name]
            one.is_heard, one.epoch, one.due_at = True, -1, self._monotonic()

    def _does_not_answer(self, offer: ForeignOffer) -> None:
        now, hears_a_party = self._monotonic(), self.hears_a_party()     # it has a lock of its own
        with self._lock:
            one = self._witnesses[offer.name]
            one.due_at = now + _AGAIN_SECONDS
            is_over = not one.is_heard and now - self._began >= GIVE_UP_SECONDS
            one.is_heard |= is_over
            is_alone = self.heard()[0] == 1 and not hears_a_party
        if is_over and is_alone:
            self._is_ahead(offer, "has not said for a day what it holds")

    def _refuses(self, offer: ForeignOffer, why: str) -> None:
        """The witness cosigns nothing now, so it may as well hold nothing."""
        with self._lock:
            one = self._witnesses[offer.name]
            is_new, one.complaint = one.complaint != why, why
            one.is_heard, one.epoch, one.due_at = True, -1, self._monotonic() + _LATER_SECONDS
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
