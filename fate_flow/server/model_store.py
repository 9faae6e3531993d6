"""The store of models on disk: `<models>/<model id>/<version>/<role>/<party id>/<task>/<output>.tar`.

A file is linked to its place when it is complete and on the disk, so it is there whole or not at all. The transaction
that makes the row of a model links its file after that: of two that want the same name, the second one waits for the
first at the row, before it touches the file. A file without a row is removed by retention.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fate_flow.components.artifacts.packed_model import (
    PACKED,
    TAR,
    BadModel,
    Packed,
    digest_of,
    read_meta,
    read_model,
)
from fate_flow.core.model.artifact import FILE_SCHEME, Artifact
from fate_flow.core.model.errors import BadRequest, OperationFailed
from fate_flow.core.model.spec import ModelReference, Party
from fate_flow.engines.local.worker import sync_folder
from fate_flow.store.values import StoredModel

_PIECE = 1024 * 1024
_LEVELS = 6                     # of a file, below the folder of the store


@dataclass(frozen=True)
class ModelStore:
    """The models of this party, below one folder."""

    folder: Path

    def path(self, model: StoredModel) -> Path:
        of, party = model.reference, model.party
        return self.folder.joinpath(
            of.model_id, str(of.version), party.role, party.party_id, of.task, f"{of.output}{TAR}"
        )

    def keep(self, made: Artifact, model: StoredModel) -> None:
        content = Path(made.uri.removeprefix(FILE_SCHEME))
        self._link(content.parent.parent / PACKED / f"{content.name}{TAR}", self.path(model))
        _sync([self.path(model).parent], self.folder)

    def copy(self, model: StoredModel, to: StoredModel) -> None:
        self._link(self.path(model), self.path(to))
        _sync([self.path(to).parent], self.folder)

    def draft(self, model: StoredModel, content: BinaryIO) -> Path:
        draft = self._draft(self.path(model))
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                while piece := content.read(_PIECE):
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            if digest_of(draft) != Packed(model.sha256, model.size):
                raise BadRequest(f"{model.reference}: the file has not the digest and the size that were said of it")
            read_meta(draft)
        except BaseException as error:
            draft.unlink(missing_ok=True)
            if isinstance(error, BadModel):
                raise BadRequest(f"{model.reference}: {error}") from error
            raise
        return draft

    def place(self, drafts: Mapping[Path, StoredModel]) -> None:
        for draft, model in drafts.items():
            self._link(draft, self.path(model))
        _sync({self.path(model).parent for model in drafts.values()}, self.folder)

    def drop(self, draft: Path) -> None:
        draft.unlink(missing_ok=True)

    def artifact(self, model: StoredModel) -> Artifact:
        place = f"{FILE_SCHEME}{self.path(model)}"
        return Artifact(model.kind, place, model.metadata, "", model.sha256, model.size, is_packed=True)

    def has(self, model: StoredModel) -> bool:
        with suppress(OSError):
            return self.path(model).stat().st_size == model.size
        return False

    def content(self, model: StoredModel, most_bytes: int) -> bytes | None:
        try:
            return read_model(self.path(model), most_bytes)
        except (OSError, BadModel) as error:
            raise OperationFailed(f"{model.reference}: its file cannot be read: {error}") from error

    def kept_before(self, at: int) -> Iterator[tuple[ModelReference, Party]]:
        for folder, _, names in os.walk(self.folder):
            place = Path(folder).relative_to(self.folder).parts
            for name in names:
                path = Path(folder, name)
                with suppress(FileNotFoundError):
                    # The time of the last link, not of the content, which is older.
                    if path.stat().st_ctime_ns // 1_000_000 >= at:
                        continue
                    if len(place) == _LEVELS - 1 and path.suffix == TAR and place[1].isdigit():
                        model_id, version, role, party_id, task = place
                        yield ModelReference(model_id, int(version), task, path.stem), Party(role, party_id)
                    else:
                        path.unlink(missing_ok=True)      # a draft that a crash has left

    def _link(self, source: Path, target: Path) -> None:
        """Give a complete file a further name, in the place of a file that had it."""
        draft = self._draft(target)
        try:
            os.link(source, draft)
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)     # replacing a link to the same file does nothing

    def _draft(self, target: Path) -> Path:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return target.with_name(f".{target.name}.{secrets.token_hex(8)}")


def _sync(folders: Iterable[Path], root: Path) -> None:
    """Write the entries of folders and of those above them, up to the root, to the disk, each once."""
    above = {one for folder in folders for one in (folder, *folder.parents) if one.is_relative_to(root)}
    for one in sorted(above, reverse=True):
        sync_folder(one)
