"""A file with models of one party, to take them to another home: a zip, not compressed, with `models.json` and the
file of each model. What is read of it is checked: names, sizes, digests; nothing of it is unpacked."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, Self, cast

from fate_flow.core.access.authority import PARTY_0
from fate_flow.core.model.artifact import JSON_MODEL, MODEL_DIRECTORY
from fate_flow.core.model.errors import BadRequest, OperationFailed
from fate_flow.core.model.grammar import (
    check_component_name,
    check_job_id,
    check_model_id,
    check_model_version,
    check_party_id,
    check_role,
    check_version,
    shown,
)
from fate_flow.core.model.spec import ModelReference, Party
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.services.context.model_files import ModelFiles
from fate_flow.store.values import StoredModel

LIST = "models.json"
VERSION = 1
_MOST_LIST_BYTES = 32 * 1024 * 1024
_MOST_MODELS = 10_000
_LONGEST_OUTPUT = 60
_PIECE = 1024 * 1024
_DAMAGE = (
    zipfile.BadZipFile, EOFError, struct.error, zlib.error, ValueError, LookupError, OverflowError, RuntimeError,
    OSError,
)  # fmt: skip
"""What `zipfile` raises for a file that is cut or changed. It documents the first one alone, and lets through what its
parsing of such a file meets: a short read, a name that is not UTF-8, a place before the file, an unknown version. A
client has sent the file, so each of them is its bad request, and no failure of this server."""


def write_archive(file: BinaryIO, models: Collection[StoredModel], files: ModelFiles) -> None:
    """Write the models into a file. Raises OSError; OperationFailed for a model whose file here is not what was
    stored."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        listed = [_as_json(one) for one in models]
        archive.writestr(LIST, json.dumps({"version": VERSION, "models": listed}, indent=1))
        for one in models:
            with archive.open(_member_of(one), "w", force_zip64=True) as target:
                for piece in _pieces(one, files.path(one)):
                    target.write(piece)


def _pieces(model: StoredModel, path: Path) -> Iterator[bytes]:
    """Yield the file of a model. Raises OperationFailed if it cannot be read, or has another digest."""
    found, of = hashlib.sha256(), f"{model.reference} at {model.party}"
    try:
        with path.open("rb") as source:
            while piece := source.read(_PIECE):
                found.update(piece)
                yield piece
    except OSError as error:
        raise OperationFailed(f"{of}: its file cannot be read: {os_error_text(error)}") from error
    if found.hexdigest() != model.sha256:
        raise OperationFailed(
            f"{of}: its file is damaged: it has the digest {found.hexdigest()}, {model.sha256} was stored"
        )


def _member_of(model: StoredModel) -> str:
    of, party = model.reference, model.party
    return f"{of.model_id}/{of.version}/{party.role}/{party.party_id}/{of.task}/{of.output}.tar"


def _as_json(model: StoredModel) -> dict[str, Any]:
    of = model.reference
    return {
        "model_id": of.model_id, "model_version": of.version, "role": model.party.role,
        "party_id": model.party.party_id, "task": of.task, "output": of.output, "type_name": model.kind,
        "sha256": model.sha256, "bytes": model.size, "job_id": model.job_id, "initiator_party_id": model.initiator,
        "task_version": model.task_version, "component": model.component, "roles": dict(model.roles),
        "metadata": dict(model.metadata), "create_time": model.create_time,
    }  # fmt: skip


class Archive:
    """An exported file, opened and checked. Raises BadRequest if it is none of this party's."""

    def __init__(self, path: Path, party_id: str) -> None:
        self._party_id = party_id
        try:
            self._zip = zipfile.ZipFile(path)
        except _DAMAGE as error:
            raise BadRequest(f"file: is not an exported model: {_text_of(error)}") from error
        try:
            self.models = self._read()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def check(self, model_id: str, version: str, party: Party | None) -> None:
        """Check that it has what the client says that it has; what is empty is not said. Raises BadRequest."""
        for one in self.models:
            of = one.reference
            if version not in ("", str(of.version), of.model_id):
                raise BadRequest(f"model_version: the file has version {of.version} of model {of.model_id}")
            if party not in (None, one.party):
                raise BadRequest(f"party_id: the file has a model of {one.party}")
            if model_id and model_id != of.model_id and version != of.model_id:
                raise BadRequest(f"model_id: the file has model {of.model_id}")

    def opened(self, model: StoredModel) -> BinaryIO:
        """Return the content of the file of a model, open."""
        return cast("BinaryIO", self._member(_member_of(model)))

    def _member(self, name: str) -> _Member:
        try:
            found = self._zip.NameToInfo.get(name)
            if found is None:
                raise BadRequest(f"file: {name[:200]} is missing in it")
            # Without compression, nothing is larger than the file itself.
            if found.compress_type != zipfile.ZIP_STORED or found.flag_bits & 1:
                raise BadRequest(f"file: {name[:200]} is compressed or encrypted; flow model export does neither")
            return _Member(name, self._zip.open(found))
        except _DAMAGE as error:
            raise _damaged(name, error) from error

    def _read(self) -> tuple[StoredModel, ...]:
        text = self._member(LIST).read(_MOST_LIST_BYTES + 1)
        try:
            said = json.loads(text) if len(text) <= _MOST_LIST_BYTES else None
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"file: {LIST} is not JSON: {error}") from error
        if not isinstance(said, dict) or said.get("version") != VERSION or not isinstance(said.get("models"), list):
            raise BadRequest(f"file: {LIST} is not a list of models of version {VERSION}")
        if not 0 < len(said["models"]) <= _MOST_MODELS:
            raise BadRequest(f"file: {LIST} has {len(said['models'])} models; 1 to {_MOST_MODELS} are right")
        found = tuple(self._model(one) for one in said["models"])
        if len({(one.reference, one.party) for one in found}) < len(found):
            raise BadRequest(f"file: {LIST} has a model twice")
        return found

    def _model(self, said: object) -> StoredModel:
        if not isinstance(said, Mapping):
            raise BadRequest(f"file: {LIST}: {shown(said)} is not a model")
        party = Party(check_role(said.get("role")), check_party_id(said.get("party_id")))
        if party.party_id not in (self._party_id, PARTY_0):
            raise BadRequest(
                f"file: it has a model of {party}; this server is party {self._party_id}, and keeps its own part alone"
            )
        of = ModelReference(
            check_model_id(said.get("model_id")), check_model_version(said.get("model_version")),
            check_component_name(said.get("task"), "task"), _output(said.get("output")),
        )  # fmt: skip
        if said.get("type_name") not in (JSON_MODEL, MODEL_DIRECTORY):
            raise BadRequest(f"type_name: {shown(said.get('type_name'))} is not {JSON_MODEL} or {MODEL_DIRECTORY}")
        size, digest = said.get("bytes"), said.get("sha256")
        if type(size) is not int or size < 0 or not isinstance(digest, str):
            raise BadRequest(f"file: {LIST}: {of} has no digest or size")
        roles, metadata = said.get("roles"), said.get("metadata")
        if not isinstance(roles, Mapping) or not isinstance(metadata, Mapping):
            raise BadRequest(f"file: {LIST}: {of} has no roles or metadata")
        return StoredModel(
            of, party, str(said["type_name"]), digest, size, check_job_id(said.get("job_id")),
            check_party_id(said.get("initiator_party_id"), "initiator_party_id"),
            check_version(said.get("task_version")), str(said.get("component"))[:200], _roles(roles), metadata,
        )  # fmt: skip


@dataclass(frozen=True)
class _Member:
    """The content of a member; what is wrong with it is a BadRequest that names it."""

    name: str
    file: IO[bytes]

    def read(self, size: int) -> bytes:
        try:
            return self.file.read(size)
        except _DAMAGE as error:
            raise _damaged(self.name, error) from error


def _damaged(name: str, error: BaseException) -> BadRequest:
    return BadRequest(f"file: {name[:200]} is damaged: {_text_of(error)}; export it again")


def _text_of(error: BaseException) -> str:
    return str(error) or ("it ends too early" if isinstance(error, EOFError) else type(error).__name__)


def _output(value: object) -> str:
    """Return the name of an output, or of one of several under one key."""
    name = str(value)
    base, _, number = name.rpartition("_")
    check_component_name(base if number.isdigit() and base else name, "output")
    if len(name) > _LONGEST_OUTPUT:
        raise BadRequest(f"output: {shown(name)} has more than {_LONGEST_OUTPUT} characters")
    return name


def _roles(said: Mapping[str, Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for role, ids in said.items():
        if not isinstance(ids, list):
            raise BadRequest(f"roles.{shown(role)}: {shown(ids)} is not a list of party ids")
        found[check_role(role)] = [int(check_party_id(one)) for one in ids]
    return found
