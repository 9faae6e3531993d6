"""`/v1/permission/...`: what jobs of another party may use here (client-api-v1, section 3.6).

The paths with `/privilege` are those of FATE Flow before 1.9, which the SDK of 1.11.3 still uses: there, `src_party_id`
names a party. FATE Flow also grants roles and commands there. Here, both follow from a party's seat in each job, so
grants of them are refused.
"""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.arguments import NAMESPACE, PARTY_ID, ROLE, TABLE_NAME, Body
from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import (
    NOTHING,
    TEXT,
    WARNINGS,
    Arguments,
    Schema,
    a_list,
    an_object,
    declared,
    described,
    one_of,
)
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import arguments, ok
from fate_flow.core.access.client_roles import GRANT, READ
from fate_flow.core.access.permission import ALL, MOST_TABLES, Thing, as_written, read_things
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import ROLES, check_party_id, check_role, shown

_OLD = "privilege_"
_NOT_GRANTED = (f"{_OLD}role", f"{_OLD}command")

_TABLE: Schema = {
    "type": "object", "properties": {"namespace": NAMESPACE, "name": TABLE_NAME}, "required": ["namespace", "name"],
}  # fmt: skip
_TABLE_OR_ALL: Schema = {"anyOf": [{"const": ALL}, _TABLE]}
_COMPONENTS: Schema = {
    "anyOf": [TEXT, a_list(TEXT)],
    "description": f"Names of components, as a list or separated by commas; {ALL} means all. Of several names, "
    "those that this server does not have are ignored, and named in warnings.",
}
_DATASETS: Schema = {
    "anyOf": [_TABLE_OR_ALL, a_list(_TABLE_OR_ALL, maxItems=MOST_TABLES)],
    "description": f"One table or several; {ALL} means all tables.",
}
_THINGS: Arguments = {"component": _COMPONENTS, "dataset": _DATASETS}
_OLD_THINGS: Arguments = {f"{_OLD}{key}": schema for key, schema in _THINGS.items()}
_NOTHING_ELSE: Arguments = dict.fromkeys(_NOT_GRANTED, described(NOTHING, "Cannot be granted."))
_PARTY: Arguments = {"party_id": PARTY_ID}
_SOURCE: Arguments = {"src_party_id": PARTY_ID, "src_role": ROLE}
_GRANTED: Arguments = {
    "component": a_list(TEXT),
    "dataset": a_list({"anyOf": [{"const": ALL}, an_object({"namespace": TEXT, "name": TEXT})]}),
}
_GRANTED_AS_BEFORE = an_object({
    "src_party_id": TEXT, "src_role": one_of(ROLES), "role": a_list(TEXT, maxItems=0),
    "command": a_list(TEXT, maxItems=0), **_GRANTED,
})  # fmt: skip


def _something(things: Arguments) -> tuple[Schema, ...]:
    """Return alternatives that each require a key with at least one known thing."""
    named = {"type": ["string", "object", "array"], "minItems": 1}
    return tuple(
        {"required": [key], "properties": {key: {**named, "format": "components"} if one is _COMPONENTS else named}}
        for key, one in things.items()
    )


_GRANT = "Grant jobs of a party the use of these components and tables here."
_DELETE = "Revoke grants of these components and tables from a party."
_QUERY = "Show what jobs of a party may use here."


def blueprint(services: Services) -> Blueprint:
    routes = _PermissionRoutes(services)
    permission = Blueprint("permission", __name__, url_prefix="/v1/permission")
    for path, view in {
        "/grant": routes.grant,
        "/delete": routes.delete,
        "/query": routes.query,
        "/grant/privilege": routes.grant_as_before,
        "/delete/privilege": routes.delete_as_before,
        "/query/privilege": routes.query_as_before,
    }.items():
        permission.add_url_rule(path, view_func=view, methods=["POST"])
    return permission


class _PermissionRoutes:
    def __init__(self, services: Services) -> None:
        self._permissions = services.use_cases.permissions
        self._context = services.context

    @declared(_GRANT, GRANT, needs=_PARTY, takes=_THINGS, either=_something(_THINGS))
    def grant(self) -> Response:
        body = arguments("party_id")
        things, unknown = self._read(body)
        self._permissions.grant(check_party_id(body["party_id"]), things, caller())
        return _done(unknown)

    @declared(_DELETE, GRANT, needs=_PARTY, takes=_THINGS, either=_something(_THINGS))
    def delete(self) -> Response:
        body = arguments("party_id")
        things, unknown = self._read(body)
        self._permissions.revoke(check_party_id(body["party_id"]), things, caller())
        return _done(unknown)

    @declared(_QUERY, READ, needs=_PARTY, data=an_object(_GRANTED))
    def query(self) -> Response:
        return ok(as_written(self._granted(check_party_id(arguments("party_id")["party_id"]))))

    @declared(_GRANT, GRANT, needs=_SOURCE, takes=_OLD_THINGS | _NOTHING_ELSE, either=_something(_OLD_THINGS))
    def grant_as_before(self) -> Response:
        party_id, body = _source()
        things, unknown = self._read(body, _OLD)
        self._permissions.grant(party_id, things, caller())
        return _done(unknown)

    @declared(_DELETE, GRANT, needs=_SOURCE, takes=_OLD_THINGS | _NOTHING_ELSE, either=_something(_OLD_THINGS))
    def delete_as_before(self) -> Response:
        party_id, body = _source()
        things, unknown = self._read(body, _OLD)
        self._permissions.revoke(party_id, things, caller())
        return _done(unknown)

    @declared(_QUERY, READ, needs=_SOURCE, takes=_NOTHING_ELSE, data=_GRANTED_AS_BEFORE)
    def query_as_before(self) -> Response:
        party_id, body = _source()
        found = as_written(self._granted(party_id))
        return ok({"src_party_id": party_id, "src_role": body["src_role"], "role": [], "command": [], **found})

    def _granted(self, party_id: str) -> frozenset[Thing]:
        return self._context.read(lambda tx: tx.granted(party_id))

    def _read(self, body: Body, prefix: str = "") -> tuple[list[Thing], list[str]]:
        return read_things(body, self._context.modules, prefix)


def _done(unknown: list[str]) -> Response:
    """Return a success with a warning for each component that is unknown here."""
    return ok({WARNINGS: unknown} if unknown else None)


def _source() -> tuple[str, Body]:
    """Return the party that the body names, and the body. Raise BadRequest."""
    body = arguments("src_party_id", "src_role")
    check_role(body["src_role"], "src_role")
    for key in _NOT_GRANTED:
        if body.get(key) is not None:
            raise BadRequest(
                f"{key}: {shown(body[key])} cannot be granted: the seat of a party in a job decides what it may do; "
                f"grant {_OLD}component or {_OLD}dataset"
            )
    return check_party_id(body["src_party_id"], "src_party_id"), body
