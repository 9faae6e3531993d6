"""The document of a job as it was submitted, in one of several formats, and the names of its places in messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FATE_V1 = "fate_v1"
"""The format of FATE's two documents; its body is `{"dsl": ..., "runtime_conf": ...}`."""


@dataclass(frozen=True)
class Disclosure:
    """What hides the private parts of a document from other parties, and still binds all parties to the same job.

    Each block of a document with a private part is named by its path, a JSON pointer into the body. A party that has
    the private part also has its salt, 64 hex digits. Any other party has the commitment to it, the SHA-256 of salt,
    path and private part (`jobspec/disclosure.py`). The initiator has all salts."""

    salts: Mapping[str, str] = field(default_factory=dict)
    commitments: Mapping[str, str] = field(default_factory=dict)     # of the blocks whose private part is not here
    whole: tuple[str, ...] = ()          # only at the initiator: ids of the parties that get the whole document


@dataclass(frozen=True)
class JobDocument:
    """A document as a JSON value. Only the reader of its format (`jobspec/formats.py`) looks into `body`.

    `defaults`: values of the initiator's server for keys that the body leaves open, by FATE's names of job parameters.
    They make every party read the same job. They are empty before the initiator has taken the job, and always in a
    format whose body has a place for them. `disclosure`: None if the document has no private parts, or if every party
    of its job has the whole of it."""

    format: str
    body: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    disclosure: Disclosure | None = None


def fate_v1_document(dsl: object, runtime_conf: object) -> JobDocument:
    return JobDocument(FATE_V1, {"dsl": dsl, "runtime_conf": runtime_conf})


class Paths:
    """Translates places in FATE v1's documents into paths of the document that the user wrote; here the same.

    The job is checked in the terms of FATE v1. A check names a place by its path there, and asks for the path to
    show."""

    def of(self, place: str) -> str:
        return place

    def of_parameters(self, task: str, party: str = "") -> str:
        """Return the path of the parameters of a task; with a party, those that hold there."""
        return f"job_runtime_conf.component_parameters: {task}" + (f" at {party}" if party else "")


AS_IN_FATE_V1 = Paths()
