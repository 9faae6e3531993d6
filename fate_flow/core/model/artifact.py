"""Artifacts: what a task reads and makes, such as a table or a file, whatever its kind.

What a kind is on disk: components/artifacts/on_disk.py. What this party stores about it: services/artifacts/kinds.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

TABLE, FILE, METRIC = "table", "file", "json_metric"
"""The kinds, as `type_name` in a task configuration and in a result file. A METRIC is a file with a task's metrics."""

JSON_MODEL, MODEL_DIRECTORY = "json_model", "model_directory"
"""Kinds of models: a file, and a folder."""

DATAFRAME = "dataframe"
"""Tables as FATE 2's components read and write them."""

UNRESOLVED = "data_unresolved"
"""An output of FATE 2's `reader`, which only names a table: the table itself takes its place."""

INDEX = "{index}"
"""Stands in the uri of outputs that may be several; the worker puts 0, 1, ... there."""

DATA, MODEL = "data", "model"
"""Sections: documents and result files list inputs and outputs by section and key."""

DEFAULT_STAGE = "default"
STAGES = (DEFAULT_STAGE, "train", "predict", "cross_validation")
"""What a task does with its component, in FATE 2's words."""

FILE_SCHEME = "file://"
MOST_CONTENTS = 200            # of one worker
LONGEST_URI = 1_000            # characters, of a content


@dataclass(frozen=True)
class Artifact:
    """A thing that a task reads or makes: its kind, where it is, and what its kind says about it."""

    kind: str
    uri: str                                                      # empty: its content was removed
    metadata: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""                                                 # of the input or the output of the task
    sha256: str = ""              # of a model: the digest of the file into which it is packed; empty if it is not
    size: int = 0                 # of that file, in bytes
    is_packed: bool = False       # `uri` is that file, in the store of models

    @property
    def place(self) -> dict[str, Any]:
        """Its form in files before it exists: `{uri, type_name}`."""
        return {"uri": self.uri, "type_name": self.kind}

    def as_json(self) -> dict[str, Any]:
        """Its form in task configurations and result files: `{uri, type_name, metadata}`, and `stored` with the digest
        if the worker has to unpack it."""
        stored = {"stored": {"sha256": self.sha256, "bytes": self.size}} if self.is_packed else {}
        return {**self.place, "metadata": dict(self.metadata), **stored}


def file_at(path: str) -> Artifact:
    """Return the file at an absolute path."""
    return Artifact(FILE, f"{FILE_SCHEME}{path}")


class Use(StrEnum):
    """What a file is for the worker."""

    PROGRAM = "program"
    INPUT = "input"
    OUTPUT = "output"


@dataclass(frozen=True)
class Content:
    """A file at one moment: of a program when it began, of others when the worker had ended. `size`: bytes."""

    use: Use
    uri: str
    sha256: str
    size: int

    def as_json(self) -> list[Any]:
        return [self.use.value, self.uri, self.sha256, self.size]

    @classmethod
    def of(cls, value: Any) -> Self:
        """Read the list of `as_json`. Raises TypeError, ValueError for any other."""
        use, uri, sha256, size = value
        if not isinstance(uri, str) or not isinstance(sha256, str) or not isinstance(size, int):
            raise TypeError(f"no content: {value!r:.200}")
        uri.encode()                   # a record has no other text
        return cls(Use(use), uri[:LONGEST_URI], sha256[:64], size)


def contents_in(listed: Any) -> tuple[Content, ...]:
    """Raises TypeError, ValueError."""
    return tuple(map(Content.of, listed[:MOST_CONTENTS]))


@dataclass(frozen=True)
class ArtifactInfo:
    """An input or an output that a component has under one key, as its provider describes it."""

    section: str = DATA
    kinds: tuple[str, ...] = (TABLE,)              # that it takes; an output is made as the first
    roles: frozenset[str] = frozenset()            # that have it; empty: every role of the component
    stages: frozenset[str] = frozenset()           # that have it; empty: every stage of the component
    is_optional: bool = False                      # an input that it can run without
    is_multi: bool = False                         # several artifacts under this key, in order
    description: str = ""

    def counts(self, role: str, stage: str) -> bool:
        """Return whether a party of this role has it in this stage."""
        return role in (self.roles or (role,)) and self.is_of_stage(stage)

    def is_of_stage(self, stage: str) -> bool:
        return not self.stages or stage in self.stages


ArtifactInfos = Mapping[str, ArtifactInfo]
"""By key, in the component's order. A key is in one section only."""


def counted(infos: ArtifactInfos, role: str, stage: str) -> dict[str, ArtifactInfo]:
    """Return those that a party of this role has in this stage."""
    return {key: one for key, one in infos.items() if one.counts(role, stage)}


def keys_of(infos: ArtifactInfos, section: str, stage: str) -> list[str]:
    """Return the keys of a section that exist in this stage, at whatever role."""
    return [key for key, one in infos.items() if one.section == section and one.is_of_stage(stage)]
