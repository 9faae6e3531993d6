"""Signing and checking key lists (core/access/key_list.py)."""

from __future__ import annotations

from base64 import b64decode, b64encode

from fate_flow.core.access.key_list import TLS, KeyList, SignedKeyList, read_key_list
from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.peers.site_key import ED25519, PrivateKey, PublicKey, read_public_key
from fate_flow.peers.tls import public_pem, read_tls_key

_PREFIX = b"fate_flow key list\n"        # so that a signature of a list is never one of anything else


def sign_key_list(root: PrivateKey, key_list: KeyList) -> SignedKeyList:
    """Return the list with the signature of the root key. Raises BadSettings for a key that is no root key."""
    if root.public.kind != ED25519:
        raise BadSettings("a root key is of the kind ed25519")
    content = key_list.content()
    signature = b64encode(root.sign(_PREFIX + content.encode())).decode()
    return SignedKeyList(root.public.pem, content, signature)


def check_key_list(signed: SignedKeyList) -> tuple[KeyList, PublicKey]:
    """Return the list and its root key if this key has signed it, and every key in it is usable. Raises BadRequest."""
    root = _root(signed.root_key, "root_key")
    if not root.has_signed(_PREFIX + signed.content.encode(), b64decode(signed.signature)):
        raise BadRequest("key list: its root key has not signed it; was the file changed?")
    found = read_key_list(signed.content)
    if found.next_root is not None:
        _root(found.next_root, "next_root")
    for number, key in enumerate(found.keys):
        if key.use == TLS:
            _check_tls_key(key.pem, f"keys[{number}]")
        else:
            _public(key.pem, f"keys[{number}]")
    return found, root


def _root(pem: str, name: str) -> PublicKey:
    found = _public(pem, name)
    if found.kind != ED25519:
        raise BadRequest(f"key list: {name} is not of the kind ed25519")
    return found


def _public(pem: str, name: str) -> PublicKey:
    """Read a key in the one form that is written here, so that equal keys are equal texts."""
    try:
        found = read_public_key(pem)
    except BadRequest as error:
        raise BadRequest(f"key list: {name}: {error.message.removeprefix('key: ')}") from error
    _check_form(found.pem, pem, name)
    return found


def _check_tls_key(pem: str, name: str) -> None:
    try:
        found = read_tls_key(pem)
    except ValueError as error:
        raise BadRequest(f"key list: {name}: {error}") from error
    _check_form(public_pem(found), pem, name)


def _check_form(pem: str, given: str, name: str) -> None:
    if pem != given:
        raise BadRequest(f"key list: {name} is not in the form in which `fate_flow key` writes keys")

