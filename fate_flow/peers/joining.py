"""Both sides of joining, with keys and connections: what is checked before anything is saved.

`core/access/joining.py` has the messages and says why they are enough.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import requests

from fate_flow.core.access.invitation import Invitation
from fate_flow.core.access.joined_party import JoinedParty
from fate_flow.core.access.joining import (
    JOIN,
    NONCE_BYTES,
    Introduction,
    SavedList,
    check_keys,
    check_not_older,
    has_sealed_first,
    read_introduction,
    read_sealed,
    seal_answer,
    seal_first,
    seen_by_both,
)
from fate_flow.core.access.joining import read_answer as read_proved
from fate_flow.core.access.key_list import TLS, KeyList, SignedKeyList
from fate_flow.core.model.errors import BadRequest, Conflict, PeerUnreachable, PermissionDenied
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.envelope import headers, read_answer, to_json
from fate_flow.peers.invitations import Invitations
from fate_flow.peers.key_lists import check_key_list
from fate_flow.peers.network_errors import describe_network_error
from fate_flow.peers.peer_http import PeerHttp
from fate_flow.peers.pinned import SeenTls
from fate_flow.peers.spoken.phrase import phrase_of
from fate_flow.peers.tls import Clock, ClocksDiffer, NotAPeer, PeerKey, key_id_in, peer_of, shown_time, stranger_context

_SECONDS = 20.0
_LONGEST_ANSWER = 256 * 1024
_LONGEST_TEXT = 400
_MOST_CLOCK_MS = 24 * 3600 * 1000         # by which certificates begin earlier than they are made


@dataclass(frozen=True)
class Joining:
    """What a party has proved of itself, and what both sides have in common."""

    party: JoinedParty
    keys: KeyList
    signed: SignedKeyList
    root_id: str


Save = Callable[[Joining], None]
"""Stores a party that has joined. Raises FlowError."""


class InvitingSide:
    """Answers parties that join by an invitation of this one."""

    def __init__(
        self, party_id: str, invitations: Invitations, own_list: Callable[[], SignedKeyList], clock: Clock
    ) -> None:
        """`own_list` returns the newest key list of this party, and may raise BadSettings."""
        self._own = party_id
        self._invitations = invitations
        self._own_list = own_list
        self._clock = clock

    def answer(self, text: str, tls_key: str, save: Save) -> str:
        """Check the message of a party that joins, store the party with `save`, and return the answer.

        `tls_key`: the id of the key whose certificate this party has shown on the connection of the message. Raises
        BadRequest, PermissionDenied and whatever `save` raises; then nothing is stored."""
        first = read_sealed(text)
        said = read_introduction(first)
        now = self._clock()
        with self._invitations.held(said.about) as held:
            invitation = held.invitation
            if not has_sealed_first(first, invitation.secret, self._own, invitation.root_id):
                raise held.fail("secret: the message was not made with the secret of this invitation")
            if said.party_id != invitation.invited:
                raise held.fail(f"name: the invitation is for party {invitation.invited}, not for {said.party_id}")
            _check_clock(said, now)
            keys, root_id = _checked_list(said)
            own = self._own_keys(invitation, tls_key, said)
            mine = Introduction(self._own, invitation.address, own, _nonce(), now, tls_key)
            answer = seal_answer(mine, invitation.secret, first)
            phrase = phrase_of(seen_by_both(first, answer))
            joined = JoinedParty(said.party_id, said.address, phrase, now, held.by, said.clock - now)
            with held.used(joined):
                save(Joining(joined, keys, said.keys, root_id))
        return answer.text()

    def _own_keys(self, invitation: Invitation, tls_key: str, said: Introduction) -> SignedKeyList:
        """Raises Conflict if the joining party could not recognise this one by its list, or would not save that."""
        signed = self._own_list()
        keys, root = check_key_list(signed)
        if root.key_id != invitation.root_id:
            raise Conflict("key: the root key of the inviting party is another one by now: it has to invite again")
        if tls_key not in {one.key_id for one in _tls_keys(keys, self._clock())}:
            raise Conflict(
                "key: the inviting server uses a tls key that its key list does not have; there: fate_flow key certify"
            )
        check_not_older(keys, signed, said)
        return signed


class JoiningSide:
    """Joins the party that has made an invitation; stores and sends nothing itself."""

    def __init__(
        self, invitation: Invitation, own_party_id: str, address: str, own_list: SignedKeyList, clock: Clock,
        saved: SavedList | None = None,
    ) -> None:  # fmt: skip
        """`address`: of the own gateway; `saved`: the list of the inviting party that is here already. Raises
        BadRequest if the invitation is for another party."""
        if invitation.invited != own_party_id:
            raise BadRequest(f"name: the invitation is for party {invitation.invited}; this is party {own_party_id}")
        if invitation.inviter == own_party_id:
            raise BadRequest("name: the invitation is one of this party itself")
        self._invitation = invitation
        self._clock = clock
        self._sent_at = clock()
        mine = Introduction(own_party_id, address, own_list, _nonce(), self._sent_at, invitation.id, saved)
        self._first = seal_first(mine, invitation.secret, invitation.inviter, invitation.root_id)

    @property
    def message(self) -> str:
        return self._first.text()

    def check(self, text: str, leaf: bytes | None, by: str) -> Joining:
        """Return what an answer to the message proves of the inviting party. `leaf`: the certificate (DER) that was
        shown on the connection of this answer. Raises BadRequest, PermissionDenied."""
        answer, invitation, now = read_sealed(text), self._invitation, self._clock()
        peer = read_proved(answer, self._first, invitation)
        keys, root_id = _checked_list(peer)
        check_keys(peer, invitation, root_id, _key_behind(leaf, keys, now))
        joined = JoinedParty(
            peer.party_id, invitation.address, phrase_of(seen_by_both(self._first, answer)), now, by,
            peer.clock - (self._sent_at + now) // 2,
        )  # fmt: skip
        return Joining(joined, keys, peer.keys, root_id)


def join(
    invitation: Invitation, own_party_id: str, address: str, own_list: SignedKeyList, by: str, clock: Clock,
    saved: SavedList | None = None,
) -> Joining:  # fmt: skip
    """Join the inviting party: send it the keys and the address of this one, and return what it has proved of itself.

    Nothing is stored here. `saved`: the list of the inviting party that is here already. Raises BadRequest,
    PermissionDenied, PeerUnreachable; each says what has to be corrected: port, name, clock, key or secret."""
    side = JoiningSide(invitation, own_party_id, address, own_list, clock, saved)
    server = _UnprovedServer(invitation.inviter)
    return side.check(_asked(invitation, own_party_id, side.message, server, clock), server.leaf, by)


def _check_clock(said: Introduction, now: int) -> None:
    """Raises PermissionDenied if one of both parties would refuse the certificates of the other one afterwards."""
    if abs(said.clock - now) > _MOST_CLOCK_MS:
        raise PermissionDenied(
            f"clock: party {said.party_id} says {shown_time(said.clock)}, and the clock here {shown_time(now)}: "
            "correct the wrong one, and join again. Nothing was saved, and the invitation is still open"
        )


def _key_behind(leaf: bytes | None, keys: KeyList, now: int) -> str:
    """Return the id of the listed key that has signed the certificate of the connection, or is in it; "" for none of
    them."""
    try:
        return peer_of(leaf, _tls_keys(keys, now), now).key_id
    except ClocksDiffer as error:
        raise PermissionDenied(f"clock: {error}") from error
    except NotAPeer:             # a company's authority may have made a certificate of a listed key
        shown = key_id_in(leaf)
        return shown if shown in {one.key_id for one in _tls_keys(keys, now)} else ""


def _asked(invitation: Invitation, own_party_id: str, text: str, server: _UnprovedServer, clock: Clock) -> str:
    """Return the answer of whoever is at the address. Raises PeerUnreachable, PermissionDenied."""
    ended = (
        f". It has ended at {shown_time(invitation.until)}, by the clock of that party" if clock() > invitation.until
        else ""
    )  # fmt: skip
    where = f"{invitation.address} (party {invitation.inviter})"
    http = PeerHttp(connections=1, pinned=server)
    head = {**headers(own_party_id, invitation.inviter), "Content-Type": "application/json"}
    try:
        response = http.post(
            f"{invitation.address}/v1{JOIN}", to_json({"text": text}).encode(), head, seconds=_SECONDS,
            most_bytes=_LONGEST_ANSWER,
        )  # fmt: skip
        answer = read_answer(response.document())
    except (requests.RequestException, ValueError) as error:
        raise PeerUnreachable(_unreached(where, describe_network_error(error)) + ended) from error
    finally:
        http.close()
    found: Any = answer.data
    if not answer.is_ok or not isinstance(found, dict) or not isinstance(found.get("text"), str):
        said = "".join(one if one.isprintable() else "?" for one in sanitized(answer.retmsg, _LONGEST_TEXT))
        raise PermissionDenied(f"{where} answers: {said}{ended if said.startswith('secret:') else ''}")
    return str(found["text"])


def why_nobody_joins(url: str, own_party_id: str) -> str:
    """Return why nobody could join at this own address just now; empty if somebody could."""
    http = PeerHttp(connections=1, pinned=_UnprovedServer(own_party_id))
    try:
        response = http.post(
            f"{url}/v1{JOIN}", b"{}", {**headers("", own_party_id), "Content-Type": "application/json"},
            seconds=_SECONDS, most_bytes=_LONGEST_ANSWER,
        )  # fmt: skip
        if response.said_by != own_party_id:
            return "is another one"
        read_answer(response.document())
    except (requests.RequestException, ValueError) as error:
        why = describe_network_error(error)
        return "lets nobody join yet" if _IS_CLOSED in why else f"does not answer ({why})"
    finally:
        http.close()
    return ""


_IS_CLOSED = "CERTIFICATE_REQUIRED"


def _unreached(where: str, why: str) -> str:
    if _IS_CLOSED in why:
        return f"secret: {where} lets nobody join now: no invitation is open there. Ask for another one"
    maybe = "; or no invitation is open there" if why == "connection lost" else ""
    return f"port: {where} does not answer: {why}{maybe}"


class _UnprovedServer:
    """A server whose keys are not known yet: any certificate is taken, and remembered."""

    def __init__(self, party_id: str) -> None:
        self.party_id = party_id
        self.context: ssl.SSLContext = stranger_context()
        self.leaf: bytes | None = None

    def of(self, _party_id: str) -> _UnprovedServer:
        return self

    def has_dialed(self, _party_id: str, _seen: SeenTls) -> None:
        """Nobody joins over such a connection."""

    def has_answered(self, _party_id: str) -> None:
        """Nothing is noted of a server that nobody knows."""

    def check(self, connection: ssl.SSLSocket) -> None:
        self.leaf = connection.getpeercert(binary_form=True)


def _checked_list(said: Introduction) -> tuple[KeyList, str]:
    """Return the key list of an introduction, and the id of its root key. Raises BadRequest."""
    try:
        keys, root = check_key_list(said.keys)
    except BadRequest as error:
        raise BadRequest(f"key: {error.message}") from error
    if keys.party_id != said.party_id:
        raise BadRequest(f"key: the key list is that of party {keys.party_id}, not of party {said.party_id}")
    return keys, root.key_id


def _tls_keys(keys: KeyList, now: int) -> list[PeerKey]:
    return [PeerKey.of(keys.party_id, pem) for pem in keys.valid(TLS, now)]


def _nonce() -> str:
    return secrets.token_hex(NONCE_BYTES)
