"""Routes of FATE Flow 2 that this server does not offer: each is answered with code 6001, and what to use instead."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response

from fate_flow.api.http.declared import declared
from fate_flow.api.http.services import Services
from fate_flow.api.v2.envelope import RESTRICTED
from fate_flow.core.access.client_roles import READ
from fate_flow.core.model.errors import NotOffered

_CLIENTS = "whoever runs this server gives clients their keys and roles: fate_flow client add, fate_flow client list"
_PARTIES = "parties are in the configuration of a server, or join by an invitation: fate_flow party"
_REGISTRY = "server/query/all shows what the configuration of this server says"
_PROVIDERS = (
    "whoever runs this server names providers in its configuration, in the section providers; provider/query shows them"
)

_STORE = "model/export and model/import take models from one home to another; a DAG reads them by model_warehouse"

GET, POST = "GET", "POST"
ROUTES = (
    *((POST, f"app/client/{verb}", "clients that clients make", _CLIENTS) for verb in ("create", "delete")),
    (GET, "app/client/query", "clients that clients make", _CLIENTS),
    *((POST, f"app/site/{verb}", "keys of sites that clients make", _PARTIES) for verb in ("create", "delete")),
    (GET, "app/site/query", "keys of sites that clients make", _PARTIES),
    *((POST, f"app/partner/{verb}", "partners that clients make", _PARTIES) for verb in ("create", "delete")),
    (GET, "app/partner/query", "partners that clients make", _PARTIES),
    *((POST, f"permission/{verb}", "roles of clients by routes", _CLIENTS) for verb in ("grant", "delete")),
    (GET, "permission/query", "roles of clients by routes", _CLIENTS),
    *((POST, f"server/{verb}", "a registry of servers", _REGISTRY) for verb in ("registry", "delete")),
    *((POST, f"server/service/{verb}", "a registry of services", _REGISTRY) for verb in ("registry", "delete")),
    (GET, "server/service/query", "a registry of services", _REGISTRY),
    *((POST, f"model/{verb}", "FATE-Serving and databases of models", _STORE)
      for verb in ("load", "migrate", "store", "restore")),
    *((POST, f"provider/{verb}", "providers that clients make", _PROVIDERS) for verb in ("register", "delete")),
)
"""Method, path, what is not offered, and what there is instead."""


def blueprint(_: Services) -> Blueprint:
    never = Blueprint("v2_not_offered", __name__, url_prefix="/v2")
    for method, path, what, instead in ROUTES:
        view = declared(f"Not offered: {what}.", READ, never=RESTRICTED)(_refusal(path, what, instead))
        never.add_url_rule(f"/{path}", path.replace("/", "_"), view, methods=[method])
    return never


def _refusal(path: str, what: str, instead: str) -> Callable[[], Response]:
    def refuse() -> Response:
        raise NotOffered(f"this server does not offer {what} ({path}); instead: {instead}")

    return refuse
