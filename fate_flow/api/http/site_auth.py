"""Authentication of other parties: a request is signed with the key saved for its party (docs/reference/signatures.md).

The headers are checked first. Only the body of a signed request is read, up to the server's size limit, and compared
with the signed digest. A request is accepted once. The answer to an accepted request is signed if the request asks for
that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from flask import Response, g, request

from fate_flow.api.http.client_auth import WINDOW_MS, NotAuthenticated, is_at_route_of_parties
from fate_flow.api.http.nonces import Nonces
from fate_flow.api.http.party_connection import PROXY, has_proved_key, unproved
from fate_flow.core.access.site import SiteKey, short_key_id
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_party_id, shown
from fate_flow.core.wire.v1.envelope import DEST_PARTY_ID, SRC_PARTY_ID
from fate_flow.peers.signature import (
    DIGEST,
    INPUT,
    SIGNATURE,
    VALID_SECONDS,
    Covered,
    SignatureInput,
    digest_of,
    read_signature_input,
)
from fate_flow.peers.signed_answers import CoveredAnswer, sign_answer
from fate_flow.peers.site_key import PrivateKey, read_public_key

LOG = logging.getLogger(__name__)

MessageKey = Callable[[], PrivateKey]
"""Returns the key with which this party signs at this moment."""


class SiteAuth:
    """The check of each request on a route of other parties. `clock` returns milliseconds since 1970."""

    def __init__(
        self, own_party_id: str, needs_key: Callable[[str], bool], key: MessageKey | None,
        keys_of: Callable[[str], tuple[SiteKey, ...]], nonces: Nonces, clock: Callable[[], int],
        may_log: Callable[[], bool],
    ) -> None:  # fmt: skip
        """`needs_key`: whether requests of this party have to be signed. `key` returns what signs an answer; None: none
        is signed. `may_log` counts a line about the present request."""
        self._own = own_party_id
        self._needs_key = needs_key
        self._key = key
        self._keys_of = keys_of
        self._nonces = nonces
        self._clock = clock
        self._may_log = may_log

    def check(self) -> None:
        """Raise NotAuthenticated; StorageFailed if the check cannot be made."""
        if not is_at_route_of_parties():
            return
        signature_input = read_signature_input(request.headers.get(INPUT, ""), request.headers.get(SIGNATURE, ""))
        asks = signature_input is not None and signature_input.asks
        if has_proved_key(request.environ) and not asks:
            return      # the gateway has verified a key
        is_behind_proxy = unproved(request.environ) == PROXY
        try:
            source = self._source()
            if is_behind_proxy or self._needs_key(source):
                self._check(source, signature_input)
                g.signs_answer = asks
            if is_behind_proxy and not asks:
                raise NotAuthenticated(
                    f"party {self._own} is behind a proxy, so answers are signed, too: set "
                    f"routes.{self._own}.signed_answers to true at party {source}"
                )
        except NotAuthenticated as error:
            caller = shown(request.headers.get(SRC_PARTY_ID, ""))
            if self._may_log():
                LOG.warning("refused %s of party %s: %s", shown(request.path), caller, error.message)
            raise

    def sign_answer(self, response: Response) -> Response:
        """Sign the answer to an accepted request that asks for it; no other, not even a refusal."""
        if g.pop("signs_answer", False) and self._key is not None:
            body = response.get_data()
            covered = CoveredAnswer(
                response.status_code, digest_of(body), self._own, request.headers[INPUT], request.headers[SIGNATURE]
            )
            response.headers.update(sign_answer(self._key(), covered))
        return response

    def _source(self) -> str:
        try:
            source = check_party_id(request.headers.get(SRC_PARTY_ID, ""), SRC_PARTY_ID)
        except BadRequest as error:
            raise NotAuthenticated(error.message) from error
        if source in ("0", self._own):
            raise NotAuthenticated(f"{SRC_PARTY_ID}: party {source} is this server, which sends itself no requests")
        return source

    def _check(self, source: str, signature_input: SignatureInput | None) -> None:
        if signature_input is None:
            raise NotAuthenticated(
                f"party {self._own} requires signed requests of party {source} (docs/reference/signatures.md): turn on "
                f"authentication.site at party {source}, or let its route name the gateway of party {self._own} (https)"
            )
        destination = request.headers.get(DEST_PARTY_ID, "")
        if destination != self._own:
            raise NotAuthenticated(f"{DEST_PARTY_ID}: this is party {self._own}, not {shown(destination)}")
        now = self._check_time(signature_input)
        self._check_signature(source, signature_input)
        if digest_of(request.get_data()) != request.headers.get(DIGEST, ""):
            raise NotAuthenticated(f"{DIGEST}: is not the digest of the body")
        if not self._nonces.is_new(f"{source} {signature_input.nonce}", signature_input.created * 1000, now):
            raise NotAuthenticated("nonce: a request with this nonce was already accepted")

    def _check_time(self, signature_input: SignatureInput) -> int:
        now = self._clock()
        away = (signature_input.created * 1000 - now) // 1000
        if abs(signature_input.created * 1000 - now) > WINDOW_MS:
            raise NotAuthenticated(
                f"created: is {abs(away)} s {'after' if away > 0 else 'before'} the time of party {self._own}, at most "
                f"{WINDOW_MS // 1000} s are allowed: correct the clocks"
            )
        if not 0 < signature_input.expires - signature_input.created <= VALID_SECONDS:
            raise NotAuthenticated(f"expires: is not within {VALID_SECONDS} s after created")
        if signature_input.expires * 1000 < now:
            late = now // 1000 - signature_input.expires
            raise NotAuthenticated(f"expires: is {late} s before the time of party {self._own}: correct the clocks")
        return now

    def _check_signature(self, source: str, signature_input: SignatureInput) -> None:
        known = {key.key_id: key for key in self._keys_of(source)}
        if not known:
            raise NotAuthenticated(f"party {self._own} has no public key of party {source}: run flow key save there")
        key = known.get(signature_input.key_id)
        if key is None:
            has = " and ".join(short_key_id(key_id) for key_id in known)
            raise NotAuthenticated(
                f"keyid: the request was signed with key {short_key_id(signature_input.key_id)}, and party {self._own} "
                f"has the key {has} of party {source}: run flow key save there if the new key is right"
            )
        covered = Covered(
            request.method, str(request.environ.get("RAW_URI", "")), request.headers.get(DIGEST, ""),
            request.headers.get(SRC_PARTY_ID, ""), self._own,
        )
        if not signature_input.holds(read_public_key(key.pem), covered):
            raise NotAuthenticated(
                f"signature: does not match this request; does a proxy before party {self._own} change requests?"
            )
