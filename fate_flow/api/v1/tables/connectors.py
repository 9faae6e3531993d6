"""`/v1/table/connector/...`, and the files that addresses refer to (client-api-v1, section 3.3).

A connector that a client creates is a name for a file or folder of this machine, below a folder that the operator has
opened. It has no password and refers to no other machine. Connectors of other servers are in the operator's
configuration: a client can make this server connect only to these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.arguments import CONNECTOR_NAME, read_table_piece, read_text
from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import COUNT, TEXT, Schema, an_object, declared, described, one_of, or_null
from fate_flow.api.http.paths import check_opened
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import arguments, ok
from fate_flow.core.access.client_roles import OPERATE, READ
from fate_flow.core.model.errors import BadRequest, Conflict
from fate_flow.core.model.grammar import shown, shown_key
from fate_flow.services.context.ports import Context
from fate_flow.store.values import Connector

FILES = ("PATH", "LOCALFS", "FILE")
"""FATE's names of engines whose address is the path of a file."""
SERVERS = "MYSQL"
"""The engine of the connectors in the operator's configuration."""
PATH: Schema = described({**TEXT, "minLength": 1}, "A path on the server, below a folder that its operator has opened.")
_BELOW = described(TEXT, "The path of a file; with a connector of a folder, a path in that folder.")
_NAMED: Schema = {"required": ["connector_name"], "properties": {"connector_name": TEXT}}
ADDRESS: Schema = {
    "type": "object",
    "properties": {"path": or_null(_BELOW), "connector_name": or_null(CONNECTOR_NAME)},
    "anyOf": [{"required": ["path"], "properties": {"path": PATH}}, _NAMED],
}
ENGINE: Schema = one_of(FILES)
_INFO: Schema = {
    "type": "object", "properties": {"path": PATH}, "required": ["path"],
    "description": "Only the path of a file or a folder; keys that name a password or another secret are refused.",
}
_SECRET = re.compile(r"pass|pwd|secret|token|credential|private|access_?key", re.IGNORECASE)


def blueprint(services: Services) -> Blueprint:
    routes = _ConnectorRoutes(services)
    connectors = Blueprint("connectors", __name__, url_prefix="/v1/table/connector")
    connectors.post("/create")(routes.create)
    connectors.post("/query")(routes.query)
    return connectors


class _ConnectorRoutes:
    def __init__(self, services: Services) -> None:
        self._tables = services.use_cases.tables
        self._context = services.context
        self._settings = services.settings

    @declared(
        "Name a file or folder of the server's machine; an existing connector of this name is replaced.", OPERATE,
        needs={"connector_name": CONNECTOR_NAME, "engine": ENGINE, "connector_info": _INFO},
    )
    def create(self) -> Response:
        body = arguments("connector_name", "engine", "connector_info")
        name, engine = read_table_piece(body, "connector_name"), read_engine(body, "engine")
        path = _path_of(body["connector_info"], engine)
        if name in self._settings.connectors:
            raise Conflict(f"connector_name: {shown(name)} is one of connectors in service_conf.yaml")
        check_opened(self._settings, path, "connector_info.path")
        self._tables.save_connector(Connector(name, engine, {"path": path}), caller())
        return ok()

    @declared(
        "Show what a connector refers to.", READ, needs={"connector_name": CONNECTOR_NAME},
        data={"anyOf": [
            an_object({"connector_name": TEXT, "engine": ENGINE, "path": TEXT}),
            an_object({"connector_name": TEXT, "engine": {"const": SERVERS}, "host": TEXT, "port": COUNT, "db": TEXT}),
        ]},
    )
    def query(self) -> Response:
        name = read_table_piece(arguments("connector_name"), "connector_name")
        if server := self._settings.connectors.get(name):
            place = {"host": server.host, "port": server.port, "db": server.db}
            return ok({"connector_name": name, "engine": SERVERS, **place})
        found = _connector(self._context, name, "connector_name")
        return ok({"connector_name": found.name, "engine": found.engine, **found.info})


def read_engine(body: Mapping[str, Any], key: str, default: str = "") -> str:
    """Return an engine whose address is a path. Raise BadRequest with the alternatives for any other engine."""
    engine = read_text(body, key, default).upper()
    if engine in FILES:
        return engine
    raise BadRequest(
        f"{key}: this server does not offer {shown(engine)} here; instead: {FILES[0]} with the path of a CSV file of "
        f"this server's machine, data/upload, data/download, or data/writer with {SERVERS} and one of connectors in "
        "service_conf.yaml"
    )


def file_of(context: Context, engine: str, address: object) -> str:
    """Return the path of an address as written. Raise BadRequest; Conflict if its connector is missing or wrong."""
    given = address if isinstance(address, dict) else {}
    path, name = given.get("path"), given.get("connector_name")
    if name is None:
        if not isinstance(path, str) or not path:
            raise BadRequest(f"address.path: {shown(path)} is not the path of a file of the server")
        return path
    found = _connector(context, read_table_piece(given, "connector_name"), "address.connector_name")
    if found.engine != engine:
        raise Conflict(f"address.connector_name: {shown(name)} is a connector of {found.engine}, not of {engine}")
    if path is None or path == "":
        return str(found.info["path"])
    if not isinstance(path, str) or PurePath(path).is_absolute() or ".." in PurePath(path).parts:
        raise BadRequest(f"address.path: {shown(path)} is not a path inside connector {shown(name)}")
    return str(PurePath(found.info["path"]) / path)


def _connector(context: Context, name: str, key: str) -> Connector:
    found = context.read(lambda tx: tx.connector(name))
    if found is None:
        raise Conflict(f"{key}: there is no connector {shown(name)}; flow table connector-create creates one")
    return found


def _path_of(info: object, engine: str) -> str:
    given = info if isinstance(info, dict) else {}
    for key in given:
        if _SECRET.search(key):
            raise BadRequest(
                f"connector_info.{shown_key(key)}: is not a key of {engine}, which has only path. Clients may not send "
                "passwords or other secrets: those of servers are in connectors of service_conf.yaml"
            )
    path = given.get("path")
    if not isinstance(path, str) or not path:
        raise BadRequest(f"connector_info.path: {shown(path)} is not the path of a file or folder of the server")
    return path
