"""The messages of FATE's transport, `org.ppc.ptp.PrivateTransferTransport`, as far as a worker uses them.

They are Protocol Buffers with few fields, so that this module needs no library: PushInbound has `topic` (1) and
`payload` (2); PopInbound, PeekInbound and ReleaseInbound have `topic` (1); TransportOutbound has `payload` (2), `code`
(3) and `message` (4).
"""

from __future__ import annotations

SERVICE = "org.ppc.ptp.PrivateTransferTransport"
TOPIC, PAYLOAD, CODE, MESSAGE = 1, 2, 3, 4
SUCCESS = "0"

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10


def read_fields(data: bytes) -> dict[int, bytes]:
    """Return the fields of a message that are bytes or text, by their numbers. Raises ValueError if it is malformed."""
    found: dict[int, bytes] = {}
    at, end = 0, len(data)
    while at < end:
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            _, at = _read_varint(data, at)
        elif kind == _BYTES:
            size, at = _read_varint(data, at)
            found[key >> 3] = data[at : at + size]
            at += size
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if at > end:
            raise ValueError("a field ends after the message")
    return found


def outbound(payload: bytes = b"", code: str = SUCCESS, message: str = "") -> bytes:
    """Return a TransportOutbound."""
    parts = ((PAYLOAD, payload), (CODE, code.encode()), (MESSAGE, message.encode()))
    return b"".join(piece for number, value in parts if value for piece in (_head(number, len(value)), value))


def inbound(topic: str, payload: bytes = b"") -> bytes:
    """Return a PushInbound; without a payload, any of the other requests."""
    parts = ((TOPIC, topic.encode()), (PAYLOAD, payload))
    return b"".join(piece for number, value in parts if value for piece in (_head(number, len(value)), value))


def _head(number: int, size: int) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(size)


def _varint(value: int) -> bytes:
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for step in range(_MOST_VARINT_BYTES):
        if at >= len(data):
            raise ValueError("a number ends after the message")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * step
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")
