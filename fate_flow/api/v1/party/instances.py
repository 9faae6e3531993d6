"""The servers: those of this party, and the description that another party gives of itself."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.declared import NOTHING, TEXT, WHOLE, Arguments, an_object, by_name, declared
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import ok, reply
from fate_flow.core.access.client_roles import READ
from fate_flow.core.model.errors import NotFound
from fate_flow.core.model.grammar import check_party_id
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.envelope import FATE_VERSION
from fate_flow.settings.settings import Settings

_DESCRIBED: Arguments = {
    "version": TEXT, "host": TEXT, "http_port": WHOLE, "grpc_port": NOTHING, "party_id": TEXT,
}  # fmt: skip
_SERVER = an_object({**_DESCRIBED, "instance_id": TEXT, "url": TEXT})
_OF_PARTY: Arguments = {"data": {"description": "The answer of `info/common` of that server, whatever runs there."}}


def blueprint(services: Services) -> Blueprint:
    settings = services.settings
    instances = Blueprint("instances", __name__, url_prefix="/v1")

    @instances.post("/server/fateflow/info")
    @declared("List the servers of this party.", READ, data=by_name(_SERVER))
    def servers() -> Response:
        """Return this server by its name: a party has one address, however many processes answer there."""
        one = {**described(settings), "instance_id": f"party {settings.party_id}", "url": settings.url}
        return ok({one["instance_id"]: one})

    @instances.post("/info/party/<party_id>")
    @declared("Show how the server of a party describes itself.", READ, aside=_OF_PARTY, relays=True)
    def party(party_id: str) -> Response:
        """Return the answer of `info/common` of that party's server. Raise NotFound if there is no route to it."""
        if check_party_id(party_id) == settings.party_id:
            return ok(described(settings))
        if party_id not in services.context.routes:
            raise NotFound(f"party_id: party {party_id} has no route here (routes in service_conf.yaml)")
        return reply(services.ask_party(Party("guest", party_id), "/info/common", {}))

    return instances


def described(settings: Settings) -> dict[str, Any]:
    return {
        "version": FATE_VERSION, "host": settings.host, "http_port": settings.http_port, "grpc_port": None,
        "party_id": settings.party_id,
    }  # fmt: skip
