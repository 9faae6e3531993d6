"""Connections that cost more than they should, or show what they should not, at the gateway of a running server.

While an attack goes on, the honest party is answered. It comes from another address of the machine, as parties do.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fate_flow.gateway.limits import Limits
from fate_flow.peers.tls import DIAL, client_context
from tests.kit.attacks.attacked_server import (
    HEARTBEAT,
    HONEST,
    HOSTILE,
    OF_P256,
    OWN,
    REVOKED,
    STRANGER,
    AttackedServer,
    all_of,
    new_job_id,
)
from tests.kit.gateway.framing_inputs import CLEAN, REFUSED
from tests.kit.peers.handshakes import TlsParty, hostile_context, make_certificate, tls_party, with_flipped_signature
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)

LIMITS = Limits()
HEAD = f"POST /v1/{HEARTBEAT} HTTP/1.1\r\nHost: x\r\nSRC-PARTY-ID: {HOSTILE}\r\n".encode()
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

# ---------------------------------------------------------------------- slow, half open and idle


@contextmanager
def many(attacked: AttackedServer, party_id: str, count: int, data: bytes) -> Iterator[list[Any]]:
    """Connections of a party, on which these bytes were sent. They come from several addresses: one address has few
    handshakes at once."""
    with ExitStack() as stack:
        found = []
        for number in range(count):
            found.append(stack.enter_context(attacked.connected(party_id, f"127.0.1.{number % 40 + 1}")))
            with suppress(OSError):            # the gateway has refused it
                found[-1].sendall(data)
        yield found
    eventually(lambda: attacked.connections() < 3, "the gateway to end them")


@pytest.mark.parametrize("data", [b"", HEAD, HEAD + b"Content-Length: 100000\r\n\r\nx", CHUNKED + b"5\r\nab"], ids=[
    "idle", "half a head", "half a body", "half a chunk",
])  # fmt: skip
def test_all_connections_that_a_party_may_have_silence_nobody(attacked: AttackedServer, data: bytes) -> None:
    with many(attacked, HOSTILE, LIMITS.connections_of_party, data):
        assert attacked.serves_honest_ones()


def test_a_party_has_no_further_connection(attacked: AttackedServer) -> None:
    with many(attacked, HOSTILE, LIMITS.connections_of_party, b""), attacked.connected(HOSTILE, "127.0.0.9") as further:
        further.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")
        assert all_of(further).startswith(b"HTTP/1.1 429 ")


def test_a_head_that_does_not_end_is_given_up(attacked: AttackedServer) -> None:
    with attacked.connected(HOSTILE) as slow:
        slow.sendall(HEAD)
        assert all_of(slow).startswith(b"HTTP/1.1 408 ")


def test_hundreds_of_connections_without_a_handshake_silence_nobody(attacked: AttackedServer) -> None:
    """They are more than the gateway has at once; some begin a handshake."""
    with ExitStack() as stack:
        opened = []
        for number in range(600):
            opened.append(stack.enter_context(attacked.connected(source=f"127.0.2.{number % 60 + 1}")))
            if number % 3:
                with suppress(OSError):                # it was dropped for a newer one
                    opened[-1].sendall(b"\x16\x03\x01"[: number % 3 + 1])
        assert attacked.serves_honest_ones()
        ended = select.poll()
        for one in opened[: len(opened) // 2]:
            ended.register(one, select.POLLIN)
        assert ended.poll(60_000), "none of the oldest was dropped"
        assert attacked.serves_honest_ones()


def test_half_requests_at_the_ports_without_tls_silence_nobody(attacked: AttackedServer) -> None:
    """At that of plain v1 peers, and at that of clients: both need no key for a connection."""
    with ExitStack() as stack:
        for port in (attacked.plain_port, attacked.client_port):
            for number in range(40):
                address = ("127.0.0.1", port)
                found = stack.enter_context(socket.create_connection(address, 90, (f"127.0.3.{number + 1}", 0)))
                found.sendall(HEAD)
        assert attacked.serves_honest_ones()
        assert attacked.plain_peer_is_served()


def test_connections_that_offer_to_be_used_silence_nobody_and_are_few(attacked: AttackedServer) -> None:
    """As a party without a port keeps them open. This one sends requests over them, or nothing."""
    context = client_context(attacked.parties[HOSTILE].own, [attacked.own], DIAL)
    with ExitStack() as stack:
        first, *_ = [
            stack.enter_context(attacked.connected("", f"127.0.5.{number % 20 + 1}", context))
            for number in range(LIMITS.connections_of_party)
        ]
        assert attacked.serves_honest_ones()
        with suppress(OSError):            # nobody has used it for some time, and it was ended
            first.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")
        assert all_of(first) == b""
        eventually(lambda: attacked.connections() <= LIMITS.unused_of_party, "the gateway to keep few of them")
        assert attacked.serves_honest_ones()


# ---------------------------------------------------------------------- huge

DEEP = b"[" * 100_000
MANY_VALUES = b'{"jobs": [' + b"[]," * 1_100_000 + b"[]]}"
HUGE: dict[str, tuple[bytes, int]] = {
    "a body of 65 MiB": (HEAD + b"Content-Length: 68157440\r\n\r\n" + b"x" * 100_000, 413),
    "a body of 10^18 bytes": (HEAD + b"Content-Length: 999999999999999999\r\n\r\n", 413),
    "a chunk of 65 MiB": (CHUNKED + b"4100000\r\n" + b"x" * (68 << 20), 413),
    "tiny chunks": (CHUNKED + b"1\r\n \r\n" * 5_000, 400),
    "a huge chunk extension": (CHUNKED + b"1;" + b"x" * 100_000, 431),
    "a huge field": (HEAD + b"A: " + b"x" * 9_000 + b"\r\n\r\n", 431),
    "a huge head": (HEAD + b"A: b\r\n" * 20_000, 431),
    "many fields": (HEAD + b"A: b\r\n" * 90 + b"\r\n", 431),
    "a huge path": (HEAD.replace(b"heartbeat", b"x" * 9_000) + b"\r\n", 414),
    "a huge line": (b"POST /" + b"x" * 100_000, 431),
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_what_is_too_large_is_refused(attacked: AttackedServer, name: str) -> None:
    data, status = HUGE[name]
    assert attacked.exchanged(HOSTILE, data).startswith(b"HTTP/1.1 %d " % status)


@pytest.mark.parametrize(("body", "retcode"), [(DEEP, 101), (MANY_VALUES, 413), (b'{"a":' * 50_000, 101)], ids=[
    "deep lists", "a million values", "deep objects",
])  # fmt: skip
def test_json_that_costs_much_is_not_read(attacked: AttackedServer, body: bytes, retcode: int) -> None:
    assert attacked.ask(HONEST, HEARTBEAT, body)["retcode"] == retcode
    assert attacked.ask(HONEST, "party/batch", body)["retcode"] == retcode
    assert attacked.ask(HONEST, f"party/{new_job_id()}/host/{OWN}/create", body)["retcode"] == retcode


# ---------------------------------------------------------------------- TLS


def is_refused(attacked: AttackedServer, context: ssl.SSLContext) -> bool:
    """Whether a connection with this context gets no answer of HTTP."""
    try:
        return answered(attacked, context) == b""
    except OSError:
        return True


def answered(attacked: AttackedServer, context: ssl.SSLContext) -> bytes:
    """All that comes over a connection with this context after a request. Raises OSError."""
    with attacked.connected(context=context) as found:
        found.sendall(HEAD + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}")
        return all_of(found)


def leaf_of(party: TlsParty, **more: Any) -> Any:
    """A certificate that a party makes itself, valid now."""
    now = datetime.now(UTC)
    day = timedelta(days=1)
    return make_certificate(party.issuer, party.key, since=now - day, until=now + day, **more)


def showing(chain: bytes | None) -> ssl.SSLContext:
    return hostile_context(ssl.PROTOCOL_TLS_CLIENT, chain)


def test_nobody_without_a_known_key_is_heard(attacked: AttackedServer) -> None:
    namesake = tls_party(HONEST, clock=attacked.clock)
    assert is_refused(attacked, showing(None))
    for party in (namesake, attacked.parties[STRANGER], attacked.parties[REVOKED]):
        assert is_refused(attacked, client_context(party.own, [attacked.own]))
        assert is_refused(attacked, showing(leaf_of(party).chain()))
    # A leaf of a stranger behind the certificate of an honest party; a leaf that names the key of that party.
    honest = attacked.parties[HONEST]
    of_honest = make_certificate(honest.issuer, None, ca=True)
    assert is_refused(attacked, showing(leaf_of(namesake).chain(of_honest)))
    assert is_refused(attacked, showing(make_certificate(honest.issuer, namesake.key).chain(of_honest)))
    assert not is_refused(attacked, attacked.context(HONEST))


def test_a_revoked_key_stays_so_with_another_form_of_its_signature(attacked: AttackedServer) -> None:
    """And of a party that is known, both forms are the same key: it is spared nothing that a revocation ends."""
    revoked, known = (leaf_of(attacked.parties[one]) for one in (REVOKED, OF_P256))
    for leaf in (revoked, with_flipped_signature(revoked)):
        assert is_refused(attacked, showing(leaf.chain()))
    assert not is_refused(attacked, showing(known.chain()))
    assert not is_refused(attacked, showing(with_flipped_signature(known).chain()))


def test_an_expired_leaf_of_a_known_key_is_refused(attacked: AttackedServer) -> None:
    party, now, day = attacked.parties[OF_P256], datetime.now(UTC), timedelta(days=1)
    for since, until in ((now - 2 * day, now - day), (now + day, now + 2 * day)):
        made = make_certificate(party.issuer, party.key, since=since, until=until)
        answer = answered(attacked, showing(made.chain()))
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"compare the clocks of both servers" in answer
        assert len(statuses(answer)) == 1, "the request has no answer of its own"


def test_older_versions_of_tls_are_refused(attacked: AttackedServer) -> None:
    context = client_context(attacked.parties[HONEST].own, [attacked.own])
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert is_refused(attacked, context)
    with attacked.connected(HONEST) as found:
        assert (found.version(), found.compression()) == ("TLSv1.3", None)


def test_no_session_is_resumed(attacked: AttackedServer) -> None:
    context = attacked.context(HONEST)
    with attacked.connected(HONEST) as first:
        first.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")
        assert first.recv(65536).startswith(b"HTTP/1.1 200 ")
        session = first.session
        assert not session.has_ticket
    with attacked.connected() as plain, context.wrap_socket(plain, session=session) as second:
        assert not second.session_reused


# ---------------------------------------------------------------------- two readings of one request


def statuses(answers: bytes) -> list[int]:
    return [int(one) for one in re.findall(rb"HTTP/1\.1 (\d{3}) [^\r\n]*\r\n", answers)]


def logged(attacked: AttackedServer, word: str) -> list[str]:
    """The requests that have reached the application and have this word in their line."""
    return [line for line in attacked.log("fate_flow_access.log") if word in line]


ATTACKER = "127.0.0.66"


def test_what_two_servers_could_read_in_two_ways_reaches_none(attacked: AttackedServer) -> None:
    for name, (data, status) in REFUSED.items():
        # Who breaks off within a request without an end of TLS need not be told: newer versions of Python cannot.
        allowed = ([], [status]) if name.startswith("an end within") else ([status],)
        assert statuses(attacked.exchanged(HOSTILE, data, ATTACKER)) in allowed, name
    assert statuses(attacked.exchanged(HOSTILE, b"GET /the-last HTTP/1.1\r\nHost: x\r\n\r\n", ATTACKER)) == [404]
    eventually(lambda: logged(attacked, "/the-last"), "its line in the log")
    [line] = logged(attacked, f" {ATTACKER} ")
    assert "/the-last" in line


def test_unusual_requests_are_one_request_each(attacked: AttackedServer) -> None:
    marks = {name: f"mark-{number}" for number, name in enumerate(CLEAN)}
    for name, data in CLEAN.items():
        target = data.split(b" ", 2)[1]
        sent = data.replace(b" %s HTTP" % target, b" /%s%s HTTP" % (marks[name].encode(), target), 1)
        assert statuses(attacked.exchanged(HOSTILE, sent)) == [404], name
    for name, mark in marks.items():
        eventually(lambda: logged(attacked, f"/{mark}/"), f"{name} in the log")  # noqa: B023
        assert len(logged(attacked, f"/{mark}/")) == 1, name
    assert logged(attacked, "stolen") == []
