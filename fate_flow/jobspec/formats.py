"""The formats of documents: one row for each, and one way to parse a document of any of them.

A new format is a folder beside `fate_v1/` and `native/`, with a reader as here, and a row in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.access.authority import content_digest
from fate_flow.core.model.document import FATE_V1, JobDocument
from fate_flow.core.model.modules import ModuleInfo
from fate_flow.core.model.spec import JobParameters, JobSpec
from fate_flow.jobspec.fate_v1 import reader as fate_v1
from fate_flow.jobspec.native import reader as native
from fate_flow.jobspec.text.document import Findings

NATIVE = "native"
"""The native job file."""


Title = tuple[str, str]
"""The name and the description of a job."""


@dataclass(frozen=True)
class Format:
    """What is known about documents of one format.

    `read` returns the job, or None with problems in the findings. `completed` returns the document that all parties
    get, with the defaults of the initiator's server, for a job with this id. `as_fate_v1` returns a parsed document as
    DSL and runtime conf. `bound` returns the JSON value whose digest a job is bound to. `title` returns name and
    description of the job, given those that were sent beside the document; a format that has a place for them ignores
    what is beside it, because nothing binds that."""

    read: Callable[[JobDocument, Mapping[str, ModuleInfo], JobParameters, Findings], JobSpec | None]
    completed: Callable[[JobDocument, JobSpec, str], JobDocument]
    as_fate_v1: Callable[[JobDocument, JobSpec], tuple[Mapping[str, Any], Mapping[str, Any]]]
    bound: Callable[[JobDocument], object]
    title: Callable[[JobDocument, Title], Title]


FORMATS: Mapping[str, Format] = {
    FATE_V1: Format(fate_v1.read, fate_v1.completed, fate_v1.as_fate_v1, fate_v1.bound, fate_v1.title),
    NATIVE: Format(native.read, native.completed, native.as_fate_v1, native.bound, native.title),
}


def parse(
    document: JobDocument, *, modules: Mapping[str, ModuleInfo], defaults: JobParameters, strict: bool = False
) -> JobSpec:
    """Return the job that a document describes. Raise BadDocument for its first problem."""
    findings = Findings(strict)
    spec = FORMATS[document.format].read(document, modules, defaults, findings)
    if spec is None:
        raise findings.problems[0]
    return spec


def parse_or_problems(
    document: JobDocument, *, modules: Mapping[str, ModuleInfo], defaults: JobParameters, strict: bool = False
) -> tuple[JobSpec | None, list[str]]:
    """Return the job of a document; or None and all its problems, unless one hides another.

    Every problem begins with the path of the wrong value in the document. `strict`: unknown keys are problems."""
    findings = Findings(strict)
    spec = FORMATS[document.format].read(document, modules, defaults, findings)
    return spec, list(dict.fromkeys(problem.message for problem in findings.problems))


def digest_of(document: JobDocument) -> str:
    """Return the digest that a job with this document is bound to, as hex digits.

    Equal JSON values give equal digests, in any order of keys; 1 and 1.0 are different values."""
    return content_digest(FORMATS[document.format].bound(document))
