"""`/v1/key/...`: public keys of other parties and of this one (client-api-v1, 3.6; docs/reference/signatures.md).

FATE's server gives out private keys here, by `key_name`, and replaces any key silently. This server does neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.arguments import PARTY_ID
from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import TEXT, Arguments, Schema, declared, described
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import arguments, ok
from fate_flow.core.access.client_roles import GRANT, READ
from fate_flow.core.access.fingerprint import fingerprint_of, read_fingerprint
from fate_flow.core.access.key_list import KeyState, is_signed_key_list, read_signed_key_list
from fate_flow.core.access.site import SiteKey, check_key_id
from fate_flow.core.model.errors import BadRequest, BadSettings, Conflict, NotFound
from fate_flow.core.model.grammar import check_party_id, shown
from fate_flow.peers.key_changes import message_key
from fate_flow.peers.key_lists import check_key_list
from fate_flow.peers.site_key import read_public_key
from fate_flow.services.use_cases.keys import delete_key, save_key, save_key_list
from fate_flow.store.contract.party_keys import message_keys

_PUBLIC = "public"
_PARTY: Arguments = {"party_id": PARTY_ID}
_KEY: Schema = {
    "type": "string", "format": "public-key", "minLength": 1,
    "description": "A key list, as `fate_flow key show` prints it; or PEM: Ed25519, or RSA of 2048 to 8192 bits.",
}  # fmt: skip
_KEY_ID: Schema = {
    "type": "string", "pattern": "^[0-9a-f]{64}$", "description": "SHA-256 of a public key in its DER form.",
}  # fmt: skip
_FINGERPRINT: Schema = {
    "type": "string", "format": "fingerprint",
    "description": "Of the root key, as `fate_flow key fingerprint` prints it.",
}  # fmt: skip
_NUMBER: Schema = {"type": "integer", "minimum": 1, "description": "Of the key list."}
_BESIDE: Arguments = {"key_id": _KEY_ID}
_OF_A_LIST: Arguments = {"fingerprint": _FINGERPRINT, "number": _NUMBER}


def blueprint(services: Services) -> Blueprint:
    routes = _KeyRoutes(services)
    keys = Blueprint("keys", __name__, url_prefix="/v1/key")
    keys.post("/public/save")(routes.save)
    keys.post("/query")(routes.query)
    keys.post("/public/delete")(routes.delete)
    return keys


class _KeyRoutes:
    def __init__(self, services: Services) -> None:
        self._settings = services.settings
        self._context = services.context

    @declared(
        "Save the key list of another party, or its public key.", GRANT, needs={**_PARTY, "key": _KEY},
        takes={
            "replaces": described(_KEY_ID, "Not with a list: the id of the saved key, if the party has another one."),
            "fingerprint": described(_FINGERPRINT, "The one that the other party's operator has read out."),
        },
        data=TEXT, beside=_BESIDE, aside=_OF_A_LIST,
    )
    def save(self) -> Response:
        body = arguments("party_id", "key")
        party_id, key, replaces = check_party_id(body["party_id"]), body["key"], body.get("replaces")
        if not isinstance(key, str):
            raise BadRequest("key: is not text")
        if is_signed_key_list(key):
            return self._save_list(party_id, key, body)
        if body.get("fingerprint") is not None:
            raise BadRequest("fingerprint: goes with a key list only; compare the key_id of a key in PEM")
        found = read_public_key(key)
        wanted = check_key_id(replaces, "replaces") if replaces is not None else ""
        self._refuse_own(party_id)
        is_new = save_key(self._context, SiteKey(party_id, found.key_id, found.pem), wanted, caller())
        return ok("save success" if is_new else "update success", key_id=found.key_id)

    def _save_list(self, party_id: str, text: str, body: Mapping[str, Any]) -> Response:
        if body.get("replaces") is not None:
            raise BadRequest("replaces: goes with a key in PEM only; a key list replaces the list before it")
        signed = read_signed_key_list(text)
        found, root = check_key_list(signed)
        if found.party_id != party_id:
            raise BadRequest(f"party_id: {party_id} was given, and this is the key list of party {found.party_id}")
        self._refuse_own(party_id)
        fingerprint = fingerprint_of(root.key_id)
        compared = body.get("fingerprint")
        if compared is not None and read_fingerprint(compared) != root.key_id:
            raise BadRequest(f"fingerprint: the root key of this list has another one: {fingerprint}")
        is_new = save_key_list(self._context, found, signed, root.key_id, compared is not None, caller())
        said = "save success" if is_new else "update success"
        return ok(said, key_id=root.key_id, fingerprint=fingerprint, number=found.number)

    @declared(
        "Show the public key of a party, or of this party itself.", READ, needs=_PARTY,
        takes={"key_name": {"const": _PUBLIC, "description": "Other keys are not given out."}},
        data=described(TEXT, "PEM."), beside=_BESIDE, aside=_OF_A_LIST,
    )
    def query(self) -> Response:
        body = arguments("party_id")
        party_id, name = check_party_id(body["party_id"]), body.get("key_name")
        if name not in (None, _PUBLIC):
            raise BadRequest(f"key_name: {shown(name)} is not given out, only {_PUBLIC}")
        found = self._own_key() if party_id == self._settings.party_id else self._key_of(party_id)
        return ok(found.pem, key_id=found.key_id, **self._list_of(party_id))

    @declared("Delete the public key of another party: its signatures are then refused.", GRANT, needs=_PARTY)
    def delete(self) -> Response:
        party_id = check_party_id(arguments("party_id")["party_id"])
        self._refuse_own(party_id)
        delete_key(self._context, party_id, caller())
        return ok()

    def _refuse_own(self, party_id: str) -> None:
        if party_id == self._settings.party_id:
            raise Conflict(
                f"party_id: {party_id} is this party itself; make its key on its machine with fate_flow key make"
            )

    def _own_key(self) -> SiteKey:
        try:
            public = message_key(self._settings.keys_dir, self._settings.private_key, self._context.clock()).public
        except BadSettings as error:
            raise NotFound("party_id: this party has no usable key; run fate_flow key show on its machine") from error
        return SiteKey(self._settings.party_id, public.key_id, public.pem)

    def _list_of(self, party_id: str) -> dict[str, Any]:
        keys = self._context.read(lambda tx: tx.party_keys(party_id))
        if keys is None or keys.state is not KeyState.JOINED:
            return {}
        return {"fingerprint": fingerprint_of(keys.root_id), "number": keys.number}

    def _key_of(self, party_id: str) -> SiteKey:
        found = self._context.read(lambda tx: message_keys(tx, party_id, self._context.clock()))
        if not found:
            raise NotFound(f"party_id: no public key of party {party_id} is saved here (flow key save)")
        return found[0]

