"""What other parties may take of this server. Nothing that a peer sends is without a limit."""

from __future__ import annotations

from dataclasses import dataclass, field

from fate_flow.core.quotas.quota import Quotas

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The limits of one gateway. Times are in seconds."""

    # Connections. A process may open 1024 files by default, and bodies and the application need some of them.
    connections: int = 512
    connections_of_party: int = 64          # two servers keep at most 32 or so to each other
    connections_of_address: int = 64        # of callers without TLS
    # Handshakes cost a signature each, and their callers are unknown. If there are more, the oldest one is dropped: an
    # honest handshake takes two round trips, so those that stay are the newest.
    handshakes: int = 128
    handshakes_of_address: int = 16
    handshake_seconds: float = 5.0
    close_seconds: float = 2.0              # for the peer to read what was sent last before the connection ends

    # Connections that a party without a port of its own keeps open for our requests, and those that this party, if it
    # is one, keeps open elsewhere. Devices in between forget connections after some minutes without a byte.
    unused_of_party: int = 8
    unused_seconds: float = 50.0
    use_seconds: float = 5.0                # as long as a connection to a port may take
    spare: int = 2
    kept_of_party: int = 32
    redial_seconds: float = 0.5             # after a failure; doubled each time
    longest_redial_seconds: float = 15.0
    dials_per_second: float = 8.0           # to one party, once it has used up kept_of_party: a handshake costs 5 ms

    # Requests.
    requests_of_party: int = 32             # as many as a server of default size carries out at once
    wait_seconds: float = 10.0              # what does not fit waits so long, unread, and is refused then
    head_seconds: float = 10.0
    idle_seconds: float = 75.0              # as long as gunicorn keeps idle connections
    head_bytes: int = 32 * 1024
    head_fields: int = 80                   # gunicorn reads 100
    field_bytes: int = 8000                 # gunicorn reads 8190
    target_bytes: int = 8000                # the same
    # Bodies, in both directions. A slow one takes from the share of its party, but no thread of the application.
    grace_seconds: float = 10.0
    bytes_per_second: int = 1024
    body_bytes: int = 64 * MIB              # limits.max_request_bytes
    stored_bytes_of_party: int = 256 * MIB  # of all its bodies, and answers in files, at once; one of the largest fits
    stored_bytes: int = 1 << 62             # of all callers; those that may be invented have a bound (unproved.py)
    memory_bytes: int = MIB                 # a larger body is written to a file without a name
    tiny_chunk_bytes: int = 32              # a body with smaller chunks on average costs more to read than it carries
    tiny_chunks: int = 1024                 # so many may be smaller

    # The application. Half of its threads stay free for clients, whatever other parties do.
    application_requests: int = 16
    application_requests_of_party: int = 8
    answer_seconds: float = 120.0
    answer_bytes: int = 64 * MIB
    kept_seconds: float = 30.0              # an unused connection; gunicorn ends one after 75 s, perhaps at this moment
    kept_connections: int = 32

    # The gateway itself.
    reload_seconds: float = 0.5             # a revoked key is noticed in less than a second
    stop_seconds: float = 5.0               # for requests that are under way when the server stops

    quotas: Quotas = field(default_factory=Quotas)

    @classmethod
    def of_server(cls, threads: int, body_bytes: int, quotas: Quotas) -> Limits:
        """Return the limits beside an application with so many threads and this limit for bodies."""
        shared = max(2, threads // 2)
        return cls(
            quotas=quotas,
            body_bytes=body_bytes,
            stored_bytes_of_party=max(cls.stored_bytes_of_party, body_bytes),
            application_requests=shared,
            application_requests_of_party=max(1, min(cls.requests_of_party, shared // 2)),
        )
