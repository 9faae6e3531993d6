"""The formats of documents: one row for each, and one way to parse a document of any of them.

A new format is a folder beside `fate_v1/` and `native/`, with a reader as here, and a row in `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fate_flow.core.access.authority import content_digest
from fate_flow.core.model.document import FATE_V1, Disclosure, JobDocument
from fate_flow.core.model.modules import ModuleInfo
from fate_flow.core.model.spec import JobParameters, JobSpec, Party
from fate_flow.jobspec import disclosure
from fate_flow.jobspec.fate_v1 import reader as fate_v1
from fate_flow.jobspec.fate_v1.blocks import blocks as fate_v1_blocks
from fate_flow.jobspec.fate_v2 import reader as fate_v2
from fate_flow.jobspec.fate_v2.reader import FATE_V2
from fate_flow.jobspec.native import reader as native
from fate_flow.jobspec.native.blocks import blocks as native_blocks
from fate_flow.jobspec.text.blocks import Block
from fate_flow.jobspec.text.document import Findings

NATIVE = "native"
"""The native job file."""


Title = tuple[str, str]
"""The name and the description of a job."""


@dataclass(frozen=True)
class Format:
    """What is known about documents of one format.

    `read` returns the job, or None with problems in the findings; it is given the seats whose parameters are withheld.
    `completed` returns the document that all parties get, with the defaults of the initiator's server, for a job with
    this id. `as_fate_v1` returns a parsed document as
    DSL and runtime conf. `bound` returns the JSON value whose digest a job is bound to. `title` returns name and
    description of the job, given those that were sent beside the document; a format that has a place for them ignores
    what is beside it, because nothing binds that. `blocks` returns the parts for some seats only."""

    read: Callable[[JobDocument, Mapping[str, ModuleInfo], JobParameters, Findings, frozenset[Party]], JobSpec | None]
    completed: Callable[[JobDocument, JobSpec, str], JobDocument]
    as_fate_v1: Callable[[JobDocument, JobSpec], tuple[Mapping[str, Any], Mapping[str, Any]]]
    bound: Callable[[JobDocument], object]
    title: Callable[[JobDocument, Title], Title]
    blocks: Callable[[JobDocument], Iterable[Block]]


FORMATS: Mapping[str, Format] = {
    FATE_V1: Format(fate_v1.read, fate_v1.completed, fate_v1.as_fate_v1, fate_v1.bound, fate_v1.title, fate_v1_blocks),
    NATIVE: Format(native.read, native.completed, native.as_fate_v1, native.bound, native.title, native_blocks),
    FATE_V2: Format(
        fate_v2.read, fate_v2.completed, fate_v2.as_fate_v1, fate_v2.bound, fate_v2.title, fate_v2.blocks
    ),
}


def parse(
    document: JobDocument, *, modules: Mapping[str, ModuleInfo], defaults: JobParameters, strict: bool = False
) -> JobSpec:
    """Return the job that a document describes. Raise BadDocument for its first problem."""
    findings = Findings(strict)
    spec = _read(document, modules, defaults, findings)
    if spec is None:
        raise findings.problems[0]
    return spec


def parse_or_problems(
    document: JobDocument, *, modules: Mapping[str, ModuleInfo], defaults: JobParameters, strict: bool = False
) -> tuple[JobSpec | None, list[str]]:
    """Return the job of a document; or None and all its problems, unless one hides another.

    Every problem begins with the path of the wrong value in the document. `strict`: unknown keys are problems."""
    findings = Findings(strict)
    spec = _read(document, modules, defaults, findings)
    return spec, list(dict.fromkeys(problem.message for problem in findings.problems))


def _read(
    document: JobDocument, modules: Mapping[str, ModuleInfo], defaults: JobParameters, findings: Findings
) -> JobSpec | None:
    spec = FORMATS[document.format].read(document, modules, defaults, findings, withheld_from(document))
    return spec if spec is None or document.disclosure is None else replace(spec, disclosure=document.disclosure)


def digest_of(document: JobDocument) -> str:
    """Return the digest that a job with this document is bound to, as hex digits.

    Equal JSON values give equal digests, in any order of keys; 1 and 1.0 are different values. The digest is the same
    at all parties, although each has other private parts of the document. Raises BadRequest if the disclosure does not
    fit the document."""
    known, given = FORMATS[document.format], document.disclosure
    if given is None or not (given.salts or given.commitments):
        return content_digest(known.bound(document))
    return content_digest(disclosure.bound_with_commitments(document, _blocks(document), known.bound))


# ---------------------------------------------------------------------- least disclosure


def with_disclosure(
    document: JobDocument, whole: Collection[str], fresh: Callable[[], str], earlier: JobDocument | None = None
) -> JobDocument:
    """Return a whole document with salts for its private parts. `earlier`: the document that it changes.

    `whole`: ids of the parties that get the whole; `fresh`: makes a salt of 64 hex digits."""
    before = earlier.disclosure if earlier is not None else None
    blocks = _blocks(earlier) if earlier is not None else ()
    salts = before.salts if before is not None else {}
    return replace(document, disclosure=disclosure.disclosure_of(_blocks(document), fresh, whole, blocks, salts))


def as_given_to(document: JobDocument, party_id: str) -> JobDocument:
    """Return what another party gets of the initiator's document. Without salts, it gets no commitments either."""
    given = document.disclosure
    if given is not None and party_id in given.whole:
        found = replace(document, disclosure=replace(given, whole=()))
    else:
        found = disclosure.without_blocks_of_others(document, _blocks(document), party_id)
    return replace(found, disclosure=None) if found.disclosure == Disclosure() else found


def has_private_parts_not_for(document: JobDocument, party_id: str) -> bool:
    """Return whether the document has private parts of seats of other parties alone."""
    return any(block.private and not disclosure.is_for(block, party_id) for block in _blocks(document))


def withheld_from(document: JobDocument) -> frozenset[Party]:
    """Return the seats whose parameters are not all in this document."""
    given = document.disclosure
    return disclosure.withheld_seats(document, _blocks(document)) if given is not None and given.commitments else _NONE


_NONE: frozenset[Party] = frozenset()


def texts_not_for(document: JobDocument, party_id: str) -> frozenset[str]:
    """Return the texts of the initiator's document that another party does not get."""
    return disclosure.texts_withheld(document, _blocks(document), party_id)


def _blocks(document: JobDocument) -> list[Block]:
    return list(FORMATS[document.format].blocks(document))
