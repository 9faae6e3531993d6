"""Job documents: one function parses a document, and returns it together with its meaning."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass

from fate_flow.core.access.authority import document_digest
from fate_flow.core.model.spec import JobSpec
from fate_flow.jobspec.fate_v1.reader import parse
from fate_flow.services.context.ports import Context
from fate_flow.store.values import Document

_MOST_ACCEPTED = 200
_accepting = threading.Lock()


@dataclass(frozen=True)
class ParsedJob:
    """The document of a job, with its meaning."""

    document: Document
    spec: JobSpec


def digest_of(document: Document) -> str:
    """Return the digest that a job is bound to; it does not depend on the order of keys."""
    return document_digest(document.dsl, document.runtime_conf)


def exact_key(document: Document) -> str:
    """Return a key that differs for documents with another order of keys: lists show parties and tasks in that order.
    Empty for a document that is nested so deeply that no parser takes it."""
    try:
        text = json.dumps([document.dsl, document.runtime_conf])
    except RecursionError:
        return ""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def read_spec(context: Context, document: Document) -> JobSpec:
    """Parse a document. Raises BadDocument with the path of the offending key."""
    return parse(document.dsl, document.runtime_conf, modules=context.modules, defaults=context.defaults)


def remember_accepted(context: Context, document: Document, spec: JobSpec) -> None:
    """Keep what the document of an accepted job says. Documents of refused jobs are not kept: they could fill the
    memory of this server."""
    with _accepting:
        while len(context.accepted) >= _MOST_ACCEPTED:
            del context.accepted[next(iter(context.accepted))]
        context.accepted[exact_key(document)] = spec
