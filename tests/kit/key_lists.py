"""Key lists of parties for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_list import MESSAGE, TLS, KeyList, ListedKey, SignedKeyList
from fate_flow.peers.key_lists import sign_key_list
from fate_flow.peers.site_key import PrivateKey
from tests.kit.peers.handshakes import TlsParty, public_pem
from tests.kit.site_keys import private_key

ROOT = private_key(101)
FINGERPRINT = fingerprint_of(ROOT.public.key_id)


def listed(use: str, pem: str, until: int | None = None) -> ListedKey:
    return ListedKey(use, pem, 1, until)


def key_list(party_id: str, number: int, *keys: PrivateKey, tls: TlsParty | None = None, **changed: Any) -> KeyList:
    """Return a list with these message keys, and with a tls key."""
    found = [listed(MESSAGE, key.public.pem) for key in keys]
    if tls is not None:
        found.append(listed(TLS, public_pem(tls.key)))
    return replace(KeyList(party_id, number, 1, tuple(found)), **changed)


def signed_list(party_id: str, number: int, *keys: PrivateKey, root: PrivateKey = ROOT, **more: Any) -> SignedKeyList:
    return sign_key_list(root, key_list(party_id, number, *keys, **more))
