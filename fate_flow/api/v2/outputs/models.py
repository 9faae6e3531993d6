"""`/v2/output/model/...` and `/v2/model/...`: what a task has trained, and the store of models (client-api-v2, sections
5 and 6)."""

from __future__ import annotations

import os
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from flask import Blueprint, Response, request, send_file

from fate_flow.api.bodies.uploads import is_upload, received
from fate_flow.api.http.caller import caller
from fate_flow.api.http.client_auth import check_fields_are_signed
from fate_flow.api.http.declared import COUNT, FREE, TEXT, Arguments, an_object, declared
from fate_flow.api.http.paths import writable_file
from fate_flow.api.http.services import Services
from fate_flow.api.v2.arguments import FORM, arguments, checked
from fate_flow.api.v2.envelope import ok
from fate_flow.api.v2.errors import ModelNotFound, not_found
from fate_flow.api.v2.outputs.asked import TASK, AskedTask, task_asked
from fate_flow.components.artifacts.packed_model import BadModel, checked_members, opened
from fate_flow.core.access.client_roles import OPERATE, SUBMIT
from fate_flow.core.model.artifact import JSON_MODEL
from fate_flow.core.model.errors import BadRequest, NotFound, OperationFailed, StorageFailed
from fate_flow.core.model.grammar import check_component_name, check_party_id, check_role, shown
from fate_flow.core.model.spec import Party
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.services.context.space import check_space_for_client
from fate_flow.services.use_cases.models import ModelParts
from fate_flow.store.values import StoredModel

_MOST_SHOWN = 64 * 1024 * 1024
_TAR = "application/x-tar"
_MODEL: Arguments = {"model_id": TEXT, "model_version": TEXT}
_PARTY: Arguments = {"role": TEXT, "party_id": TEXT}
_PARTS: Arguments = {**_PARTY, "task_name": TEXT, "output_key": TEXT}
_DELETED = an_object({"count": COUNT})


def blueprint(services: Services) -> Blueprint:
    routes = _ModelRoutes(services)
    models = Blueprint("v2_models", __name__, url_prefix="/v2")
    models.get("/output/model/query")(routes.query)
    models.get("/output/model/download")(routes.download)
    models.post("/output/model/delete")(routes.delete_output)
    models.post("/model/export")(routes.export)
    models.post("/model/import")(routes.take)
    models.post("/model/delete")(routes.delete)
    return models


class _ModelRoutes:
    def __init__(self, services: Services) -> None:
        self._models = services.use_cases.models
        self._views = services.views
        self._settings = services.settings
        self._context = services.context

    @declared("Show the models of a task that are one file of JSON, by their outputs.", SUBMIT, needs=TASK, data=FREE)
    def query(self) -> Response:
        found = self._of_task(task_asked(self._views))
        shown = [one for one in found if one.kind == JSON_MODEL]
        return ok({one.reference.output: self._models.value(one, _MOST_SHOWN) for one in shown})

    @declared("Download the models of a task, each in a folder of its output, in a tar.", SUBMIT, needs=TASK, file=_TAR)
    def download(self) -> Response:
        asked = task_asked(self._views)
        models = self._of_task(asked)
        if not models:
            raise _missing(asked)
        file = tempfile.TemporaryFile(dir=self._settings.uploads_dir)  # noqa: SIM115  # the answer closes it
        try:
            _write_tar(file, [(one.reference.output, self._models.path(one)) for one in models])
            file.seek(0)
        except BaseException:
            file.close()
            raise
        name = f"{asked.job_id}_{asked.party.role}_{asked.party.party_id}_{asked.name}"
        return send_file(file, _TAR, as_attachment=True, download_name=name)

    @declared("Delete the models of a task from the store of this party.", OPERATE, needs=TASK, data=_DELETED)
    def delete_output(self) -> Response:
        asked = task_asked(self._views)
        models = self._of_task(asked)
        if not models:
            raise _missing(asked)
        of = models[0].reference
        parts = ModelParts(of.model_id, str(of.version), asked.party, asked.name)
        return ok({"count": len(self._models.delete(parts, caller()))})

    def _of_task(self, asked: AskedTask) -> Sequence[StoredModel]:
        return self._models.made_by(asked.job_id, asked.party, asked.name)

    @declared(
        "Export a model into a zip in a folder of the server's machine.", OPERATE,
        needs=_MODEL | _PARTY | {"path": TEXT}, data=an_object({"file": TEXT}),
    )
    def export(self) -> Response:
        sent = arguments()
        parts = _parts(sent)
        name = f"{parts.model_id}_{parts.version}_{sent['role']}_{sent['party_id']}.zip".replace("#", "-")
        target = writable_file(self._settings, str(Path(sent["path"], name)), "path")
        if target.exists():
            raise BadRequest(f"path: has {shown(name)}, which exists; name another folder")
        with tempfile.TemporaryFile(dir=self._settings.uploads_dir) as file:
            self._found(lambda: self._models.export(parts, file, caller()), parts)
            file.seek(0)
            try:
                _write_whole(target, file)
            except FileExistsError as error:
                raise BadRequest(f"path: has {shown(name)}, which exists; name another folder") from error
            except OSError as error:
                raise StorageFailed(f"path: {shown(name)} cannot be written: {os_error_text(error)}") from error
        return ok({"file": str(target)})

    @declared(
        "Import models of this party that an export has written. None is overwritten.", OPERATE, takes=_MODEL,
        idle=("path",), form={"file": {"type": "string", "format": "binary"}}, data=an_object({"count": COUNT}),
    )
    def take(self) -> Response:
        if not is_upload():
            raise BadRequest("file: is missing; send a form with the file that an export has written")
        check_space_for_client(self._context, incoming=request.content_length or 0)
        with received(self._settings.limits.upload_max_bytes) as (path, fields):
            try:
                check_fields_are_signed(fields)
                sent = checked(fields, FORM)
                parts = ModelParts(sent.get("model_id", ""), sent.get("model_version", ""))
                return ok({"count": len(self._models.take(path, parts, caller()))})
            finally:
                path.unlink(missing_ok=True)

    @declared("Delete parts of a model.", OPERATE, needs=_MODEL, takes=_PARTS, data=_DELETED)
    def delete(self) -> Response:
        parts = _parts(arguments())
        return ok({"count": len(self._found(lambda: self._models.delete(parts, caller()), parts))})

    def _found(self, act: Any, parts: ModelParts) -> Any:
        """Return what an act on these parts returns. Raise ModelNotFound if there are none."""
        try:
            return act()
        except NotFound as error:
            party = parts.party
            raise not_found(
                ModelNotFound, model_id=parts.model_id, model_version=parts.version,
                party_id=party and party.party_id, role=party and party.role,
            ) from error  # fmt: skip


def _missing(asked: AskedTask) -> NotFound:
    return not_found(
        ModelNotFound, job_id=asked.job_id, role=asked.party.role, party_id=asked.party.party_id, task_name=asked.name
    )


def _parts(sent: Any) -> ModelParts:
    """Return which parts of a model the arguments name. Raise BadRequest."""
    party, task = None, ""
    if "role" in sent or "party_id" in sent:
        party = Party(check_role(sent.get("role")), check_party_id(sent.get("party_id")))
    if "task_name" in sent:
        task = check_component_name(sent["task_name"], "task_name")
    return ModelParts(sent["model_id"], sent["model_version"], party, task, sent.get("output_key", ""))


def _write_tar(file: IO[bytes], models: Sequence[tuple[str, Path]]) -> None:
    """Write the content of packed models into one tar, each below a folder with the name of its output. Raise
    OperationFailed if one is not what a worker packs: the server has stored it without reading it."""
    with tarfile.open(fileobj=file, mode="w") as target:
        for output, path in models:
            try:
                with opened(path) as source:
                    for member in checked_members(source):
                        head = _head(f"{output}/{member.name}", member)
                        target.addfile(head, source.extractfile(member) if member.isreg() else None)
            except (BadModel, OSError) as error:
                why = os_error_text(error) if isinstance(error, OSError) else error
                text = f"the file of the output {output} cannot be copied into the tar: {why}"
                raise OperationFailed(text) from error


def _write_whole(target: Path, file: IO[bytes]) -> None:
    """Write a file that has its name only when it is complete. Raises OSError; FileExistsError if there is one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with draft.open("xb") as written:
            shutil.copyfileobj(file, written, 1024 * 1024)
            written.flush()
            os.fsync(written.fileno())
        os.link(draft, target)       # unlike a rename, fails if the file exists
    finally:
        draft.unlink(missing_ok=True)


def _head(name: str, member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return the head of a file or folder with this name. Nothing else of the stored head is copied: its `pax_headers`
    would take the place of the name."""
    head = tarfile.TarInfo(name)
    if member.isdir():
        head.type, head.mode = tarfile.DIRTYPE, 0o755
    else:
        head.size, head.mode = member.size, 0o644
    return head
