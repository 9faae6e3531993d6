"""`/v2/site/...` and `/v2/server/...`: this party, and what its configuration says (client-api-v2, section 5)."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.declared import FREE, TEXT, by_name, declared
from fate_flow.api.http.services import Services
from fate_flow.api.v1.party.service_registry import sections
from fate_flow.api.v2.arguments import arguments
from fate_flow.api.v2.envelope import ok
from fate_flow.api.v2.errors import ServerNotFound, not_found
from fate_flow.core.access.client_roles import READ

VERSION = "2.2.0"
"""The release of FATE Flow 2 whose answers these are."""


def blueprint(services: Services) -> Blueprint:
    routes = _SiteRoutes(services)
    site = Blueprint("v2_site", __name__, url_prefix="/v2")
    for path, view in {
        "/site/info/query": routes.info,
        "/server/fateflow": routes.servers,
        "/server/query": routes.section,
        "/server/query/all": routes.sections,
    }.items():
        site.add_url_rule(path, view_func=view, methods=["GET"])
    return site


class _SiteRoutes:
    def __init__(self, services: Services) -> None:
        self._settings = services.settings
        self._context = services.context

    @declared("Show the id of this party.", READ, data=FREE)
    def info(self) -> Response:
        return ok({"party_id": self._settings.party_id})

    @declared("List the servers of this party.", READ, data=by_name(FREE))
    def servers(self) -> Response:
        """Return this server by its name: a party has one address, however many processes answer there."""
        settings = self._settings
        name = f"party {settings.party_id}"
        return ok({name: {
            "grpc_port": None, "host": settings.host, "http_port": settings.http_port, "instance_id": name,
            "timestamp": self._context.clock(), "version": VERSION,
        }})  # fmt: skip

    @declared("Show one section of this server's configuration.", READ, needs={"server_name": TEXT}, data=FREE)
    def section(self) -> Response:
        name = arguments()["server_name"]
        found = sections(self._settings).get(name.upper())
        if found is None:
            raise not_found(ServerNotFound, server_name=name)
        return ok({"server_name": name.upper(), **found})

    @declared(
        "Show the sections of this server's configuration, without keys, passwords and folders.", READ,
        data=by_name(FREE),
    )
    def sections(self) -> Response:
        return ok(sections(self._settings))
