"""The files of the store of models, as use cases see them; `server/model_store.py` has them on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

from fate_flow.core.model.artifact import Artifact
from fate_flow.core.model.spec import ModelReference, Party
from fate_flow.store.values import StoredModel


class ModelFiles(Protocol):
    """One file for each model that is stored. A file is there whole or not at all, also after a power cut."""

    def keep(self, made: Artifact, model: StoredModel) -> None:
        """Store the file into which a worker has packed a model. Raises OSError."""

    def copy(self, model: StoredModel, to: StoredModel) -> None:
        """Store the file of a model under another name, too. Raises OSError."""

    def draft(self, model: StoredModel, content: BinaryIO) -> Path:
        """Write what can be read into a file of its own, and return it; `place` stores it, `drop` removes it.

        Raises BadRequest if it is not the packed model with this digest; OSError."""

    def place(self, drafts: Mapping[Path, StoredModel]) -> None:
        """Store drafts as the files of these models, in the transaction that has added their rows. Raises OSError.

        A file that is there has no row: a transaction that failed has left it. It is replaced."""

    def drop(self, draft: Path) -> None: ...

    def artifact(self, model: StoredModel) -> Artifact:
        """Return the model as an artifact that a worker unpacks."""

    def path(self, model: StoredModel) -> Path: ...

    def has(self, model: StoredModel) -> bool:
        """Return whether the file is there, with its size."""

    def content(self, model: StoredModel, most_bytes: int) -> bytes | None:
        """Return the content of a model that is one file; None if it is a folder, or larger. Raises OperationFailed if
        the file is missing or damaged."""

    def kept_before(self, at: int) -> Iterable[tuple[ModelReference, Party]]:
        """Return the models whose files were stored before this time."""


class NoModels:
    """A store in which nothing ever lies."""

    def keep(self, made: Artifact, model: StoredModel) -> None: ...

    def copy(self, model: StoredModel, to: StoredModel) -> None: ...

    def draft(self, model: StoredModel, content: BinaryIO) -> Path:  # noqa: ARG002
        return Path("/nonexistent")

    def place(self, drafts: Mapping[Path, StoredModel]) -> None: ...

    def drop(self, draft: Path) -> None: ...

    def artifact(self, model: StoredModel) -> Artifact:
        return Artifact(model.kind, "")

    def path(self, model: StoredModel) -> Path:  # noqa: ARG002  # there is none
        return Path("/nonexistent")

    def has(self, model: StoredModel) -> bool:  # noqa: ARG002
        return False

    def content(self, model: StoredModel, most_bytes: int) -> bytes | None:  # noqa: ARG002
        return None

    def kept_before(self, at: int) -> Iterable[tuple[ModelReference, Party]]:  # noqa: ARG002
        return ()
