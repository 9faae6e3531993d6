"""Job documents: one function parses a document, and returns it together with its meaning."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from fate_flow.core.model.document import JobDocument, fate_v1_document
from fate_flow.core.model.errors import BadDocument
from fate_flow.core.model.spec import JobSpec
from fate_flow.jobspec import formats
from fate_flow.jobspec.formats import FORMATS, parse
from fate_flow.services.context.ports import Context
from fate_flow.store.values import Document

_MOST_ACCEPTED = 200
_accepting = threading.Lock()


@dataclass(frozen=True)
class ParsedJob:
    """The document of a job, with its meaning."""

    document: Document
    spec: JobSpec
    chosen: tuple[str, ...] = ()         # which versions of stored models were chosen, for the history of the job


def digest_of(document: Document) -> str:
    """Return the digest that a job is bound to; it does not depend on the order of keys."""
    return formats.digest_of(document.content)


def digest_of_received(document: JobDocument) -> str:
    """Return the digest of a document that may be wrong; empty if it is nested too deeply for any parser."""
    try:
        return formats.digest_of(document)
    except RecursionError:
        return ""


def key_of_received(document: JobDocument, digest: str) -> str:
    """Return a key for what this very document says. Two documents of one digest may differ in what they withhold."""
    given = document.disclosure
    return digest if given is None or not given.commitments else f"{digest} {' '.join(sorted(given.commitments))}"


def spec_in_row(context: Context, document: Document) -> JobSpec:
    """Return what a stored document says; a process parses it once. Raises BadDocument if it is of an older release."""
    digest = digest_of(document)
    spec = context.specs.get(digest) or context.accepted.get(digest)
    if spec is None:
        spec = parse_document(context, document.content)
        remember_accepted(context, digest, spec)
    return spec


def readable_spec(context: Context, document: Document | None) -> JobSpec | None:
    """Return what a stored document says; None if it is gone, or names what this party has not any more."""
    try:
        return None if document is None else spec_in_row(context, document)
    except BadDocument:
        return None


def parse_document(context: Context, document: JobDocument) -> JobSpec:
    """Parse a document. Raises BadDocument with the path of the offending key."""
    return parse(document, modules=context.modules, defaults=context.defaults)


def for_rows(document: JobDocument, spec: JobSpec, name: str = "", description: str = "") -> Document:
    """Return what the rows of a job keep of its parsed document.

    `name`, `description`: those sent beside it, for a document that has no place for them."""
    known = FORMATS[document.format]
    dsl, conf = known.as_fate_v1(document, spec)
    name, description = known.title(document, (name, description))
    own = replace(document, disclosure=None)
    return Document(
        dsl, conf, {}, name, description, own=None if own == fate_v1_document(dsl, conf) else own,
        disclosure=document.disclosure,
    )  # fmt: skip


def completed(document: Document, spec: JobSpec, job_id: str) -> Document:
    """Return the document with all defaults filled in, so that a party with other defaults reads the same job."""
    content = FORMATS[document.content.format].completed(document.content, spec, job_id)
    found = for_rows(content, spec, document.name, document.description)
    return replace(
        document, dsl=found.dsl, runtime_conf=found.runtime_conf, name=found.name, description=found.description,
        own=found.own,
    )  # fmt: skip


def remember_accepted(context: Context, digest: str, spec: JobSpec) -> None:
    """Keep what the document of an accepted job says. Documents of refused jobs are not kept: they could fill the
    memory of this server."""
    with _accepting:
        while len(context.accepted) >= _MOST_ACCEPTED:
            del context.accepted[next(iter(context.accepted))]
        context.accepted[digest] = spec
