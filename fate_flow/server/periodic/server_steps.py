"""Entries of the record about the server itself: that it was started, and stopped. Between the two everything that is
recorded is there; from a stop to the next start nothing is, and after a start without a stop before it the server had
died."""

from __future__ import annotations

import logging
from hashlib import sha256
from pathlib import Path

from fate_flow import __version__
from fate_flow.core.model.errors import FlowError
from fate_flow.services.context.ports import Context
from fate_flow.services.record.entries import OwnServer, ServerStep, of_server
from fate_flow.settings.reader import overlay_of
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.transaction import Transaction

log = logging.getLogger(__name__)


def own_server(settings: Settings) -> OwnServer:
    """Return what is said of this server."""
    files = (settings.conf_path, overlay_of(settings.conf_path)) if settings.conf_path.name else ()
    configuration = ", ".join(f"{file.name} {digest}" for file in files if (digest := _digest(file)))
    return OwnServer(__version__, configuration, settings.one_of.name if settings.one_of else "")


def _digest(file: Path) -> str:
    try:
        return sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    except OSError:
        return ""                # it was read when the server was started, and is not there any more


class ServerSteps:
    """Writes the start of a server, once, and its end."""

    def __init__(self, context: Context, server: OwnServer) -> None:
        self._context, self._server = context, server
        self._has_started = False

    def started(self) -> None:
        """Raises StorageFailed; then the next call writes it."""
        if not self._has_started:
            self._write(ServerStep.STARTED)
            self._has_started = True

    def stopped(self) -> None:
        """What goes wrong is a line in the log: a server that ends does not wait for a database."""
        if self._has_started:
            try:
                self._write(ServerStep.STOPPED)
            except FlowError as error:
                log.warning("the record does not say that the server was stopped: %s", error.message)

    def is_off(self) -> None:
        """Write that the server was started without a record, if it has kept one before. What goes wrong is a line in
        the log."""
        try:
            if self._context.read(lambda tx: bool(tx.record_heads())):
                self._write(ServerStep.OFF)
        except FlowError as error:
            log.warning("the record does not say that it is off (record.switch): %s", error.message)

    def _write(self, step: ServerStep) -> None:
        def act(tx: Transaction) -> None:
            tx.add_to_record([of_server(self._server, step, self._context.clock(), self._context.fresh_salt)])

        self._context.write(act)
