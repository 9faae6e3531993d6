"""`/v2/data/...`: upload and download tables (client-api-v2, section 5).

An upload makes a table. FATE's components get it as a data frame, made of it when their task starts, by the `meta` of
the upload. So the transformer of FATE Flow 2 is a copy of the table here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, request

from fate_flow.api.bodies.uploads import is_upload, received
from fate_flow.api.http.archive import GZIP, tar_response
from fate_flow.api.http.arguments import read_table_piece
from fate_flow.api.http.client_auth import check_fields_are_signed
from fate_flow.api.http.declared import FREE, TEXT, WHOLE, YES_NO, Arguments, declared
from fate_flow.api.http.paths import readable_file, writable_file
from fate_flow.api.http.services import Services
from fate_flow.api.v2.arguments import FORM, arguments, checked
from fate_flow.api.v2.errors import TableExists, TableNotFound, not_found
from fate_flow.api.v2.tables.form import members_of
from fate_flow.api.v2.tables.local_jobs import LocalJobs
from fate_flow.api.v2.tables.tables import TABLE, table_asked
from fate_flow.components.providers.builtin import DOWNLOAD, WRITER
from fate_flow.core.access.client_roles import SUBMIT
from fate_flow.core.model.errors import BadRequest, Conflict
from fate_flow.core.model.grammar import shown
from fate_flow.services.context.space import check_space_for_client
from fate_flow.store.values import TableMeta

_UPLOAD: Arguments = {"head": YES_NO, "partitions": WHOLE}
_OPTIONS: Arguments = {"extend_sid": YES_NO, **TABLE}
_OF_A_PARTY = ("role", "party_id")
"""Keys that the client may send with an upload, which is always the local party's."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")


def blueprint(services: Services) -> Blueprint:
    routes = _DataRoutes(services)
    data = Blueprint("v2_data", __name__, url_prefix="/v2/data")
    data.get("/download")(routes.download)
    for path, view in {
        "/component/upload": routes.upload,
        "/component/upload/file": routes.upload_file,
        "/component/download": routes.write,
        "/component/dataframe/transformer": routes.transform,
    }.items():
        data.add_url_rule(path, view_func=view, methods=["POST"])
    return data


class _DataRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._settings = services.settings
        self._views = services.views
        self._local_jobs = LocalJobs(services)

    @declared(
        "Start a local job that makes a table of a CSV file on the server's machine.", SUBMIT,
        needs={"file": TEXT, **_UPLOAD, "meta": FREE}, takes=_OPTIONS, idle=_OF_A_PARTY, data=FREE,
    )
    def upload(self) -> Response:
        check_space_for_client(self._services.context)
        sent = arguments()
        path = readable_file(self._settings, sent["file"], "file")
        return self._local_jobs.upload(sent, path, sent)

    @declared(
        "Start a local job that makes a table of the CSV file in this form.", SUBMIT,
        needs={**_UPLOAD, "meta": TEXT}, takes=_OPTIONS, form={"file": {"type": "string", "format": "binary"}},
        idle=_OF_A_PARTY, data=FREE,
    )
    def upload_file(self) -> Response:
        check_space_for_client(self._services.context, incoming=request.content_length or 0)
        if not is_upload():
            checked({}, FORM)            # names the first field that is missing
        with received(self._settings.limits.upload_max_bytes) as (path, fields):
            check_fields_are_signed(fields)
            sent = checked(fields, FORM)
            conf = {**sent, "meta": _meta(sent["meta"])}
            return self._local_jobs.upload(sent, path, conf, remove_source=True)

    @declared(
        "Start a local job that writes a table to a CSV file on the server's machine.", SUBMIT,
        needs=TABLE | {"path": TEXT}, data=FREE,
    )
    def write(self) -> Response:
        table, sent = self._readable(), arguments()
        path = str(writable_file(self._settings, sent["path"], "path"))
        shown_path = {**_named(table), "path": sent["path"]}
        return self._local_jobs.start(DOWNLOAD, shown_path, {**_named(table), "output_path": path})

    @declared(
        "Start a local job that copies a table, which keeps what its columns are in a data frame.", SUBMIT,
        needs={"data_warehouse": FREE, **TABLE}, takes={"drop": YES_NO}, idle=("site_name",), data=FREE,
    )
    def transform(self) -> Response:
        sent = arguments()
        target = {"namespace": read_table_piece(sent, "namespace"), "name": read_table_piece(sent, "name")}
        source = self._warehouse(sent["data_warehouse"])
        if not sent.get("drop", True) and self._views.table(target["namespace"], target["name"]) is not None:
            raise TableExists(f"The table exists already: {_text(target)}; with drop it is replaced")
        if source == target:
            raise BadRequest("data_warehouse: is the table itself; name another one")
        output = {f"output_{key}": value for key, value in target.items()}
        return self._local_jobs.start(WRITER, target, {**source, **output, "destroy": True})

    @declared("Download a table, as a CSV file in a tar.", SUBMIT, needs=TABLE, idle=("header",), file=GZIP)
    def download(self) -> Response:
        """Send the rows below a header, whatever `header` says, as FATE Flow 2 does."""
        table = self._readable()
        name = _NOT_IN_NAMES.sub("_", f"download_data_{table.namespace}_{table.name}.tar.gz")
        return tar_response(name, list(members_of(table, "data", 0)))

    def _readable(self) -> TableMeta:
        """Return the table of the request. Raise TableNotFound; Conflict for a disabled one."""
        table = table_asked(self._views)
        if table.is_disabled:
            raise Conflict(f"{_text(_named(table))} is disabled; flow table enable (of this server's flow) enables it")
        return table

    def _warehouse(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Return the namespace and the name of a source. Raise BadRequest; TableNotFound."""
        if unknown := given.keys() - {"namespace", "name"}:
            raise BadRequest(f"data_warehouse: {shown(min(unknown))} is not namespace or name of a table")
        source = {key: read_table_piece(given, key) for key in ("namespace", "name")}
        if self._views.table(**source) is None:
            raise not_found(TableNotFound, name=source["name"], namespace=source["namespace"])
        return source


def _meta(text: str) -> Mapping[str, Any]:
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"meta: {shown(text)} is not JSON") from error
    if not isinstance(meta, dict):
        raise BadRequest(f"meta: {shown(text)} is not a JSON object")
    return meta


def _named(table: TableMeta) -> dict[str, str]:
    return {"namespace": table.namespace, "name": table.name}


def _text(table: Mapping[str, str]) -> str:
    return f"table {shown(table['name'])} in namespace {shown(table['namespace'])}"
