"""`/v1/data/...` and `/v1/table/...`: upload, download, write and delete tables (client-api-v1, section 3.3).

An upload or a download is a job of the local party, with a document that a client could also submit itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from flask import Blueprint, Response, request

from fate_flow.api.bodies.uploads import is_upload, received
from fate_flow.api.http.arguments import (
    FLAG,
    JOB,
    TABLE,
    Body,
    read_flag,
    read_job_id,
    read_table,
    read_table_piece,
    read_text,
    read_whole,
    whole,
)
from fate_flow.api.http.caller import caller
from fate_flow.api.http.client_auth import check_fields_are_signed
from fate_flow.api.http.declared import (
    ANYTHING,
    FREE,
    NOTHING,
    TEXT,
    Arguments,
    Schema,
    a_list,
    an_object,
    declared,
    described,
    one_of,
)
from fate_flow.api.http.paths import check_server, readable_file, writable_file
from fate_flow.api.http.services import Services
from fate_flow.api.http.shapes import SUBMITTED_WITH_TABLE, TABLE_INFO, UPLOADS
from fate_flow.api.v1.envelope import UploadMisses, arguments, note_sent, ok, require, silent_json
from fate_flow.api.v1.jobs.submission import Submitted, hand_over, parse_job, submit_data
from fate_flow.api.v1.rendering.jobs_beside import JOBS_BESIDE, jobs_beside
from fate_flow.api.v1.tables.connectors import ADDRESS, ENGINE, FILES, PATH, SERVERS, file_of, read_engine
from fate_flow.api.v1.tables.local_job import local_job
from fate_flow.components.providers.builtin import DOWNLOAD, FETCH, MYSQL_NAME, MYSQL_TABLE, UPLOAD, WRITER
from fate_flow.components.tables import frame_meta
from fate_flow.core.access.client_roles import GRANT, OPERATE, READ, SUBMIT
from fate_flow.core.model.errors import BadRequest, Conflict, NotFound
from fate_flow.core.model.grammar import DUPLICATE_IDS, shown
from fate_flow.services.context.space import check_space_for_client
from fate_flow.store.values import Document, TableMeta
from fate_flow.store.views.lists import MOST_ROWS

_UPLOAD_NEEDS = ("namespace", "table_name", "file", "head", "partition")
_WITHOUT_EFFECT = (
    "storage_engine", "storage_address", "with_meta", "schema", "block_size", "eggroll_run", "spark_run",
    "in_serialized", "options",
)  # fmt: skip
_MOST_PARTITIONS = 10_000

_NO_OF_1_6 = (2, "2")            # the value of `drop` that fate_client 1.6 sends without --drop
_HEAD = {"head": described(FLAG, "Whether the first line names the columns.")}
_PARTITION = {"partition": whole("Partitions.", 1, _MOST_PARTITIONS)}
_OPTIONS: Arguments = {
    "id_delimiter": described(TEXT, "The separator of columns; a comma by default."),
    "drop": {
        "enum": [*FLAG["enum"], *_NO_OF_1_6],
        "description": "Replace an existing table of this name; 2 means no, as fate_client 1.6 sends it.",
    },
    "extend_sid": described(FLAG, "The server adds ids."),
    "auto_increasing_sid": described(FLAG, "The added ids are consecutive numbers."),
    "duplicate_ids": one_of(
        DUPLICATE_IDS, description="If several rows have the same id, keep the last one or refuse the file; "
        "fateflow.duplicate_ids of the server's configuration is the default."
    ),
    "id_column": described(TEXT, "The column of the ids; the first by default. Not with extend_sid, which adds ids."),
    "feature_column": described(TEXT, "The other columns in their order, separated by commas; all by default."),
    "meta": {**FREE, "description": "What the columns are in a data frame of FATE 2; with with_meta it is FATE 1's."},
    "task_cores": whole("Cores of the job.", 1),
    **dict.fromkeys(_WITHOUT_EFFECT, described(ANYTHING, "No effect here; data.warnings says so.")),
}
_FILE: Arguments = {"file": {"type": "string", "format": "binary"}}
_TABLE_ONLY = an_object({"namespace": TEXT, "table_name": TEXT})
_COLUMNS = ("id_column", "feature_column")
_OF_FILES = ("head", "id_delimiter", "extend_sid", "auto_increasing_sid", "meta", *sorted(_WITHOUT_EFFECT))
_OF_SERVER: Arguments = {"connector_name": TEXT, "name": {"type": "string", "pattern": f"^{MYSQL_NAME}$"}}
_SERVER_ADDRESS: Schema = {"type": "object", "properties": _OF_SERVER, "required": list(_OF_SERVER)}
_ADDRESS: Schema = {"type": "object", "description": (
    f"The path of a file; for {SERVERS}, one of connectors in service_conf.yaml (connector_name) and a table (name)."
)}
_NAMES: Schema = {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": TEXT}, {"type": "null"}]}
_TYPES = [*frame_meta.TYPES, None]
_OF_FRAMES: Schema = {
    "type": "object", "additionalProperties": False,
    "properties": {
        **dict.fromkeys(frame_meta.KEYS, ANYTHING),
        **{key: {"type": ["string", "null"], "minLength": 1} for key in frame_meta.COLUMNS},
        **{key: {"enum": _TYPES} for key in frame_meta.OF_TYPES},
        "dtype": {"anyOf": [{"enum": _TYPES}, {"type": "object", "additionalProperties": {"enum": _TYPES[:-1]}}]},
        **dict.fromkeys(frame_meta.LISTS, _NAMES),
        "input_format": {"enum": ["dense", None]}, "tag_with_value": {"enum": [False, None]},
    },
}  # fmt: skip
_OF_FATE_1: Mapping[str, Schema] = {
    "with_meta": {"not": {"enum": [False, None, 0, "", [], {}]}},
    "meta": {"type": "object", "additionalProperties": ANYTHING},
}
_UPLOADED: tuple[Schema, ...] = (
    {"properties": {"meta": _OF_FRAMES}}, {"properties": _OF_FATE_1, "required": ["with_meta"]},
)  # fmt: skip
_BOUND_TO: tuple[Schema, ...] = (
    *({**one, "properties": {"engine": ENGINE, "address": ADDRESS, **one["properties"]}} for one in _UPLOADED),
    {"properties": {"engine": {"const": SERVERS}, "address": _SERVER_ADDRESS}},
)
_BOUND: Arguments = {
    "engine": one_of((*FILES, SERVERS)),
    "address": _ADDRESS,
    "namespace": TABLE["namespace"],
    "name": TABLE["table_name"],
}
_TO_FILE: Schema = {
    "required": ["address"], "properties": {"address": ADDRESS, "storage_engine": {"not": {"const": SERVERS}}},
}  # fmt: skip
_TO_SERVER: Schema = {
    "required": ["address", "storage_engine"],
    "properties": {
        "storage_engine": {"const": SERVERS},
        "address": _SERVER_ADDRESS,
    },
}
_TO_TABLE: tuple[Schema, ...] = tuple(
    {"required": [key], "properties": {key: TEXT, "storage_engine": NOTHING}}
    for key in ("output_namespace", "output_name")
)
_WHERE_TO = (_TO_FILE, _TO_SERVER, *_TO_TABLE)
_WRITTEN: Arguments = {
    "storage_engine": one_of((*FILES, SERVERS), description=f"The engine of the address; {FILES[0]} by default."),
    "address": _ADDRESS,
    "delimiter": described(TEXT, "The separator of columns in the file; a comma by default."),
    "output_namespace": described(TABLE["namespace"], "The namespace of the new table; by default the same."),
    "output_name": described(TABLE["table_name"], "The name of the new table; by default the same."),
    "drop": described(FLAG, "Replace an existing table or file."),
}


def blueprint(services: Services) -> Blueprint:
    routes = _DataRoutes(services)
    data = Blueprint("data", __name__, url_prefix="/v1")
    for path, view in {
        "/data/upload": routes.upload,
        "/data/download": routes.download,
        "/data/writer": routes.write,
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
        self._tables = services.use_cases.tables
        self._views = services.views
        self._settings = services.settings

    # ------------------------------------------------------------------ upload and download

    @declared(
        "Start a local job that makes a table of a CSV file: the `file` of a form, or a file on the server's machine. "
        "With a form, its fields or the query string have the other keys; the query string may be one JSON object.",
        SUBMIT,
        needs=TABLE | {"file": PATH} | _HEAD | _PARTITION, takes=_OPTIONS, form=_FILE, either=_UPLOADED,
        idle=("verbose", "use_local_data"),
        data=SUBMITTED_WITH_TABLE, aside={"jobId": TEXT},
    )
    def upload(self) -> Response:
        check_space_for_client(self._services.context, incoming=request.content_length or 0)
        conf = json_conf()
        if not is_upload():
            said = silent_json() or conf or request.args.to_dict()
            note_sent(said)
            return self._upload_from_here(said)
        if conf is not None:
            self._upload_parameters(conf)        # checked before the file is read, which may be large
        with received(self._settings.limits.upload_max_bytes) as (path, fields):
            check_fields_are_signed(fields)
            # A failure must leave this block as an exception, which removes the file.
            given = conf if conf is not None else {"file": path.name, **request.args.to_dict(), **fields}
            note_sent(given)
            parameters = self._upload_parameters(given)
            return self._submit_upload(given, {**parameters, "file": str(path), "remove_source": True})

    def _hand_over(self, document: Document) -> Submitted:
        return hand_over(self._services, parse_job(document, self._services.context))

    def _upload_from_here(self, conf: Body, *, is_bound: bool = False) -> Response:
        """Submit the upload of a file on this machine. `is_bound`: the table counts as bound to the file."""
        parameters = self._upload_parameters(conf)
        path = readable_file(self._settings, read_text(conf, "file"), "file")
        bound = {"is_bound": True} if is_bound else {}
        return self._submit_upload(conf, {**parameters, "file": str(path), **bound})

    def _submit_upload(self, conf: Body, parameters: Mapping[str, Any]) -> Response:
        submitted = self._hand_over(local_job(UPLOAD, parameters, _task_cores(conf)))
        data = submit_data(self._services, submitted)
        ignored = (*_WITHOUT_EFFECT, *(["meta"] if conf.get("with_meta") else []))
        data["warnings"] += [f"{key}: has no effect on this server" for key in ignored if conf.get(key)]
        if parameters["auto_increasing_sid"] and not parameters["extend_sid"]:
            data["warnings"].append("auto_increasing_sid: has no effect without extend_sid")
        table = {"table_name": parameters["name"], "namespace": parameters["namespace"]}
        return ok({**data, **table}, jobId=submitted.job_id)

    def _upload_parameters(self, conf: Body) -> dict[str, Any]:
        """Return all parameters but the file. Raise BadRequest with the client's keys, Conflict if the table exists."""
        parameters = _upload_parameters(conf, self._settings.duplicate_ids)
        namespace, name = parameters["namespace"], parameters["name"]
        if not parameters["destroy"] and self._views.table(namespace, name) is not None:
            raise Conflict(
                "The data table already exists. If you still want to continue uploading, please add the parameter "
                f"--drop (namespace {shown(namespace)}, table_name {shown(name)})"
            )
        return parameters

    @declared(
        "Start a local job that writes a table to a CSV file on the server's machine.", SUBMIT,
        needs=TABLE | {"output_path": PATH},
        takes={"delimiter": described(TEXT, "The separator of columns; a comma by default.")},
        data=SUBMITTED_WITH_TABLE, aside={"jobId": TEXT},
    )
    def download(self) -> Response:
        """Submit a local job that writes the table to a file on this machine."""
        body = arguments("namespace", "table_name", "output_path")
        namespace, name = read_table(body)
        self._check_readable(namespace, name)
        path = writable_file(self._settings, read_text(body, "output_path"), "output_path")
        delimiter = {"delimiter": text} if (text := read_text(body, "delimiter")) else {}
        parameters = {"namespace": namespace, "name": name, "output_path": str(path), **delimiter}
        submitted = self._hand_over(local_job(DOWNLOAD, parameters))
        table = {"table_name": name, "namespace": namespace}
        return ok({**submit_data(self._services, submitted), **table}, jobId=submitted.job_id)

    @declared(
        "Start a local job that writes a table to another table, a CSV file of the server, or another server.", SUBMIT,
        needs=TABLE, takes=_WRITTEN, either=_WHERE_TO, data=SUBMITTED_WITH_TABLE, aside={"jobId": TEXT},
    )
    def write(self) -> Response:
        """Submit a local job that writes the table elsewhere."""
        body = arguments("namespace", "table_name")
        namespace, name = read_table(body)
        source = {"namespace": namespace, "name": name}
        self._check_readable(namespace, name)
        parameters = {**source, **self._written_outside(body), **self._table_to_write(body, source)}
        if parameters == source:
            raise BadRequest("address: is missing, and so is output_name: name a file or a table to write to")
        submitted = self._hand_over(local_job(WRITER, parameters))
        table = {"table_name": name, "namespace": namespace}
        return ok({**submit_data(self._services, submitted), **table}, jobId=submitted.job_id)

    def _check_readable(self, namespace: str, name: str) -> None:
        """Raise NotFound for a missing table, Conflict for a disabled one."""
        table, text = self._views.table(namespace, name), f"{shown(name)} in namespace {shown(namespace)}"
        if table is None:
            raise NotFound(f"table_name: there is no table {text}")
        if table.is_disabled:
            raise Conflict(f"table_name: table {text} is disabled; flow table enable lets jobs read it again")

    def _written_outside(self, body: Body) -> dict[str, Any]:
        """Return the parameters for a file, or for a table of a configured server."""
        if body.get("storage_engine") is None and body.get("address") is None:
            return {}
        if read_text(body, "storage_engine").upper() == SERVERS:
            name, target = self._named_by_operator(body.get("address"))
            return {"connector": name, "target": target, "destroy": read_flag(body, "drop")}
        engine = read_engine(body, "storage_engine", FILES[0])
        named = file_of(self._services.context, engine, body.get("address"))
        path, destroy = writable_file(self._settings, named, "address.path"), read_flag(body, "drop")
        if path.exists() and not destroy:
            raise Conflict(f'address.path: {shown(named)} exists already; "drop": 1 in the conf replaces it')
        delimiter = {"delimiter": text} if (text := read_text(body, "delimiter")) else {}
        return {"output_path": str(path), "destroy": destroy, **delimiter}

    def _named_by_operator(self, address: object) -> tuple[str, str]:
        """Return the connector and the table. Raise BadRequest; NotFound if the configuration lacks the connector."""
        given = address if isinstance(address, dict) else {}
        name, target = given.get("connector_name"), given.get("name")
        if not isinstance(name, str):
            raise BadRequest(
                f"address.connector_name: {shown(name)} is not the name of one of connectors in service_conf.yaml: "
                "this server does not connect to addresses that a client sends"
            )
        if not isinstance(target, str) or not re.fullmatch(MYSQL_NAME, target):
            raise BadRequest(f"address.name: {shown(target)} is not {MYSQL_TABLE}")
        try:
            check_server(self._settings, name, "address.connector_name")
        except BadRequest as error:
            raise NotFound(error.message) from error
        return name, target

    def _table_to_write(self, body: Body, source: Mapping[str, str]) -> dict[str, Any]:
        """Return the parameters for a new table; a missing name or namespace is that of the source. {} for none."""
        keys = {"namespace": "output_namespace", "name": "output_name"}
        if all(body.get(key) is None for key in keys.values()):
            return {}
        asked = {one: read_table_piece(body, key) for one, key in keys.items() if body.get(key) is not None}
        target = {**source, **asked}
        text = f"(output_namespace {shown(target['namespace'])}, output_name {shown(target['name'])})"
        if target == source:
            raise Conflict(f"output_name: is the source table itself {text}")
        destroy = read_flag(body, "drop")
        if not destroy and self._views.table(target["namespace"], target["name"]) is not None:
            raise Conflict(f'output_name: The data table already exists; "drop": 1 in the conf replaces it {text}')
        return {**{key: target[one] for one, key in keys.items()}, "destroy": destroy}

    @declared(
        "List the newest uploads.", READ,
        takes=JOB | {"limit": whole(f"How many; {MOST_ROWS} at most.", 1, default=10)},
        data=UPLOADS, aside=JOBS_BESIDE,
    )
    def history(self) -> Response:
        body = silent_json()
        job_id = read_job_id(body) if body.get("job_id") is not None else ""
        rows = self._views.uploads(read_whole(body, "limit", 10, 1), job_id)
        found = [
            {row["job_id"]: {"upload_info": row["info"], "notes": row["notes"], "schema": row["schema"]}}
            for row in rows
        ]
        return ok(found, **jobs_beside(self._views, (row["job_id"] for row in rows)))

    # ------------------------------------------------------------------ tables

    @declared("Show whether a table exists, its columns and its number of rows.", READ, needs=TABLE, data=TABLE_INFO)
    def table_info(self) -> Response:
        namespace, name = read_table(arguments("namespace", "table_name"))
        return ok({"namespace": namespace, "table_name": name, **_info(self._views.table(namespace, name))})

    @declared(
        "Delete a table.", SUBMIT | OPERATE,
        needs=TABLE, data=_TABLE_ONLY, idle=("job_id", "role", "party_id", "component_name"),
    )
    def delete_table(self) -> Response:
        namespace, name = read_table(arguments("namespace", "table_name"))
        self._tables.drop_table(namespace, name, caller())
        return ok({"namespace": namespace, "table_name": name})

    @declared("Forbid jobs to read a table.", OPERATE | GRANT, needs=TABLE, data=a_list(_TABLE_ONLY))
    def disable_table(self) -> Response:
        return self._allow_table(False)

    @declared("Allow jobs to read a table again.", OPERATE | GRANT, needs=TABLE, data=a_list(_TABLE_ONLY))
    def enable_table(self) -> Response:
        return self._allow_table(True)

    @declared(
        "Start a local job that makes a table of a CSV file on the server's machine, or of a table of another server.",
        SUBMIT, needs=_BOUND, either=_BOUND_TO,
        takes=_HEAD | _PARTITION | _OPTIONS | {"partitions": _PARTITION["partition"]},
        data=SUBMITTED_WITH_TABLE, aside={"jobId": TEXT},
    )
    def bind_table(self) -> Response:
        """Submit a local job that copies a file of this machine into a table; the answer has its `jobId`."""
        body = arguments("engine", "address", "namespace", "name")
        defaults = {"head": True, "partition": read_whole(body, "partitions", 1, 1, _MOST_PARTITIONS)}
        said = {key: value for key, value in body.items() if value is not None}
        conf = {**defaults, **said, "table_name": body["name"]}
        if read_text(body, "engine").upper() == SERVERS:
            return self._bind_table_of_server(conf, body)
        path = file_of(self._services.context, read_engine(body, "engine"), body["address"])
        return self._upload_from_here({**conf, "file": path}, is_bound=True)

    def _bind_table_of_server(self, conf: Body, body: Body) -> Response:
        """Submit a local job that copies a table of a configured server."""
        name, source = self._named_by_operator(conf["address"])
        parameters = self._upload_parameters({**conf, "file": source})
        of_both = ("namespace", "name", "partition", "destroy", *_COLUMNS)
        kept = {key: parameters[key] for key in of_both if key in parameters}
        if conf.get("duplicate_ids") is not None:       # the server's default is for files, whose rows have an order
            kept["duplicate_ids"] = parameters["duplicate_ids"]
        given = {"connector": name, "source": source, **kept}
        submitted = self._hand_over(local_job(FETCH, given, _task_cores(conf)))
        data = submit_data(self._services, submitted)
        data["warnings"] += [f"{key}: has no effect with {SERVERS}" for key in _OF_FILES if body.get(key)]
        return ok({**data, "table_name": kept["name"], "namespace": kept["namespace"]}, jobId=submitted.job_id)

    def _allow_table(self, is_allowed: bool) -> Response:
        namespace, name = read_table(arguments("namespace", "table_name"))
        self._tables.allow_table(namespace, name, is_allowed, caller())
        return ok([{"namespace": namespace, "table_name": name}])


# ---------------------------------------------------------------------- parameters of an upload


def json_conf() -> dict[str, Any] | None:
    """Return the conf of an upload if the whole query string is one JSON object, as the genuine client sends it.

    That client does not escape `&`, `=` and `+` in the JSON, so the string must not be split first. It does not escape
    a `%` either: if one is not part of an escape, its library takes the whole string for text and escapes every `%`,
    also those of escapes."""
    text = request.query_string.decode("latin-1")
    if text.startswith(("%257B", "%257b")):
        text = unquote(text)
    if not text.startswith(("{", "%7B", "%7b")):
        return None
    try:
        conf = json.loads(unquote(text, errors="strict"))
    except (ValueError, RecursionError) as error:
        hint = "is there a '#' in a value, or a '%' before two digits or letters from A to F?"
        raise BadRequest(f"query string: is not JSON: {error} ({hint})") from error
    if not isinstance(conf, dict):
        raise BadRequest("query string: is not a JSON object")
    return conf


def _upload_parameters(conf: Body, duplicate_ids: str) -> dict[str, Any]:
    """Return the parameters of the component without its file; `duplicate_ids` is the default of that key."""
    try:
        require(conf, *_UPLOAD_NEEDS)
    except BadRequest as error:
        raise UploadMisses(error.message) from error
    return {
        "namespace": read_table_piece(conf, "namespace"),
        "name": read_table_piece(conf, "table_name"),
        "head": read_flag(conf, "head"),
        "partition": read_whole(conf, "partition", 1, 1, _MOST_PARTITIONS),
        "id_delimiter": read_text(conf, "id_delimiter", ","),
        "destroy": conf.get("drop") not in _NO_OF_1_6 and read_flag(conf, "drop"),
        "extend_sid": read_flag(conf, "extend_sid"),
        "auto_increasing_sid": read_flag(conf, "auto_increasing_sid"),
        "duplicate_ids": _read_duplicate_ids(conf, duplicate_ids),
        **{key: text for key in _COLUMNS if (text := read_text(conf, key))},
        **({"meta": meta} if (meta := _read_meta(conf)) else {}),
    }


def _read_meta(conf: Body) -> Mapping[str, Any]:
    """Return what the columns are in a data frame, in FATE 2's words. With `with_meta` the words are FATE 1's, which
    have no effect here."""
    given = conf.get("meta")
    if not given or conf.get("with_meta"):
        return {}
    if isinstance(given, str):           # a field of a form
        try:
            given = json.loads(given)
        except ValueError as error:
            raise BadRequest(f"meta: {shown(given)} is not JSON") from error
    if not isinstance(given, Mapping):
        raise BadRequest(f"meta: {shown(given)} is not an object, such as {{\"label_name\": \"y\"}}")
    for problem in frame_meta.problems_of(given):
        raise BadRequest(f"meta.{problem}")
    return given


def _read_duplicate_ids(conf: Body, default: str) -> str:
    text = read_text(conf, "duplicate_ids", default)
    if text not in DUPLICATE_IDS:
        raise BadRequest(f"duplicate_ids: {shown(text)} is not one of {', '.join(DUPLICATE_IDS)}")
    return text


def _task_cores(conf: Body) -> dict[str, Any]:
    return {"task_cores": read_whole(conf, "task_cores", 0, 1)} if conf.get("task_cores") is not None else {}


# ---------------------------------------------------------------------- information about a table


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
        "replaced_rows": table.replaced,
    }

