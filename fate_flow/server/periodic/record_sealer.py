"""A thread that seals the record at most a tenth of a second after its entries, and signs the heads of its logs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import read_key_list, read_signed_key_list
from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.peers.key_changes import record_key, root_id_of
from fate_flow.peers.key_files import LIST_FILE, RECORD_FILE, ROOT_FILE
from fate_flow.peers.site_key import has_signed, load_private_key
from fate_flow.server.periodic.periodic_work import PeriodicWork
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
from fate_flow.services.record.sealing import MOST_AT_ONCE, seal_new
from fate_flow.services.record.verifying import Keys
from fate_flow.services.witnesses.cosigning import Cosigning, witness_keys
from fate_flow.store.contract.transaction import Transaction

log = logging.getLogger(__name__)

_SEAL_SECONDS, _STAND_BY_SECONDS = 0.1, 2.0
SIGN_SECONDS = 60.0
BUSY_SECONDS = 10.0          # between two signatures of a log with another party that grows
_END_SECONDS = 1.0           # the same when jobs end
_WAIT_SECONDS = 10.0         # at most, for the first answers of other parties


class RecordSealer(PeriodicWork):
    """Works in the process that schedules. A head moves only from where it was, so another sealer does no harm."""

    def __init__(
        self, context: Context, cosigning: Cosigning, may_work: Callable[[], bool], close: Callable[[], None],
        monotonic: Callable[[], float], own_keys: Callable[[], tuple[int, str] | None] = lambda: None,
    ) -> None:  # fmt: skip
        """`own_keys` returns the number and the SHA-256 of the own key list; None if there is none. The thread calls
        `close` at its end."""
        super().__init__("record", "the record could not be sealed; it is tried again", close, again=_STAND_BY_SECONDS)
        self._context, self._cosigning, self._may_work, self._monotonic = context, cosigning, may_work, monotonic
        self._began = monotonic()
        self._signed_at = self._signed_with_others_at = self._began - SIGN_SECONDS
        self._has_ended_job = False
        self._own_keys = own_keys
        self._known_keys: tuple[int, str] | None = None
        self._said = ""

    def step(self) -> float:
        if not self._may_work():
            return _STAND_BY_SECONDS
        if not self._cosigning.has_asked and self._monotonic() - self._began < _WAIT_SECONDS:
            return _SEAL_SECONDS         # what is recorded meanwhile may belong into the next epoch
        self._seal()
        now = self._monotonic()
        if now - self._signed_at >= SIGN_SECONDS:
            self._signed_at = self._signed_with_others_at = now
            self.sign()
        elif now - self._signed_with_others_at >= (_END_SECONDS if self._has_ended_job else BUSY_SECONDS):
            self._signed_with_others_at = now
            self.sign(no_own_log)
        return _SEAL_SECONDS

    def _seal(self) -> None:
        def seal(tx: Transaction) -> bool:
            new = tx.unsealed_entries(MOST_AT_ONCE)
            seal_new(tx, self._context.clock())
            return any(map(ends_job, new))

        if self._context.read(lambda tx: bool(tx.unsealed_entries(1))) and self._context.write(seal):
            self._has_ended_job = True

    def sign(self, logs: Callable[[str], bool] = any_log) -> None:
        """Record the own key list if it has changed, and sign the heads of these logs, as far as they have grown and
        may be signed."""
        is_urgent, self._has_ended_job = self._has_ended_job, False
        try:
            self._note_own_keys()
            signer = self._cosigning.signer()
            if signer is None:
                self._say("there is no record key: the heads of the record are not signed (fate_flow key make)")
                return

            def may_sign(log: str) -> bool:
                return logs(log) and self._cosigning.may_sign(log)

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

    def _say(self, text: str) -> bool:
        """Write the text into the log; False if it was the last one that was written."""
        is_new = text != self._said
        if is_new:
            self._said = text
            log.error(text)
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


def log_signer(folder: Path, clock: Callable[[], int]) -> LogSigner | None:
    """Return what signs the heads of this party's logs now; None if it has no root key or record key. Raises
    BadSettings."""
    root, file = (folder / ROOT_FILE).with_suffix(".pub"), folder / RECORD_FILE
    if not root.exists() or not file.exists():
        return None
    fingerprint = fingerprint_of(root_id_of(root))
    key = record_key(folder, clock())
    earlier = tuple(one for one in public_record_keys(folder) if one != key.public.raw)
    return LogSigner(fingerprint, key.public.raw, key.sign, earlier)


def keys_of_record(context: Context, folder: Path) -> Keys | None:
    """Return the public keys by which this party's logs are verified, those of replaced keys and of other parties
    included; None if it has no record key. Raises BadSettings."""
    signer = log_signer(folder, context.clock)
    if signer is None:
        return None
    witnesses = context.read(witness_keys)
    found = tuple((party_id, key) for party_id, listed in sorted(witnesses.items()) for key in listed)
    return Keys(signer.root, (signer.key, *signer.earlier), found, has_signed)


def public_record_keys(folder: Path) -> tuple[bytes, ...]:
    """Return the public keys with which this party signs or has signed its logs. Raises BadSettings."""
    files = sorted(folder.glob(f"{Path(RECORD_FILE).stem}*.pem"))
    return tuple(load_private_key(file).public.raw for file in files)
