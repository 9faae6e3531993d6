"""`/v1/permission/...`: what jobs of another party may use here (client-api-v1, section 3.6).

The paths with `/privilege` are those of FATE Flow before 1.9, which the SDK of 1.11.3 still asks: a party is named by
`src_party_id` there. What roles and commands a party has was granted there too; here that is read from the row of each
job, so such words are refused.
"""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.arguments import Body
from fate_flow.api.envelope import arguments, ok
from fate_flow.api.services import Services
from fate_flow.core.errors import BadRequest
from fate_flow.core.grammar import check_party_id, check_role, shown
from fate_flow.core.permission import Thing, as_written, read_things

_OLD = {"component": "privilege_component", "dataset": "privilege_dataset"}
_NOT_GRANTED = ("privilege_role", "privilege_command")


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
        self._desk = services.desk
        self._context = services.context

    def grant(self) -> Response:
        body = arguments("party_id")
        self._desk.grant(check_party_id(body["party_id"]), self._read(body))
        return ok()

    def delete(self) -> Response:
        body = arguments("party_id")
        self._desk.revoke(check_party_id(body["party_id"]), self._read(body))
        return ok()

    def query(self) -> Response:
        return ok(as_written(self._granted(check_party_id(arguments("party_id")["party_id"]))))

    def grant_as_before(self) -> Response:
        party_id, body = _source()
        self._desk.grant(party_id, self._read(body))
        return ok()

    def delete_as_before(self) -> Response:
        party_id, body = _source()
        self._desk.revoke(party_id, self._read(body))
        return ok()

    def query_as_before(self) -> Response:
        party_id, body = _source()
        found = as_written(self._granted(party_id))
        return ok({"src_party_id": party_id, "src_role": body["src_role"], "role": [], "command": [], **found})

    def _granted(self, party_id: str) -> frozenset[Thing]:
        return self._context.read(lambda tx: tx.granted(party_id))

    def _read(self, body: Body) -> list[Thing]:
        return read_things(body, self._context.modules)


def _source() -> tuple[str, Body]:
    """The party that is meant, and the body in the words of today. Raises BadRequest."""
    body = arguments("src_party_id", "src_role")
    check_role(body["src_role"])
    for key in _NOT_GRANTED:
        if body.get(key) is not None:
            raise BadRequest(
                f"{key}: {shown(body[key])} cannot be granted: what a party may ask about a job, says its seat in it; "
                "component and dataset can be"
            )
    return check_party_id(body["src_party_id"]), {**{new: body.get(old) for new, old in _OLD.items()}, **body}
