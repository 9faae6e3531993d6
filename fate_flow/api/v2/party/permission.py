"""`/v2/permission/resource/...`: what jobs of another party may use here (client-api-v2, section 5).

A component is named as in a DAG (`psi`), which means it of whatever provider, or by its module here (`fate.psi`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import FREE, TEXT, Arguments, a_list, declared
from fate_flow.api.http.services import Services
from fate_flow.api.v2.arguments import arguments
from fate_flow.api.v2.envelope import ok
from fate_flow.api.v2.errors import PermissionFailed
from fate_flow.core.access.client_roles import ALL_ROLES, GRANT, READ, names_of
from fate_flow.core.access.permission import ALL, EVERYTHING, Thing, as_written, read_things, without_case
from fate_flow.core.model.errors import BadRequest, Conflict
from fate_flow.core.model.grammar import check_party_id, shown
from fate_flow.core.model.modules import ModuleInfo

_PARTY: Arguments = {"party_id": TEXT}
_THINGS: Arguments = {"component": TEXT, "dataset": a_list(FREE)}


def blueprint(services: Services) -> Blueprint:
    routes = _PermissionRoutes(services)
    permission = Blueprint("v2_permission", __name__, url_prefix="/v2/permission")
    permission.post("/resource/grant")(routes.grant)
    permission.post("/resource/delete")(routes.delete)
    permission.get("/resource/query")(routes.query)
    permission.get("/role/query")(routes.roles)
    return permission


class _PermissionRoutes:
    def __init__(self, services: Services) -> None:
        self._permissions = services.use_cases.permissions
        self._context = services.context

    @declared("Grant jobs of a party the use of components and tables here.", GRANT, needs=_PARTY, takes=_THINGS)
    def grant(self) -> Response:
        sent = arguments()
        self._permissions.grant(check_party_id(sent["party_id"]), self._things(sent), caller())
        return ok()

    @declared("Revoke such grants.", GRANT, needs=_PARTY, takes=_THINGS)
    def delete(self) -> Response:
        sent = arguments()
        party_id, things = check_party_id(sent["party_id"]), self._things(sent)
        granted = self._granted(party_id)
        held = [one for one in things if one in granted or one in EVERYTHING.values()]
        try:
            self._permissions.revoke(party_id, held or things, caller())
        except Conflict as error:
            raise PermissionFailed(error.message) from error
        return ok()

    @declared(
        "Show what jobs of a party may use here.", READ, needs=_PARTY, idle=("component", "dataset"), data=FREE,
    )
    def query(self) -> Response:
        found = as_written(self._granted(check_party_id(arguments()["party_id"])))
        modules = self._context.modules
        names = {modules[one].name if one in modules else one for one in found["component"]}
        return ok({**found, "component": sorted(names)})

    @declared("List the roles that a client of this server may have.", READ, data=a_list(TEXT))
    def roles(self) -> Response:
        return ok(list(names_of(ALL_ROLES)))

    def _granted(self, party_id: str) -> frozenset[Thing]:
        return self._context.read(lambda tx: tx.granted(party_id))

    def _things(self, sent: Mapping[str, Any]) -> list[Thing]:
        """Return the components and tables that a request names. Raise PermissionFailed for what is unknown or
        malformed."""
        modules = self._context.modules
        names = [one.strip() for one in sent.get("component", "").split(",") if one.strip()]
        meant = [module for name in names for module in modules_named(modules, name)]
        try:
            things, _ = read_things({"component": meant, "dataset": sent.get("dataset")}, modules)
        except BadRequest as error:
            raise PermissionFailed(error.message) from error
        return things


def modules_named(modules: Mapping[str, ModuleInfo], name: str) -> list[str]:
    """Return the modules that have this name, or whose component has it. Raise PermissionFailed if there is none."""
    if name == ALL:
        return [ALL]
    wanted = without_case(name)
    found = [key for key, one in modules.items() if wanted in (without_case(key), without_case(one.name))]
    if not found:
        known = ", ".join(sorted({one.name for one in modules.values()}))
        raise PermissionFailed(f"component: {shown(name)} is not one of {ALL}, {known}")
    return found
