"""A thread that seals the record at most a tenth of a second after its entries, and signs the heads of its logs.

A process of the server wakes it after a commit with entries. It waits a little for more of them: one transaction seals
all. As long as entries come, it looks for them by itself, and nobody spends time on waking it. What other processes
have written, such as a command of an operator, is found by a poll.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import read_key_list, read_signed_key_list
from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.core.record.log import StoredEntry
from fate_flow.peers.key_changes import RecordKey
from fate_flow.peers.key_files import LIST_FILE
from fate_flow.peers.site_key import has_signed
from fate_flow.relay.wakeup import QuietWakeup
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.server.periodic.server_steps import ServerSteps
from fate_flow.services.context.notifying import notify_of_damage
from fate_flow.services.context.ports import Context
from fate_flow.services.record.checkpoints import (
    Damaged,
    Hashed,
    LogSigner,
    any_log,
    hash_again,
    no_own_log,
    sign_heads,
)
from fate_flow.services.record.entries import ends_job, of_own_keys
from fate_flow.services.record.sealing import MOST_AT_ONCE, Seals, put_seals, seals_of
from fate_flow.services.record.verifying import Keys
from fate_flow.services.witnesses.cosignatures import witness_keys
from fate_flow.services.witnesses.cosigning import Cosigning
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.transaction import Transaction

log = logging.getLogger(__name__)

WithoutSync = Callable[[], AbstractContextManager[None]]

SEAL_SECONDS, _STAND_BY_SECONDS = 0.1, 2.0
_GATHER_SECONDS = 0.075      # from when it knows of the first entry to the transaction that seals it
_TICK_SECONDS = 0.02         # between two questions of a sealer that is awake whether there are entries
_TICKS_AWAKE = 32            # without entries, until it has to be woken again
POLL_SECONDS = 1.0           # for entries of processes that do not wake this one
SIGN_SECONDS = 60.0
BUSY_SECONDS = 10.0          # between two signatures of a log with another party that grows
_QUIET_SECONDS = 1.0         # the same when a job has ended, once nothing was recorded for so long; a signature makes
_END_SECONDS = 5.0           # work at both parties, which waits for a pause between jobs, but not longer than this
_WAIT_SECONDS = 10.0         # at most, for the first answers of other parties


class RecordSealer(PeriodicWork):
    """Works in the process that schedules. A head moves only from where it was, so another sealer does no harm."""

    def __init__(
        self, context: Context, cosigning: Cosigning, may_work: Callable[[], bool], close: Callable[[], None],
        monotonic: Callable[[], float], wakeup: QuietWakeup,
        own_keys: Callable[[], tuple[int, str] | None] = lambda: None, poll_seconds: float = POLL_SECONDS,
        without_sync: WithoutSync = nullcontext, steps: ServerSteps | None = None,
    ) -> None:  # fmt: skip
        """`wakeup` comes after entries of this server, and others are found after `poll_seconds`. `own_keys` returns
        the number and the SHA-256 of the own key list; None if there is none. Seals are committed in the block of
        `without_sync`: if they are lost with the machine, nothing was signed over them, and they are made again.
        `steps` writes that the server was started, and stopped. The thread calls `close` at its end."""
        failure = "the record could not be sealed; it is tried again"
        super().__init__("record", failure, self._end, again=_STAND_BY_SECONDS)
        self._close_thread, self._steps = close, steps
        self._context, self._cosigning, self._may_work, self._monotonic = context, cosigning, may_work, monotonic
        self._began = monotonic()
        self._signed_at = self._signed_with_others_at = self._began - SIGN_SECONDS
        self._ended_at: float | None = None        # when the first job ended of which no signature knows
        self._sealed_at = self._began
        self._ticks = 0                            # that are still to come before it has to be woken
        self._wakeup, self._poll_seconds, self._without_sync = wakeup, poll_seconds, without_sync
        self._own_keys = own_keys
        self._known_keys: tuple[int, str] | None = None
        self._said = ""

    def step(self) -> float:
        if self._steps is not None:
            self._steps.started()        # also of a server that stands by
        if not self._may_work():
            return _STAND_BY_SECONDS
        if not self._cosigning.has_asked and self._monotonic() - self._began < _WAIT_SECONDS:
            return SEAL_SECONDS         # what is recorded meanwhile may belong into the next epoch
        is_left = self._seal()
        if self._due(self._signed_at, SIGN_SECONDS) <= 0:
            self._signed_at = self._signed_with_others_at = self._monotonic()
            self.sign()
        elif self._due_with_others() <= 0:
            self._signed_with_others_at = self._monotonic()
            self.sign(no_own_log)
        due = min(self._due(self._signed_at, SIGN_SECONDS), self._due_with_others())
        return max(0.0, min(due, SEAL_SECONDS if is_left else self._poll_seconds))

    def _end(self) -> None:
        if self._steps is not None:
            self._steps.stopped()
        self._close_thread()

    def rouse(self) -> None:
        self._wakeup.wake()

    def rest(self, seconds: float) -> None:
        """Wait for entries, and then for those that come soon after them: a job that starts is past its start then."""
        while self._ticks > 0:
            self._ticks -= 1
            if self._ticks == 0:
                self._wakeup.listen()
            pause = min(seconds, _TICK_SECONDS)
            if self._is_over.wait(pause):
                return
            if self._wakeup.was_called():
                self._gather()
                return
            if pause == seconds:
                return
            seconds -= pause
        if self._wakeup.wait(seconds):
            self._ticks = 1
            self._gather()
        else:
            self._wakeup.listen()        # whoever was woken before this process has gone

    def _gather(self) -> None:
        self._is_over.wait(_GATHER_SECONDS)
        self._wakeup.was_called()        # for what is sealed now

    def _due(self, since: float, seconds: float) -> float:
        return since + seconds - self._monotonic()

    def _due_with_others(self) -> float:
        due = self._due(self._signed_with_others_at, BUSY_SECONDS)
        if self._ended_at is not None:
            due = min(due, self._due(self._sealed_at, _QUIET_SECONDS), self._due(self._ended_at, _END_SECONDS))
        return due

    def _seal(self) -> bool:
        """Seal what is new; return whether some is left, since a head has moved meanwhile."""

        def look(tx: Transaction) -> tuple[tuple[StoredEntry, ...], Seals]:
            new = tx.unsealed_entries(MOST_AT_ONCE)
            return new, seals_of(tx, new, self._context.clock())

        while True:
            new, seals = self._context.read(look)
            if not new:
                return False
            with self._without_sync():
                sealed = self._context.write(partial(put_seals, seals=seals))
            self._sealed_at, self._ticks = self._monotonic(), _TICKS_AWAKE
            if self._ended_at is None and sealed > 0 and any(map(ends_job, new)):
                self._ended_at = self._sealed_at
            if sealed < len(new):
                return True
            if sealed < MOST_AT_ONCE:
                return False

    def sign(self, logs: Callable[[str], bool] = any_log) -> None:
        """Sign the heads of these logs, as far as they have grown and may be signed. Before all logs are signed, record
        the own key list if it has changed."""
        is_urgent, self._ended_at = self._ended_at is not None, None
        try:
            if logs is any_log:
                self._note_own_keys()
            self._cosigning.look()
            signer = self._cosigning.signer()
            if signer is None:
                text = "there is no record key: the heads of the record are not signed (fate_flow key make)"
                self._say(text, logging.WARNING)         # nothing has failed: a home may be made without keys
                return

            def may_sign(log: str) -> bool:
                return logs(log) and self._cosigning.may_sign(log)

            with self._without_sync():           # the transaction that signs waits for the disk
                hashed = hash_again(self._context, self._context.clock, self._goes_on, may_sign)
            if hashed is not None:
                self._context.write(lambda tx: self._sign(tx, signer, hashed, may_sign))
                self._cosigning.has_signed(is_urgent)
        except BadSettings as error:
            self._say(f"the heads of the record are not signed: {error.message}")
        except Damaged as error:
            if self._say(f"the record is damaged, and its heads are not signed any more: {error}"):
                where = error.log, error.epoch, error.index
                self._context.write(lambda tx: notify_of_damage(self._context, tx, *where))
        else:
            self._said = ""

    def _goes_on(self) -> bool:
        return self._may_work() and not self._is_over.is_set()

    def _sign(self, tx: Transaction, signer: LogSigner, hashed: Hashed, may_sign: Callable[[str], bool]) -> None:
        sign_heads(tx, signer, self._context.clock(), self._context.fresh_salt, hashed, may_sign)

    def _note_own_keys(self) -> None:
        """Record the key list by which others know this party: once after each start, and when it has changed."""
        found = self._own_keys()
        if found is not None and found != self._known_keys:
            self._context.write(lambda tx: tx.add_to_record([of_own_keys(self._context.clock(), *found)]))
            self._known_keys = found

    def _say(self, text: str, level: int = logging.ERROR) -> bool:
        """Write the text into the log; False if it was the last one that was written."""
        is_new = text != self._said
        if is_new:
            self._said = text
            log.log(level, text)
        return is_new


def own_list(folder: Path) -> tuple[int, str] | None:
    """Return the number and the SHA-256 of the key list in this folder; None if there is none. Raises BadSettings."""
    file = folder / LIST_FILE
    if not file.exists():
        return None
    try:
        content = read_signed_key_list(file.read_text(encoding="utf-8")).content
    except (OSError, BadRequest) as error:
        raise BadSettings(f"{file}: cannot be read") from error
    return read_key_list(content).number, sha256(content.encode()).hexdigest()


def log_signer(key: RecordKey, now: int) -> LogSigner | None:
    """Return what signs the heads of this party's logs at a moment; None if it has no root key or record key. Raises
    BadSettings."""
    found = key(now)
    if found is None:
        return None
    root_id, private = found
    earlier = tuple(one for one in key.public() if one != private.public.raw)
    return LogSigner(fingerprint_of(root_id), private.public.raw, private.sign, earlier)


def keys_of_record(context: Context, settings: Settings) -> Keys | None:
    """Return the public keys by which this party's logs are verified, those of replaced keys, of other parties and of
    the witnesses of the configuration included; None if it has no record key. Raises BadSettings."""
    signer = log_signer(RecordKey(settings.keys_dir), context.clock())
    if signer is None:
        return None
    witnesses = context.read(witness_keys)
    found = tuple((party_id, key) for party_id, listed in sorted(witnesses.items()) for key in listed)
    foreign = tuple((one.name, one.key) for one in settings.recording.witnesses)
    return Keys(signer.root, (signer.key, *signer.earlier), (*found, *foreign), has_signed)
