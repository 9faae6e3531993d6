"""Entries as messages of syslog (RFC 5424), over TLS (RFC 5425) or TCP (RFC 6587).

Syslog has no acknowledgements. So each page of entries has a connection of its own: we say that nothing more comes, and
the receiver ends the connection once it has read everything. A page whose connection ends otherwise is sent again.
"""

from __future__ import annotations

import errno
import json
import socket
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from struct import unpack_from

from fate_flow.core.record.entry import Kind
from fate_flow.core.record.shown import ShownEntry
from fate_flow.peers.network_errors import describe_cause
from fate_flow.server.exporting.exporter import NotTaken
from fate_flow.settings.recording.exports import SyslogExport

_LOG_AUDIT = 13 << 3                     # the facility of RFC 5424, with the severities:
_WARNING, _INFORMATIONAL = 4, 6
_WARNED_OF = (Kind.REFUSED, Kind.EPOCH)
_SECONDS = 10.0                          # for a page: to connect, to send, and until it is read
_LONGEST_HOST = 255
_UNACKED = 24                            # the place of tcpi_unacked in Linux' struct tcp_info


def syslog_message(one: ShownEntry, own: str, host: str) -> bytes:
    """Return an entry as a message of syslog. `own`: the party whose record it is. The message is one object of JSON in
    ASCII, as of `fate_flow audit follow --as lines`, with the party."""
    severity = _WARNING if one.kind in _WARNED_OF else _INFORMATIONAL
    at = datetime.fromtimestamp(one.at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    document = json.dumps({"own_party": own, **one.as_document()}, separators=(",", ":"))
    return f"<{_LOG_AUDIT | severity}>1 {at} {host} fate_flow - {_word(one.kind, 32)} - {document}".encode("ascii")


def framed(message: bytes) -> bytes:
    """Return a message with its length before it, as it goes over a stream."""
    return b"%d %s" % (len(message), message)


class SyslogReceiver:
    """Sends to one receiver."""

    def __init__(self, export: SyslogExport, own: str, seconds: float = _SECONDS) -> None:
        """`own`: the id of this party. `seconds`: the most that a page may take."""
        self._export, self._own, self._seconds = export, own, seconds
        self._host = _word(socket.gethostname(), _LONGEST_HOST)
        self._under_way: socket.socket | None = None

    def send(self, entries: Sequence[ShownEntry]) -> None:
        data = b"".join(framed(syslog_message(one, self._own, self._host)) for one in entries)
        until = time.monotonic() + self._seconds
        try:
            with self._connected() as connection:
                self._under_way = connection
                connection.settimeout(self._seconds)
                connection.sendall(data)
                _finish(connection, until)
        except (OSError, ssl.SSLError) as error:
            raise NotTaken(describe_cause(error) or "no connection to the receiver") from error
        finally:
            self._under_way = None

    def abort(self) -> None:
        if (connection := self._under_way) is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _connected(self) -> socket.socket:
        export = self._export
        connection = socket.create_connection((export.host, export.port), self._seconds)
        if not export.has_tls:
            return connection
        try:
            context = ssl.create_default_context(cafile=export.ca_file or None)
            return context.wrap_socket(connection, server_hostname=export.host)
        except BaseException:
            connection.close()
            raise


def _finish(connection: socket.socket, until: float) -> None:
    """Say that nothing more comes, and wait until the receiver has read everything, which is when it ends the
    connection. Raise OSError if it ends otherwise."""
    if isinstance(connection, ssl.SSLSocket):
        connection.settimeout(_left(until))
        with suppress(ssl.SSLEOFError, ssl.SSLZeroReturnError):      # many end the connection without a word of TLS
            connection.unwrap()                                      # which waits until the receiver says so, too
    with suppress(OSError):                                          # it has ended the connection already
        connection.shutdown(socket.SHUT_WR)
    connection.settimeout(_left(until))
    while connection.recv(4096):
        connection.settimeout(_left(until))
    _check_all_was_read(connection)


def _check_all_was_read(connection: socket.socket) -> None:
    """Raise OSError if the receiver has ended the connection before it read everything. What it leaves in its buffers
    resets the connection; what has not come so far is not acknowledged."""
    error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    [unacknowledged] = unpack_from("=I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), _UNACKED)
    if error or unacknowledged:
        raise OSError(error or errno.ECONNRESET, "it has not read everything")


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _word(text: str, most: int) -> str:
    """Return a text as a field of the head of a message: printable ASCII without blanks."""
    return "".join(one if "!" <= one <= "~" else "_" for one in text)[:most] or "-"
