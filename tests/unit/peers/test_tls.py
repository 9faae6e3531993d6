"""Connections between parties belong to a known key, whatever certificates a hostile party makes."""

from __future__ import annotations

import ssl
import threading
from contextlib import suppress
from datetime import datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.peers.tls import LEAF_LIFE, NotAPeer, PeerKey, client_context, peer_of, read_tls_key, server_context
from tests.kit.peers.handshakes import (
    DAY,
    NOW,
    HandMade,
    Pair,
    TlsParty,
    connect,
    hostile_context,
    make_certificate,
    ms,
    public_pem,
    tls_party,
    with_flipped_signature,
)

A, B, STRANGER = tls_party("9999"), tls_party("10000"), tls_party("10001")
HOSTILE = tls_party("666")
EC_PARTY = tls_party("777", ecdsa=True)
TWO_YEARS = 2 * 365 * DAY


def shown_by(end: ssl.SSLObject, *known: TlsParty, now: datetime = NOW) -> str:
    return peer_of(end.getpeercert(True), [party.peer for party in known], ms(now)).party_id


def as_server(chain: bytes | None, *trusted: TlsParty) -> Pair:
    """Connect to a listener of A that trusts these parties, showing a chain."""
    return connect(
        hostile_context(ssl.PROTOCOL_TLS_CLIENT, chain), server_context(A.own, [party.peer for party in trusted])
    )


# ---------------------------------------------------------------------- honest parties


@pytest.mark.parametrize("ecdsa", [False, True])
@pytest.mark.parametrize("passed", [timedelta(0), TWO_YEARS])
def test_two_parties_know_each_other_by_their_keys_however_late_it_is(ecdsa: bool, passed: timedelta) -> None:
    late = NOW + passed
    one, other = (tls_party(name, ecdsa=ecdsa, clock=lambda: ms(late)) for name in ("9999", "10000"))
    ends = connect(client_context(one.own, [other.peer]), server_context(other.own, [one.peer, STRANGER.peer]))
    assert shown_by(ends.client, other, now=late) == "10000"
    assert shown_by(ends.server, STRANGER, one, now=late) == "9999"
    for end in (ends.client, ends.server):
        assert (end.version(), end.selected_alpn_protocol(), end.compression()) == ("TLSv1.3", "http/1.1", None)


def test_both_keys_are_good_while_a_party_changes_them() -> None:
    old, new = tls_party("10000"), tls_party("10000", ecdsa=True)
    for shown in (old, new):
        ends = connect(client_context(A.own, [old.peer, new.peer]), server_context(shown.own, [A.peer]))
        assert peer_of(ends.client.getpeercert(True), [old.peer, new.peer], ms(NOW)) == shown.peer


def test_a_leaf_is_made_again_at_half_of_its_life_and_after_a_clock_was_set_back() -> None:
    time = [NOW]
    party = tls_party("9999", clock=lambda: ms(time[0]))
    first = party.own.leaf()
    time[0] = NOW + LEAF_LIFE / 2 - timedelta(seconds=1)
    assert party.own.leaf() is first
    time[0] = NOW + LEAF_LIFE / 2
    second = party.own.leaf()
    assert second.certificate != first.certificate
    for leaf, last in ((first, NOW + LEAF_LIFE), (second, time[0] + LEAF_LIFE)):
        assert peer_of(leaf.certificate, [party.peer], ms(last)).party_id == "9999"
    time[0] = NOW - timedelta(seconds=1)
    assert party.own.leaf() is not second


def test_threads_share_one_leaf() -> None:
    party, leaves, start = tls_party("9999"), [], threading.Barrier(4)

    def take() -> None:
        start.wait(90)
        leaves.append(party.own.leaf())

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [leaf is leaves[0] for leaf in leaves] == [True] * 4


def test_no_private_key_is_shown() -> None:
    leaf = A.own.leaf()
    assert b"PRIVATE KEY" in leaf.pem
    for text in (repr(leaf), repr(A.own), repr(A.peer)):
        assert "PRIVATE" not in text
        assert leaf.pem.split(b"PRIVATE KEY-----\n")[1][:40].decode() not in text


def test_contexts_check_what_newer_pythons_check() -> None:
    for context in (client_context(A.own, [B.peer]), server_context(A.own, [B.peer])):
        assert context.verify_flags & ssl.VERIFY_X509_STRICT
        assert (context.verify_mode, context.minimum_version) == (ssl.CERT_REQUIRED, ssl.TLSVersion.TLSv1_3)
    with pytest.raises(ssl.SSLCertVerificationError):
        as_server(make_certificate(B.issuer, B.key, with_ids=False).chain(), B)


# ---------------------------------------------------------------------- connections of others


def test_who_shows_nothing_is_refused() -> None:
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        as_server(None, B)
    for nothing in (None, b""):
        with pytest.raises(NotAPeer, match="has shown no certificate"):
            peer_of(nothing, [B.peer], ms(NOW))


def test_older_versions_of_tls_are_refused() -> None:
    old_client = hostile_context(ssl.PROTOCOL_TLS_CLIENT, B.own.leaf().pem)
    old_server = hostile_context(ssl.PROTOCOL_TLS_SERVER, B.own.leaf().pem)
    for context in (old_client, old_server):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        connect(old_client, server_context(A.own, [B.peer]))
    with pytest.raises(ssl.SSLError, match=r"UNSUPPORTED_PROTOCOL|PROTOCOL_VERSION"):
        connect(client_context(A.own, [B.peer]), old_server)


def test_a_valid_key_of_another_party_is_not_the_one_that_was_called() -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(client_context(A.own, [B.peer]), server_context(HOSTILE.own, [A.peer]))
    with pytest.raises(NotAPeer):
        peer_of(HOSTILE.own.leaf().certificate, [B.peer], ms(NOW))


def hostile_chains() -> dict[str, tuple[HandMade, tuple[HandMade, ...]]]:
    """What a party that is known makes with its own key to pass for B, and what a stranger makes."""
    authority = make_certificate(HOSTILE.issuer, HOSTILE.key, B.issuer, ca=True)
    bounded = make_certificate(HOSTILE.issuer, HOSTILE.key, B.issuer, ca=True, path_length=0)
    root = make_certificate("anybody", None, "anybody", ca=True)
    like_b = make_certificate(B.issuer, None, B.issuer, ca=True)
    return {
        "an authority below the own key, with the name of B": (make_certificate(B.issuer, authority.key), (authority,)),
        "the same for one level": (make_certificate(B.issuer, bounded.key), (bounded,)),
        "a leaf of the own key that names B": (make_certificate(B.issuer, HOSTILE.key), ()),
        "a leaf that signed itself": (make_certificate("leaf", None), ()),
        "a leaf that signed itself, with the name of B": (make_certificate(B.issuer, None, B.issuer), ()),
        "an authority of its own": (make_certificate("anybody", root.key), (root,)),
        "an authority of its own, with the name of B": (make_certificate(B.issuer, like_b.key), (like_b,)),
        "a leaf of a leaf of B": (make_certificate("leaf", A.key), (make_certificate(B.issuer, B.key, key=A.key),)),
    }


@pytest.mark.parametrize("what", hostile_chains())
def test_no_certificate_makes_one_party_another(what: str) -> None:
    leaf, others = hostile_chains()[what]
    with pytest.raises(ssl.SSLCertVerificationError):
        as_server(leaf.chain(*others), B, HOSTILE)
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(client_context(A.own, [B.peer]), hostile_context(ssl.PROTOCOL_TLS_SERVER, leaf.chain(*others)))
    with pytest.raises(NotAPeer, match="signed by no key that is known"):
        peer_of(leaf.der, [B.peer, HOSTILE.peer], ms(NOW))


def test_who_lists_the_key_of_another_party_does_not_get_its_connections() -> None:
    thief = PeerKey.of("666", public_pem(B.key))
    for peers in ([thief, B.peer], [B.peer, thief]):
        ends = connect(client_context(B.own, [A.peer]), server_context(A.own, peers))
        assert peer_of(ends.server.getpeercert(True), peers, ms(NOW)).party_id == "10000"


@pytest.mark.parametrize(
    ("since", "until"), [(NOW - 40 * DAY, NOW - timedelta(seconds=1)), (NOW + timedelta(seconds=1), NOW + DAY)]
)
def test_a_leaf_outside_its_dates_is_refused_and_the_clocks_are_named(since: datetime, until: datetime) -> None:
    leaf = make_certificate(B.issuer, B.key, since=since, until=until)
    ends = as_server(leaf.chain(), B)
    text = f"party 10000 is valid from {since:%F %T}Z .* the clock here says {NOW:%F %T}Z"
    with pytest.raises(NotAPeer, match=text):
        shown_by(ends.server, B)
    assert shown_by(ends.server, B, now=(since + (until - since) / 2)) == "10000"


# ---------------------------------------------------------------------- revoked keys


@pytest.mark.parametrize("revoked", [B, EC_PARTY])
def test_a_leaf_of_a_revoked_key_is_refused_before_its_end(revoked: TlsParty) -> None:
    leaf = revoked.own.leaf()
    assert shown_by(as_server(leaf.pem, HOSTILE, revoked).server, revoked) == revoked.party_id
    with pytest.raises(ssl.SSLCertVerificationError):
        as_server(leaf.pem, HOSTILE)
    with pytest.raises(NotAPeer):
        peer_of(leaf.certificate, [HOSTILE.peer], ms(NOW))


def test_another_form_of_a_signature_makes_no_other_key() -> None:
    """Of each ECDSA signature (r, s), (r, -s) is one as well: certificates have many hashes, keys have one."""
    leaf = make_certificate(EC_PARTY.issuer, EC_PARTY.key)
    flipped = with_flipped_signature(leaf)
    assert flipped.der != leaf.der
    assert shown_by(as_server(flipped.chain(), EC_PARTY).server, EC_PARTY) == "777"
    with pytest.raises(ssl.SSLCertVerificationError):
        as_server(flipped.chain(), B)
    with pytest.raises(NotAPeer):
        peer_of(flipped.der, [B.peer], ms(NOW))


def test_no_session_is_resumed() -> None:
    server, client = server_context(A.own, [B.peer]), client_context(B.own, [A.peer])
    session = connect(client, server).client.session
    assert session is not None
    assert not session.has_ticket
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(client, server_context(A.own, [HOSTILE.peer]), session)
    assert not connect(client, server, session).client.session_reused


def test_with_tickets_a_session_would_outlive_the_certificate() -> None:
    """The attack that the test above is about works against a context that sends tickets."""
    server, client = server_context(A.own, [B.peer]), client_context(B.own, [A.peer])
    server.options &= ~ssl.OP_NO_TICKET
    server.num_tickets = 2
    session = connect(client, server).client.session
    assert session is not None
    assert session.has_ticket
    assert connect(client, server, session).client.session_reused


# ---------------------------------------------------------------------- damaged input


@given(st.integers(min_value=0), st.integers(1, 255))
def test_a_damaged_leaf_belongs_to_its_party_or_to_none(place: int, change: int) -> None:
    leaf = bytearray(B.own.leaf().certificate)
    leaf[place % len(leaf)] ^= change
    with suppress(NotAPeer):
        assert peer_of(bytes(leaf), [A.peer, B.peer], ms(NOW)) == B.peer


@given(st.binary(max_size=200))
def test_anything_else_is_no_certificate(content: bytes) -> None:
    with pytest.raises(NotAPeer):
        peer_of(content, [A.peer, B.peer], ms(NOW))


def test_other_keys_are_not_for_tls() -> None:
    others = [rsa.generate_private_key(65537, 2048).public_key(), ec.generate_private_key(ec.SECP384R1()).public_key()]
    for key in others:
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        with pytest.raises(ValueError, match=r"another kind .*: Ed25519, or ECDSA on P-256"):
            read_tls_key(pem.decode())
    private = B.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    for text in ("", "certificate", private):
        with pytest.raises(ValueError, match="is not a public key in PEM") as error:
            read_tls_key(text)
        assert not text or text not in str(error.value)


def test_a_key_with_the_id_of_another_is_no_anchor() -> None:
    wrong = PeerKey("10000", A.peer.key_id, public_pem(B.key))
    with pytest.raises(ValueError, match="the key of party 10000 has another key id than"):
        server_context(A.own, [wrong])
