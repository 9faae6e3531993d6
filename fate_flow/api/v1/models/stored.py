"""`/v1/model/...`: the models in the store of this party."""

from __future__ import annotations

import tempfile
from typing import Any

from flask import Blueprint, Response, request, send_file

from fate_flow.api.bodies.uploads import is_upload, received
from fate_flow.api.http.arguments import FLAG, Body, read_flag, read_whole, whole
from fate_flow.api.http.caller import caller
from fate_flow.api.http.client_auth import check_fields_are_signed
from fate_flow.api.http.declared import COUNT, TEXT, Arguments, a_list, an_object, declared, described
from fate_flow.api.http.file_routes import file_follows
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import arguments, note_sent, ok
from fate_flow.api.v1.models.arguments import (
    CONTENT,
    MODEL,
    ONE_SEAT_OR_ALL,
    PARTS,
    ROW,
    VERSION,
    filtered,
    part_as_json,
    read_name,
    read_parts,
    rows_of_fate,
    version_as_json,
)
from fate_flow.api.v1.rendering.jobs_beside import JOBS_BESIDE, jobs_beside
from fate_flow.api.v1.tables.data import json_conf
from fate_flow.core.access.client_roles import OPERATE, READ, SUBMIT
from fate_flow.core.model.errors import BadRequest, Conflict
from fate_flow.services.context.space import check_space_for_client
from fate_flow.services.use_cases.models import MOST_LISTED, ModelParts
from fate_flow.store.values import StoredModel

_MOST_SHOWN = 4 * 1024 * 1024
_ZIP = "application/zip"
_FILE: Arguments = {"file": {"type": "string", "format": "binary"}}
_WITHOUT_EFFECT = ("output_path", "path")


def blueprint(services: Services) -> Blueprint:
    routes = _Routes(services)
    models = Blueprint("models", __name__, url_prefix="/v1/model")
    models.post("/list")(routes.listed)
    models.post("/show")(routes.show)
    models.post("/query")(routes.query)
    models.post("/delete")(routes.delete)
    models.post("/import")(routes.take)
    models.get("/export")(routes.export)
    return models


class _Routes:
    def __init__(self, services: Services) -> None:
        self._models, self._views = services.use_cases.models, services.views
        self._settings = services.settings
        self._context = services.context

    @declared(
        "List the models in the store of this party, the newest first.", READ,
        takes={"model_id": MODEL["model_id"], "limit": whole("The most models.", 1, MOST_LISTED, MOST_LISTED)},
        data=a_list(VERSION), aside=JOBS_BESIDE,
    )
    def listed(self) -> Response:
        body = arguments()
        limit = read_whole(body, "limit", MOST_LISTED, 1, MOST_LISTED)
        found = [version_as_json(one) for one in self._models.listed(read_name(body, "model_id"), limit)]
        return ok(found, **jobs_beside(self._views, (one["job_id"] for one in found)))

    @declared(
        "Show the parts of a model here, with their metadata, and with the content of those that are one file of JSON.",
        SUBMIT | OPERATE, takes=MODEL | PARTS, either=ONE_SEAT_OR_ALL,
        data=an_object({**VERSION["properties"], "models": CONTENT}), aside=JOBS_BESIDE,
    )
    def show(self) -> Response:
        found = self._models.found(_named(arguments()))
        data = {**version_as_json(found), "models": [self._shown(one) for one in found.models]}
        return ok(data, **jobs_beside(self._views, [data["job_id"]]))

    def _shown(self, model: StoredModel) -> dict[str, Any]:
        content = self._models.value(model, _MOST_SHOWN)
        return {**part_as_json(model), "metadata": dict(model.metadata), "content": content}

    @declared(
        "Show a model as FATE's clients know it: its parts at the seats of this party.", READ, takes={
            **MODEL, **PARTS, "query_filters": described(a_list(TEXT), "The columns to return, with or without f_."),
        }, either=ONE_SEAT_OR_ALL, data=a_list(ROW),
    )  # fmt: skip
    def query(self) -> Response:
        body = arguments()
        rows = rows_of_fate(self._models.found(_named(body)))
        return ok([filtered(row, body.get("query_filters")) for row in rows])

    @declared(
        "Delete parts of a model from the store of this party.", OPERATE, takes=MODEL | PARTS, either=ONE_SEAT_OR_ALL,
        data=an_object({"count": COUNT, "models": a_list(TEXT)}),
    )
    def delete(self) -> Response:
        gone = self._models.delete(_named(arguments()), caller())
        return ok({"count": len(gone), "models": [f"{one.reference} at {one.party}" for one in gone]})

    @file_follows
    @declared(
        "Export parts of a model into a zip.", SUBMIT | OPERATE, takes=MODEL | PARTS,
        either=ONE_SEAT_OR_ALL, idle=_WITHOUT_EFFECT, file=_ZIP,
    )
    def export(self) -> Response:
        parts = _named(arguments())
        file = tempfile.TemporaryFile(dir=self._settings.uploads_dir)  # noqa: SIM115  # the answer closes it
        try:
            found = self._models.export(parts, file, caller())
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return send_file(file, _ZIP, as_attachment=True, download_name=_name_of(found.models))

    @declared(
        "Import models of this party that flow model export has written. None is overwritten.", OPERATE,
        takes={
            **MODEL, **PARTS,
            "force_update": described(FLAG, "FATE's; a model that is there already is refused nevertheless."),
        },
        form=_FILE, idle=_WITHOUT_EFFECT, data=an_object({
            "job_id": TEXT, "role": TEXT, "party_id": TEXT, "model_id": TEXT, "model_version": TEXT, "count": COUNT,
        }),
    )  # fmt: skip
    def take(self) -> Response:
        if not is_upload():
            raise BadRequest("file: is missing; send a form with the file that flow model export has written")
        check_space_for_client(self._context, incoming=request.content_length or 0)
        conf = json_conf()
        with received(self._settings.limits.upload_max_bytes) as (path, fields):
            try:
                check_fields_are_signed(fields)
                said = conf if conf is not None else {**request.args.to_dict(), **fields}
                note_sent(said)
                body = {key: value for key, value in said.items() if key != "file"}
                force = read_flag(body, "force_update")
                taken = self._take(path, read_parts(body), force)
            finally:
                path.unlink(missing_ok=True)
        one = taken[0]
        return ok({
            "job_id": one.job_id, "role": one.party.role, "party_id": one.party.party_id,
            "model_id": one.reference.model_id, "model_version": str(one.reference.version), "count": len(taken),
        })

    def _take(self, path: Any, parts: ModelParts, force: bool) -> tuple[StoredModel, ...]:
        try:
            return self._models.take(path, parts, caller())
        except Conflict as error:
            more = "; force_update does not change that" if force else ""
            raise Conflict(f"{error.message}{more}") from error


def _named(body: Body) -> ModelParts:
    """Return the parts that a body names. Raise BadRequest if it names no model."""
    parts = read_parts(body)
    if not parts.model_id and not parts.version:
        raise BadRequest("model_id: is missing, and so is model_version; one of both names a model")
    return parts


def _name_of(models: tuple[StoredModel, ...]) -> str:
    """Return FATE 2's name of an exported file; with one seat, that names it."""
    one = models[0]
    seats = {each.party for each in models}
    of_seat = f"_{one.party.role}_{one.party.party_id}" if len(seats) == 1 else ""
    safe = one.reference.model_id.replace("#", "-")
    return f"{safe}_{one.reference.version}{of_seat}.zip"
