"""A thread that seals the record at most a tenth of a second after its entries, and signs the heads of its logs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import read_key_list, read_signed_key_list
from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.peers.key_changes import record_key
from fate_flow.peers.key_files import LIST_FILE, RECORD_FILE, ROOT_FILE
from fate_flow.peers.site_key import read_public_key
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.services.context.ports import Context
from fate_flow.services.record.checkpoints import Damaged, Hashed, LogSigner, hash_again, sign_heads
from fate_flow.services.record.entries import of_own_keys
from fate_flow.services.record.sealing import seal_new
from fate_flow.store.contract.transaction import Transaction

log = logging.getLogger(__name__)

_SEAL_SECONDS, _STAND_BY_SECONDS = 0.1, 2.0
SIGN_SECONDS = 60.0


class RecordSealer(PeriodicWork):
    """Works in the process that schedules. A head moves only from where it was, so another sealer does no harm."""

    def __init__(
        self, context: Context, signer: Callable[[], LogSigner | None], may_work: Callable[[], bool],
        close: Callable[[], None], monotonic: Callable[[], float],
        own_keys: Callable[[], tuple[int, str] | None] = lambda: None,
    ) -> None:  # fmt: skip
        """`signer` returns None without a record key, and may raise BadSettings. `own_keys` returns the number and the
        SHA-256 of the own key list; None if there is none. The thread calls `close` at its end."""
        super().__init__("record", "the record could not be sealed; it is tried again", close, again=_STAND_BY_SECONDS)
        self._context, self._signer, self._may_work, self._monotonic = context, signer, may_work, monotonic
        self._signed_at = monotonic() - SIGN_SECONDS
        self._own_keys = own_keys
        self._known_keys: tuple[int, str] | None = None
        self._said = ""

    def step(self) -> float:
        if not self._may_work():
            return _STAND_BY_SECONDS
        if self._context.read(lambda tx: bool(tx.unsealed_entries(1))):
            self._context.write(lambda tx: seal_new(tx, self._context.clock()))
        if self._monotonic() - self._signed_at >= SIGN_SECONDS:
            self._signed_at = self._monotonic()
            self.sign()
        return _SEAL_SECONDS

    def sign(self) -> None:
        """Record the own key list if it has changed, and sign the heads of all logs that have grown."""
        try:
            self._note_own_keys()
            signer = self._signer()
            if signer is None:
                self._say("there is no record key: the heads of the record are not signed (fate_flow key make)")
                return
            hashed = hash_again(self._context, self._context.clock, self._goes_on)
            if hashed is not None:
                self._context.write(lambda tx: self._sign(tx, signer, hashed))
        except BadSettings as error:
            self._say(f"the heads of the record are not signed: {error.message}")
        except Damaged as error:
            self._say(f"the record is damaged, and its heads are not signed any more: {error}")
        else:
            self._said = ""

    def _goes_on(self) -> bool:
        return self._may_work() and not self._is_over.is_set()

    def _sign(self, tx: Transaction, signer: LogSigner, hashed: Hashed) -> None:
        sign_heads(tx, signer, self._context.clock(), self._context.fresh_salt, hashed)

    def _note_own_keys(self) -> None:
        """Record the key list by which others know this party: once after each start, and when it has changed."""
        found = self._own_keys()
        if found is not None and found != self._known_keys:
            self._context.write(lambda tx: tx.add_to_record([of_own_keys(self._context.clock(), *found)]))
            self._known_keys = found

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            log.error(text)


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
    try:
        fingerprint = fingerprint_of(read_public_key(root.read_text(encoding="utf-8")).key_id)
    except OSError as error:
        raise BadSettings(f"{root}: cannot be read") from error
    key = record_key(folder, clock())
    return LogSigner(fingerprint, key.public.raw, key.sign)
