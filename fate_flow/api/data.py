"""`/v1/data/...` and `/v1/table/...`: tables in, out and away (client-api-v1, section 3.3).

An upload or a download is a job of the local party: the same document that a client could submit itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from flask import Blueprint, Response, request

from fate_flow.api.arguments import (
    Body,
    read_flag,
    read_job_id,
    read_table,
    read_table_piece,
    read_text,
    read_whole,
)
from fate_flow.api.envelope import arguments, ok, require, silent_json
from fate_flow.api.paths import readable_file, writable_file
from fate_flow.api.services import Services
from fate_flow.api.submission import submit, submit_data
from fate_flow.api.uploads import is_upload, received
from fate_flow.core.errors import BadRequest, Conflict
from fate_flow.core.grammar import shown
from fate_flow.store.contract import Document, TableMeta

_UPLOAD_NEEDS = ("namespace", "table_name", "file", "head", "partition")
_UPLOAD_MISSES = 100             # FATE answers this for a missing key here, and 101 elsewhere
_WITHOUT_EFFECT = (
    "storage_engine", "storage_address", "with_meta", "meta", "schema", "block_size", "eggroll_run", "spark_run",
    "in_serialized", "id_column", "feature_column", "options",
)  # fmt: skip
_MOST_PARTITIONS = 10_000
_FILES = ("PATH", "LOCALFS", "FILE")       # FATE's engines whose address is the path of a file


def blueprint(services: Services) -> Blueprint:
    routes = _DataRoutes(services)
    data = Blueprint("data", __name__, url_prefix="/v1")
    for path, view in {
        "/data/upload": routes.upload,
        "/data/download": routes.download,
        "/data/upload/history": routes.history,
        "/table/table_info": routes.table_info,
        "/table/delete": routes.delete_table,
        "/table/disable": routes.disable_table,
        "/table/enable": routes.enable_table,
        "/table/add": routes.bind_table,
        "/table/bind": routes.bind_table,
    }.items():
        data.add_url_rule(path, view_func=view, methods=["POST"])
    return data


class _DataRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._desk = services.desk
        self._views = services.views
        self._settings = services.settings

    # ------------------------------------------------------------------ upload and download

    def upload(self) -> Response:
        conf = _json_conf()
        if not is_upload():
            return self._upload_from_here(silent_json() or conf or request.args.to_dict())
        if conf is not None:
            self._upload_parameters(conf)        # before the file is taken: it may be large
        with received(self._settings.limits.upload_max_bytes) as (path, fields):
            # A failure has to leave this block as an exception: that is what removes the file.
            told = conf if conf is not None else {"file": path.name, **request.args.to_dict(), **fields}
            parameters = self._upload_parameters(told)
            return self._submit_upload(told, {**parameters, "file": str(path), "remove_source": True})

    def _upload_from_here(self, conf: Body) -> Response:
        """The file is on this machine already."""
        parameters = self._upload_parameters(conf)
        path = readable_file(self._settings, read_text(conf, "file"), "file")
        return self._submit_upload(conf, {**parameters, "file": str(path)})

    def _submit_upload(self, conf: Body, parameters: Mapping[str, Any]) -> Response:
        task_cores = {"task_cores": read_whole(conf, "task_cores", 0, 1)} if conf.get("task_cores") else {}
        submitted = submit(self._services, _local_job("upload_0", "Upload", parameters, task_cores))
        data = submit_data(self._services, submitted)
        data["warnings"] += [f"{key}: has no effect on this server" for key in _WITHOUT_EFFECT if conf.get(key)]
        if parameters["auto_increasing_sid"] and not parameters["extend_sid"]:
            data["warnings"].append("auto_increasing_sid: has no effect without extend_sid")
        table = {"table_name": parameters["name"], "namespace": parameters["namespace"]}
        return ok({**data, **table}, jobId=submitted.job_id)

    def _upload_parameters(self, conf: Body) -> dict[str, Any]:
        """All but the file. Raises BadRequest in the client's own keys, Conflict when the table is there already."""
        parameters = _upload_parameters(conf)
        namespace, name = parameters["namespace"], parameters["name"]
        if not parameters["destroy"] and self._views.table(namespace, name) is not None:
            raise Conflict(
                "The data table already exists. If you still want to continue uploading, please add the parameter "
                f"--drop (namespace {shown(namespace)}, table_name {shown(name)})"
            )
        return parameters

    def download(self) -> Response:
        """A local job writes the table to a file on this machine."""
        body = arguments("namespace", "table_name", "output_path")
        namespace, name = read_table(body)
        if self._views.table(namespace, name) is None:
            raise BadRequest(f"table_name: there is no table {shown(name)} in namespace {shown(namespace)}")
        path = writable_file(self._settings, read_text(body, "output_path"), "output_path")
        delimiter = {"delimiter": read_text(body, "delimiter")} if body.get("delimiter") else {}
        parameters = {"namespace": namespace, "name": name, "output_path": str(path), **delimiter}
        submitted = submit(self._services, _local_job("download_0", "Download", parameters, {}))
        table = {"table_name": name, "namespace": namespace}
        return ok({**submit_data(self._services, submitted), **table}, jobId=submitted.job_id)

    def history(self) -> Response:
        body = silent_json()
        job_id = read_job_id(body) if body.get("job_id") else ""
        rows = self._views.uploads(read_whole(body, "limit", 10, 1), job_id)
        return ok(
            [
                {row["job_id"]: {"upload_info": row["info"], "notes": row["notes"], "schema": row["schema"]}}
                for row in rows
            ]
        )

    # ------------------------------------------------------------------ tables

    def table_info(self) -> Response:
        namespace, name = read_table(arguments("namespace", "table_name"))
        return ok({"namespace": namespace, "table_name": name, **_info(self._views.table(namespace, name))})

    def delete_table(self) -> Response:
        namespace, name = read_table(arguments("namespace", "table_name"))
        self._desk.drop_table(namespace, name)
        return ok({"namespace": namespace, "table_name": name})

    def disable_table(self) -> Response:
        return self._allow_table(False)

    def enable_table(self) -> Response:
        return self._allow_table(True)

    def bind_table(self) -> Response:
        """A file of this machine becomes a table. It is copied, by a local job: `jobId` says which to wait for."""
        body = arguments("engine", "address", "namespace", "name")
        engine, address = read_text(body, "engine").upper(), body["address"]
        if engine not in _FILES or not isinstance(address, dict) or not address.get("path"):
            raise BadRequest(
                f"engine: this server does not offer tables of {shown(engine)} at {shown(address)}: write a CSV file "
                f"and name it as address.path with engine {_FILES[0]}, or upload it with data/upload"
            )
        defaults = {"head": True, "partition": body.get("partitions") or 1}
        return self._upload_from_here({**defaults, **body, "table_name": body["name"], "file": address["path"]})

    def _allow_table(self, is_allowed: bool) -> Response:
        namespace, name = read_table(arguments("namespace", "table_name"))
        self._desk.allow_table(namespace, name, is_allowed)
        return ok([{"namespace": namespace, "table_name": name}])


# ---------------------------------------------------------------------- what an upload is told


def _json_conf() -> dict[str, Any] | None:
    """The conf of an upload when the whole query string is one JSON object, as the genuine client sends it.

    That client leaves `&`, `=` and `+` in the JSON as they are, so the string must not be split first."""
    text = request.query_string.decode("latin-1")
    if not text.startswith(("{", "%7B", "%7b")):
        return None
    try:
        conf = json.loads(unquote(text))
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"query string: is not JSON: {error} (is there a '#' in a value?)") from error
    if not isinstance(conf, dict):
        raise BadRequest("query string: is not a JSON object")
    return conf


def _upload_parameters(conf: Body) -> dict[str, Any]:
    """The parameters of the component, but for its file."""
    try:
        require(conf, *_UPLOAD_NEEDS)
    except BadRequest as error:
        error.retcode = _UPLOAD_MISSES
        raise
    return {
        "namespace": read_table_piece(conf, "namespace"),
        "name": read_table_piece(conf, "table_name"),
        "head": read_flag(conf, "head"),
        "partition": read_whole(conf, "partition", 1, 1, _MOST_PARTITIONS),
        "id_delimiter": read_text(conf, "id_delimiter", ","),
        "destroy": read_flag(conf, "drop"),
        "extend_sid": read_flag(conf, "extend_sid"),
        "auto_increasing_sid": read_flag(conf, "auto_increasing_sid"),
    }


def _local_job(name: str, module: str, parameters: Mapping[str, Any], job_parameters: Mapping[str, Any]) -> Document:
    """The job of one local component (client-api-v1, section 4.6)."""
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "local", "party_id": 0},
        "role": {"local": [0]},
        "job_parameters": {"common": {"federated_mode": "SINGLE", **job_parameters}},
        "component_parameters": {"role": {"local": {"0": {name: dict(parameters)}}}},
    }
    return Document({"components": {name: {"module": module}}}, conf, {}, federated_mode="SINGLE")


# ---------------------------------------------------------------------- what is said of a table


def _info(table: TableMeta | None) -> dict[str, Any]:
    if table is None:
        return {"exist": 0, "count": 0}
    return {
        "exist": 1,
        "count": table.count,
        "partition": table.partitions,
        "schema": table.schema,
        "enable": not table.is_disabled,
        "origin": table.origin,
        "extend_sid": table.extend_sid,
        "address": {"uri": table.uri},
    }

