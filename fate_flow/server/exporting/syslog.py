"""Entries as messages of syslog (RFC 5424), over TLS (RFC 5425) or TCP (RFC 6587).

Syslog has no acknowledgements. So each page of entries has a connection of its own: we say that nothing more comes, and
the receiver answers that, or ends the connection, once it has read everything. A page whose connection ends otherwise
is sent again.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from struct import unpack_from

from fate_flow.core.record.shown import ShownEntry
from fate_flow.peers.network_errors import describe_cause
from fate_flow.server.exporting.receiver import NotTaken, is_warning
from fate_flow.server.exporting.tls_line import TlsLine, wait_until
from fate_flow.settings.recording.exports import SyslogExport

_LOG_AUDIT = 13 << 3                     # the facility of RFC 5424, with the severities:
_WARNING, _INFORMATIONAL = 4, 6
_SECONDS = 10.0                          # for a page: to connect, to send, and until it is read
_LONGEST_HOST = 255
_UNACKED = 24                            # the place of tcpi_unacked in Linux' struct tcp_info


def syslog_message(one: ShownEntry, own: str, host: str) -> bytes:
    """Return an entry as a message of syslog. `own`: the party whose record it is. The message is one object of JSON in
    ASCII, as of `fate_flow audit follow --as lines`, with the party."""
    severity = _WARNING if is_warning(one) else _INFORMATIONAL
    at = datetime.fromtimestamp(one.at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    document = json.dumps({"own_party": own, **one.as_document()}, separators=(",", ":"))
    return f"<{_LOG_AUDIT | severity}>1 {at} {host} fate_flow - {_word(one.kind, 32)} - {document}".encode("ascii")


def framed(message: bytes) -> bytes:
    """Return a message with its length before it, as it goes over a stream."""
    return b"%d %s" % (len(message), message)


class SyslogReceiver:
    """Sends to one receiver."""

    def __init__(self, export: SyslogExport, own: str, seconds: float = _SECONDS) -> None:
        """`own`: the id of this party. `seconds`: the most that a page may take, without the search for the address."""
        self._export, self._own, self._seconds = export, own, seconds
        self._host = _word(socket.gethostname(), _LONGEST_HOST)
        self._under_way: socket.socket | None = None
        self._is_aborted = False
        self._made: tuple[object, ssl.SSLContext] | None = None

    def send(self, entries: Sequence[ShownEntry]) -> None:
        data = b"".join(framed(syslog_message(one, self._own, self._host)) for one in entries)
        until = time.monotonic() + self._seconds
        try:
            with socket.create_connection((self._export.host, self._export.port), self._seconds) as connection:
                self._under_way = connection
                if not self._is_aborted:                 # it may have come before it could end this connection
                    self._send(connection, data, until)
        except (OSError, ValueError) as error:          # ValueError: of a name, or of TLS that `abort` has ended
            raise NotTaken(describe_cause(error) or "no connection to the receiver") from error
        finally:
            self._under_way = None
        if self._is_aborted:
            raise NotTaken("this server ends")

    def abort(self) -> None:
        self._is_aborted = True
        if (connection := self._under_way) is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _send(self, connection: socket.socket, data: bytes, until: float) -> None:
        if not self._export.has_tls:
            wait_until(connection, until)
            connection.sendall(data)
            with suppress(OSError):                      # it has ended the connection, which is seen below
                connection.shutdown(socket.SHUT_WR)
            _await_end(connection, until)
            return
        line = TlsLine(connection, self._context(), self._export.host, until)
        line.send(data)
        if not line.end():
            if self._export.close_notify:
                raise NotTaken(
                    "it has ended TLS without close_notify, so the end may have been cut on the way; if it always does "
                    f"so, set record.exports.{self._export.name}.close_notify: false"
                )
            _check_all_was_read(connection)

    def _context(self) -> ssl.SSLContext:
        """Return what checks the receiver; made again when the file of authorities has changed."""
        file = self._export.ca_file
        state = os.stat(file) if file else None
        known = (state.st_mtime_ns, state.st_size, state.st_ino) if state else ()
        if self._made is None or self._made[0] != known:
            context = ssl.create_default_context(cafile=file or None)
            context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF         # or a cut would look like the word close_notify
            self._made = known, context
        return self._made[1]


def _await_end(connection: socket.socket, until: float) -> None:
    """Wait until the receiver ends the connection. Raise OSError if it has not read everything by then."""
    wait_until(connection, until)
    while connection.recv(4096):
        wait_until(connection, until)
    _check_all_was_read(connection)


def _check_all_was_read(connection: socket.socket) -> None:
    """Raise OSError if the receiver has ended the connection before it read everything: what it leaves in its buffers
    resets the connection, and what has not come so far is not acknowledged."""
    error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    [unacknowledged] = unpack_from("=I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), _UNACKED)
    if error or unacknowledged:
        raise OSError(error or errno.ECONNRESET, "it has not read everything")


def _word(text: str, most: int) -> str:
    """Return a text as a field of the head of a message: printable ASCII without blanks."""
    return "".join(one if "!" <= one <= "~" else "_" for one in text)[:most] or "-"
